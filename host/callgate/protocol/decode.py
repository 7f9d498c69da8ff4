"""Bytes that a guest sent, as a JSON value, or a `ProtocolError`. Strict where the standard library is lenient.

Refused: invalid UTF-8, duplicate keys (which one wins differs between parsers), NaN and infinities, numbers that
overflow to infinity, integers of more digits than `int` takes, nesting deeper than the interpreter's own stack
allows, and messages that would take far more memory decoded than they have bytes.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

from callgate.errors import ProtocolError

__all__ = ["decode"]

MAX_VALUES = 300_000
"""Objects, arrays and members in one message. An empty object takes 3 bytes on the wire and 64 in memory."""

_LONG = 1 << 16
_MAX_DIGITS = 400
"""Of an integer in a message of more than 64 KiB: reading digits takes time that grows with their square."""

_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*+"')


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {twice[:80]!r} occurs twice in one object")
    return value


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits in a long message; at most {_MAX_DIGITS} are taken there")
    return int(text)


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_number).decode
_decode_long = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_number, parse_int=_integer
).decode


def decode(line: bytes) -> Any:
    """The JSON value of one message. Raises `ProtocolError` that says what is wrong with it."""
    if len(line) > MAX_VALUES and _values(line) > MAX_VALUES:
        raise ProtocolError(f"the guest sent a message of more than {MAX_VALUES} JSON values")
    try:
        return (_decode if len(line) < _LONG else _decode_long)(line.decode())
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the guest sent a message that is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise ProtocolError("the guest sent a message that is nested too deeply") from None
    except ValueError as error:
        raise ProtocolError(f"the guest sent a message that is not JSON: {error}") from None


def _values(line: bytes) -> int:
    """An upper bound of the JSON values in `line`; exact enough once the text inside strings is left out."""
    marks = line.count(b",") + line.count(b"{") + line.count(b"[")
    if marks > MAX_VALUES:
        bare = _STRINGS.sub(b"", line)
        marks = bare.count(b",") + bare.count(b"{") + bare.count(b"[")
    return marks
