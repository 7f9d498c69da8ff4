"""A peer's own process: ``python -m callgate.bench.peers.tasks``. An asyncio task for every step, and nothing else.

What one would write without a plan engine: each task awaits the tasks it needs, and calls the tool with their results.
Nothing is validated, recorded, bounded or told, and the first error would end it all: a lower bound. `serving` says how
it is asked.
"""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

from callgate.bench.serving import serve
from callgate.bench.singles.shapes import Needs, Shape, shape


async def _add(a: int = 0, b: int = 0, c: int = 0) -> int:
    return 1


async def _execute(needs: Needs) -> list[int]:
    tasks: list[asyncio.Task[int]] = []

    async def step(needed: tuple[int, ...]) -> int:
        given = [await tasks[need] for need in needed]
        return await _add(*given)

    tasks += [asyncio.create_task(step(needed)) for needed in needs]
    return [await task for task in tasks]


class Peer:
    """The functions that may be asked for."""

    async def run(self, name: Shape, steps: int) -> dict[str, Any]:
        """How many seconds one execution of the graph takes.

        Raises:
            RuntimeError: not every step ran.
        """
        needs = shape(name, steps)
        gc.collect()
        started = time.perf_counter()
        results = await _execute(needs)
        took = time.perf_counter() - started
        if sum(results) != steps:
            raise RuntimeError(f"{sum(results)} of {steps} steps ran")
        return {"seconds": took}


if __name__ == "__main__":
    asyncio.run(serve(Peer()))
