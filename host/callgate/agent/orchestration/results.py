"""The outcome of a plan, in the values of tool planning: results with confidence and sources, and the outcome to learn
from. Arithmetic over what the plan engine says; it runs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from callgate.agent.planning.selection import SelectionOutcome
from callgate.agent.planning.tool_plan import ToolExecution, ToolPlan, ToolResult, ToolStep
from callgate.runtime import PlanResult, StepResult
from callgate.tools import Registry

from .sources import sources_in

__all__ = ["confidence_of", "missing_result", "outcome_of", "tool_result"]

_ERROR_CHARACTERS = 500


def confidence_of(data: Any) -> float | None:
    """What a result says of itself: the number from 0 to 1 under its ``confidence``; None where it does not say."""
    value = data.get("confidence") if isinstance(data, Mapping) else None
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return float(value) if fits and value is not None else None


def tool_result(ended: StepResult, step: ToolStep | None) -> ToolResult:
    """The result of a step that ended.

    Args:
        ended: as the plan engine has it.
        step: as it was planned; None where it is not of the plan, as it was written.
    """
    tool = ended.fallback or ended.tool
    found = ToolResult(
        step_id=ended.id,
        tool=tool,
        success=ended.status == "succeeded",
        duration_seconds=ended.duration_seconds,
        retries=max(ended.attempts - max(len(ended.calls), 1), 0),  # a fallback's first attempt is none
    )
    if not found.success:
        return replace(found, error=ended.error or ended.status)
    data = ended.result
    own = confidence_of(data)
    confidence = own if own is not None else 1.0 if step is None else step.confidence
    return replace(found, data=data, confidence=confidence, sources=sources_in(data, tool), cached=ended.cached)


def missing_result(step: ToolStep, error: str) -> ToolResult:
    """The result of a step that never ended.

    Args:
        step: as it was planned.
        error: why.
    """
    return ToolResult(step_id=step.id, tool=step.tool, success=False, error=error)


def outcome_of(plan: ToolPlan, execution: ToolExecution, registry: Registry) -> SelectionOutcome:
    """The outcome of a selection, for a `Memory`.

    Args:
        plan: what was run.
        execution: of it.
        registry: the tools, for their costs. Results that were kept cost nothing.
    """
    tools = tuple(dict.fromkeys(step.tool for step in plan.steps))
    said = [each for result in execution.results if (each := confidence_of(result.data)) is not None]
    errors = [result.error for result in execution.results if result.error]
    return SelectionOutcome(
        query=plan.query,
        tools=tools,
        strategy=plan.strategy,
        success=execution.success,
        seconds=execution.total_seconds,
        cost=_cost(execution.plan_result, registry),
        confidence=sum(said) / len(said) if said else None,
        failed_tools=tuple(each for each in tools if each in _failed_tools(execution)),
        reasoning=plan.reasoning,
        error=errors[0][:_ERROR_CHARACTERS] if errors else "",
    )


def _cost(result: PlanResult | None, registry: Registry) -> float | None:
    """Of all attempts, by the tools' own `cost`; None where no tool that was called has a number for one."""
    costs: list[float] = []
    for call in result.calls if result is not None else ():
        cost = registry.get(call.tool).cost if call.tool in registry else None
        if isinstance(cost, int | float) and not isinstance(cost, bool):
            costs.append(cost * call.attempts)
    return sum(costs) if costs else None


def _failed_tools(execution: ToolExecution) -> set[str]:
    """Tools whose calls failed, whether or not a fallback made up for it."""
    if execution.plan_result is None:
        return set()
    return {
        call.tool for call in execution.plan_result.calls if call.status in ("failed", "timed_out", "unknown_outcome")
    }
