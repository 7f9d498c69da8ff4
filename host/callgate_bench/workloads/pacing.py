"""How long the tools take: simulated waits, and a factor on all of them. Knows no tool."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable
from typing import Any

__all__ = ["at_once", "pace", "seconds_for", "wait"]


class _Pace:
    factor = 1.0


def pace(factor: float) -> None:
    """Make every simulated wait of this process `factor` times as long; 0 for none at all.

    Raises:
        ValueError: it is less than 0, or no number.
    """
    if not factor >= 0:
        raise ValueError(f"the factor of the waits must be at least 0, not {factor!r}")
    _Pace.factor = factor


async def wait(least: float, most: float, *arguments: object) -> None:
    """Wait as a service does: between `least` and `most` seconds, see `seconds_for`, times the factor.

    In a thread without an event loop it blocks, as a synchronous tool does, so that peers whose tools are such need no
    loop: see `at_once`.
    """
    if not _Pace.factor:
        return
    seconds = seconds_for(least, most, *arguments) * _Pace.factor
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        time.sleep(seconds)  # noqa: ASYNC251 (it is said to)
    else:
        await asyncio.sleep(seconds)


def at_once(called: Awaitable[Any]) -> Any:
    """What a workload's tool gives, in this thread, which has no event loop.

    Args:
        called: a call of the tool.

    Raises:
        RuntimeError: it waits for something else than its pace.
    """
    steps = called.__await__()
    try:
        next(steps)
    except StopIteration as ended:
        return ended.value
    raise RuntimeError("the tool waits for an event loop, and there is none in this thread")


def seconds_for(least: float, most: float, *arguments: object) -> float:
    """How long a service takes: between `least` and `most` seconds, the same for the same `arguments` each time."""
    share = zlib.crc32(repr(arguments).encode()) / 0xFFFFFFFF
    return least + (most - least) * share
