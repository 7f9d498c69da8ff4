"""What a running plan holds: results as the text they came as, and what became of each step. Decides nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from callgate.tools.decoding import strict_json
from callgate.tools.encoding import compact_json

from .sizes import memory_of

__all__ = ["Outcome", "Result", "StepStatus", "json_inside", "plain", "skip_reason"]

StepStatus = Literal["pending", "succeeded", "failed", "skipped", "unknown_outcome"]
"""unknown_outcome: it timed out or was interrupted, and may have done its work all the same."""

_UNREAD: Any = object()
_MAX_WARNINGS = 20


class Result:
    """A step's result: its text, and the value it stands for, read when it is asked for.

    Args:
        text: JSON.
        charge: told how many bytes of memory reading is about to take; may raise.
    """

    __slots__ = ("_charge", "_inside", "_read_bytes", "_value", "text")

    def __init__(self, text: str, charge: Callable[[int], None] | None = None) -> None:
        self.text = text
        self._charge = charge
        self._read_bytes = 0
        self._value: Any = _UNREAD
        self._inside: Any = _UNREAD

    @property
    def value(self) -> Any:
        """The JSON value; shared, not to be changed."""
        if self._value is _UNREAD:
            self._count(self.text)
            self._value = json.loads(self.text)
        return self._value

    @property
    def inside(self) -> Any:
        """The value that paths lead into: a text that is a JSON object or array stands for that."""
        if self._inside is _UNREAD:
            value = self.value
            self._inside = json_inside(value)
            if self._inside is not value:
                self._count(value)
        return self._inside

    def forget(self) -> int:
        """Keep the text alone. Returns how many bytes of memory the values took beside it, about."""
        freed, self._read_bytes = self._read_bytes, 0
        self._value = self._inside = _UNREAD
        return freed

    def _count(self, text: str) -> None:
        if self._charge is not None:
            size = memory_of(text)
            self._read_bytes += size
            self._charge(size)


@dataclass(slots=True)
class Outcome:
    """What became of one step."""

    status: StepStatus = "pending"
    error: str | None = None
    kind: str | None = None
    """Class name of the error; ``Unresolvable`` where its arguments could not be put together."""
    cause: int | None = None
    """For skipped steps: the step that began it, where there is one."""
    warnings: tuple[str, ...] = ()
    fallback: str | None = None
    """The tool whose result was taken because the first one was not confident."""
    items: int | None = None
    """How many items its `for_each` had."""
    items_failed: int = 0

    def warn(self, warning: str) -> None:
        """Add a warning, unless there are too many."""
        if len(self.warnings) < _MAX_WARNINGS and warning not in self.warnings:
            self.warnings += (warning,)


def skip_reason(needed: str, outcome: Outcome, root: tuple[str, Outcome] | None) -> str:
    """Say why a step is skipped.

    Args:
        needed: id of the step that it needs and that did not succeed.
        outcome: of that step.
        root: id and outcome of the step that began it, where `outcome` names one.
    """
    if outcome.status == "failed":
        return f"Skipped because dependency {needed!r} failed"
    if outcome.status == "unknown_outcome":
        return f"Skipped because the outcome of dependency {needed!r} is unknown"
    if root is None:
        return f"Skipped because dependency {needed!r} was skipped: {plain(outcome.error)}"
    name, first = root
    what = {"failed": "failed", "unknown_outcome": "has an unknown outcome"}.get(
        first.status, "was skipped: its condition is false"
    )
    return f"Skipped because dependency {needed!r} was skipped: {name!r} {what}"


def plain(reason: str | None) -> str:
    """A reason without its beginning."""
    return (reason or "").removeprefix("Skipped because ")


def json_inside(value: Any) -> Any:
    """What a text that is a JSON object or array stands for; anything else is itself."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        inside = strict_json(value)
        if "\\u" in value:
            compact_json(inside)  # half of a surrogate pair could be sent to no tool
    except (ValueError, RecursionError):
        return value
    return inside
