"""How long an event loop is kept from its next turn, in processor time of the whole process.

Processor time and not the clock on the wall: a busy machine keeps the loop waiting as well, and that is nobody's fault
here. The time of every thread counts, because a thread that holds the interpreter's lock stops the loop.

The bounds are those of an ordinary processor, on which a small piece of work takes `YARDSTICK_SECONDS`. Where the same
work takes longer just then, a gap counts for as much less; where it takes less, a gap counts as it is.
"""

from __future__ import annotations

import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from pace import YARDSTICK_SECONDS, yardstick

__all__ = ["Heartbeat", "heartbeat"]

BEAT_SECONDS = 0.001
MOST_SLOWNESS = 3.0


class Heartbeat:
    """What was measured until now.

    Attributes:
        longest_gap_seconds: the most processor time that the process used between two turns of the loop; once the
            block has ended, as an ordinary processor would have had it.
    """

    def __init__(self) -> None:
        self.longest_gap_seconds = 0.0
        self._last = time.process_time()

    def beat(self) -> None:
        """The loop has its turn now."""
        now = time.process_time()
        self.longest_gap_seconds = max(self.longest_gap_seconds, now - self._last)
        self._last = now


@asynccontextmanager
async def heartbeat() -> AsyncIterator[Heartbeat]:
    """Measures while the block runs. Objects that were there before it are left out of garbage collection from now on:
    they are the test suite's, and to look through them takes longer than anything that is measured."""
    gc.collect()
    gc.freeze()
    slow = slowness()
    heart = Heartbeat()

    async def beat() -> None:
        while True:
            await anyio.sleep(BEAT_SECONDS)
            heart.beat()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(beat)
        yield heart
        await anyio.sleep(2 * BEAT_SECONDS)  # what the block did last counts as well
        heart.beat()
        tasks.cancel_scope.cancel()
    heart.longest_gap_seconds /= max(slow, slowness())


def slowness() -> float:
    """How many times as long this processor takes at the moment, 1 to `MOST_SLOWNESS`."""
    took = min(yardstick(time.process_time) for _ in range(3))
    return min(max(took / YARDSTICK_SECONDS, 1.0), MOST_SLOWNESS)
