"""Keeps async contexts open in a task of their own: one task may enter them, and another may leave them.

Cancel scopes and task groups belong to the task that made them, but an async fixture, or a server's start-up and
shutdown, may run in two tasks. Knows tasks of asyncio and of trio, and nothing about the contexts.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

import anyio

from callgate.errors import ConfigurationError

__all__ = ["LEFT", "ContextTask", "event_loop"]

LEFT: Final = "this runtime was left already; enter it again, or make another one"
"""What whoever uses a runtime after its end is told."""


def event_loop() -> object:
    """The current event loop, as an object to compare: asyncio's loop or trio's token."""
    if _in_trio():
        return sys.modules["trio"].lowlevel.current_trio_token()
    return asyncio.get_running_loop()


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    return trio is not None and bool(trio.lowlevel.in_trio_run())


class ContextTask:
    """Enters contexts in order and leaves them in reverse order, both in one task. It may be opened again.

    Args:
        contexts: returns the async context managers, which ignore the exception that ends them.

    Attributes:
        loop: the event loop in which the contexts are open; None if they are closed.
    """

    def __init__(self, contexts: Callable[[], Iterable[AbstractAsyncContextManager[Any]]]) -> None:
        self.loop: object = None
        self._contexts = contexts
        self._opened = False
        self._entered = False
        self._error: BaseException | None = None
        self._task: asyncio.Task[None] | None = None

    def must_be_open(self) -> None:
        """Raise `ConfigurationError` unless the runtime is open in this event loop."""
        if self.loop is None:
            if self._opened:
                raise ConfigurationError(LEFT)
            raise ConfigurationError("enter the runtime first: async with Runtime(...) as runtime")
        if event_loop() is not self.loop:
            raise ConfigurationError(
                "this runtime was entered in another event loop: use it there "
                "(asyncio.run_coroutine_threadsafe, anyio.from_thread), or make one here"
            )

    async def open(self) -> None:
        """Enter the contexts. Raises what entering raises; a cancellation leaves them again.

        Raises:
            ConfigurationError: they are open already, or `close` was called meanwhile.
        """
        if self._entered:
            raise ConfigurationError("this runtime is entered already; leave it first, or make another one")
        self._entered, loop = True, event_loop()
        self._ready, self._leave, self._gone = anyio.Event(), anyio.Event(), anyio.Event()
        if _in_trio():
            sys.modules["trio"].lowlevel.spawn_system_task(self._keep, name="callgate")
        else:
            self._task = asyncio.create_task(self._keep(), name="callgate")
        try:
            await self._ready.wait()
        except BaseException:
            with contextlib.suppress(Exception):
                await self.close()
            raise
        if self._error is not None:
            await self._gone.wait()
            self._entered = False
            raise self._error
        if self._leave.is_set():
            await self._gone.wait()
            raise ConfigurationError(LEFT)
        self.loop, self._opened = loop, True

    async def close(self) -> None:
        """Leave the contexts, and wait for the end. Raises what leaving raises."""
        self.loop = None
        if not self._entered:
            return
        self._leave.set()
        with anyio.CancelScope(shield=True):
            await self._gone.wait()
        self._entered = False
        if self._error is not None and not isinstance(self._error, asyncio.CancelledError):
            raise self._error

    async def _keep(self) -> None:
        self._error = None
        try:
            async with contextlib.AsyncExitStack() as stack:
                for context in self._contexts():
                    await stack.enter_async_context(context)
                self._ready.set()
                await self._leave.wait()
        except BaseException as error:  # `open` or `close` raises it; the end of the loop cancels this task
            self._error = error
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._ready.set()
            self._gone.set()
