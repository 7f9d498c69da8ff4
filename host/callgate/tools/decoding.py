"""Reads JSON text, strictly. `ValueError` says what is wrong with the text.

Refused, other than by the standard library: duplicate keys (parsers differ in which one wins), NaN and infinities,
numbers that overflow to infinity, integers with more digits than `int` takes. Nesting beyond the interpreter's stack
raises `RecursionError`.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from json import JSONDecodeError
from typing import Any, NoReturn

from pydantic_core import from_json

from .turns import Work, uncollected

__all__ = ["counting", "decoding", "depth", "outside_strings", "own_json", "strict_json"]

_LONG = 1 << 16
_MAX_DIGITS = 400
"""Digits of an integer in a text above 64 KiB: reading digits takes time that grows with their square."""
_MAX_LEVELS = 900
"""Levels of nesting in a long text. A short text may have as many as the interpreter's stack takes, about as many."""
_PIECE = 1 << 15
"""Characters that the standard library's parser gets at once."""
_TURN = 1 << 18
"""Characters between two turns of others: a few milliseconds."""
_STEP = 256
"""Characters that one step of our own parser counts for."""

_BLOCK_BYTES = 256 * 1024
_MARKS_BYTES = 4 * 1024 * 1024
"""Bytes that are searched at once, in a few milliseconds."""
_BACKSLASHES = re.compile(rb"\\+")
_WHITESPACE = re.compile(r"[ \t\n\r]*")
_COMMA = re.compile(r"[ \t\n\r]*,[ \t\n\r]*")
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_FLAT = rf'[^"\[\]{{}}]*(?:{_STRING}[^"\[\]{{}}]*)*'
_ITEM = rf'[^"\[\]{{}},]*(?:(?:{_STRING}|\[{_FLAT}\]|\{{{_FLAT}\}})[^"\[\]{{}},]*)*,'
_ITEMS = re.compile(rf"(?:{_ITEM})*", re.DOTALL)
"""Whole items of an array or object, each with its comma and at most one more level inside. Text after a part never
fits that part, so backtracking takes no more steps than matching did. (Nested possessive quantifiers fail in CPython
3.11.)"""


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
        raise _twice(twice)
    return value


def _twice(name: str) -> ValueError:
    return ValueError(f"the key {name[:80]!r} occurs twice in one object")


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits in a long message; at most {_MAX_DIGITS} are taken there")
    return int(text)


_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_number).decode
_long_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_number, parse_int=_integer
)


def strict_json(text: str) -> Any:
    """The value of a JSON text. Raises `ValueError` (`json.JSONDecodeError` for bad syntax) or `RecursionError`."""
    return _decode(text) if len(text) < _LONG else _long_decoder.decode(text)


def own_json(text: str) -> Any:
    """The value of a JSON text that callgate itself wrote. Not strict, and twice as fast for long texts."""
    if len(text) < _LONG:
        return json.loads(text)
    try:
        with uncollected():
            return from_json(text, cache_strings="keys")
    except ValueError:  # more levels than pydantic reads
        return json.loads(text)


def decoding(text: str) -> Work[Any]:
    """`strict_json` in turns, for a text that may be long.

    Raises:
        ValueError: the text is not JSON; `json.JSONDecodeError` for bad syntax.
        RecursionError: the text is nested too deeply.
    """
    if len(text) < _LONG:
        return _decode(text)
    return (yield from _Long(text).value())


class _Long:
    """Reads a long text piece by piece; arrays and objects that are not complete are on a stack."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._turn = 0
        """Where the next turn of others begins; earlier by what steps cost."""
        self._in_vain = 0
        """Characters of items that were read in vain, since they do not end within a piece."""

    def value(self) -> Work[Any]:
        text = self._text
        stack: list[list[Any] | dict[str, Any]] = []
        self._skip()
        value, opened = self._begin()
        if opened:
            stack.append(value)
        root = value
        more = False  # a comma came last
        while stack:
            if self._at > self._turn:
                self._turn = self._at + _TURN
                yield
            self._turn -= _STEP
            above = stack[-1]
            if self._items(above):
                more = True
                self._skip()
                if type(above) is list and text.startswith(("[", "{"), self._at):
                    continue  # a further piece of flat items
            if type(above) is list and self._in_vain <= self._at:
                more = self._deep_items(above, _MAX_LEVELS - len(stack)) or more
            self._skip()
            close = "]" if type(above) is list else "}"
            if text.startswith(close, self._at) and not more:
                self._at += 1
                stack.pop()
            else:
                name = self._name(above) if isinstance(above, dict) else ""
                value, opened = self._begin()
                if isinstance(above, dict):
                    above[name] = value
                else:
                    above.append(value)
                if opened:
                    stack.append(value)
                    if len(stack) > _MAX_LEVELS:
                        raise RecursionError
                    more = False
                    continue
            if stack:
                more = self._after_item(stack[-1])
        self._skip()
        if self._at != len(text):
            raise JSONDecodeError("Extra data", text, self._at)
        return root

    def _skip(self) -> None:
        found = _WHITESPACE.match(self._text, self._at)
        assert found is not None
        self._at = found.end()

    def _begin(self) -> tuple[Any, bool]:
        """The next value, and whether it is an array or object of which only the bracket was read."""
        first = self._text[self._at : self._at + 1]
        if first in ("[", "{") and first:
            self._at += 1
            return ([] if first == "[" else {}), True
        value, self._at = _long_decoder.raw_decode(self._text, self._at)
        return value, False

    def _name(self, above: dict[str, Any]) -> str:
        """The name of the next member; its value comes after it."""
        text = self._text
        if not text.startswith('"', self._at):
            raise JSONDecodeError("Expecting property name enclosed in double quotes", text, self._at)
        name, self._at = _long_decoder.raw_decode(text, self._at)
        self._skip()
        if not text.startswith(":", self._at):
            raise JSONDecodeError("Expecting ':' delimiter", text, self._at)
        self._at += 1
        self._skip()
        if name in above:
            raise _twice(name)
        return str(name)

    def _after_item(self, above: list[Any] | dict[str, Any]) -> bool:
        """Whether a comma comes next, and not a closing bracket."""
        self._skip()
        if self._text.startswith(",", self._at):
            self._at += 1
            return True
        if not self._text.startswith("]" if type(above) is list else "}", self._at):
            raise JSONDecodeError("Expecting ',' delimiter", self._text, self._at)
        return False

    def _items(self, above: list[Any] | dict[str, Any]) -> bool:
        """Read the next whole items, as many as fit a piece. Returns whether there were any."""
        found = _ITEMS.match(self._text, self._at, min(self._at + _PIECE, len(self._text)))
        assert found is not None
        if not found[0]:
            return False
        inside = found[0][:-1]
        if not inside.strip(" \t\n\r"):
            raise JSONDecodeError("Expecting value", self._text, self._at)
        try:
            if isinstance(above, list):
                above.extend(_long_decoder.decode(f"[{inside}]"))
            else:
                some: dict[str, Any] = _long_decoder.decode(f"{{{inside}}}")
                size = len(above) + len(some)
                names = next((name for name in some if name in above), None)
                above.update(some)
                if len(above) != size:
                    raise _twice(str(names))
        except JSONDecodeError as error:
            raise JSONDecodeError(error.msg, self._text, self._at + max(error.pos - 1, 0)) from None
        self._at = found.end()
        return True

    def _deep_items(self, above: list[Any], levels: int) -> bool:
        """Read the next items that are objects or arrays, each at once, while they end within one piece and a comma
        follows. Returns whether there were any."""
        self._skip()
        text = self._text[self._at : self._at + _PIECE]
        at = items = vain = 0
        while text[at : at + 1] in ("{", "["):
            try:
                value, end = _long_decoder.raw_decode(text, at)
            except (ValueError, RecursionError):  # it is longer, or wrong: the slower way will tell
                vain = len(text) - at
                break
            comma = _COMMA.match(text, end)
            if comma is None or (end - at > 2 * levels and depth(value, levels) > levels):
                vain = end - at
                break
            above.append(value)
            items += 1
            at = comma.end()
        self._at += at
        self._in_vain += vain
        self._turn -= vain + items * _STEP // 4
        return items > 0


def counting(text: bytes, enough: int) -> Work[int]:
    """Upper bound on the JSON values in `text`; counting ends beyond `enough`. In turns.

    Commas and brackets inside strings are left out only if there seem to be more values than `enough`.
    """
    marks = 0
    for start in range(0, len(text), _MARKS_BYTES):
        if start:
            yield
        marks += _marks(text[start : start + _MARKS_BYTES])
    if marks > enough:
        marks = 0
        for block in outside_strings(text):
            marks += _marks(block)
            if marks > enough:
                break
            yield
    return marks


def depth(value: Any, enough: int = sys.maxsize) -> int:
    """Levels of objects and arrays in a JSON value; counting ends beyond `enough`. Never recurses."""
    level = [value] if type(value) is dict or type(value) is list else []
    levels = 0
    while level and levels <= enough:
        below = (member for item in level for member in (item.values() if type(item) is dict else item))
        level = [member for member in below if type(member) is dict or type(member) is list]
        levels += 1
    return levels


def outside_strings(text: bytes) -> Iterator[bytes]:
    """The parts of a JSON text outside strings, block by block."""
    inside, at = False, 0
    while at < len(text):
        end = at + _BLOCK_BYTES
        if backslashes := _BACKSLASHES.match(text, end - 1):
            end = backslashes.end() + 1  # do not cut an escape
        parts = text[at:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0
        at = end


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")
