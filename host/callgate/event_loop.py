"""An event loop that hears of every signal at once. Knows nothing of what runs in it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar, TypeVarTuple

import anyio

__all__ = ["run"]

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")


def run(function: Callable[[*_Arguments], Awaitable[_Result]], *arguments: *_Arguments) -> _Result:
    """`anyio.run` on asyncio, in which no signal is kept waiting: Ctrl-C ends it at once, always.

    Python runs the handlers of signals between two instructions of its main thread. A signal that arrives when the
    loop is just about to wait, or in another thread, would have its turn only when something else wakes the loop, which
    may be never. asyncio lets signals wake it after ``loop.add_signal_handler`` only; here they do from the start, by
    the means that Python has for it: https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd

    Raises:
        KeyboardInterrupt: on SIGINT, when what `function` does has been cancelled.
    """

    async def woken() -> _Result:
        with _signals_wake(asyncio.get_running_loop()):
            return await function(*arguments)

    return anyio.run(woken)


@contextlib.contextmanager
def _signals_wake(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # signals are not for it
        yield
        return
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.setblocking(False)
        loop.add_reader(ours, ours.recv, 4096)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)
