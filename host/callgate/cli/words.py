"""Words for people, on stderr: what happened, what went wrong, what to do. Knows terminals; knows no command.

What a guest, a tool or a file wrote never drives the user's terminal: `tame` makes control characters visible first.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from typing import TYPE_CHECKING, Final, Literal, TextIO

if TYPE_CHECKING:
    from rich.console import Console

from callgate.cut import cut_middle

__all__ = [
    "FAILED",
    "INTERRUPTED",
    "LIMIT",
    "NO_SANDBOX",
    "OK",
    "PIPE_CLOSED",
    "USAGE",
    "OutputLost",
    "Stop",
    "emit",
    "explain",
    "one_line",
    "page",
    "say",
    "tame",
]

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NO_SANDBOX: Final = 3
LIMIT: Final = 4
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141

_LONGEST: Final = 600

# C0 but tab and newline, DEL, C1, and what changes the direction or is invisible (Unicode Cf and line separators)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")


class Stop(Exception):
    """A command cannot go on: what happened, what to do, and the exit code."""

    def __init__(self, message: str, tip: str, status: int = USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.tip = tip
        self.status = status


class OutputLost(Exception):
    """stdout cannot be written any more: nobody reads it, or there is no room. No `OSError`: click would catch it."""

    def __init__(self, fault: OSError) -> None:
        super().__init__(str(fault))
        self.fault = fault


def emit(text: str) -> None:
    """Write data and a newline to stdout, tamed where it is a terminal. Raises `OutputLost`."""
    try:
        sys.stdout.write(f"{tame(text) if sys.stdout.isatty() else text}\n")
        sys.stdout.flush()
    except OSError as fault:
        raise OutputLost(fault) from None


def tame(text: str) -> str:
    """`text` with every character that could drive a terminal, or hide in one, written as an escape (``\\x1b``)."""
    return _CONTROL.sub(lambda match: _visible(match.group()), text.replace("\r\n", "\n"))


def _visible(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def one_line(text: str, longest: int = _LONGEST) -> str:
    """`text` tamed, on one line, its middle left out between two words when it is long."""
    return cut_middle(" ".join(tame(text).split()), longest)


def say(text: str, style: str = "") -> None:
    """Write tamed text and a newline to stderr; in colour on a terminal, unless ``NO_COLOR`` is set."""
    text = tame(text)
    with contextlib.suppress(OSError, OutputLost):  # nobody reads it any more; the exit code still tells
        if style and sys.stderr.isatty():
            page(sys.stderr).print(text, style=style)
        else:
            print(text, file=sys.stderr, flush=True)


def page(stream: TextIO) -> Console:
    """Something to write styled text on: plain where `stream` is no terminal, or ``NO_COLOR`` is set (no-color.org).

    Its `print` raises `OutputLost` where nobody reads any more.
    """
    from rich.console import Console

    class Page(Console):
        def on_broken_pipe(self) -> None:
            raise OutputLost(BrokenPipeError()) from None

    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Page(file=stream, color_system=colours, highlight=False, markup=False, emoji=False, soft_wrap=True)


def explain(message: str, tip: str) -> None:
    """The one ERROR line and the one TIP."""
    say(f"ERROR {one_line(message)}", "bold red")
    if tip:
        say(f"TIP {one_line(tip)}", "cyan")
