"""File descriptors as async streams, under asyncio and under trio. Knows readiness and bytes, nothing of what they
mean.

The asyncio side keeps its readers registered between reads: `anyio.wait_readable` registers anew for each, which
costs more than the read itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import sys
from collections import deque
from typing import Protocol

import anyio
import anyio.lowlevel

from callgate.errors import SandboxCrashed

from .backend import Stream
from .writer import Writer

__all__ = ["Pipes", "open_pipes"]

_CHUNK = 1 << 16
_PIECES_LEFT = 64
_HELD = 1 << 20  # bytes read ahead of the consumer before the guest is left to wait
_ITEM_BYTES = 128  # what an item takes besides its data: a guest may write single bytes


class Pipes(Protocol):
    """The host's ends of a guest's three pipes."""

    async def receive(self) -> tuple[Stream, bytes]: ...

    async def send(self, data: bytes) -> None: ...

    def unread_output(self) -> bytes: ...

    def close(self) -> None: ...


def open_pipes(incoming: int, output: int, outgoing: int) -> Pipes:
    """Take over three non-blocking descriptors: the wire from the guest, its output, the wire to the guest."""
    return _TrioPipes(incoming, output, outgoing) if _in_trio() else _AsyncioPipes(incoming, output, outgoing)


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


class _Writer(Writer):
    """Writes to a non-blocking descriptor."""

    def __init__(self, fd: int) -> None:
        super().__init__()
        self._fd = fd
        self.closed = False

    async def writable(self) -> None:
        if self.closed:  # or the number may be another file's by now
            return
        try:
            await anyio.wait_writable(self._fd)
        except (anyio.ClosedResourceError, ValueError):  # closed under us
            raise SandboxCrashed("the guest is gone") from None

    def write(self, data: memoryview) -> int:
        if self.closed:
            raise SandboxCrashed("the guest is gone")
        try:
            return os.write(self._fd, data)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno in (errno.EPIPE, errno.ECONNRESET, errno.EBADF):
                raise SandboxCrashed("the guest is gone") from None
            raise

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.forget()
            if self._waiting:
                with contextlib.suppress(OSError):
                    anyio.notify_closing(self._fd)
            os.close(self._fd)


def _read(fd: int) -> bytes | None:
    """Bytes, b"" at the end, or None when there is nothing yet."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _unread(inbox: deque[tuple[Stream, bytes]], fd: int) -> bytes:
    """The output in `inbox`, which is taken out, and in the pipe `fd`."""
    parts = [data for stream, data in inbox if stream == "output"]
    rest = [item for item in inbox if item[0] != "output"]
    inbox.clear()
    inbox.extend(rest)
    while data := _read(fd):
        parts.append(data)
        if len(parts) > _PIECES_LEFT:  # somebody goes on writing
            break
    return b"".join(parts)


class _AsyncioPipes:
    def __init__(self, incoming: int, output: int, outgoing: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._fds: dict[Stream, int] = {"wire": incoming, "output": output}
        self._writer = _Writer(outgoing)
        self._inbox: deque[tuple[Stream, bytes]] = deque()
        self._held = 0
        self._waiter: asyncio.Future[None] | None = None
        self._watched: set[Stream] = set()
        self._ended: set[Stream] = set()
        self._closed = False
        self._watch()

    def _watch(self) -> None:
        for stream, fd in self._fds.items():
            if stream not in self._watched and stream not in self._ended:
                self._watched.add(stream)
                self._loop.add_reader(fd, self._on_readable, stream, fd)

    def _unwatch(self, stream: Stream) -> None:
        if stream in self._watched:
            self._watched.discard(stream)
            self._loop.remove_reader(self._fds[stream])

    def _on_readable(self, stream: Stream, fd: int) -> None:
        data = _read(fd)
        if data is None:
            return
        if not data:
            self._ended.add(stream)
            self._unwatch(stream)
            if stream == "output":
                return
        self._inbox.append((stream, data))
        self._held += len(data) + _ITEM_BYTES
        if self._held > _HELD:
            self._unwatch("wire")
            self._unwatch("output")
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def receive(self) -> tuple[Stream, bytes]:
        while not self._inbox:
            if self._closed:
                return "wire", b""
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        item = self._inbox.popleft()
        if item == ("wire", b""):
            self._inbox.append(item)  # the end stays the end
            return item
        self._held -= len(item[1]) + _ITEM_BYTES
        if self._held <= _HELD and not self._closed:
            self._watch()
        return item

    def unread_output(self) -> bytes:
        if self._closed:
            return b""
        output = _unread(self._inbox, self._fds["output"])
        self._held = sum(len(data) + _ITEM_BYTES for _, data in self._inbox)
        if self._held <= _HELD:
            self._watch()
        return output

    async def send(self, data: bytes) -> None:
        await self._writer.send(data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for stream, fd in self._fds.items():
                self._unwatch(stream)
                os.close(fd)
            self._writer.close()
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)


class _TrioPipes:
    """One system task per stream fills the inbox; closing the descriptors ends them."""

    def __init__(self, incoming: int, output: int, outgoing: int) -> None:
        self._fds: dict[Stream, int] = {"wire": incoming, "output": output}
        self._writer = _Writer(outgoing)
        self._inbox: deque[tuple[Stream, bytes]] = deque()
        self._held = 0
        self._changed = anyio.Event()
        self._room = anyio.Event()
        self._started = False
        self._closed = False

    def _start(self) -> None:
        import trio

        self._started = True
        for stream in self._fds:
            trio.lowlevel.spawn_system_task(self._pump, stream)

    async def _pump(self, stream: Stream) -> None:
        fd = self._fds[stream]
        while not self._closed:
            data = _read(fd)
            if data is None:
                try:
                    await anyio.wait_readable(fd)
                except (anyio.ClosedResourceError, OSError):
                    return
                continue
            if data or stream == "wire":
                self._inbox.append((stream, data))
                self._held += len(data) + _ITEM_BYTES
                self._changed.set()
            if not data:
                return
            while self._held > _HELD and not self._closed:
                if self._room.is_set():  # or the other stream waits for it
                    self._room = anyio.Event()
                await self._room.wait()

    async def receive(self) -> tuple[Stream, bytes]:
        if not self._started:
            self._start()
        while not self._inbox:
            if self._closed:
                return "wire", b""
            self._changed = anyio.Event()
            await self._changed.wait()
        item = self._inbox.popleft()
        if item == ("wire", b""):
            self._inbox.append(item)
            return item
        self._held -= len(item[1]) + _ITEM_BYTES
        self._room.set()
        return item

    def unread_output(self) -> bytes:
        if self._closed:
            return b""
        output = _unread(self._inbox, self._fds["output"])
        self._held = sum(len(data) + _ITEM_BYTES for _, data in self._inbox)
        self._room.set()
        return output

    async def send(self, data: bytes) -> None:
        await self._writer.send(data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for fd in self._fds.values():
                if self._started:
                    with contextlib.suppress(OSError):
                        anyio.notify_closing(fd)
                os.close(fd)
            self._writer.close()
            self._room.set()
            self._changed.set()
