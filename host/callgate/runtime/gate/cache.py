"""What was worked out last, kept for the next time: `Cache`, and for results of read-only tools `ResultCache`.

1. Bounded twice, by entries and by bytes; the least recently used goes first.
2. Single flight: of identical calls at the same time one runs, the *leader*; the others follow and get its result or
   its error. An error is not kept. A leader that is cancelled hands over to a follower.
3. One result cache serves one gate, and so one tenant: whoever shares it can read what the others asked for.

Knows keys and values; whether a call may be cached, the gate decides.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import anyio

from callgate.errors import ToolError

from .attempt import copied

__all__ = ["Cache", "ResultCache"]


Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Cache(Generic[Key, Value]):
    """Values by key; the one that was not asked for the longest goes first.

    Args:
        max_entries: the most values that are kept.
        max_bytes: of all values together, as whoever keeps them measures it.
    """

    def __init__(self, *, max_entries: int, max_bytes: int = 64 * 1024 * 1024) -> None:
        self.bytes = 0
        """What the values that are kept take together."""
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value of a key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def keep(self, key: Key, value: Value, size: int = 0) -> None:
        """Keep a value; one that is larger than all may be together is not kept."""
        self.forget(key)
        if size > self._max_bytes:
            return
        self._entries[key] = value, size
        self.bytes += size
        while len(self._entries) > self._max_entries or self.bytes > self._max_bytes:
            self.forget(next(iter(self._entries)))

    def forget(self, key: Key) -> None:
        """Keep the value of a key no longer."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]


class ResultCache:
    """Texts by key, good for a while.

    Args:
        max_entries: the most results that are kept.
        max_bytes: the most memory, in bytes, that keys and results may take; a larger result is not kept.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        *,
        max_entries: int = 1024,
        max_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.kept: Cache[str, tuple[str, float]] = Cache(max_entries=max_entries, max_bytes=max_bytes)
        """Each text, and until when it is good."""
        self._clock = clock
        self._flights: dict[str, _Flight] = {}

    async def get_or_run(self, key: str, seconds: float, run: Callable[[], Awaitable[str]]) -> tuple[str, bool]:
        """The text under the key, and whether it was there already (or another call was on its way to it).

        Args:
            key: what makes two calls identical.
            seconds: how long a new text is good for.
            run: makes the text.

        Raises:
            ToolError: what `run` raised, here or in the leader that this call followed.
        """
        while True:
            kept = self.kept.get(key)
            if kept is not None and kept[1] > self._clock():
                return kept[0], True
            flight = self._flights.get(key)
            if flight is None:
                return await self._lead(key, seconds, run), False
            await flight.landed.wait()
            if flight.text is not None:
                return flight.text, True
            if flight.error is not None:
                raise copied(flight.error)
            # The leader was cancelled: the first follower to get here leads.

    async def _lead(self, key: str, seconds: float, run: Callable[[], Awaitable[str]]) -> str:
        flight = self._flights[key] = _Flight()
        try:
            text = flight.text = await run()
        except ToolError as error:
            flight.error = error
            raise
        finally:
            del self._flights[key]
            flight.landed.set()
        self.kept.keep(key, (text, self._clock() + seconds), _bytes(key) + _bytes(text))
        return text


class _Flight:
    """A call that others may be waiting for."""

    __slots__ = ("error", "landed", "text")

    def __init__(self) -> None:
        self.landed = anyio.Event()
        self.text: str | None = None
        self.error: ToolError | None = None


def _bytes(text: str) -> int:
    """Memory of a text's characters: a text that is not ASCII may take four bytes for each."""
    return len(text) if text.isascii() else sys.getsizeof(text)
