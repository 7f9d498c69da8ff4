"""Who owns runs, and whether an owner lives. Knows no database.

1. Each open store is one owner. Its name says on which machine it is (boot and process namespace), its process, when
   that process began, and a random part.
2. Every owner counts up a *beat* in the store while it holds runs. An owner is judged by whether its beat changes
   within the lease by the judge's own monotonic clock, as Kubernetes elects its leaders: clocks of machines are never
   compared, so no clock that jumps takes a run from anybody.
3. An owner on this machine whose process has ended does not live, whatever it last said. Without Linux's ``/proc``
   nothing says which machine it was on, and the lease alone decides.

A judgement may be wrong: a process that hung comes back. Then its epoch is an older one, and it writes nothing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Callable
from typing import Final

__all__ = ["Owner"]

_here: Final[set[str]] = set()
"""Owners of this process whose stores are open."""


class Owner:
    """This process as an owner, and its judgement of others. Use `close` when its store is closed."""

    def __init__(self, *, _monotonic: Callable[[], float] = time.monotonic) -> None:
        self._machine = _machine()
        pid = os.getpid()
        self.name = f"{self._machine} {pid} {_began(pid)} {secrets.token_hex(8)}"
        self._monotonic = _monotonic
        self._seen: dict[str, tuple[int, float]] = {}
        """The last beat of others that was seen, and when it was seen first."""
        _here.add(self.name)

    def close(self) -> None:
        """This owner lives no more."""
        _here.discard(self.name)

    def lives(self, owner: str, beat: int, lease_seconds: float) -> bool:
        """Whether another owner, whose beat is now `beat`, may still hold its runs."""
        if owner in _here:
            return True
        if self._has_ended(owner):
            self._seen.pop(owner, None)
            return False
        now = self._monotonic()
        seen, since = self._seen.get(owner, (None, now))
        if seen != beat:
            self._seen[owner] = (beat, now)
            return True
        return now - since < lease_seconds

    def _has_ended(self, owner: str) -> bool:
        """Whether the owner's process has ended for sure: it was one of this machine."""
        machine, _, process = owner.rpartition(" ")[0].partition(" ")
        pid, _, began = process.partition(" ")
        if machine != self._machine or not pid.isdecimal():
            return False
        if int(pid) == os.getpid():
            return True  # its store was closed, or the process's number was given again
        return _process_has_ended(int(pid), began)


_UNKNOWN: Final = "?"


def _process_has_ended(pid: int, began: str) -> bool:
    if sys.platform == "win32":
        return False  # unknown: what asks elsewhere would send Ctrl-C
    else:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        except (OSError, OverflowError):
            return False  # it is another user's
        return _began(pid) not in (began, _UNKNOWN)


def _machine() -> str:
    """This boot of this machine, and the namespace in which a process's number means something; random if unknown."""
    with contextlib.suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
        return f"{file.read().strip()}/{os.readlink('/proc/self/ns/pid')}"
    return secrets.token_hex(16)


def _began(pid: int) -> str:
    """When a process began, in the kernel's ticks; another text if it has ended and only waits to be collected."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *rest = file.read().rpartition(")")[2].split()
    except OSError:
        return _UNKNOWN
    return "ended" if state in "ZX" else rest[18]
