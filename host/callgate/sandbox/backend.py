"""What a sandbox is to the rest of callgate: a few verbs. Knows no backend.

Every backend passes the same conformance suite (``tests/sandbox/test_conformance.py``).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import callgate_guest.wire
from callgate.limits import Limits

__all__ = ["Allowance", "Backend", "Guest", "GuestExit", "Stream", "Usage", "guest_command", "python_here"]

Stream = Literal["wire", "output"]


@dataclass(frozen=True, slots=True)
class Allowance:
    """The limits that the kernel enforces on one guest. Bytes and seconds."""

    cpu_seconds: float
    memory_bytes: int
    max_processes: int
    max_file_bytes: int

    @classmethod
    def of(cls, limits: Limits) -> Allowance:
        return cls(limits.cpu_seconds, limits.memory_bytes, limits.max_processes, limits.max_file_bytes)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a guest has spent so far, as the kernel counts it. 0 bytes where it does not (gVisor)."""

    cpu_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class GuestExit:
    """How a guest ended.

    Attributes:
        status: exit status; negative is the number of the signal that killed it; ``None`` where nobody can tell any
        more.
        usage: what it spent in all, where known.
        reason: where `status` is ``None``: what went away and what to do, if the backend knows.
    """

    status: int | None
    usage: Usage | None
    reason: str = ""


class Guest(Protocol):
    """One guest: a place where programs run, with a wire to it."""

    async def send(self, data: bytes) -> None:
        """Write to the guest's wire. Waits while the guest does not read.

        Raises:
            SandboxCrashed: the guest has closed its end.
        """

    @property
    def alive(self) -> bool:
        """Whether it can still run a program, as far as can be told without waiting."""

    async def healthy(self) -> bool:
        """Whether it can still run a program; may ask it, for a second at most. For a guest that nothing runs on."""

    async def receive(self) -> tuple[Stream, bytes]:
        """The next bytes from the guest: of its wire, or of what it wrote to stdout and stderr behind Python's back.

        ``("wire", b"")`` is the end: the guest has closed the wire or died. One task at a time.
        """

    def unread_output(self) -> bytes:
        """What the guest wrote to stdout and stderr, up to now, that `receive` has not given out. Never waits."""

    def usage(self) -> Usage | None:
        """What the guest has spent so far; ``None`` where the backend cannot tell before the end."""

    def kill(self) -> None:
        """End the guest now; nothing of its program is heard after this returns. Never blocks, never fails, may be
        repeated. A process of this machine is dead by then, a container within moments: `aclose` waits for that."""

    async def aclose(self) -> GuestExit:
        """Kill the guest, wait until nothing of it is left, and say how it ended. May be repeated."""


def python_here() -> str:
    """Version of this process's Python, ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def guest_command(code: str, *flags: str, executable: str = "") -> list[str]:
    """The command of a Python that runs `code`, which may import the guest.

    Args:
        code: statements.
        flags: for Python, besides ``-I``, ``-B`` and ``-X utf8``.
        executable: which Python; by default the bare one behind this process's virtual environment.
    """
    root = str(Path(callgate_guest.wire.__file__).parent.parent)
    python = executable or getattr(sys, "_base_executable", None) or sys.executable
    return [python, "-I", "-B", "-X", "utf8", *flags, "-c", f"import sys; sys.path.append({root!r}); {code}"]


class Backend(Protocol):
    """A kind of sandbox, running. Use as an async context manager: leaving it ends every guest.

    One may say in an attribute `python` which version of Python runs in its guests (``3.11``; empty where that is not
    known yet): models are told.
    """

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """What confines a guest here, in one line for people."""

    async def open(self, allowance: Allowance) -> Guest:
        """A fresh guest, confined, that shares nothing with any other.

        Raises:
            SandboxError: it cannot be had; the message says why and what to do.
        """

    async def __aenter__(self) -> Backend: ...

    async def __aexit__(self, *_: object) -> None: ...
