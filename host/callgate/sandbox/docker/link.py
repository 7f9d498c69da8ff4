"""A container's streams: the engine's multiplexed attach stream, with the supervisor's frames inside its stdout.

Knows bytes and frames, not what they mean. A guest may take over the other side, so everything here is bounded: a
frame, the data that are read ahead, the rest of stderr.

The engine's format (https://docs.docker.com/reference/api/engine/, "Attach to a container"): eight bytes in front of
each piece, the first the stream (1 stdout, 2 stderr), the last four its length, big endian.

1. The link reads all the time, also while a sender waits: a container's end arrives there. (An engine that holds bytes
   for a container that reads no more takes no further bytes, and does not hang up.)
2. The link stops reading while `Inbox.held` is above a bound, and goes on when data were taken. While a task sends, the
   bound is higher, so that the guest's end is found behind data that were not received yet.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator

import anyio

from callgate.errors import SandboxCrashed
from callgate.sandbox.pipes import readers
from callgate.sandbox.streams import Inbox, Writer
from callgate_guest.frames import Frame, FrameBuffer, FrameError

__all__ = ["Demultiplexer", "Link"]

_CHUNK = 1 << 16
_HELD = 1 << 20
_HELD_SENDING = 1 << 22
"""More than an ended guest can leave in the supervisor and the engine."""
_HEADER = struct.Struct(">B3xI")
_MAX_PIECE = 1 << 24
_STDERR_KEPT = 4096
_READS = 64


class Demultiplexer:
    """Takes bytes of an attach stream, and returns what the container wrote to stdout. Holds at most one unfinished
    piece, and the end of stderr."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._errors = bytearray()

    @property
    def errors(self) -> str:
        """The end of what the container wrote to stderr."""
        return self._errors.decode("utf-8", "replace").strip()

    def feed(self, data: bytes) -> bytes:
        """The part of `data` that is stdout. Raises `FrameError` if `data` is not an attach stream."""
        self._held += data
        out: list[bytes] = []
        at = 0
        while len(self._held) - at >= _HEADER.size:
            stream, length = _HEADER.unpack_from(self._held, at)
            if stream > 2 or length > _MAX_PIECE:
                raise FrameError(f"a piece of stream {stream} with {length} bytes")
            end = at + _HEADER.size + length
            if len(self._held) < end:
                break
            piece = bytes(self._held[at + _HEADER.size : end])
            if stream == 2:
                self._errors = (self._errors + piece)[-_STDERR_KEPT:]
            else:
                out.append(piece)
            at = end
        del self._held[:at]
        return b"".join(out)


class _SocketWriter(Writer):
    def __init__(self, link: Link, attached: socket.socket) -> None:
        super().__init__()
        self._link = link
        self._socket = attached
        self.commits = isinstance(attached, ssl.SSLSocket)  # OpenSSL has encrypted the beginning already

    async def writable(self) -> None:
        if self._link.over:
            raise SandboxCrashed("the container is gone")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._writable, tasks.cancel_scope)
            await self._link.changed()
            tasks.cancel_scope.cancel()

    async def _writable(self, either: anyio.CancelScope) -> None:
        try:
            await anyio.wait_writable(self._socket)
        except anyio.ClosedResourceError:  # `hang_up`
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
    """The stream of one attached container. `attached` is a socket that does not block; `hang_up` closes it.

    Attributes:
        hear: called with each frame that comes.
        inbox: data that came and were not received yet: `hear` puts them there.
        deaf: whether the guest reads no more; `send` then raises.
        ended: nothing more will come; `why` gives the reason, unless the container just ended.
        closed: `hang_up` was called.
    """

    def __init__(self, attached: socket.socket) -> None:
        self._socket = attached
        self._streams = Demultiplexer()
        self._frames = FrameBuffer()
        self._writer = _SocketWriter(self, attached)
        self._readers = readers()
        self._watched = False
        self._sending = 0
        self._news = anyio.Event()
        self.hear: Callable[[Frame], None] = lambda _: None
        self.inbox = Inbox()
        self.deaf = False
        self.ended = False
        self.closed = False
        self.why = ""
        self.go_on()

    @property
    def errors(self) -> str:
        """The end of what the container wrote to stderr."""
        return self._streams.errors

    # reading

    def go_on(self) -> None:
        """Read on if not too much is held; otherwise let the container wait."""
        full = self.inbox.held > (_HELD_SENDING if self._sending else _HELD)
        watched = not (full or self.ended or self.closed)
        if watched and not self._watched:
            self._readers.add_reader(self._socket.fileno(), self._on_readable)
        elif self._watched and not watched:
            self._readers.remove_reader(self._socket.fileno())
        self._watched = watched

    def _on_readable(self) -> None:
        self._read()
        self.go_on()
        self.tell()

    def _read(self) -> bool:
        """Handle the frames of one read; whether there may be more."""
        try:
            data = self._socket.recv(_CHUNK)
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError:
            data = b""
        try:
            for found in self._frames.feed(self._streams.feed(data)):
                self.hear(found)
        except (FrameError, RecursionError) as error:  # a guest must not fail the event loop
            self.why = f"what came from the container is not the protocol: {error}"
            data = b""
        self.ended = not data
        return not self.ended

    def pump(self) -> None:
        """Handle all frames that are there now. Never waits."""
        for _ in range(_READS):
            if not self._watched or not self._read():
                break
            self.go_on()
        self.go_on()
        self.tell()

    async def changed(self) -> None:
        """Wait until a frame came or the link ended; may return earlier."""
        await self._news.wait()

    def tell(self) -> None:
        """Wake every task that waits in `changed`."""
        self._news.set()
        self._news = anyio.Event()

    @property
    def over(self) -> bool:
        """Whether sending is useless."""
        return self.deaf or self.ended or self.closed

    def hung_up(self) -> bool:
        """Whether the engine has closed the stream or the container has ended; asks the kernel."""
        if self.ended or self.closed:
            return True
        poll = select.poll()
        poll.register(self._socket, 0)
        return bool(poll.poll(0))

    # writing

    async def send(self, data: bytes) -> None:
        """Write whole frames, in order. Waits while the container does not read.

        Raises:
            SandboxCrashed: the container has ended.
        """
        with self.reading_ahead():
            await self._writer.send(data)

    @contextlib.contextmanager
    def reading_ahead(self) -> Iterator[None]:
        """Hold more meanwhile, for what comes behind data that nobody receives yet."""
        self._sending += 1
        self.go_on()
        try:
            yield
        finally:
            self._sending -= 1

    def send_now(self, data: bytes) -> bool:
        """Write `data` if it can be written at once; return whether it was. If not, a part may be written: hang up."""
        if not self._writer.idle or self.closed:
            return False
        try:
            return self._writer.write(memoryview(data)) == len(data)
        except SandboxCrashed:
            return False

    # ending

    def hang_up(self) -> None:
        """Close the stream, which ends the container; no frame comes after this. May be called again."""
        if not self.closed:
            self.closed = True
            self.go_on()
            self.tell()
            self._writer.forget()
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError, RuntimeError):  # without an event loop no task waits
                anyio.notify_closing(self._socket)
            self._socket.close()
            # the SDK's response holds on to a TLS socket: the descriptor goes with the last of the two
            response = getattr(self._socket, "_response", None)
            if response is not None:
                response.close()
