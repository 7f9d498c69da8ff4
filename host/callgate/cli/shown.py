"""What is to be shown, in the order in which it came: taken in at once, written in a thread. Knows nothing of what.

So a slow reader (a pager, a full pipe) holds up neither the work nor its clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

from callgate import CallgateError

from .words import OutputLost

__all__ = ["Item", "Shown"]

Item = TypeVar("Item")
Result = TypeVar("Result")


class Shown(ABC, Generic[Item]):
    """Waits for things to show, until there are no more. What shows them is `_show`, called in a thread."""

    def __init__(self) -> None:
        self._waiting: list[Item] = []
        self._news = anyio.Event()
        self._done = anyio.Event()
        self._over = False
        self.fault: OSError | None = None
        """Why nothing can be written any more: nobody reads it, or there is no room."""

    def add(self, *items: Item) -> None:
        """Take them in; never blocks."""
        if items:
            self._waiting.extend(items)
            self._news.set()

    def finish(self) -> None:
        """There is no more to come: `drain` returns when everything is shown."""
        self._over = True
        self._news.set()

    async def settle(self) -> None:
        """Wait until everything so far is shown."""
        while self._waiting and self.fault is None:
            await self._done.wait()

    async def drain(self, stop: Callable[[], None] | None = None) -> None:
        """Show what comes, until `finish`; calls `stop` when nothing can be written any more."""
        while self._waiting or not self._over:
            if not self._waiting:
                self._news = anyio.Event()
                await self._news.wait()
                continue
            items = self._waiting[:]
            try:
                await anyio.to_thread.run_sync(self._show, items, abandon_on_cancel=True)
            except OSError as fault:
                self.fault = fault
                if stop is not None:
                    stop()
                return
            del self._waiting[: len(items)]
            self._done.set()
            self._done = anyio.Event()

    async def during(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Show what comes while this is done, and give what comes of it.

        Raises:
            CallgateError: that of `work`.
            OutputLost: nothing can be written any more; `work` was cancelled.
        """
        self._over = False
        result: list[Result] = []
        failure: CallgateError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.drain, tasks.cancel_scope.cancel)
            try:
                result.append(await work())
            except CallgateError as error:
                failure = error
            self.finish()
        if self.fault is not None:
            raise OutputLost(self.fault)
        if failure is not None:
            raise failure
        return result[0]

    @abstractmethod
    def _show(self, items: list[Item]) -> None:
        """Show them; called in a thread."""
