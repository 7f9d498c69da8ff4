"""Bytes that a guest sent, as a JSON value, or a `ProtocolError`.

Beyond what `strict_json` refuses: invalid UTF-8, nesting deeper than the interpreter's own stack allows, and messages
that would take far more memory decoded than they have bytes. A long message is decoded in turns.
"""

from __future__ import annotations

from typing import Any

from callgate.errors import ProtocolError
from callgate.tools.decoding import counting, strict_json
from callgate.tools.decoding import decoding as json_decoding
from callgate.tools.turns import LARGE_BYTES, Work, at_once

__all__ = ["decode", "decoding"]

MAX_VALUES = 200_000
"""Objects, arrays and members in one message. An empty object takes 3 bytes on the wire and 64 in memory."""


_SHORT_BYTES = 1 << 15
"""Read without looking for turns: almost every message."""


def decode(line: bytes) -> Any:
    """The JSON value of one message. Raises `ProtocolError` that says what is wrong with it."""
    if len(line) > _SHORT_BYTES:
        return at_once(decoding(line))
    try:
        return strict_json(line.decode())
    except (ValueError, RecursionError) as error:
        raise _told(error) from None


def decoding(line: bytes) -> Work[Any]:
    """The same, in turns where the message is long."""
    if len(line) > MAX_VALUES:
        if (yield from counting(line, MAX_VALUES)) > MAX_VALUES:
            raise ProtocolError(f"the guest sent a message of more than {MAX_VALUES} JSON values")
        yield
    try:
        text = line.decode()
        if len(line) > LARGE_BYTES:
            yield
        return (yield from json_decoding(text))
    except (ValueError, RecursionError) as error:
        raise _told(error) from None


def _told(error: ValueError | RecursionError) -> ProtocolError:
    if isinstance(error, UnicodeDecodeError):
        return ProtocolError(f"the guest sent a message that is not UTF-8 (byte {error.start})")
    if isinstance(error, RecursionError):
        return ProtocolError("the guest sent a message that is nested too deeply")
    return ProtocolError(f"the guest sent a message that is not JSON: {error}")
