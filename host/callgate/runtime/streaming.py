"""What comes in pieces: the text of a program or a plan that is being written, and the events of a running program."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel

from callgate.errors import ConfigurationError

from .gate.events import Event
from .result import CodeResult

__all__ = ["CodeStream", "each_chunk", "own_tasks", "streaming"]


async def each_chunk(chunks: AsyncIterable[str] | Iterable[str], what: str) -> AsyncGenerator[str, None]:
    """The pieces of a text, with a turn for other tasks before each.

    Args:
        chunks: the pieces.
        what: the text is called in errors.

    Raises:
        ConfigurationError: a piece is not text.
    """
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            await anyio.lowlevel.checkpoint()  # the iterator may never have waited
            yield _text(chunk, what)
    else:
        for chunk in chunks:
            await anyio.lowlevel.checkpoint()
            yield _text(chunk, what)


def _text(chunk: Any, what: str) -> str:
    if not isinstance(chunk, str):
        raise ConfigurationError(f"the chunks of a {what} are text, not {type(chunk).__name__}")
    return chunk


@contextlib.asynccontextmanager
async def own_tasks() -> AsyncIterator[anyio.abc.TaskGroup]:
    """A task group that is cancelled at the end of its block. A single error comes out without the group's wrapper."""
    try:
        async with anyio.create_task_group() as tasks:
            yield tasks
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise (group.exceptions[0] if len(group.exceptions) == 1 else group) from None


class CodeStream:
    """Events of a running program, to iterate over once. `result` is set when the iteration has ended."""

    def __init__(self) -> None:
        self.result: CodeResult | None = None
        self._put, self._events = anyio.create_memory_object_stream[Event](math.inf)

    # not an async generator, since trio warns if a loop leaves one unfinished

    def __aiter__(self) -> CodeStream:
        return self

    async def __anext__(self) -> Event:
        try:
            return await self._events.__anext__()
        except anyio.ClosedResourceError:  # the block was left
            raise StopAsyncIteration from None


@contextlib.asynccontextmanager
async def streaming(execute: Callable[[Callable[[Event], None]], Awaitable[CodeResult]]) -> AsyncIterator[CodeStream]:
    """Run `execute` with a listener that feeds the stream; leaving the block early cancels the run."""
    stream = CodeStream()

    async def run() -> None:
        with stream._put:
            stream.result = await execute(stream._put.send_nowait)

    with stream._events:
        async with own_tasks() as tasks:
            tasks.start_soon(run)
            yield stream
