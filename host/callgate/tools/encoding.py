"""Python values to JSON text. Knows what JSON is: no NaN, no infinity, no cycle, no lone surrogate; integers are exact.

Refuses to guess: a value that is not JSON is an error that says where it sits.
"""

from __future__ import annotations

import json
import math
from typing import Any

from .faults import path_text

__all__ = ["NotJson", "canonical_json", "compact_json"]

_compact = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_canonical = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":"), sort_keys=True).encode


class NotJson(ValueError):
    """The value is not JSON; the message says what is wrong and where, without the word for the root."""


def compact_json(value: Any, root: str = "value") -> str:
    """Compact JSON text that can always be written as UTF-8.

    Args:
        value: dicts, lists, tuples, strings, numbers, booleans and None.
        root: what to call the value itself in an error's path.

    Raises:
        NotJson: anything else, NaN, an infinity, a cycle, a lone surrogate, or nesting beyond Python's recursion limit.
    """
    try:
        text = _compact(value)
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError):
        raise NotJson(_first_fault(value, root)) from None
    return text


def canonical_json(value: Any, root: str = "value") -> str:
    """JSON text that is equal for equal values, whatever the order of their keys. Raises `NotJson`."""
    try:
        return _canonical(value)
    except (TypeError, ValueError, RecursionError):
        raise NotJson(_first_fault(value, root)) from None


def _first_fault(value: Any, root: str) -> str:
    """Where and why a value is not JSON; walks without recursion."""
    above: set[int] = set()
    todo: list[tuple[bool, Any, tuple[str | int, ...]]] = [(True, value, ())]
    while todo:
        entering, item, path = todo.pop()
        if not entering:
            above.discard(id(item))
            continue
        fault = _fault_of(item, above)
        if fault:
            return f"{path_text(path[-8:], root)} {fault}"
        if not isinstance(item, (dict, list, tuple)):
            continue
        above.add(id(item))
        todo.append((False, item, path))
        children = item.items() if isinstance(item, dict) else enumerate(item)
        below = [
            (True, child, (*path[-8:], key if isinstance(key, (str, int)) else str(key))) for key, child in children
        ]
        todo.extend(reversed(below))
    return f"{root} is nested too deeply"


def _fault_of(item: Any, above: set[int]) -> str:
    match item:
        case None | bool():
            return ""
        case int():
            # Python refuses to write integers of more than 4,300 digits (sys.set_int_max_str_digits).
            try:
                int.__repr__(item)
            except ValueError:
                return f"is an integer of {item.bit_length()} bits, too long to be written as text"
            return ""
        case float():
            return "" if math.isfinite(item) else f"is {item!r}, which is not JSON; use null or a string"
        case str():
            return "" if _is_unicode(item) else "holds half of a surrogate pair, which is not Unicode text"
        case dict() | list() | tuple():
            if id(item) in above:
                return "contains itself"
            if isinstance(item, dict):
                for key in item:
                    if not isinstance(key, (str, int, float, type(None))):
                        return f"has a key that is a {type(key).__name__}; JSON keys are strings"
                    if isinstance(key, float) and not math.isfinite(key):
                        return f"has the key {key!r}, which is not JSON"
                    if isinstance(key, str) and not _is_unicode(key):
                        return "has a key with half of a surrogate pair, which is not Unicode text"
            return ""
        case _:
            return f"is a {type(item).__name__}, which is not JSON"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
