"""Proves a sandbox before its first program: a guest tries what must be forbidden, and each attempt must fail.

Also the two kinds of finding that the doctors report: `Fact`, and `Trial`, the outcome of trying a sandbox.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio

from callgate.errors import CallgateError, SandboxCrashed, SandboxUnavailable
from callgate.limits import Limits

from .backend import Allowance, Backend, Guest

__all__ = [
    "ATTEMPTS", "SELF_TEST_ALLOWANCE", "Fact", "Trial", "check_from_outside", "confinement_steps", "prove", "tried",
]  # fmt: skip

SELF_TEST_ALLOWANCE = Allowance(10.0, 64 << 20, 8, 1 << 20)
ATTEMPTS = {
    "open a file of the system": "lambda: open('/etc/passwd')",
    "make a socket": "socket.socket",
    "start a process": "os.fork",
    "signal another process": "lambda: os.kill(1, 0)",
    "execute a program": "lambda: os.execv('/bin/sh', ['sh'])",
}
"""What a guest tries, in Python."""
_SECONDS = 10.0
_MOST_BYTES = 1 << 16
_PROGRAM = """
import os, socket, zipfile
held = []
for attempt in ({attempts}):
    try:
        attempt()
        held.append(False)
    except OSError:
        held.append(True)
held
"""

confinement_steps = (
    "descriptors", "mount namespace", "files", "scratch tmpfs", "user namespace", "unprivileged user", "rlimits",
    "capabilities", "landlock", "seccomp",
)  # fmt: skip
"""The step of `callgate_guest.jail.confine` that failed, by a child's exit status, counted from 100."""


async def prove(
    guest: Guest,
    *,
    leave_out: frozenset[str] = frozenset(),
    more: Mapping[str, str] | None = None,
    while_it_lives: Callable[[], None] = lambda: None,
) -> None:
    """Run the self-test in `guest`, and end the guest.

    Args:
        guest: a fresh guest.
        leave_out: attempts that may succeed, since something else confines them.
        more: attempts besides `ATTEMPTS`, in Python.
        while_it_lives: called before the guest is ended, to look at it from outside.

    Raises:
        SandboxUnavailable: something did not hold; the message says what.
    """
    attempts = {name: code for name, code in ATTEMPTS.items() if name not in leave_out} | dict(more or {})
    answer = b""
    try:
        params = {"code": _PROGRAM.format(attempts=", ".join(attempts.values()) + ","), "tools": [], "inputs": {}}
        request = {"jsonrpc": "2.0", "method": "execute", "params": params, "id": 0}
        await guest.send(json.dumps(request).encode() + b"\n")
        with anyio.fail_after(_SECONDS):
            while not answer.endswith(b"\n") and len(answer) < _MOST_BYTES:
                stream, data = await guest.receive()
                if stream == "wire":
                    if not data:
                        break
                    answer += data
        while_it_lives()
    except TimeoutError:
        raise SandboxUnavailable(f"its self-test did not end within {_SECONDS:g} s") from None
    except SandboxCrashed:
        answer = b""
    finally:
        ended = await guest.aclose()
    if not answer:
        raise SandboxUnavailable(ended.reason or f"a child could not be confined: {_step(ended.status or 0)} failed")
    try:
        message = json.loads(answer)
        held = message.get("result", {}).get("value")
    except (ValueError, AttributeError):
        raise SandboxUnavailable(f"its self-test was answered with {answer[:200]!r}") from None
    if held != [True] * len(attempts):
        found = held or message.get("error", {}).get("data", {}).get("message")
        if isinstance(held, list) and len(held) == len(attempts):
            found = "a program can " + ", ".join(name for name, ok in zip(attempts, held, strict=True) if not ok)
        raise SandboxUnavailable(f"its self-test found it open: {found}")


def check_from_outside(pid: int) -> None:
    """Ask the kernel about a process that should be confined. Raises `SandboxUnavailable` if it is not."""
    try:
        with open(f"/proc/{pid}/status") as status:
            found = dict(line.rstrip("\n").split(":\t", 1) for line in status if ":\t" in line)
    except OSError:
        return  # there is no /proc; the attempts of the self-test have to suffice
    wanted = {"Seccomp": "2", "NoNewPrivs": "1", "CapEff": "0" * 16, "CapPrm": "0" * 16}
    for field, value in wanted.items():
        if found.get(field, value) != value:
            raise SandboxUnavailable(
                f"the kernel says {field} is {found[field]} of a child that should be confined, not {value}"
            )


def _step(status: int) -> str:
    known = 100 <= status < 100 + len(confinement_steps)
    return confinement_steps[status - 100] if known else f"status {status}"


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing found out about a machine or an engine."""

    name: str
    ok: bool | None
    """Whether the jail or docker can work with it; ``None`` if it decides nothing."""
    found: str
    remedy: str = ""
    """What to do if `ok` is false."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """Outcome of starting a sandbox and opening a guest."""

    works: bool
    tier: int = 0
    """Tier of the jail; 0 for another sandbox."""
    description: str = ""
    """What confines a guest."""
    reason: str = ""
    """Why it does not work."""
    start_seconds: float = 0.0
    """From nothing to a backend that has passed its self-test."""
    open_seconds: float = 0.0
    """Opening one more guest."""
    sharing: str = ""
    """How far guests share the memory that they are forked from."""
    no_files: str = ""
    """Why its guests have no files, and which sandbox has them; empty if they can have some."""


async def tried(backend: Backend) -> Trial:
    """Start `backend`, open a guest, and end both. Raises no `CallgateError`: the trial says why it does not work."""
    started = time.perf_counter()
    try:
        async with backend:
            ready = time.perf_counter()
            guest = await backend.open(Allowance.of(Limits()))
            opened = time.perf_counter()
            await guest.aclose()
            return Trial(
                works=True, description=backend.description, start_seconds=ready - started,
                open_seconds=opened - ready, sharing=getattr(backend, "sharing", ""),
                no_files=getattr(backend, "no_files", f"{backend.name} has no files"),
            )  # fmt: skip
    except CallgateError as error:
        return Trial(works=False, reason=str(error))
