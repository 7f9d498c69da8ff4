"""Runs a coroutine to its first wait, at once: many coroutines end without any wait. Knows nothing of jobs.

`in_the_name_of` lets a callback of asyncio's event loop do so for a task that waits meanwhile, and that completes the
coroutine if the coroutine waits. The coroutine finds itself in that task from its first step on, with the task's cancel
scopes. asyncio has `_enter_task` and `_leave_task` for this:
https://docs.python.org/3/library/asyncio-extending.html#task-lifetime-support
"""

from __future__ import annotations

import asyncio
import contextvars
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["FirstStep", "asyncio_task", "in_the_name_of"]

Result = TypeVar("Result")


class FirstStep(Generic[Result]):
    """Runs a coroutine to its first wait, and raises its exceptions.

    Under trio, the caller must not wake anything that the coroutine waits for between the first step and `rest`.
    asyncio's futures allow it.

    Attributes:
        waits: whether the coroutine waits; then `await step.rest()` completes it.
        result: the result of a coroutine that has ended.
    """

    __slots__ = ("_coroutine", "_run", "_yielded", "result", "waits")

    result: Result

    def __init__(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self._coroutine = coroutine
        self._run = contextvars.copy_context().run  # the tool gets its own context, as in a task of its own
        try:
            self._yielded = self._run(coroutine.send, None)
            self.waits = True
        except StopIteration as end:
            self.result = end.value
            self.waits = False

    @types.coroutine
    def rest(self, thrown: BaseException | None = None) -> Generator[Any, Any, Result]:
        """Run the coroutine to its end.

        Args:
            thrown: what was raised in this task between the first step and now.
        """
        yielded, sent = self._yielded, None
        if isinstance(thrown, asyncio.CancelledError) and asyncio.isfuture(yielded) and yielded.cancel(*thrown.args):
            thrown = None  # as `Task.cancel` does it: the end of `yielded` raises
        while True:
            if thrown is None:
                try:
                    sent = yield yielded
                except GeneratorExit:
                    self._coroutine.close()
                    raise
                except BaseException as error:
                    thrown = error
            try:
                if thrown is None:
                    yielded = self._run(self._coroutine.send, sent)
                else:
                    yielded = self._run(self._coroutine.throw, thrown)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                thrown = None


def in_the_name_of(task: asyncio.Task[Any], work: Callable[[], Result]) -> Result:
    """Do `work` as if the waiting `task` did it. Only for callbacks of asyncio's event loop, also inside other `work`.

    Args:
        task: a task of this event loop that is not done.
        work: runs at once, and returns.
    """
    loop, current = task.get_loop(), asyncio.current_task()
    if current is not None:
        asyncio._leave_task(loop, current)
    asyncio._enter_task(loop, task)
    try:
        return work()
    finally:
        asyncio._leave_task(loop, task)
        if current is not None:
            asyncio._enter_task(loop, current)


def asyncio_task() -> asyncio.Task[Any] | None:
    """The current task; None under trio."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
