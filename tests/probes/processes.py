"""What this machine's /proc says of processes; and waiting, with a bound, for what nobody tells of."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["children", "descendants", "eventually", "guests_of", "processes", "resident_bytes", "status_of"]

DEADLINE_SECONDS = 10.0


def eventually(condition: Callable[[], bool], what: str, seconds: float = DEADLINE_SECONDS) -> float:
    """Look again and again until `condition` holds; how long that took. Fails the test at the deadline."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < seconds, f"not within {seconds:g} s: {what}"
        select.select([], [], [], 0.002)  # leave the processor to what is waited for
    return time.monotonic() - started


def processes(*, zombies: bool = True) -> dict[int, int]:
    """Every process that /proc shows: pid to parent.

    A zombie does nothing any more, but its parent has not asked how it ended.
    """
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{name}/stat").read_text()
                state, parent = text[text.rindex(")") + 2 :].split()[:2]
                if zombies or state not in "ZX":
                    found[int(name)] = int(parent)
    return found


def children(of: int) -> set[int]:
    """Pids of the processes right below `of`."""
    return {pid for pid, parent in processes().items() if parent == of}


def guests_of(supervisor: int) -> set[int]:
    """What the process forks that a container's supervisor has for that."""
    return {guest for forker in children(supervisor) for guest in children(forker)}


def descendants(of: int) -> set[int]:
    """Pids of all processes below `of`."""
    below: dict[int, list[int]] = {}
    for pid, parent in processes().items():
        below.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = [of]
    while todo:
        for pid in below.get(todo.pop(), ()):
            found.add(pid)
            todo.append(pid)
    return found


def status_of(pid: int) -> dict[str, str]:
    """The fields of /proc/<pid>/status."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def resident_bytes() -> int:
    """Memory of this process, without what the C library keeps for later although nobody holds it."""
    ctypes.CDLL(None).malloc_trim(0)
    return int(status_of(os.getpid())["VmRSS"].split()[0]) * 1024
