"""Statistics kept across restarts: attempts of tools as rows of a file. `kept_file` has the rules.

Each tool's newest 256 attempts are kept, 262,144 in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from callgate.tools.statistics import WINDOW, Attempt, attempt_of

from .kept_file import KeptFile

__all__ = ["StatisticsFile"]

BATCH = 256
"""Notes in one transaction: at a few milliseconds each, the disk does not hold up a host that is busy."""
MAX_ROWS = 1024 * WINDOW
"""So many rows are kept and read, the newest: full windows of a thousand tools. More would hold up the start, and the
names of tools may be others at each start."""

_CUT = (
    "DELETE FROM attempts WHERE tool = :tool AND id <= "
    f"(SELECT id FROM attempts WHERE tool = :tool ORDER BY id DESC LIMIT 1 OFFSET {WINDOW})"
)
_CUT_ALL = (
    "DELETE FROM attempts WHERE id <= (SELECT id FROM attempts ORDER BY id DESC LIMIT 1 OFFSET :most)"  # a few ms
)


class StatisticsFile(KeptFile[Attempt]):
    """A file that `Statistics` are read from and written to; see `KeptFile`."""

    batch = BATCH
    select = f"SELECT tool, seconds, outcome, confidence FROM attempts ORDER BY id DESC LIMIT {MAX_ROWS}"
    insert = "INSERT INTO attempts (tool, seconds, outcome, confidence) VALUES (?, ?, ?, ?)"

    def note_of(self, row: Sequence[object]) -> Attempt | None:
        """The attempt in a row."""
        return attempt_of(row)

    def row_of(self, note: Attempt) -> Sequence[Any]:
        """It is one already."""
        return note

    def cuts(self, notes: Iterable[Attempt]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Each tool that was written, to its window; and then all."""
        for tool in {attempt[0] for attempt in notes}:
            yield _CUT, {"tool": tool}
        yield _CUT_ALL, {"most": MAX_ROWS}
