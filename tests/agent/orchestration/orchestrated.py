"""Plans written by hand, and what tests of the orchestrator need besides."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

from callgate import Limits, Runtime, ToolError, tool
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.selection import Advice, Memory, SelectionOutcome
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import PlanSource, ToolExecution, ToolPlan, ToolStep

QUICK = PlannerSettings(retry_backoff="none")
"""Retries at once."""


def plan(
    *steps: ToolStep,
    id: str = "p1",
    query: str = "the question",
    strategy: str = "by hand",
    source: PlanSource = "model",
    reasoning: str = "",
) -> ToolPlan:
    """A plan of these steps. Its stages are not needed to run it."""
    stages = (tuple(step.id for step in steps),) if steps else ()
    return ToolPlan(
        id=id, query=query, steps=steps, stages=stages, strategy=strategy, source=source, reasoning=reasoning
    )


def step(id: str, tool: str, /, **fields: Any) -> ToolStep:
    """A step; what is no field of a step is an argument of the tool."""
    own = {name: fields.pop(name) for name in list(fields) if name in ToolStep.__dataclass_fields__}
    return ToolStep(id=id, tool=tool, parameters={**fields, **own.pop("parameters", {})}, **own)


@contextlib.asynccontextmanager
async def orchestrator(
    tools: Iterable[Any],
    settings: PlannerSettings = QUICK,
    *,
    memory: Memory | None = None,
    limits: Limits | None = None,
    **options: Any,
) -> AsyncIterator[ToolOrchestrator]:
    """An orchestrator over a runtime with these tools."""
    async with Runtime(tools, sandbox=None, **options) as runtime:
        yield ToolOrchestrator(runtime, settings=settings, memory=memory, limits=limits)


def data(execution: ToolExecution) -> dict[str, Any]:
    """The results that there are, by step."""
    return {each.step_id: each.data for each in execution.results if each.success}


def errors(execution: ToolExecution) -> dict[str, str]:
    """Why there are no others."""
    return {each.step_id: each.error or "" for each in execution.results if not each.success}


class Noted:
    """A memory that keeps what it is told, and has no advice."""

    def __init__(self) -> None:
        self.outcomes: list[SelectionOutcome] = []

    def note(self, outcome: SelectionOutcome) -> None:
        self.outcomes.append(outcome)

    def advice(self, query: str, tools: Iterable[str]) -> Advice:
        return Advice()


@tool(read_only=True)
async def lookup(unit: str) -> dict[str, Any]:
    """Facts about a unit."""
    toughness = {"terminator": 5, "dreadnought": 9}
    return {"unit": unit, "toughness": toughness[unit], "confidence": 0.9, "source": f"codex/{unit}"}


@tool(read_only=True)
async def compare(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The tougher of two."""
    return {"tougher": max(a, b, key=lambda each: each["toughness"])["unit"], "of": [a["unit"], b["unit"]]}


@tool
async def fail(why: str) -> None:
    """Fail for good."""
    raise ToolError(why)
