"""pydantic-monty: ``python -m callgate.bench.contestants.monty_code``.

A pool of Monty's workers, each program in a session of its own with the tools as external functions, as its README has
it. It has no texts for models, so it is described in callgate's words.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import json
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from callgate.bench.contestants.seat import CannotDo, Meter, Opened, Steered, Turn, answered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.workload import Function, Workload

try:
    from pydantic_monty import (
        AsyncMonty,
        CollectString,
        MontyError,
        MontyRuntimeError,
        MontySyntaxError,
    )
except ImportError:  # an optional peer: the harness says so
    sys.exit("pydantic-monty is not installed")

__all__ = ["MontyCode"]


class MontyCode(Steered):
    """The functions that may be asked for: see `seat.Contestant`.

    Args:
        workloads: by name.
    """

    def __init__(self, workloads: Mapping[str, Workload] = WORKLOADS) -> None:
        self._workloads = workloads
        self._meter = Meter()
        self._stack = AsyncExitStack()
        self._pool: AsyncMonty | None = None
        self._functions: dict[str, Function] = {}

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """The tools of the workload, and a pool with a worker."""
        self.steer(paced, scripted)
        self._functions = {each.__name__: self._meter.metered(each) for each in self._workloads[workload].tools}
        if self._pool is None:
            self._pool = await self._stack.enter_async_context(AsyncMonty())
        return answered(Opened(tools=[], form="program", tool="execute_code", argument="code", own_words=False))

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Run the programs, each in a session of its own."""
        self._meter.taken()
        started = time.perf_counter()
        texts = await asyncio.gather(*(self._run(each["arguments"]["code"]) for each in calls))
        seconds = time.perf_counter() - started
        return answered(Turn(texts=list(texts), seconds=seconds, intervals=self._meter.taken()))

    async def _run(self, code: str) -> str:
        assert self._pool is not None
        printed = CollectString()
        try:
            async with self._pool.checkout() as session:
                value = await session.feed_run(code, external_lookup=self._functions, print_callback=printed)
        except (MontySyntaxError, MontyRuntimeError) as error:
            if self.scripted and isinstance(error.exception(), NotImplementedError | ImportError | SyntaxError):
                raise CannotDo(error.display("type-msg")) from None
            return printed.output + error.display()
        except MontyError as error:
            return f"{printed.output}{type(error).__name__}: {error}"
        return printed.output + _text(value)

    async def version(self) -> dict[str, Any]:
        """Of pydantic-monty."""
        return {"version": importlib.metadata.version("pydantic-monty")}

    async def aclose(self) -> dict[str, Any]:
        """End the workers."""
        await self._stack.aclose()
        return {}


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return repr(value)


if __name__ == "__main__":
    asyncio.run(serve(MontyCode()))
