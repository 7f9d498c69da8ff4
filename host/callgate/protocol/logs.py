"""What a program has printed, as far as its limit lets it. Knows text and bytes, not where they come from."""

from __future__ import annotations

from callgate.errors import LimitReached

__all__ = ["Logs", "printable"]


class Logs:
    """Printed text, piece by piece.

    Args:
        max_bytes: of all of it, as UTF-8.
    """

    __slots__ = ("_max_bytes", "_size", "parts")

    def __init__(self, max_bytes: int) -> None:
        self.parts: list[str] = []
        self._max_bytes = max_bytes
        self._size = 0

    def write(self, text: str) -> None:
        """Add to them. Raises `LimitReached` when they are full; what fits is kept."""
        if not text:
            return
        size = len(text.encode("utf-8", "replace"))
        room = self._max_bytes - self._size
        if size > room:
            self.parts.append(text.encode("utf-8", "replace")[:room].decode("utf-8", "ignore"))
            used, self._size = self._size + size, self._max_bytes
            raise LimitReached("max_log_bytes", self._max_bytes, used)
        self._size += size
        self.parts.append(text)


def printable(text: str) -> str:
    """Half of a surrogate pair could not be printed by anybody."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
