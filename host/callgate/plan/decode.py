"""Decode a plan, and arguments written as text, to a JSON object. Knows JSON, and no field but `plan`.

A plan given as an object is encoded and decoded again, so that the result is a copy, is JSON, and has a known size.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from callgate.tools.decoding import counting, decoding, depth
from callgate.tools.encoding import NotJson, TooLong, compact_json, encoding
from callgate.tools.faults import described
from callgate.tools.turns import LARGE_BYTES, at_once

from .faults import Faults, Spot
from .sizes import SMALL_BYTES, json_size, memory_of
from .templates import MAX_DEPTH

__all__ = ["MAX_VALUES", "decode_arguments", "decode_plan", "too_deep"]

_NO_BOUND = 1 << 62  # the plan around it was measured
MAX_VALUES = 2_000_000
"""Objects, arrays and members of one plan, counted before it is read. 16 MiB of empty arrays would be five million
values and a gigabyte of memory; a plan of 100,000 steps with four arguments each has a million."""
_SHAPE = 'a plan is an object: {"steps": [{"id": "a", "tool": "…", "arguments": {…}}], "output_steps": ["a"]}'
_SPLIT = "split it, or let the operator raise the limit"


def decode_plan(given: Any, max_bytes: int, faults: Faults, max_memory_bytes: int = _NO_BOUND) -> dict[str, Any] | None:
    """Decode a plan to an object; None and a fault if it is not one.

    Args:
        given: an object, or its JSON as text (also as text in text, in a Markdown fence, or under the key ``plan``).
        max_bytes: of the plan as JSON.
        faults: faults and repairs are added here.
        max_memory_bytes: of the plan in memory, about.
    """
    whole = _Place(Spot(None, "", faults), "the plan", max_bytes, max_memory_bytes)
    try:
        value = whole.read(given if isinstance(given, str) else whole.written(given))
        if isinstance(value, dict) and "plan" in value and "steps" not in value:
            if len(value) > 1:
                whole.spot.repaired("what stands beside 'plan' was not read; put it into the plan")
            value = value["plan"]
            if isinstance(value, str):
                value = _Place(Spot(None, "plan", faults), "'plan'", max_bytes, max_memory_bytes).read(value)
        if not isinstance(value, dict):
            raise whole.refused("shape", f"is {described(value)}", _SHAPE)
        whole.check_depth(value)
    except _Refused:
        return None
    return value


def decode_arguments(given: Any, step: str, place: str, faults: Faults) -> dict[str, Any] | None:
    """Decode arguments given as JSON text, or as JSON text in JSON text; None and a fault if they are not an object."""
    there = _Place(Spot(step, place, faults), "'arguments'", _NO_BOUND, _NO_BOUND)
    value = given
    if isinstance(value, str) and value.startswith("$ref:"):
        there.spot.repaired(f"{value[:80]!r} was read as an object: the result stands for all arguments")
        return {"$ref": value.removeprefix("$ref:")}
    try:
        if isinstance(value, str):
            value = there.read(value) if value.strip() else None
        if value is None:  # no arguments
            return {}
        if not isinstance(value, dict):
            hint = 'write an object: "arguments": {"name": value}'
            raise there.refused("shape", f"must be an object, got {described(value)}", hint)
        there.check_depth(value)
    except _Refused:
        return None
    return value


class _Refused(Exception):
    """The value is not usable; its fault is noted."""


@dataclass(frozen=True, slots=True)
class _Place:
    """One JSON text: its place, its name in messages, and its bounds."""

    spot: Spot
    what: str
    max_bytes: int
    max_memory_bytes: int

    def written(self, value: Any) -> str:
        """Encode a plan given as an object. Raises `_Refused`."""
        try:
            if json_size(value, LARGE_BYTES) <= LARGE_BYTES:
                return compact_json(value, "plan")
            return at_once(encoding(value, "plan", 4 * self.max_bytes))
        except TooLong:
            much = f"has more than {4 * self.max_bytes} characters; max_message_bytes is {self.max_bytes}"
            raise self.refused("too-large", much) from None
        except NotJson as fault:
            raise self.refused("not-json", f"is not JSON: {fault}", _SHAPE) from None

    def read(self, text: str) -> Any:
        """Decode a JSON text, which may hold JSON text once more. Raises `_Refused`."""
        value = self._value(text)
        if isinstance(value, str):
            value = self._value(value)
            self.spot.repaired(f"{self.what} was JSON text in JSON text; it was read all the same")
        return value

    def check_depth(self, value: Any) -> None:
        """Raise `_Refused` for a value with too many levels."""
        if too_deep(value):
            raise self._too_deep()

    def _value(self, text: str) -> Any:
        if len(text) * 4 > self.max_bytes and (size := len(text.encode("utf-8", "replace"))) > self.max_bytes:
            raise self.refused("too-large", f"is {size} bytes, more than max_message_bytes, which is {self.max_bytes}")
        if len(text) > MAX_VALUES and at_once(counting(text.encode("utf-8", "replace"), MAX_VALUES)) > MAX_VALUES:
            raise self.refused("too-large", f"has more than {MAX_VALUES} values", "split it")
        most = self.max_memory_bytes
        if len(text) > most // 256 and (size := memory_of(text)) > max(most, SMALL_BYTES):
            would = f"would take {size} bytes of memory, more than memory_bytes, which is {most}"
            raise self.refused("too-large", would)
        stripped = text.strip()
        if stripped.startswith("```") and stripped.endswith("```") and "\n" in stripped:
            stripped = stripped[stripped.index("\n") + 1 : -3]
            self.spot.repaired(f"{self.what} stood in a Markdown fence; it was read all the same")
        try:
            value = at_once(decoding(stripped))
            if "\\u" in stripped or not stripped.isascii():
                at_once(encoding(value))  # refuses half of a surrogate pair
        except RecursionError:
            raise self._too_deep() from None
        except json.JSONDecodeError as error:
            near = stripped[max(error.pos - 20, 0) : error.pos + 20]
            message = f"is not JSON: {error.msg} at line {error.lineno} column {error.colno}, near {near!r}"
            hint = 'quote keys and text with ", leave out trailing commas and comments' if stripped else _SHAPE
            raise self.refused("not-json", message, hint) from None
        except (ValueError, NotJson) as error:
            raise self.refused("not-json", f"is not JSON: {error}", "") from None
        return value

    def refused(self, code: str, message: str, hint: str = _SPLIT) -> _Refused:
        """Note a fault, and return the exception to raise."""
        self.spot.fault(f"{self.what} {message}", hint, code=code)
        return _Refused()

    def _too_deep(self) -> _Refused:
        return self.refused("too-large", f"is nested more than {MAX_DEPTH} levels deep", "flatten it")


def too_deep(value: Any) -> bool:
    """Return whether a JSON value has more than `MAX_DEPTH` levels of objects and arrays."""
    return depth(value, MAX_DEPTH) > MAX_DEPTH
