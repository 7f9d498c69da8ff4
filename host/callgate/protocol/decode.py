"""Decode a guest's message to a JSON value, or raise `ProtocolError`.

Refuses what `strict_json` refuses, and invalid UTF-8, nesting deeper than the interpreter's own stack allows, and
messages that would take far more memory decoded than they have bytes. A long message is decoded in turns.
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
"""Messages up to this length are decoded at once: almost every one."""


def decode(line: bytes) -> Any:
    """Decode one message. Raises `ProtocolError`, which says what is wrong."""
    if len(line) > _SHORT_BYTES:
        return at_once(decoding(line))
    try:
        return strict_json(line.decode())
    except (ValueError, RecursionError) as error:
        raise _fault(error) from None


def decoding(line: bytes) -> Work[Any]:
    """Decode one message, a long one in turns. Raises `ProtocolError`."""
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
        raise _fault(error) from None


def _fault(error: ValueError | RecursionError) -> ProtocolError:
    if isinstance(error, UnicodeDecodeError):
        return ProtocolError(f"the guest sent a message that is not UTF-8 (byte {error.start})")
    if isinstance(error, RecursionError):
        return ProtocolError("the guest sent a message that is nested too deeply")
    return ProtocolError(f"the guest sent a message that is not JSON: {error}")
