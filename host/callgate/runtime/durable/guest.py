"""Runs the program of a durable run in a guest that does the same again, from what the journal has of it.

1. The guest gets the outcomes that it used before with `execute`, and calls in them never cross the wire. All others
   pass the gate, where the journal answers those that have an outcome.
2. A program that began on the fast path begins anew here: the order in which the walk used outcomes is forgotten, and
   every call is answered from the journal.
3. A guest that waits for people alone, or for a time that is far away, is ended: see `RunJournal.pause`.
"""

from __future__ import annotations

import json
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from callgate.protocol.run import Called, encode
from callgate.runtime.gate.journal import KeptCall
from callgate.runtime.gate.records import CallUnderWay
from callgate.runtime.guest_run import in_guest
from callgate.runtime.replay.history import History, ReplayEvent
from callgate.runtime.replay.run import ReplayRun

from .gate import DurableGate
from .recorded import as_given

if TYPE_CHECKING:
    from callgate.durable.store import RunHistory, StoredCall
    from callgate.runtime.result import CodeResult
    from callgate.runtime.run import CodeRun
    from callgate.sandbox.backend import Backend, Guest
    from callgate.sandbox.pool import WarmPool

__all__ = ["in_durable_guest"]

FAR_SECONDS: Final = 10.0
"""A timer that ends later than this puts a run to sleep."""


async def in_durable_guest(run: CodeRun, backend: Backend, pool: WarmPool) -> CodeResult:
    """Run a program of a durable run, from where it was. Raises `SandboxError` if there is no guest."""
    gate = run.gate
    assert isinstance(gate, DurableGate)
    kept = await gate.begin_in_guest()
    return await in_guest(run, backend, pool, lambda run, guest: DurableGuestRun(run, guest, kept, gate))


def _history(kept: RunHistory) -> History:
    calls = {call.key: call for call in kept.calls}
    events = tuple(
        ReplayEvent(event.time) if event.call is None else _event(event.time, calls[event.call])
        for event in kept.events
    )
    return History(kept.run.seed, kept.run.created, events)


def _event(time: float, call: StoredCall) -> ReplayEvent:
    tool, arguments = as_given(call)
    outcome, failed = call.outcome or "null", call.status == "failed"
    if failed:
        error = json.loads(outcome)
        del error["kind"]
        outcome = encode(error)
    return ReplayEvent(time, call.number, tool, arguments, outcome, failed)


class DurableGuestRun(ReplayRun):
    """One program of a durable run in its guest."""

    keeps_events = False

    def __init__(self, run: CodeRun, guest: Guest, kept: RunHistory, gate: DurableGate) -> None:
        super().__init__(run, guest, _history(kept), self._note)
        self._kept: RunHistory | None = kept
        self._restores = gate.restore
        self._journal = gate.journal
        self._journal.drive = self

    async def give_history(self) -> None:
        """See `ReplayRun`. While the guest replays, the calls get their records."""
        try:
            await super().give_history()
        finally:
            kept, self._kept = self._kept, None
            assert kept is not None
            self._restores(kept)

    def rests(self, parked: int) -> bool:
        """See `callgate.runtime.gate.journal.Rests`."""
        near = self._until is not None and self._until - self.now() <= FAR_SECONDS
        return bool(self._wire.waits) and not (self.arrived or near) and self.only_waits_for(parked)

    def _note(self, number: int, event: ReplayEvent) -> None:
        self._journal.received(event.time, event.number)

    def _made(self, call: Called) -> Coroutine[Any, Any, str]:
        kept = KeptCall(self._journal, number=call.id if type(call.id) is int else None)
        return self._gate.take(CallUnderWay(call.method, call.arguments, line=call.line, kept=kept))

    async def next_event(self, until: float | None) -> ReplayEvent:
        """See `ReplayRun`. A program that waits for a time that is far away is put to sleep."""
        self._journal.wake_at = until
        self._journal.parking.has_any.set()
        return await super().next_event(until)
