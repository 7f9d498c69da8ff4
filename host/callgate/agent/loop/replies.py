"""A model's reply, made fit for a conversation: bounded, with an id of its own for each call, said to have ended as it
has, and with a usage. Pure."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from callgate.agent.models.model import Assistant, Reply, Request, ToolCall, Usage
from callgate.agent.models.tokens import estimated

__all__ = ["MAX_CALLS", "MAX_TEXT_CHARACTERS", "fit", "is_deeper"]

MAX_CALLS = 1_000
"""Calls of a turn that are kept: of a reply with more, the doors of the SDKs give nothing at all."""
MAX_TEXT_CHARACTERS = 1_000_000
_MAX_NAME_CHARACTERS = 256
_MAX_WRITTEN_CHARACTERS = 2_000
_MAX_CALL_CHARACTERS = 1_000_000
_MAX_TURN_CHARACTERS = 3_000_000
"""Of the arguments of one call, and of all calls of a turn, as JSON."""
_MAX_DEPTH = 100
_MAX_TOKENS = 10**12
"""Of one request: a larger number is not a count."""


def fit(reply: Reply, request: Request) -> Reply:
    """The reply as it goes into the conversation.

    Calls of a reply that was cut or refused are left out: they are not to be made, and a call without a result cannot
    be sent again. Tokens that nobody counted, of the request or of the reply, are estimated, so that a budget holds.

    Args:
        reply: as it came.
        request: that it is the reply to.
    """
    turn, ended = reply.turn, reply.ended
    made: dict[str, ToolCall] = {}
    room = _MAX_TURN_CHARACTERS
    for place, call in enumerate(() if ended in ("cut", "refused") else turn.calls[:MAX_CALLS]):
        id = call.id if 0 < len(call.id) <= _MAX_NAME_CHARACTERS else f"call_{place}"
        while id in made:
            id += f"_{place}"
        made[id] = replace(
            call, id=id, name=call.name[:_MAX_NAME_CHARACTERS], written=call.written[:_MAX_WRITTEN_CHARACTERS]
        )  # fmt: skip
        size, fault = (len(made[id].written), "") if call.fault else _weighed(call, min(room, _MAX_CALL_CHARACTERS))
        room -= size
        if fault:
            made[id] = replace(made[id], arguments={}, fault=fault, written="")
    fitted = Assistant(text=turn.text[:MAX_TEXT_CHARACTERS], calls=tuple(made.values()))
    if (fitted.calls, fitted.text) == (turn.calls, turn.text):
        fitted = turn
    if ended in ("answered", "calls", "empty"):
        ended = "calls" if fitted.calls else "answered" if fitted.text.strip() else "empty"
    return replace(reply, turn=fitted, ended=ended, usage=_counted(reply.usage, request, fitted))


def is_deeper(value: Any, depth: int) -> bool:
    """Whether lists and dicts are nested more than `depth` deep; no recursion."""
    level = [value]
    for _ in range(depth):
        level = [
            below
            for each in level
            if isinstance(each, (dict, list, tuple))
            for below in (each.values() if isinstance(each, dict) else each)
        ]
    return bool(level)


def _weighed(call: ToolCall, most: int) -> tuple[int, str]:
    """Characters of the arguments, and what is wrong with their size."""
    if is_deeper(call.arguments, _MAX_DEPTH):
        return 0, f"they are nested more than {_MAX_DEPTH} deep"
    try:
        size = len(json.dumps(call.arguments, default=str, allow_nan=False))
    except ValueError as error:
        return 0, f"they are no JSON: {str(error)[:200]}"
    if size > most:
        return 0, f"they have {size} characters; in this turn there is room for {most}"
    return size, ""


def _counted(usage: Usage, request: Request, turn: Assistant) -> Usage:
    """The usage, with an estimate for what was not counted, or is no count. There is no request of 0 tokens."""
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
