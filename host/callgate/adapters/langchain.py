"""callgate for LangChain: tools for `bind_tools`, `create_agent`, `ToolNode`.

Needs the extra ``langchain``. Thin: definitions come from `tool_definitions`, answers from `answer`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar, Unpack

from callgate.extras import how_to_install

try:
    from langchain_core.messages import ToolMessage
    from langchain_core.messages.content import create_image_block, create_text_block
    from langchain_core.tools import BaseTool, ToolException
except ModuleNotFoundError as missing:
    words = f"{missing.name} is not installed: {how_to_install('langchain')}"
    raise ModuleNotFoundError(words, name=missing.name) from missing

from pydantic import PrivateAttr

from callgate.errors import ConfigurationError
from callgate.runtime import Answer, Conversation, Event, Runtime
from callgate.runtime.model import DefinitionOptions

from .answering import Answering

__all__ = ["CallgateTool", "langchain_tools"]

Content = str | list[dict[str, Any]]
Result = TypeVar("Result")


class CallgateTool(BaseTool):
    """A LangChain tool that callgate answers; made by `langchain_tools`.

    With pictures the message's content is a list of LangChain's content blocks: a text and images.

    A failure is a `ToolException`, of which LangChain makes a `ToolMessage` with ``status="error"``. Otherwise the
    message's `artifact` is for the host: JSON values, so that a checkpointer can keep them. ``structured`` is
    `Answer.structured`, ``found`` and ``tools_changed`` are those of the `Answer`.
    """

    args_schema: dict[str, Any]
    handle_tool_error: bool = True
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"

    _answering: Answering = PrivateAttr()

    @classmethod
    def of(cls, answering: Answering, name: str, description: str = "", parameters: Any = None) -> CallgateTool:
        """The tool of that name. Without parameters it answers calls, and is not shown to a model."""
        tool = cls(name=name, description=description, args_schema=parameters or {"type": "object", "properties": {}})
        tool._answering = answering
        return tool

    def message(self, answer: Answer, call_id: str | None) -> ToolMessage:
        """The answer to a call of this tool."""
        status: Literal["success", "error"] = "success" if answer.ok else "error"
        content: Any = _content(answer)
        artifact = _artifact(answer) if answer.ok else None
        return ToolMessage(content, name=self.name, tool_call_id=call_id, status=status, artifact=artifact)

    def _run(self, /, **arguments: Any) -> tuple[Content, dict[str, Any]]:
        return blocking(self.name, self._answer(arguments))

    async def _arun(self, /, **arguments: Any) -> tuple[Content, dict[str, Any]]:
        return await self._answer(arguments)

    async def _answer(self, arguments: dict[str, Any]) -> tuple[Content, dict[str, Any]]:
        answer = await self._answering.answer(self.name, arguments)
        if not answer.ok:
            raise ToolException(answer.text)
        return _content(answer), _artifact(answer)


def blocking(name: str, answer: Coroutine[Any, Any, Result]) -> Result:
    """The result of a coroutine, where no event loop is running.

    Args:
        name: the tool's, for the error.
        answer: the coroutine.

    Raises:
        ConfigurationError: an event loop is running here.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(answer)
    answer.close()
    raise ConfigurationError(
        f"{name}: a call that blocks would hold up this event loop; "
        "use `await tool.ainvoke(...)`, or `tool.invoke(...)` in another thread"
    )


def _artifact(answer: Answer) -> dict[str, Any]:
    return {
        "structured": answer.structured(),
        "found": list(answer.found),
        "tools_changed": answer.tools_changed,
    }


def _content(answer: Answer) -> Content:
    """The text; with pictures, LangChain's content blocks."""
    if not answer.pictures:
        return answer.text
    images = [create_image_block(base64=each.base64, mime_type=each.media_type) for each in answer.pictures]
    return [dict(create_text_block(answer.text)), *map(dict, images)]


def langchain_tools(
    source: Runtime | Conversation,
    *,
    on_event: Callable[[Event], None] | None = None,
    pictures: bool = False,
    **options: Unpack[DefinitionOptions],
) -> list[BaseTool]:
    """LangChain tools that callgate answers.

    They are async (`ainvoke`); `invoke` works where no event loop is running. A runtime that is entered is used in its
    own event loop, from any thread. A runtime that is not entered is entered for each call, which starts a sandbox:
    enter the runtime around many calls. Approval is the runtime's (`Runtime(approve=...)`). Cancelling a call ends what
    it started.

    Args:
        source: a runtime; or a conversation, whose tools grow as its searches find some: ask for them anew, and bind
            them anew, before each turn of the model.
        on_event: receives prints, steps, call starts and call ends as they happen.
        pictures: whether answers hold pictures, as image blocks of the `ToolMessage`. Only for models that take them
            there: Anthropic's and Google's, and OpenAI's with ``use_responses_api=True``. OpenAI's Chat Completions
            refuse the whole request (https://github.com/langchain-ai/langchain/issues/31950).
        options: with a runtime: what to define, as for `Runtime.tool_definitions`: `direct`, `meta`, ...

    Raises:
        ConfigurationError: an option is wrong.
    """
    return made_tools(Answering(source, options, "openai", on_event, pictures=pictures))


def made_tools(answering: Answering) -> list[BaseTool]:
    """The tools to show the model now."""
    functions = [each["function"] for each in answering.definitions()]
    return [
        CallgateTool.of(answering, each["name"], each.get("description") or "", each["parameters"])
        for each in functions
    ]
