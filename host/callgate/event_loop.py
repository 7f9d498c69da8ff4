"""An event loop that hears of every signal at once, and waits for no thread that was given up. Knows nothing of what
runs in it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import TypeVar, TypeVarTuple

import anyio

__all__ = ["run"]

_END_WITHIN_SECONDS = 5.0
"""What Ctrl-C began may take so long before another one breaks it off. MCP servers that will not end take under 4."""

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


def run(function: Callable[[*_Arguments], Awaitable[_Result]], *arguments: *_Arguments) -> _Result:
    """`anyio.run` on asyncio, in which no signal is kept waiting: Ctrl-C is heard at once, always.

    Python runs the handlers of signals between two instructions of its main thread. A signal that arrives when the
    loop is just about to wait, or in another thread, would have its turn only when something else wakes the loop, which
    may be never. asyncio lets signals wake it while it has a handler of any: here it has one from the start
    (https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd).

    A second Ctrl-C does not break off what the first one began, for 5 seconds; and threads of
    ``asyncio.to_thread`` that do not end are left to whoever ends the process.

    Raises:
        KeyboardInterrupt: on SIGINT, when what `function` does has been cancelled.
    """

    async def woken() -> _Result:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(_Forsaken(thread_name_prefix="asyncio"))
        with _signals_wake(loop), _once():
            return await function(*arguments)

    try:
        return anyio.run(woken)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None  # a late one, in a task


class _Forsaken(ThreadPoolExecutor):
    """Where ``asyncio.to_thread`` runs things: at its end asyncio would wait for each."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _signals_wake(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    if not _in_main_thread() or not isinstance(loop, asyncio.SelectorEventLoop):  # uvloop always hears of them
        yield
        return
    before = signal.set_wakeup_fd(-1)
    # a signal that nobody sends, and that does nothing by default either
    loop.add_signal_handler(signal.SIGURG, lambda: None)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGURG)
        signal.set_wakeup_fd(before)


@contextlib.contextmanager
def _once() -> Iterator[None]:
    interrupts = signal.getsignal(signal.SIGINT)
    if not _in_main_thread() or not callable(interrupts):
        yield
        return
    last: float | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last
        if last is None or time.monotonic() - last > _END_WITHIN_SECONDS:
            last = time.monotonic()
            interrupts(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, interrupts)
