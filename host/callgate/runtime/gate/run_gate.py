"""The gate of one run. Every tool call passes here, in this order and from any caller, and there is no path around it:

1. **known and allowed** for this caller, in this run. A caller may write a tool's name in any way that
   `Registry.resolve` knows; from here on the tool has its own name;
2. **validated** against the input schema;
3. **approved**, if the tool requires approval; changed arguments are validated again;
4. **counted and queued**: `max_tool_calls` counts every call that arrives, refused ones included, and ends the run;
   `max_concurrent_calls` makes calls wait for a place, and never fails one. A person who thinks, a retry that waits and
   a fallback hold no place. (A program's calls come from a `Driver` with as many workers as places: there, such a call
   keeps its worker);
5. **cache**, after approval, so that no call gets around it;
6. **called**: timeout, then retry, then fallback;
7. **encoded**: the result is validated, written as JSON and measured;
8. **recorded and sent**: a record for every call, an event at its start and one at its end; and a note for every
   attempt in the registry's statistics.

A call that has the outcome of an earlier program's call (see `earlier`) passes steps 1 to 3 and 8: it is not counted,
not made, and an approval that somebody gave to the earlier call holds.

`RunGate._pass` takes a call through these steps, from top to bottom; `attempts` has timeout and retry. *Fallback*:
another tool, called with the same arguments after a failure or a timeout (naming a fallback is consent to a second
attempt), and not after a refusal or a denial. The fallback passes the whole gate itself; a chain calls no tool twice.

The gate knows no wire, no program and no plan. It never shows the text of a host's exception to a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from callgate.artifacts import keeper_of_call
from callgate.errors import LimitReached, ToolError, ToolNotAllowed, ToolTimedOut
from callgate.limits import Limits
from callgate.runtime.offer import Offer
from callgate.runtime.products import Products
from callgate.tools import Caller, Retry, Tool
from callgate.tools.turns import LARGE_BYTES

from .approval import Allow, ApprovalRequest, Deny, answer_of, denied
from .arguments import as_dict, copy_of, key_of, validated, validated_by
from .attempts import Attempts
from .cache import reads_kept_seconds
from .earlier import Answered, EarlierOutcome, ForRepair, Outcome, Repair
from .events import CallEnded, CallStarted, Event, tell
from .failures import copied
from .recording import Recording
from .records import CallRecord, CallUnderWay
from .watches import RunWatches
from .watching import place

if TYPE_CHECKING:
    from .gate import Gate
    from .journal import CallJournal, NamesCalls

__all__ = ["RunGate"]

MAX_SUGGESTIONS = 100
"""Unknown names in one run for which the gate looks up the nearest name: a lookup costs the host time."""
_CUT_OFF = "the call was cancelled while it was under way; it may have done its work all the same"


class RunGate:
    """The gate of one run; made by `Gate.open`."""

    journal: CallJournal | None = None
    """Keeps the calls of a durable run; None in any other run."""

    def __init__(
        self,
        gate: Gate,
        limits: Limits,
        offer: Offer,
        on_event: Callable[[Event], None] | None,
        products: Products,
    ) -> None:
        self.records: list[CallRecord] = []
        """Every call of the run so far, in the order of arrival."""
        self.offer = offer
        """The tools that this run may call."""
        self.caller: Caller = offer.caller
        self.limits = limits
        self.gate = gate
        self.products = products
        """Has the artifacts that calls may name, and keeps those that tools return."""
        self.watches: RunWatches | None = None
        """All watchers of the run; None without any."""
        self._known = offer.by_name
        self._on_event = on_event
        self._attempts = Attempts(gate, limits, offer.caller, on_event, products)
        self._clock = gate.clock
        self._began = gate.clock()
        self._has_begun = False
        self._most_calls = limits.max_tool_calls
        self._recording = Recording(offer.caller)
        self._suggestions = MAX_SUGGESTIONS
        self._answered: Answered | None = None
        self.repair: Repair | None = None
        """Has the outcomes of an earlier program's calls; None if the run corrects none."""
        self._reused: dict[int, Outcome] = {}
        """Those that stand for calls of this run, by the ids of their records."""

    def add(self, tool: Tool) -> None:
        """Let this run call one more tool, of the host's own."""
        self._known = {**self._known, tool.name: tool}

    @cached_property
    def _entrance(self) -> anyio.Lock:
        return anyio.Lock(fast_acquire=True)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout_seconds: float | None = None,
        retry: Retry | None = None,
        fallback: str | None = None,
        line: int | None = None,
        early: bool = False,
    ) -> Coroutine[Any, Any, str]:
        """Make a call.

        Args:
            name: the tool's name, in any way that `Registry.resolve` knows.
            arguments: JSON values by name.
            timeout_seconds: instead of the tool's own.
            retry: instead of the tool's own, for read-only and idempotent tools and for tools with a `retry`: a caller
                may not decide to repeat a side effect.
            fallback: instead of the tool's own.
            line: of the program; see `CallRecord.line`.
            early: see `CallRecord.early`.

        Returns:
            The result as compact JSON text, at most `max_message_bytes` long.

        Raises:
            ToolError: the call was refused, denied, or failed; its subclass says which.
            LimitReached: the run has made `max_tool_calls` calls already. Ends the run.
        """
        return self._pass(CallUnderWay(name, arguments, timeout_seconds, retry, fallback, line=line, early=early))

    def take(self, call: CallUnderWay) -> Coroutine[Any, Any, str]:
        """Do the work of `call` for a `CallUnderWay` that may say more, and whose `value` is read afterwards."""
        return self._pass(call)

    def reuse(self, outcomes: Iterable[Outcome], max_age_seconds: float) -> None:
        """Answer calls from an earlier program: see `Repair`."""
        self.repair = Repair(outcomes, max_age_seconds, self._clock, self.products.shelf, self.only_reads)

    def for_repair(self, *, ok: bool) -> ForRepair:
        """What a later program needs to reuse this run's calls. No whole results are kept of a run that ended well."""
        if ok and self.repair is None:
            return ForRepair(self._began)
        left = () if self.repair is None else self.repair.left
        has_effects = (self.repair is not None and self.repair.has_effects) or (
            not ok
            and any(
                record.status in ("succeeded", "unknown_outcome")
                and not self.only_reads(record.tool)
                and record.tool in self.offer.by_name
                for record in self.records
            )
        )
        return ForRepair(self._began, {} if ok else self._recording.whole, self._reused, left, has_effects)

    def begin_anew(self, answered: Answered, cancelled: int) -> None:
        """Answer calls of the program's second run from its first run: no call is made twice.

        Args:
            answered: the outcomes of the first run's calls. A call that has one is neither made nor recorded again.
            cancelled: number of records of calls without an outcome. They do not count for `max_tool_calls`, since the
                program may make these calls again.
        """
        self._answered = answered
        self.leave_out(cancelled)

    def leave_out(self, records: int) -> None:
        """Do not count so many records for `max_tool_calls`, since they are of calls that the program has not made; a
        number below 0 counts records again."""
        self._most_calls += records

    @property
    def durable(self) -> NamesCalls | None:
        """This gate, in a durable run; None in any other run."""
        return None

    async def record_cancelled(self, name: str, arguments: Any, line: int | None = None) -> None:
        """Record a call that was cancelled before it came to the gate; it counts like any other.

        Raises:
            LimitReached: the run has made `max_tool_calls` calls already. Ends the run.
        """
        call = CallUnderWay(name, arguments, line=line)
        known = self._resolve(call)
        if self._answered is not None and self._answered(call, known) is not None:
            return
        record = self._begin(call)
        record.status, record.error = "cancelled", "the call was cancelled before it had begun"
        try:
            if call.size > LARGE_BYTES:
                await self._recording.weigh(call)
        finally:
            if call.watches is not None:
                call.watches.ended(self._known.get(call.name), None)
            tell(self._on_event, CallEnded(record))

    def begin(self) -> None:
        """Count `seconds` from now, unless the run has begun. The time in which a sandbox starts is not the run's.

        Calls that were made while the program was still being written began before it, at negative seconds.
        """
        if not self._has_begun:
            before, self._began, self._has_begun = self._began, self._clock(), True
            for record in self.records:
                record.started_seconds -= self._began - before

    def seconds(self) -> float:
        """Seconds from the start of the run: of its calls, its prints and its usage."""
        return self._clock() - self._began

    async def begun(self) -> None:
        """Return when every call that has come here has passed the entrance."""
        while self._entrance.locked():
            await anyio.lowlevel.checkpoint()

    def chain(self, number: int) -> list[CallRecord]:
        """The record at index `number`, followed by the records of its fallbacks; empty for an index below 0."""
        chain = self.records[number : number + 1] if number >= 0 else []
        while chain and (instead := chain[-1].fallback_call) is not None and instead <= len(self.records):
            chain.append(self.records[instead - 1])
        return chain

    def only_reads(self, name: str) -> bool:
        """Whether this run has a tool of that name that is read-only."""
        tool = self._known.get(name) or self._known.get(self.offer.canonical(name))
        return tool is not None and tool.read_only

    async def _pass(self, call: CallUnderWay) -> str:
        """Take a call through the gate. Recording and the start event come before any wait."""
        known = self._resolve(call)
        if self._answered is not None or self.repair is not None:
            outcome = self._earlier(call, known)
            if isinstance(outcome, ToolError):
                raise copied(outcome)
            if callable(outcome):
                outcome = await outcome()
            if outcome is not None:
                return outcome
        record = self._begin(call)
        text: str | None = None
        before = keeper_of_call.get()
        call.products = self.products
        keeper_of_call.set(call)
        try:
            if call.size <= LARGE_BYTES and not self._entrance.locked():
                tool = self._allow(call, known)
                call.validated = validated_by(tool, call.given, are_json=call.are_json)
            else:
                tool = await self._enter(call, known)
            seconds = self._kept_seconds(tool)
            if seconds is not None:
                call.key = await key_of(tool, call.given)
            if tool.requires_approval and not (call.reused is not None and call.reused.is_approved):
                await self._approve(call)
            call.failure = "failed"
            if call.reused is not None:
                text = _reused(call, call.reused)
            elif seconds is None:
                text = await self._attempts.make(call)
            else:
                key = (tool, self.gate.effects.since(tool), call.key)
                alone = self if tool.cache_seconds is None else None  # a plan inside a tool must not wait for this run
                text, record.cached = await self.gate.cache.get_or_run(
                    key, seconds, lambda: self._attempts.make(call), terms=(call.timeout_seconds, call.retry, alone)
                )
            if len(text) * 4 > self.limits.max_message_bytes:
                self._measure(tool, text)
            record.status = "succeeded" if call.reused is None else call.reused.record.status
            record.duration_seconds = self.seconds() - record.started_seconds
            self._recording.result(record, text)
            return text
        except ToolError as error:
            self._failed(call, error)
            instead = self._instead(call)
            if instead is None:
                raise
            try:
                text = await self._pass(instead)
            except ToolError as second:
                failed = copied(error)
                failed.message = f"{error.message}; and its fallback: {second.message}"
                failed.args = (failed.message,)
                raise failed from None
            record.fallback = instead.name
            call.value = instead.value
            return text
        except BaseException:
            self._cut_off(call)
            raise
        finally:
            keeper_of_call.set(before)  # `reset` would fail if the call is cancelled in another context
            if call.reused is not None and not record.reused:
                self._give_back(call)
            if call.watches is not None:
                call.watches.ended(known, text if record.status == "succeeded" else None)
            if self._on_event is not None:
                tell(self._on_event, CallEnded(record))

    def _resolve(self, call: CallUnderWay) -> Tool | None:
        """Find the tool, None if this run does not have it; give the call the tool's and the arguments' own names."""
        known = self._known.get(call.name)
        if known is None:
            call.name = self.offer.canonical(call.name)
            known = self._known.get(call.name)
        if known is not None and known.spellings and self.caller == "code" and isinstance(call.arguments, Mapping):
            call.arguments = known.respelled(call.arguments)
        return known

    def _earlier(self, call: CallUnderWay, tool: Tool | None) -> EarlierOutcome | None:
        """The outcome of a call that this run has made already. That of an earlier program's call goes with `call`,
        which is recorded anew."""
        if call.tried:
            return None
        outcome = None if self._answered is None else self._answered(call, tool)
        if outcome is None and self.repair is not None:
            call.reused = self.repair.answered(call, tool)
        return outcome

    def _give_back(self, call: CallUnderWay) -> None:
        """Keep the outcome of an earlier program's call for the next call: this one was cancelled or denied before."""
        assert call.reused is not None
        assert self.repair is not None
        self.repair.give_back(call.reused)
        del self._reused[call.record.id]
        self._most_calls -= 1

    def _begin(self, call: CallUnderWay) -> CallRecord:
        """Count the call, record it, and send its start event."""
        count = len(self.records)
        if call.reused is not None:
            self._most_calls += 1
            self._reused[count + 1] = call.reused
        if count >= self._most_calls:
            most = self.limits.max_tool_calls
            raise LimitReached("max_tool_calls", most, most)
        arguments = self._recording.arguments(call)
        record = CallRecord(count + 1, call.name[:256], arguments, self.caller, self.seconds())
        record.line, record.early = call.line, call.early
        call.record = record
        self.records.append(record)
        if self.watches is not None:
            call.watches = self.watches.call(record)
            place.set(None)
        if self._on_event is not None:
            tell(self._on_event, CallStarted(record))
        return record

    def _allow(self, call: CallUnderWay, tool: Tool | None) -> Tool:
        """Take step 1, and make a dict of the arguments."""
        if tool is None:
            self._suggestions -= 1
            raise self.offer.refusal(call.name, suggest=self._suggestions >= 0)
        call.tool = tool
        call.given = call.arguments if type(call.arguments) is dict else as_dict(tool, call.arguments)
        return tool

    async def _enter(self, call: CallUnderWay, known: Tool | None) -> Tool:
        """Take steps 1 and 2 in turns with the host's other work. Calls enter one at a time: those that come while a
        large call is validated wait for it. Large arguments are copied here for the approval.
        """
        large = call.size > LARGE_BYTES
        try:
            await self._entrance.acquire()
        except BaseException:
            if large:
                self._recording.not_weighed(call.record)
            raise
        try:
            if large:
                await self._recording.weigh(call)
            tool = self._allow(call, known)
            call.validated = await validated(tool, call.given, are_json=call.are_json)
            if large and tool.requires_approval:
                call.shown = await copy_of(call.given)
            return tool
        finally:
            self._entrance.release()

    async def _approve(self, call: CallUnderWay) -> None:
        """Take step 3: ask, and replace the arguments if the answer has others."""
        tool, approve = call.tool, self.gate.approve
        if approve is None and call.kept is None:
            call.record.approval = "unavailable"
            raise ToolNotAllowed(
                f"tool {tool.name!r} needs approval, and there is nobody to ask: "
                "the operator must pass approve=... to the runtime",
                tool=tool.name,
            )
        call.failure = "denied"
        shown = call.shown if call.shown is not None else await copy_of(call.given)
        record = call.record
        if approve is None:
            assert call.kept is not None
            answer = await call.kept.journal.ask(call, shown)
        else:
            request = ApprovalRequest(tool, shown, self.caller, record.id)
            answer = await answer_of(approve, request, f"tool {tool.name!r}")
        granted = isinstance(answer, Allow)
        changed = answer.arguments if isinstance(answer, Allow) else None
        record.approval = "denied" if not granted else "granted" if changed is None else "changed"
        record.approved_by = answer.by
        if call.watches is not None:
            call.watches.approved(granted, answer.by, changed is not None)
        if isinstance(answer, Deny):
            raise denied(tool, answer)
        if changed is not None:
            call.reused = None  # with other arguments it is another call
            self._reused.pop(record.id, None)
            call.failure = "refused"
            call.record.changed_arguments = call.given = as_dict(tool, changed)
            call.are_json = False
            call.validated = await validated(tool, call.given)
            if call.key:
                call.key = await key_of(tool, call.given)

    def _kept_seconds(self, tool: Tool) -> float | None:
        """Seconds for which a result of this tool is cached; None for no caching."""
        if tool.cache_seconds is None and tool.read_only and self.caller == "plan":
            return reads_kept_seconds()
        return tool.cache_seconds

    def _measure(self, tool: Tool, text: str) -> None:
        size = len(text) if text.isascii() else len(text.encode())
        most = self.limits.max_message_bytes
        if size > most:
            raise ToolError(
                f"tool {tool.name!r}: the result is {size} bytes, the limit max_message_bytes is {most}: ask for less",
                tool=tool.name,
            )

    def _failed(self, call: CallUnderWay, error: ToolError) -> None:
        """Record that the call did not succeed."""
        record = call.record
        record.status = call.failure
        if call.failure == "failed" and isinstance(error, ToolTimedOut):
            record.status = "timed_out" if call.tool.repeatable else "unknown_outcome"
        self._recording.error(record, error.message)
        record.duration_seconds = self.seconds() - record.started_seconds

    def _cut_off(self, call: CallUnderWay) -> None:
        """Record that the call was cancelled or that the run ended."""
        record = call.record
        record.status, record.error = "cancelled", "the call was cancelled"
        if record.attempts and not call.tool.read_only:
            record.status, record.error = "unknown_outcome", _CUT_OFF
        record.duration_seconds = self.seconds() - record.started_seconds

    def _instead(self, call: CallUnderWay) -> CallUnderWay | None:
        """The call of the fallback; None if there is none for this failure."""
        record = call.record
        if record.status not in ("failed", "timed_out", "unknown_outcome") or record.reused:
            return None
        name = call.fallback or call.tool.fallback
        if name is None:
            return None
        name = self.offer.canonical(name)
        if name == call.name or name in call.tried:
            return None
        if len(self.records) < self._most_calls:
            record.fallback_call = len(self.records) + 1
        given = call.arguments if record.changed_arguments is None else record.changed_arguments
        tried = (*call.tried, call.name)
        return CallUnderWay(
            name, given, call.timeout_seconds, tried=tried, are_json=call.are_json, deadline=call.deadline,
            line=call.line, early=call.early,
        )  # fmt: skip


def _reused(call: CallUnderWay, outcome: Outcome) -> str:
    """The result of an earlier program's call, in place of a call. Raises `UnknownOutcome`."""
    record, earlier = call.record, outcome.record
    record.reused = True
    record.fallback, record.changed_arguments = earlier.fallback, earlier.changed_arguments
    if record.approval is None:
        record.approval, record.approved_by = earlier.approval, earlier.approved_by
    if outcome.text is None:
        call.failure = "unknown_outcome"
        raise outcome.error()
    return outcome.text
