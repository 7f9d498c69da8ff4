"""The request of a turn: the conversation, the system text, the tools of now, and which of them has to be called.
Sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from callgate.agent.models.fitting import with_pictures
from callgate.agent.models.messages_json import pictures_in
from callgate.agent.models.model import Assistant, Request
from callgate.agent.react.messages import plan_block
from callgate.errors import ConfigurationError
from callgate.runtime.model.foreign import ModelNames
from callgate.runtime.pictures import Picture

from .final_answers import how_to_answer
from .offering import Offering, names_of
from .options import AgentOptions
from .task_state import TaskState

__all__ = ["system_text", "turn_request"]


def turn_request(
    options: AgentOptions,
    state: TaskState,
    offering: Offering,
    *,
    is_last: bool = False,
    pictures: Mapping[str, Picture] | None = None,
) -> Request:
    """The request for the next turn; the planner's, where there is one.

    Args:
        options: of the agent.
        state: of the task.
        offering: what the model is offered; open.
        is_last: no tool can be called in it. Their definitions stay, since the conversation has calls of them.
        pictures: those that there are, by their `sha256`.

    Raises:
        ConfigurationError: the tool that has to be called is not there, or as the planner's `request` does.
    """
    task = state.task
    how = how_to_answer(options, by_program=offering.requires_program)
    messages = tuple(with_pictures(state.messages))
    if options.planner is None:
        definitions = offering.definitions()
        instructions = offering.conversation.instructions() if definitions else ""
        instructions = f"{instructions}\n\n{how}"
        request = Request(
            messages=messages,
            system=system_text(task.system, instructions, task.strategic_plan),
            tools=definitions,
            tool_choice=_choice(options, state, names_of(definitions)) if definitions else "auto",
            parallel=False if options.max_parallel_tool_calls == 1 and definitions else None,
        )
    else:
        context = {} if task.strategic_plan is None else {"strategic_plan": task.strategic_plan}
        request = options.planner.request(messages, context)
        words = f"{request.system}\n\n{how}"
        request = replace(request, system=system_text(task.system, words))
    if named := {each.sha256 for message in request.messages for each in pictures_in(message)}:
        there = {sha256: picture for sha256, picture in (pictures or {}).items() if sha256 in named}
        request = replace(request, pictures=there)
    if options.temperature is not None:
        request = replace(request, temperature=options.temperature)
    if options.max_output_tokens is not None:
        request = replace(request, max_output_tokens=options.max_output_tokens)
    return replace(request, tool_choice="none") if is_last and request.tools else request


def system_text(own: str, instructions: str = "", strategic_plan: Any = None) -> str:
    """The system text: its non-empty parts, with a blank line between them.

    Args:
        own: the operator's.
        instructions: how to choose among the tools, and when direct calls, a plan or a program is best.
        strategic_plan: phases of workers with their goals, or any other JSON value, for instance ``{"phases":
            [{"worker": "data-analysis", "goals": "..."}]}``; cut after 1,500 characters. None without.
    """
    parts = (own.strip(), instructions.strip(), plan_block(strategic_plan).strip())
    return "\n\n".join(part for part in parts if part)


def _choice(options: AgentOptions, state: TaskState, names: tuple[str, ...]) -> str:
    """The operator's tool choice, until a tool was called: a model that always has to call a tool never answers."""
    choice = options.tool_choice
    if choice in ("auto", "none"):
        return choice
    if any(isinstance(each, Assistant) and each.calls for each in state.messages):
        return "auto"
    if choice == "required" or choice in names:
        return choice
    known = ModelNames(options.runtime.registry)
    if (name := known.resolve(choice)) is not None and known.of(name) in names:
        return known.of(name)
    raise ConfigurationError(
        f"tool_choice is {choice!r}; it is auto, required, none, or one of: {', '.join(names[:20])}"
    )
