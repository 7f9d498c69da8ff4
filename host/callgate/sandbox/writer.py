"""Writing whole messages to something that does not block, in order, none cut short by another. Knows no descriptor.

The pipes of the jail and the socket of a container write the same way; what differs is how a piece is written, and how
one waits until more can be.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import anyio

__all__ = ["Writer"]


class Writer(ABC):
    """Writes whole messages. A message whose sender was cancelled in the middle of it is finished before the next."""

    def __init__(self) -> None:
        self._lock = anyio.Lock()
        self._waiting = 0
        self._rest = memoryview(b"")  # of a message whose sender was cancelled in the middle of it

    @property
    def idle(self) -> bool:
        """Whether nobody waits to write, and nothing is left to be written."""
        return self._waiting == 0 and not self._rest

    async def send(self, data: bytes) -> None:
        """Write `data`. Waits while the other side does not read.

        Raises:
            SandboxCrashed: the other side has closed its end.
        """
        left = memoryview(data)
        begun = False
        if self.idle:
            begun = self.commits
            left = left[self.write(left) :]
            if not left:
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

    commits = False
    """Whether a write that says "not now" may have taken the beginning all the same, and wants the same data again."""

    @abstractmethod
    def write(self, data: memoryview) -> int:
        """How much of `data` went out now, maybe nothing. Raises `SandboxCrashed`."""

    @abstractmethod
    async def writable(self) -> None:
        """Wait until more can be written. Raises `SandboxCrashed` where that will not be."""
