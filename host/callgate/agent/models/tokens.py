"""Tokens where nobody has counted them: four characters each, of the request's JSON and of the reply.

That is right for no model, and off by a third for most. It makes a budget hold where the endpoint does not count.
"""

from __future__ import annotations

import json
from dataclasses import replace

from .messages_json import request_to_json
from .model import Assistant, Request, Usage

__all__ = ["counted", "estimated"]

_CHARACTERS_PER_TOKEN = 4


def estimated(request: Request, turn: Assistant) -> Usage:
    """What a request may have cost.

    Args:
        request: that was sent.
        turn: that came.
    """
    given = json.dumps(request_to_json(request), ensure_ascii=False, default=str)
    arguments = (call.written or json.dumps(call.arguments, ensure_ascii=False, default=str) for call in turn.calls)
    made = len(turn.text) + sum(map(len, arguments)) + sum(len(call.name) for call in turn.calls)
    return Usage(
        input_tokens=-(-len(given) // _CHARACTERS_PER_TOKEN),
        output_tokens=-(-made // _CHARACTERS_PER_TOKEN),
        estimated=True,
    )


def counted(usage: Usage, request: Request, turn: Assistant) -> Usage:
    """The usage, with an estimate for what the endpoint did not count. No request is of no token.

    Args:
        usage: by the endpoint's count; 0 where it does not say.
        request: that was sent.
        turn: that came.
    """
    if usage.input_tokens and (usage.output_tokens or not (turn.text or turn.calls)):
        return usage
    about = estimated(request, turn)
    return replace(
        about,
        input_tokens=usage.input_tokens or about.input_tokens,
        output_tokens=usage.output_tokens or about.output_tokens,
        cached_input_tokens=usage.cached_input_tokens,
    )
