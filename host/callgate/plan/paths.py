"""Paths into a value: `.field`, `.0`, `[0]`, `[-1]`, `["any key"]`, `[*]`. Knows grammar and lookup, no steps.

1. Only keys of objects and items of arrays are reached: never attributes, never a length.
2. A name that is all digits is a key of an object and an index of an array.
3. `[*]` maps the rest of the path over an array; nested ones give nested arrays.
4. `null` is a value: a path that ends at one has led somewhere.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Sequence
from types import EllipsisType
from typing import Any, Final

from callgate.tools.faults import described, did_you_mean

__all__ = ["EVERY", "LeadsNowhere", "Path", "PathFault", "Segment", "look_up", "path_text", "read_path"]


EVERY: Final = ...
"""The segment `[*]`."""
Segment = str | int | EllipsisType
Path = tuple[Segment, ...]

MAX_SEGMENTS = 100
"""Segments of one path."""
MAX_KEYS_SHOWN = 12
_KEYS_COMPARED = 300

_PLAIN = r"[^\s.\[\](){}\"'`$,;*+<>=!?&|%^~\\]+"
NAME = re.compile(_PLAIN)
"""A key that needs no quotes."""
_SEGMENT = re.compile(
    rf"\.(?P<name>{_PLAIN})"
    r"|\[(?P<index>-?[0-9]{1,9})\]"
    r"|\[(?P<every>\*)\]"
    r"""|\[(?P<quoted>"(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+')\]"""
)


_QUOTE = re.compile(r'\\.|"')


class PathFault(ValueError):
    """A path, a reference or a value cannot be read. Holds the message, the hint and the code of the `PlanFault`."""

    def __init__(self, message: str, hint: str, code: str = "reference-syntax") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code


class LeadsNowhere(LookupError):
    """A path leads to no value."""

    def __init__(self, path: Path, at: int, value: Any) -> None:
        super().__init__(path, at)
        self.path = path
        self.at = at
        self.value = value

    def words(self, root: str, *, suggest: bool = True) -> str:
        """Say where the path ended and what is there instead, e.g. ``'s1.a' has the keys: b, c``.

        Args:
            root: what the value is called.
            suggest: whether to look for the nearest key among some hundreds, which takes time.
        """
        place = repr(root + path_text(self.path[: self.at]))
        segment, value = self.path[self.at], self.value
        if isinstance(value, dict):
            keys = [str(key)[:40] for key in itertools.islice(value, MAX_KEYS_SHOWN)]
            more = f" and {len(value) - MAX_KEYS_SHOWN} more" if len(value) > MAX_KEYS_SHOWN else ""
            known = f"has the keys: {', '.join(keys)}{more}" if keys else "is an empty object"
            near = ""
            if suggest and isinstance(segment, str):
                near = did_you_mean(segment, itertools.islice(value, _KEYS_COMPARED))
            return f"{place} {known}{near}"
        return f"{place} is {described(value)}"


def read_path(text: str, start: int = 0) -> tuple[Path, int]:
    """Read the path that begins at `start`. Returns it and where it ends. Raises `PathFault`."""
    segments: list[Segment] = []
    end = len(text)
    while start < end and text[start] in ".[":
        match = _SEGMENT.match(text, start)
        if match is None:
            raise _fault(text, start)
        if match.lastgroup == "name":
            segments.append(match["name"])
        elif match.lastgroup == "index":
            segments.append(int(match["index"]))
        elif match.lastgroup == "every":
            segments.append(EVERY)
        else:
            segments.append(_unquoted(match["quoted"]))
        if len(segments) > MAX_SEGMENTS:
            raise PathFault(f"the path has more than {MAX_SEGMENTS} parts", "reach for a value further up")
        start = match.end()
    return tuple(segments), start


def _fault(text: str, start: int) -> PathFault:
    rest = text[start : start + 40]
    if text[start] == "[":
        return PathFault(f"{rest!r} is not an index or a key", 'write [0], [-1], [*] or ["key"]')
    return PathFault(f"there is no name after the dot at {rest!r}", "write .name, or leave the dot out")


def _unquoted(quoted: str) -> str:
    if quoted[0] == "'":
        quoted = f'"{_QUOTE.sub(_as_json, quoted[1:-1])}"'
    try:
        text: str = json.loads(quoted, strict=False)  # the plan is JSON itself: a line break in a key has become one
    except ValueError:
        hint = 'write it as JSON does: ["key"], with \\" for a quote'
        raise PathFault(f"[{quoted[:40]}] is not a key", hint) from None
    return text


def _as_json(match: re.Match[str]) -> str:
    return {"\\'": "'", '"': '\\"'}.get(match.group(), match.group())


def path_text(path: Sequence[Segment]) -> str:
    """Write a path; `read_path` reads it back."""
    text = ""
    for segment in path:
        if isinstance(segment, str):
            text += f".{segment}" if NAME.fullmatch(segment) else f"[{json.dumps(segment, ensure_ascii=False)}]"
        elif isinstance(segment, int):
            text += f"[{segment}]"
        else:
            text += "[*]"
    return text


def look_up(
    value: Any,
    path: Path,
    start: int = 0,
    *,
    instead: list[LeadsNowhere] | None = None,
    count: Callable[[int, int], None] | None = None,
) -> Any:
    """Return what `path` leads to in the JSON value `value`; not a copy.

    Args:
        value: where to begin.
        path: the way.
        start: the segment to begin with.
        instead: if given, a path that leads nowhere is added here and gives None, also for single items of a `[*]`.
        count: called before a `[*]` maps, with the numbers of items and of segments that follow; may raise.

    Raises:
        LeadsNowhere: the path leads nowhere, and `instead` is not given.
    """
    for at in range(start, len(path)):
        segment = path[at]
        kind = type(value)
        if type(segment) is str:
            if kind is dict:
                if segment in value:
                    value = value[segment]
                    continue
            elif kind is list and (index := _index(segment)) is not None and -len(value) <= index < len(value):
                value = value[index]
                continue
        elif type(segment) is int:
            if kind is list and -len(value) <= segment < len(value):
                value = value[segment]
                continue
        elif kind is list:
            if count is not None:
                count(len(value), len(path) - at - 1)
            return [look_up(item, path, at + 1, instead=instead, count=count) for item in value]
        nowhere = LeadsNowhere(path, at, value)
        if instead is None:
            raise nowhere
        if len(instead) < 10:
            instead.append(nowhere)
        return None
    return value


def _index(name: str) -> int | None:
    digits = name.removeprefix("-")
    return int(name) if digits.isascii() and digits.isdecimal() and len(digits) < 10 else None
