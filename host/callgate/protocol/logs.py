"""Printed text of a program, up to its limit. Knows text and bytes, not where they come from."""

from __future__ import annotations

import io

from callgate.errors import LimitReached

__all__ = ["Logs", "printable"]


class Logs:
    """Printed text, in one buffer: an object for each piece would take many times the bytes of a short one.

    Args:
        max_bytes: of the whole text, as UTF-8.
    """

    __slots__ = ("_max_bytes", "_size", "_text", "last", "length")

    def __init__(self, max_bytes: int) -> None:
        self.last = ""
        """Text that the latest `write` added."""
        self.length = 0
        """Characters of the whole text."""
        self._text = io.StringIO(newline="")
        self._max_bytes = max_bytes
        self._size = 0

    @property
    def text(self) -> str:
        """The whole text."""
        return self._text.getvalue()

    def write(self, text: str) -> None:
        """Add text. Raises `LimitReached` beyond `max_bytes`; the text that fits is kept."""
        self.last = ""
        if not text:
            return
        size = len(text.encode("utf-8", "replace"))
        room = self._max_bytes - self._size
        if size > room:
            self.last = text[:room].encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
            self.length += self._text.write(self.last)
            used, self._size = self._size + size, self._max_bytes
            raise LimitReached("max_log_bytes", self._max_bytes, used)
        self._size += size
        self.last = text
        self.length += self._text.write(text)


def printable(text: str) -> str:
    """Replace halves of surrogate pairs, which cannot be printed."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
