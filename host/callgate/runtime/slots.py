"""A number of places, taken in the order of asking. Cheap when one is free. Knows nothing of what they are for."""

from __future__ import annotations

from collections import OrderedDict

import anyio

__all__ = ["Slots"]


class Slots:
    """At most so many at once; the others wait. Every `acquire` needs its `release`, in a `finally`."""

    __slots__ = ("_free", "_waiting")

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[anyio.Event, None] = OrderedDict()  # in order, and removal is cheap

    @property
    def full(self) -> bool:
        """Whether no place is free."""
        return self._free <= 0

    def acquire_nowait(self) -> bool:
        """Take a place if one is free and nobody waits."""
        if self._free > 0:
            self._free -= 1
            return True
        return False

    async def acquire(self) -> None:
        """Take a place, waiting for it if need be."""
        if self.acquire_nowait():
            return
        turn = anyio.Event()
        self._waiting[turn] = None
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():  # the place was handed over, and then the wait was cancelled
                self.release()
            else:
                del self._waiting[turn]
            raise

    def release(self) -> None:
        """Give a place back; it goes to whoever has waited longest."""
        if self._waiting:
            self._waiting.popitem(last=False)[0].set()
        else:
            self._free += 1
