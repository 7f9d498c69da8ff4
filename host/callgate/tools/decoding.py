"""JSON text as a value, strict where the standard library is lenient. `ValueError` says what is wrong with it.

Refused: duplicate keys (which one wins differs between parsers), NaN and infinities, numbers that overflow to
infinity, integers of more digits than `int` takes. Nesting beyond the interpreter's own stack raises
`RecursionError`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

__all__ = ["count_values", "strict_json"]

_LONG = 1 << 16
_MAX_DIGITS = 400
"""Of an integer in a text of more than 64 KiB: reading digits takes time that grows with their square."""

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


def strict_json(text: str) -> Any:
    """The value of a JSON text. Raises `ValueError` (`json.JSONDecodeError` for bad syntax) or `RecursionError`."""
    return _decode(text) if len(text) < _LONG else _decode_long(text)


def count_values(text: bytes, enough: int) -> int:
    """How many JSON values `text` holds, at most; beyond `enough`, without what only looks like them inside strings."""
    marks = text.count(b",") + text.count(b"{") + text.count(b"[")
    if marks > enough:
        bare = _STRINGS.sub(b"", text)
        marks = bare.count(b",") + bare.count(b"{") + bare.count(b"[")
    return marks
