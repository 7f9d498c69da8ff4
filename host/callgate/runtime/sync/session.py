"""`SyncSession` and `SyncCodeStream`: a session, and a program's events, for code without ``await``."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from queue import Empty, SimpleQueue
from typing import Any, Self

from callgate.errors import ConfigurationError
from callgate.runtime.gate.events import Event
from callgate.runtime.result import CodeResult
from callgate.runtime.session import Session

from .loop_thread import LOOK_AGAIN_SECONDS, Call, LoopThread
from .waiting import Waiting, waiting

__all__ = ["SyncCodeStream", "SyncSession"]


class SyncSession(Waiting):
    """A `Session` without ``await``; made by `SyncRuntime.session`. A context manager, which has to be entered."""

    def __init__(self, runtime: Waiting, context: AbstractAsyncContextManager[Session]) -> None:
        self._runtime = runtime
        self._context = context
        self._inner: Session | None = None
        self._entered_in: LoopThread | None = None

    def __enter__(self) -> Self:
        if self._entered_in is not None:
            raise ConfigurationError("this session was entered already; open another one with runtime.session()")
        self._entered_in = self._runtime._thread()
        self._inner = self._entered_in.wait(self._enter)
        return self

    async def _enter(self) -> Session:
        return await self._context.__aenter__()

    def __exit__(self, *error: object) -> None:
        if self._inner is not None and self._is_open():
            self._thread().wait(self._leave)

    async def _leave(self) -> None:
        await self._context.__aexit__(None, None, None)

    def _thread(self) -> LoopThread:
        if self._entered_in is None:
            raise ConfigurationError("enter the session first: with runtime.session() as session")
        return self._entered_in

    def _is_open(self) -> bool:
        return self._entered_in is not None and self._entered_in.is_open

    @property
    def alive(self) -> bool:
        """Whether another program can run, now or after the running one."""
        return self._inner is not None and self._is_open() and self._inner.alive

    execute_code = waiting(Session.execute_code)


class SyncCodeStream:
    """Events of a running program, to iterate over once: ``for event in stream``. In a ``with`` block or out of it;
    leaving the loop or the block early cancels the run. `result` is set when the events have ended.

    Args:
        runtime: whose program it is.
        execute: runs the program with a listener.
    """

    def __init__(
        self, runtime: Waiting, execute: Callable[[Callable[[Event], None]], Coroutine[Any, Any, CodeResult]]
    ) -> None:
        self.result: CodeResult | None = None
        self._runtime = runtime
        self._execute = execute
        self._events: SimpleQueue[Event | None] = SimpleQueue()
        self._call: Call[CodeResult] | None = None

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        assert self._call is not None
        self._call.end()
        if kind is None and not self._call.cancelled:
            self._call.result()  # raises its error, if the events were not read to their end

    def __iter__(self) -> Iterator[Event]:
        if self._call is not None:
            yield from self._arriving(self._call)
            return
        call = self._begin()
        try:
            yield from self._arriving(call)
        finally:
            call.end()

    def _begin(self) -> Call[CodeResult]:
        if self._call is not None:
            raise ConfigurationError("this stream has begun already; make another one with runtime.stream_code(...)")
        self._call = call = self._runtime._thread().begin(lambda: self._execute(self._events.put))
        call.outcome.add_done_callback(lambda _: self._events.put(None))
        return call

    def _arriving(self, call: Call[CodeResult]) -> Iterator[Event]:
        while self.result is None:
            try:
                event = self._events.get(timeout=LOOK_AGAIN_SECONDS)
            except Empty:
                continue
            if event is None:
                self.result = call.result()
            else:
                yield event
