"""Results of read-only tools, kept for a while. Knows keys and texts; whether a call may be cached, the gate decides.

1. Bounded twice, by entries and by bytes; the least recently used goes first.
2. Single flight: of identical calls at the same time one runs, the *leader*; the others follow and get its result or
   its error. An error is not kept. A leader that is cancelled hands over to a follower.
3. One cache serves one gate, and so one tenant: whoever shares it can read what the others asked for.
"""

from __future__ import annotations

import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import anyio

from callgate.errors import ToolError

from .attempt import copied

__all__ = ["ResultCache"]


class ResultCache:
    """Texts by key.

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
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, str, int]] = OrderedDict()
        self._flights: dict[str, _Flight] = {}
        self.bytes = 0
        """Bytes of memory that the keys and results that are kept take."""

    def __len__(self) -> int:
        return len(self._entries)

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
            kept = self._get(key)
            if kept is not None:
                return kept, True
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
        self._put(key, text, seconds)
        return text

    def _get(self, key: str) -> str | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry[0] <= self._clock():
            self._drop(key)
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def _put(self, key: str, text: str, seconds: float) -> None:
        size = _bytes(key) + _bytes(text)
        if key in self._entries:
            self._drop(key)
        if size > self._max_bytes:
            return
        self._entries[key] = (self._clock() + seconds, text, size)
        self.bytes += size
        while self.bytes > self._max_bytes or len(self._entries) > self._max_entries:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: str) -> None:
        self.bytes -= self._entries.pop(key)[2]


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
