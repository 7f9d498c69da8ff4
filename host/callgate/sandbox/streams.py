"""Both directions of a guest's streams: what it has said, and whole messages to it. Knows no descriptor.

The pipes of a process and the socket of a container read and write the same way; what differs is how a piece is read or
written, and how one waits until more can be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque

import anyio
import anyio.lowlevel

from .backend import Stream

__all__ = ["END", "Inbox", "Writer"]

END: tuple[Stream, bytes] = ("wire", b"")
_ITEM_BYTES = 128  # what an item takes besides its data: a guest may write single bytes

_TURN = 1 << 18
"""Bytes written without waiting, after which others have a turn."""
_MESSAGE_BYTES = 1024  # what a message counts as besides its data: short ones take time, too


class Inbox:
    """What a guest has said and nobody has received, in order.

    Attributes:
        held: bytes of memory that it takes.
    """

    def __init__(self) -> None:
        self._items: deque[tuple[Stream, bytes]] = deque()
        self.held = 0

    def put(self, stream: Stream, data: bytes) -> None:
        self._items.append((stream, data))
        self.held += len(data) + _ITEM_BYTES

    def take(self) -> tuple[Stream, bytes] | None:
        """The next item; ``None`` where there is none. The end stays the end."""
        if not self._items:
            return None
        item = self._items.popleft()
        if item == END:
            self._items.append(item)
        else:
            self.held -= len(item[1]) + _ITEM_BYTES
        return item

    def take_output(self) -> bytes:
        """All of the output, which is taken out."""
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
    """Writes whole messages. One whose sender left in the middle of it (cancelled, or told that it is of no use) is
    finished before the next."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._waiting = 0
        self._rest = memoryview(b"")  # of a message whose sender left in the middle of it
        self._unwaited = 0

    @property
    def idle(self) -> bool:
        """Whether nobody waits to write, and nothing is left to be written."""
        return self._waiting == 0 and not self._rest

    async def send(self, data: bytes) -> None:
        """Write `data`. Waits while the other side does not read. One that is cancelled may have written it.

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

    def forget(self) -> None:
        """Let go of the rest of a message: the guest is gone, and nobody will read it."""
        self._rest = memoryview(b"")

    async def _turn(self, written: int) -> None:
        """Let other tasks run: a peer that reads at once must not let one sender hold the event loop."""
        self._unwaited += written + _MESSAGE_BYTES
        if self._unwaited > _TURN:
            self._unwaited = 0
            await anyio.lowlevel.checkpoint()  # after the message: one that waits to be begun could outlive its guest

    commits = False
    """Whether a write that says "not now" may have taken the beginning all the same, and wants the same data again."""

    @abstractmethod
    def write(self, data: memoryview) -> int:
        """How much of `data` went out now, maybe nothing. Raises `SandboxCrashed`."""

    @abstractmethod
    async def writable(self) -> None:
        """Wait until more can be written; may return before. Raises `SandboxCrashed` where that will not be."""
