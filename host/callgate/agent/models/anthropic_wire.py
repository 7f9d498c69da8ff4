"""Anthropic's Messages as JSON: requests written, replies read, whole or in pieces. Pure; knows no SDK.

JSON of a schema is asked for with `output_config` where the schema leaves nothing open, else with a tool that has to
be called and whose arguments are the answer, else in words. Which of them a model knows differs; one that the endpoint
refuses is not asked for again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from callgate.runtime.model.providers import tool_choice

from .model import Assistant, Delta, Message, Reply, Request, ToolReplies, Usage, User
from .replies import (
    MOST_CALLS,
    BadReply,
    WrittenCall,
    calls_of,
    count,
    native_of,
    reply_of,
    sendable,
    sendable_arguments,
    sendable_name,
    text_of,
)
from .structured import is_closed, told
from .wire import Form

__all__ = ["MOST_OUTPUT_TOKENS", "AnthropicWire"]

MOST_OUTPUT_TOKENS = 16_000
"""`max_tokens`, which every request has to have, where the request names no limit. Every current model can write as
much, and whole replies of that length come before connections are given up for idle."""
_FEW_OUTPUT_TOKENS = 4096
"""What the oldest models and some gateways can write, where that is too much."""

_ANSWER = "answer"
"""Name of the tool whose arguments are the answer."""
_NOTHING = "(nothing was said)"
_NOT_MADE = "This call was not made."
_CUT = ("max_tokens", "model_context_window_exceeded", "pause_turn")
_PASSING = ("overloaded_error", "api_error", "rate_limit_error", "timeout_error")
"""Types of errors in the middle of a stream after which the same request may succeed."""
_TOO_LONG = re.compile(r"prompt is too long(?:: (\d{1,12}) tokens)?")
"""Anthropic has no code for it, only these words."""


class AnthropicWire:
    """See `wire.Wire`.

    Args:
        name: of the model.
        extra: fields that each request has besides (``thinking``, ``cache_control``).
    """

    def __init__(self, name: str, *, extra: Mapping[str, Any]) -> None:
        self._name = name
        self._extra = dict(extra)

    def other(self, name: str) -> AnthropicWire:
        return AnthropicWire(name, extra=self._extra)

    def dispensable(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        ours = body["max_tokens"] == MOST_OUTPUT_TOKENS
        fields = ("temperature", "max_tokens") if ours else ("temperature",)
        return tuple(field for field in fields if field in body and field not in self._extra)

    def without(self, body: Mapping[str, Any], field: str) -> dict[str, Any]:
        if field == "max_tokens":
            return (
                {**body, field: min(body[field], _FEW_OUTPUT_TOKENS)} if field in self.dispensable(body) else {**body}
            )
        return {name: value for name, value in body.items() if name != field}

    def forms(self, request: Request) -> tuple[Form, ...]:
        if request.json_schema is None:
            return ("",)
        schema_form = ("json_schema",) if is_closed(request.json_schema) else ()
        tool_form = () if request.tools or request.json_schema.get("type") != "object" else ("tool",)
        return (*schema_form, *tool_form, "words")

    def body(self, request: Request, form: Form, *, stream: bool) -> dict[str, Any]:
        system, schema = request.system, request.json_schema
        body: dict[str, Any] = {"model": self._name, "max_tokens": request.max_output_tokens or MOST_OUTPUT_TOKENS}
        body["messages"] = _messages(request.messages)
        if request.tools:
            body["tools"] = [dict(each) for each in request.tools]
            if request.tool_choice != "auto" or request.parallel is not None:
                body |= tool_choice("anthropic", request.tool_choice, parallel=request.parallel)
        elif used := {call.name for each in request.messages if isinstance(each, Assistant) for call in each.calls}:
            # calls in a conversation are refused where no tool is defined
            body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in _names(used)]
            body["tool_choice"] = {"type": "none"}
        if schema is not None and form == "json_schema":
            body["output_config"] = {"format": {"type": "json_schema", "schema": dict(schema)}}
        elif schema is not None and form == "tool":
            answer = {"name": _ANSWER, "description": "Give your answer.", "input_schema": dict(schema)}
            body["tools"] = [each for each in body.get("tools", []) if each["name"] != _ANSWER] + [answer]
            body["tool_choice"] = {"type": "tool", "name": _ANSWER, "disable_parallel_tool_use": True}
        elif schema is not None:
            system = told(system, schema)
        if system:
            body["system"] = sendable(system)
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if stream:
            body["stream"] = True
        return {**body, **self._extra}

    def whole(self, answer: Any, request: Request, form: Form) -> Reply:
        _no_error(answer)
        blocks = answer.get("content")
        if not isinstance(blocks, list):
            raise BadReply("it is no message: it has no content")
        return _reply(answer, [each for each in blocks if isinstance(each, dict)], len(request.messages), form)

    def collector(self, request: Request, form: Form, on_delta: Callable[[Delta], None]) -> _Stream:
        return _Stream(len(request.messages), form, on_delta)

    def too_long(self, status: int, error: Any) -> int | None:
        within = error.get("error") if isinstance(error, Mapping) else None
        words = text_of(within.get("message")) if isinstance(within, Mapping) else ""
        found = _TOO_LONG.search(words) if status == 400 else None
        if found is None:
            return 0 if status == 413 else None
        return int(found[1] or 0)


class _Stream:
    """See `wire.Collector`."""

    def __init__(self, position: int, form: Form, on_delta: Callable[[Delta], None]) -> None:
        self._position = position
        self._form = form
        self._on_delta = on_delta
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[Any, tuple[dict[str, Any], dict[str, list[str]]]] = {}
        self._calls: dict[Any, int] = {}
        self.complete = False
        self.counted = True

    def take(self, event: Mapping[str, Any]) -> None:
        _no_error(event)
        match event.get("type"):
            case "message_start":
                message = event.get("message")
                self._message = dict(message) if isinstance(message, Mapping) else {}
                self._count(self._message)
            case "content_block_start":
                self._begin(event)
            case "content_block_delta":
                self._piece(event)
            case "message_delta":
                delta = event.get("delta")
                self._message |= delta if isinstance(delta, Mapping) else {}
                self._count(event)
            case "message_stop":
                self.complete = True

    def reply(self) -> Reply:
        blocks = []
        for block, parts in self._blocks.values():
            whole = dict(block)
            for name, pieces in parts.items():
                whole[name] = "".join(pieces)
            if "partial_json" in whole:
                written = whole.pop("partial_json")
                whole["input"] = written or whole.get("input") or {}
            blocks.append(whole)
        return _reply({**self._message, "usage": self._usage}, blocks, self._position, self._form)

    def _count(self, given: Mapping[str, Any]) -> None:
        usage = given.get("usage")
        if isinstance(usage, Mapping):
            for name, value in usage.items():
                known = self._usage.get(name)  # counts grow; gateways say 0 at the end for what they said before
                if value is not None and not (isinstance(known, int) and isinstance(value, int) and value < known):
                    self._usage[name] = value

    def _begin(self, event: Mapping[str, Any]) -> None:
        block, index = event.get("content_block"), event.get("index")
        if not isinstance(block, dict) or not isinstance(index, int):
            raise BadReply("a block of its stream is no block")
        if len(self._blocks) >= 2 * MOST_CALLS:
            raise BadReply(f"it has more than {2 * MOST_CALLS} blocks")
        text = block.get("text")
        parts = {"text": [text]} if isinstance(text, str) and text else {}
        self._blocks[index] = (block, parts)
        if parts:
            self._on_delta(Delta(text=text_of(text)))
        if block.get("type") == "tool_use" and self._form != "tool":
            self._calls[index] = len(self._calls)
            self._on_delta(Delta(call=self._calls[index], name=text_of(block.get("name"))[:200]))

    def _piece(self, event: Mapping[str, Any]) -> None:
        delta, index = event.get("delta"), event.get("index")
        if not isinstance(delta, Mapping) or not isinstance(index, int) or index not in self._blocks:
            raise BadReply("a piece of its stream belongs to no block")
        _, parts = self._blocks[index]
        for name in ("text", "partial_json", "thinking", "signature"):
            piece = delta.get(name)
            if isinstance(piece, str):
                parts.setdefault(name, []).append(piece)
        words = text_of(delta.get("text"))
        written = text_of(delta.get("partial_json"))
        if words or (written and self._form == "tool"):
            self._on_delta(Delta(text=words or written))
        elif written and index in self._calls:
            self._on_delta(Delta(call=self._calls[index], arguments=written))


def _reply(answer: Mapping[str, Any], blocks: Sequence[dict[str, Any]], position: int, form: Form) -> Reply:
    text = "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")
    uses = [block for block in blocks if block.get("type") == "tool_use"]
    written = [WrittenCall(block.get("id"), block.get("name"), block.get("input")) for block in uses]
    native: Any = None
    if form == "tool":
        values = [each.arguments for each in written if each.name == _ANSWER]
        if values:
            text = values[0] if isinstance(values[0], str) else json.dumps(values[0])
        written = []
    calls = calls_of(written, position)
    if form != "tool" and any(block.get("type") not in ("text", "tool_use") for block in blocks):
        native = _native(blocks, {id(use): call for use, call in zip(uses, calls, strict=True)})
    reason = answer.get("stop_reason")
    refusal = ""
    if reason == "refusal":
        details = answer.get("stop_details")
        explained = text_of(details.get("explanation")) if isinstance(details, Mapping) else ""
        refusal = explained or text or "without a word"
    return reply_of(
        text,
        calls,
        usage=_usage(answer.get("usage")),
        cut=reason in _CUT,
        refusal=refusal,
        model=answer.get("model"),
        native=native,
        provider="anthropic",
    )


def _native(blocks: Sequence[dict[str, Any]], calls: Mapping[int, Any]) -> Any:
    """The blocks as they go back: thinking as it came, calls as they were mended."""
    native = []
    for block in blocks:
        if block.get("type") == "tool_use":
            native.append({"type": "tool_use", "id": calls[id(block)].id})
        elif block.get("type") != "text":
            native.append({name: value for name, value in block.items() if value is not None})
        elif text_of(block.get("text")).strip():
            native.append({"type": "text", "text": text_of(block["text"])})
    return native_of(native)


def _usage(usage: Any) -> Usage:
    cached = count(usage, "cache_read_input_tokens")
    return Usage(
        input_tokens=count(usage, "input_tokens") + count(usage, "cache_creation_input_tokens") + cached,
        output_tokens=count(usage, "output_tokens"),
        cached_input_tokens=cached,
    )


def _no_error(answer: Any) -> None:
    """In the middle of a stream, errors come as events; gateways send them with status 200."""
    if not isinstance(answer, Mapping):
        raise BadReply(f"it is no message, but {type(answer).__name__}")
    if answer.get("type") == "error" or answer.get("error"):
        error = answer.get("error")
        within = error if isinstance(error, Mapping) else {"message": error}
        kind = text_of(within.get("type"))
        status = {"overloaded_error": 529, "rate_limit_error": 429, "api_error": 500}.get(kind)
        words = f"it is an error: {kind}: {text_of(within.get('message'))[:400]}"
        raise BadReply(words, status=status, passing=kind in _PASSING)


def _messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Turns of the user that follow each other become one. Each call gets its answer: the API takes none without."""
    written: list[dict[str, Any]] = []
    calls: Assistant | None = None
    for position, message in enumerate(messages):
        blocks: list[dict[str, Any]] = []
        if isinstance(message, Assistant):
            following = messages[position + 1] if position + 1 < len(messages) else None
            calls = message if isinstance(following, ToolReplies) else None
            written.append({"role": "assistant", "content": _assistant(message, answered=calls is not None)})
            continue
        if isinstance(message, User):
            blocks = [{"type": "text", "text": sendable(message.text) if message.text.strip() else _NOTHING}]
        elif calls is not None:
            blocks = _results(calls, message)
            calls = None
        if blocks and written and written[-1]["role"] == "user":
            written[-1]["content"] += blocks
        elif blocks:
            written.append({"role": "user", "content": blocks})
    return [_plain(each) for each in written]


def _plain(message: dict[str, Any]) -> dict[str, Any]:
    """One text of the user needs no list."""
    blocks = message["content"]
    alone = message["role"] == "user" and len(blocks) == 1 and blocks[0]["type"] == "text"
    return {**message, "content": blocks[0]["text"]} if alone else message


def _assistant(message: Assistant, *, answered: bool) -> list[dict[str, Any]]:
    uses = {call.id: _use(call) for call in message.calls} if answered else {}
    if message.provider == "anthropic" and isinstance(message.native, list):
        native = [each for each in message.native if isinstance(each, dict)]
        blocks = [uses.get(str(each.get("id")), {}) if each.get("type") == "tool_use" else each for each in native]
        blocks = [each for each in blocks if each]
        # thinking may not be the last of a turn
        if blocks and blocks[-1].get("type") in ("text", "tool_use"):
            return blocks
    text = [{"type": "text", "text": sendable(message.text)}] if message.text.strip() else []
    return [*text, *uses.values()] or [{"type": "text", "text": _NOTHING}]


def _use(call: Any) -> dict[str, Any]:
    name = sendable_name(call.name)
    return {"type": "tool_use", "id": _identity(call.id), "name": name, "input": sendable_arguments(call)}


def _results(turn: Assistant, replies: ToolReplies) -> list[dict[str, Any]]:
    by_id = {reply.id: reply for reply in replies.replies}
    blocks = []
    for call in turn.calls:
        reply = by_id.get(call.id)
        text = _NOT_MADE if reply is None else sendable(reply.text)
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": _identity(call.id), "content": text}
        if reply is None or not reply.ok:
            block["is_error"] = True
        blocks.append(block)
    return blocks


def _identity(written: str) -> str:
    """An id of another provider's may have letters that Anthropic refuses."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", written)


def _names(used: set[str]) -> list[str]:
    return sorted({sendable_name(name) for name in used})
