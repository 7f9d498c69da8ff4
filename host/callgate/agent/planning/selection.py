"""Tools chosen for a query: the choices, who makes them, their outcomes, and the advice that outcomes give. Values and
interfaces only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from callgate.agent.models.model import NO_USAGE, Usage
from callgate.tools.registry import ToolInfo

from .tool_plan import BadWords, DecomposedQuery, PlanSource

__all__ = [
    "Advice", "Combination", "Memory", "Selection", "SelectionOutcome", "Selector", "ToolAdvice", "ToolChoice",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolChoice:
    """A tool chosen for a sub-query.

    Attributes:
        sub_query: position of the sub-query.
        tool: its name.
        parameters: the arguments. ``$ref:c0.field`` refers to the result of the chain's first choice.
        confidence: how sure the selector is that this is the right tool.
        depends_on: positions in the chain of choices whose results it needs, beside those that its parameters name.
        reasoning: why this one.
    """

    sub_query: int
    tool: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    confidence: float = 1.0
    depends_on: tuple[int, ...] = ()
    reasoning: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Tools chosen for a query.

    Attributes:
        chain: the choices.
        reasoning: why these.
        strategy: name of the strategy that chose.
        source: who chose.
        usage: tokens that the choice took.
        faults: what was wrong with the model's answers.
        bad_words: the model's answers that had faults.
    """

    chain: tuple[ToolChoice, ...]
    reasoning: str = ""
    strategy: str = ""
    source: PlanSource = "model"
    usage: Usage = NO_USAGE
    faults: tuple[str, ...] = ()
    bad_words: tuple[BadWords, ...] = ()


class Selector(Protocol):
    """Chooses tools for a query."""

    @property
    def name(self) -> str:
        """The strategy's name, for statistics."""

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose.

        Args:
            query: the query in its parts.
            tools: the tools that may be chosen, with their history.

        Raises:
            ModelError: the model gave no answer.
        """


@dataclass(frozen=True, kw_only=True, slots=True)
class SelectionOutcome:
    """The outcome of a selection.

    Attributes:
        query: in the user's words.
        tools: the tools of the plan, in its order.
        strategy: the selection strategy's name.
        success: whether the plan gave what the answer needs.
        seconds: how long the plan ran.
        cost: of its calls, in the operator's own unit; None where no tool has a cost.
        confidence: mean confidence of the results; None where no result has one.
        failed_tools: those of `tools` whose calls failed.
        reasoning: the selection's own, for the log.
        error: the first error, for the log; empty without one.
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
    """What earlier outcomes of similar queries say about a tool.

    Attributes:
        tool: its name.
        samples: number of selections that the advice rests on.
        success_rate: share of them that succeeded without a fallback for this tool; None without samples.
        avoid: why the tool should not be chosen (slow, fails often); empty where it may be.
        passed: number of outcomes since an avoided tool was last chosen.
    """

    tool: str
    samples: int = 0
    success_rate: float | None = None
    avoid: str = ""
    passed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Combination:
    """Tools that were chosen together for similar queries.

    Attributes:
        tools: in the order of their plans.
        tries: number of plans.
        successes: number of plans that succeeded without a fallback.
        passed: number of outcomes since the tools were last chosen together.
    """

    tools: tuple[str, ...]
    tries: int
    successes: int
    passed: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Advice:
    """What earlier outcomes say about a query.

    Attributes:
        tools: one entry for each tool with an outcome.
        combinations: the best first.
    """

    tools: tuple[ToolAdvice, ...] = ()
    combinations: tuple[Combination, ...] = ()


class Memory(Protocol):
    """Remembers outcomes."""

    def note(self, outcome: SelectionOutcome) -> None:
        """Remember an outcome. Quick, without I/O."""

    def advice(self, query: str, tools: Sequence[str]) -> Advice:
        """Advise on these tools by the outcomes of similar queries."""
