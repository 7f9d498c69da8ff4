"""How runs, calls, events and approvals become rows of a database, and back. Knows no statement and no thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from callgate.errors import StoreFailed

from .sealing import Sealing
from .store import Approval, CallKey, Consumed, Decision, StateChange, StoredCall, StoredRun

__all__ = ["APPROVAL", "CALL", "LISTED", "PROGRAM", "Rows", "event_of", "key_of"]

CALL: Final = "digest, occurrence, number, tool, status, idempotency_key, arguments, outcome, record"
APPROVAL: Final = (
    "digest, occurrence, tool, schema_digest, asked, expires, granted, decided, arguments, decided_by, "
    "decided_arguments, decided_reason"
)
PROGRAM: Final = "text, options, environment, seed"
LISTED: Final = (
    "id, key, belongs_to, kind, created, changed, status, wake_at, cancelled, epoch, owner, reason, "
    "(SELECT seen + lease_seconds FROM owners WHERE owners.id = runs.owner)"
)


class Rows:
    """Makes values of rows, and rows of values.

    Args:
        sealing: how texts are kept.
    """

    def __init__(self, sealing: Sealing) -> None:
        self._sealing = sealing

    def _seal(self, text: str | None, run: str, place: str) -> bytes | None:
        return None if text is None else self._sealing.seal(text.encode("utf-8", "surrogatepass"), run, place)

    def _open(self, value: bytes, run: str, place: str) -> str:
        return self._sealing.open(value, run, place).decode("utf-8", "surrogatepass")

    def _maybe(self, value: bytes | None, run: str, place: str) -> str | None:
        return None if value is None else self._open(value, run, place)

    def program(self, run: StoredRun) -> tuple[Any, ...]:
        """The columns `PROGRAM` of a run."""
        return (
            self._seal(run.text, run.id, "programs.text"),
            self._seal(run.options, run.id, "programs.options"),
            self._seal(run.environment, run.id, "programs.environment"),
            self._sealing.seal(run.seed, run.id, "programs.seed"),
        )

    def found(self, row: Sequence[Any]) -> StoredRun:
        """The run with the columns ``result``, `PROGRAM` and `LISTED`."""
        result, text, options, environment, seed, *listed = row
        run = self.listed(listed)
        return replace(
            run,
            text=self._open(text, run.id, "programs.text"),
            options=self._open(options, run.id, "programs.options"),
            environment=self._open(environment, run.id, "programs.environment"),
            seed=self._sealing.open(seed, run.id, "programs.seed"),
            result=self._maybe(result, run.id, "runs.result"),
        )

    def listed(self, row: Sequence[Any]) -> StoredRun:
        """The run with the columns `LISTED`; the others are empty."""
        run, key, belongs_to, kind, created, changed, status, wake_at, cancelled, epoch, owner, reason, lease = row
        return StoredRun(
            id=run,
            key=key,
            belongs_to=belongs_to,
            kind=kind,
            text="",
            options="",
            environment="",
            seed=b"",
            created=created,
            changed=changed,
            status=status,
            reason=self._maybe(reason, run, "runs.reason"),
            wake_at=wake_at,
            cancelled=bool(cancelled),
            epoch=epoch,
            owner=owner,
            lease_until=lease or 0.0,
        )

    def state(self, run: str, change: StateChange) -> tuple[Any, ...]:
        """Columns of a state: status, wake_at, reason, result."""
        reason = self._seal(change.reason, run, "runs.reason")
        return change.status, change.wake_at, reason, self._seal(change.result, run, "runs.result")

    def call(self, run: str, call: StoredCall) -> tuple[Any, ...]:
        """The columns `CALL` of a call."""
        row = _row(call.key)
        return (
            *key_of(call.key),
            call.number,
            call.tool,
            call.status,
            call.idempotency_key,
            self._seal(call.arguments, run, f"calls.arguments {row}"),
            self._seal(call.outcome, run, f"calls.outcome {row}"),
            self._seal(call.record, run, f"calls.record {row}"),
        )

    def call_of(self, run: str, values: Sequence[Any]) -> StoredCall:
        """The call with the columns `CALL`."""
        digest, occurrence, number, tool, status, idempotency_key, arguments, outcome, record = values
        key = CallKey(digest, occurrence)
        if self._sealing.encrypts:
            row = _row(key)
            arguments = self._sealing.open(arguments, run, f"calls.arguments {row}")
            outcome = outcome and self._sealing.open(outcome, run, f"calls.outcome {row}")
            record = self._sealing.open(record, run, f"calls.record {row}")
        return StoredCall(
            key=key,
            number=number,
            tool=tool,
            arguments=arguments.decode("utf-8", "surrogatepass"),
            status=status,
            outcome=None if outcome is None else outcome.decode("utf-8", "surrogatepass"),
            idempotency_key=idempotency_key,
            record=record.decode("utf-8", "surrogatepass"),
        )

    def approval(self, run: str, approval: Approval) -> tuple[Any, ...]:
        """The columns `APPROVAL` of an approval."""
        key = approval.call
        granted, decided, *said = self.decision(run, key, approval.decision)
        arguments = self._seal(approval.arguments, run, f"approvals.arguments {_row(key)}")
        asked = (approval.tool, approval.schema_digest, approval.asked, approval.expires)
        return (*key_of(key), *asked, granted, decided, arguments, *said)

    def decision(self, run: str, call: CallKey, decision: Decision | None) -> tuple[Any, ...]:
        """Columns of a decision: granted, decided, by, arguments, reason."""
        if decision is None:
            return (None,) * 5
        return (
            int(decision.granted),
            decision.time,
            self._seal(decision.by, run, f"approvals.decided_by {_row(call)}"),
            self._seal(decision.arguments, run, f"approvals.decided_arguments {_row(call)}"),
            self._seal(decision.reason, run, f"approvals.decided_reason {_row(call)}"),
        )

    def approval_of(self, values: Sequence[Any]) -> Approval:
        """The approval with the columns ``run`` and `APPROVAL`."""
        run, digest, occurrence, tool, schema_digest, asked, expires, granted, decided, *sealed = values
        arguments, by, decided_arguments, reason = sealed
        key = CallKey(digest, occurrence)
        row = _row(key)
        decision = None
        if granted is not None:
            decision = Decision(
                granted=bool(granted),
                by=self._open(by, run, f"approvals.decided_by {row}"),
                arguments=self._maybe(decided_arguments, run, f"approvals.decided_arguments {row}"),
                reason=self._maybe(reason, run, f"approvals.decided_reason {row}"),
                time=decided,
            )
        return Approval(
            run=run,
            call=key,
            tool=tool,
            arguments=self._open(arguments, run, f"approvals.arguments {row}"),
            schema_digest=schema_digest,
            asked=asked,
            expires=expires,
            decision=decision,
        )


def event_of(values: Sequence[Any], number: int) -> Consumed:
    """The event with the columns number, time, digest, occurrence, which has to be number `number`."""
    found, time, digest, occurrence = values
    if found != number:
        raise StoreFailed(f"event {number} of this run is missing from the store: the file is damaged, restore a copy")
    return Consumed(number, time, None if digest is None else CallKey(digest, occurrence))


def key_of(key: CallKey | None) -> tuple[bytes | None, int | None]:
    """The columns digest and occurrence."""
    return (None, None) if key is None else (key.digest, key.occurrence)


def _row(key: CallKey) -> str:
    return f"{key.digest.hex()} {key.occurrence}"
