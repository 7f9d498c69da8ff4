"""pydantic-monty: ``python -m callgate_bench.contestants.monty``.

A pool of Monty's workers, each program in a session of its own with the tools as external functions, as its README has
it. It has no texts for models, so it is described in callgate's words.

`measure` and `throughput` are what single things are measured beside.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import Mapping
from typing import Any

from pydantic_monty import (
    AsyncMonty,
    CollectString,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
    ResourceLimits,
)

from callgate_bench.contestants.contestant import CannotDo, Contestant, Opened
from callgate_bench.serving import serve
from callgate_bench.singles.shapes import run_many

__all__ = ["Monty"]

_NO_LIMIT = ResourceLimits(max_suspensions=10_000_000)
"""Its default of 1,000 suspensions ends a program after some 500 calls."""


class Monty(Contestant):
    """Programs in Monty.

    Args:
        pool: of its workers.
    """

    packages = ("pydantic-monty",)

    def __init__(self, pool: AsyncMonty) -> None:
        super().__init__()
        self._pool = pool
        self._stamps: list[float] = []

    async def show(self) -> Opened:
        """Nothing of its own."""
        return Opened(own_words=False)

    async def run(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Run a program in a session of its own."""
        printed = CollectString()
        functions = {each.__name__: each for each in self.tools}
        try:
            async with self._pool.checkout() as session:
                value = await session.feed_run(arguments["code"], external_lookup=functions, print_callback=printed)
        except (MontySyntaxError, MontyRuntimeError) as error:
            if self.scripted and isinstance(error.exception(), NotImplementedError | ImportError | SyntaxError):
                raise CannotDo(error.display("type-msg")) from None
            return printed.output + error.display()
        except MontyError as error:
            return f"{printed.output}{type(error).__name__}: {error}"
        return printed.output + _text(value)

    async def measure(self, code: str) -> dict[str, Any]:
        """How long a program takes, and the times between its calls of `tick`, in seconds."""
        self._stamps.clear()
        took = await self._took(code)
        return {"seconds": took, "round_trips": [after - before for before, after in itertools.pairwise(self._stamps)]}

    async def throughput(self, code: str, runs: int, in_flight: int) -> dict[str, Any]:
        """How many seconds `runs` runs take, `in_flight` at a time."""
        return {"seconds": await run_many(lambda: self._took(code), runs, in_flight)}

    async def _took(self, code: str) -> float:
        async def tick(n: int = 0) -> int:
            self._stamps.append(time.perf_counter())
            return n

        async def pause(seconds: float) -> float:
            await asyncio.sleep(seconds)
            return seconds

        started = time.perf_counter()
        async with self._pool.checkout(limits=_NO_LIMIT) as session:
            functions = {"tick": tick, "pause": pause}
            await session.feed_run(code, external_lookup=functions, print_callback=CollectString())
        return time.perf_counter() - started


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


async def main() -> None:
    """Serve until stdin ends."""
    async with AsyncMonty() as pool:
        await serve(Monty(pool))


if __name__ == "__main__":
    asyncio.run(main())
