"""What was worked out last, kept for the next time: so many entries, of so many bytes. Knows no meaning of either."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Kept"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Kept(Generic[Key, Value]):
    """Entries by key; what was not asked for the longest goes first.

    Args:
        max_entries: so many.
        max_bytes: of all of them, as whoever keeps them measures it.
    """

    def __init__(self, *, max_entries: int, max_bytes: int) -> None:
        self.bytes = 0
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """What is kept under that key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def keep(self, key: Key, value: Value, size: int) -> None:
        """Keep a value; one that is larger than everything may be is not kept."""
        if size > self._max_bytes:
            return
        before = self._entries.pop(key, None)
        self.bytes += size - (0 if before is None else before[1])
        self._entries[key] = value, size
        while len(self._entries) > self._max_entries or self.bytes > self._max_bytes:
            self.bytes -= self._entries.popitem(last=False)[1][1]
