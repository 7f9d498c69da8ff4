"""What goes wrong with a server, in one line, with a remedy where there is one."""

from __future__ import annotations

__all__ = ["CannotStart", "ServerFault", "one_line"]

MAX_CHARACTERS = 400


class ServerFault(Exception):
    """The server does not work, or not any more.

    Attributes:
        remedy: what the operator may do; empty where that is plain.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class CannotStart(ServerFault):
    """Trying again would not help."""


def one_line(text: str, most: int = MAX_CHARACTERS) -> str:
    """Foreign text as it may stand in a line: printable, its white space as single blanks, cut at `most` characters."""
    kept = "".join(c if c.isprintable() else " " for c in text[: most * 4])
    line = " ".join(kept.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
