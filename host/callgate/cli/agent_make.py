"""From what was asked for to an agent at work: its model, its planner, its budget."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import anyio

from callgate import ConfigurationError, Runtime
from callgate.agent.events import AgentEvent
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.ranked import LearnedSelector
from callgate.agent.learning.selections_file import SelectionsFile
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.result import AgentResult
from callgate.agent.models.model import Model
from callgate.agent.models.named import model_named, tool_choice_from_environment
from callgate.agent.models.recording import RecordingModel
from callgate.agent.orchestration.answering import PlannedAnswerer
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.decomposition import Decomposer
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.selector import ModelSelector
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.react.config import read_config
from callgate.agent.react.gateway_model import gateway_model
from callgate.agent.react.planner import ReActPlanner

from .agent_options import Chosen
from .words import one_line, say

__all__ = ["solve"]

_CLOSED_WITHIN_SECONDS = 2.0


async def solve(chosen: Chosen, runtime: Runtime, tell: Callable[[AgentEvent], None]) -> AgentResult:
    """Solve the task, or go on with it. With ``--discovery interrupt`` the agent is made anew where tools were found.

    Args:
        chosen: what was asked for.
        runtime: open.
        tell: told of every event.

    Raises:
        ConfigurationError: something that was asked for cannot be.
        SandboxError: programs were asked for, and there is no guest.
    """
    async with AsyncExitStack() as stack:
        options = await _options(chosen, runtime, tell, stack)
        if chosen.resume is None:
            result = await Agent(**options, transcript=chosen.transcript).run(chosen.task)
        else:
            result = await Agent(**options).resume(chosen.resume)
        while result.outcome == "interrupted":
            result = await Agent(**options).resume(result.transcript or result)
        return result


async def _options(
    chosen: Chosen, runtime: Runtime, tell: Callable[[AgentEvent], None], stack: AsyncExitStack
) -> dict[str, Any]:
    """Of the agent. What the stack holds is closed at its end."""
    planning: dict[str, Any] = {}
    config = read_config(Path(chosen.planner)) if chosen.planner not in (None, "tool") else None
    if chosen.model is not None:
        model = model_named(chosen.model, base_url=chosen.base_url)
    else:
        assert config is not None
        model = gateway_model(config)
    stack.push_async_callback(_close, model)
    if chosen.record is not None:
        model = RecordingModel(model, chosen.record, append=chosen.resume is not None)
    if config is not None:
        planner = ReActPlanner(config, model, runtime.registry)
        for note in planner.notes:
            say(f"WARNING {one_line(f'{chosen.planner}: {note}')}", "yellow")
        planning["planner"] = planner
    elif chosen.planner == "tool":
        planning["answerer"] = await _answerer(chosen, runtime, model, stack)
    if config is None:
        of_openai = model.provider == "openai"
        planning["tool_choice"] = chosen.tool_choice or (tool_choice_from_environment() if of_openai else "auto")
    return {
        "model": model,
        "runtime": runtime,
        "mode": chosen.mode,
        "system": chosen.system,
        "budget": chosen.budget(),
        "strategic_plan": chosen.strategic_plan,
        "discovery": chosen.discovery,
        "price": chosen.price,
        "on_event": tell,
        **planning,
    }


_PLANNING_SECONDS = 20.0
"""Two requests to a hosted model. The 2 s of `PlannerSettings`, the tool planning engine's, are for a service that
answers many; here one person waits, who would rather have the model's choice than that of the rules."""


async def _answerer(chosen: Chosen, runtime: Runtime, model: Model, stack: AsyncExitStack) -> PlannedAnswerer:
    """The tool planner, and who runs its plans."""
    seconds = _PLANNING_SECONDS if chosen.planning_seconds is None else chosen.planning_seconds
    settings = PlannerSettings.from_environment(planning_seconds=seconds)
    plans = model
    if settings.planner_model:
        if chosen.record is not None or (chosen.model or "").startswith("replay:"):
            raise ConfigurationError(
                "a recording is of one model, and TOOL_PLANNER_MODEL names a second: record and replay without it"
            )
        plans = model_named(settings.planner_model)
        stack.push_async_callback(_close, plans)
    memory = SelectionMemory(runtime.registry)
    if chosen.statistics is not None:
        await stack.enter_async_context(SelectionsFile(chosen.statistics, memory))
    selector = LearnedSelector(ModelSelector(plans, runtime, memory=memory, settings=settings), memory)
    decomposer = Decomposer(plans, temperature=settings.temperature)
    planner = ToolPlanner(runtime, plans, selector=selector, decomposer=decomposer, memory=memory, settings=settings)
    return PlannedAnswerer(planner, ToolOrchestrator(runtime, memory=memory, settings=settings), model)


async def _close(model: Model) -> None:
    with anyio.move_on_after(_CLOSED_WITHIN_SECONDS, shield=True):
        await model.aclose()
