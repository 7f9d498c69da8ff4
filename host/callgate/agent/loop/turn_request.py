"""The request of a turn: the conversation, the system text, the tools of now, and which of them has to be called.
Sends nothing."""

from __future__ import annotations

from dataclasses import replace

from callgate.agent.models.model import Assistant, Request
from callgate.errors import ConfigurationError
from callgate.runtime.model.foreign import ModelNames

from .offering import Offering, names_of
from .setup import Setup
from .system_text import system_text
from .task_state import TaskState

__all__ = ["turn_request"]


def turn_request(setup: Setup, state: TaskState, offering: Offering, *, is_last: bool = False) -> Request:
    """The request for the next turn; the planner's, where there is one.

    Args:
        setup: of the agent.
        state: of the task.
        offering: what the model is offered; open.
        is_last: no tool can be called in it. Their definitions stay, since the conversation has calls of them.

    Raises:
        ConfigurationError: the tool that has to be called is not there, or as the planner's `request` does.
    """
    request = _own(setup, state, offering) if setup.planner is None else _planned(setup, state)
    return replace(request, tool_choice="none") if is_last and request.tools else request


def _own(setup: Setup, state: TaskState, offering: Offering) -> Request:
    began = state.began
    assert began is not None
    definitions = offering.definitions()
    return Request(
        messages=tuple(state.messages),
        system=system_text(
            own=began.system,
            instructions=offering.conversation.instructions() if definitions else "",
            strategic_plan=began.strategic_plan,
        ),
        tools=definitions,
        tool_choice=_choice(setup, state, names_of(definitions)) if definitions else "auto",
        parallel=False if setup.max_parallel_tool_calls == 1 and definitions else None,
        max_output_tokens=setup.max_output_tokens,
        temperature=setup.temperature,
    )


def _planned(setup: Setup, state: TaskState) -> Request:
    began, planner = state.began, setup.planner
    assert began is not None
    assert planner is not None
    context = {} if began.strategic_plan is None else {"strategic_plan": began.strategic_plan}
    request = planner.request(tuple(state.messages), context)
    request = replace(request, system=system_text(own=began.system, instructions=request.system))
    if setup.temperature is not None:
        request = replace(request, temperature=setup.temperature)
    if setup.max_output_tokens is not None:
        request = replace(request, max_output_tokens=setup.max_output_tokens)
    return request


def _choice(setup: Setup, state: TaskState, names: tuple[str, ...]) -> str:
    """What the operator chose, until a tool was called: a model that always has to call one never answers."""
    choice = setup.tool_choice
    if choice in ("auto", "none"):
        return choice
    if any(isinstance(each, Assistant) and each.calls for each in state.messages):
        return "auto"
    if choice == "required" or choice in names:
        return choice
    known = ModelNames(setup.runtime.registry)
    if (name := known.resolve(choice)) is not None and known.of(name) in names:
        return known.of(name)
    raise ConfigurationError(
        f"tool_choice is {choice!r}; it is auto, required, none, or one of: {', '.join(names[:20])}"
    )
