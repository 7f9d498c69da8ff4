"""Messages, replies and usage as JSON objects and back, for transcripts and recordings. Does no I/O.

Writing gives what `json.dumps` takes. Reading believes nothing: the file may have been written by somebody else. Every
value is checked for its type and its size, and what does not fit raises `Unreadable` with the place of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, get_args

from .model import Assistant, Ended, Message, Reply, Request, ToolCall, ToolReplies, ToolReply, Usage, User

__all__ = [
    "MOST_DEPTH",
    "Unreadable",
    "is_deeper",
    "message_from_json",
    "message_to_json",
    "messages_from_json",
    "messages_to_json",
    "object_of",
    "reply_from_json",
    "reply_to_json",
    "request_to_json",
    "usage_from_json",
    "usage_to_json",
]

MOST_CHARACTERS = 64_000_000
"""Of one text; no reply of an endpoint is longer."""
MOST_CALLS = 1000
"""Of one turn; as many as a model may make."""
MOST_DEPTH = 100
"""Of the values in arguments and native turns."""
MOST_TOKENS = 10**12

Read = TypeVar("Read")


class Unreadable(ValueError):
    """A JSON value is not what it should be; the text says where, and what was expected."""


def object_of(line: str | bytes) -> dict[str, Any]:
    """The object that a line of JSON holds.

    Raises:
        Unreadable: it holds none.
    """
    try:
        value = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"this is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise Unreadable(f"a JSON object was expected, and this is {_kind(value)}")
    return value


def message_to_json(message: Message) -> dict[str, Any]:
    """A message; its `role` is ``user``, ``assistant`` or ``tools``."""
    if isinstance(message, User):
        return {"role": "user", "text": message.text}
    if isinstance(message, ToolReplies):
        replies = [{"id": r.id, "name": r.name, "text": r.text, "ok": r.ok} for r in message.replies]
        return {"role": "tools", "replies": replies}
    written: dict[str, Any] = {"role": "assistant", "text": message.text}
    if message.calls:
        written["calls"] = [_call_to_json(each) for each in message.calls]
    if message.native is not None:
        written |= {"native": message.native, "provider": message.provider}
    return written


def messages_to_json(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """A conversation."""
    return [message_to_json(each) for each in messages]


def usage_to_json(usage: Usage) -> dict[str, Any]:
    """Usage, all its fields."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "estimated": usage.estimated,
    }


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """A reply."""
    written: dict[str, Any] = {"turn": message_to_json(reply.turn), "ended": reply.ended}
    written["usage"] = usage_to_json(reply.usage)
    if reply.refusal:
        written["refusal"] = reply.refusal
    if reply.model:
        written["model"] = reply.model
    if reply.attempts != 1:
        written["attempts"] = reply.attempts
    return written


def request_to_json(request: Request) -> dict[str, Any]:
    """A request, with all that the model is told."""
    return {
        "system": request.system,
        "messages": messages_to_json(request.messages),
        "tools": [dict(each) for each in request.tools],
        "tool_choice": request.tool_choice,
        "parallel": request.parallel,
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "json_schema": None if request.json_schema is None else dict(request.json_schema),
    }


def message_from_json(value: Any, where: str = "message") -> Message:
    """The message that `message_to_json` gave.

    Raises:
        Unreadable: it gave no such thing.
    """
    given = _object(value, where)
    role = given.get("role")
    if role == "user":
        return User(text=_text(given, "text", where))
    if role == "assistant":
        return _assistant(given, where)
    if role == "tools":
        replies = _list(given.get("replies"), f"{where}.replies", _reply_of_tool)
        return ToolReplies(replies=tuple(replies))
    raise Unreadable(f"{where}.role: user, assistant or tools was expected, and this is {_shown(role)}")


def messages_from_json(value: Any, where: str = "messages", *, most: int = 100_000) -> list[Message]:
    """The conversation that `messages_to_json` gave.

    Args:
        value: what should be it.
        where: of it, for errors.
        most: messages.

    Raises:
        Unreadable: it gave no such thing.
    """
    return _list(value, where, message_from_json, most=most)


def usage_from_json(value: Any, where: str = "usage") -> Usage:
    """The usage that `usage_to_json` gave; fields that are missing are 0.

    Raises:
        Unreadable: it gave no such thing.
    """
    given = _object(value, where)
    return Usage(
        input_tokens=_count(given, "input_tokens", where),
        output_tokens=_count(given, "output_tokens", where),
        cached_input_tokens=_count(given, "cached_input_tokens", where),
        estimated=given.get("estimated") is True,
    )


def reply_from_json(value: Any, where: str = "reply") -> Reply:
    """The reply that `reply_to_json` gave.

    Raises:
        Unreadable: it gave no such thing.
    """
    given = _object(value, where)
    ended = given.get("ended")
    if ended not in get_args(Ended):
        raise Unreadable(
            f"{where}.ended: one of {', '.join(get_args(Ended))} was expected, and this is {_shown(ended)}"
        )
    turn = _object(given.get("turn"), f"{where}.turn")
    if turn.get("role") != "assistant":
        raise Unreadable(f"{where}.turn.role: assistant was expected, and this is {_shown(turn.get('role'))}")
    return Reply(
        turn=_assistant(turn, f"{where}.turn"),
        ended=cast(Ended, ended),
        usage=usage_from_json(given.get("usage", {}), f"{where}.usage"),
        refusal=_text(given, "refusal", where, missing=""),
        model=_text(given, "model", where, missing=""),
        attempts=max(1, _count(given, "attempts", where)),
    )


def _call_to_json(call: ToolCall) -> dict[str, Any]:
    written: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    if call.fault:
        written |= {"fault": call.fault, "written": call.written}
    return written


def _assistant(given: Mapping[str, Any], where: str) -> Assistant:
    native = given.get("native")
    _bounded(native, f"{where}.native", MOST_DEPTH)
    provider = _text(given, "provider", where, missing="")
    if native is not None and provider not in ("openai", "anthropic"):
        raise Unreadable(f"{where}.provider: openai or anthropic was expected, and this is {_shown(provider)}")
    return Assistant(
        text=_text(given, "text", where, missing=""),
        calls=tuple(_list(given.get("calls", []), f"{where}.calls", _call)),
        native=native,
        provider=provider,
    )


def _call(value: Any, where: str) -> ToolCall:
    given = _object(value, where)
    arguments = _object(given.get("arguments", {}), f"{where}.arguments")
    _bounded(arguments, f"{where}.arguments", MOST_DEPTH)
    return ToolCall(
        id=_text(given, "id", where),
        name=_text(given, "name", where),
        arguments=arguments,
        fault=_text(given, "fault", where, missing=""),
        written=_text(given, "written", where, missing=""),
    )


def _reply_of_tool(value: Any, where: str) -> ToolReply:
    given = _object(value, where)
    ok = given.get("ok", True)
    if not isinstance(ok, bool):
        raise Unreadable(f"{where}.ok: true or false was expected, and this is {_shown(ok)}")
    identity, name = _text(given, "id", where), _text(given, "name", where)
    return ToolReply(id=identity, name=name, text=_text(given, "text", where), ok=ok)


def _list(value: Any, where: str, read: Callable[[Any, str], Read], *, most: int = MOST_CALLS) -> list[Read]:
    if not isinstance(value, list):
        raise Unreadable(f"{where}: a list was expected, and this is {_kind(value)}")
    if len(value) > most:
        raise Unreadable(f"{where}: at most {most} entries may be there, and these are {len(value)}")
    return [read(each, f"{where}[{position}]") for position, each in enumerate(value)]


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreadable(f"{where}: an object was expected, and this is {_kind(value)}")
    return value


def _text(given: Mapping[str, Any], name: str, where: str, *, missing: str | None = None) -> str:
    value = given.get(name, missing)
    if not isinstance(value, str):
        raise Unreadable(f"{where}.{name}: a text was expected, and this is {_kind(value)}")
    if len(value) > MOST_CHARACTERS:
        raise Unreadable(f"{where}.{name}: at most {MOST_CHARACTERS} characters, and these are {len(value)}")
    return value


def _count(given: Mapping[str, Any], name: str, where: str) -> int:
    value = given.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_TOKENS:
        raise Unreadable(f"{where}.{name}: a whole number from 0 was expected, and this is {_shown(value)}")
    return value


def _bounded(value: Any, where: str, depth: int) -> None:
    if is_deeper(value, depth):
        raise Unreadable(f"{where}: it is nested more than {depth} deep")


def is_deeper(value: Any, depth: int = MOST_DEPTH) -> bool:
    """Whether a JSON value is nested deeper than that; deeper than anybody needs, it would end others' recursions."""
    level = [value]
    for _ in range(depth):
        level = [each for one in level if isinstance(one, dict | list) for each in _within(one)]
        if not level:
            return False
    return True


def _within(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "missing or null"}
    return names.get(type(value), "a number")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
