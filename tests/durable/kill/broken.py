"""Stores that break their promises on purpose, to show that the harness finds each of these faults."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Awaitable, Generator
from dataclasses import replace
from typing import Any, cast

from callgate.durable.store import LEASE_SECONDS, Change, Consumed, Held, Kept, RunHistory, Store, StoredCall, StoredRun
from durable.kill.world import points

__all__ = ["BREAKS", "watched"]

BREAKS = {
    "order-dropped": "the order of events is not stored",
    "order-shuffled": "events are given in another order than the program had them",
    "started-late": "a call with effects is stored with its outcome alone",
    "outcome-late": "the caller is told an outcome that is stored a moment later",
    "unsynced": "what is stored reaches the disk when the system likes; the power fails with each kill",
}
"""What each control breaks, by the value of ``KILL_BREAK``."""


class _Point:
    """An awaitable that passes a point when it is done."""

    def __init__(self, written: Awaitable[None]) -> None:
        self._written = written

    def __await__(self) -> Generator[Any, Any, None]:
        yield from self._written.__await__()
        points()


class _Nothing:
    """An awaitable that is done."""

    def __await__(self) -> Generator[Any, Any, None]:
        return
        yield


class _Watched:
    """A store whose writes are points, and whose runs have the lease of ``KILL_LEASE``."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lease = float(os.environ.get("KILL_LEASE", LEASE_SECONDS))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def add(self, run: StoredRun, *, takes: bool = False) -> Kept:
        own_lease = self._lease != LEASE_SECONDS
        kept = await self._store.add(run, takes=takes and not own_lease)
        return replace(kept, held=await self.take(kept.run.id)) if takes and own_lease and kept.is_new else kept

    async def take(self, run: str) -> Held | None:
        return await self._store.take(run, lease_seconds=self._lease)

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        points()
        written = self._store.write(held, *changes)
        points()
        return _Point(written)


class _OrderDropped(_Watched):
    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        left = [change for change in changes if not isinstance(change, Consumed)]
        return super().write(held, *left) if left else _Nothing()


class _OrderShuffled(_Watched):
    async def load(self, run: str) -> RunHistory:
        history = await self._store.load(run)
        calls = [event.call for event in history.events if event.call is not None]
        random.shuffle(calls)
        mixed = iter(calls)
        events = [event if event.call is None else replace(event, call=next(mixed)) for event in history.events]
        return replace(history, events=tuple(events))


class _StartedLate(_Watched):
    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        left = [change for change in changes if not (isinstance(change, StoredCall) and change.status == "started")]
        return super().write(held, *left) if left else _Nothing()


class _OutcomeLate(_Watched):
    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        if any(isinstance(change, StoredCall) and change.status in ("done", "failed") for change in changes):
            asyncio.get_running_loop().call_later(0.03, super().write, held, *changes)
            points()
            return _Nothing()
        return super().write(held, *changes)


_BROKEN: dict[str, type[_Watched]] = {
    "order-dropped": _OrderDropped,
    "order-shuffled": _OrderShuffled,
    "started-late": _StartedLate,
    "outcome-late": _OutcomeLate,
}


def watched(store: Store) -> Store:
    """The store of a process that may be killed at a point, and as broken as ``KILL_BREAK`` says."""
    return cast(Store, _BROKEN.get(os.environ.get("KILL_BREAK", ""), _Watched)(store))
