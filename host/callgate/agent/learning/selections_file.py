"""The log of selections, kept across restarts: outcomes as rows of an SQLite file, with the reasoning and the error of
each. `runtime.statistics_file` has the rules.

The newest 10,000 are kept. The file of `Runtime(statistics=FILE)` will do, or one of its own. It holds what users
asked: with `words=False`, of a query only its terms, sorted and without numbers, and neither reasoning nor error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, ClassVar

from callgate.agent.planning.outcome import SelectionOutcome
from callgate.runtime.statistics_file import KeptFile

from .memory import MAX_OUTCOMES, MAX_TEXT_CHARACTERS, SelectionMemory
from .similar import terms_of

__all__ = ["SelectionsFile"]


class SelectionsFile(KeptFile[SelectionOutcome]):
    """A file that a `SelectionMemory` is read from and written to; see `KeptFile`.

    Args:
        path: of the file.
        memory: what is kept.
        words: whether queries, reasoning and errors are kept as they were written.
    """

    table = "selections"
    columns: ClassVar = {
        "query": "TEXT NOT NULL", "tools": "TEXT NOT NULL", "strategy": "TEXT NOT NULL",
        "success": "INTEGER NOT NULL", "seconds": "REAL NOT NULL", "cost": "REAL", "confidence": "REAL",
        "failed": "TEXT NOT NULL", "reasoning": "TEXT NOT NULL", "error": "TEXT NOT NULL",
    }  # fmt: skip
    most = MAX_OUTCOMES

    def __init__(self, path: str | os.PathLike[str], memory: SelectionMemory, *, words: bool = True) -> None:
        super().__init__(path, memory)
        self._words = words

    def note_of(self, row: Any) -> SelectionOutcome:
        """The outcome in a row."""
        query, tools, strategy, success, seconds, cost, confidence, failed, reasoning, error = row
        return SelectionOutcome(
            query=query, tools=tuple(json.loads(tools)), strategy=strategy, success=success == 1, seconds=seconds,
            cost=cost, confidence=confidence, failed_tools=tuple(json.loads(failed)), reasoning=reasoning, error=error,
        )  # fmt: skip

    def row_of(self, note: SelectionOutcome) -> Sequence[Any]:
        """Its tools as JSON lists."""
        query = note.query if self._words else " ".join(sorted(terms_of(note.query)))[:MAX_TEXT_CHARACTERS]
        reasoning, error = (note.reasoning, note.error) if self._words else ("", "")
        return (
            query, json.dumps(note.tools, ensure_ascii=False), note.strategy, int(note.success), note.seconds,
            note.cost, note.confidence, json.dumps(note.failed_tools, ensure_ascii=False), reasoning, error,
        )  # fmt: skip
