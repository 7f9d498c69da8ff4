"""callgate for the OpenAI Agents SDK: function tools, for `Agent(tools=...)`.

Needs the extra ``openai-agents``. Thin: definitions come from `tool_definitions`, answers from `answer`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Unpack

from callgate.extras import how_to_install

try:
    from agents import FunctionTool, ToolOutputImage, ToolOutputText, ToolSearchTool
    from agents import Tool as AgentTool
    from agents.tool_context import ToolContext
except ModuleNotFoundError as missing:
    words = f"{missing.name} is not installed: {how_to_install('openai-agents')}"
    raise ModuleNotFoundError(words, name=missing.name) from missing

from callgate.runtime import Conversation, Event, Runtime
from callgate.runtime.model import DefinitionOptions

from .answering import Answering

__all__ = ["openai_agents_tools"]

Output = str | list[ToolOutputText | ToolOutputImage]


def openai_agents_tools(
    source: Runtime | Conversation,
    *,
    on_event: Callable[[Event], None] | None = None,
    pictures: bool = True,
    **options: Unpack[DefinitionOptions],
) -> list[AgentTool]:
    """Function tools that callgate answers.

    A runtime that is entered is used in its own event loop, by `Runner.run` and by `Runner.run_sync`. A runtime that is
    not entered is entered for each call, which starts a sandbox: enter the runtime around many calls.

    What the model does wrong, and what fails, is text in the tool's output: the run goes on. Approval is the runtime's
    (`Runtime(approve=...)`), not the SDK's `needs_approval`. Cancelling the run ends the call and what it started.

    Args:
        source: a runtime; or a conversation, for an agent that serves one user. With a conversation, the list grows by
            the tools that its searches find: hand it to `Agent(tools=...)` itself, not a copy.
        on_event: receives prints, steps, call starts and call ends as they happen.
        pictures: whether outputs hold the pictures that programs and tools make. The SDK sends them with OpenAI's
            Responses, and leaves them out with Chat Completions; False for models without vision.
        options: with a runtime: what to define, as for `Runtime.tool_definitions`: `direct`, `meta`, `strict`, ...

    Raises:
        ConfigurationError: an option is wrong.
    """
    answering = Answering(source, options, "openai-responses", on_event, pictures=pictures)
    tools: list[AgentTool] = []

    def define() -> None:
        tools[:] = [
            _function_tool(each, invoke_of(each["name"])) if each["type"] == "function" else ToolSearchTool()
            for each in answering.definitions()
        ]

    def invoke_of(name: str) -> Callable[[ToolContext[Any], str], Awaitable[Output]]:
        async def invoke(context: ToolContext[Any], arguments: str) -> Output:
            answer = await answering.answer(name, arguments, caller=_caller(context))
            if answer.tools_changed:
                define()
            if not answer.pictures:
                return answer.text
            images = [ToolOutputImage(image_url=each.data_uri, detail="auto") for each in answer.pictures]
            return [ToolOutputText(text=answer.text), *images]

        return invoke

    define()
    return tools


def _caller(context: ToolContext[Any]) -> str:
    """``direct``, or ``program`` where the service's own code made the call."""
    caller = None if context.tool_call is None else context.tool_call.caller
    return "direct" if caller is None else caller.type


def _function_tool(
    definition: dict[str, Any], invoke: Callable[[ToolContext[Any], str], Awaitable[Output]]
) -> FunctionTool:
    return FunctionTool(
        name=definition["name"],
        description=definition.get("description") or "",
        params_json_schema=definition["parameters"],
        on_invoke_tool=invoke,
        strict_json_schema=bool(definition.get("strict")),
        defer_loading=bool(definition.get("defer_loading")),
        allowed_callers=definition.get("allowed_callers"),
    )
