"""The timeout of attempts that one task makes one after the other. Knows time and scopes, no tool and no call."""

from __future__ import annotations

import asyncio
import math
from types import TracebackType
from typing import Any

import anyio

from callgate.runtime.context_task import event_loop

__all__ = ["Deadline"]


class Deadline:
    """One cancel scope for many attempts of one task: entering one for each attempt costs twice as much.

    ``with deadline.after(seconds) as scope`` behaves like ``with anyio.move_on_after(seconds) as scope``. Between
    attempts the scope stays entered, without a deadline; a cancelled one is left, and the next attempt enters another.
    The task calls `close` when its scopes are the same as at the first attempt.
    """

    __slots__ = ("_cancelling", "_scope", "_task")

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None
        self._task: asyncio.Task[Any] | None = None
        self._cancelling = 0
        """Requests to cancel the task that were there when the scope was entered; asyncio only."""

    def after(self, seconds: float) -> Deadline:
        """Set the time that the next attempt may take."""
        scope = self._scope
        if scope is None or (self._task is not None and self._task.cancelling() != self._cancelling):
            scope = self._enter()
        scope.deadline = anyio.current_time() + seconds
        return self

    def _enter(self) -> anyio.CancelScope:
        self.close()
        loop = event_loop()
        if isinstance(loop, asyncio.AbstractEventLoop):
            self._task = asyncio.current_task(loop)
            self._cancelling = 0 if self._task is None else self._task.cancelling()
        self._scope = scope = anyio.CancelScope()
        scope.__enter__()
        return scope

    def __enter__(self) -> anyio.CancelScope:
        assert self._scope is not None
        return self._scope

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        scope = self._scope
        assert scope is not None
        if scope.cancel_called:
            self._scope = None
            return bool(scope.__exit__(kind, error, at))
        scope.deadline = math.inf
        return False

    def close(self) -> None:
        """Leave the scope."""
        scope, self._scope = self._scope, None
        if scope is not None:
            scope.__exit__(None, None, None)
