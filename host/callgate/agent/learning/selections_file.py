"""Keeps the log of selections in an SQLite file across restarts, and adds up failures for people.

`runtime.statistics_file` has the rules of the file. The file keeps the newest 10,000 outcomes, with the reasoning and
the error of each. It may be the file of `Runtime(statistics=FILE)`, or one of its own. It holds what users asked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields
from typing import Any, ClassVar

from callgate.agent.planning.selection import SelectionOutcome
from callgate.runtime.statistics_file import NotesFile

from .memory import MAX_OUTCOMES

__all__ = ["Failures", "SelectionsFile", "failures_of"]


class SelectionsFile(NotesFile[SelectionOutcome]):
    """A file that a `SelectionMemory` is read from and written to; see `NotesFile`. Its columns are the fields of an
    outcome, in their order; tools are JSON lists."""

    table = "selections"
    columns: ClassVar = {
        "query": "TEXT NOT NULL", "tools": "TEXT NOT NULL", "strategy": "TEXT NOT NULL",
        "success": "INTEGER NOT NULL", "seconds": "REAL NOT NULL", "cost": "REAL", "confidence": "REAL",
        "failed": "TEXT NOT NULL", "reasoning": "TEXT NOT NULL", "error": "TEXT NOT NULL",
    }  # fmt: skip
    most = MAX_OUTCOMES

    def note_of(self, row: Any) -> SelectionOutcome:
        """The outcome in a row."""
        values = dict(zip((each.name for each in fields(SelectionOutcome)), row, strict=True))
        lists = {name: tuple(json.loads(values[name])) for name in ("tools", "failed_tools")}
        return SelectionOutcome(**{**values, **lists, "success": values["success"] == 1})

    def row_of(self, note: SelectionOutcome) -> Sequence[Any]:
        """The row of an outcome."""
        return [json.dumps(value, ensure_ascii=False) if isinstance(value, tuple) else value for value in astuple(note)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Failures:
    """Failures in a log of selections.

    Attributes:
        selections: number of all outcomes.
        failed: the outcomes without success.
        tools: number of outcomes in which a call of the tool failed, by tool.
        combinations: number of failures, by the tools of the plan.
        errors: number of failures, by error.
    """

    selections: int
    failed: tuple[SelectionOutcome, ...]
    tools: Counter[str]
    combinations: Counter[tuple[str, ...]]
    errors: Counter[str]


def failures_of(outcomes: Iterable[SelectionOutcome]) -> Failures:
    """Add up the failures in `SelectionMemory.outcomes`."""
    known = tuple(outcomes)
    failed = tuple(outcome for outcome in known if not outcome.success)
    return Failures(
        selections=len(known),
        failed=failed,
        tools=Counter(tool for outcome in known for tool in set(outcome.failed_tools)),
        combinations=Counter(outcome.tools for outcome in failed),
        errors=Counter(outcome.error for outcome in failed if outcome.error),
    )
