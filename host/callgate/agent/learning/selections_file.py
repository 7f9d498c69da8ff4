"""The log of selections, kept across restarts as rows of an SQLite file, and its failures added up for people.

`runtime.statistics_file` has the rules of the file. The newest 10,000 outcomes are kept, with the reasoning and the
error of each. The file of `Runtime(statistics=FILE)` will do, or one of its own. It holds what users asked.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from callgate.agent.planning.selection import SelectionOutcome
from callgate.runtime.statistics_file import KeptFile

from .memory import MAX_OUTCOMES

__all__ = ["Failures", "SelectionsFile", "failures_of"]


class SelectionsFile(KeptFile[SelectionOutcome]):
    """A file that a `SelectionMemory` is read from and written to; see `KeptFile`."""

    table = "selections"
    columns: ClassVar = {
        "query": "TEXT NOT NULL", "tools": "TEXT NOT NULL", "strategy": "TEXT NOT NULL",
        "success": "INTEGER NOT NULL", "seconds": "REAL NOT NULL", "cost": "REAL", "confidence": "REAL",
        "failed": "TEXT NOT NULL", "reasoning": "TEXT NOT NULL", "error": "TEXT NOT NULL",
    }  # fmt: skip
    most = MAX_OUTCOMES

    def note_of(self, row: Any) -> SelectionOutcome:
        """The outcome in a row."""
        query, tools, strategy, success, seconds, cost, confidence, failed, reasoning, error = row
        return SelectionOutcome(
            query=query, tools=tuple(json.loads(tools)), strategy=strategy, success=success == 1, seconds=seconds,
            cost=cost, confidence=confidence, failed_tools=tuple(json.loads(failed)), reasoning=reasoning, error=error,
        )  # fmt: skip

    def row_of(self, note: SelectionOutcome) -> Sequence[Any]:
        """The row of an outcome, with its tools as JSON lists."""
        return (
            note.query, json.dumps(note.tools, ensure_ascii=False), note.strategy, int(note.success), note.seconds,
            note.cost, note.confidence, json.dumps(note.failed_tools, ensure_ascii=False), note.reasoning, note.error,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Failures:
    """Failures in a log of selections.

    Attributes:
        selections: number of all outcomes.
        failed: the outcomes without success, with query and reasoning.
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
    """Add failures up; the outcomes are those of `SelectionMemory.outcomes`."""
    known = tuple(outcomes)
    failed = tuple(outcome for outcome in known if not outcome.success)
    return Failures(
        selections=len(known),
        failed=failed,
        tools=Counter(tool for outcome in known for tool in set(outcome.failed_tools)),
        combinations=Counter(outcome.tools for outcome in failed),
        errors=Counter(outcome.error for outcome in failed if outcome.error),
    )
