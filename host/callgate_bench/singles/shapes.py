"""Graphs of steps, and runs in flight, the same for callgate and for every peer. The standard library alone."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["Needs", "chain", "layers", "longest", "run_many"]

Needs = list[tuple[int, ...]]
"""For every step the steps it needs; these come before it."""


def layers(steps: int, seed: int = 20_261_121) -> Needs:
    """Layers of 10 to 50 steps, each of which needs 1 to 3 of the layer before."""
    draw = random.Random(seed)
    needs: Needs = []
    before = range(0)
    while len(needs) < steps:
        layer = range(len(needs), min(len(needs) + draw.randint(10, 50), steps))
        needs += [tuple(sorted(draw.sample(before, min(draw.randint(1, 3), len(before))))) for _ in layer]
        before = layer
    return needs


def longest(needs: Needs, durations: list[float] | None = None) -> float:
    """How long the longest way through the graph takes; without `durations`, how many steps it has."""
    ends: list[float] = []
    for at, each in enumerate(needs):
        ends.append((durations[at] if durations else 1) + max((ends[need] for need in each), default=0))
    return max(ends, default=0)


def chain(steps: int) -> dict[str, Any]:
    """A plan whose first step calls `give`, and whose others hand on what it gave, by reference, through `keep`."""
    given: list[dict[str, Any]] = [{"id": "s0", "tool": "give", "arguments": {}}]
    for at in range(1, steps):
        given.append({"id": f"s{at}", "tool": "keep", "arguments": {"value": f"$ref:s{at - 1}"}})
    return {"steps": given, "output_steps": [f"s{steps - 1}"]}


async def run_many(run: Callable[[], Awaitable[object]], runs: int, in_flight: int) -> float:
    """How many seconds `runs` runs take, `in_flight` at a time."""
    left = iter(range(runs))

    async def work() -> None:
        for _ in left:
            await run()

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(in_flight)))
    return time.perf_counter() - started
