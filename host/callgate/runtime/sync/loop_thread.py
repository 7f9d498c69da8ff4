"""An event loop in a thread of its own, for callers that have none: the one place where a thread waits for a coroutine.

1. A call runs in the loop, with the caller's context variables. The thread that made the call waits for it, and gets
   its result or its exception.
2. What interrupts the wait (Ctrl-C) cancels the call. The exception goes on when the call has ended.
3. Once `end` has begun, no call begins. Those under way are cancelled, and their threads are told why.
4. Nothing waits for a loop that cannot answer: not the loop's own thread, not a process forked from this one, and not
   the end of this process, since the thread is a daemon.

anyio's `start_blocking_portal` keeps 1, 2 and 3 only in part, and not 4: at the end of a process that never left its
block, or of a forked one, its generator is closed, which waits for a thread that is not there any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, wait
from typing import Any, Generic, TypeVar

import anyio

from callgate import event_loop
from callgate.errors import ConfigurationError

__all__ = ["LOOK_AGAIN_SECONDS", "Call", "LoopThread"]

_R = TypeVar("_R")

LOOK_AGAIN_SECONDS = 0.5
"""A waiting thread looks up so often: a signal that arrives just before it waits, or in another thread, does not wake
it, and Python handles signals only between two instructions."""
_END_WITHIN_SECONDS = 10.0
"""How long an interrupted thread waits for the end of its call."""


class Call(Generic[_R]):
    """A coroutine in a `LoopThread`, and its outcome for the thread that made it.

    Args:
        thread: where it runs.
        make: makes the coroutine, in the loop.
    """

    def __init__(self, thread: LoopThread, make: Callable[[], Coroutine[Any, Any, _R]]) -> None:
        self.outcome: Future[_R] = Future()
        self.cancelled = False
        self._thread = thread
        self._make = make
        self._scope: anyio.CancelScope | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """In the loop: begin."""
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            with anyio.CancelScope() as self._scope:
                if not self.cancelled:
                    self.outcome.set_result(await self._make())
        except BaseException as error:  # the waiting thread gets it, whatever it is; the loop's thread lives on
            if not isinstance(error, asyncio.CancelledError):
                self.outcome.set_exception(error)
        finally:
            if not self.outcome.done():
                self.outcome.set_exception(ConfigurationError("this runtime was left before the call had ended"))

    def result(self) -> _R:
        """Wait for the outcome. Raises the coroutine's own exception."""
        try:
            while not self.outcome.done():
                wait([self.outcome], LOOK_AGAIN_SECONDS)
        except BaseException:
            self.end()
            raise
        return self.outcome.result()

    def cancel(self) -> None:
        """Cancel it, and do not wait."""
        self.cancelled = True
        self._thread.soon(lambda: None if self._scope is None else self._scope.cancel())

    def end(self) -> None:
        """Cancel it, and wait for its end; not for ever. Raises what interrupts the wait."""
        if self.outcome.done() or self._thread.is_of_another_process:
            return
        self.cancel()
        with contextlib.suppress(TimeoutError):
            self.outcome.exception(_END_WITHIN_SECONDS)


class LoopThread:
    """A thread with an event loop, which lives until `end`."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._calls: set[Call[Any]] = set()
        self._ended = False
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=event_loop.run, args=(self._live, ready), name="callgate", daemon=True)
        self._thread.start()
        ready.result()

    async def _live(self, ready: Future[None]) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        ready.set_result(None)
        await self._stop.wait()

    @property
    def is_of_another_process(self) -> bool:
        """Whether this process was forked from the one with the thread."""
        return os.getpid() != self._process

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return not self._ended and not self.is_of_another_process

    @property
    def is_current(self) -> bool:
        """Whether this is code of the loop."""
        return threading.current_thread() is self._thread

    def refuse_itself(self) -> None:
        """Raise `ConfigurationError` in the loop's own thread, which cannot wait for the loop."""
        if self.is_current:
            raise ConfigurationError(
                "this would wait for itself: async tools and on_event run in the runtime's own event loop; "
                "call the runtime from a sync tool, or use a Runtime with await"
            )

    def soon(self, function: Callable[[], object]) -> None:
        """Call a function in the loop, which may have ended."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    def begin(self, make: Callable[[], Coroutine[Any, Any, _R]]) -> Call[_R]:
        """Begin a call.

        Raises:
            ConfigurationError: this thread or this process cannot wait for the loop, or the loop has ended.
        """
        if self.is_of_another_process:
            raise ConfigurationError(
                "this runtime was opened before this process was forked: it belongs to the other one; make one here"
            )
        self.refuse_itself()
        with self._lock:
            if self._ended:
                raise ConfigurationError("this runtime was left already; enter it again, or make another one")
            return self._begun(make)

    def _begun(self, make: Callable[[], Coroutine[Any, Any, _R]]) -> Call[_R]:
        call = Call(self, make)
        self._calls.add(call)
        call.outcome.add_done_callback(lambda _: self._calls.discard(call))
        self.soon(call.start)
        return call

    def wait(self, make: Callable[[], Coroutine[Any, Any, _R]]) -> _R:
        """Make a call, and wait for it. Raises its exception, or as `begin`."""
        return self.begin(make).result()

    def do(self, function: Callable[[], _R]) -> _R:
        """Call a function between two steps of the loop, so that it meets nothing half done."""
        if self.is_current:
            return function()

        async def called() -> _R:
            return function()

        return self.wait(called)

    def end(self, last: Callable[[], Coroutine[Any, Any, object]] | None = None, *, with_process: bool = False) -> None:
        """Cancel every call, make one last, and end the thread. Raises what that last one raises.

        Args:
            last: makes the coroutine of the last call.
            with_process: the thread ends with the process: asyncio's end of a loop would start a thread, for which
                it is too late.
        """
        if self.is_of_another_process:
            return
        with self._lock:
            if self._ended:
                return
            self._ended = True
            calls = [*self._calls]
        try:
            for call in calls:  # all at once: none goes on while another one winds up
                call.cancel()
            for call in calls:
                call.end()
        finally:
            try:
                if last is not None:
                    self._begun(last).result()
            finally:
                if not with_process:
                    self.soon(self._stop.set)
                    self._thread.join()
