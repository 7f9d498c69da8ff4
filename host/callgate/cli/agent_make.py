"""Makes an agent, its model, its planner and its budget of the command's options, and runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from callgate.agent.loop.budget import Budget
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
from callgate.agent.react.config import gateway_model, read_config
from callgate.agent.react.planner import ReActPlanner

from .words import one_line, say

__all__ = ["solve"]

_CLOSED_WITHIN_SECONDS = 2.0


async def solve(
    task: str, options: Mapping[str, Any], runtime: Runtime, tell: Callable[[AgentEvent], None]
) -> AgentResult:
    """Solve the task, or go on with it. With ``--discovery interrupt`` the agent is made anew when tools were found.

    Args:
        task: empty if ``--resume`` names a transcript.
        options: the command's options.
        runtime: an entered runtime.
        tell: called with every event.

    Raises:
        ConfigurationError: an option is wrong.
        SandboxError: programs need a sandbox, and no guest could be opened.
    """
    resume: Path | None = options["resume"]
    async with AsyncExitStack() as stack:
        given = {name: options[name] for name in ("mode", "system", "strategic_plan", "discovery", "price")}
        given |= {"runtime": runtime, "budget": _budget(options), "on_event": tell}
        given |= await _models(options, runtime, stack)
        if resume is None:
            result = await Agent(**given, transcript=options["transcript"]).run(task)
        else:
            result = await Agent(**given).resume(resume)
        while result.outcome == "interrupted":
            result = await Agent(**given).resume(result.transcript or result)
        return result


def _budget(options: Mapping[str, Any]) -> Budget:
    turns, tokens, cost = options["max_turns"], options["max_tokens"], options["max_cost"]
    return Budget(turns=turns, tokens=tokens, cost=cost, seconds=options["seconds"])


async def _models(options: Mapping[str, Any], runtime: Runtime, stack: AsyncExitStack) -> dict[str, Any]:
    """The agent's model and planner; `stack` closes them at its end."""
    planner, recording = options["planner"], options["record"]
    config = read_config(Path(planner)) if planner not in (None, "tool") else None
    if options["model"] is not None:
        model = model_named(options["model"], base_url=options["base_url"])
    else:
        assert config is not None
        model = gateway_model(config)
    stack.push_async_callback(_close, model)
    if recording is not None:
        model = RecordingModel(model, recording, append=options["resume"] is not None)
    if config is not None:
        react = ReActPlanner(config, model, runtime.registry)
        for note in react.notes:
            say(f"WARNING {one_line(f'{planner}: {note}')}", "yellow")
        return {"model": model, "planner": react}
    of_openai = model.provider == "openai"
    choice = options["tool_choice"] or (tool_choice_from_environment() if of_openai else "auto")
    answerer = {"answerer": await _answerer(options, runtime, model, stack)} if planner == "tool" else {}
    return {"model": model, "tool_choice": choice, **answerer}


_PLANNING_SECONDS = 20.0
"""Two requests to a hosted model. The 2 s of `PlannerSettings`, the tool planning engine's, are for a service that
answers many; here one person waits, who would rather have the model's choice than that of the rules."""


async def _answerer(
    options: Mapping[str, Any], runtime: Runtime, model: Model, stack: AsyncExitStack
) -> PlannedAnswerer:
    """The tool planner, with the orchestrator that runs its plans."""
    settings = PlannerSettings.from_environment(planning_seconds=options["planning_seconds"] or _PLANNING_SECONDS)
    plans = model
    if settings.planner_model:
        if options["record"] is not None or options["model"].startswith("replay:"):
            raise ConfigurationError(
                "a recording is of one model, and TOOL_PLANNER_MODEL names a second: record and replay without it"
            )
        plans = model_named(settings.planner_model)
        stack.push_async_callback(_close, plans)
    memory = SelectionMemory(runtime.registry)
    if options["statistics"] is not None:
        await stack.enter_async_context(SelectionsFile(options["statistics"], memory))
    selector = LearnedSelector(ModelSelector(plans, runtime, memory=memory, settings=settings), memory)
    decomposer = Decomposer(plans, temperature=settings.temperature)
    planner = ToolPlanner(runtime, plans, selector=selector, decomposer=decomposer, memory=memory, settings=settings)
    return PlannedAnswerer(planner, ToolOrchestrator(runtime, memory=memory, settings=settings), model)


async def _close(model: Model) -> None:
    with anyio.move_on_after(_CLOSED_WITHIN_SECONDS, shield=True):
        await model.aclose()
