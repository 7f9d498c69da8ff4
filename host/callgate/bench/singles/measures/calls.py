"""Tool calls from a program: one after the other, gathered, very many, and slow ones."""

from __future__ import annotations

from callgate.bench.figures import Figure, seconds
from callgate.bench.peers.process import PeerFailed
from callgate.bench.rows import Row, against
from callgate.bench.singles.context import Bench, calm, execute, opened, round_trips

__all__ = ["gathered", "many", "sequential", "slow_tools"]

_GATHERED = 1000
_PARALLEL, _TOOL_SECONDS = 20, 0.1
_PEER_CALLS = 5000


def _sequence(calls: int) -> str:
    return f"for n in range({calls}):\n    await tick(n=n)\n"


def _gather(calls: int, call: str) -> str:
    return f"import asyncio\nlen(await asyncio.gather(*[{call} for n in range({calls})]))"


async def sequential(bench: Bench) -> list[Row]:
    """The time between two calls' arrivals at the host, on both sides, in blocks that take turns."""
    ours: list[float] = []
    theirs: list[float] = []
    failed = ""
    code = _sequence(101)
    async with opened() as runtime:
        await execute(runtime, code)
        for _ in range(max(1, bench.sizes.calls // 100)):
            await calm(runtime)
            round_trips()
            await execute(runtime, code)
            ours += round_trips()
            if not failed:
                await calm(runtime)
                try:
                    theirs += (await bench.monty.ask("round_trips", code=code))["seconds"]
                except PeerFailed as error:
                    failed = str(error)
    return [
        against(
            "call", "tool call round trip from a program, sequential", ours, peer=bench.monty.name, theirs=theirs,
            most=0.35, failed=failed, note="validated, gated and recorded here; a bare function there",
        )
    ]  # fmt: skip


async def gathered(bench: Bench) -> list[Row]:
    """A whole run of 1,000 gathered calls, divided by their number."""
    ours: list[float] = []
    theirs: list[float] = []
    failed = ""
    code = _gather(_GATHERED, "tick(n=n)")
    async with opened() as runtime:
        for _ in range(bench.sizes.gathers):
            await calm(runtime)
            ours.append((await execute(runtime, code))[0] / _GATHERED)
            if not failed:
                await calm(runtime)
                try:
                    theirs.append((await bench.monty.ask("run", code=code))["seconds"][0] / _GATHERED)
                except PeerFailed as error:
                    failed = str(error)
    return [
        against(
            "gather", f"{_GATHERED:,} gathered calls, per call", ours, peer=bench.monty.name, theirs=theirs, most=0.2,
            failed=failed, note="the run's own start and end are in it",
        )
    ]  # fmt: skip


async def many(bench: Bench) -> list[Row]:
    """One program with very many calls; where the peer stops by default, and what it takes with that lifted."""
    wanted = bench.sizes.long_calls
    async with opened() as runtime:
        took, result = await execute(runtime, _sequence(wanted))
        round_trips()
    done = len(result.calls)
    try:
        ended = await bench.monty.ask("limited", code=_sequence(wanted))
        told = f"Monty stops after {ended['calls']} calls by default ({ended['error'] or 'no error'})"
        peer_calls = min(_PEER_CALLS, wanted)
        theirs = (await bench.monty.ask("run", code=_sequence(peer_calls)))["seconds"][0] / peer_calls
        told += f"; with max_suspensions raised, {peer_calls:,} calls take {seconds(theirs)} each"
    except PeerFailed as error:
        told = f"Monty: {error}"
    return [
        Row(
            key="many",
            measure=f"{wanted:,} calls in one program",
            measured=f"{done:,} calls in {took:.1f} s, {seconds(took / wanted)} each",
            target="100,000 calls" if wanted >= 100_000 else f"{wanted:,} calls",
            verdict="met" if done == wanted else "missed",
            peer=told,
            numbers={"calls": done, "seconds": took, "per_call_seconds": took / wanted},
        )
    ]


async def slow_tools(bench: Bench) -> list[Row]:
    """20 tools of 0.1 s each, gathered: how much the machinery adds to 0.1 s."""
    ours: list[float] = []
    theirs: list[float] = []
    failed = ""
    code = _gather(_PARALLEL, f"pause(seconds={_TOOL_SECONDS})")
    async with opened() as runtime:
        for _ in range(bench.sizes.gathers):
            await calm(runtime)
            ours.append((await execute(runtime, code))[0])
            if not failed:
                try:
                    theirs += (await bench.monty.ask("run", code=code))["seconds"]
                except PeerFailed as error:
                    failed = str(error)
    most = 1.1 * _TOOL_SECONDS + 0.005
    row = against(
        "slow", f"{_PARALLEL} gathered tools of {_TOOL_SECONDS:g} s, code to result", ours, peer=bench.monty.name,
        theirs=theirs, failed=failed,
    )  # fmt: skip
    verdict = "met" if Figure.of(ours).p50 <= most else "missed"
    return [Row(**{**row.to_dict(), "target": f"≤ {most * 1e3:.0f} ms", "verdict": verdict})]
