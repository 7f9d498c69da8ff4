"""What a running plan holds: results as the text they came as, and what became of each step. Decides nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from callgate.tools.decoding import strict_json
from callgate.tools.encoding import compact_json

from .sizes import memory_of

__all__ = ["Items", "Outcome", "Result", "StepStatus", "json_inside"]

StepStatus = Literal["pending", "succeeded", "failed", "skipped", "unknown_outcome"]
"""unknown_outcome: it timed out or was interrupted, and may have done its work all the same."""

_UNREAD: Any = object()


class Result:
    """A step's result: its text, and the value it stands for, read when it is asked for."""

    __slots__ = ("_inside", "_value", "read_bytes", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.read_bytes = 0
        """Memory that the value takes beside the text, about."""
        self._value: Any = _UNREAD
        self._inside: Any = _UNREAD

    @property
    def value(self) -> Any:
        """The JSON value; shared, not to be changed."""
        if self._value is _UNREAD:
            self._value = json.loads(self.text)
            self.read_bytes += memory_of(self.text)
        return self._value

    @property
    def inside(self) -> Any:
        """The value that paths lead into: a text that is a JSON object or array stands for that."""
        if self._inside is _UNREAD:
            value = self.value
            self._inside = json_inside(value)
            if self._inside is not value:
                self.read_bytes += memory_of(value)
        return self._inside


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


class Items:
    """A `for_each` under way."""

    __slots__ = ("bytes_each", "errors", "next", "read_bytes", "results", "running", "stopped", "unknown", "values")

    def __init__(self, values: Sequence[Any], bytes_each: int) -> None:
        self.values = values
        self.bytes_each = bytes_each
        self.read_bytes = 0
        self.results: list[str | None] = [None] * len(values)
        self.errors: dict[int, tuple[str, str]] = {}
        self.next = 0
        self.running = 0
        self.unknown = False
        self.stopped = False


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
