"""The world that killed runs act on: a ledger outside of callgate, and tools that write to it.

The ledger is a file to which every answered call appends one line, synced to the disk before the caller gets the
answer. It is the truth that a run is held against: what happened, with which arguments, under which key, in which
process. Each line has a ticket that no other line has, and every answer shows its ticket, so that what a program
computed can be traced to the calls that it got it from.

A process passes numbered points: before and after each effect, and around each write of the store. With ``KILL_AT=N``
it ends itself at the Nth, by SIGKILL or the signal ``KILL_SIGNAL``; with ``KILL_STOPS_AT=N`` it stops itself there.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from callgate import Retry, Tool, ToolError, current_call, tool

__all__ = ["EFFECTS", "IDEMPOTENT", "TOOLS", "Entry", "Points", "denied", "entries", "ledger_of", "points"]

EFFECTS = frozenset({"charge", "stamp", "refund", "break_", "close"})
"""Tools that must not act twice for one call."""
IDEMPOTENT = frozenset({"upsert", "push"})
"""Tools that may act again under the key of the first time."""


@dataclass(frozen=True)
class Entry:
    """One line of the ledger: a tool acted."""

    ticket: str
    tool: str
    arguments: dict[str, Any]
    key: str
    process: int
    answer: Any
    """None for a call that failed after it acted."""


class Points:
    """Counts the points that this process passes, and ends the process at one of them."""

    def __init__(self) -> None:
        self.passed = 0
        self._at = 0
        self._signal = int(signal.SIGKILL)
        self._stops_at = 0

    def begin(self) -> None:
        """Read at which point this process ends, and at which one it stops."""
        self._at = int(os.environ.get("KILL_AT", "0"))
        self._signal = int(os.environ.get("KILL_SIGNAL", self._signal))
        self._stops_at = int(os.environ.get("KILL_STOPS_AT", "0"))

    def __call__(self) -> None:
        self.passed += 1
        if self.passed == self._stops_at:
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        if self.passed == self._at:
            os.kill(os.getpid(), self._signal)
            if self._signal == signal.SIGKILL:
                time.sleep(60)  # a thread can run on for a moment until the signal is there


points = Points()


def ledger_of(folder: Path) -> Path:
    return folder / "ledger.jsonl"


def entries(folder: Path) -> list[Entry]:
    """Everything that happened, in order."""
    try:
        lines = ledger_of(folder).read_text().splitlines()
    except FileNotFoundError:
        return []
    return [Entry(**json.loads(line)) for line in lines]


def denied(item: int) -> bool:
    """Whether the person who is asked about a refund of `item` says no."""
    return item % 3 == 0


def _wrote(name: str, arguments: dict[str, Any], fails: str | None = None, **more: Any) -> dict[str, Any]:
    """Act: append a line. Returns the answer, which shows the line's ticket; raises `ToolError` where it `fails`."""
    call = current_call()
    ticket = secrets.token_hex(4)
    answer = {"ticket": ticket, **more}
    entry = Entry(ticket, name, arguments, call.idempotency_key, os.getpid(), None if fails else answer)
    points()
    file = os.open(ledger_of(Path(os.environ["KILL_FOLDER"])), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, json.dumps(vars(entry)).encode() + b"\n")
        os.fsync(file)
    finally:
        os.close(file)
    points()
    if fails:
        raise ToolError(fails)
    return answer


async def _pause() -> None:
    """Up to 6 ms, another time in every process: results arrive in another order each time."""
    await anyio.sleep(random.random() * 0.006)


@tool(read_only=True)
async def measure(item: int) -> dict[str, Any]:
    """Measure an item; another value each time."""
    await _pause()
    return _wrote("measure", {"item": item}, item=item, value=secrets.randbelow(1000))


@tool(read_only=True)
async def flaky(item: int, attempt: int) -> dict[str, Any]:
    """Measure an item; fails at the first attempt for odd items."""
    await _pause()
    if item % 2 and attempt < 1:
        raise ToolError(f"item {item} is busy", retryable=True)
    return _wrote("flaky", {"item": item, "attempt": attempt}, item=item, value=secrets.randbelow(1000))


@tool(read_only=True)
async def look(item: int, attempt: int) -> dict[str, Any]:
    """Stand in for `flaky`."""
    return _wrote("look", {"item": item, "attempt": attempt}, item=item)


@tool(read_only=True)
async def slow(item: int) -> dict[str, Any]:
    """Take a minute."""
    await anyio.sleep(60)
    return {"item": item}


def _ticket(name: str, **arguments: Any) -> dict[str, Any]:
    """Ticket of a call in the ledger; None if it did not happen."""
    for each in entries(Path(os.environ["KILL_FOLDER"])):
        if each.tool == name and arguments.items() <= each.arguments.items():
            return {"ticket": each.ticket}
    return {"ticket": None}


@tool(read_only=True)
async def was_charged(item: int) -> dict[str, Any]:
    """Look up whether an item was charged, as a careful program does when it does not know."""
    return _ticket("charge", item=item)


@tool(read_only=True)
async def was_closed() -> dict[str, Any]:
    """Look up whether the books were closed."""
    return _ticket("close")


@tool
async def charge(item: int, seen: str = "", position: int = 0) -> dict[str, Any]:
    """Charge for an item."""
    await _pause()
    answer = _wrote("charge", {"item": item, "seen": seen, "position": position}, item=item)
    await _pause()
    return answer


@tool
def stamp(item: int, seen: str = "", position: int = 0) -> dict[str, Any]:
    """Stamp an item, in a thread."""
    time.sleep(random.random() * 0.006)
    return _wrote("stamp", {"item": item, "seen": seen, "position": position}, item=item)


@tool
async def break_(item: int) -> dict[str, Any]:
    """Act, and fail all the same."""
    await _pause()
    return _wrote("break_", {"item": item}, fails=f"item {item} broke")


@tool(idempotent=True)
async def upsert(item: int, seen: str = "", position: int = 0) -> dict[str, Any]:
    """Store an item under its key."""
    await _pause()
    answer = _wrote("upsert", {"item": item, "seen": seen, "position": position}, item=item)
    await _pause()
    return answer


_pushed: set[str] = set()


@tool(idempotent=True, retry=Retry(attempts=3, backoff_seconds=0.001))
async def push(item: int, seen: str = "") -> dict[str, Any]:
    """Store an item; the first attempt of each process acts and fails, and is repeated with the same key."""
    await _pause()
    answer = _wrote("push", {"item": item, "seen": seen}, item=item)
    key = current_call().idempotency_key
    if key not in _pushed:
        _pushed.add(key)
        raise ToolError("the answer was lost", retryable=True)
    return answer


@tool(requires_approval=True)
async def refund(item: int, seen: str = "") -> dict[str, Any]:
    """Give money back; a person is asked."""
    await _pause()
    return _wrote("refund", {"item": item, "seen": seen}, item=item)


@tool
async def close(tickets: str) -> dict[str, Any]:
    """Close the books: the tickets of everything that was handled, in that order."""
    return _wrote("close", {"tickets": tickets})


TOOLS: tuple[Tool, ...] = (
    measure, flaky, look, slow, was_charged, was_closed, charge, stamp, break_, upsert, push, refund, close,
)  # fmt: skip


async def _refund(item: int, seen: str = "", reason: str = "") -> dict[str, Any]:
    return _wrote("refund", {"item": item, "seen": seen}, item=item)


changed_refund = Tool.from_function(_refund, name="refund", description="Give money back.", requires_approval=True)
"""`refund` as another version of the host has it: with a parameter more."""
