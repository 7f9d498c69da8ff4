"""The interface of every sandbox: a few verbs. Knows no backend.

Every backend passes the same conformance suite, `callgate.testing.BackendConformance`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol

import callgate_guest.wire
from callgate.errors import ConfigurationError
from callgate.limits import Limits

__all__ = [
    "SIGKILL", "SIGXCPU", "Allowance", "Backend", "Collected", "Files", "Guest", "GuestExit", "Listener", "Stream",
    "Usage", "guest_command", "hash_seed", "inherited_environment", "python_here", "replaying",
]  # fmt: skip

SIGKILL: Final = 9
SIGXCPU: Final = 24
"""Signals that end guests, by the numbers of Linux and macOS; the host may be Windows, which has neither."""

Stream = Literal["wire", "output"]
Listener = Callable[[bytes], bool]
"""Receives bytes of the wire as they come; returns False to have `Guest.receive` return the bytes."""

Files = Mapping[str, "Path | bytes"]
"""Files for a guest: paths of the host or contents, by names below ``/input``, which are clean."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What a program left in its working directory, ``/output``.

    Attributes:
        files: names below ``/output`` as they are there, and contents.
        left: why others were left, in words, one line each.
    """

    files: tuple[tuple[str, bytes], ...] = ()
    left: tuple[str, ...] = ()


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
    """What a guest has used so far, as the kernel counts. 0 bytes where the kernel does not count them (gVisor)."""

    cpu_seconds: float
    peak_memory_bytes: int


@dataclass(frozen=True, slots=True)
class GuestExit:
    """How a guest ended.

    Attributes:
        status: exit status; a negative number is the signal that killed the guest; ``None`` if unknown.
        usage: what the guest used in all, if known.
        reason: if `status` is ``None``: what happened and what to do, as far as the backend knows.
    """

    status: int | None
    usage: Usage | None
    reason: str = ""


class Guest(Protocol):
    """One guest: a process that runs programs, and the wire to it.

    A guest whose programs have files of their own has one more verb:

    - ``async collect(most: int, most_bytes: int) -> Collected``: the regular files in ``/output`` that are new or have
      changed since the last call, at most so many and so many bytes in all. The guest is dead, or idle and frozen
      meanwhile. Nothing of the host is read, whatever a program has put there. Raises nothing.

    A guest may have two more verbs, which save time:

    - ``listen(listener: Listener | None)``: bytes of the wire go to the listener first, in the callback of the event
      loop that has read them, unless `receive` has not returned all that came before;
    - ``send_at_once(data: bytes) -> bool``: write to the wire of an idle guest without waiting. Returns whether all was
      written; if not, the next `send` writes the rest first.
    """

    async def send(self, data: bytes) -> None:
        """Write to the guest's wire. Waits while the guest does not read.

        Raises:
            SandboxCrashed: the guest has closed its end.
        """

    @property
    def alive(self) -> bool:
        """Whether the guest can still run a program, as far as is known without waiting."""

    async def healthy(self) -> bool:
        """Whether the guest can still run a program. May ask the guest, and wait one second. Only for an idle guest."""

    async def receive(self) -> tuple[Stream, bytes]:
        """The next bytes from the guest: of its wire, or of what it wrote to stdout and stderr behind Python's back.

        ``("wire", b"")`` is the end: the guest has closed the wire or died. Only one task may receive at a time.
        """

    def unread_output(self) -> bytes:
        """What the guest has written to stdout and stderr and `receive` has not returned. Never waits."""

    def usage(self) -> Usage | None:
        """What the guest has used so far; ``None`` if the backend does not know this before the end."""

    def kill(self) -> None:
        """End the guest now. Nothing of its program is received after this returns. Never blocks, never fails, may be
        called again. A process of this machine is dead on return; a container dies soon, and `aclose` waits for it."""

    async def aclose(self) -> GuestExit:
        """Kill the guest, wait until nothing of it is left, and return how it ended. May be called again."""


def hash_seed(replays: bool) -> dict[str, str]:
    """Environment variable of a guest's first process that decides how texts are hashed.

    A run that can be replayed needs the same hashes in each guest, so that a set of texts has one order. All other
    guests have random hashes.
    """
    return {"PYTHONHASHSEED": "0"} if replays else {}


def inherited_environment(replays: bool = False) -> dict[str, str]:
    """This process's environment, for `guest_command`; for `replays`, see `hash_seed`."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | hash_seed(replays)


def python_here() -> str:
    """Version of this process's Python, ``3.11``."""
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def guest_command(code: str, *flags: str, executable: str = "") -> list[str]:
    """The command of a Python that runs `code`, which may import the guest.

    Give it no variable ``PYTHON...`` but those of `hash_seed`: it looks at them.

    Args:
        code: statements.
        flags: for Python, besides ``-P``, ``-s``, ``-B`` and ``-X utf8``.
        executable: which Python; by default the bare one behind this process's virtual environment.
    """
    root = str(Path(callgate_guest.wire.__file__).parent.parent)
    python = executable or getattr(sys, "_base_executable", None) or sys.executable
    return [python, "-P", "-s", "-B", "-X", "utf8", *flags, "-c", f"import sys; sys.path.append({root!r}); {code}"]


class Backend(Protocol):
    """A kind of sandbox, running. Use as an async context manager: leaving it ends every guest.

    A backend whose guests may have files has the verb ``async open_with(allowance: Allowance, files: Files) -> Guest``:
    like `open`, and the guest alone finds the files, read-only, below ``/input``.

    A backend whose guests can replay runs has the verb ``replaying() -> Backend``: another backend with the same
    options, not entered, whose guests all hash texts alike (see `hash_seed`).

    A backend may have more attributes. Models read `python`: the version of Python in its guests (``3.11``; empty
    while unknown); and `packages`: names and versions of what guests can import (``("numpy 2.1.0",)``). `callgate
    doctor` shows `sharing`: how far guests share memory. `no_files` says in words why its guests have no files, and
    which sandbox has them; it is empty where they can have files.
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


def replaying(backend: Backend) -> Backend:
    """A backend like this one, whose guests can replay runs. Raises `ConfigurationError` if there is none."""
    make = getattr(backend, "replaying", None)
    if make is None:
        raise ConfigurationError(
            f"the sandbox {backend.name!r} cannot replay runs, since it has no method replaying(): "
            "use sandbox='jail' or 'docker'"
        )
    other: Backend = make()
    return other
