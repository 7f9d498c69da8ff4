"""Durable runs beside ordinary ones and beside DBOS on SQLite: what a call costs, replay, and what waiting runs take.

On a tmpfs, where a commit costs processor time alone, and on the disk of the cache folder, whose own time for a write
is told beside it.
"""

from __future__ import annotations

import gc
import itertools
import mmap
import os
import tempfile
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import anyio

from callgate import Run, Runtime, tool
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import Approval, CallKey, StateChange, StoredCall, StoredRun
from callgate_bench.contest.process import cache_folder
from callgate_bench.figures import Figure, Row, seconds, timed, verdict_of
from callgate_bench.guests import descendants
from callgate_bench.singles.bench import LIMITS, Bench, BenchFailed, NotMeasured, beside, tick
from callgate_bench.singles.shapes import run_many

__all__ = ["durable"]

_IN_FLIGHT = 25
_MOST_MORE, _MOST_REPLAY, _MOST_LISTED, _MOST_BYTES = 0.5e-3, 0.05, 0.05, 4096
_PAGE = 100
_TMPFS = Path("/dev/shm")
_WRITES, _BLOCK = 200, b"\0" * 4096
_LIMITS = replace(LIMITS, max_concurrent_calls=_IN_FLIGHT)


@tool
async def touch(n: int = 0) -> int:
    """The cheapest tool that may have effects."""
    return n


@tool(requires_approval=True)
async def confirm(n: int = 0) -> int:
    """The cheapest tool that waits for a person."""
    return n


_TOOLS = (tick, touch, confirm)
_ON_HOST = "import asyncio\nlen(await asyncio.gather(*[{tool}(n=n) for n in range({calls})]))\n"
_IN_GUEST = "async def begun(n):\n    return await {tool}(n=n)\n" + _ON_HOST.replace("{tool}(n=n)", "begun(n)")
_PROGRAMS = {
    "a call with effects, from a program in the sandbox": ("sandbox", _IN_GUEST, "touch"),
    "a call with effects, on the fast path": ("plan", _ON_HOST, "touch"),
    "a read, from a program in the sandbox": ("sandbox", _IN_GUEST, "tick"),
}
"""By what is measured: the path, the program and its tool."""


@contextmanager
def _folder(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        raise NotMeasured(f"there is no {place}")
    with tempfile.TemporaryDirectory(dir=place, prefix="callgate-durable-") as folder:
        yield Path(folder)


@asynccontextmanager
async def _opened(kept: Path | None, sandbox: str | None = "jail", pool_size: int = 2) -> AsyncIterator[Runtime]:
    async with Runtime(_TOOLS, sandbox=sandbox, limits=_LIMITS, pool_size=pool_size, durable=kept) as runtime:
        yield runtime


async def _took(runtime: Runtime, code: str, path: str, *, started_durably: bool) -> float:
    """Seconds from the code to the result."""
    gc.collect()
    started = time.perf_counter()
    if started_durably:
        result = await (await runtime.start(code)).wait()
    else:
        result = await runtime.execute_code(code, path="sandbox" if path == "sandbox" else "auto")
    took = time.perf_counter() - started
    if not result.ok or result.path != path:
        raise BenchFailed(f"not in the {path}: {result.for_model(2000)}")
    return took


def _fsync(folder: Path) -> Figure:
    """How long the file system takes to write a block and to say that it is kept."""
    each = []
    with (folder / "block").open("wb", buffering=0) as file:
        for _ in range(_WRITES):
            started = time.perf_counter()
            file.write(_BLOCK)
            os.fsync(file.fileno())
            each.append(time.perf_counter() - started)
    return Figure.of(each)


async def durable(bench: Bench) -> list[Row]:
    """All rows."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    with _folder(_TMPFS) as memory, _folder(cache_folder()) as disk:
        return [
            *await _calls(bench, memory, "tmpfs"),
            *await _calls(bench, disk, "disk"),
            await _replay(bench, memory),
            await _listed(bench, memory),
            await _memory(bench, memory),
            await _processes(memory),
        ]


async def _calls(bench: Bench, folder: Path, place: str) -> list[Row]:
    """Calls of one program: an ordinary run, a durable one and DBOS in turns, wall ÷ calls."""
    rows, calls = [], bench.sizes.durable_calls
    written = _fsync(folder)
    async with _opened(None) as ordinary, _opened(folder / "runs.db") as kept:
        if (sandbox := ordinary.backend.description) not in bench.sandboxes:
            bench.sandboxes.append(sandbox)
        for called, (path, code, name) in _PROGRAMS.items():
            program, usual = code.format(tool=name, calls=calls), list[float]()

            async def ours(path: str = path, program: str = program, usual: list[float] = usual) -> list[float]:
                usual.append(await _took(ordinary, program, path, started_durably=False) / calls)
                return [await _took(kept, program, path, started_durably=True) / calls]

            async def theirs() -> list[float]:
                made = await bench.dbos.ask("calls", folder=str(folder), calls=calls, in_flight=_IN_FLIGHT)
                return [made["seconds"] / calls]

            await ours(usual=[])
            row = await beside(
                "durable", f"{called}, {_IN_FLIGHT} in flight, wall ÷ calls: a durable run on {place}",
                max(1, bench.sizes.few // 4), ours, f"DBOS on SQLite on {place}", theirs, most=1.0,
            )  # fmt: skip
            row = _above(row, "an ordinary run", usual, _MOST_MORE if place == "tmpfs" else None)
            if place == "disk":
                row = replace(row, note=f"{row.note}; the disk alone, a write of 4 KiB and its fsync: {written}")
            rows.append(replace(row, numbers={**row.numbers, "fsync": asdict(written)}))
    return rows


def _above(row: Row, what: str, without: list[float], most: float | None) -> Row:
    """The row, with what its figure is above another one of ours; held against the target `most` if there is one."""
    other = Figure.of(without)
    more = row.numbers["ours"]["p50"] - other.p50
    numbers = {**row.numbers, "without": asdict(other), "more": more}
    row = replace(row, note=f"{seconds(max(more, 0.0))} above {what}: {other}", numbers=numbers)
    if most is None:
        return row
    return replace(row, target=f"≤ {seconds(most)} above {what}", verdict=verdict_of(more <= most))


async def _replay(bench: Bench, folder: Path) -> Row:
    """From an approval for which a run slept to its result, with calls before and without: the difference is replay."""
    calls, without = bench.sizes.durable_calls, list[float]()
    async with _opened(folder / "replay.db") as runtime:

        async def since_approval(calls: int) -> float:
            run = await runtime.start(_IN_GUEST.format(tool="touch", calls=calls) + "await confirm()\n")
            await _asleep(run, runtime)
            (asked,) = await runtime.runs.pending()
            gc.collect()
            await runtime.runs.approve(asked.run, asked.call)
            started = time.perf_counter()
            result = await run.wait()
            took = time.perf_counter() - started
            if not result.ok or len(result.calls) != calls + 1:
                raise BenchFailed(result.for_model(2000))
            return took

        async def ours() -> list[float]:
            without.append(await since_approval(0))
            return [await since_approval(calls)]

        async def theirs() -> list[float]:
            made = await bench.dbos.ask("replay", folder=str(folder), calls=calls, in_flight=_IN_FLIGHT)
            return [made["seconds"]]

        await ours()
        without.clear()
        row = await beside(
            "durable", f"a program that slept after {calls:,} calls, from the approval to the result",
            max(1, bench.sizes.few // 4), ours, "DBOS on SQLite, the steps of a workflow that runs again", theirs,
        )  # fmt: skip
    return _above(row, "a program that slept after no call", without, _MOST_REPLAY)


async def _listed(bench: Bench, folder: Path) -> Row:
    """What the command line and clients ask for: a page of very many waiting runs, and of their questions."""
    count, file = bench.sizes.listed_runs, folder / "listed.db"
    await _fill(file, count)
    took: list[float] = []
    async with _opened(file, sandbox=None) as runtime:
        for _ in range(bench.sizes.few):
            last = None
            for _ in range(2):
                started = time.perf_counter()
                found = await runtime.runs.list(status="waiting", before=last)
                took.append(time.perf_counter() - started)
                last = found[-1].id
            started = time.perf_counter()
            asked = await runtime.runs.pending()
            took.append(time.perf_counter() - started)
            if (len(found), len(asked)) != (_PAGE, _PAGE):
                raise BenchFailed(f"a page of {len(found)} runs, and one of {len(asked)} questions")
    measure = f"{count:,} waiting runs: a page of {_PAGE} of them, or of their questions"
    return timed("durable", measure, took, within=_MOST_LISTED)


async def _fill(file: Path, count: int) -> None:
    """Make a store with so many runs that wait for an approval."""
    store, numbers = SqliteStore(file), itertools.count(1)

    async def add() -> None:
        now = float(next(numbers))
        run = StoredRun(
            id=f"run_{now:024}", kind="code", text="await confirm()", options="{}", environment="{}", seed=bytes(32),
            created=now, changed=now,
        )  # fmt: skip
        held, key = (await store.add(run, takes=True)).held, CallKey(bytes(32), 0)
        assert held is not None
        await store.write(
            held,
            StoredCall(key=key, tool="confirm", arguments="{}", status="waiting", idempotency_key=run.id, record="[]"),
            Approval(
                run=run.id, call=key, tool="confirm", arguments="{}", schema_digest=bytes(32), asked=now, expires=1e12
            ),
            StateChange("waiting", "waits for approval of confirm()", released=True),
        )

    async with store.opened():
        await run_many(add, count, 1000)


async def _asleep(run: Run[Any], runtime: Runtime) -> None:
    """Wait until a run waits for an approval, and this process is done with it."""
    with anyio.fail_after(60):
        while (await runtime.runs.get(run.id)).status != "waiting":  # noqa: ASYNC110 (people hear of it no other way)
            await anyio.sleep(0.001)


async def _memory(bench: Bench, folder: Path) -> Row:
    """What the host keeps in memory of a run that waits for an approval."""
    count, before = bench.sizes.waiting_runs, 100
    async with _opened(folder / "waiting.db", sandbox=None) as runtime:

        async def wait() -> None:
            await _asleep(await runtime.start("await confirm()"), runtime)

        await run_many(wait, before, _IN_FLIGHT)
        resident = _resident()
        await run_many(wait, count, _IN_FLIGHT)
        grown = (_resident() - resident) / count
        tracemalloc.start()
        try:
            gc.collect()
            traced = tracemalloc.get_traced_memory()[0]
            await run_many(wait, count, _IN_FLIGHT)
            gc.collect()
            own = (tracemalloc.get_traced_memory()[0] - traced) / count
        finally:
            tracemalloc.stop()
    return Row(
        key="durable", measure=f"memory of the host per run that waits for an approval, of {count:,}",
        measured=f"{grown:,.0f} bytes of the process, {own:,.0f} of Python's objects",
        target=f"≤ {_MOST_BYTES:,} bytes", verdict=verdict_of(grown <= _MOST_BYTES),
        numbers={"resident": grown, "objects": own, "runs": count},
    )  # fmt: skip


def _resident() -> int:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * mmap.PAGESIZE


async def _processes(folder: Path) -> Row:
    """Processes of programs in the sandbox that wait, beyond those that a runtime without a pool has at rest."""
    count, program = 10, _IN_GUEST.format(tool="touch", calls=1)
    async with _opened(folder / "processes.db", pool_size=0) as runtime:
        await _took(runtime, program, "sandbox", started_durably=True)
        before = await _at_rest(0)
        for _ in range(count):
            await _asleep(await runtime.start(f"{program}await confirm()\n"), runtime)
        more = await _at_rest(before) - before
    return Row(
        key="durable", measure=f"processes of {count} programs in the sandbox that wait for approvals",
        measured=str(more), target="0", verdict=verdict_of(more == 0), numbers={"processes": more, "runs": count},
    )  # fmt: skip


async def _at_rest(expected: int) -> int:
    """Number of processes below this one, as soon as there are no more than expected, else after a second."""
    with anyio.move_on_after(1):
        while len(descendants(os.getpid())) > expected:  # noqa: ASYNC110 (the kernel tells no one)
            await anyio.sleep(0.01)
    return len(descendants(os.getpid()))
