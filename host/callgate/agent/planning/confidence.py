"""Routing by confidence: what is done about a decomposition, a hypothetical answer, a tool or a choice that is not to
be relied upon. The rules are a table; every decision is a note. Chooses no tools and builds no steps.

Which tools search by a hypothetical answer (HyDE) is said by their capabilities or their name: ``hyde``,
``hypothetical``. Where the caller's confidence in its hypothetical answer is low, these are not offered at all as long
as there is another search tool.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from callgate.tools.registry import ToolInfo

from .capabilities import is_hypothetical, kind_of
from .settings import PlannerSettings
from .tool_plan import DecomposedQuery, ToolChoice

__all__ = ["RULES", "Rule", "fails_often", "is_unsure", "offered_tools", "wants_simple_plan"]


@dataclass(frozen=True, slots=True)
class Rule:
    """When something is not to be relied upon, and what is done.

    Attributes:
        name: of the rule.
        value: what is looked at.
        holds: on which side of the threshold.
        setting: the field of `PlannerSettings` with the threshold.
        then: what is done.
    """

    name: str
    value: str
    holds: Literal["below", "from"]
    setting: str
    then: str

    def decide(self, value: float, settings: PlannerSettings, what: str = "") -> str | None:
        """The note where the rule holds; else None.

        Args:
            value: that is looked at.
            settings: with the threshold.
            what: whose value it is.
        """
        threshold: float = getattr(settings, self.setting)
        if not (value < threshold if self.holds == "below" else value >= threshold):
            return None
        whose = f" of {what}" if what else ""
        side = "below" if self.holds == "below" else "not below"
        return f"{self.name}: {self.value}{whose} is {value:.2g}, {side} {threshold:g}: {self.then}"


SIMPLE_PLAN = Rule(
    "simple plan",
    "the confidence of the decomposition",
    "below",
    "low_decomposition_confidence",
    "one search with the whole query",
)
STANDARD_SEARCH = Rule(
    "standard search",
    "the confidence of the hypothetical answer",
    "below",
    "low_hypothetical_confidence",
    "standard search instead of one by the hypothetical answer",
)
FAILING_TOOL = Rule("failing tool", "the failure rate", "from", "high_failure_rate", "it gets a fallback")
UNSURE_CHOICE = Rule(
    "unsure choice",
    "the confidence of the choice",
    "below",
    "low_choice_confidence",
    "it gets a fallback on a result of low confidence",
)
RULES = (SIMPLE_PLAN, STANDARD_SEARCH, FAILING_TOOL, UNSURE_CHOICE)
"""All of them, in the order in which they are asked."""


def wants_simple_plan(query: DecomposedQuery, settings: PlannerSettings) -> str | None:
    """The note where the decomposition is not to be relied upon."""
    return SIMPLE_PLAN.decide(query.confidence, settings)


def offered_tools(
    query: DecomposedQuery | None, tools: Sequence[ToolInfo], settings: PlannerSettings
) -> tuple[tuple[ToolInfo, ...], str | None]:
    """The tools that may be chosen, and the note where some may not."""
    offered = tuple(tools)
    confidence = None if query is None else query.hypothetical_confidence
    if confidence is None:
        return offered, None
    note = STANDARD_SEARCH.decide(confidence, settings)
    kept = tuple(tool for tool in tools if not is_hypothetical(tool))
    if note is None or len(kept) == len(offered):
        return offered, None
    if not any(kind_of(tool) == "search" for tool in kept):
        return offered, f"{note}; there is no other search tool, so it is used all the same"
    return kept, note


def fails_often(tool: ToolInfo, settings: PlannerSettings) -> str | None:
    """The note where the tool's calls fail often, as far as that is known."""
    if tool.failure_rate is None or tool.calls < settings.failure_samples:
        return None
    return FAILING_TOOL.decide(tool.failure_rate, settings, repr(tool.name))


def is_unsure(choice: ToolChoice, settings: PlannerSettings) -> str | None:
    """The note for a choice of low confidence."""
    return UNSURE_CHOICE.decide(choice.confidence, settings, repr(choice.tool))
