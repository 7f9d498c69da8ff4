"""DBOS on SQLite: ``python -m callgate_bench.contestants.dbos_workflow``.

DBOS makes functions durable that a developer wrote, so no workload is for it; durable runs are measured beside it. A
workflow makes steps, each an async function that does nothing, as DBOS's documentation has it for steps at the same
time: numbers are reserved in the order of the program. Everything that is not named here is DBOS's default, SQLite's
settings among them: a rollback journal, and `synchronous=FULL`. A step's result is committed; its beginning is not.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID

from callgate_bench.serving import serve

__all__ = ["Workflows"]

_seconds: list[float] = []
"""How long the steps of each workflow took, seen from within it."""


async def tick(n: int) -> int:
    """The cheapest step there is."""
    return n


@DBOS.workflow()
async def steps(calls: int, in_flight: int) -> int:
    """Make so many steps, so many of them at a time."""
    started = time.perf_counter()
    free = asyncio.Semaphore(in_flight)
    reserved = [DBOS.reserve_step() for _ in range(calls)]

    async def one(n: int) -> int:
        async with free:
            return await reserved[n].run_async({"name": "tick"}, tick, n)

    made = len(await asyncio.gather(*map(one, range(calls))))
    _seconds.append(time.perf_counter() - started)
    await DBOS.run_step_async({"name": "end"}, tick, made)
    return made


class Workflows:
    """DBOS, with its database in one folder at a time."""

    def __init__(self) -> None:
        self._folder = ""

    async def calls(self, folder: str, calls: int, in_flight: int) -> dict[str, Any]:
        """How many seconds a workflow of so many steps takes, from its start to its result."""
        self._open(folder)
        started = time.perf_counter()
        await _made(steps(calls, in_flight), calls)
        return {"seconds": time.perf_counter() - started}

    async def replay(self, folder: str, calls: int, in_flight: int) -> dict[str, Any]:
        """How many seconds the steps take in a workflow that is run again after its last step but one."""
        self._open(folder)
        first = uuid.uuid4().hex
        with SetWorkflowID(first):
            await _made(steps(calls, in_flight), calls)
        again = await DBOS.fork_workflow_async(first, calls + 1)
        await _made(again.get_result(), calls)
        return {"seconds": _seconds[-1]}

    async def aclose(self) -> dict[str, Any]:
        """End it."""
        if self._folder:
            DBOS.destroy()
        return {}

    def _open(self, folder: str) -> None:
        if folder == self._folder:
            return
        if self._folder:
            DBOS.destroy()
        self._folder = folder
        database = Path(folder, "dbos.sqlite")
        DBOS(config={"name": "beside", "system_database_url": f"sqlite:///{database}", "log_level": "ERROR"})
        DBOS.launch()


async def _made(result: Any, calls: int) -> None:
    if await result != calls:
        raise RuntimeError(f"not {calls} steps")


if __name__ == "__main__":
    asyncio.run(serve(Workflows()))
