"""A model behind Anthropic's Messages, by the official SDK; the one file of the harness that imports `anthropic`."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callgate.bench.model.model_client import Asked, ModelFailed, Patience, Reply
from callgate.bench.model.sdk import Connection, Line, connected

__all__ = ["MOST_OUTPUT_TOKENS", "AnthropicModel", "client"]

MOST_OUTPUT_TOKENS = 16_000
"""`max_tokens` of every request; the SDK wants much longer answers streamed."""

_CUT = ("max_tokens", "model_context_window_exceeded", "pause_turn")


def client(connection: Connection) -> Any:
    """An `AsyncAnthropic`.

    Raises:
        ModuleNotFoundError: the SDK is not installed.
    """
    sdk: Any = importlib.import_module("anthropic")
    made = connected(sdk, sdk.AsyncAnthropic, connection)
    _ = made.messages  # imported now, and not within the first request, whose seconds count
    return made


@dataclass(frozen=True, slots=True)
class AnthropicModel:
    """See `model_client.ModelClient`.

    Attributes:
        client: an `AsyncAnthropic`.
        name: as the endpoint knows it.
        patience: how long it is waited for.
    """

    client: Any
    name: str
    patience: Patience

    def chat(self, *, system: str, task: str, tools: Sequence[dict[str, Any]], parallel: bool) -> _Chat:
        options: dict[str, Any] = {"model": self.name, "max_tokens": MOST_OUTPUT_TOKENS}
        if system:
            options["system"] = system
        if tools:
            options["tools"] = [dict(each) for each in tools]
            options["tool_choice"] = {"type": "auto", "disable_parallel_tool_use": not parallel}
        sdk, create = importlib.import_module("anthropic"), self.client.messages.create
        line = Line(sdk=sdk, create=create, patience=self.patience, too_long=_too_long)
        return _Chat(line, options, [{"role": "user", "content": task}])


@dataclass(frozen=True, slots=True)
class _Chat:
    line: Line
    options: dict[str, Any]
    messages: list[dict[str, Any]]

    async def ask(self) -> Reply:
        message = await self.line.sent(self.messages, self.options)
        try:
            reply = _reply(message)
            self.messages.append({"role": "assistant", "content": _said(message)})
        except (AttributeError, TypeError, ValueError) as error:
            raise ModelFailed(f"the model's reply is no message with usage: {error}") from error
        return reply

    def tell(self, results: Sequence[tuple[str, str]]) -> None:
        blocks = [{"type": "tool_result", "tool_use_id": each, "content": text} for each, text in results]
        self.messages.append({"role": "user", "content": blocks})


def _reply(message: Any) -> Reply:
    text = "".join(block.text for block in message.content if block.type == "text")
    usage = message.usage
    cached = (usage.cache_creation_input_tokens or 0) + (usage.cache_read_input_tokens or 0)
    return Reply(
        text=text,
        calls=tuple(_asked(block) for block in message.content if block.type == "tool_use"),
        input_tokens=int(usage.input_tokens) + cached,
        output_tokens=int(usage.output_tokens),
        refusal=(text or "without a word") if message.stop_reason == "refusal" else "",
        cut=message.stop_reason in _CUT,
    )


def _asked(block: Any) -> Asked:
    if not isinstance(block.input, dict):
        fault = f"they have to be a JSON object, and are {type(block.input).__name__}"
        return Asked(id=block.id, name=block.name, fault=fault)
    return Asked(id=block.id, name=block.name, arguments=block.input)


def _said(message: Any) -> list[dict[str, Any]]:
    """The blocks, without those texts that would be refused for being empty."""
    blocks: list[dict[str, Any]] = []
    for block in message.content:
        if block.type == "text" and block.text.strip():
            blocks.append({"type": "text", "text": block.text})
        elif block.type == "tool_use":
            blocks.append({"type": "tool_use", "id": block.id, "name": block.name, "input": block.input})
        elif block.type != "text":
            blocks.append(block.model_dump(exclude_none=True))
    return blocks


def _too_long(error: Any) -> int | None:
    """See `sdk.Line`; Anthropic has no code for it, only these words."""
    found = re.search(r"prompt is too long(?:: (\d+) tokens)?", str(error))
    return int(found[1] or 0) if found and error.status_code == 400 else None
