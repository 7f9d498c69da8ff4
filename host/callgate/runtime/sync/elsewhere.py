"""Waits for a call that needs an open runtime, wherever the runtime is open, or nowhere yet."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from callgate.errors import ConfigurationError
from callgate.runtime.opening import in_its_loop, open_while
from callgate.runtime.runtime import Runtime

from .loop_thread import LoopThread

__all__ = ["wait_for"]

_R = TypeVar("_R")


def wait_for(runtime: Runtime, make: Callable[[], Coroutine[Any, Any, _R]], instead: str) -> _R:
    """Make a call in the event loop in which the runtime is open; open the runtime for the call if it is closed.

    Args:
        runtime: that the call needs.
        make: makes the coroutine.
        instead: what to write in a coroutine of the runtime's own loop, which the wait would block.

    Raises:
        ConfigurationError: the call would wait for itself.
    """
    if runtime.open_in is not None and runtime.open_in is _loop_of_this_thread():
        raise ConfigurationError(f"the runtime is open in this event loop, which the call would block: {instead}")

    async def call() -> _R:
        async with open_while(runtime):
            return await in_its_loop(runtime, make)

    return _shared_thread().wait(call)


def _loop_of_this_thread() -> object:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


_shared: LoopThread | None = None
_lock = threading.Lock()


def _shared_thread() -> LoopThread:
    """One thread, from its first use to the end of the process: a model's connections belong to the event loop in
    which they were made, and the next call needs them."""
    global _shared
    with _lock:
        if _shared is None or not _shared.is_open:
            _shared = LoopThread()
        return _shared
