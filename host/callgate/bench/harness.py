"""One run of the harness: the measurements one after the other, some again under trio. Knows order, not figures."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import anyio

from . import machine
from .context import CALLS, FULL, Bench, Sizes, opened
from .measures import MEASURES, ON_TRIO
from .peers import Bubblewrap, MontyPeer
from .report import Report
from .rows import Row

__all__ = ["run"]


def run(sizes: Sizes, only: Collection[str], told: Callable[[str], None], *, calls: Path = CALLS) -> Report:
    """Measure.

    Args:
        sizes: how often each thing.
        only: names of `MEASURES`; empty for all, with some repeated under trio.
        told: called with the name of each measurement before it starts.
        calls: a folder with requests and the calls that answer them; where it is not there, `share` says so.
    """
    kind = "full run" if sizes == FULL else "quick run"
    report = Report(machine.today(), machine.describe(), machine.load(), "", kind, only=tuple(only))
    anyio.run(_measure, report, sizes, only or tuple(MEASURES), told, calls, backend="asyncio")
    again = [name for name in ON_TRIO if name in only or not only]
    if again and find_spec("trio"):
        trio = replace(report, rows=[])
        anyio.run(_measure, trio, sizes, again, lambda name: told(f"{name} under trio"), calls, backend="trio")
        report.rows += [_for_information(row) for row in trio.rows]
    report.load_after = machine.load()
    return report


def _for_information(row: Row) -> Row:
    changes = {"measure": f"{row.measure} (host on trio)", "target": "", "verdict": "for information"}
    return Row(**{**row.to_dict(), **changes})


async def _measure(
    report: Report, sizes: Sizes, names: Collection[str], told: Callable[[str], None], calls: Path
) -> None:  # fmt: skip
    async with opened(pool_size=0) as runtime:
        report.sandbox = runtime.backend.description
    async with MontyPeer() as monty:
        bench = Bench(sizes, monty, Bubblewrap(), calls)
        for name in names:
            told(name)
            report.rows += await MEASURES[name](bench)
        report.sandbox = "; ".join((report.sandbox, *bench.sandboxes))
