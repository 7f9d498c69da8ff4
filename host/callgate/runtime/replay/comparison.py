"""Says what was the first difference between two runs of one program. Runs nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from callgate.cut import cut_middle
from callgate.errors import ReplayDiverged
from callgate.runtime.result import CodeResult

__all__ = ["Difference", "MadeCall", "Ran", "decoded", "digest", "first_difference"]

_SHOWN = 200
"""Characters of a value, a line or an argument in a difference."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call as a program made it, whoever answered it."""

    tool: str
    arguments: Any
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.tool}({json.dumps(self.arguments, ensure_ascii=False, sort_keys=True)})"


@dataclass(frozen=True, slots=True)
class Ran:
    """A run, with every call of the program in the order in which the program made them."""

    result: CodeResult
    calls: Sequence[MadeCall]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that was not the same.

    Attributes:
        what: for example ``call 3`` or ``the value``.
        line: line of the program, if one is known.
        expected: what the first run had.
        got: what the second run had.
    """

    what: str
    line: int | None
    expected: str
    got: str

    def __str__(self) -> str:
        place = "" if self.line is None else f", line {self.line}"
        return f"{self.what}{place}: the first run had {self.expected}, the second run has {self.got}"


def digest(text: str) -> str:
    """The first 16 digits of the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def first_difference(first: Ran, again: Ran, diverged: ReplayDiverged | None = None) -> Difference | None:
    """Compare calls with their arguments in order, then prints, then the error or the value.

    Args:
        first: the recorded run.
        again: the replay.
        diverged: why the replay ended early, if it did.
    """
    one, two = first.result, again.result
    if diverged is not None:
        return Difference("what the program does", diverged.line, diverged.expected, diverged.got)
    for number, (made, remade) in enumerate(zip_longest(first.calls, again.calls), 1):
        if str(made) != str(remade):
            line = (remade or made).line
            return Difference(f"call {number}", line, *(_cut(str(each or "no call")) for each in (made, remade)))
    if one.logs != two.logs:
        at = _same_characters(one.logs, two.logs)
        line = next((mark.line for mark in reversed(two.prints) if mark.offset <= at), None)
        return Difference(f"print {one.logs.count(chr(10), 0, at) + 1}", line, _line(one.logs, at), _line(two.logs, at))
    for what, expected, got in (
        ("the error", _error(one), _error(two)),
        ("the value", _json(one.value), _json(two.value)),
        ("the value", repr(one.value_repr), repr(two.value_repr)),
    ):
        if expected != got:
            return Difference(what, two.error.line if two.error else None, _cut(expected), _cut(got))
    return None


def _same_characters(one: str, two: str) -> int:
    """The length of the common beginning."""
    low, high = 0, min(len(one), len(two))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == two[low:middle] else (low, middle - 1)
    return low


def _error(result: CodeResult) -> str:
    error = result.error
    return "no error" if error is None else f"{error.kind}: {error.message} (line {error.line})"


def _line(text: str, at: int) -> str:
    """The line of `text` that has the character `at`."""
    start = text.rfind("\n", 0, at) + 1
    return _cut(repr(text[start:].partition("\n")[0])) if start < len(text) else "no more prints"


def decoded(arguments: str) -> Any:
    """Arguments of a recorded call."""
    return json.loads(arguments)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _cut(text: str) -> str:
    return cut_middle(text, _SHOWN)
