"""Guests that are processes of this machine: their pipes, under asyncio and under trio, and what the kernel says about
them. Knows readiness and bytes, nothing of what the bytes mean.

The readers stay registered between reads: `anyio.wait_readable` registers anew for each read, which costs more than the
read itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel

from callgate.errors import SandboxCrashed

from .backend import GuestExit, Listener, Stream, Usage
from .streams import END, Inbox, Writer

__all__ = ["FILES_HINT", "Pipes", "ProcessGuest", "make_pipes", "open_pipes", "readers"]

FILES_HINT = "; raise the limit on open files (ulimit -n), or run fewer programs at a time"
_CHUNK = 1 << 16
_PIECES_LEFT = 64
_FREEZE_MILLISECONDS = 50
_HELD = 1 << 20  # bytes read ahead of the consumer before the guest is left to wait


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


class _TrioLoop:
    """`add_reader` and `remove_reader` of an asyncio event loop, under trio: one system task for each reader."""

    def __init__(self) -> None:
        self._readers: dict[int, object] = {}

    def add_reader(self, fd: int, callback: Callable[..., None], *arguments: object) -> None:
        import trio

        async def watch() -> None:
            while self._readers.get(fd) is watch:
                with contextlib.suppress(trio.ClosedResourceError):
                    await trio.lowlevel.wait_readable(fd)
                    if self._readers.get(fd) is watch:
                        callback(*arguments)

        self._readers[fd] = watch
        trio.lowlevel.spawn_system_task(watch)

    def remove_reader(self, fd: int) -> None:
        import trio

        del self._readers[fd]
        with contextlib.suppress(OSError, RuntimeError):  # at the end of the loop
            trio.lowlevel.notify_closing(fd)


def readers() -> Any:
    """The running asyncio event loop, or `_TrioLoop`: an object that keeps readers of descriptors registered."""
    trio = sys.modules.get("trio")
    return _TrioLoop() if trio is not None and trio.lowlevel.in_trio_run() else asyncio.get_running_loop()


class Pipes:
    """The host's ends of a guest's three pipes: the wire from the guest, its output, the wire to the guest.

    The descriptors do not block; `close` closes them.
    """

    def __init__(self, incoming: int, output: int, outgoing: int) -> None:
        self._readers = readers()
        self._fds: dict[Stream, int] = {"wire": incoming, "output": output}
        self._writer = _Writer(outgoing)
        self._inbox = Inbox()
        self._news = anyio.Event()
        self._watched: set[Stream] = set()
        self._ended: set[Stream] = set()
        self._closed = False
        self._listener: Listener | None = None
        self._watch()

    def _watch(self) -> None:
        for stream, fd in self._fds.items():
            if stream not in self._watched and stream not in self._ended:
                self._watched.add(stream)
                self._readers.add_reader(fd, self._on_readable, stream, fd)

    def _unwatch(self, stream: Stream) -> None:
        if stream in self._watched:
            self._watched.discard(stream)
            self._readers.remove_reader(self._fds[stream])

    def _on_readable(self, stream: Stream, fd: int) -> None:
        data = _read(fd)
        if data is None:
            return
        if not data:
            self._ended.add(stream)
            self._unwatch(stream)
            if stream == "output":
                return
        elif stream == "wire" and self._listener is not None and self._inbox.empty and self._listener(data):
            return
        self._inbox.put(stream, data)
        if self._inbox.held > _HELD:
            self._unwatch("wire")
            self._unwatch("output")
        self._news.set()

    def listen(self, listener: Listener | None) -> None:
        self._listener = listener

    async def receive(self) -> tuple[Stream, bytes]:
        while (item := self._inbox.take()) is None:
            if self._closed:
                return END
            self._news = anyio.Event()
            await self._news.wait()
        self._go_on()
        return item

    def _go_on(self) -> None:
        if self._inbox.held <= _HELD and not self._closed:
            self._watch()

    @property
    def hung_up(self) -> bool:
        """Whether the guest has closed the wire, or has ended."""
        return "wire" in self._ended

    def unread_output(self) -> bytes:
        if self._closed:
            return b""
        parts = [self._inbox.take_output()]
        while (data := _read(self._fds["output"])) and len(parts) <= _PIECES_LEFT:  # the guest may go on writing
            parts.append(data)
        self._go_on()
        return b"".join(parts)

    async def send(self, data: bytes) -> None:
        await self._writer.send(data)

    def send_at_once(self, data: bytes) -> bool:
        return self._writer.send_at_once(data)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for stream, fd in self._fds.items():
                self._unwatch(stream)
                os.close(fd)
            self._writer.close()
            self._listener = None
            self._news.set()


def open_pipes(incoming: int, output: int, outgoing: int) -> Pipes:
    """Make descriptors non-blocking, and make `Pipes` of them."""
    for fd in (incoming, output, outgoing):
        os.set_blocking(fd, False)
    return Pipes(incoming, output, outgoing)


def make_pipes() -> tuple[Pipes, list[int]]:
    """Three new pipes: the host's ends, and the descriptors for a guest's stdin, stdout and stderr.

    Raises:
        SandboxCrashed: this process has too many open files.
    """
    pairs: list[tuple[int, int]] = []
    try:
        for _ in range(3):
            pairs.append(os.pipe())
        (stdin, outgoing), (incoming, stdout), (output, stderr) = pairs
        return open_pipes(incoming, output, outgoing), [stdin, stdout, stderr]
    except OSError as error:
        for fd in (fd for pair in pairs for fd in pair):
            os.close(fd)
        raise SandboxCrashed(f"no pipes for a new guest: {error.strerror}{FILES_HINT}") from error


def _read(fd: int) -> bytes | None:
    """The next bytes, b"" at the end, or None if there are none yet."""
    try:
        return os.read(fd, _CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def _is_stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped, or gone; also if /proc does not say."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return True
    for thread in threads:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/stat", "rb") as stat:
            if stat.read(4096).rpartition(b") ")[2][:1] not in b"TtZX":
                return False
    return True


class ProcessGuest:
    """A guest that is a process of this machine: its pipes, a pidfd, and what the kernel says of it."""

    def __init__(self, pipes: Pipes) -> None:
        self._pipes = pipes
        self._pidfd = -1
        self._status = -1  # /proc/PID/status, opened ahead to save time at the end of a run
        self._exit: GuestExit | None = None
        self.pid = 0
        self.killed = False

    def began(self, pid: int, pidfd: int) -> None:
        """The process exists. Takes over its pidfd, -1 if it has none. A `pid` of 0 is unknown."""
        self.pid = pid
        self._pidfd = pidfd
        with contextlib.suppress(OSError):  # no /proc, or too many open files: then the usage is unknown
            self._status = os.open(f"/proc/{pid}/status", os.O_RDONLY | os.O_CLOEXEC)

    def exited(self, ended: GuestExit) -> None:
        """The process has ended."""
        self._exit = ended
        for fd in (self._pidfd, self._status):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self._status = -1

    @property
    def alive(self) -> bool:
        """Whether the process lives: asks the kernel, which knows this first."""
        if self._exit is not None or self._pidfd < 0:
            return False
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return not poll.poll(0)

    async def healthy(self) -> bool:
        return self.alive

    async def send(self, data: bytes) -> None:
        await self._pipes.send(data)

    def send_at_once(self, data: bytes) -> bool:
        return self._pipes.send_at_once(data)

    def listen(self, listener: Listener | None) -> None:
        self._pipes.listen(listener)

    async def receive(self) -> tuple[Stream, bytes]:
        return await self._pipes.receive()

    def unread_output(self) -> bytes:
        return self._pipes.unread_output()

    def usage(self) -> Usage | None:
        if self._exit is not None:
            return self._exit.usage
        if self.pid <= 0:
            return None
        try:
            # the clock of another process, as clock_getcpuclockid(3) names it
            cpu = time.clock_gettime(~self.pid << 3 | 2)
            text = os.pread(self._status, 4096, 0)
            peak = text.index(b"\nVmHWM:") + 7  # a program may name itself so, but not begin a line
            return Usage(cpu, int(text[peak : text.index(b"kB", peak)]) * 1024)
        except (OSError, ValueError):  # it is just ending, or /proc is not there
            return None

    @contextlib.asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Stop the process for the time of the block, unless it was killed. After a while it goes on without that."""
        if self.killed or self._pidfd < 0:
            yield
            return
        self._signal(signal.SIGSTOP)
        try:
            for _ in range(_FREEZE_MILLISECONDS):
                if _is_stopped(self.pid):
                    break
                await anyio.sleep(0.001)
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        self.killed = True
        self._signal(signal.SIGKILL)
