"""Messages and replies as JSON objects, and the number of their tokens where nobody has counted. Does no I/O.

The form of a message is part of recordings: their digests are made of it. A token is estimated as four characters, of
the request's JSON and of the reply; a picture as `PictureReference.tokens`. The estimate is right for no model, and off
by a third for most; it makes a budget hold where the endpoint does not count.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from callgate.runtime.pictures import PictureReference

from .model import Assistant, Message, Reply, Request, ToolReplies, ToolReply, Usage, User

__all__ = ["estimated", "message_to_json", "pictures_in", "reply_to_json"]

_CHARACTERS_PER_TOKEN = 4


def message_to_json(message: Message) -> dict[str, Any]:
    """A message; its `role` is ``user``, ``assistant`` or ``tools``. What an assistant's turn does not have is left
    out."""
    if isinstance(message, User):
        return {"role": "user", "text": message.text, **_shown(message)}
    if isinstance(message, ToolReplies):
        replies = [
            {"id": each.id, "name": each.name, "text": each.text, "ok": each.ok, **_shown(each)}
            for each in message.replies
        ]
        return {"role": "tools", "replies": replies}
    written: dict[str, Any] = {"role": "assistant", "text": message.text}
    if message.calls:
        calls = [
            {"id": call.id, "name": call.name, "arguments": call.arguments}
            | ({"fault": call.fault, "written": call.written} if call.fault else {})
            for call in message.calls
        ]
        written["calls"] = calls
    if message.native is not None:
        written |= {"native": message.native, "provider": message.provider}
    return written


def _shown(message: User | ToolReply) -> dict[str, Any]:
    """The pictures, without their handles: those are others each time."""
    pictures = [{"name": each.name, "sha256": each.sha256} for each in message.pictures]
    return {"pictures": pictures} if pictures else {}


def pictures_in(message: Message) -> Sequence[PictureReference]:
    """The pictures of a message, in order."""
    match message:
        case User(pictures=pictures):
            return pictures
        case ToolReplies(replies=replies):
            return [picture for reply in replies for picture in reply.pictures]
        case _:
            return ()


def reply_to_json(reply: Reply) -> dict[str, Any]:
    """A reply; pydantic reads it back as a `Reply`."""
    return {**asdict(reply), "turn": message_to_json(reply.turn)}


def estimated(request: Request, turn: Assistant) -> Usage:
    """The tokens that a request may have cost.

    Args:
        request: that was sent.
        turn: that came.
    """
    sent = {
        "system": request.system,
        "messages": [message_to_json(each) for each in request.messages],
        "tools": [dict(each) for each in request.tools],
        "tool_choice": request.tool_choice,
        "parallel": request.parallel,
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "json_schema": None if request.json_schema is None else dict(request.json_schema),
    }
    given = json.dumps(sent, ensure_ascii=False, default=str)
    arguments = (call.written or json.dumps(call.arguments, ensure_ascii=False, default=str) for call in turn.calls)
    made = len(turn.text) + sum(map(len, arguments)) + sum(len(call.name) for call in turn.calls)
    pictures = sum(picture.tokens for each in request.messages for picture in pictures_in(each))
    return Usage(
        input_tokens=-(-len(given) // _CHARACTERS_PER_TOKEN) + pictures,
        output_tokens=-(-made // _CHARACTERS_PER_TOKEN),
        estimated=True,
    )
