"""What the kernel says of processes: who descends from whom, what they take, and when a pool of guests is full. Linux.

A runtime's pool tells nobody whether it is full. Guests are processes, or containers, so they can be counted.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import anyio

from callgate import DockerBackend, Runtime
from callgate.sandbox.srt.backend import SrtBackend

__all__ = ["MEGABYTE", "Memory", "Pool", "descendants", "memory_of"]

MEGABYTE = 1_000_000
_SETTLE_SECONDS = 0.015
"""A guest is there once it is forked; until it waits for its program takes about 5 ms."""
_ENGINE_SECONDS = 0.2
"""An engine is still busy for so long with containers that it says are gone."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes: of a process alone (its page tables included), and its proportional share of everything it maps."""

    own: int
    share: int

    def __str__(self) -> str:
        return f"{self.own / MEGABYTE:.2f} MB of its own (with shares of common pages: {self.share / MEGABYTE:.2f} MB)"


def memory_of(pid: int) -> Memory:
    """What a process has. Raises `OSError` where the kernel does not let this user look."""
    sizes: dict[str, int] = {}
    for name in ("smaps_rollup", "status"):
        with open(f"/proc/{pid}/{name}") as file:
            lines = (line.split() for line in file)
            sizes |= {each[0]: int(each[1]) * 1024 for each in lines if len(each) == 3 and each[2] == "kB"}
    tables = sizes.get("VmPTE:", 0)
    return Memory(sizes["Private_Clean:"] + sizes["Private_Dirty:"] + tables, sizes["Pss:"] + tables)


def descendants(pid: int) -> list[int]:
    """Processes that `pid` started, and those that they did."""
    return [each for child in _children(pid) for each in (child, *descendants(child))]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as children:
                found += map(int, children.read().split())
    except OSError:  # it has just ended
        return found
    return found


class Pool:
    """The guests of a runtime that is opened after this was made.

    Args:
        size: the runtime's `pool_size`.
    """

    def __init__(self, size: int = 4) -> None:
        self._size = size
        self._before = set(_children(os.getpid()))

    def guests(self) -> list[int]:
        """Process ids of the guests in a jail: what descends from new children, and has no children itself."""
        new = [each for each in _children(os.getpid()) if each not in self._before]
        return [each for child in new for each in (child, *descendants(child)) if not _children(each)]

    async def calm(self, runtime: Runtime) -> None:
        """Wait until the pool is full, its guests wait for programs, and those that have served are gone."""
        backend = runtime.backend
        containers = isinstance(backend, DockerBackend)

        def living() -> int:
            if isinstance(backend, DockerBackend):
                return len(backend.containers)
            return len(backend.guests if isinstance(backend, SrtBackend) else self.guests())

        with anyio.fail_after(60):
            while living() != self._size:  # noqa: ASYNC110 (see above)
                await anyio.sleep(0.001)
        await anyio.sleep(_ENGINE_SECONDS if containers else _SETTLE_SECONDS)
