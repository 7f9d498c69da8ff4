"""A whole reply told in pieces, for models that have it at once. Does no I/O."""

from __future__ import annotations

import json
from collections.abc import Callable

from anyio.lowlevel import checkpoint

from .model import Assistant, Delta

__all__ = ["in_pieces"]

_PIECE = 16
"""Characters of a piece."""


async def in_pieces(turn: Assistant, on_delta: Callable[[Delta], None], *, restarts: int = 0) -> None:
    """Report the turn in pieces, as a stream would.

    Args:
        turn: of the model.
        on_delta: receives each piece.
        restarts: how often the stream breaks off in the middle of the text first.
    """
    for _ in range(restarts):
        on_delta(Delta(text=turn.text[: len(turn.text) // 2]))
        await checkpoint()
        on_delta(Delta(restarted=True))
    for begin in range(0, len(turn.text), _PIECE):
        on_delta(Delta(text=turn.text[begin : begin + _PIECE]))
        await checkpoint()
    for position, call in enumerate(turn.calls):
        text = call.written if call.fault else json.dumps(call.arguments)
        on_delta(Delta(call=position, name=call.name))
        for begin in range(0, len(text), _PIECE):
            on_delta(Delta(call=position, arguments=text[begin : begin + _PIECE]))
            await checkpoint()
