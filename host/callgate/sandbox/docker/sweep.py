"""Removes containers whose host process has died, and knows who owns a container.

A container ends with its stdin, and the engine then removes it. `sweep` finds the exceptions: containers that were made
and never started, or left by an engine that was killed itself.

An owner is named by the kernel's boot, the pid namespace, the process and its start time, so that a later process with
the same number is not taken for the owner. An owner of another boot or pid namespace cannot be looked up, so its
containers are removed only if they do not run and are old.
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
"""Label of every container of callgate."""
_BACKEND = "callgate.backend"
_OLD_SECONDS = 600.0
_NEVER_RAN = frozenset({"created", "exited", "dead"})

logger = logging.getLogger("callgate")


_here: set[str] = set()
"""The backends of this process that are entered."""


def labels(backend: str = "") -> dict[str, str]:
    """Labels of a container that this process owns, or one of its backends."""
    return {LABEL: f"{_kernel()}:{os.getpid()}:{_started(os.getpid())}", _BACKEND: backend}


def enter(backend: str) -> None:
    """Containers with this backend in their labels are in use."""
    _here.add(backend)


def leave(backend: str) -> None:
    """Containers that still have this backend in their labels are left over, e.g. made late by an engine that hung."""
    _here.discard(backend)


async def sweep(engine: Engine) -> list[str]:
    """Remove the containers of dead owners, and return their ids.

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
                if error.status not in (404, 409):  # another process was faster
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
    """Whether no process has this number, or one that was started at another time. False if unknown."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # a process of another user: it lives
        pass
    return _started(pid) not in ("", started)


def _kernel() -> str:
    """``boot:pid namespace``; without /proc, a name that no other process has."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return f"unknown:{os.getpid()}"


def _started(pid: int) -> str:
    """Start time of a process, in the kernel's ticks; empty if it cannot be read."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
        return text[text.rindex(")") + 2 :].split()[19]
    except (OSError, ValueError, IndexError):
        return ""
