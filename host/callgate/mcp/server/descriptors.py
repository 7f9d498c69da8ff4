"""Reads and writes a process's own descriptors (pipes, terminals, files) while the event loop goes on. Knows bytes.

Where the event loop can wait for a descriptor, every wait can be cancelled. Windows' event loops wait for sockets only:
there, threads read and write. A thread that waits for stdin is left behind by a cancellation, and ends with the process
at the latest. Only Linux was seen; Linux runs the threads in a test.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread

__all__ = ["Read", "reading", "write"]

Read = Callable[[], Awaitable[bytes]]
"""Returns the next bytes; none at the end."""

_CHUNK = 1 << 16
_ATOMIC = 4096
"""Bytes that a pipe takes without waiting when it is ready (POSIX)."""
_OVER = (RuntimeError, concurrent.futures.CancelledError, anyio.BrokenResourceError, anyio.ClosedResourceError)


@asynccontextmanager
async def reading(descriptor: int) -> AsyncIterator[Read]:
    """Read a descriptor, which nobody else reads meanwhile."""
    if sys.platform == "win32":
        async with _reading_in_thread(descriptor) as read:
            yield read
    else:
        yield lambda: _read(descriptor)


async def write(descriptor: int, data: bytes) -> None:
    """Write all of `data`, in pieces. Raises `OSError` when nobody reads any more."""
    rest = memoryview(data)
    while rest:
        if sys.platform == "win32":
            done = await anyio.to_thread.run_sync(os.write, descriptor, rest[:_ATOMIC], abandon_on_cancel=True)
        else:
            await _ready(anyio.wait_writable, descriptor)
            done = os.write(descriptor, rest[:_ATOMIC])
        rest = rest[done:]


async def _read(descriptor: int) -> bytes:
    await _ready(anyio.wait_readable, descriptor)
    return _next(descriptor)


async def _ready(wait: Callable[[int], Awaitable[None]], descriptor: int) -> None:
    try:
        await wait(descriptor)
    except (PermissionError, ValueError):  # a regular file is always ready, and no event loop watches it
        await anyio.lowlevel.checkpoint()


def _next(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:  # a terminal that is gone
        return b""


@asynccontextmanager
async def _reading_in_thread(descriptor: int) -> AsyncIterator[Read]:
    found, taken = anyio.create_memory_object_stream[bytes](0)
    async with anyio.from_thread.BlockingPortal() as portal:

        def read() -> None:
            with contextlib.suppress(*_OVER):  # the block was left meanwhile
                data = b" "
                while data:
                    data = _next(descriptor)
                    portal.call(found.send, data)

        # a daemon: Python's end does not wait for it
        threading.Thread(target=read, name="callgate reads stdin", daemon=True).start()
        with found, taken:
            try:
                yield taken.receive
            finally:
                await portal.stop(cancel_remaining=True)
