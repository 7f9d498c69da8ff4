"""What searches taught, kept across restarts: lessons as rows of the statistics file. `kept_file` has the rules.

A lesson that is learned again is the newest. Each tool's newest 32 are kept, 8,192 in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from callgate.search.learned import MAX_LESSONS, MAX_PER_TOOL, Lesson, lesson_of

from .kept_file import KeptFile

__all__ = ["LearnedFile"]

BATCH = 32
"""Lessons in one transaction: they are rarer than calls."""

_CUT_TOOL = (
    "DELETE FROM lessons WHERE tool = :tool AND id <= "
    f"(SELECT id FROM lessons WHERE tool = :tool ORDER BY id DESC LIMIT 1 OFFSET {MAX_PER_TOOL})"
)
_CUT_ALL = f"DELETE FROM lessons WHERE id <= (SELECT id FROM lessons ORDER BY id DESC LIMIT 1 OFFSET {MAX_LESSONS})"


class LearnedFile(KeptFile[Lesson]):
    """A file that `Learned` is read from and written to; the statistics file will do. See `KeptFile`."""

    batch = BATCH
    select = f"SELECT tool, terms FROM lessons ORDER BY id DESC LIMIT {MAX_LESSONS}"
    insert = "INSERT OR REPLACE INTO lessons (tool, terms) VALUES (?, ?)"

    def note_of(self, row: Sequence[object]) -> Lesson | None:
        """The lesson in a row."""
        return lesson_of(tuple(row))

    def row_of(self, note: Lesson) -> Sequence[Any]:
        """Its terms with blanks between them."""
        tool, terms = note
        return tool, " ".join(terms)

    def cuts(self, notes: Iterable[Lesson]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each tool that was written, and then all."""
        for tool in {lesson[0] for lesson in notes}:
            yield _CUT_TOOL, {"tool": tool}
        yield _CUT_ALL, {}
