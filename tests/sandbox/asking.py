"""Talks to a guest through the verbs of `Guest` alone (`callgate.testing`), and says where a guest lives."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from callgate.sandbox.backend import Guest
from callgate.sandbox.docker.guest import ContainerGuest
from callgate.testing.asking import ALLOWANCE, SECONDS, Heard, ask, hear, open_files, request, until

__all__ = [
    "ALLOWANCE", "SECONDS", "Heard", "ask", "containers", "descendants", "gone", "hear", "open_files", "place_of",
    "request", "until",
]  # fmt: skip


def descendants() -> list[int]:
    """Processes below this one, zombies included."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(entry.joinpath("stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found, todo = [], [os.getpid()]
    while todo:
        above = todo.pop()
        below = [pid for pid, parent in parents.items() if parent == above]
        found += below
        todo += below
    return found


def place_of(guest: Guest) -> int | str:
    """What has to be gone after it: its process, or its container."""
    if isinstance(guest, ContainerGuest):
        return guest.container.id
    pid: int = guest.pid  # type: ignore[attr-defined]
    return pid


def containers() -> list[str]:
    """Ids of the containers that the engine knows, those that have ended included."""
    ran = subprocess.run(["docker", "ps", "-aq", "--no-trunc"], capture_output=True, text=True, check=True, timeout=60)
    return ran.stdout.split()


async def gone(place: int | str) -> bool:
    """Whether a process or a container goes away, within a bounded time."""
    if isinstance(place, str):
        await until(lambda: place not in containers())
    else:
        await until(lambda: not Path(f"/proc/{place}").exists())
    return True
