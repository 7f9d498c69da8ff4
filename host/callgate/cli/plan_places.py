"""Finds the place of a fault in a plan's JSON text: from ``steps[2].arguments.city`` to a line and a column."""

from __future__ import annotations

import json
import json.decoder
import json.scanner
import re
from typing import Any

__all__ = ["line_and_column"]

_MOST_CHARACTERS = 1024 * 1024
"""Longer texts are not searched."""
_PART = re.compile(r'\.?([^.\[\]]+)|\[([0-9]+)\]|\[("(?:[^"\\]|\\.)*")\]')
_OTHER_NAMES = {"arguments": ("args", "parameters", "params"), "depends_on": ("dependencies", "dependsOn")}


class _Placed(json.JSONDecoder):
    """Reads each value inside an object or an array as a pair: the character at which it begins, and the value."""

    def __init__(self) -> None:
        super().__init__()
        read: Any = json.decoder
        self.parse_object = lambda at, strict, scan, *more: read.JSONObject(at, strict, _pairs(scan), *more)
        self.parse_array = lambda at, scan: read.JSONArray(at, _pairs(scan))
        self.scan_once = json.scanner.py_make_scanner(self)  # type: ignore[attr-defined]


def _pairs(scan: Any) -> Any:
    def placed(text: str, at: int) -> tuple[tuple[int, Any], int]:
        value, end = scan(text, at)
        return (at, value), end

    return placed


def line_and_column(text: str, place: str) -> tuple[int, int] | None:
    """Line and column, counted from 1, where the value at `place` begins; if it is missing, the value around it.

    Args:
        text: JSON, or a text that was meant to be JSON.
        place: empty for the whole text; then, if the text is not JSON, the place of the first mistake.

    Returns:
        None if the place is not found.
    """
    if len(text) > _MOST_CHARACTERS:
        return None
    at: int | None = None
    try:
        node = _Placed().decode(text)
        for part in _PART.finditer(place):
            name = int(part[2]) if part[2] else json.loads(part[3]) if part[3] else part[1]
            found = _member(node, name)
            if found is None and at is None:  # {"plan": {"steps": ...}}
                found = _member((_member(node, "plan") or (0, None))[1], name)
            if found is None:
                break
            at, node = found
    except json.JSONDecodeError as error:
        at = error.pos if not place else None
    except (ValueError, RecursionError):
        return None
    return None if at is None else (text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at))


def _member(node: Any, name: str | int) -> tuple[int, Any] | None:
    if isinstance(node, list) and isinstance(name, int):
        return node[name] if name < len(node) else None
    if isinstance(node, dict):
        return next((node[each] for each in (name, *_OTHER_NAMES.get(str(name), ())) if each in node), None)
    return None
