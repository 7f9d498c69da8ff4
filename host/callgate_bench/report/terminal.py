"""The view of a run in a terminal: details first, since what is printed last is what people see."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callgate_bench.report.view import Section, Tone, View

__all__ = ["show"]

_STYLES: dict[Tone, str] = {"": "", "better": "green", "worse": "red", "split": "yellow"}
_NARROW = 120


def show(view: View, console: Console) -> None:
    """Print a view. With fewer than 120 columns, tables leave out the columns that are details."""
    for section in (*view.details, *view.summary):
        _say(console, f"\n{section.title}", "bold")
        for text in section.about:
            _say(console, text, "dim")
        console.print(_table(section, wide=console.width >= _NARROW))
        for text in section.notes:
            _say(console, text, indent=2)
    console.print()
    for name, value in view.facts:
        _say(console, f"{name}: {value}", "dim")
    if view.alarm:
        _say(console, view.alarm, "bold red")
    _say(console, view.sentence, "bold")


def _table(section: Section, *, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    kept = [place for place, column in enumerate(section.columns) if wide or not column.detail]
    for place in kept:
        column = section.columns[place]
        table.add_column(Text(column.title), justify="right" if column.number else "left", overflow="fold")
    for row in section.rows:
        table.add_row(*(Text(row[place].text, _STYLES[row[place].tone]) for place in kept))
    return table


def _say(console: Console, text: str, style: str = "", *, indent: int = 0) -> None:
    console.print(Padding(Text(text, style), (0, 0, 0, indent), expand=False))
