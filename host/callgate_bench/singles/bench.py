"""What every single measure is given: how much to measure, the peers, the tools that programs call, and their turns."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from callgate import CodeResult, Limits, Runtime, tool
from callgate_bench.contest.process import PeerFailed, PeerProcess
from callgate_bench.figures import Row, timed
from callgate_bench.guests import Pool

__all__ = [
    "CALLS", "FULL", "LIMITS", "OLD", "QUICK", "TINY", "Bench", "BenchFailed", "Guests", "NotMeasured", "Sizes",
    "beside", "of_command", "opened", "tick",
]  # fmt: skip

CALLS = Path("../shared/data/calls")
OLD = sys.version_info < (3, 12)
"""No immortal objects: guests are dearer, and have targets of their own."""
LIMITS = Limits(wall_seconds=600.0, cpu_seconds=600.0, max_tool_calls=1_000_000, max_message_bytes=64 << 20)

_stamps: list[float] = []


class BenchFailed(Exception):
    """callgate itself did not do what a measurement needs; the figure would mean nothing."""


class NotMeasured(Exception):
    """Something that a measurement needs is not on this machine; the text says what."""


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """How often each thing is measured.

    Attributes:
        runs: of a small program.
        few: of what takes longer.
        calls: in one program.
        plan_steps: of a plan that is timed, the fewer first.
        dag_steps: of a plan with slow tools.
        loop_length: turns of a loop that only computes.
        searches: queries of each set that are timed.
        durable_calls: of a durable run.
        waiting_runs: whose memory is counted.
        listed_runs: among which a page is listed.
    """

    runs: int
    few: int
    calls: int
    plan_steps: tuple[int, int]
    dag_steps: int = 1000
    loop_length: int = 300_000
    searches: int = 400
    durable_calls: int = 1000
    waiting_runs: int = 2000
    listed_runs: int = 100_000


FULL = Sizes(
    runs=400,
    few=25,
    calls=100_000,
    plan_steps=(1000, 100_000),
    loop_length=4_000_000,
    searches=10_000,
    waiting_runs=10_000,
)
QUICK = Sizes(runs=60, few=5, calls=10_000, plan_steps=(1000, 10_000))
TINY = Sizes(
    runs=2,
    few=1,
    calls=20,
    plan_steps=(10, 30),
    dag_steps=30,
    loop_length=1000,
    searches=5,
    durable_calls=20,
    waiting_runs=10,
    listed_runs=300,
)


@dataclass(slots=True)
class Bench:
    """One run of the single measures.

    Attributes:
        sizes: how often.
        monty: its process.
        langgraph: its process.
        dbos: its process.
        calls: a folder beside which the data of the tool search is.
        sandboxes: what confined callgate's programs.
    """

    sizes: Sizes
    monty: PeerProcess
    langgraph: PeerProcess
    dbos: PeerProcess
    calls: Path = CALLS
    sandboxes: list[str] = field(default_factory=list)


class Guests:
    """A runtime whose pool is full before each run.

    Args:
        runtime: entered.
        pool: of its guests; None where it is made without a pool.
    """

    def __init__(self, runtime: Runtime, pool: Pool | None) -> None:
        self.runtime = runtime
        self._pool = pool

    async def calm(self) -> None:
        """Wait until the pool is full and its guests wait for programs: "pool warm" means that."""
        if self._pool is not None:
            await self._pool.calm(self.runtime)

    def pids(self) -> list[int]:
        """Process ids of the guests that wait in the pool."""
        return [] if self._pool is None else self._pool.guests()

    async def execute(self, code: str, *, path: str = "sandbox") -> tuple[float, CodeResult]:
        """Run a program; the seconds it took, and the result. Raises `BenchFailed` where it did not succeed."""
        started = time.perf_counter()
        result = await self.runtime.execute_code(code, path="sandbox" if path == "sandbox" else "auto")
        took = time.perf_counter() - started
        if not result.ok or result.path != path:
            raise BenchFailed(f"in the {result.path}: {result.for_model(2000)}")
        return took, result

    async def measure(self, code: str, *, path: str = "sandbox") -> dict[str, Any]:
        """How long a program takes, all at rest before, and the times between its calls of `tick`, as Monty says it."""
        await self.calm()
        _stamps.clear()
        seconds, _ = await self.execute(code, path=path)
        return {"seconds": seconds, "round_trips": [after - before for before, after in itertools.pairwise(_stamps)]}


@asynccontextmanager
async def opened(bench: Bench, sandbox: Any = "jail", pool_size: int = 4) -> AsyncIterator[Guests]:
    """A runtime with the two tools and generous limits, its pool full."""
    pool = Pool(pool_size)
    async with Runtime([tick, pause], sandbox=sandbox, limits=LIMITS, pool_size=pool_size) as runtime:
        if sandbox is not None and runtime.backend.description not in bench.sandboxes:
            bench.sandboxes.append(runtime.backend.description)
        guests = Guests(runtime, pool if pool_size and sandbox is not None else None)
        await guests.calm()
        yield guests


async def beside(
    key: str,
    measure: str,
    rounds: int,
    ours: Callable[[], Awaitable[list[float]]],
    peer: str,
    theirs: Callable[[], Awaitable[list[float]]],
    **judged: Any,
) -> Row:
    """Measure both sides in turns, until the peer fails.

    Args:
        key: the group.
        measure: what is measured.
        rounds: how often.
        ours: gives seconds.
        peer: its name.
        theirs: gives seconds, as many as `ours`; may raise `PeerFailed`.
        judged: `most` or `within`, and `note`, of `rows.timed`.
    """
    mine: list[float] = []
    others: list[float] = []
    failed = ""
    for _ in range(rounds):
        mine += await ours()
        if not failed:
            try:
                others += await theirs()
            except PeerFailed as error:
                failed = str(error)
    return timed(key, measure, mine, peer=peer, theirs=others, failed=failed, **judged)


async def of_command(command: Sequence[str]) -> list[float]:
    """How many seconds a command takes that has to print 2. Raises `PeerFailed` where it does not."""
    if shutil.which(command[0]) is None:
        raise PeerFailed(f"{command[0]} is not installed")
    started = time.perf_counter()
    with anyio.move_on_after(60):
        done = await anyio.run_process(command, check=False, stdin=subprocess.DEVNULL)
        if done.stdout.strip() == b"2":
            return [time.perf_counter() - started]
        raise PeerFailed(done.stderr.decode(errors="replace").strip()[:200] or f"status {done.returncode}")
    raise PeerFailed("it did not end within 60 s")
