"""A coroutine begun at once: many end without having waited for anything, and then nobody has to look for more to do.

What is done between the first step and the rest must wake nobody that the coroutine waits for.
"""

from __future__ import annotations

import contextvars
import types
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["FirstStep"]

Result = TypeVar("Result")


class FirstStep(Generic[Result]):
    """Makes the first step of `coroutine`, and raises what that raises.

    Attributes:
        waits: it waits for something; `await step.rest()` is as good as awaiting the coroutine.
        result: what it gave, where it has ended.
    """

    __slots__ = ("_coroutine", "_run", "_yielded", "result", "waits")

    result: Result

    def __init__(self, coroutine: Coroutine[Any, Any, Result]) -> None:
        self._coroutine = coroutine
        self._run = contextvars.copy_context().run  # what a tool sets is its own affair, as in a task of its own
        try:
            self._yielded = self._run(coroutine.send, None)
            self.waits = True
        except StopIteration as end:
            self.result = end.value
            self.waits = False

    @types.coroutine
    def rest(self) -> Generator[Any, Any, Result]:
        """Go on to the end."""
        yielded = self._yielded
        while True:
            thrown: BaseException | None = None
            sent: Any = None
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
                del thrown
