"""A run as a person reads it in a terminal: a table for each workload, then the single things, then the summary.

What peers wrote goes out as plain characters: no markup, nothing that moves a cursor.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callgate.bench.report.cell_words import CANNOT, MEMORY, confinements, ended, figures, notes, plainly, reasons
from callgate.bench.report.headline import headline
from callgate.bench.report.single_rows import rows_table
from callgate.bench.report.verdicts import verdict
from callgate.bench.results import Cell, Entry, Results, Task

__all__ = ["show"]

_COLOURS = {"right": "green", "wrong": "red", "failed": "red", "cannot": "yellow", "not measured": "dim"}
_HEADINGS = (
    "turns", "tokens\nin", "\nout", "wall\np50", "10 to 90 %", "model", "tools", "own\nwork", "at\nonce", "peak\nMB",
)  # fmt: skip
_WIDE, _NARROW, _LEFT_OUT = 140, 98, ("10 to 90 %", "at\nonce", "peak\nMB")
"""So many columns have room for titles and headings in one line; with fewer than the other, these are left out."""
_WINNERS = {"callgate": "bold green", "direct calls": "bold yellow"}


def show(results: Results, console: Console) -> None:
    """Print a run. With less than 98 columns, some figures are left out.

    Args:
        results: also of a run that was interrupted.
        console: where to; its width is what the tables have.
    """
    if results.interrupted:
        _say(console, f"The run was interrupted: {results.interrupted}. What was measured before is below.", "bold red")
    for task in results.tasks:
        _workload(results, task, console)
    if results.rows:
        console.print()
        console.print(rows_table(results.rows, f"single things, {results.sizes}"))
    _summary(results, console)


def _workload(results: Results, task: Task, console: Console) -> None:
    pairs = [(entry, results.cell(task.name, entry.name)) for entry in results.entries]
    tried = [(entry, cell) for entry, cell in pairs if cell is not None]
    found = [(entry, cell) for entry, cell in tried if cell.outcome != "not measured"]
    labelled = " (simulated model)" if results.model is not None and results.model.simulated else ""
    console.print()
    _say(console, f"{task.name}: {task.title}{labelled}", "bold")
    if found:
        said = verdict(results, task.name)
        beside = [entry for each in said.peers for entry in (each.mode, each.peer)]
        chosen = {entry.name for entry in (said.mode, said.direct, *beside) if entry is not None}
        console.print(_table(found, chosen, console.width))
        _say(console, f"{said.text}.", _WINNERS.get(said.winner, "bold"), indent=2)
        for text in said.peer_texts:
            _say(console, f"{text}.", indent=2)
    for line in reasons(tried):
        _say(console, line, "" if found else "dim", indent=2)
    if task.note:
        _say(console, task.note, "dim", indent=2)


def _table(found: Sequence[tuple[Entry, Cell]], chosen: set[str], width: int) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("contestant", overflow="fold", min_width=10)
    table.add_column("outcome" if width >= _WIDE else "", no_wrap=True)
    left_out = () if width >= _NARROW else _LEFT_OUT
    for heading in _HEADINGS:
        if heading not in left_out:
            table.add_column(heading.replace("\n", " ") if width >= _WIDE else heading, justify="right", no_wrap=True)
    before = True
    for entry, cell in found:
        if before and not entry.ours:
            table.add_section()
        before = entry.ours
        name = Text(plainly(entry.title if width >= _WIDE else entry.name), "bold" if entry.name in chosen else "")
        pairs = zip(_HEADINGS, figures(cell), strict=True)
        kept = [figure for heading, figure in pairs if heading not in left_out]
        table.add_row(name, Text(ended(cell), _COLOURS[cell.outcome]), *kept)
    return table


def _summary(results: Results, console: Console) -> None:
    if results.tasks:
        console.print()
        _say(console, "Summary", "bold")
        for sentence in headline(results).sentences:
            _say(console, sentence, indent=2)
    for entry in results.entries:
        if entry.failure:
            _say(console, f"{entry.title} took no part: {entry.failure}", "yellow", indent=2)
    if told := confinements(results.entries):
        _say(console, f"Confined by {told}.", "dim", indent=2)
    for note in notes(results):
        _say(console, note, "dim", indent=2)
    if results.cells:
        _say(console, f"cannot: {CANNOT}. Peak memory is {MEMORY}.", "dim", indent=2)
    console.print()
    _say(console, f"{results.sizes}, {results.made}: {results.machine}", "dim")
    _say(console, f"load average before: {results.load}; after: {results.load_after or 'unknown'}", "dim")
    _say(console, results.sandbox, "dim")


def _say(console: Console, text: str, style: str = "", *, indent: int = 0) -> None:
    console.print(Padding(Text(plainly(text), style), (0, 0, 0, indent), expand=False))
