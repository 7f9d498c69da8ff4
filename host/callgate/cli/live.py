"""Live output of a run: prints to stdout as they happen, calls as words on stderr.

On a terminal, control characters of the guest are made visible: a hostile program must not drive it. Into a pipe or a
file the text passes untouched, since what reads there wants the bytes.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from callgate import CallEnded, CallRecord, Event, Printed

from .shown import Shown
from .words import one_line, say, tame

__all__ = ["Screen", "call_line", "data_only", "log_to_stderr"]

_ARGUMENT_CHARACTERS = 60


@contextlib.contextmanager
def data_only() -> Iterator[TextIO]:
    """stdout for this command alone: what the operator's tools print in the meantime goes to stderr."""
    data = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield data


class _Line(logging.Formatter):
    """A log record on one line: what failed, and the exception's own words. Its traceback is for --verbose."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return record.getMessage() + (f": {type(error).__name__}: {error} (--verbose shows where)" if error else "")


class _Stderr(logging.Handler):
    """Writes to the stderr of the moment, which a live view puts itself in front of."""

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(OSError):
            say(self.format(record))


def log_to_stderr(verbose: bool) -> None:
    """The operator's own tools may fail: their exceptions are for the operator, never for a program or a plan."""
    handler = _Stderr()
    handler.setFormatter(logging.Formatter() if verbose else _Line())
    logger = logging.getLogger("callgate")
    logger.addHandler(handler)
    logger.propagate = False


def call_line(record: CallRecord) -> str:
    """A call that has ended, on one line."""
    given = record.arguments if isinstance(record.arguments, dict) else {"": record.arguments}
    shown = ", ".join(f"{name}={_short(value)}" for name, value in given.items())
    again = f", {record.attempts} attempts" if record.attempts > 1 else ""
    cached = ", cached" if record.cached else ""
    error = f": {record.error}" if record.error else ""
    return one_line(
        f"{record.tool}({shown}) {record.duration_seconds * 1000:.1f} ms {record.status}{again}{cached}{error}", 240
    )


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _ARGUMENT_CHARACTERS else f"{text[: _ARGUMENT_CHARACTERS - 1]}…"


class Screen(Shown[Event]):
    """Shows events in the order in which they came.

    Args:
        data: where the program's prints go; ``None`` to show none.
        calls: whether calls that ended are told on stderr.
    """

    def __init__(self, data: TextIO | None, *, calls: bool = False) -> None:
        super().__init__()
        self._data = data
        self._tame = data is not None and data.isatty()
        self._calls = calls
        self.in_line = False
        """The last print did not end its line."""

    def put(self, event: Event) -> None:
        """Take an event in; never blocks."""
        if isinstance(event, Printed) or (self._calls and isinstance(event, CallEnded)):
            self.add(event)

    def write(self, text: str) -> None:
        """Write data to stdout, tamed where it is a terminal."""
        if self._data is not None and text:
            self._data.write(tame(text) if self._tame else text)
            self._data.flush()
            self.in_line = not text.endswith("\n")

    def _show(self, events: list[Event]) -> None:
        text: list[str] = []
        for event in events:
            if isinstance(event, Printed):
                text.append(event.text)
            elif isinstance(event, CallEnded):
                self.write("".join(text))
                text.clear()
                say(f"  {call_line(event.record)}", "dim")
        self.write("".join(text))
