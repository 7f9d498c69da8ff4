"""The view of a run, drawn three times: in a terminal (rich), in Markdown, and as one HTML page (Jinja2).

In a terminal the details come first, since what is printed last is what people see. In Markdown, what contestants wrote
stays plain characters. The page has no script and nothing from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from callgate_bench.report.view import Section, Tone, View

__all__ = ["MARK", "inserted", "markdown", "page", "show"]

MARK = "<!-- callgate bench writes what follows -->"
"""A line of a page: what stands below is replaced by `inserted`."""
_STYLES: dict[Tone, str] = {"": "", "better": "green", "worse": "red", "split": "yellow"}
_NARROW = 120


def page(view: View) -> str:
    """The HTML page, whole, for a file in UTF-8."""
    pages = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    return pages.get_template("page.html.j2").render(view=view)


def markdown(view: View) -> str:
    """The whole report in Markdown, with a final newline."""
    return _joined("# Report of callgate bench", view, [*view.summary, *view.details])


def inserted(page: str, view: View) -> str:
    """A page with the summary of a run below its `MARK`; the whole report where the page has no such line."""
    before, mark, _ = page.partition(MARK)
    return f"{before}{mark}\n\n{_joined('## The last run', view, view.summary)}" if mark else markdown(view)


def _joined(title: str, view: View, sections: Iterable[Section]) -> str:
    parts = [title, f"**{_plain(view.sentence)}**", *([f"**{_plain(view.alarm)}**"] if view.alarm else [])]
    parts.append("\n".join(f"- {name}: {_plain(value)}" for name, value in view.facts))
    for each in sections:
        parts += [f"#{title.partition(' ')[0]} {_plain(each.title)}", *map(_plain, each.about)]
        parts.append("\n".join(_lines(each)))
        parts += ["\n".join(f"- {_plain(note)}" for note in each.notes)] if each.notes else []
    return "\n\n".join(parts) + "\n"


def _lines(table: Section) -> Iterator[str]:
    yield f"| {' | '.join(_plain(column.title) for column in table.columns)} |"
    yield f"|{'|'.join('---:' if column.number else '---' for column in table.columns)}|"
    for row in table.rows:
        yield f"| {' | '.join(_plain(value.text) for value in row)} |"


def _plain(text: str) -> str:
    """`text` without what Markdown or HTML would read as a mark; underscores within words are none."""
    escaped = re.sub(r"([\\|`*\[\]#~]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", text)
    return escaped.replace("&", "&amp;").replace("<", "&lt;")


def show(view: View, console: Console) -> None:
    """Print a view in a terminal. With fewer than 120 columns, tables leave out the columns that are details."""
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
