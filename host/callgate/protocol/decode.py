"""Bytes that a guest sent, as a JSON value, or a `ProtocolError`.

Beyond what `strict_json` refuses: invalid UTF-8, nesting deeper than the interpreter's own stack allows, and messages
that would take far more memory decoded than they have bytes.
"""

from __future__ import annotations

from typing import Any

from callgate.errors import ProtocolError
from callgate.tools.decoding import count_values, strict_json

__all__ = ["decode"]

MAX_VALUES = 300_000
"""Objects, arrays and members in one message. An empty object takes 3 bytes on the wire and 64 in memory."""


def decode(line: bytes) -> Any:
    """The JSON value of one message. Raises `ProtocolError` that says what is wrong with it."""
    if len(line) > MAX_VALUES and count_values(line, MAX_VALUES) > MAX_VALUES:
        raise ProtocolError(f"the guest sent a message of more than {MAX_VALUES} JSON values")
    try:
        return strict_json(line.decode())
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the guest sent a message that is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise ProtocolError("the guest sent a message that is nested too deeply") from None
    except ValueError as error:
        raise ProtocolError(f"the guest sent a message that is not JSON: {error}") from None
