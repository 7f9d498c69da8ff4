"""A model behind OpenAI's Chat Completions, by the official SDK; the one file of the harness that imports `openai`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callgate.bench.model.model_client import Asked, ModelFailed, Patience, Reply, arguments_of
from callgate.bench.model.sdk import Connection, Line, connected

__all__ = ["OpenAIModel", "client"]


def client(connection: Connection) -> Any:
    """An `AsyncOpenAI`.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    sdk: Any = importlib.import_module("openai")
    made = connected(sdk, sdk.AsyncOpenAI, connection)
    _ = made.chat.completions  # imported now, and not within the first request, whose seconds count
    return made


@dataclass(frozen=True, slots=True)
class OpenAIModel:
    """See `model_client.ModelClient`.

    Attributes:
        client: an `AsyncOpenAI`.
        name: as the endpoint knows it.
        patience: how long it is waited for.
    """

    client: Any
    name: str
    patience: Patience

    def chat(self, *, system: str, task: str, tools: Sequence[dict[str, Any]], parallel: bool) -> _Chat:
        options: dict[str, Any] = {"model": self.name}
        if tools:
            options["tools"] = [{"type": "function", "function": _function(each)} for each in tools]
            options["parallel_tool_calls"] = parallel
        messages = [{"role": "system", "content": system}] if system else []
        sdk, create = importlib.import_module("openai"), self.client.chat.completions.create
        line = Line(sdk=sdk, create=create, patience=self.patience, too_long=_too_long)
        return _Chat(line, options, [*messages, {"role": "user", "content": task}])


@dataclass(frozen=True, slots=True)
class _Chat:
    line: Line
    options: dict[str, Any]
    messages: list[dict[str, Any]]

    async def ask(self) -> Reply:
        completion = await self.line.sent(self.messages, self.options)
        try:
            reply = _reply(completion)
            self.messages.append(_said(completion.choices[0].message))
        except (AttributeError, IndexError, TypeError, ValueError) as error:
            raise ModelFailed(f"the model's reply is no chat completion with usage: {error}") from error
        return reply

    def tell(self, results: Sequence[tuple[str, str]]) -> None:
        self.messages.extend({"role": "tool", "tool_call_id": each, "content": text} for each, text in results)


def _function(definition: dict[str, Any]) -> dict[str, Any]:
    named = {"name": definition["name"], "description": definition.get("description", "")}
    return {**named, "parameters": definition["input_schema"]}


def _reply(completion: Any) -> Reply:
    choice, usage = completion.choices[0], completion.usage
    refused = choice.finish_reason == "content_filter"
    return Reply(
        text=choice.message.content or "",
        calls=tuple(_asked(each) for each in choice.message.tool_calls or ()),
        input_tokens=int(usage.prompt_tokens),
        output_tokens=int(usage.completion_tokens),
        refusal=choice.message.refusal or ("by the content filter" if refused else ""),
        cut=choice.finish_reason == "length",
    )


def _asked(call: Any) -> Asked:
    if call.type != "function":
        return Asked(id=call.id, name=str(call.type), fault="only functions can be called")
    arguments, fault = arguments_of(call.function.arguments)
    return Asked(id=call.id, name=call.function.name, arguments=arguments, fault=fault)


def _said(message: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        said["tool_calls"] = [each.model_dump(exclude_none=True) for each in message.tool_calls]
    return said


def _too_long(error: Any) -> int | None:
    """See `sdk.Line`; OpenAI has a code for it, and says how many there were in words."""
    found = re.search(r"resulted in (\d+) tokens", str(error))
    return int(found[1] if found else 0) if error.code == "context_length_exceeded" else None
