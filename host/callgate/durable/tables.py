"""What is done to the tables of a store, as SQL: each method is a part of one transaction. Knows no thread and no file.

1. Statements are standard SQL as SQLite and PostgreSQL take it, with ``?`` for values.
2. What an owner writes carries its epoch: ``_HELD`` finds no run after another process has taken it, or the run was
   released.
3. Whatever is refused is refused before anything is written.
4. ``due_at`` says when a run without a living owner has to be taken up, and is NULL if only people can say so. A run
   that sleeps, and about which somebody decided what its owner was not told, is due at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from sqlite3 import Connection
from typing import Any, Final

from .ownership import Owner
from .refusals import already_cancelled, already_decided, already_settled, expired, lost, no_call, no_run
from .rows import APPROVAL, CALL, LISTED, PROGRAM, Rows, event_of, key_of
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

__all__ = ["Tables"]


def _places(columns: str) -> str:
    return ", ".join("?" for _ in columns.split(", "))


def _replaced(columns: str) -> str:
    return ", ".join(f"{name} = excluded.{name}" for name in columns.split(", "))


_HELD: Final = "FROM runs WHERE id = ? AND epoch = ? AND owner = ?"
_EVENT: Final = "number, time, digest, occurrence"
_PUT_CALL: Final = (
    f"INSERT INTO calls (run, {CALL}) SELECT id, {_places(CALL)} {_HELD} "
    f"ON CONFLICT (run, digest, occurrence) DO UPDATE SET {_replaced(CALL)}"
)
_PUT_EVENT: Final = f"INSERT INTO events (run, {_EVENT}) SELECT id, {_places(_EVENT)} {_HELD}"
_PUT_APPROVAL: Final = (
    f"INSERT INTO approvals (run, belongs_to, {APPROVAL}) SELECT id, belongs_to, {_places(APPROVAL)} {_HELD} "
    f"ON CONFLICT (run, digest, occurrence) DO UPDATE SET {_replaced(APPROVAL)}"
)
_PUT_STATE: Final = (
    "UPDATE runs SET status = ?, wake_at = ?, reason = ?, result = ?, changed = ?, ended = ?, due_at = "
    "CASE WHEN ? = 1 THEN NULL WHEN cancelled = 1 THEN 0 WHEN ? = 1 AND decisions > ? THEN 0 ELSE ? END "
    "WHERE id = ? AND epoch = ? AND owner = ?"
)
_FORGET_EVENTS: Final = f"DELETE FROM events WHERE run IN (SELECT id {_HELD})"
_RELEASE: Final = "UPDATE runs SET owner = NULL WHERE id = ? AND epoch = ? AND owner = ?"

_PUT_PROGRAM: Final = f"INSERT INTO programs (run, {PROGRAM}) VALUES (?, {_places(PROGRAM)})"
_PUT_RUN: Final = (
    "INSERT INTO runs (id, key, belongs_to, kind, created, changed, status, cancelled, decisions, epoch, due_at) "
    "VALUES (?, ?, ?, ?, ?, ?, 'running', 0, 0, 0, 0)"
)
_FIND: Final = f"SELECT result, {PROGRAM}, {LISTED} FROM runs JOIN programs ON run = id WHERE id = ?"
_OF_KEY: Final = "SELECT id FROM runs WHERE belongs_to = ? AND key = ?"
_STATUS: Final = "SELECT status, cancelled, created FROM runs WHERE id = ?"
_CALLS: Final = f"SELECT {CALL} FROM calls WHERE run = ? ORDER BY id"
_EVENTS: Final = f"SELECT {_EVENT} FROM events WHERE run = ? ORDER BY number"
_APPROVALS: Final = f"SELECT run, {APPROVAL} FROM approvals WHERE run = ?"
_OF_CALL: Final = "run = ? AND digest = ? AND occurrence = ?"
_OPEN: Final = (
    f"SELECT run, {APPROVAL} FROM approvals WHERE granted IS NULL AND expires > ? "
    "AND EXISTS (SELECT 1 FROM runs WHERE runs.id = run AND ended IS NULL)"
)

_OWNED: Final = (
    "SELECT epoch, ended, decisions, owner, beat, lease_seconds FROM runs LEFT JOIN owners ON owners.id = owner "
    "WHERE runs.id = ?"
)
_TAKE: Final = (
    "UPDATE runs SET owner = ?, epoch = epoch + 1, status = 'running', reason = NULL, wake_at = NULL, due_at = 0, "
    "changed = ? WHERE id = ? AND epoch = ? AND ended IS NULL"
)
_BEAT: Final = (
    "INSERT INTO owners (id, beat, lease_seconds, seen) VALUES (?, 0, ?, ?) "
    "ON CONFLICT (id) DO UPDATE SET beat = owners.beat + 1, seen = excluded.seen"
)
_OWNERS: Final = "SELECT id, beat, lease_seconds FROM owners"
_FORGET_OWNER: Final = "DELETE FROM owners WHERE id = ? AND NOT EXISTS (SELECT 1 FROM runs WHERE owner = owners.id)"
_DUE: Final = "SELECT id FROM runs WHERE {whose} AND due_at <= ? ORDER BY due_at LIMIT ?"
_DECIDED: Final = "SELECT id, decisions FROM runs WHERE owner = ? AND decisions > 0"

_DECIDE: Final = (
    "UPDATE approvals SET granted = ?, decided = ?, decided_by = ?, decided_arguments = ?, decided_reason = ? "
    f"WHERE {_OF_CALL}"
)
_SETTLE: Final = f"UPDATE calls SET ({CALL}) = ({_places(CALL)}) WHERE {_OF_CALL}"
_WAKE: Final = (
    "UPDATE runs SET decisions = decisions + 1, due_at = CASE WHEN status = 'waiting' THEN 0 ELSE due_at END "
    "WHERE id = ?"
)
_GO_ON: Final = (
    "UPDATE runs SET decisions = decisions + 1, due_at = 0, changed = ?, "
    "reason = CASE WHEN status = 'needs_attention' THEN NULL ELSE reason END, "
    "status = CASE WHEN status = 'needs_attention' THEN 'running' ELSE status END WHERE id = ?"
)
_CANCEL: Final = "UPDATE runs SET decisions = decisions + 1, due_at = 0, changed = ?, cancelled = 1 WHERE id = ?"
_OLD: Final = "SELECT id FROM runs WHERE ended < ? ORDER BY ended LIMIT ?"


class Tables:
    """The tables, through a connection that the caller gives.

    Args:
        rows: makes rows of values.
        owner: this store as an owner.
        clock: seconds since 1970.
        failed: runs that were held here, and whose changes cannot be stored any more.
    """

    def __init__(self, rows: Rows, owner: Owner, clock: Callable[[], float], failed: Collection[Hashable]) -> None:
        self.told: dict[str, int] = {}
        """Runs that are held here, with the number of decisions that their owner was told of."""
        self._rows = rows
        self._owner = owner
        self._clock = clock
        self._failed = failed

    # for owners

    def add(self, db: Connection, run: StoredRun, takes: bool) -> Kept:
        if run.key is not None and (known := self.find_key(db, run.key, run.belongs_to)) is not None:
            return Kept(known, is_new=False)
        db.execute(_PUT_PROGRAM, (run.id, *self._rows.program(run)))
        db.execute(_PUT_RUN, (run.id, run.key, run.belongs_to, run.kind, run.created, run.changed))
        held = self.take(db, run.id, LEASE_SECONDS) if takes else None
        return Kept(self.find(db, run.id), is_new=True, held=held)

    def take(self, db: Connection, run: str, lease_seconds: float) -> Held | None:
        row = db.execute(_OWNED, (run,)).fetchone()
        if row is None:
            raise no_run(run)
        epoch, ended, decisions, owner, beat, lease = row
        if ended is not None or (owner is not None and self._lives(owner, beat, lease, Held(run, epoch))):
            return None
        now = self._clock()
        self.beat(db, lease_seconds)
        db.execute(_TAKE, (self._owner.name, now, run, epoch))
        if owner is not None:
            db.execute(_FORGET_OWNER, (owner,))
        self.told[run] = decisions
        return Held(run, epoch + 1)

    def _lives(self, owner: str, beat: int | None, lease_seconds: float | None, held: Held) -> bool:
        if owner == self._owner.name:
            return held not in self._failed
        return beat is not None and lease_seconds is not None and self._owner.lives(owner, beat, lease_seconds)

    def beat(self, db: Connection, lease_seconds: float = LEASE_SECONDS) -> None:
        """Show that this owner lives."""
        db.execute(_BEAT, (self._owner.name, lease_seconds, self._clock()))

    def leave(self, db: Connection) -> None:
        """Release all runs that are held here."""
        db.execute("UPDATE runs SET owner = NULL WHERE owner = ?", (self._owner.name,))
        db.execute(_FORGET_OWNER, (self._owner.name,))
        self.told.clear()

    def write(self, db: Connection, held: Held, changes: Sequence[Change], told: int) -> None:
        """Store changes of a run; `told` is the number of decisions that its owner knew of."""
        rows, run, where = self._rows, held.run, (held.run, held.epoch, self._owner.name)
        released = False
        for n, change in enumerate(changes):
            match change:
                case StoredCall():
                    written = db.execute(_PUT_CALL, (*rows.call(run, change), *where))
                case Consumed():
                    written = db.execute(_PUT_EVENT, (change.number, change.time, *key_of(change.call), *where))
                case Approval():
                    written = db.execute(_PUT_APPROVAL, (*rows.approval(run, change), *where))
                case StateChange():
                    if change.forgets_events:
                        db.execute(_FORGET_EVENTS, where)
                    written = db.execute(_PUT_STATE, (*self._state(run, change, told), *where))
                    released = released or change.released or change.status in ENDED
            if not n and not written.rowcount:  # no later statement would find the run either
                raise lost(run) if db.execute(_STATUS, (run,)).fetchone() else no_run(run)
        if released:
            db.execute(_RELEASE, where)
            self.told.pop(run, None)

    def expire(self, db: Connection, held: Held, call: CallKey, decision: Decision) -> Approval:
        if not db.execute(f"SELECT 1 {_HELD}", (held.run, held.epoch, self._owner.name)).fetchone():
            raise lost(held.run) if db.execute(_STATUS, (held.run,)).fetchone() else no_run(held.run)
        approval = self._approval(db, held.run, call)
        return approval if approval.decision is not None else self._put_decision(db, approval, decision)

    def _state(self, run: str, change: StateChange, told: int) -> tuple[Any, ...]:
        now, ended = self._clock(), change.status in ENDED
        sleeps = change.status in ("waiting", "needs_attention")
        due = change.wake_at if sleeps else 0.0 if change.status == "running" else None
        return (*self._rows.state(run, change), now, now if ended else None, int(ended), int(sleeps), told, due)

    def due(self, db: Connection, now: float, most: int) -> Sequence[str]:
        due: list[str] = []
        if self._failed:
            here = db.execute("SELECT id, epoch FROM runs WHERE owner = ?", (self._owner.name,))
            due += [run for run, epoch in here if Held(run, epoch) in self._failed]
        due += [run for (run,) in db.execute(_DUE.format(whose="owner IS NULL"), (now, most))]
        for owner, beat, lease in db.execute(_OWNERS).fetchall():
            if not self._owner.lives(owner, beat, lease):
                due += [run for (run,) in db.execute(_DUE.format(whose="owner = ?"), (owner, now, most))]
        return due[:most]

    def decided(self, db: Connection) -> Sequence[tuple[str, int]]:
        """Runs that are held here, with the number of decisions about them."""
        return db.execute(_DECIDED, (self._owner.name,)).fetchall()

    # for everybody

    def find(self, db: Connection, run: str) -> StoredRun:
        row = db.execute(_FIND, (run,)).fetchone()
        if row is None:
            raise no_run(run)
        return self._rows.found(row)

    def find_key(self, db: Connection, key: str, belongs_to: str) -> StoredRun | None:
        row = db.execute(_OF_KEY, (belongs_to, key)).fetchone()
        return None if row is None else self.find(db, row[0])

    def load(self, db: Connection, run: str) -> RunHistory:
        rows = self._rows
        return RunHistory(
            self.find(db, run),
            tuple(rows.call_of(run, row) for row in db.execute(_CALLS, (run,))),
            tuple(event_of(row, n) for n, row in enumerate(db.execute(_EVENTS, (run,)), 1)),
            tuple(rows.approval_of(row) for row in db.execute(f"{_APPROVALS} ORDER BY id", (run,))),
        )

    def list(
        self, db: Connection, status: RunStatus | None, belongs_to: str | None, most: int, before: str | None
    ) -> Sequence[StoredRun]:
        where, values = _matching(status, belongs_to)
        if before is not None:
            where += " AND (created, id) < (?, ?)"
            values += (self._status(db, before)[2], before)
        newest = db.execute(
            f"SELECT {LISTED} FROM runs {where} ORDER BY created DESC, id DESC LIMIT ?", (*values, most)
        )
        return [self._rows.listed(row) for row in newest]

    def count(self, db: Connection, status: RunStatus | None, belongs_to: str | None) -> int:
        where, values = _matching(status, belongs_to)
        (number,) = db.execute(f"SELECT count(*) FROM runs {where}", values).fetchone()
        return int(number)

    def pending(self, db: Connection, belongs_to: str | None, most: int) -> Sequence[Approval]:
        of_one, values = ("", ()) if belongs_to is None else (" AND belongs_to = ?", (belongs_to,))
        rows = db.execute(f"{_OPEN}{of_one} ORDER BY asked LIMIT ?", (self._clock(), *values, most))
        return [self._rows.approval_of(row) for row in rows]

    # for people

    def decide(self, db: Connection, run: str, call: CallKey, decision: Decision) -> Approval:
        status, *_ = self._status(db, run)
        approval = self._approval(db, run, call)
        if approval.decision is not None:
            raise already_decided(approval, approval.decision)
        if status in ENDED:
            raise already_cancelled(run, status)
        if approval.expires <= decision.time:
            raise expired(approval)
        db.execute(_WAKE, (run,))
        return self._put_decision(db, approval, decision)

    def _approval(self, db: Connection, run: str, call: CallKey) -> Approval:
        row = db.execute(f"SELECT run, {APPROVAL} FROM approvals WHERE {_OF_CALL}", (run, *key_of(call))).fetchone()
        if row is None:
            raise no_call(run, call, "approval")
        return self._rows.approval_of(row)

    def _put_decision(self, db: Connection, approval: Approval, decision: Decision) -> Approval:
        run, call = approval.run, approval.call
        db.execute(_DECIDE, (*self._rows.decision(run, call, decision), run, *key_of(call)))
        return replace(approval, decision=decision)

    def settle(self, db: Connection, run: str, call: StoredCall) -> None:
        status, *_ = self._status(db, run)
        key = (run, *key_of(call.key))
        row = db.execute(f"SELECT {CALL} FROM calls WHERE {_OF_CALL}", key).fetchone()
        if row is None:
            raise no_call(run, call.key, "outcome")
        known = self._rows.call_of(run, row)
        if known.status != "unknown":
            raise already_settled(known)
        if status in ENDED:
            raise already_cancelled(run, status)
        db.execute(_SETTLE, (*self._rows.call(run, call), *key))
        db.execute(_GO_ON, (self._clock(), run))

    def cancel(self, db: Connection, run: str) -> None:
        status, cancelled, _ = self._status(db, run)
        if status in ENDED or cancelled:
            raise already_cancelled(run, status)
        db.execute(_CANCEL, (self._clock(), run))

    def prune(self, db: Connection, ended_before: float, most_rows: int) -> int:
        """Delete runs that ended before then, until about `most_rows` rows are deleted. Returns how many runs."""
        deleted = runs = 0
        for (run,) in db.execute(_OLD, (ended_before, most_rows)).fetchall():
            for table in ("calls", "events", "approvals", "programs"):
                deleted += db.execute(f"DELETE FROM {table} WHERE run = ?", (run,)).rowcount
            deleted += db.execute("DELETE FROM runs WHERE id = ?", (run,)).rowcount
            runs += 1
            if deleted >= most_rows:
                break
        return runs

    def _status(self, db: Connection, run: str) -> tuple[RunStatus, int, float]:
        row: tuple[RunStatus, int, float] | None = db.execute(_STATUS, (run,)).fetchone()
        if row is None:
            raise no_run(run)
        return row


def _matching(status: RunStatus | None, belongs_to: str | None) -> tuple[str, tuple[Any, ...]]:
    given = {"belongs_to": belongs_to, "status": status}
    names = [name for name, value in given.items() if value is not None]
    where = " AND ".join(f"{name} = ?" for name in names) or "1 = 1"
    return f"WHERE {where}", tuple(given[name] for name in names)
