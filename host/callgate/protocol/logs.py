"""What a program has printed, as far as its limit lets it. Knows text and bytes, not where they come from."""

from __future__ import annotations

import io

from callgate.errors import LimitReached

__all__ = ["Logs", "printable"]


class Logs:
    """Printed text, in one buffer: an object for each piece would take many times the bytes of a short one.

    Args:
        max_bytes: of all of it, as UTF-8.
    """

    __slots__ = ("_max_bytes", "_size", "_text", "last")

    def __init__(self, max_bytes: int) -> None:
        self.last = ""
        """What the latest `write` added."""
        self._text = io.StringIO(newline="")
        self._max_bytes = max_bytes
        self._size = 0

    @property
    def text(self) -> str:
        """All that was printed."""
        return self._text.getvalue()

    def write(self, text: str) -> None:
        """Add to them. Raises `LimitReached` when they are full; what fits is kept."""
        self.last = ""
        if not text:
            return
        size = len(text.encode("utf-8", "replace"))
        room = self._max_bytes - self._size
        if size > room:
            self.last = text[:room].encode("utf-8", "replace")[:room].decode("utf-8", "ignore")
            self._text.write(self.last)
            used, self._size = self._size + size, self._max_bytes
            raise LimitReached("max_log_bytes", self._max_bytes, used)
        self._size += size
        self.last = text
        self._text.write(text)


def printable(text: str) -> str:
    """Half of a surrogate pair could not be printed by anybody."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
