"""A blocking call that has an end: it is given up when its time is over. Knows nothing of what it calls.

The thread is a daemon, and so is every thread that it starts: a peer that never answers holds up neither the caller nor
the end of the process. (On asyncio, anyio's own worker threads are no daemons: one that is stuck keeps Python from
ending.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["within"]

_T = TypeVar("_T")


def within(seconds: float, function: Callable[..., _T], *arguments: object) -> _T:
    """Call `function` in a thread of its own and return what it returns, or raise what it raises.

    Raises:
        TimeoutError: it is not done after `seconds`; it goes on by itself, and nobody hears of its outcome.
    """
    outcome: Future[_T] = Future()

    def work() -> None:
        try:
            outcome.set_result(function(*arguments))
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=work, name="callgate, asking", daemon=True).start()
    return outcome.result(seconds)
