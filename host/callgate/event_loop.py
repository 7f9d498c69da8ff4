"""Runs a function in an event loop that handles every signal at once and waits for no abandoned thread. Knows which
signals end a command, and how they are received."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Final, TypeVar, TypeVarTuple

import anyio

__all__ = ["ENDINGS", "endings", "run"]

ENDINGS: Final[tuple[signal.Signals, ...]] = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name)
)
"""Signals that ask a process to end, Ctrl-C first. Windows has no SIGHUP; SIGBREAK, of Ctrl-Break, is there only."""

_END_WITHIN_SECONDS = 5.0
"""Time that the first Ctrl-C has before a second one counts. Stubborn MCP servers take under 4 s to end."""

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


def run(function: Callable[[*_Arguments], Awaitable[_Result]], *arguments: *_Arguments) -> _Result:
    """`anyio.run` on asyncio that handles Ctrl-C at once.

    Python runs signal handlers between two instructions of its main thread. A signal that arrives just before the loop
    waits, or in another thread, is handled only when something else wakes the loop, which may be never. Signals wake
    asyncio while it has a signal handler: here it has one from the start
    (https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd).

    For 5 seconds, a second Ctrl-C does not interrupt the clean-up of the first. Threads of ``asyncio.to_thread`` that
    do not end are left to the end of the process.

    Raises:
        KeyboardInterrupt: on SIGINT, after `function` was cancelled.
    """

    async def woken() -> _Result:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(_Executor(thread_name_prefix="asyncio"))
        with _signals_wake(loop), _once():
            return await function(*arguments)

    try:
        return anyio.run(woken)
    except BaseExceptionGroup as group:
        if group.subgroup(KeyboardInterrupt) is None:
            raise
        raise KeyboardInterrupt from None  # a late interrupt, in a task


class _Executor(ThreadPoolExecutor):
    """The executor of ``asyncio.to_thread``, which does not wait for its threads at the end."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        super().shutdown(wait=False, cancel_futures=cancel_futures)


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def _signals_wake(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    helped = _in_main_thread() and isinstance(loop, asyncio.SelectorEventLoop)  # uvloop needs no help
    if sys.platform == "win32" or not helped:  # there, every signal wakes the loop
        yield
    else:
        before = signal.set_wakeup_fd(-1)
        # nobody sends this signal, and by default it does nothing
        loop.add_signal_handler(signal.SIGURG, lambda: None)
        try:
            yield
        finally:
            loop.remove_signal_handler(signal.SIGURG)
            signal.set_wakeup_fd(before)


@contextlib.contextmanager
def endings() -> Iterator[AsyncIterator[signal.Signals]]:
    """Receive the signals of `ENDINGS`, in the order they come in; meanwhile they do nothing else.

    For asyncio, in the main thread.
    """
    if sys.platform != "win32":
        with anyio.open_signal_receiver(*ENDINGS) as signals:
            yield signals
    else:  # no event loop has signal handlers there
        loop = asyncio.get_running_loop()
        send, receive = anyio.create_memory_object_stream[signal.Signals](math.inf)

        def note(number: int, _: FrameType | None) -> None:
            loop.call_soon_threadsafe(send.send_nowait, signal.Signals(number))

        before = {number: signal.signal(number, note) for number in ENDINGS}
        try:
            with send, receive:
                yield receive
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


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
