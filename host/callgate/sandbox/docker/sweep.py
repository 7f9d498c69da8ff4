"""Containers whose host has died: who owns a container, and the removal of those that nobody owns any more.

A container ends with its stdin, and the engine then removes it; what this finds is what fell between: made and never
started, or left by an engine that was killed itself.

An owner is named by the kernel's boot, the pid namespace, the process and when that was started, so that a number that
was given out again is not taken for the process that had it. An owner of another boot or pid namespace cannot be asked,
so its containers are removed only where they do not run and are old.
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

from .engine import Engine, EngineRefused

__all__ = ["LABEL", "enter", "labels", "leave", "sweep"]

LABEL = "callgate.owner"
"""Every container of callgate has it."""
_BACKEND = "callgate.backend"
_OLD_SECONDS = 600.0
_NEVER_RAN = frozenset({"created", "exited", "dead"})

logger = logging.getLogger("callgate")


_here: set[str] = set()
"""The backends of this process that are not over."""


def labels(backend: str = "") -> dict[str, str]:
    """The labels of a container that this process owns, or one of its backends."""
    return {LABEL: f"{_kernel()}:{os.getpid()}:{_started(os.getpid())}", _BACKEND: backend}


def enter(backend: str) -> None:
    """What has this name in its labels is in use."""
    _here.add(backend)


def leave(backend: str) -> None:
    """What still has this name in its labels is left over, e.g. made by an engine that had hung in the middle of it."""
    _here.discard(backend)


async def sweep(engine: Engine) -> list[str]:
    """Remove the containers of dead owners; their ids.

    Raises:
        EngineUnreachable: the engine has gone away.
    """
    removed = []
    for found in await engine.call("containers", all=True, filters={"label": [LABEL]}):
        if _is_left(found):
            try:
                await engine.call("remove_container", found["Id"], force=True, v=True)
                removed.append(str(found["Id"]))
            except EngineRefused as error:
                if error.status not in (404, 409):  # somebody else is faster
                    logger.warning("container %s is left over: %s", found["Id"][:12], error)
    if removed:
        logger.info("removed %d containers that a host had left", len(removed))
    return removed


def _is_left(found: dict[str, Any]) -> bool:
    owner, backend = str(found["Labels"].get(LABEL, "")), found["Labels"].get(_BACKEND)
    kernel, pid, started = (*owner.rsplit(":", 2), "", "")[:3]
    if owner == labels()[LABEL]:
        return bool(backend) and backend not in _here
    if kernel == _kernel() and pid.isdigit():
        return _is_dead(int(pid), started)
    return found.get("State") in _NEVER_RAN and time.time() - float(found.get("Created", 0)) > _OLD_SECONDS


def _is_dead(pid: int, started: str) -> bool:
    """Whether no process has this number, or one that was started at another time. What cannot be known is no."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # another user's: it lives
        pass
    return _started(pid) not in ("", started)


def _kernel() -> str:
    """``boot:pid namespace``; where there is no /proc, what no other process has."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"unknown:{os.getpid()}"


def _started(pid: int) -> str:
    """When a process was started, in the kernel's ticks; empty where that cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return text[text.rindex(")") + 2 :].split()[19]
    except (OSError, ValueError, IndexError):
        return ""
