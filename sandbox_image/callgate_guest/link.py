"""The guest's end of the wire: writes whole messages, reads replies, hands each to whoever waits for it.

1. Whoever waits, reads. There is no reader thread: an event loop that has a call in flight watches the wire, and a
   thread that blocks for a reply reads it itself. At most one of them reads at a time (`_reading`); it hands every
   other reply to its owner.
2. A write never deadlocks with a host that pushes back: while the wire takes no more, the writer reads.
3. Knows messages, not what they mean: a call resolves itself, a request is queued for `next_request`.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from .wire import OUT_OF_MEMORY, LineBuffer

_CHUNK = 1 << 16  # what a pipe holds; above 128 KiB, malloc would map and unmap memory for every read


class Record(dict[str, Any]):
    """A JSON object of a tool's result: a dict whose fields can also be read as attributes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name.startswith("__"):
                raise AttributeError(name) from None
            fields = ", ".join(map(repr, list(self)[:20])) or "none"
            raise AttributeError(f"the result has no field {name!r}; its fields are: {fields}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"set a field with result[{name!r}] = ..., not as an attribute")


class Reply(Protocol):
    """What waits for a response."""

    def resolve(self, message: dict[str, Any]) -> None: ...

    done: bool


class NotJson(TypeError):
    """A value that is not JSON. `value` is that value, not what it sits in."""

    def __init__(self, value: object) -> None:
        self.value = value
        super().__init__(type(value).__name__)


def _refuse(value: object) -> Any:
    raise NotJson(value)


decode: Callable[[str], Any] = json.JSONDecoder(object_hook=Record).decode
encode: Callable[[Any], str] = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_refuse).encode


class Link:
    """One wire: `incoming` and `outgoing` are file descriptors that nothing else uses."""

    def __init__(self, incoming: int, outgoing: int) -> None:
        self._incoming = incoming
        self._outgoing = outgoing
        os.set_blocking(incoming, False)
        os.set_blocking(outgoing, False)
        self._lines = LineBuffer(1 << 62)  # the host bounds what it sends
        self._write_lock = threading.RLock()  # a signal handler or a finalizer may write in the middle of a write
        self._writing = False
        self._unsent: deque[bytes] = deque()
        self._turn = threading.Condition()
        self._reading = False
        self._sleepers = 0
        self._pending: dict[int, Reply] = {}
        self._requests: deque[dict[str, Any]] = deque()
        self._last_id = 0
        self._watching: set[asyncio.AbstractEventLoop] = set()
        self.on_cancel: Callable[[], None] = lambda: None
        self.before_write: Callable[[], None] = lambda: None
        self.closed = False

    def close(self) -> None:
        os.close(self._incoming)
        os.close(self._outgoing)

    # writing

    def request(self, method: str, params: dict[str, Any], reply: Reply) -> int:
        """Send a request; `reply.resolve` is called with the response, from whichever thread reads it."""
        body = encode(params)
        self.before_write()
        with self._turn:
            self._last_id += 1
            number = self._last_id
            self._pending[number] = reply
        self._write(f'{{"jsonrpc":"2.0","method":{encode(method)},"params":{body},"id":{number}}}\n')
        return number

    def notify(self, method: str, params: dict[str, Any]) -> None:
        """Send a notification."""
        self._write(f'{{"jsonrpc":"2.0","method":"{method}","params":{encode(params)}}}\n')

    def reply(self, number: Any, body: str) -> None:
        """Answer a request of the host; `body` is ``"result":...`` or ``"error":...``."""
        self.before_write()
        self._write(f'{{"jsonrpc":"2.0",{body},"id":{encode(number)}}}\n')

    def _write(self, text: str) -> None:
        self._unsent.append(text.encode())
        with self._write_lock:
            if self._writing:  # this very thread is in the middle of a message: it sends this one after it
                return
            self._writing = True
            try:
                while self._unsent:
                    self._write_whole(memoryview(self._unsent.popleft()))
            finally:
                self._writing = False

    def _write_whole(self, data: memoryview) -> None:
        while data:
            try:
                data = data[os.write(self._outgoing, data) :]
            except BlockingIOError:
                self._read_until_writable()
            except BrokenPipeError:
                os._exit(0)  # the host is gone

    def _read_until_writable(self) -> None:
        poll = select.poll()
        poll.register(self._outgoing, select.POLLOUT)
        reader = self._take_turn()
        try:
            if reader and not self.closed:
                poll.register(self._incoming, select.POLLIN)
            for fd, _ in poll.poll(None if reader else 50):
                if fd == self._incoming:
                    self._read()
        finally:
            if reader:
                self._end_turn()

    # reading

    def _take_turn(self) -> bool:
        with self._turn:
            if self._reading:
                return False
            self._reading = True
            return True

    def _end_turn(self) -> None:
        with self._turn:
            self._reading = False
            self._turn.notify_all()

    def _read(self) -> None:
        """Read what is there and hand it out. The caller holds the turn."""
        try:
            self._hand_out(os.read(self._incoming, _CHUNK))
        except BlockingIOError:
            return
        except MemoryError:  # part of a message is lost, and with it everything that waits for it
            os._exit(OUT_OF_MEMORY)

    def _hand_out(self, data: bytes) -> None:
        if not data:
            self.closed = True
            return
        for line in self._lines.feed(data):
            message = decode(line.decode())
            if "method" not in message:
                waiting = self._pending.pop(message["id"], None)
                if waiting is not None:
                    waiting.resolve(message)
            elif "id" in message:
                self._requests.append(message)
            else:
                self.on_cancel()
        if self._sleepers:
            with self._turn:
                self._turn.notify_all()

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let `loop` read replies as they come, until it is closed."""
        if loop not in self._watching:
            self._watching = {known for known in self._watching if not known.is_closed()} | {loop}
            loop.add_reader(self._incoming, self._on_readable)

    def _on_readable(self) -> None:
        if self._take_turn():
            try:
                self._read()
            finally:
                self._end_turn()
            if self.closed:
                os._exit(0)  # the host is gone
        else:
            os.sched_yield()  # a blocked thread is about to read it

    def wait(self, reply: Reply) -> None:
        """Block this thread until `reply` is resolved."""
        self._block(lambda: reply.done)

    def next_request(self) -> dict[str, Any] | None:
        """The host's next request; ``None`` when it has closed the wire."""
        self._block(lambda: bool(self._requests))
        return self._requests.popleft() if self._requests else None

    def _block(self, ready: Callable[[], bool]) -> None:
        while not ready() and not self.closed:
            if not self._take_turn():
                with self._turn:
                    if self._reading and not ready():
                        self._sleepers += 1
                        try:
                            self._turn.wait()
                        finally:
                            self._sleepers -= 1
                continue
            try:
                while not ready() and not self.closed:
                    select.select([self._incoming], [], [])
                    self._read()
            finally:
                self._end_turn()

    def forget(self, number: int) -> None:
        """Nobody waits for this response any more."""
        self._pending.pop(number, None)

    def forget_all(self, error: dict[str, Any]) -> None:
        """The host answers none of the requests that are still pending: end them with `error`."""
        pending, self._pending = self._pending, {}
        for waiting in pending.values():
            waiting.resolve({"error": error})
