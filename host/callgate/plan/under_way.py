"""Calls that were asked for and have not come back: how many, and what was made for them. Knows keys and bytes."""

from __future__ import annotations

__all__ = ["UnderWay"]

Key = tuple[int, int | None, bool]

MOST_BYTES = 16 * 1024 * 1024
"""Of large arguments of calls under way, as JSON; beyond that, steps that are ready wait. Each takes some times that
in memory, since a tool gets a copy of its own."""


class UnderWay:
    """Calls under way.

    Args:
        most: so many at the same time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._made: dict[Key, int] = {}
        self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether one more may begin; always, when there is none."""
        return not self._made or (len(self._made) < self._most and self._bytes < MOST_BYTES)

    def begin(self, key: Key, made_bytes: int) -> None:
        """One more, and what was made for it."""
        self._made[key] = made_bytes
        self._bytes += made_bytes

    def end(self, key: Key) -> None:
        """It has come back."""
        self._bytes -= self._made.pop(key, 0)
