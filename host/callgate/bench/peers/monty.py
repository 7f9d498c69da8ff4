"""The peer's own process: ``python -m callgate.bench.peers.monty``. The one file that imports pydantic_monty.

It is asked and answers as `serving` says; that it ends without an interpreter shutdown matters here.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from typing import Any

from callgate.bench.serving import serve

try:
    from pydantic_monty import AsyncMonty, CollectString, ResourceLimits
except ImportError:  # an optional peer: the harness asks first
    sys.exit("pydantic-monty is not installed")

_NO_LIMIT = ResourceLimits(max_suspensions=10_000_000)
"""Its default of 1,000 suspensions ends a program after some 500 calls; see `calls` with ``limited``."""


class Peer:
    """The functions that may be asked for."""

    def __init__(self, pool: AsyncMonty) -> None:
        self._pool = pool
        self._stamps: list[float] = []

    async def _tick(self, n: int = 0) -> int:
        self._stamps.append(time.perf_counter())
        return n

    async def _pause(self, seconds: float) -> float:
        await asyncio.sleep(seconds)
        return seconds

    async def _feed(self, code: str, *, limited: bool = False) -> float:
        started = time.perf_counter()
        async with self._pool.checkout(limits=None if limited else _NO_LIMIT) as session:
            await session.feed_run(
                code, external_lookup={"tick": self._tick, "pause": self._pause}, print_callback=CollectString()
            )
        return time.perf_counter() - started

    async def run(self, code: str, count: int = 1) -> dict[str, Any]:
        """Durations of `count` runs of `code`, each in a fresh checkout."""
        return {"seconds": [await self._feed(code) for _ in range(count)]}

    async def round_trips(self, code: str) -> dict[str, Any]:
        """The times between the calls of `tick` that `code` makes."""
        self._stamps.clear()
        await self._feed(code)
        return {"seconds": [later - earlier for earlier, later in itertools.pairwise(self._stamps)]}

    async def limited(self, code: str) -> dict[str, Any]:
        """How `code` ends under the default limits, and after how many calls."""
        self._stamps.clear()
        try:
            await self._feed(code, limited=True)
        except Exception as error:
            return {"calls": len(self._stamps), "error": f"{type(error).__name__}: {error}"[:300]}
        return {"calls": len(self._stamps), "error": ""}

    async def throughput(self, code: str, runs: int, in_flight: int) -> dict[str, Any]:
        """How long `runs` runs take, so many at a time."""
        left = iter(range(runs))

        async def work() -> None:
            for _ in left:
                await self._feed(code)

        started = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(in_flight)))
        return {"seconds": time.perf_counter() - started}

    async def workers(self) -> dict[str, Any]:
        """Process ids of its workers, one of which has run something."""
        await self._feed("1 + 1")
        await asyncio.sleep(0.2)
        return {"pids": _children()}


def _children() -> list[int]:
    found: list[int] = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children") as children:
            found += map(int, children.read().split())
    return found


async def main() -> None:
    """Serve until stdin ends."""
    async with AsyncMonty() as pool:
        await serve(Peer(pool))


if __name__ == "__main__":
    asyncio.run(main())
