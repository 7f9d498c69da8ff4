"""Writes data to stdout, and words for people to stderr. Knows no command.

Text of a guest, a tool or a file never drives the user's terminal: `tame` makes control characters visible first.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from callgate import Finding

from callgate.cut import cut_middle

__all__ = [
    "Exit",
    "OutputLost",
    "Stop",
    "counted",
    "data_only",
    "emit",
    "emit_json",
    "explain",
    "finding_line",
    "log_to_stderr",
    "one_line",
    "page",
    "progress",
    "say",
    "tame",
]


class Exit(IntEnum):
    """Exit codes, the same for all commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NO_SANDBOX = 3
    LIMIT = 4
    INTERRUPTED = 130
    PIPE_CLOSED = 141


# C0 without tab and newline, DEL, C1, and characters that are invisible or change the direction (Unicode Cf)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


class Stop(Exception):
    """Ends a command: what happened, what to do, and the exit code."""

    def __init__(self, message: str, tip: str, status: int = Exit.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.tip = tip
        self.status = status


class OutputLost(Exception):
    """stdout cannot be written: its reader has gone, or the disk is full. (click would catch an `OSError`.)"""

    def __init__(self, fault: OSError) -> None:
        super().__init__(str(fault))
        self.fault = fault


def tame(text: str) -> str:
    """`text` with every character that could drive a terminal, or hide in one, written as an escape (``\\x1b``)."""
    return _CONTROL.sub(lambda match: _visible(match.group()), text.replace("\r\n", "\n"))


def _visible(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def one_line(text: str, longest: int = 600) -> str:
    """`text` tamed, on one line; of a long text the middle is left out, between two words."""
    return cut_middle(" ".join(tame(text).split()), longest)


def counted(number: int, what: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def emit(text: str, data: TextIO | None = None) -> None:
    """Write text and a newline to `data` or stdout; tamed if that is a terminal. Raises `OutputLost`."""
    stream = data or sys.stdout
    try:
        stream.write(f"{tame(text) if stream.isatty() else text}\n")
        stream.flush()
    except OSError as fault:
        raise OutputLost(fault) from None


def emit_json(value: Any, data: TextIO | None = None) -> None:
    """Write a value as JSON on one line of `data` or stdout. Raises `OutputLost`."""
    emit(json.dumps(value, ensure_ascii=False, default=str), data)


def say(text: str, style: str = "") -> None:
    """Write tamed text and a newline to stderr; in colour on a terminal, unless ``NO_COLOR`` is set."""
    text = tame(text)
    with contextlib.suppress(OSError, OutputLost):  # it has no reader any more; the exit code remains
        if style and sys.stderr.isatty():
            page(sys.stderr).print(text, style=style)
        else:
            print(text, file=sys.stderr, flush=True)


def explain(message: str, tip: str) -> None:
    """The one ERROR line and the one TIP."""
    say(f"ERROR {one_line(message)}", "bold red")
    if tip:
        say(f"TIP {one_line(tip)}", "cyan")


def finding_line(name: str, finding: Finding) -> str:
    """A finding as compilers write theirs: ``file:line:column: severity code message``, then what to write instead."""
    place = f"{name}:{finding.line}:{finding.column}"
    return f"{place}: {finding.severity} {finding.code} {finding.message}; {finding.hint}"


def page(stream: TextIO) -> Console:
    """A console that writes styled text to `stream`; plain text if that is not a terminal, or ``NO_COLOR`` is set
    (no-color.org). Its `print` raises `OutputLost` when the reader has gone.
    """
    from rich.console import Console

    class Page(Console):
        def on_broken_pipe(self) -> None:
            raise OutputLost(BrokenPipeError()) from None

    colours = None if os.environ.get("NO_COLOR") else "auto"
    return Page(file=stream, color_system=colours, highlight=False, markup=False, emoji=False, soft_wrap=True)  # type: ignore[arg-type]


@contextlib.contextmanager
def progress(first: str) -> Iterator[Callable[[str], None]]:
    """Show the progress of a long command on stderr: at a terminal one line that changes, else a line each.

    The command goes on when the reader has gone.
    """
    if not sys.stderr.isatty():
        yield lambda line: say(one_line(line))
        return
    from rich.text import Text

    status = page(sys.stderr).status(first)
    unread = (OSError, OutputLost)
    with contextlib.suppress(*unread):
        status.start()

    def tell(line: str) -> None:
        with contextlib.suppress(*unread):
            status.update(Text(one_line(line, 100)))

    try:
        yield tell
    finally:
        with contextlib.suppress(*unread):
            status.stop()


@contextlib.contextmanager
def data_only() -> Iterator[TextIO]:
    """stdout for this command alone: meanwhile the prints of the operator's tools go to stderr."""
    data = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield data


class _Stderr(logging.Handler):
    """Writes to the current `sys.stderr`, which a live table may replace."""

    def emit(self, record: logging.LogRecord) -> None:
        say(self.format(record))


class _OneLine(logging.Formatter):
    """A log record on one line: what failed, and the exception's text. --verbose shows the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        error = record.exc_info[1] if record.exc_info else None
        return record.getMessage() + (f": {type(error).__name__}: {error} (--verbose shows where)" if error else "")


def log_to_stderr(verbose: bool = False) -> None:
    """Show callgate's log on stderr. Exceptions of tools are for the operator, never for a program or a plan."""
    handler = _Stderr()
    handler.setFormatter(logging.Formatter() if verbose else _OneLine())
    logger = logging.getLogger("callgate")
    logger.addHandler(handler)
    logger.propagate = False
