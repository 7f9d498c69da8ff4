"""The guest's end of the wire: writes whole messages, reads replies, hands each reply to the call that waits for it.

1. The waiting side reads. There is no reader thread: an event loop that has a call in flight watches the wire, and a
   thread that blocks for a reply reads it itself. At most one thread reads at a time (`_reading`); it hands every
   other reply to its owner.
2. A write never deadlocks with a host that pushes back: while the wire takes no more, the writer reads.
3. Calls of async code leave when the program next waits: when its loop has nothing ready to run, when a thread blocks,
   or at its end; at the latest after `_MOST_TURNS` turns of the loop or `_MOST_HELD` characters. A call that the
   program cancels before that never begins, however quick the host is. Prints and cancellations keep
   their place behind calls that are held.
4. Knows messages, not what they mean: a call resolves itself, a request is queued for `next_request`.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import threading
import types
from collections import deque
from collections.abc import Callable
from sys import _getframe  # a program may replace it in `sys`
from typing import Any, Protocol

from .json_forms import encoder
from .records import Record
from .wire import MESSAGE_BYTES, OUT_OF_MEMORY, PROGRAM_NAME, WITHDRAWN, LineBuffer

_MOST_TURNS = 64
_MOST_HELD = 1 << 16
_MOST_FRAMES = 50  # looked through for the line of a print: 4 µs, half of what the print takes itself
_CHUNK = 1 << 16  # what a pipe holds; above 128 KiB, malloc would map and unmap memory for every read


class Reply(Protocol):
    """A call that waits for its response."""

    def resolve(self, message: dict[str, Any]) -> None: ...

    done: bool


decode: Callable[[str], Any] = json.JSONDecoder(object_hook=Record).decode
encode = encoder()


class Link:
    """One wire, from `attach` on."""

    def __init__(self) -> None:
        self._incoming = self._outgoing = -1
        self._lines = LineBuffer(1 << 62)  # the host bounds what it sends
        self._write_lock = threading.RLock()  # a signal handler or a finalizer may write in the middle of a write
        self._writing = False
        self._unsent: deque[bytes] = deque()
        self.held: dict[int, tuple[str, str, str, str]] = {}
        """Messages that wait to leave, by the id of the request; notifications have negative numbers. With each its
        method, its params as JSON and its member `line`, empty for a notification."""
        self.held_size = self._turns = self._unnumbered = 0
        self._turn = threading.Condition()
        self._reading = False
        self._sleepers = 0
        self.pending: dict[int, Reply] = {}
        """Calls that the host has not answered, by their ids."""
        self.unawaited: dict[int, Any] = {}
        """Calls of async code that nobody has awaited so far: see `nursery`."""
        self.ending: set[asyncio.AbstractEventLoop | None] = set()
        """Loops whose tasks are cancelled because their program is over. This cancels none of their calls."""
        self._news: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._requests: deque[dict[str, Any]] = deque()
        self.further: list[bytes] = []
        """Lines that came together with a request that has `replay`, behind it: see `replaying`."""
        self.last_id = 0
        self._watching: set[asyncio.AbstractEventLoop] = set()
        self.on_cancel: Callable[[], None] = lambda: None
        self.before_write: Callable[[], None] = lambda: None
        self.closed = False
        self.program = PROGRAM_NAME
        """File name of the program that runs."""
        self.most_bytes = MESSAGE_BYTES
        """Bytes of a message that the host takes."""

    def attach(self, incoming: int, outgoing: int) -> None:
        """Use these file descriptors, which nothing else uses."""
        self._incoming = incoming
        self._outgoing = outgoing
        os.set_blocking(incoming, False)
        os.set_blocking(outgoing, False)

    def close(self) -> None:
        os.close(self._incoming)
        os.close(self._outgoing)

    def line(self) -> int:
        """The line that runs now, of the program's innermost function in this thread; 0 where none of its code runs, or
        only far below other code."""
        frame: types.FrameType | None = _getframe(1)
        name, left = self.program, _MOST_FRAMES
        while frame is not None and frame.f_code.co_filename != name and (left := left - 1):
            frame = frame.f_back
        return (frame.f_lineno or 0) if frame is not None and left else 0

    # writing

    def request(self, method: str, params: dict[str, Any], reply: Reply, *, holds: bool = False) -> int:
        """Send a request; `reply.resolve` is called with the response, from whichever thread reads it.

        Args:
            method: name of the tool.
            params: arguments by name.
            reply: the waiting call.
            holds: the request leaves when the program next waits, by `idle`.
        """
        body = encode(params)
        at = f',"line":{line}' if (line := self.line()) else ""
        self.before_write()
        with self._turn:
            self.last_id += 1
            number = self.last_id
            self.pending[number] = reply
        text = f'{{"jsonrpc":"2.0","method":{encode(method)},"params":{body},"id":{number}{at}}}\n'
        if holds:
            self._hold(number, text, method, body, at)
        else:
            self._write(text)
        return number

    def withdraw(self, number: int) -> bool:
        """Take back a request that has not left. Returns whether that was possible; a notification reports it."""
        if number not in self.held:
            return False
        _, method, body, at = self.held[number]
        params = f'{{"tool":{encode(method)},"arguments":{body},"number":{number}{at}}}'
        self.held[number] = f'{{"jsonrpc":"2.0","method":"{WITHDRAWN}","params":{params}}}\n', "", "", ""
        self.forget(number)
        return True

    def _hold(self, number: int, text: str, method: str = "", body: str = "", at: str = "") -> None:
        self.held[number] = text, method, body, at
        self.held_size += len(text)
        if self.held_size > _MOST_HELD:
            self._write("")

    def idle(self, timeout: float | None) -> None:
        """An event loop is about to wait for up to `timeout` seconds; 0 if it has something to run."""
        self._turns += 1
        if timeout != 0 or self._turns > _MOST_TURNS:
            self._write("")

    def notify(self, method: str, params: dict[str, Any] | str) -> None:
        """Send a notification. Its params may be JSON text."""
        body = params if isinstance(params, str) else encode(params)
        text = f'{{"jsonrpc":"2.0","method":"{method}","params":{body}}}\n'
        if self.held:
            self._unnumbered -= 1
            self._hold(self._unnumbered, text)
        else:
            self._write(text)

    def tell(self, method: str, body: str) -> None:
        """Send a notification. `body` holds the members of its params as JSON text."""
        self.before_write()
        self._write(f'{{"jsonrpc":"2.0","method":"{method}","params":{{{body}}}}}\n')

    def reply(self, number: Any, body: str) -> None:
        """Answer a request of the host; `body` is ``"result":...`` or ``"error":...``."""
        self.before_write()
        self._write(f'{{"jsonrpc":"2.0",{body},"id":{encode(number)}}}\n')

    def _write(self, text: str) -> None:
        if self.held:
            held, self.held = self.held, {}
            self.held_size = self._turns = 0
            text = "".join([each[0] for each in held.values()]) + text
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
        lines = iter(self._lines.feed(data))
        for line in lines:
            message = decode(line.decode())
            if "method" not in message:
                waiting = self.pending.pop(message["id"], None)
                if waiting is not None:
                    waiting.resolve(message)
            elif "id" in message:
                self._requests.append(message)
                if "replay" in message["params"]:
                    self.further = list(lines)
            else:
                self.on_cancel()
        if self._news:
            self.wake_news()
        if self._sleepers:
            with self._turn:
                self._turn.notify_all()

    def news(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[None]:
        """A future of `loop` that is done when any call is answered or cancelled."""
        future = loop.create_future()
        self._news.append((loop, future))
        self.watch(loop)
        return future

    def wake_news(self) -> None:
        """Complete the futures of `news`."""
        while self._news:
            loop, future = self._news.pop()
            if not loop.is_closed():
                loop.call_soon_threadsafe(_done, future)

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
        """No longer wait for this response."""
        self.pending.pop(number, None)
        self.wake_news()

    def forget_all(self, error: dict[str, Any]) -> None:
        """End all pending requests with `error`: the host will not answer them."""
        pending, self.pending = self.pending, {}
        for waiting in pending.values():
            waiting.resolve({"error": error})


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
