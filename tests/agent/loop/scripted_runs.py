"""Runs an agent with a scripted model, and reads what came of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any, TypeVar

import anyio
import pytest

from callgate import Runtime, SandboxUnavailable, tool
from callgate.agent.events import Faulted
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.offering import names_of
from callgate.agent.loop.result import AgentResult
from callgate.agent.loop.task_run import LAST_WORDS
from callgate.agent.models.model import Request, ToolReplies, Usage, User
from callgate.agent.models.scripted import Calls, Say, ScriptedModel

Event = TypeVar("Event")


@contextlib.asynccontextmanager
async def sandboxed(tools: Sequence[Any], **options: Any) -> AsyncIterator[Runtime]:
    """A runtime whose programs run in a sandbox. A sandbox that is missing is a skip, in CI a failure."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            runtime = await stack.enter_async_context(Runtime(tools, **options))
        except SandboxUnavailable as reason:
            if os.environ.get("CI") == "true":
                pytest.fail(f"the sandbox has to work in CI: {reason}")
            pytest.skip(str(reason))
        yield runtime


async def play(
    tools: Sequence[Any] | Runtime, *turns: Any, task: str = "What is the weather in Tokyo?", **options: Any
) -> tuple[AgentResult, ScriptedModel]:
    """An agent's task with these turns of the model; `Runtime(tools, sandbox=None)` unless a runtime is given."""
    model = ScriptedModel(turns)
    with anyio.fail_after(20):
        if isinstance(tools, Runtime):
            return await Agent(model, tools, **options).run(task), model
        async with Runtime(tools, sandbox=None) as runtime:
            return await Agent(model, runtime, **options).run(task), model


def shown(model: ScriptedModel) -> list[tuple[str, ...]]:
    """Names of the tools that the model was offered, request by request."""
    return [names_of(request.tools) for request in model.requests]


def told(request: Request) -> list[str]:
    """What the request says last: the results of calls, or words in the user's place."""
    last = request.messages[-1]
    if isinstance(last, ToolReplies):
        return [reply.text for reply in last.replies]
    assert isinstance(last, User)
    return [last.text]


def of(result: AgentResult, kind: type[Event]) -> list[Event]:
    """The events of a kind."""
    return [event for event in result.events if isinstance(event, kind)]


def faults(result: AgentResult) -> list[tuple[str, str]]:
    """Fault and action of all that went wrong."""
    return [(each.fault, each.action) for each in of(result, Faulted)]


THOUSAND = Usage(input_tokens=900, output_tokens=100)


@tool(read_only=True)
async def look(n: int) -> int:
    """Looks something up."""
    return n


def looks(n: int, usage: Usage = THOUSAND) -> Say:
    """A turn that calls it."""
    return Say(calls=Calls(("look", {"n": n})), usage=usage)


def asked_for_an_answer(request: Request) -> str:
    """The move of a model whose last turn it is."""
    assert request.tool_choice == "none"
    assert told(request) == [LAST_WORDS]
    return "This is what I have."
