"""The view of a run in Markdown. What contestants wrote stays plain characters, whatever they mean in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from callgate_bench.report.view import Section, View

__all__ = ["MARK", "inserted", "markdown"]

MARK = "<!-- callgate bench writes what follows -->"
"""A line of a page: what stands below is replaced by `inserted`."""


def markdown(view: View) -> str:
    """The whole report, with a final newline."""
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
