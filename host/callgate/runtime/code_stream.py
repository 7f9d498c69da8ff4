"""A program that is running, as something to iterate over. Knows events; who runs the program, it is told."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio

from .gate.events import Event
from .result import CodeResult

__all__ = ["CodeStream", "streaming"]


class CodeStream:
    """Events of a program that is running; iterate over it once. `result` is there when the iteration has ended."""

    def __init__(self) -> None:
        self.result: CodeResult | None = None
        self._events: deque[Event] = deque()
        self._changed = anyio.Event()
        self._over = False

    def _put(self, event: Event) -> None:
        self._events.append(event)
        self._changed.set()

    def _finish(self) -> None:
        self._over = True
        self._changed.set()

    # no asynchronous generator: leaving the loop early would leave one behind, which trio warns of

    def __aiter__(self) -> CodeStream:
        return self

    async def __anext__(self) -> Event:
        while not self._events:
            if self._over:
                raise StopAsyncIteration
            self._changed = anyio.Event()
            await self._changed.wait()
        return self._events.popleft()


@contextlib.asynccontextmanager
async def streaming(execute: Callable[[Callable[[Event], None]], Awaitable[CodeResult]]) -> AsyncIterator[CodeStream]:
    """Run `execute`, which is given the listener to tell; leaving the block early cancels it."""
    stream = CodeStream()

    async def run() -> None:
        try:
            stream.result = await execute(stream._put)
        finally:
            stream._finish()

    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield stream
            if not stream._over:
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # the task group is our affair: one error is raised as itself
        raise _only(group) from None


def _only(group: BaseExceptionGroup[BaseException]) -> BaseException:
    return group.exceptions[0] if len(group.exceptions) == 1 else group
