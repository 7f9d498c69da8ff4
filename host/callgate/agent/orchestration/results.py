"""Results in the values of tool planning: with confidence and sources, and the outcome to learn from. Runs nothing.

Sources are in the fields ``sources``, ``source``, ``citations`` and ``citation`` of a result that is an object: text,
an object, or a list of those. Where the result is a list of hits, or has one under ``results``, ``hits``, ``matches``,
``documents`` or ``passages``, each hit is read like a result; and a hit with a title or an address is a source itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from callgate.agent.planning.selection import SelectionOutcome
from callgate.agent.planning.tool_plan import Source, ToolExecution, ToolPlan, ToolResult, ToolStep
from callgate.runtime import PlanResult, StepResult
from callgate.tools import Registry

__all__ = ["MAX_SOURCES", "confidence_of", "missing_result", "outcome_of", "sources_in", "tool_result"]

MAX_SOURCES = 50
"""The most sources that are taken from one result."""
MAX_TITLE_CHARACTERS = 300
MAX_LOCATION_CHARACTERS = 1000
MAX_TEXT_CHARACTERS = 2000
"""A longer text of a source is cut, with an ellipsis; the result itself has it whole."""
_MAX_HITS = 1000
_ERROR_CHARACTERS = 500

_FIELDS = ("sources", "source", "citations", "citation")
_LISTS = ("results", "hits", "matches", "documents", "passages")
_TITLES = ("title", "name", "document", "file")
_LOCATIONS = ("location", "url", "uri", "section", "path", "page", "id")
_TEXTS = ("text", "snippet", "excerpt", "quote", "content")


def confidence_of(data: Any) -> float | None:
    """The number from 0 to 1 under a result's ``confidence``; None without one."""
    value = data.get("confidence") if isinstance(data, Mapping) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 <= value <= 1 else None  # type: ignore[operator,arg-type]


def tool_result(ended: StepResult, step: ToolStep | None) -> ToolResult:
    """The result of a step that ended.

    Args:
        ended: the plan engine's result.
        step: the step in the plan; None where the plan has none of this id.
    """
    tool = ended.fallback or ended.tool
    found = ToolResult(
        step_id=ended.id,
        tool=tool,
        success=ended.status == "succeeded",
        duration_seconds=ended.duration_seconds,
        retries=max(ended.attempts - max(len(ended.calls), 1), 0),  # a fallback's first attempt is not a retry
    )
    if not found.success:
        return replace(found, error=ended.error or ended.status)
    data = ended.result
    own = confidence_of(data)
    confidence = own if own is not None else 1.0 if step is None else step.confidence
    return replace(found, data=data, confidence=confidence, sources=sources_in(data, tool), cached=ended.cached)


def missing_result(step: ToolStep, error: str) -> ToolResult:
    """The result of a step that never ended, with the reason."""
    return ToolResult(step_id=step.id, tool=step.tool, success=False, error=error)


def outcome_of(plan: ToolPlan, execution: ToolExecution, registry: Registry) -> SelectionOutcome:
    """The outcome of a selection, for a `Memory`.

    Args:
        plan: the plan that ran.
        execution: its results.
        registry: the tools, for their costs. An earlier result that was used again costs nothing.
    """
    tools = tuple(dict.fromkeys(step.tool for step in plan.steps))
    confidences = [each for result in execution.results if (each := confidence_of(result.data)) is not None]
    errors = [result.error for result in execution.results if result.error]
    calls = execution.plan_result.calls if execution.plan_result is not None else ()
    failed = {call.tool for call in calls if call.status in ("failed", "timed_out", "unknown_outcome")}
    return SelectionOutcome(
        query=plan.query,
        tools=tools,
        strategy=plan.strategy,
        success=execution.success,
        seconds=execution.total_seconds,
        cost=_cost(execution.plan_result, registry),
        confidence=sum(confidences) / len(confidences) if confidences else None,
        failed_tools=tuple(each for each in tools if each in failed),
        reasoning=plan.reasoning,
        error=errors[0][:_ERROR_CHARACTERS] if errors else "",
    )


def _cost(result: PlanResult | None, registry: Registry) -> float | None:
    """The cost of all attempts; None where no tool that was called has a number as its cost."""
    costs: list[float] = []
    for call in result.calls if result is not None else ():
        cost = registry.get(call.tool).cost if call.tool in registry else None
        if isinstance(cost, int | float) and not isinstance(cost, bool):
            costs.append(cost * call.attempts)
    return sum(costs) if costs else None


def sources_in(result: Any, tool: str) -> tuple[Source, ...]:
    """The sources that a result names, each once, in their order.

    Args:
        result: a JSON value.
        tool: the tool that gave it: the title of sources without one.
    """
    unique = dict.fromkeys(_found(result, tool))
    return tuple(itertools.islice(unique, MAX_SOURCES))


def _found(result: Any, tool: str) -> Iterator[Source]:
    lists = [result]
    if isinstance(result, Mapping):
        yield from _named(result, tool)
        lists = [result.get(name) for name in _LISTS]
    for hits in lists:
        for hit in hits[:_MAX_HITS] if isinstance(hits, list) else ():
            if not isinstance(hit, Mapping):
                continue
            named = list(_named(hit, tool))
            if named:
                text = _cut(_first(hit, _TEXTS))
                yield from (source if source.text else replace(source, text=text) for source in named)
            elif _first(hit, (*_TITLES, "url", "uri", "section")):
                yield _source(hit, tool)


def _named(result: Mapping[Any, Any], tool: str) -> Iterator[Source]:
    for name in _FIELDS:
        given = result.get(name)
        for each in given[:_MAX_HITS] if isinstance(given, list) else [given]:
            if isinstance(each, str) and each.strip():
                yield Source(title=tool, location=each.strip()[:MAX_LOCATION_CHARACTERS])
            elif isinstance(each, Mapping) and _first(each, _TITLES + _LOCATIONS):
                yield _source(each, tool)


def _source(given: Mapping[Any, Any], tool: str) -> Source:
    return Source(
        title=(_first(given, _TITLES) or tool)[:MAX_TITLE_CHARACTERS],
        location=_first(given, _LOCATIONS)[:MAX_LOCATION_CHARACTERS],
        text=_cut(_first(given, _TEXTS)),
    )


def _first(given: Mapping[Any, Any], names: tuple[str, ...]) -> str:
    """The first of these fields that is a text or a whole number."""
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() < 64:
            return str(value)
    return ""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT_CHARACTERS else f"{text[: MAX_TEXT_CHARACTERS - 1]}…"
