"""Messages, replies and requests as JSON objects, for recordings and estimates, and replies back. Does no I/O.

The form is part of recordings: their digests are made of it.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter, ValidationError

from .model import Message, Reply, Request, ToolCall, ToolReplies, User

__all__ = ["Unreadable", "message_to_json", "reply_from_json", "reply_to_json", "request_to_json"]

_REPLY: TypeAdapter[Reply] = TypeAdapter(Reply)


class Unreadable(ValueError):
    """A JSON value is not what it should be; the text says where, and what was expected."""


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


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """A reply."""
    usage = reply.usage
    return {
        "turn": message_to_json(reply.turn),
        "ended": reply.ended,
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cached_input_tokens": usage.cached_input_tokens,
            "estimated": usage.estimated,
        },
        "refusal": reply.refusal,
        "model": reply.model,
        "attempts": reply.attempts,
    }


def reply_from_json(value: Any) -> Reply:
    """The reply that `reply_to_json` gave.

    Raises:
        Unreadable: the value is not a reply.
    """
    try:
        return _REPLY.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, ("reply", *first["loc"])))
        raise Unreadable(f"{place}: {first['msg']}") from error


def request_to_json(request: Request) -> dict[str, Any]:
    """A request, with everything that the model receives."""
    return {
        "system": request.system,
        "messages": [message_to_json(each) for each in request.messages],
        "tools": [dict(each) for each in request.tools],
        "tool_choice": request.tool_choice,
        "parallel": request.parallel,
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "json_schema": None if request.json_schema is None else dict(request.json_schema),
    }


def _call_to_json(call: ToolCall) -> dict[str, Any]:
    written: dict[str, Any] = {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
    if call.fault:
        written |= {"fault": call.fault, "written": call.written}
    return written
