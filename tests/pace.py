"""The clock in tests: bounds are those of an ordinary machine that has nothing else to do, and stretch on another."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

__all__ = ["YARDSTICK_SECONDS", "stretched", "yardstick"]

YARDSTICK_SECONDS = 0.0027
"""Of one core of an AMD EPYC (2 shared cores, Python 3.11) for `yardstick`; measured, 2.6 to 3.0 ms."""
MOST = 4.0
_ROUNDS = 10
"""Together some scheduler's slices long, so that other processes count."""


def stretched(seconds: float) -> float:
    """`seconds` on the clock, times how much longer this machine takes at the moment: 1 to `MOST` times."""
    took = sum(yardstick(time.monotonic) for _ in range(_ROUNDS)) / _ROUNDS
    return seconds * min(max(took / YARDSTICK_SECONDS, 1.0), MOST)


def yardstick(clock: Callable[[], float]) -> float:
    """Seconds that a fixed piece of work takes by `clock`."""
    began = clock()
    total = 0
    for number in range(30_000):
        total += number * number % 7
    json.loads(json.dumps(list(range(20_000))))
    return clock() - began
