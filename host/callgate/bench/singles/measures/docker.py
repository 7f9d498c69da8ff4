"""The docker backend: from code to result, tool calls, runs per second, beside `docker run`, llm-sandbox and the jail.

Everything takes turns, and starts when nothing is left to be done about what ran before: pools are full, containers
that have served are gone. What containers weigh and leave behind is in `docker_footprint`.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import anyio
import anyio.to_thread

from callgate import DockerBackend
from callgate.bench.figures import Figure, percentile, ratio, seconds
from callgate.bench.peers.docker_run import DockerRun
from callgate.bench.peers.peer_image import ensure
from callgate.bench.peers.process import LlmSandboxPeer, PeerFailed
from callgate.bench.rows import Row, Verdict
from callgate.bench.singles.context import LIMITS, Bench, DockerSizes, execute, opened, round_trips, still
from callgate.errors import CallgateError
from callgate.runtime import Runtime
from callgate.sandbox.backend import Allowance
from callgate.sandbox.docker import image
from callgate.sandbox.docker.engine import Engine, EngineRefused, EngineUnreachable
from callgate.sandbox.docker.hardening import needs

from . import docker_footprint

__all__ = ["docker"]

_KEY = "docker"
_MEASURE = "docker, pool warm, code to result"
_MOST_SECONDS = 0.010
_POOL = 2
_AFTERMATH_SECONDS = 0.2
"""The engine is still busy for so long with what it says is gone: shims end, mounts go."""
_KEPT, _POOLED, _COLD = "llm-sandbox, session kept", "llm-sandbox, from its pool", "llm-sandbox, cold"


@dataclass(slots=True)
class _Ground:
    """What the measurements stand on."""

    sizes: DockerSizes
    engine: Engine
    docker_run: DockerRun
    llm: LlmSandboxPeer
    described: list[str]

    async def run_docker(self) -> float:
        return await anyio.to_thread.run_sync(self.docker_run.run)

    async def ask(self, what: str) -> float:
        return float((await self.llm.ask(what))["seconds"])


async def docker(bench: Bench) -> list[Row]:
    """All of it; without an engine or the image, a row that says so."""
    try:
        engine = await Engine.connect()
    except EngineUnreachable as reason:
        return [_not_measured(str(reason))]
    try:
        facts = await image.find(engine)
        if facts is None or facts.outdated:
            state = "missing" if facts is None else "of another version of callgate"
            return [
                _not_measured(f"the image {image.DEFAULT_TAG} is {state}: `callgate image build --base host` first")
            ]
        rows: list[Row] = []
        try:
            await _measured(bench, engine, rows)
        except CallgateError as error:  # what is measured is kept
            rows.append(_not_measured(str(error)[:300], "what comes after this" if rows else _MEASURE))
        return rows
    finally:
        await engine.close()


def _not_measured(reason: str, what: str = _MEASURE) -> Row:
    return Row(
        key=_KEY, measure=what, measured="not measured", target=f"≤ {seconds(_MOST_SECONDS)}", verdict="open",
        peer=reason,
    )  # fmt: skip


async def _measured(bench: Bench, engine: Engine, rows: list[Row]) -> None:
    """Add the rows, one measurement after the other."""
    label = f"callgate.bench={os.getpid()}"
    async with LlmSandboxPeer(python=bench.interpreters.get("llm-sandbox", "")) as llm:
        docker_run = DockerRun(image.DEFAULT_TAG, LIMITS, host=engine.host, label=label)
        ground = _Ground(bench.sizes.docker, engine, docker_run, llm, bench.sandboxes)
        try:
            await _prepared(ground, label)
            rows += await _code_to_result(ground)
            rows += await _calls(ground)
            rows.append(await _throughput(ground))
            rows += await docker_footprint.weights(engine, docker_run, llm)
        finally:
            await _removed(engine, label)
    # the peers are gone: what is left is ours
    for per, runs in ground.sizes.left_runs.items():
        rows.append(await docker_footprint.left(per, runs))


async def _prepared(ground: _Ground, label: str) -> None:
    """Peers that lack what they need give up, with the reason."""
    try:
        await ground.llm.ready()
        await ensure(ground.engine, make=ground.sizes.make_image)
        await ground.llm.ask("start", label=label, memory_bytes=needs(Allowance.of(LIMITS)))
    except PeerFailed as reason:
        ground.llm.give_up(str(reason))


async def _removed(engine: Engine, label: str) -> None:
    """Remove containers that peers have left."""
    with anyio.CancelScope(shield=True):
        for found in await engine.call("containers", all=True, filters={"label": [label]}):
            try:
                await engine.call("remove_container", found["Id"], force=True, v=True)
            except EngineRefused as error:
                if error.status not in (404, 409):
                    raise


# code to result


@dataclass(slots=True)
class _Times:
    """Seconds of one subject, and why it stopped where it did.

    Attributes:
        taken: seconds.
        failed: why there are no more; empty where nothing is amiss.
        rounds: when each was taken; empty where everybody was measured equally often.
    """

    taken: list[float] = field(default_factory=list)
    failed: str = ""
    rounds: list[int] = field(default_factory=list)

    def in_rounds_of(self, other: _Times) -> list[float]:
        """Those that `other` has neighbours of."""
        wanted = set(other.rounds)
        return [each for at, each in zip(self.rounds, self.taken, strict=False) if at in wanted] or self.taken


async def _code_to_result(ground: _Ground) -> list[Row]:
    async with _runtimes() as runtimes:
        ground.described.append(runtimes["run"].backend.description)
        ours: dict[str, Callable[[], Awaitable[float]]] = {
            name: lambda runtime=runtime: _timed(runtime) for name, runtime in runtimes.items()  # type: ignore[misc]
        }  # fmt: skip
        peers: dict[str, Callable[[], Awaitable[float]]] = {
            DockerRun.name: ground.run_docker,
            _KEPT: lambda: ground.ask("kept"),
            _POOLED: lambda: ground.ask("pooled"),
            _COLD: lambda: ground.ask("cold"),
        }
        every = {_COLD: max(1, ground.sizes.runs // ground.sizes.cold_sessions)}
        times = await _in_turns({**ours, **peers}, ground.sizes.runs, every, runtimes.values())
    everyone = (DockerRun.name, _KEPT, _POOLED, _COLD)
    return [
        _row(
            f"{_MEASURE}: 1 + 1", times, "run", everyone, most_seconds=_MOST_SECONDS,
            note="a container per run, made ahead; its removal, after the result, is in docker run's figure and in no "
            "other. llm-sandbox: a new process in a container that earlier runs have used, its root file system "
            "writable; cold: from no container to the result",
        ),
        _row(
            "the same without a pool", times, "run, no pool", everyone, in_full=False,
            note="the container is made for the run",
        ),
        _row(
            "the same in a tenant's container, pool warm", times, "tenant", everyone, in_full=False,
            most_seconds=_MOST_SECONDS, note="a fresh guest in a container that has served others",
        ),
        _row(
            "the same in a tenant's container, without a pool", times, "tenant, no pool", everyone, in_full=False,
            note="the guest is forked and confined for the run, in a container that is there",
        ),
        _row("the jail in the same run, pool warm", times, "jail", everyone, in_full=False),
    ]  # fmt: skip


@asynccontextmanager
async def _runtimes() -> AsyncIterator[dict[str, Runtime]]:
    """One of each kind, each of which has run something."""
    async with AsyncExitStack() as stack:
        kinds: dict[str, tuple[object, int]] = {
            "run": (DockerBackend(), _POOL),
            "run, no pool": (DockerBackend(), 0),
            "tenant": (DockerBackend(per="tenant"), _POOL),
            "tenant, no pool": (DockerBackend(per="tenant"), 0),
            "jail": ("jail", _POOL),
        }
        found = {
            name: await stack.enter_async_context(opened(sandbox=sandbox, pool_size=size))
            for name, (sandbox, size) in kinds.items()
        }
        for runtime in found.values():
            await execute(runtime, "1 + 1")
        yield found


async def _timed(runtime: Runtime) -> float:
    return (await execute(runtime, "1 + 1"))[0]


async def _in_turns(
    subjects: Mapping[str, Callable[[], Awaitable[float]]], rounds: int, every: Mapping[str, int], runtimes: Any
) -> dict[str, _Times]:
    """Time every subject once a round, or once in as many rounds as `every` says, until it fails."""
    times = {name: _Times() for name in subjects}
    for round in range(rounds):
        for name, subject in subjects.items():
            mine = times[name]
            if mine.failed or round % every.get(name, 1):
                continue
            await _nothing_else(*runtimes)
            try:
                mine.taken.append(await subject())
                mine.rounds.append(round)
            except PeerFailed as error:
                mine.failed = str(error)
    return times


def _row(
    measure: str, times: Mapping[str, _Times], mine: str, peers: Sequence[str], *, most_seconds: float | None = None,
    note: str = "", in_full: bool = True,
) -> Row:  # fmt: skip
    """Ours beside the peers; the ratio of the row is to the first of them that gave a figure.

    Args:
        measure: what was measured.
        times: of everybody.
        mine: who of them is ours.
        peers: and who the peers are.
        most_seconds: the target, for the p50.
        note: for the reader.
        in_full: with the peers' figures, which another row of the same times may have said already.
    """
    ours = times[mine].taken
    figure = Figure.of(ours)
    told, shares = [], []
    numbers: dict[str, Any] = {"ours": asdict(figure)}
    for name in peers:
        theirs = times[name]
        if theirs.taken:
            other, share = Figure.of(theirs.taken), ratio(times[mine].in_rounds_of(theirs), theirs.taken)
            shares.append(share)
            numbers[name] = {**asdict(other), "ratio": share}
            told.append(f"{name}: {other}, ours is {share:.2g} ×" if in_full else f"{share:.2g} × {name}")
        if theirs.failed:
            told.append(f"{name}: {'stopped' if theirs.taken else 'not measured'}: {theirs.failed}")
    verdict: Verdict = "for information"
    if most_seconds is not None:
        verdict = "met" if figure.p50 <= most_seconds else "missed"
    return Row(
        key=_KEY, measure=measure, measured=str(figure), target=f"≤ {seconds(most_seconds)}" if most_seconds else "",
        verdict=verdict, peer="; ".join(told), ratio=shares[0] if shares else None, note=note, numbers=numbers,
    )  # fmt: skip


# tool calls


async def _calls(ground: _Ground) -> list[Row]:
    calls = ground.sizes.calls
    one_by_one = f"for n in range({calls + 1}):\n    await tick(n=n)\n"
    gathered = f"import asyncio\nlen(await asyncio.gather(*[tick(n=n) for n in range({calls})]))"
    trips = {"docker": _Times(), "jail": _Times()}
    whole = {"docker": _Times(), "jail": _Times()}
    async with opened(sandbox=DockerBackend(), pool_size=1) as container, opened(pool_size=1) as jail:
        for _ in range(ground.sizes.programs):
            for name, runtime in (("docker", container), ("jail", jail)):
                await _nothing_else(container, jail)
                round_trips()
                await execute(runtime, one_by_one)
                trips[name].taken += round_trips()
                await _nothing_else(container, jail)
                whole[name].taken.append((await execute(runtime, gathered))[0] / calls)
    round_trips()
    return [
        _row(
            f"tool call round trip, {calls:,} in one program, sequential", trips, "docker", ["jail"],
            note="the same wire, in frames, through the engine, the container's shim and its supervisor",
        ),
        _row(
            f"{calls:,} gathered calls, per call", whole, "docker", ["jail"],
            note="the run's own start and end are in it",
        ),
    ]  # fmt: skip


async def _nothing_else(*runtimes: Runtime) -> None:
    """Wait until all of them are at rest, and the engine is."""
    for runtime in runtimes:
        await still(runtime)
    await anyio.sleep(_AFTERMATH_SECONDS)


# runs per second


async def _throughput(ground: _Ground) -> Row:
    """Rounds in turns; each figure is the median of its rounds."""
    how_long = ground.sizes.round_seconds
    in_flight = {"docker, a container per run": 4, "docker, tenant": 4, "jail": 8, DockerRun.name: 2, "llm-sandbox": 2}
    rates: dict[str, list[float]] = {name: [] for name in in_flight}
    failed: dict[str, str] = {}
    async with AsyncExitStack() as stack:
        runtimes = {
            name: await stack.enter_async_context(opened(sandbox=sandbox, pool_size=4))
            for name, sandbox in zip(in_flight, (DockerBackend(), DockerBackend(per="tenant"), "jail"), strict=False)
        }

        async def rate(name: str) -> float:
            if name == "llm-sandbox":
                answer = await ground.llm.ask("throughput", seconds=how_long, in_flight=in_flight[name])
                return float(answer["runs"] / answer["seconds"])
            if name == DockerRun.name:
                return await _rate(ground.run_docker, in_flight[name], how_long)
            return await _rate(lambda: _timed(runtimes[name]), in_flight[name], how_long)

        await _rate(lambda: _timed(runtimes["docker, tenant"]), in_flight["docker, tenant"], how_long)  # they are there
        for _ in range(ground.sizes.rounds):
            for name in in_flight:
                await _nothing_else(*runtimes.values())
                if name not in failed:
                    try:
                        rates[name].append(await rate(name))
                    except PeerFailed as error:
                        failed[name] = str(error)
    told = {name: f"{name}, {in_flight[name]} in flight: {_per_second(each)}" for name, each in rates.items() if each}
    told |= {name: f"{name}: {reason}" for name, reason in failed.items()}
    ours = [told.pop(name) for name in runtimes if name != "jail"]
    return Row(
        key=_KEY, measure="runs per second", measured="; ".join(ours), peer="; ".join(told.values()),
        note="each round starts with full pools, which adds up to 4 runs to it; llm-sandbox: sessions that are kept",
        numbers={"per_second": rates},
    )  # fmt: skip


async def _rate(run_one: Callable[[], Awaitable[float]], in_flight: int, how_long: float) -> float:
    """Runs per second when runs start for `how_long` seconds. Raises `PeerFailed` as `run_one` does."""
    failures: list[PeerFailed] = []
    started = time.perf_counter()
    ended = 0

    async def work() -> None:
        nonlocal ended
        while time.perf_counter() - started < how_long and not failures:
            try:
                await run_one()
            except PeerFailed as error:
                failures.append(error)
                return
            ended += 1

    async with anyio.create_task_group() as tasks:
        for _ in range(in_flight):
            tasks.start_soon(work)
    if failures:
        raise failures[0]
    return ended / (time.perf_counter() - started)


def _per_second(rates: Sequence[float]) -> str:
    ordered = sorted(rates)
    return f"{percentile(ordered, 0.5):.3g}/s ({ordered[0]:.3g} to {ordered[-1]:.3g})"
