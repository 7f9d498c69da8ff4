"""What every measurement is given: how much to measure, the peers, and the tools that programs call."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import anyio

from callgate.bench.peers.process import Bubblewrap, MontyPeer
from callgate.limits import Limits
from callgate.runtime import CodeResult, Runtime
from callgate.tools import tool

__all__ = [
    "CALLS",
    "FULL",
    "LIMITS",
    "QUICK",
    "TINY",
    "Bench",
    "BenchFailed",
    "DockerSizes",
    "Sizes",
    "calm",
    "execute",
    "median",
    "opened",
    "round_trips",
    "still",
]

CALLS = Path("../shared/data/calls")
LIMITS = Limits(wall_seconds=600.0, cpu_seconds=600.0, max_tool_calls=1_000_000)
_SETTLE_SECONDS = 0.015  # a guest is in the pool once it is forked; until it waits for its program takes about 5 ms

_stamps: list[float] = []


class BenchFailed(Exception):
    """callgate itself did not do what a measurement needs; the figure would mean nothing."""


@tool(read_only=True)
async def tick(n: int = 0) -> int:
    """The cheapest tool there is; it notes when it was called."""
    _stamps.append(time.perf_counter())
    return n


@tool(read_only=True)
async def pause(seconds: float) -> float:
    """A tool that takes its time."""
    await anyio.sleep(seconds)
    return seconds


def round_trips() -> list[float]:
    """The times between the calls of `tick` since this was asked last."""
    trips = [later - earlier for earlier, later in itertools.pairwise(_stamps)]
    _stamps.clear()
    return trips


@dataclass(frozen=True, kw_only=True, slots=True)
class DockerSizes:
    """How often each thing is measured in containers.

    Attributes:
        runs: of each kind.
        cold_sessions: of a peer, from nothing to a result.
        programs: with `calls` tool calls each, one after the other, and again gathered.
        rounds: of throughput.
        round_seconds: about what one side's part of a round takes.
        left_runs: after which it is seen what they leave behind, by the backend's ``per``.
        make_image: whether to make the image that a peer needs, which takes a minute or two.
    """

    runs: int
    cold_sessions: int
    programs: int
    calls: int
    rounds: int
    round_seconds: float
    left_runs: Mapping[str, int]
    make_image: bool = True


@dataclass(frozen=True, slots=True)
class Sizes:
    """How often each thing is measured."""

    runs: int
    cold_runs: int
    calls: int
    gathers: int
    long_calls: int
    rounds: int
    round_runs: int
    loops: int
    loop_length: int
    flat_runs: int
    plan_runs: Mapping[int, int]
    """Runs of a plan with so many steps, the smallest plan first."""
    peer_seconds: float
    """What a slow peer may spend on plans of one size."""
    dags: int
    dag_steps: int
    dag_median_seconds: float
    early_runs: int
    tokens_per_second: float
    searches: int
    """So many queries of each set are timed with each peer of the tool search."""
    searches_each: int
    """Of so many queries, the recall of the peers is measured with one."""
    docker: DockerSizes


FULL = Sizes(
    400, 60, 2000, 25, 100_000, 5, 200, 7, 4_000_000, 1000,
    plan_runs={10: 200, 1000: 20, 10_000: 7, 100_000: 5}, peer_seconds=30.0,
    dags=5, dag_steps=1000, dag_median_seconds=0.02, early_runs=7, tokens_per_second=80.0,
    searches=150, searches_each=1,
    docker=DockerSizes(
        runs=60, cold_sessions=10, programs=7, calls=1000, rounds=5, round_seconds=4.0,
        left_runs={"tenant": 500, "run": 500},
    ),
)  # fmt: skip
QUICK = Sizes(
    60, 12, 300, 5, 10_000, 3, 60, 3, 300_000, 200,
    plan_runs={10: 30, 1000: 5, 10_000: 2}, peer_seconds=3.0,
    dags=1, dag_steps=1000, dag_median_seconds=0.02, early_runs=2, tokens_per_second=200.0,
    searches=30, searches_each=20,
    docker=DockerSizes(
        runs=12, cold_sessions=3, programs=2, calls=1000, rounds=2, round_seconds=2.0,
        left_runs={"tenant": 100, "run": 20},
    ),
)  # fmt: skip
TINY = Sizes(
    2, 1, 5, 1, 20, 1, 4, 1, 1000, 5,
    plan_runs={10: 2, 30: 1}, peer_seconds=10.0,
    dags=1, dag_steps=30, dag_median_seconds=0.001, early_runs=1, tokens_per_second=5000.0,
    searches=2, searches_each=400,
    docker=DockerSizes(
        runs=1, cold_sessions=1, programs=1, calls=10, rounds=1, round_seconds=0.1, left_runs={"tenant": 4, "run": 2},
        make_image=False,
    ),
)  # fmt: skip


@dataclass(slots=True)
class Bench:
    """One run of the harness."""

    sizes: Sizes
    monty: MontyPeer
    bubblewrap: Bubblewrap
    calls: Path = CALLS
    """A folder with requests and the calls that answer them; see `gold`."""
    interpreters: Mapping[str, str] = field(default_factory=dict)
    """Of environments with a peer's package, by the contestant's name; the harness's own has it where there is none."""
    sandboxes: list[str] = field(default_factory=list)
    """Descriptions of those that were measured besides the jail."""


@asynccontextmanager
async def opened(**options: object) -> AsyncIterator[Runtime]:
    """A runtime of the jail, unless told otherwise, with the two tools and generous limits, its pool full."""
    sandbox = options.pop("sandbox", "jail")
    async with Runtime([tick, pause], sandbox=sandbox, limits=LIMITS, **options) as runtime:  # type: ignore[arg-type]
        await calm(runtime)
        yield runtime


async def calm(runtime: Runtime) -> None:
    """Wait until the pool is full and its guests wait for programs: "pool warm" means that."""
    with anyio.fail_after(30):
        while runtime._pool.idle < runtime._pool._size:  # noqa: ASYNC110 (the pool tells nobody)
            await anyio.sleep(0.001)
    await anyio.sleep(_SETTLE_SECONDS)


async def still(runtime: Runtime) -> None:
    """As `calm`, and nothing is left to be done about guests that have ended."""
    with anyio.fail_after(60):
        while runtime._pool._ending or runtime._pool.idle < runtime._pool._size:  # noqa: ASYNC110 (the pool tells nobody)
            await anyio.sleep(0.002)
    await anyio.sleep(_SETTLE_SECONDS)


async def execute(
    runtime: Runtime, code: str, *, path: Literal["auto", "plan", "sandbox"] = "sandbox"
) -> tuple[float, CodeResult]:  # fmt: skip
    """Run `code`; the seconds it took, and the result. Raises `BenchFailed` where the program did not succeed."""
    started = time.perf_counter()
    result = await runtime.execute_code(code, path=path)
    took = time.perf_counter() - started
    if not result.ok:
        raise BenchFailed(result.for_model(2000))
    return took, result


def median(values: Sequence[float]) -> float:
    """The middle one."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
