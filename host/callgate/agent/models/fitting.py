"""A model's reply made fit for a conversation, and text made fit for a request. Pure.

1. Every call of a turn has an id of its own. An id that is missing, odd, or taken by an earlier call of the turn is
   replaced by one made of the turn's position in the conversation, so the same conversation always has the same ids.
2. Arguments that are not a JSON object, are nested too deeply or are too large are a fault of the call, never an error.
3. Halves of characters (lone surrogates), which no request could carry back, become question marks.
4. Every reply has a usage: tokens that the endpoint did not count are estimated, so that a budget holds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from callgate.runtime.pictures import PictureReference

from .messages_json import estimated, pictures_in
from .model import Assistant, Message, Reply, Request, ToolCall, ToolReplies, ToolReply, Usage, User

__all__ = [
    "MAX_CALLS", "MAX_PICTURES", "MAX_TEXT_CHARACTERS", "counted", "fit", "fit_calls", "is_deeper",
    "json_value_or_none", "sendable", "sendable_arguments", "sendable_id", "sendable_name", "text_of", "with_pictures",
]  # fmt: skip

MAX_CALLS = 1_000
"""Calls of one turn. `DirectModel` refuses a reply with more calls."""
MAX_TEXT_CHARACTERS = 1_000_000
MAX_PICTURES = 20
"""Of a request: with more, Anthropic takes only pictures of 2,000 pixels
(https://platform.claude.com/docs/en/build-with-claude/vision#faq)."""
_FEW_PICTURES = 8
"""Of a request with too many, at least so many of the oldest go at once: each time the provider's cache is lost."""
_MAX_CALL_CHARACTERS = 2_000_000
_MAX_TURN_CHARACTERS = 3_000_000
"""Of the arguments of one call, and of all calls of a turn, as JSON."""
_MAX_DEPTH = 100
"""Of arguments and native turns: deeper ones would exceed the recursion limit of other readers."""
_MAX_NAME = 200
_MAX_WRITTEN = 10_000
"""Characters of faulty arguments that are kept."""
_WRITTEN_BACK = 4_000
"""Characters of faulty arguments that the model gets to see again."""
_MAX_TOKENS = 10**12
"""Of one request: a larger number is not a count."""


def fit(reply: Reply, request: Request) -> Reply:
    """The reply with bounded text, fit calls, an `ended` that agrees with both, and a usage.

    Args:
        reply: as it came.
        request: that it is the reply to.
    """
    turn, ended = reply.turn, reply.ended
    calls = fit_calls(turn.calls[:MAX_CALLS], len(request.messages))
    text = turn.text[:MAX_TEXT_CHARACTERS]
    if (calls, text) != (turn.calls, turn.text):
        turn = Assistant(text=text, calls=calls)
    if ended in ("answered", "calls", "empty"):
        ended = "calls" if calls else "answered" if text.strip() else "empty"
    return replace(reply, turn=turn, ended=ended, usage=counted(reply.usage, request, turn))


def fit_calls(calls: Sequence[ToolCall], position: int) -> tuple[ToolCall, ...]:
    """The calls of one turn, each with an id of its own and arguments that JSON can carry, or a fault.

    Args:
        calls: as the model wrote them.
        position: of the turn in its conversation.
    """
    made: dict[str, ToolCall] = {}
    room = _MAX_TURN_CHARACTERS
    for number, call in enumerate(calls):
        id = call.id if re.fullmatch(r"[a-zA-Z0-9_.:|-]{1,256}", call.id) else ""
        if not id or id in made:
            id = f"call_{position}_{number}"
        while id in made:  # a model may write such an id itself
            id += f"_{number}"
        name = sendable(call.name)[:_MAX_NAME]
        size, fault = _weighed(call, min(room, _MAX_CALL_CHARACTERS))
        if fault:
            written = _cut(sendable(call.written), min(room, _MAX_WRITTEN))
            call = ToolCall(id=id, name=name, fault=sendable(fault)[:300], written=written)
            size = len(written)
        room -= size
        made[id] = replace(call, id=id, name=name, written=call.written if fault else "")
    return tuple(made.values())


def _weighed(call: ToolCall, most: int) -> tuple[int, str]:
    """Characters of the arguments, and their fault; the fault is empty where they are right."""
    if call.fault:
        return 0, call.fault
    if not call.name:
        return 0, "the call names no tool"
    if is_deeper(call.arguments, _MAX_DEPTH):
        return 0, f"they are nested more than {_MAX_DEPTH} deep"
    try:
        text = json.dumps(call.arguments, ensure_ascii=False, allow_nan=False, default=str)
        text.encode()
    except ValueError as error:
        return 0, f"they cannot be sent back as JSON: {error}"
    if len(text) > most:
        return 0, f"they have {len(text)} characters; in this turn there is room for {most}"
    return len(text), ""


def with_pictures(messages: Sequence[Message], most: int = MAX_PICTURES) -> list[Message]:
    """The conversation with its newest pictures; a line stands for each older one.

    Args:
        messages: oldest first.
        most: pictures that may stay.
    """
    surplus = sum(len(pictures_in(each)) for each in messages) - most
    if surplus <= 0:
        return list(messages)
    going = -(-surplus // _FEW_PICTURES) * _FEW_PICTURES if most else surplus
    made: list[Message] = []
    for message in messages:
        match message:
            case User() if message.pictures:
                message, going = _older_gone(message, going)
            case ToolReplies():
                replies = []
                for reply in message.replies:
                    kept, going = _older_gone(reply, going)
                    replies.append(kept)
                message = ToolReplies(replies=tuple(replies))
            case _:
                pass
        made.append(message)
    return made


_Shows = TypeVar("_Shows", User, ToolReply)


def _older_gone(message: _Shows, going: int) -> tuple[_Shows, int]:
    """The message without the first pictures, and how many are still to go."""
    gone: Sequence[PictureReference] = message.pictures[:going]
    if not gone:
        return message, going
    names = ", ".join(each.name[:_MAX_NAME] for each in gone)
    text = f"{message.text}\n(Shown before, and left out now: {names}.)"
    return replace(message, text=text, pictures=message.pictures[len(gone) :]), going - len(gone)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(most - 3, 0)]}..."


def is_deeper(value: Any, depth: int) -> bool:
    """Whether lists and dicts are nested more than `depth` deep. Uses no recursion."""
    level = [value]
    for _ in range(depth):
        level = [
            below
            for each in level
            if isinstance(each, (dict, list, tuple))
            for below in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def counted(usage: Usage, request: Request, turn: Assistant) -> Usage:
    """The usage, with an estimate for tokens that were not counted. Every request has at least one token.

    Args:
        usage: by the endpoint's count; 0 where the endpoint gives none.
        request: that was sent.
        turn: that came.
    """
    given, made, cached = map(_count, (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens))
    is_whole = bool(given and (made or not (turn.text or turn.calls)))
    guess = usage if is_whole else estimated(request, turn)
    return Usage(
        input_tokens=given or guess.input_tokens,
        output_tokens=made or (0 if is_whole else guess.output_tokens),
        cached_input_tokens=cached,
        estimated=usage.estimated or not is_whole,
    )


def _count(tokens: Any) -> int:
    is_count = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens <= _MAX_TOKENS
    return tokens if is_count else 0


def json_value_or_none(value: Any) -> Any:
    """The value where JSON in UTF-8 can carry it and it is not nested too deeply; else None."""
    try:
        if not is_deeper(value, _MAX_DEPTH):
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
            return value
    except ValueError:
        pass
    return None


def text_of(value: Any) -> str:
    """The value where it is a text, without halves of characters; else an empty text."""
    return sendable(value) if isinstance(value, str) else ""


def sendable(text: str) -> str:
    """The text with a question mark for each half of a character."""
    return text.encode(errors="replace").decode()


def sendable_name(name: str) -> str:
    """A tool's name in letters that every provider takes."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def sendable_id(id: str) -> str:
    """A call's id in letters that every provider takes."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", id)


def sendable_arguments(call: ToolCall) -> dict[str, Any]:
    """The arguments of a call that is over. Faulty ones go back as text in an object, as Anthropic recommends
    (https://platform.claude.com/docs/en/agents-and-tools/tool-use/fine-grained-tool-streaming): servers that read
    arguments as JSON would refuse the conversation otherwise."""
    if not call.fault:
        return call.arguments
    return {"INVALID_JSON": sendable(_cut(call.written, _WRITTEN_BACK))}
