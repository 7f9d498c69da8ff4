"""Steps and ends of a walk, as its driver receives them. Holds values, decides nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callgate.plan.expressions import Record
from callgate.program.graph.flow import Site
from callgate_guest.wire import cut

__all__ = [
    "WORKED", "Began", "Done", "MadeCall", "Printed", "ProgramFailed", "Step", "Unsure", "Wait",
    "Worked", "decode", "traceback_of",
]  # fmt: skip

_FULL_NAMES: Final = {"JSONDecodeError": "json.decoder.JSONDecodeError"}
_LONG: Final = 1 << 16
_MOST_DIGITS: Final = 400
"""Digits of an integer in a text of more than 64 KiB, as in `callgate.tools.decoding`: reading takes quadratic time."""


def _integer(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"an integer of {len(text)} digits in a long result; at most {_MOST_DIGITS} are read there")
    return int(text)


_decode: Final = json.JSONDecoder(object_hook=Record).decode
_decode_long: Final = json.JSONDecoder(object_hook=Record, parse_int=_integer).decode


def decode(text: str) -> Any:
    """JSON as a program sees it. Raises `ValueError` for integers of a long text that have too many digits."""
    return _decode(text) if len(text) < _LONG else _decode_long(text)


class MadeCall:
    """One call that the walk has come to. The driver sets `result`, or `error` and `order`."""

    __slots__ = ("_value", "arguments", "awaited", "error", "is_read", "number", "order", "result", "site", "task")

    def __init__(self, site: Site, number: int, arguments: dict[str, Any], task: bool) -> None:
        self.site = site
        self.number = number
        """Position among the calls of its site, from 0."""
        self.arguments = arguments
        """JSON, not shared with the program."""
        self.task = task
        self.awaited = False
        self.result: str | None = None
        """The result as compact JSON."""
        self.error: dict[str, Any] | None = None
        """The error as it crosses the wire: see `callgate.protocol.run.error_object`."""
        self.order = 0
        """Position among the failed calls: a lower number failed earlier."""
        self._value: Any = None
        self.is_read = False
        """The result was read before."""

    @property
    def ended(self) -> bool:
        return self.result is not None or self.error is not None

    def value(self) -> Any:
        """The result as a program sees it: decoded once, the same object each time."""
        if not self.is_read:
            assert self.result is not None
            self._value, self.is_read = decode(self.result), True
        return self._value


@dataclass(frozen=True, slots=True)
class Began:
    """Begin this call now, without waiting for it."""

    call: MadeCall


@dataclass(frozen=True, slots=True)
class Printed:
    """The program wrote this text."""

    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Go on when all have ended, or as soon as one of them has failed."""

    calls: tuple[MadeCall, ...]


@dataclass(frozen=True, slots=True)
class Worked:
    """The walk did some work: a chance to give other tasks a turn."""


Step = Began | Printed | Wait | Worked
WORKED: Final = Worked()


@dataclass(frozen=True, slots=True)
class Done:
    """The program's value: JSON, or its text if it is not JSON."""

    value: Any
    value_repr: str | None = None
    size: int = 0
    """Bytes of the value as compact JSON; 0 for a small one."""


class ProgramFailed(Exception):
    """The program ends with an error that it does not catch."""

    def __init__(self, kind: str, message: str, line: int, traceback: str, tool: str | None = None) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.message = message
        self.line = line
        self.traceback = traceback
        self.tool = tool


class Unsure(Exception):
    """The next thing that CPython would do is not certain, or costs the host too much: the sandbox has to run it."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(f"line {line}: {reason}")
        self.line = line
        self.reason = reason


def traceback_of(source: str, frames: Sequence[tuple[int, str]], kind: str, message: str) -> str:
    """The text of a traceback, as CPython writes it.

    Args:
        source: the program.
        frames: line and function of each frame, the outermost first.
        kind: the error's class name.
        message: the error's text.
    """
    lines = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    text = ["Traceback (most recent call last):"]
    for number, name in frames:
        text.append(f'  File "<program>", line {number}, in {name}')
        if number <= len(lines) and lines[number - 1].strip():
            text.append(f"    {lines[number - 1].strip()}")
    full = _FULL_NAMES.get(kind, kind)
    text.append(f"{full}: {message}" if message else full)
    return cut("\n".join(text) + "\n")
