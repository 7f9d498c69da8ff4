"""From the place of a fault, such as ``steps[2].arguments.city``, to a line and a column of the JSON text it stands in.

Reads forward from the start, once for each place, and never deeper than the place leads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

__all__ = ["line_and_column"]

_MOST_CHARACTERS = 1024 * 1024
"""In a longer text no place is looked up: every fault takes a reading of its own."""
_SPACE = re.compile(r"[ \t\n\r]*")
_PART = re.compile(r'\.?([^.\[\]]+)|\[([0-9]+)\]|\[("(?:[^"\\]|\\.)*")\]')
_OTHER_NAMES = {"arguments": ("args", "parameters", "params"), "depends_on": ("dependencies", "dependsOn")}
_DECODER = json.JSONDecoder()


def line_and_column(text: str, place: str) -> tuple[int, int] | None:
    """Where the value at `place` begins, counted from 1; where there is none, that of the nearest one around it.

    Args:
        text: JSON, or what was meant to be.
        place: empty for the whole; then, where the text is no JSON, the character at which that shows.

    Returns:
        None where nothing of it can be found.
    """
    if len(text) > _MOST_CHARACTERS:
        return None
    try:
        at = _broken(text) if not place else _find(text, place)
    except RecursionError:
        return None
    if at is None:
        return None
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def _broken(text: str) -> int | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos
    except ValueError:
        pass
    return None


def _find(text: str, place: str) -> int | None:
    parts = [_part(match) for match in _PART.finditer(place)]
    at, found = _skip(text, 0), 0
    for part in parts:
        inner = _member(text, at, part)
        if inner is None and not found:  # {"plan": {"steps": ...}}
            around = _member(text, at, "plan")
            inner = None if around is None else _member(text, around, part)
        if inner is None:
            break
        at, found = inner, found + 1
    return at if found else None


def _part(match: re.Match[str]) -> str | int:
    if match[1] is not None:
        return match[1]
    return int(match[2]) if match[2] is not None else str(json.loads(match[3]))


def _member(text: str, at: int, part: str | int) -> int | None:
    """Where the member begins; for a name that stands there twice, the last one."""
    wanted = {part, *_OTHER_NAMES.get(part, ())} if isinstance(part, str) else {part}
    found = None
    try:
        for name, start in _members(text, at):
            if name in wanted:
                found = start
                if isinstance(part, int):
                    break
    except (ValueError, IndexError):  # what comes after it is no JSON
        pass
    return found


def _members(text: str, at: int) -> Iterator[tuple[str | int, int]]:
    opening = text[at : at + 1]
    if opening not in ("{", "["):
        return
    at = _skip(text, at + 1)
    index = 0
    while text[at] not in "}]":
        name: str | int = index
        if opening == "{":
            name, at = _DECODER.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        yield name, at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        index += 1
        if text[at] == ",":
            at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at
