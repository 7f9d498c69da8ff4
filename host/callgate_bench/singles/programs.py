"""Programs beside Monty, bubblewrap, docker run and CPython: from code to result, calls, memory, throughput."""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from callgate_bench.contest.process import PeerFailed
from callgate_bench.figures import Figure, Row, seconds, verdict_of
from callgate_bench.guests import MEGABYTE, Memory, descendants, memory_of
from callgate_bench.singles.bench import OLD, Bench, beside, of_command, opened
from callgate_bench.singles.shapes import run_many

__all__ = ["cold", "docker", "in_turns", "loop", "many", "memory", "throughput"]

_SUBSET = "Monty: a subset of Python, no kernel boundary"
_THREE = (
    "oslo = await tick(n=4)\nlima = await tick(n=19)\ncairo = await tick(n=31)\n"
    'print(f"Oslo {oslo}, Lima {lima}, Cairo {cairo}")\nmax(oslo, lima, cairo)\n'
)
_IMPORTED = (
    "asyncio", "calendar", "csv", "dataclasses", "decimal", "difflib", "fractions", "hashlib", "json", "pathlib",
    "statistics", "tempfile", "traceback", "uuid", "zoneinfo",
)  # fmt: skip
"""What `callgate_guest.zygote` imports ahead, less what these import themselves."""
_DOCKER = (
    "docker", "run", "--rm", "--network", "none", "--ipc", "none", "--read-only", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges:true", "--pids-limit", "64", "--memory", "1g", "--cpus", "1",
    "--log-driver", "none", "--user", "65534:65534", "--tmpfs", "/tmp:rw,noexec,nosuid,nodev,size=64m",
    "--entrypoint", "/python/bin/python3", "callgate-sandbox", "-I", "-S", "-B", "-c", "print(1 + 1)",
)  # fmt: skip
"""Hardened as callgate's own containers are."""


def _gathered(calls: int, call: str) -> str:
    return f"import asyncio\nlen(await asyncio.gather(*[{call} for n in range({calls})]))"


def _one_by_one(calls: int) -> str:
    return f"for n in range({calls}):\n    await tick(n=n)\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class _InTurns:
    """A program from code to result, in turns with Monty.

    Attributes:
        measure: what is measured.
        code: of the program.
        most: the target, times Monty's.
        within: the target in seconds.
        note: for the reader.
        per: what the seconds are divided by.
        figure: ``seconds`` of the run, or ``round_trips``, the times between the calls' arrivals at the host.
        path: that callgate takes.
        fresh: the program is another one each time.
        often: as often as a small program.
    """

    measure: str
    code: str
    most: float | None = None
    within: float | None = None
    note: str = ""
    per: int = 1
    figure: str = "seconds"
    path: str = "sandbox"
    fresh: bool = False
    often: bool = False


_WARM, _FAST = "fresh jailed CPython, code to result, pool warm: ", "fast path, 3 calls, code to result: a program "
_IN_TURNS = {
    "warm": (
        _InTurns(measure=_WARM + "1 + 1", code="1 + 1", most=0.9, note=_SUBSET, often=True),
        _InTurns(measure=_WARM + "one awaited call", code="await tick(n=1)", most=1.0, note=_SUBSET, often=True),
    ),
    "call": (
        _InTurns(
            measure="tool call round trip from a program, sequential", code=_one_by_one(101), most=0.45,
            figure="round_trips", note="validated, gated and recorded here; a bare function there",
        ),
    ),
    "gather": (
        _InTurns(
            measure="1,000 gathered calls, per call", code=_gathered(1000, "tick(n=n)"), per=1000, most=0.18,
            note="the run's own start and end are in it",
        ),
    ),
    "fast": (
        _InTurns(measure=_FAST + "seen before", code=_THREE, path="plan", most=0.3, often=True),
        _InTurns(measure=_FAST + "never seen", code=_THREE, path="plan", most=0.6, often=True, fresh=True),
    ),
    "slow": (
        _InTurns(
            measure="20 gathered tools of 0.1 s, code to result", code=_gathered(20, "pause(seconds=0.1)"), within=0.11
        ),
    ),
}  # fmt: skip


async def in_turns(key: str, bench: Bench) -> list[Row]:
    """The rows of `_IN_TURNS` for a key. Our pool is full again before either side begins."""
    rows = []
    async with opened(bench) as guests:
        for each in _IN_TURNS[key]:
            number = itertools.count()

            async def ours(each: _InTurns = each, number: Iterator[int] = number) -> list[float]:
                code = f"{each.code}\n# {next(number)}\n" if each.fresh else each.code
                return _values(each, await guests.measure(code, path=each.path))

            async def theirs(each: _InTurns = each) -> list[float]:
                await guests.calm()
                return _values(each, await bench.monty.ask("measure", code=each.code))

            await guests.measure(each.code, path=each.path)
            rounds = bench.sizes.runs if each.often else bench.sizes.few
            judged = {"most": each.most, "within": each.within, "note": each.note}
            rows.append(await beside(key, each.measure, rounds, ours, "Monty", theirs, **judged))
    return rows


def _values(each: _InTurns, found: dict[str, Any]) -> list[float]:
    values = found[each.figure]
    return [value / each.per for value in (values if isinstance(values, list) else [values])]


async def _beside_command(
    bench: Bench, key: str, measure: str, peer: str, command: Sequence[str], *, sandbox: str, pool: int, **judged: Any
) -> list[Row]:
    """`1 + 1`, from code to result, beside a command that starts a bare Python for it."""
    async with opened(bench, sandbox, pool) as guests:

        async def ours() -> list[float]:
            return [(await guests.measure("1 + 1"))["seconds"]]

        await ours()
        return [await beside(key, measure, bench.sizes.few, ours, peer, partial(of_command, command), **judged)]


async def cold(bench: Bench) -> list[Row]:
    """A guest opened for the run against bubblewrap starting a Python that imports what a guest has."""
    program = "".join(f"import {name}\n" for name in _IMPORTED) + "print(1 + 1)"
    python = getattr(sys, "_base_executable", None) or sys.executable
    jail = ("bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/", python, "-I", "-S", "-c", program)
    return await _beside_command(
        bench, "cold", "the same without a pool: 1 + 1", "bubblewrap + Python with a guest's imports", jail,
        sandbox="jail", pool=0, within=3.2e-3,
    )  # fmt: skip


async def docker(bench: Bench) -> list[Row]:
    """A container of a full pool against `docker run`."""
    return await _beside_command(
        bench, "docker", "docker, pool warm, code to result: 1 + 1", "docker run", _DOCKER, sandbox="docker", pool=2,
        within=5e-3,
        note="a container per run, made ahead; its removal, after the result, is in docker run's figure alone",
    )  # fmt: skip


async def many(bench: Bench) -> list[Row]:
    """One program with very many calls."""
    wanted = bench.sizes.calls
    async with opened(bench) as guests:
        took, result = await guests.execute(_one_by_one(wanted))
    done = len(result.calls)
    return [
        Row(
            key="many", measure=f"{wanted:,} calls in one program",
            measured=f"{done:,} calls in {took:.1f} s, {seconds(took / wanted)} each", target=f"{wanted:,} calls",
            verdict=verdict_of(done == wanted),
            numbers={"calls": done, "seconds": took, "per_call_seconds": took / wanted},
        )
    ]  # fmt: skip


async def loop(bench: Bench) -> list[Row]:
    """A loop that only computes, in the guest and in this interpreter: processor time of the loop itself."""
    code = (
        "import time\ndef work(n):\n    total = 0\n"
        "    for i in range(n):\n        total += i * i % 7\n    return total\n"
        f"started = time.process_time()\nwork({bench.sizes.loop_length})\ntook = time.process_time() - started\ntook\n"
    )
    async with opened(bench) as guests:

        async def ours() -> list[float]:
            await guests.calm()
            return [(await guests.execute(code))[1].value]

        async def theirs() -> list[float]:
            names: dict[str, float] = {}
            exec(compile(code, "loop", "exec"), names)
            return [names["took"]]

        row = await beside(
            "loop", "a CPU-bound loop in the guest", max(3, bench.sizes.few // 3), ours, "CPython", theirs, most=1.05,
            note="1.0, and what two runs of the same interpreter differ by",
        )  # fmt: skip
    return [row]


async def memory(bench: Bench) -> list[Row]:
    """Guests of a full pool, as the kernel counts their pages, beside Monty's workers after a run."""
    most = 3.2 if OLD else 1.8
    measure, target = "memory per live idle guest", f"≤ {most} MB"
    try:
        await bench.monty.ask("measure", code="1 + 1")
        peer_text = f"Monty: {_middle(descendants(bench.monty.pid or 0))} a worker, after a run"
    except (PeerFailed, OSError, statistics.StatisticsError) as error:
        peer_text = f"Monty: {error}"
    async with opened(bench) as guests:
        idle = _middle(guests.pids())
    return [
        Row(
            key="memory", measure=measure, measured=str(idle), target=target, peer=peer_text, numbers=asdict(idle),
            verdict=verdict_of(idle.own <= most * MEGABYTE),
        )
    ]  # fmt: skip


def _middle(pids: list[int]) -> Memory:
    each = [memory_of(pid) for pid in pids]
    return Memory(
        int(statistics.median(one.own for one in each)), int(statistics.median(one.share for one in each))
    )  # fmt: skip


async def throughput(bench: Bench) -> list[Row]:
    """Runs per second with 8 in flight, in rounds, Monty's in between."""
    runs, least = bench.sizes.runs // 2, 450 if OLD else 600
    ours: list[float] = []
    theirs: list[float] = []
    failed = ""
    async with opened(bench) as guests:
        for _ in range(max(1, bench.sizes.few // 5)):
            await guests.calm()
            ours.append(runs / await run_many(lambda: guests.execute("1 + 1"), runs, 8))
            await guests.calm()
            try:
                if not failed:
                    answer = await bench.monty.ask("throughput", code="1 + 1", runs=runs, in_flight=8)
                    theirs.append(runs / answer["seconds"])
            except PeerFailed as error:
                failed = str(error)
    peer_text = f"Monty, which reuses its workers: {_rate(theirs)}" if theirs else f"Monty: {failed}"
    return [
        Row(
            key="throughput", measure="runs per second, a fresh jail each, 8 in flight", measured=_rate(ours),
            target=f"≥ {least}/s", verdict=verdict_of(statistics.median(ours) >= least), peer=peer_text,
            numbers={"ours": asdict(Figure.of([1 / each for each in ours])), "peer_per_second": theirs},
        )
    ]  # fmt: skip


def _rate(rates: list[float]) -> str:
    return f"{statistics.median(rates):.0f}/s ({min(rates):.0f} to {max(rates):.0f})"
