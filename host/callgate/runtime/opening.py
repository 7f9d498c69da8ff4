"""Opens a runtime for agents that run in event loops of their own; makes calls in the loop that it is open in.

1. A runtime that its owner entered is used there, and never left from here: a call from another event loop is handed
   to the owner's.
2. A runtime that is not open is entered by the first holder and left when the last holder is done. It lives in the
   first holder's event loop; holders in other loops hand their calls to that one, and the first holder's loop waits
   for them before it leaves the runtime.
3. While it is being entered or left, others wait. If entering fails, the holder that entered gets the error, and the
   next one tries again.

Knows asyncio alone. State is changed under a lock of threads; waiting is done outside it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from callgate.errors import ConfigurationError

from .runtime import Runtime

__all__ = ["in_its_loop", "open_while"]

Result = TypeVar("Result")


@contextlib.asynccontextmanager
async def open_while(runtime: Runtime) -> AsyncIterator[None]:
    """A block in which the runtime is open, here or in another event loop.

    Raises:
        CallgateError: entering fails; see `Runtime`.
    """
    with _lock:
        opening = _openings.setdefault(runtime, Opening())
    held = await opening.take(runtime)
    try:
        yield
    finally:
        if held:
            await opening.give_back(runtime)


async def in_its_loop(runtime: Runtime, call: Callable[[], Awaitable[Result]]) -> Result:
    """Make a call in the event loop in which the runtime is open. Cancelling this cancels the call.

    Raises:
        ConfigurationError: the runtime was left, or its event loop ended, before the call had.
    """
    loop = runtime.open_in
    if not isinstance(loop, asyncio.AbstractEventLoop) or loop is asyncio.get_running_loop():
        return await call()
    if not loop.is_running():
        raise ConfigurationError(
            "this runtime is open in an event loop that is not running: leave it there, or enter it in this one"
        )

    async def made() -> Result:
        return await call()

    try:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(made(), loop))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise ConfigurationError("the event loop in which this runtime was open ended before the call did") from None


class Opening:
    """The holders of one open runtime, by event loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None  # where it was entered from here
        self._holders: Counter[asyncio.AbstractEventLoop] = Counter()
        self._changing: Future[None] | None = None  # while it is being entered or left
        self._others_done: Future[None] | None = None  # what the loop that entered waits for

    async def take(self, runtime: Runtime) -> bool:
        """Hold the runtime open. False where its owner entered it: then there is nothing to give back."""
        here = asyncio.get_running_loop()
        while True:
            with _lock:
                changing = self._changing
                if changing is None:
                    if self._loop is not None:
                        self._holders[here] += 1
                        return True
                    if runtime.open_in is not None:
                        return False
                    self._loop = here
                    entering = self._changing = _future()
                    break
            await asyncio.wrap_future(changing)
        entered = False
        try:
            await runtime.__aenter__()
            entered = True
            return True
        finally:
            with _lock:
                self._changing = None
                if entered:
                    self._holders[here] += 1
                else:
                    self._loop = None
            entering.set_result(None)

    async def give_back(self, runtime: Runtime) -> None:
        """End one hold. The last holder of the loop that entered the runtime waits for holders in other loops, and then
        leaves the runtime. Where the wait is cancelled, it leaves the runtime at once."""
        here = asyncio.get_running_loop()
        cancelled = False
        with _lock:
            self._holders[here] -= 1
            self._holders += Counter()  # drops loops without a holder, which would be kept alive
            if self._others_done is not None and set(self._holders) <= {self._loop}:
                self._others_done.set_result(None)
                self._others_done = None
        while True:
            with _lock:
                if here is not self._loop or self._holders[here] or self._changing is not None:
                    return
                if not self._holders or cancelled:
                    leaving = self._changing = _future()
                    break
                if self._others_done is None:
                    self._others_done = _future()
                others_done = self._others_done
            try:
                await asyncio.wrap_future(others_done)
            except asyncio.CancelledError:
                cancelled = True
        try:
            await runtime.__aexit__(None, None, None)
        finally:
            with _lock:
                self._loop = self._changing = None
            leaving.set_result(None)
        if cancelled:
            raise asyncio.CancelledError


def _future() -> Future[None]:
    """A future for several waiters: cancelling one of them does not cancel the future for the others."""
    made: Future[None] = Future()
    made.set_running_or_notify_cancel()
    return made


_lock = threading.Lock()
_openings: WeakKeyDictionary[Any, Opening] = WeakKeyDictionary()
