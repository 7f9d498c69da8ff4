"""pydantic-ai's model of Chat Completions, for servers that only resemble OpenAI's: ids, names and numbers of calls may
be missing or the same, texts may hold halves of characters, and errors may come with status 200."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from openai import omit
from openai.types import chat
from pydantic_ai.exceptions import ModelAPIError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIStreamedResponse
from pydantic_ai.profiles.openai import OpenAIModelProfile

from .fitting import sendable
from .model import arguments_of

__all__ = ["PROFILE", "OpenAIChat"]

PROFILE = OpenAIModelProfile(
    json_schema_transformer=None,  # schemas go out as the agent has them
    supports_json_schema_output=True,
    openai_chat_streaming_requires_finish_reason=True,
    thinking_tags=("\0", "\0"),  # `thoughts` finds thoughts within texts, wherever a stream is cut
)


class OpenAIChat(OpenAIChatModel):
    """pydantic-ai's `OpenAIChatModel` for servers that only resemble OpenAI's.

    The setting `stream_options` says whether usage is asked for in streams.
    """

    def _validate_completion(self, response: chat.ChatCompletion) -> Any:
        if error := (response.model_extra or {}).get("error"):
            raise ModelAPIError(self.model_name, f"it is an error: {error}")
        _count(response)
        whole = response.model_dump(warnings=False)
        created = whole.get("created")
        whole |= {"id": _text(whole.get("id")), "model": _text(whole.get("model")), "object": "chat.completion"}
        whole["created"] = created if isinstance(created, int) else 0
        for index, choice in enumerate(whole.get("choices") or ()):
            choice["index"], choice["message"]["role"] = index, "assistant"
            for call in choice["message"].get("tool_calls") or ():
                function = call["function"] = call.get("function") or {}
                call["type"], call["id"] = "function", _text(call.get("id"))
                function["name"] = _text(function.get("name"))
                # halves of characters stay in arguments, where they are a fault
                function["arguments"] = _text(function.get("arguments")).encode(errors="backslashreplace").decode()
        return super()._validate_completion(chat.ChatCompletion.construct(**_mended(whole)))

    def _get_stream_options(self, model_settings: Any) -> Any:
        return super()._get_stream_options(model_settings) if model_settings.get("stream_options", True) else omit

    def _map_model_response(self, message: ModelResponse) -> Any:
        written: Any = super()._map_model_response(message)
        if written is not None and written.get("content", "") is None:
            del written["content"]  # null is refused by servers that check it for a text: llama-cpp-python
        return written

    @property
    def _streamed_response_cls(self) -> type[OpenAIStreamedResponse]:
        return _Stream


class _Stream(OpenAIStreamedResponse):
    """Servers number the calls of a stream; where the number is missing, or is the same for all, another id or another
    name begins another call; or, where there are no ids, a name after a call that came whole (Gemini: index 0, no id).
    """

    async def _validate_response(self) -> AsyncIterator[chat.ChatCompletionChunk]:
        calls: list[dict[str, Any]] = []
        at: dict[Any, dict[str, Any]] = {}
        async for chunk in self._response:
            _count(chunk)
            for choice in chunk.choices or ():
                for given in getattr(choice.delta, "tool_calls", None) or ():
                    _number(given, calls, at)
            yield chunk


def _number(given: Any, calls: list[dict[str, Any]], at: dict[Any, dict[str, Any]]) -> None:
    """Number a piece of a call by the call that it belongs to."""
    index, function = given.index, given.function
    name, identity = getattr(function, "name", None), given.id if isinstance(given.id, str) else None
    call = at.get(index) if isinstance(index, int) else calls[-1] if calls else None
    if call is not None:
        other = identity and call["id"] and identity != call["id"]
        named = name and call["name"] and not identity
        whole = call["pieces"] == 1 and not arguments_of(call["text"])[1]
        if other or (named and (not isinstance(index, int) or name != call["name"] or whole)):
            call = None
    if call is None:
        call = {"number": len(calls), "id": identity, "name": "", "text": "", "pieces": 0}
        calls.append(call)
        at[index] = call
    given.index, given.id = call["number"], identity
    if function is not None:
        arguments = function.arguments
        if isinstance(arguments, str) and arguments:
            call["pieces"] += 1
            call["text"] = arguments if call["pieces"] == 1 else ""
        function.name = None if call["name"] else name
    call["name"], call["id"] = call["name"] or name, call["id"] or identity


def _count(response: Any) -> None:
    """Make whole numbers of the usage of a response: servers leave some out, and some count thoughts in the total."""
    if (usage := response.usage) is None:
        return
    given, made, total = (
        count if isinstance(count := getattr(usage, name, None), int) else 0
        for name in ("prompt_tokens", "completion_tokens", "total_tokens")
    )
    usage.prompt_tokens, usage.completion_tokens, usage.total_tokens = given, max(made, total - given), total


def _text(value: Any) -> str:
    if isinstance(value, dict):  # arguments that came as an object
        return json.dumps(value)
    return value if isinstance(value, str) else ""


def _mended(value: Any) -> Any:
    """A JSON value without halves of characters."""
    if isinstance(value, dict):
        return {name: _mended(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_mended(each) for each in value]
    return sendable(value) if isinstance(value, str) else value
