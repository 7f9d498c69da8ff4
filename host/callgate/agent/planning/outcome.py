"""The outcome of a selection of tools, and the advice that outcomes give. Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Advice", "Combination", "Memory", "SelectionOutcome", "ToolAdvice"]


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionOutcome:
    """The outcome of a selection.

    Attributes:
        query: the words it was for.
        tools: that were called, in the order of the plan.
        strategy: the selection strategy's name.
        success: whether the plan gave what the answer needs.
        seconds: that the plan ran.
        cost: of its calls, in the operator's own unit; None where nothing has a cost.
        confidence: of the results, mean; None where none says.
        failed_tools: of `tools`, those whose calls failed.
        reasoning: why these tools were chosen, as the selection says; for the log.
        error: what went wrong first; empty where nothing did. For the log.
    """

    query: str
    tools: tuple[str, ...]
    strategy: str
    success: bool
    seconds: float = 0.0
    cost: float | None = None
    confidence: float | None = None
    failed_tools: tuple[str, ...] = ()
    reasoning: str = ""
    error: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAdvice:
    """What is known of a tool, for queries like this one.

    Attributes:
        tool: its name.
        samples: selections it rests on.
        success_rate: share of them that succeeded, and not because a fallback stood in for it; None without samples.
        avoid: why it had better not be chosen (slow, fails often); empty where nothing speaks against it.
        passed: where it is to be avoided, how many outcomes have come since it was last chosen.
    """

    tool: str
    samples: int = 0
    success_rate: float | None = None
    avoid: str = ""
    passed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """Tools that were chosen together for queries like this one.

    Attributes:
        tools: in the order of their plans.
        tries: how often.
        successes: how often with success, and without a fallback.
        passed: how many outcomes have come since they were last chosen.
    """

    tools: tuple[str, ...]
    tries: int
    successes: int
    passed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What earlier outcomes say about a query.

    Attributes:
        tools: one for each tool about which there is something to say.
        combinations: the best first.
    """

    tools: tuple[ToolAdvice, ...] = ()
    combinations: tuple[Combination, ...] = ()


class Memory(Protocol):
    """Remembers outcomes."""

    def note(self, outcome: SelectionOutcome) -> None:
        """Take note of an outcome; quick, no I/O."""

    def advice(self, query: str, tools: Sequence[str]) -> Advice:
        """What outcomes of queries like this one say about these tools."""
