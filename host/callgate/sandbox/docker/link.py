"""A container's streams: the engine's multiplexed attach stream, with the supervisor's frames inside its stdout.

Knows bytes and frames, not what they mean. Everything in here is bounded, since the other side may be taken over by a
guest: a frame, what is read ahead, what is kept of stderr.

The engine's format (https://docs.docker.com/reference/api/engine/, "Attach to a container"): eight bytes in front of
each piece, the first the stream (1 stdout, 2 stderr), the last four its length, big endian.

1. Any number of tasks may wait for what comes (`changed`). One of them watches the socket, and nobody else reads while
   it does; the others are told when it leaves.
2. Whoever waits to write watches for what comes as well. That is where a container's end is told: an engine that holds
   bytes for a container that does not read them any more does not take others, and does not hang up.
3. What is read ahead is bounded, whoever reads.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable

import anyio

from callgate.errors import SandboxCrashed
from callgate.sandbox.streams import Writer
from callgate_guest.frames import Frame, FrameBuffer, FrameError

__all__ = ["Demultiplexer", "Link", "cost"]

_CHUNK = 1 << 16
_HELD = 1 << 20  # bytes read ahead of the consumer before the container is left to wait
_HEADER = struct.Struct(">B3xI")
_MAX_PIECE = 1 << 24
_STDERR_KEPT = 4096
_READS = 64
_FRAME_BYTES = 128


def cost(found: Frame) -> int:
    """What a frame counts as where frames are held: one that is empty takes memory, too."""
    return len(found[1]) + _FRAME_BYTES


class Demultiplexer:
    """Bytes of an attach stream in, what the container wrote to stdout out. Keeps the end of its stderr."""

    def __init__(self) -> None:
        self._header = bytearray()
        self._left = 0
        self._stream = 0
        self._errors = bytearray()

    @property
    def errors(self) -> str:
        """The last of what was written to stderr."""
        return self._errors.decode("utf-8", "replace").strip()

    def feed(self, data: bytes) -> bytes:
        """What of `data` is stdout. Raises `FrameError` where it is not that format."""
        out: list[bytes] = []
        at = 0
        while at < len(data):
            if self._left == 0:
                need = _HEADER.size - len(self._header)
                self._header += data[at : at + need]
                at += need
                if len(self._header) < _HEADER.size:
                    break
                self._stream, self._left = _HEADER.unpack(self._header)
                self._header.clear()
                if self._stream > 2 or self._left > _MAX_PIECE:
                    raise FrameError(f"a piece of stream {self._stream} with {self._left} bytes")
                continue
            piece = data[at : at + self._left]
            at += len(piece)
            self._left -= len(piece)
            if self._stream == 2:
                self._errors += piece
                del self._errors[:-_STDERR_KEPT]
            else:
                out.append(piece)
        return b"".join(out)


class _SocketWriter(Writer):
    def __init__(self, link: Link, attached: socket.socket) -> None:
        super().__init__()
        self._link = link
        self._socket = attached
        self.commits = isinstance(attached, ssl.SSLSocket)  # OpenSSL has encrypted the beginning by then

    async def writable(self) -> None:
        if self._link.over():
            raise SandboxCrashed("the container is gone")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._writable, tasks.cancel_scope)
            await self._link.changed()
            tasks.cancel_scope.cancel()

    async def _writable(self, either: anyio.CancelScope) -> None:
        try:
            await anyio.wait_writable(self._socket)
        except anyio.ClosedResourceError:  # `wake`, or `hang_up`
            pass
        except (OSError, ValueError):
            self._link.ended = True
        either.cancel()

    def write(self, data: memoryview) -> int:
        try:
            return self._socket.send(data)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0
        except (OSError, ValueError):
            raise SandboxCrashed("the container is gone") from None


class Link:
    """One attached container. `attached` is a socket that does not block; it is taken over.

    Attributes:
        inbox: frames that were read and not yet taken.
        unheard: asked by whoever waits to send, whenever something has come: whether nobody will hear what it sends.
        ended: nothing more will come; `why` says why, where that is not just its end.
    """

    def __init__(self, attached: socket.socket) -> None:
        self._socket = attached
        self._streams = Demultiplexer()
        self._frames = FrameBuffer()
        self._writer = _SocketWriter(self, attached)
        self._watched = False
        self._news = anyio.Event()
        self._crowded = False  # somebody waits for `take`
        self.unheard: Callable[[], bool] = lambda: False
        self.inbox: deque[Frame] = deque()
        self._held = 0
        self.ended = False
        self.closed = False
        self.why = ""

    @property
    def errors(self) -> str:
        """The last of what the container wrote to stderr."""
        return self._streams.errors

    # reading

    def pump(self) -> None:
        """Read what is there, up to `_HELD`. Never waits. Does nothing while a task watches the socket, which will."""
        for _ in range(_READS):
            if self._watched or self.ended or self.closed or self._held > _HELD:
                return
            try:
                data = self._socket.recv(_CHUNK)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            except OSError:
                data = b""
            if not data:
                self.ended = True
                return
            try:
                found = self._frames.feed(self._streams.feed(data))
            except FrameError as error:
                self.ended = True
                self.why = f"what came from the container is not the protocol: {error}"
                return
            self.inbox.extend(found)
            self._held += sum(cost(each) for each in found)

    def take(self) -> Frame | None:
        """The next frame that was read."""
        if not self.inbox:
            return None
        found = self.inbox.popleft()
        self._held -= cost(found)
        if self._crowded:
            self._crowded = False
            self._tell()
        return found

    async def receive(self) -> Frame | None:
        """The next frame; ``None`` at the end. For one task, with nobody else who takes frames."""
        while True:
            self.pump()
            found = self.take()
            if found is not None or self.ended or self.closed:
                return found
            await self.changed()

    async def changed(self) -> None:
        """Wait until there is something to read, or to take in `inbox`, or that is over; may return before. Where
        `inbox` is full, wait until something is taken."""
        if self._watched or self._held > _HELD:
            self._crowded = self._crowded or not self._watched
            await self._news.wait()
            return
        self._watched = True
        try:
            await anyio.wait_readable(self._socket)
        except anyio.ClosedResourceError:  # `wake`, or `hang_up`
            pass
        except (OSError, ValueError):
            self.ended = True
        finally:
            self._watched = False
            self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    def wake(self) -> None:
        """Have every task that waits here look again at what it waits for."""
        self._tell()
        if not self.closed:
            with contextlib.suppress(OSError, RuntimeError):  # nobody waits where there is no event loop
                anyio.notify_closing(self._socket)

    def over(self) -> bool:
        """Whether there is no use in sending any more, as far as what has come tells."""
        self.pump()
        return self.unheard() or self.ended or self.closed

    def hung_up(self) -> bool:
        """Whether the engine has closed the stream, or the container has ended; what it said before is in `inbox`."""
        self.pump()
        if self.ended or self.closed:
            return True
        poll = select.poll()
        poll.register(self._socket, 0)
        return bool(poll.poll(0))

    # writing

    async def send(self, data: bytes) -> None:
        """Write whole frames, in order. Waits while the container does not read.

        Raises:
            SandboxCrashed: it has ended.
        """
        await self._writer.send(data)

    def send_now(self, data: bytes) -> bool:
        """Write `data` if it goes out at once and whole. Otherwise say so; a part may be gone, and the link with it."""
        if not self._writer.idle or self.closed:
            return False
        try:
            return self._writer.write(memoryview(data)) == len(data)
        except SandboxCrashed:
            return False

    # ending

    def hang_up(self) -> None:
        """Close the container's stdin, which ends it, and hear nothing more of it. May be repeated."""
        if not self.closed:
            self.closed = True
            self._writer.forget()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError, RuntimeError):  # nobody waits where there is no event loop
                anyio.notify_closing(self._socket)
            self._tell()
            self._socket.close()
            # the SDK's response holds on to a TLS socket: the descriptor goes with the last of the two
            response = getattr(self._socket, "_response", None)
            if response is not None:
                response.close()
