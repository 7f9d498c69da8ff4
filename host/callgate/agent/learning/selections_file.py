"""The log of selections, kept across restarts: outcomes as rows of an SQLite file, with the reasoning and the error of
each. `kept_file` has the rules.

The newest 10,000 are kept. The file of `Runtime(statistics=FILE)` will do, or one of its own. It holds what users
asked: with `words=False`, of a query only its terms, sorted and without numbers, and neither reasoning nor error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from callgate.agent.planning.outcome import SelectionOutcome
from callgate.runtime.kept_file import KeptFile
from callgate.tools.names import MAX_NAME_CHARACTERS

from .memory import MAX_OUTCOMES, MAX_TEXT_CHARACTERS, MAX_TOOLS, SelectionMemory
from .similar import terms_of

__all__ = ["SelectionsFile"]

BATCH = 32
"""Outcomes in one transaction: they are rarer than calls."""
MAX_SECONDS = 7 * 24 * 3600.0
"""A longer plan in what was kept is taken for damage."""
MAX_COST = 1e15

_CUT = f"DELETE FROM selections WHERE id <= (SELECT id FROM selections ORDER BY id DESC LIMIT 1 OFFSET {MAX_OUTCOMES})"


class SelectionsFile(KeptFile[SelectionOutcome]):
    """A file that a `SelectionMemory` is read from and written to; see `KeptFile`.

    Args:
        path: of the file.
        memory: what is kept.
        words: whether queries, reasoning and errors are kept as they were written.
    """

    batch = BATCH
    select = (
        "SELECT query, tools, strategy, success, seconds, cost, confidence, failed, reasoning, error FROM selections "
        f"ORDER BY id DESC LIMIT {MAX_OUTCOMES}"
    )
    insert = (
        "INSERT INTO selections (query, tools, strategy, success, seconds, cost, confidence, failed, reasoning, error) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )

    def __init__(self, path: str | os.PathLike[str], memory: SelectionMemory, *, words: bool = True) -> None:
        super().__init__(path, memory)
        self._words = words

    def note_of(self, row: Sequence[object]) -> SelectionOutcome | None:
        """The outcome in a row."""
        query, tools, strategy, success, seconds, cost, confidence, failed, reasoning, error = row
        called, not_called, took = _names(tools), _names(failed), _number(seconds, MAX_SECONDS)
        if called is None or not_called is None or took is None or success not in (0, 1):
            return None
        match query, strategy, reasoning, error:
            case str() as asked, str() as strategist, str() as why, str() as wrong:
                return SelectionOutcome(
                    query=asked, tools=called, strategy=strategist, success=success == 1, seconds=took,
                    cost=_number(cost, MAX_COST), confidence=_number(confidence, 1.0), failed_tools=not_called,
                    reasoning=why, error=wrong,
                )  # fmt: skip
        return None

    def row_of(self, note: SelectionOutcome) -> Sequence[Any]:
        """Its tools as JSON lists."""
        query = note.query if self._words else " ".join(sorted(terms_of(note.query)))[:MAX_TEXT_CHARACTERS]
        reasoning, error = (note.reasoning, note.error) if self._words else ("", "")
        return (
            query, json.dumps(note.tools, ensure_ascii=False), note.strategy, int(note.success), note.seconds,
            note.cost, note.confidence, json.dumps(note.failed_tools, ensure_ascii=False), reasoning, error,
        )  # fmt: skip

    def cuts(self, notes: Iterable[SelectionOutcome]) -> Iterator[tuple[str, dict[str, Any]]]:
        """All of them."""
        yield _CUT, {}


def _names(text: object) -> tuple[str, ...] | None:
    if not isinstance(text, str):
        return None
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(names, list) or len(names) > MAX_TOOLS:
        return None
    sound = all(isinstance(name, str) and 0 < len(name) <= MAX_NAME_CHARACTERS for name in names)
    return tuple(names) if sound else None


def _number(value: object, most: float) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= most:
        return float(value)
    return None
