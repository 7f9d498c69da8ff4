"""callgate for pydantic-ai: a toolset, for `Agent(toolsets=[...])`.

Needs the extra ``pydantic-ai``. Thin: definitions come from `tool_definitions`, answers from `answer`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Self, Unpack

from callgate.extras import how_to_install

try:
    from pydantic_ai import ModelRetry, RunContext
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import BinaryContent, InstructionPart, ToolReturn, UserContent
    from pydantic_ai.tools import AgentDepsT, ToolDefinition
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ModuleNotFoundError as missing:
    words = f"{missing.name} is not installed: {how_to_install('pydantic-ai')}"
    raise ModuleNotFoundError(words, name=missing.name) from missing

from pydantic_core import SchemaValidator, core_schema

from callgate.errors import ConfigurationError
from callgate.runtime import Answer, Conversation, Event, Runtime
from callgate.runtime.model import DefinitionOptions
from callgate.runtime.model.providers import FROM_TOOLS, label
from callgate.runtime.opening import open_while

from .answering import Answering

__all__ = ["CallgateToolset"]

OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))
"""callgate validates arguments itself, and words what is wrong for the model."""


class CallgateToolset(AbstractToolset[AgentDepsT]):
    """Tools that callgate answers: the meta-tools, and those of `direct`.

    Made from a runtime, each run of the agent has a `Conversation` of its own: tools that a search has found are shown
    from the next step on, in this run alone. Made from a conversation, they stay from run to run.

    A runtime that is not open is entered when the agent's run begins, and left when it has ended: `agent.run_sync` and
    `agent.run` work as they are. A runtime that is entered is used in its own loop, also from another event loop, and
    stays open; so does one inside ``async with agent``, which spares each run the start of a sandbox.

    Approval is the runtime's (`Runtime(approve=...)`). Cancelling the agent's run ends the call and what it started.

    Args:
        source: a runtime, or a conversation of it.
        id: the toolset's id, for agents that run in durable executions.
        mistakes: what the model's own mistakes are to pydantic-ai: arguments that do not fit, a program or a plan that
            was refused. ``"failed"``: `ToolFailed`, which the model sees, and answers as it likes. ``"retry"``:
            `ModelRetry`, which counts: after more than `max_retries` in a row of one tool the agent's run ends with an
            error. What a tool, or a program that ran, failed at is `ToolFailed` in any case.
        max_retries: None for the agent's own. With ``"failed"``, only arguments that are not a JSON object count.
        instructions: whether the agent's instructions say how to choose among these tools.
        on_event: receives prints, steps, call starts and call ends as they happen.
        pictures: whether the model gets the pictures that programs and tools make, behind the results of its turn:
            `ToolReturn.content`. False for models without vision.
        options: with a runtime: what to define, as for `Runtime.tool_definitions`: `direct`, `meta`, ...

    Raises:
        ConfigurationError: an option is wrong.
        SandboxError: raised by the agent's run: the runtime cannot be entered.
    """

    def __init__(
        self,
        source: Runtime | Conversation,
        *,
        id: str | None = None,
        mistakes: Literal["failed", "retry"] = "failed",
        max_retries: int | None = None,
        instructions: bool = True,
        on_event: Callable[[Event], None] | None = None,
        pictures: bool = True,
        **options: Unpack[DefinitionOptions],
    ) -> None:
        if mistakes not in ("failed", "retry"):
            raise ConfigurationError(f"mistakes is 'failed' or 'retry', not {mistakes!r}")
        self._answering = Answering(source, options, "openai", on_event, pictures=pictures)
        self._id = id
        self._mistakes = mistakes
        self._max_retries = max_retries
        self._instructions = instructions
        self._open: list[AbstractAsyncContextManager[None]] = []

    @property
    def id(self) -> str | None:
        return self._id

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractToolset[AgentDepsT]:
        own = copy.copy(self)
        own._answering = self._answering.for_one()
        own._open = []
        return own

    async def __aenter__(self) -> Self:
        held = open_while(self._answering.runtime)
        await held.__aenter__()
        self._open.append(held)
        return self

    async def __aexit__(self, *error: Any) -> bool | None:
        await self._open.pop().__aexit__(None, None, None)
        return None

    async def get_instructions(self, ctx: RunContext[AgentDepsT]) -> InstructionPart | None:
        return InstructionPart(content=self._answering.instructions(), dynamic=False) if self._instructions else None

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        retries = ctx.max_retries if self._max_retries is None else self._max_retries
        shown = [each["function"] for each in self._answering.definitions()]
        return {
            function["name"]: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=function["name"],
                    description=function.get("description"),
                    parameters_json_schema=function["parameters"],
                    strict=True if function.get("strict") else None,
                ),
                max_retries=retries,
                args_validator=OBJECT,
            )
            for function in shown
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> str | ToolReturn:
        answer = await self._answering.answer(name, tool_args)
        if answer.ok:
            return _with_pictures(answer) if answer.pictures else answer.text
        raise (ModelRetry if answer.mistake and self._mistakes == "retry" else ToolFailed)(answer.text)


def _with_pictures(answer: Answer) -> ToolReturn:
    content: list[UserContent] = [FROM_TOOLS]
    for each in answer.pictures:
        content += [label(each.reference), BinaryContent(each.data, media_type=each.media_type)]
    return ToolReturn(return_value=answer.text, content=content)
