"""Tokens where nobody has counted them: four characters each, of the request's JSON and of the reply.

That is right for no model, and off by a third for most. It makes a budget hold where the endpoint does not count.
"""

from __future__ import annotations

import json

from .messages_json import request_to_json
from .model import Assistant, Request, Usage

__all__ = ["estimated"]

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
