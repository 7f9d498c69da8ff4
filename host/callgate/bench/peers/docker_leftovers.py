"""What runs in containers leave behind, in a process of its own: ``python -m callgate.bench.peers.docker_leftovers``.

Arguments: ``run`` or ``tenant``, and how many runs. It counts before the runtime is there, with its pool full before
and after the runs, and when the event loop is over, and prints all four as JSON.
"""

from __future__ import annotations

import argparse
import functools
import gc
import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Literal

import anyio

from callgate import DockerBackend
from callgate.bench.singles.context import execute, opened, still
from callgate.bench.singles.measures.footprint import descendants
from callgate.sandbox.docker.engine import Engine
from callgate.sandbox.docker.sweep import labels

__all__ = ["Left", "main"]

_END_SECONDS = 10.0
_WARM_UP = 20


@dataclass(frozen=True, slots=True)
class Left:
    """What there is of this process: counts.

    Attributes:
        containers: those the engine knows with this process's label, running or not.
        processes: descendants of this process, and processes of the engine that name one of its containers.
        descriptors: that are open.
        threads: of this process.
    """

    containers: int = 0
    processes: int = 0
    descriptors: int = 0
    threads: int = 0


def _here(ids: set[str]) -> Left:
    gc.collect()
    named = sum(1 for pid in os.listdir("/proc") if pid.isdigit() and _names_one(pid, ids))
    descriptors, threads = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    return Left(0, len(descendants(os.getpid())) + named, descriptors, threads)


def _names_one(pid: str, ids: set[str]) -> bool:
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as line:
        return any(word in ids for word in line.read().decode(errors="replace").split("\0"))
    return False


async def _containers() -> int:
    engine = await Engine.connect()
    try:
        wanted = [f"{name}={value}" for name, value in labels().items()]
        return len(await engine.call("containers", all=True, filters={"label": wanted}))
    finally:
        await engine.close()


async def _runs(per: Literal["run", "tenant"], runs: int, ids: set[str]) -> tuple[Left, Left, float]:
    backend = DockerBackend(per=per)

    async def run(count: int) -> None:
        left = iter(range(count))

        async def work() -> None:
            for _ in left:
                await execute(runtime, "await tick(n=1)")
                ids.update(backend.containers)

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(work)

    async def count() -> Left:
        await still(runtime)
        ids.update(backend.containers)
        return replace(_here(ids), containers=len(backend.containers))

    async with opened(sandbox=backend, pool_size=2) as runtime:
        await run(min(runs, _WARM_UP))
        before = await count()
        started = time.perf_counter()
        await run(runs)
        took = time.perf_counter() - started
        return before, await count(), took


def _settled(before: Left, ids: set[str]) -> Left:
    """What is left once the engine's own processes have ended, or do not."""
    give_up = time.monotonic() + _END_SECONDS
    while True:
        found = replace(_here(ids), containers=anyio.run(_containers))
        if found == before or time.monotonic() > give_up:
            return found
        time.sleep(0.1)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("per", choices=("run", "tenant"))
    parser.add_argument("runs", type=int)
    options = parser.parse_args()
    ids: set[str] = set()
    anyio.run(_containers)  # what is imported and opened once, for good, is so now
    before = replace(_here(ids), containers=anyio.run(_containers))
    first, last, took = anyio.run(functools.partial(_runs, options.per, options.runs, ids))
    after = _settled(before, ids)
    counts = {"before": before, "first": first, "last": last, "after": after}
    told = {name: asdict(each) for name, each in counts.items()}
    print(json.dumps({**told, "seconds": took, "containers_seen": len(ids)}))


if __name__ == "__main__":
    main()
