"""Results and outcomes of the steps of a running plan. Holds values; decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from callgate.tools.decoding import own_json, strict_json
from callgate.tools.encoding import compact_json

from .sizes import memory_of

__all__ = ["Outcome", "Result", "StepStatus", "json_inside", "plain", "skip_reason"]

StepStatus = Literal["pending", "succeeded", "failed", "skipped", "unknown_outcome"]
"""unknown_outcome: the step timed out or was interrupted, and may have done its work all the same."""

_UNREAD: Any = object()
_MAX_WARNINGS = 20


class Result:
    """A step's result: its text, and its value, decoded on first use.

    Args:
        text: JSON.
        charge: called with the bytes of memory that decoding will take; may raise.
    """

    __slots__ = ("_charge", "_inside", "_offered", "_read_bytes", "_value", "text", "unread_bytes")

    def __init__(self, text: str, charge: Callable[[int], None] | None = None) -> None:
        self.text = text
        self.unread_bytes = 0
        """Memory of the value that was offered, until the first use."""
        self._offered: Any = _UNREAD
        self._charge = charge
        self._read_bytes = 0
        self._value: Any = _UNREAD
        self._inside: Any = _UNREAD

    @property
    def value(self) -> Any:
        """The JSON value; shared, not to be changed."""
        if self._value is _UNREAD:
            size, self.unread_bytes = self.unread_bytes, 0
            self._count(size or memory_of(self.text))
            self._value = own_json(self.text) if self._offered is _UNREAD else self._offered
        return self._value

    @property
    def inside(self) -> Any:
        """The value that paths lead into: text that is a JSON object or array is decoded once more."""
        if self._inside is _UNREAD:
            value = self.value
            self._inside = json_inside(value)
            if self._inside is not value:
                self._count(memory_of(value))
        return self._inside

    def offer(self, value: Any) -> int:
        """Take the value instead of decoding it at first use. Returns the bytes of memory that it takes, about."""
        self._offered = value
        self.unread_bytes = memory_of(self.text)
        return self.unread_bytes

    def forget(self) -> int:
        """Free the values, and keep the text. Returns the bytes of memory that were counted for them."""
        freed, self._read_bytes = self._read_bytes, 0
        self._value = self._inside = self._offered = _UNREAD
        self.unread_bytes = 0
        return freed

    def _count(self, size: int) -> None:
        if self._charge is not None:
            self._read_bytes += size
            self._charge(size)


@dataclass(slots=True)
class Outcome:
    """Outcome of one step."""

    status: StepStatus = "pending"
    error: str | None = None
    kind: str | None = None
    """Class name of the error; ``Unresolvable`` if a value could not be resolved."""
    cause: int | None = None
    """For skipped steps: the step that is to blame, if one is."""
    warnings: tuple[str, ...] = ()
    fallback: str | None = None
    """The fallback whose result was taken because the first result was not confident."""
    items: int | None = None
    """Items of the `for_each`."""
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
        root: id and outcome of the step to blame, where `outcome` names one.
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
    """Return a reason without ``Skipped because``."""
    return (reason or "").removeprefix("Skipped because ")


def json_inside(value: Any) -> Any:
    """Decode text that is a JSON object or array; return anything else unchanged."""
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    try:
        inside = strict_json(value)
        if "\\u" in value:
            compact_json(inside)  # refuses half of a surrogate pair
    except (ValueError, RecursionError):
        return value
    return inside
