"""The gate of one durable run: a `RunGate` that asks the journal before each call, and tells it of each outcome.

1. The journal is asked after the call has its record, so that calls begin in the same order as in any other run.
2. A call whose outcome is kept is not made. It passes no check: what was valid then is valid now.
3. A call with its fallbacks is one call of the journal.
4. A call that began before the program came to it passes here without the journal: the walk has it kept when it comes
   to it.
"""

from __future__ import annotations

import json
from typing import Any

from callgate.durable.store import CallKey, RunHistory, StoredCall
from callgate.errors import LimitReached, ToolError
from callgate.runtime.gate.events import CallEnded, tell
from callgate.runtime.gate.journal import KeptCall
from callgate.runtime.gate.records import CallRecord, CallUnderWay
from callgate.runtime.gate.run_gate import RunGate
from callgate.tools import Tool

from .journal import RunJournal
from .recorded import error_from, error_text, records_from

__all__ = ["DurableGate"]


class DurableGate(RunGate):
    """The gate of one durable run.

    Args:
        journal: of the run.
        given: what a `RunGate` takes.
    """

    journal: RunJournal

    def __init__(self, journal: RunJournal, *given: Any) -> None:
        super().__init__(*given)
        self.journal = journal
        self.keys: dict[int, CallKey] = {}
        """The names in the journal of the calls, by the indexes of their records."""

    @property
    def durable(self) -> DurableGate:
        """See `RunGate.durable`."""
        return self

    def key_of(self, name: str, arguments: Any) -> CallKey:
        """See `NamesCalls.key_of`."""
        call = CallUnderWay(name, arguments)
        self._resolve(call)
        return self.journal.key_of(call.name, call.arguments)

    def consumed(self, record: int) -> None:
        """See `NamesCalls.consumed`."""
        self.journal.consumed(self.keys[record])

    async def _pass(self, call: CallUnderWay) -> str:
        if call.tried or call.early:
            return await super()._pass(call)
        kept = call.kept = call.kept or KeptCall(self.journal)
        if kept.number is not None:
            kept.written = call.name, call.arguments
        known = self._resolve(call)
        if kept.key is None:
            kept.key = self.journal.key_of(call.name, call.arguments, kept.place)
        if kept.number is not None:
            self.journal.numbered(kept.key, kept.number)
        stored = self.journal.outcome_of(kept.key)
        if stored is not None:
            return await self._again(call, stored)
        self.keys[self._begin(call).id - 1] = kept.key
        try:
            await self.journal.may_be_made(kept.key, call, known)
        except ToolError as error:
            call.failure = "unknown_outcome"
            self._failed(call, error)
            self._left(call, known)
            await self.journal.ended(kept.key, call, [call.record], error)
            raise
        except BaseException:
            self._cut_off(call)
            self._left(call, known)
            raise
        return await self._made(kept.key, call)

    async def record_cancelled(self, name: str, arguments: Any, line: int | None = None) -> None:
        """See `RunGate.record_cancelled`. The call has a name in the journal, too: those behind it count it."""
        self.key_of(name, arguments)
        await super().record_cancelled(name, arguments, line)

    async def begin_in_guest(self) -> RunHistory:
        """What is kept of the calls whose outcomes a guest gets with its history."""
        self.records.clear()
        self.keys.clear()
        return await self.journal.begin_in_guest()

    def restore(self, history: RunHistory) -> None:
        """Record the calls of a history."""
        calls = {call.key: call for call in history.calls}
        used = [calls[event.call] for event in history.events if event.call is not None]
        self.leave_out(len(used))  # they were counted without their records
        for call in sorted(used, key=lambda call: call.number or 0):
            self._restore(call, json.loads(call.arguments), None)
        self.leave_out(len(self.records) - len(used))

    async def _again(self, call: CallUnderWay, stored: StoredCall) -> str:
        """Give the outcome of a call that is not made again, when it is its turn. Nobody is told of it again."""
        self.keys[len(self.records)] = stored.key
        call.record = self._restore(stored, call.arguments, call.line)
        await self.journal.turn(stored.key)
        if stored.status == "failed":
            raise error_from(stored.outcome or "")
        return stored.outcome or "null"

    def _restore(self, stored: StoredCall, arguments: Any, line: int | None) -> CallRecord:
        """Record a call as it was made."""
        chain = records_from(stored.record, stored.tool, arguments, self.caller)
        before = len(self.records)
        if before + len(chain) > self._most_calls:
            raise LimitReached("max_tool_calls", self.limits.max_tool_calls, self.limits.max_tool_calls)
        for record in chain:
            record.id += before
            record.line = record.line if line is None else line
            if record.fallback_call is not None:
                record.fallback_call += before
        self.records += chain
        return chain[0]

    async def _made(self, key: CallKey, call: CallUnderWay) -> str:
        """Make a call, and have its outcome kept."""
        try:
            try:
                outcome: str | ToolError = await super()._pass(call)
            except ToolError as error:
                outcome = error
            await self.journal.ended(key, call, self.chain(call.record.id - 1), outcome)
        finally:
            self.journal.left(key)
        if isinstance(outcome, ToolError):
            raise outcome
        return outcome

    def _begin(self, call: CallUnderWay) -> CallRecord:
        begun: CallRecord | None = getattr(call, "record", None)
        return super()._begin(call) if begun is None else begun

    def _instead(self, call: CallUnderWay) -> CallUnderWay | None:
        instead = super()._instead(call)
        if instead is not None and call.kept is not None:
            self.journal.follow(call, instead, self._failure)
        return instead

    def _failed(self, call: CallUnderWay, error: ToolError) -> None:
        super()._failed(call, error)
        self._failure = error_text(error)  # for `_instead`, which is asked next

    def _left(self, call: CallUnderWay, known: Tool | None) -> None:
        """Say that a call has left the gate before it was made."""
        if call.watches is not None:
            call.watches.ended(known, None)
        if self._on_event is not None:
            tell(self._on_event, CallEnded(call.record))
