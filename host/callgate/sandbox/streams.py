"""Both directions of a guest's streams: an inbox of what came, and a writer of whole messages. Knows no descriptor.

The pipes of a process and the socket of a container share these classes; each has its own way to read or write a piece,
and to wait until more can be written.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import anyio
import anyio.lowlevel

from .backend import Stream

__all__ = ["END", "Inbox", "Writer"]

END: tuple[Stream, bytes] = ("wire", b"")
_ITEM_BYTES = 128  # memory of an item besides its data: a guest may write single bytes

_TURN = 1 << 18
"""Bytes written without waiting, after which other tasks have a turn."""
_MESSAGE_BYTES = 1024  # added to the length of each message: short messages take time, too


class Inbox:
    """Data of a guest that `receive` has not returned yet, in order.

    Attributes:
        held: bytes of memory that the data take.
    """

    def __init__(self) -> None:
        self._items: deque[tuple[Stream, bytes]] = deque()
        self.held = 0

    @property
    def empty(self) -> bool:
        return not self._items

    def put(self, stream: Stream, data: bytes) -> None:
        self._items.append((stream, data))
        self.held += len(data) + _ITEM_BYTES

    def take(self) -> tuple[Stream, bytes] | None:
        """Remove and return the next item; ``None`` if there is none. `END` stays in the inbox."""
        if not self._items:
            return None
        item = self._items.popleft()
        if item == END:
            self._items.append(item)
        else:
            self.held -= len(item[1]) + _ITEM_BYTES
        return item

    def take_output(self) -> bytes:
        """Remove and return all output."""
        items = list(self._items)
        self.clear()
        for stream, data in items:
            if stream == "wire":
                self.put(stream, data)
        return b"".join(data for stream, data in items if stream == "output")

    def clear(self) -> None:
        self._items.clear()
        self.held = 0


class Writer(ABC):
    """Writes whole messages. If a sender leaves in the middle of its message (cancelled, or by an error), the rest of
    the message is written before the next one."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._waiting = 0
        self._rest = memoryview(b"")  # of a message whose sender left in its middle
        self._unwaited = 0

    @property
    def idle(self) -> bool:
        """Whether no sender waits, and nothing is left to write."""
        return self._waiting == 0 and not self._rest

    async def send(self, data: bytes) -> None:
        """Write `data`. Waits while the other side does not read. A cancelled call may have written the data.

        Raises:
            SandboxCrashed: the other side has closed its end.
        """
        left = memoryview(data)
        begun = False
        if self.idle:
            begun = self.commits
            left = left[self.write(left) :]
            if not left:
                await self._turn(len(data))
                return
        self._waiting += 1
        try:
            async with self._lock:
                while self._rest:
                    await self.writable()
                    self._rest = self._rest[self.write(self._rest) :]
                while left:
                    await self.writable()
                    begun = self.commits
                    left = left[self.write(left) :]
        finally:
            self._waiting -= 1
            if left and (begun or len(left) < len(data)):
                self._rest = left

    def send_at_once(self, data: bytes) -> bool:
        """Write as much as there is room for, of a message whose sender left and then of `data`. The next `send` writes
        the rest first. Only if no sender waits.

        Returns:
            Whether all was written.

        Raises:
            SandboxCrashed: the other side has closed its end.
        """
        left = memoryview(b"".join((self._rest, data)) if self._rest else data)
        self._rest = left[self.write(left) :]
        return not self._rest

    def forget(self) -> None:
        """Drop the rest of a message: the guest is gone."""
        self._rest = memoryview(b"")

    async def _turn(self, written: int) -> None:
        """Let other tasks run: a peer that reads at once must not let one sender hold the event loop."""
        self._unwaited += written + _MESSAGE_BYTES
        if self._unwaited > _TURN:
            self._unwaited = 0
            await anyio.lowlevel.checkpoint()  # after the message: before it, the guest could end meanwhile

    commits = False
    """Whether `write` may take the beginning of `data` although it returns 0, so that it needs the same data again."""

    @abstractmethod
    def write(self, data: memoryview) -> int:
        """Write the beginning of `data`; return how many bytes, maybe 0. Raises `SandboxCrashed`."""

    @abstractmethod
    async def writable(self) -> None:
        """Wait until more can be written; may return earlier. Raises `SandboxCrashed` if this will never be."""
