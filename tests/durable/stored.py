"""Runs, calls and decisions for tests of stores."""

from __future__ import annotations

import secrets
from typing import Any

from callgate.durable.sealing import call_digest
from callgate.durable.store import (
    Approval,
    CallKey,
    CallStatus,
    Consumed,
    Decision,
    Held,
    StateChange,
    Store,
    StoredCall,
    StoredRun,
)

__all__ = ["answered", "approval", "call", "ended", "event", "granted", "key", "run", "started"]

NOW = 1_700_000_000.0


def run(name: str = "", **values: Any) -> StoredRun:
    """A new run, with an id that nobody guesses if it has no `name`."""
    given: dict[str, Any] = {
        "id": name or secrets.token_urlsafe(16),
        "kind": "code",
        "text": "print(await get_weather(city='Zürich'))",
        "options": '{"inputs": {}}',
        "environment": '{"python": "3.11.7"}',
        "seed": b"\x00seed",
        "created": NOW,
        "changed": NOW,
    }
    return StoredRun(**given | values)


def key(n: int, occurrence: int = 0) -> CallKey:
    """The key of call `n`."""
    return CallKey(call_digest("pay", f'{{"n": {n}}}'), occurrence)


def call(n: int, status: CallStatus = "done", **values: Any) -> StoredCall:
    """Call `n` of a run."""
    given: dict[str, Any] = {
        "key": key(n),
        "number": n,
        "tool": "pay",
        "arguments": f'{{"n": {n}}}',
        "status": status,
        "outcome": None if status in ("started", "unknown", "waiting") else f'"paid {n}"',
        "idempotency_key": f"key-{n}",
        "record": '{"seconds": 0.1}',
    }
    return StoredCall(**given | values)


def event(number: int, of: int | None = None) -> Consumed:
    """Event `number`: a timer, or the answer to call `of`."""
    return Consumed(number, NOW + number, None if of is None else key(of))


def approval(run: str, n: int = 1, **values: Any) -> Approval:
    """The question about call `n`."""
    given: dict[str, Any] = {
        "run": run,
        "call": key(n),
        "tool": "pay",
        "arguments": f'{{"n": {n}}}',
        "schema_digest": b"schema",
        "asked": NOW + n,
        "expires": 4e9,
    }
    return Approval(**given | values)


def granted(by: str = "Ada", **values: Any) -> Decision:
    """A person's yes."""
    given: dict[str, Any] = {"granted": True, "by": by, "time": NOW}
    return Decision(**given | values)


async def started(store: Store, name: str = "", **values: Any) -> Held:
    """Add a run and take it."""
    held = (await store.add(run(name, **values), takes=True)).held
    assert held is not None
    return held


async def ended(store: Store, name: str = "", **values: Any) -> str:
    """Add a run that has succeeded with one call."""
    held = await started(store, name, **values)
    await store.write(held, call(1), event(1, 1), StateChange("succeeded", result='"fine"', released=True))
    return held.run


async def answered(store: Store, held: Held, events: int) -> None:
    """Store so many answered calls, and wait for the last."""
    for n in range(1, events):
        store.write(held, call(n), event(n, n))
    await store.write(held, call(events), event(events, events))
