"""Routing by confidence: what planning does about a decomposition, a hypothetical answer, a tool or a choice that is
not reliable. The rules are a table; every decision is a note. Chooses no tools and builds no steps.

A search by a hypothetical answer (HyDE) is a tool whose name or capability says ``hyde`` or ``hypothetical``. Where the
caller's confidence in its hypothetical answer is low, such tools are not offered, as long as there is another search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from callgate.tools.registry import ToolInfo

from .capabilities import is_hypothetical, kind_of
from .settings import PlannerSettings
from .tool_plan import DecomposedQuery

__all__ = ["RULES", "SIMPLE_PLAN", "UNSURE_CHOICE", "Rule", "fails_often", "offered_tools"]


@dataclass(frozen=True, slots=True)
class Rule:
    """When something is not reliable, and what is done about it.

    Attributes:
        name: of the rule.
        value: what is compared with the threshold.
        holds: on which side of the threshold.
        setting: the field of `PlannerSettings` that has the threshold.
        then: what is done.
    """

    name: str
    value: str
    holds: Literal["below", "from"]
    setting: str
    then: str

    def decide(self, value: float, settings: PlannerSettings, whose: str = "") -> str | None:
        """The note where the rule holds; else None.

        Args:
            value: the value to compare.
            settings: with the threshold.
            whose: the tool that the value belongs to.
        """
        threshold: float = getattr(settings, self.setting)
        if not (value < threshold if self.holds == "below" else value >= threshold):
            return None
        of = f" of {whose!r}" if whose else ""
        side = "below" if self.holds == "below" else "not below"
        return f"{self.name}: {self.value}{of} is {value:.2g}, {side} {threshold:g}: {self.then}"


SIMPLE_PLAN = Rule(
    "simple plan", "the confidence of the decomposition", "below", "low_decomposition_confidence",
    "one search with the whole query",
)  # fmt: skip
STANDARD_SEARCH = Rule(
    "standard search", "the confidence of the hypothetical answer", "below", "low_hypothetical_confidence",
    "standard search instead of one by the hypothetical answer",
)  # fmt: skip
FAILING_TOOL = Rule("failing tool", "the failure rate", "from", "high_failure_rate", "it gets a fallback")
UNSURE_CHOICE = Rule(
    "unsure choice", "the confidence of the choice", "below", "low_choice_confidence",
    "it gets a fallback on a result of low confidence",
)  # fmt: skip
RULES = (SIMPLE_PLAN, STANDARD_SEARCH, FAILING_TOOL, UNSURE_CHOICE)
"""The rules in the order in which planning applies them."""


def offered_tools(
    query: DecomposedQuery | None, tools: Sequence[ToolInfo], settings: PlannerSettings
) -> tuple[tuple[ToolInfo, ...], str | None]:
    """The tools that may be chosen, and a note where some may not."""
    confidence = None if query is None else query.hypothetical_confidence
    note = None if confidence is None else STANDARD_SEARCH.decide(confidence, settings)
    kept = tuple(tool for tool in tools if not is_hypothetical(tool))
    if note is None or len(kept) == len(tools):
        return tuple(tools), None
    if not any(kind_of(tool) == "search" for tool in kept):
        return tuple(tools), f"{note}; there is no other search tool, so it is used all the same"
    return kept, note


def fails_often(tool: ToolInfo, settings: PlannerSettings) -> str | None:
    """The note where enough calls of the tool are known, and many of them failed."""
    if tool.failure_rate is None or tool.calls < settings.failure_samples:
        return None
    return FAILING_TOOL.decide(tool.failure_rate, settings, tool.name)
