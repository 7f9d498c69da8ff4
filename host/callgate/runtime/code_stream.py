"""A program that is running, as something to iterate over. Knows events; who runs the program, it is told."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio

from .gate.events import Event
from .result import CodeResult

__all__ = ["CodeStream", "streaming"]


class CodeStream:
    """Events of a program that is running; iterate over it once. `result` is there when the iteration has ended."""

    def __init__(self) -> None:
        self.result: CodeResult | None = None
        self._put, self._events = anyio.create_memory_object_stream[Event](math.inf)

    # no asynchronous generator: leaving the loop early would leave one behind, which trio warns of

    def __aiter__(self) -> CodeStream:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._events.__anext__()
        except anyio.ClosedResourceError:  # the block was left
            raise StopAsyncIteration from None


@contextlib.asynccontextmanager
async def streaming(execute: Callable[[Callable[[Event], None]], Awaitable[CodeResult]]) -> AsyncIterator[CodeStream]:
    """Run `execute`, which is given the listener to tell; leaving the block early cancels it."""
    stream = CodeStream()

    async def run() -> None:
        with stream._put:
            stream.result = await execute(stream._put.send_nowait)

    try:
        with stream._events:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                yield stream
                tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:  # the task group is our affair: one error is raised as itself
        raise (group.exceptions[0] if len(group.exceptions) == 1 else group) from None
