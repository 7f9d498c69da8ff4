"""Keeps runs in memory: for runs in the background, without a database. They end with the process.

The newest ended runs are kept, `most_ended` of them, so that a host is not filled.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace

from callgate.errors import DurableError, StoreFailed

from .refusals import (
    already_cancelled,
    already_decided,
    already_settled,
    check_names,
    check_sizes,
    expired,
    lost,
    no_call,
    no_run,
    texts_of,
)
from .store import (
    ENDED,
    LEASE_SECONDS,
    Approval,
    CallKey,
    Change,
    Consumed,
    Decision,
    Held,
    Kept,
    RunHistory,
    RunStatus,
    StateChange,
    StoredCall,
    StoredRun,
)

__all__ = ["MemoryStore"]

_OWNER = "this process"


@dataclass(slots=True)
class _Entry:
    """Everything that is kept of one run."""

    run: StoredRun
    calls: dict[CallKey, StoredCall] = field(default_factory=dict)
    events: list[Consumed] = field(default_factory=list)
    approvals: dict[CallKey, Approval] = field(default_factory=dict)
    untold: bool = False
    """Whether somebody decided since the owner was told."""

    @property
    def ended(self) -> bool:
        return self.run.status in ENDED

    def change(self, **values: object) -> None:
        self.run = replace(self.run, **values)  # type: ignore[arg-type]


class _Written(Awaitable[None]):
    """Changes that are stored, or refused, already."""

    __slots__ = ("_error",)

    def __init__(self, error: DurableError | None = None) -> None:
        self._error = error

    def __await__(self) -> Generator[None, None, None]:
        if self._error is not None:
            raise self._error
        yield from ()


class MemoryStore:
    """A `Store` whose runs end with the process.

    Args:
        most_ended: ended runs that are kept; beyond that number, those that ended first are forgotten.
    """

    digest_key = b""

    def __init__(self, *, most_ended: int = 1_000, _clock: Callable[[], float] = time.time) -> None:
        self._most_ended = most_ended
        self._clock = _clock
        self._entries: dict[str, _Entry] = {}  # the oldest first
        self._keys: dict[tuple[str, str], str] = {}
        self._ended: dict[str, None] = {}  # in the order in which they ended

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Nothing has to be opened. Runs that are held when the context ends are released."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            for entry in self._entries.values():
                entry.change(owner=None)

    async def add(self, run: StoredRun, *, takes: bool = False) -> Kept:
        """See `Store.add`."""
        check_names(run)
        check_sizes(texts_of(run))
        if run.key is not None and (known := await self.find_key(run.key, run.belongs_to)) is not None:
            return Kept(known, is_new=False)
        if run.id in self._entries:
            raise StoreFailed(f"run {run.id!r} is stored already: ids must not be used twice")
        self._entries[run.id] = _Entry(run)
        if run.key is not None:
            self._keys[run.key, run.belongs_to] = run.id
        held = await self.take(run.id) if takes else None
        return Kept(self._entries[run.id].run, is_new=True, held=held)

    async def take(self, run: str, *, lease_seconds: float = LEASE_SECONDS) -> Held | None:
        """See `Store.take`; every owner is in this process, and lives."""
        entry = self._entry(run)
        if entry.ended or entry.run.owner is not None:
            return None
        entry.untold = False
        entry.change(
            owner=_OWNER, epoch=entry.run.epoch + 1, status="running", reason=None, wake_at=None, changed=self._clock()
        )
        return Held(run, entry.run.epoch)

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        """See `Store.write`; what is stored is as durable as the process."""
        for change in changes:
            check_sizes(texts_of(change))
        entry = self._entries.get(held.run)
        if entry is None:
            return _Written(no_run(held.run))
        if entry.run.epoch != held.epoch or entry.run.owner is None:
            return _Written(lost(held.run))
        stored = len(entry.events)
        for change in changes:
            if isinstance(change, StateChange) and change.forgets_events:
                stored = 0
            elif isinstance(change, Consumed):
                if change.number <= stored:
                    entry.change(owner=None)  # nothing later is stored either
                    return _Written(StoreFailed(f"event {change.number} of run {held.run!r} is stored already"))
                stored = change.number
        released = False
        for change in changes:
            match change:
                case StoredCall():
                    entry.calls[change.key] = change
                case Consumed():
                    entry.events.append(change)
                case Approval():
                    entry.approvals[change.call] = change
                case StateChange():
                    self._change_state(entry, change)
                    released = released or change.released or change.status in ENDED
        if released:
            entry.change(owner=None)
            if entry.ended:
                self._forget_oldest(held.run)
        return _Written()

    async def expire(self, held: Held, call: CallKey, decision: Decision) -> Approval:
        """See `Store.expire`."""
        await self.write(held)
        approvals = self._entry(held.run).approvals
        approval = approvals.get(call)
        if approval is None:
            raise no_call(held.run, call, "approval")
        if approval.decision is None:
            approvals[call] = approval = replace(approval, decision=decision)
        return approval

    def _change_state(self, entry: _Entry, change: StateChange) -> None:
        if change.forgets_events:
            entry.events.clear()
        entry.change(
            status=change.status,
            reason=change.reason,
            wake_at=change.wake_at,
            result=change.result,
            changed=self._clock(),
        )

    def _forget_oldest(self, run: str) -> None:
        self._ended[run] = None
        while len(self._ended) > self._most_ended:
            self._forget(next(iter(self._ended)))

    def _forget(self, run: str) -> None:
        entry = self._entries.pop(run)
        self._ended.pop(run, None)
        if entry.run.key is not None:
            del self._keys[entry.run.key, entry.run.belongs_to]

    async def load(self, run: str) -> RunHistory:
        """See `Store.load`."""
        entry = self._entry(run)
        return RunHistory(entry.run, tuple(entry.calls.values()), tuple(entry.events), tuple(entry.approvals.values()))

    async def find(self, run: str) -> StoredRun:
        """See `Store.find`."""
        return self._entry(run).run

    async def find_key(self, key: str, belongs_to: str = "") -> StoredRun | None:
        """See `Store.find_key`."""
        run = self._keys.get((key, belongs_to))
        return None if run is None else self._entries[run].run

    async def list(
        self,
        *,
        status: RunStatus | None = None,
        belongs_to: str | None = None,
        most: int = 100,
        before: str | None = None,
    ) -> Sequence[StoredRun]:
        """See `Store.list`."""
        runs = self._matching(status, belongs_to)
        if before is not None:
            last = self._entry(before).run
            runs = [run for run in runs if (run.created, run.id) < (last.created, last.id)]
        newest = sorted(runs, key=lambda run: (run.created, run.id), reverse=True)
        return [replace(run, text="", options="", environment="", result=None) for run in newest[: max(0, most)]]

    async def count(self, *, status: RunStatus | None = None, belongs_to: str | None = None) -> int:
        """See `Store.count`."""
        return len(self._matching(status, belongs_to))

    def _matching(self, status: RunStatus | None, belongs_to: str | None) -> Sequence[StoredRun]:
        return [
            entry.run
            for entry in self._entries.values()
            if (status is None or entry.run.status == status)
            and (belongs_to is None or entry.run.belongs_to == belongs_to)
        ]

    async def pending(self, *, belongs_to: str | None = None, most: int = 100) -> Sequence[Approval]:
        """See `Store.pending`."""
        now = self._clock()
        asked = [
            approval
            for entry in self._entries.values()
            if not entry.ended and (belongs_to is None or entry.run.belongs_to == belongs_to)
            for approval in entry.approvals.values()
            if approval.decision is None and approval.expires > now
        ]
        return sorted(asked, key=lambda approval: approval.asked)[: max(0, most)]

    async def due(self, now: float, *, most: int = 100) -> Sequence[str]:
        """See `Store.due`."""
        return [run for run, entry in self._entries.items() if _is_due(entry, now)][: max(0, most)]

    async def decided(self) -> Sequence[str]:
        """See `Store.decided`."""
        told = [entry for entry in self._entries.values() if entry.untold and entry.run.owner is not None]
        for entry in told:
            entry.untold = False
        return [entry.run.id for entry in told]

    async def decide(self, run: str, call: CallKey, decision: Decision) -> Approval:
        """See `Store.decide`."""
        check_sizes(texts_of(decision))
        entry = self._entry(run)
        approval = entry.approvals.get(call)
        if approval is None:
            raise no_call(run, call, "approval")
        if approval.decision is not None:
            raise already_decided(approval, approval.decision)
        if entry.ended:
            raise already_cancelled(run, entry.run.status)
        if approval.expires <= decision.time:
            raise expired(approval)
        entry.approvals[call] = approval = replace(approval, decision=decision)
        entry.untold = True
        return approval

    async def settle(self, run: str, call: StoredCall) -> None:
        """See `Store.settle`."""
        check_sizes(texts_of(call))
        entry = self._entry(run)
        known = entry.calls.get(call.key)
        if known is None:
            raise no_call(run, call.key, "outcome")
        if known.status != "unknown":
            raise already_settled(known)
        if entry.ended:
            raise already_cancelled(run, entry.run.status)
        entry.calls[call.key] = call
        entry.untold = True
        if entry.run.status == "needs_attention":
            entry.change(status="running", reason=None, changed=self._clock())

    async def cancel(self, run: str) -> None:
        """See `Store.cancel`."""
        entry = self._entry(run)
        if entry.ended or entry.run.cancelled:
            raise already_cancelled(run, entry.run.status)
        entry.change(cancelled=True, changed=self._clock())
        entry.untold = True

    async def prune(self, *, ended_before: float) -> int:
        """See `Store.prune`."""
        old = [run for run in self._ended if self._entries[run].run.changed < ended_before]
        for run in old:
            self._forget(run)
        return len(old)

    def _entry(self, run: str) -> _Entry:
        entry = self._entries.get(run)
        if entry is None:
            raise no_run(run)
        return entry


def _is_due(entry: _Entry, now: float) -> bool:
    run = entry.run
    if entry.ended or run.owner is not None:
        return False
    comes = run.wake_at is not None and run.wake_at <= now
    return run.status == "running" or run.cancelled or entry.untold or comes
