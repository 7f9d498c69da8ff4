"""The gate of one run. Every tool call passes here, in this order and from any caller, and there is no path around it:

1. **known and allowed** for this caller, in this run; a tool may be named in any way that `Registry.resolve` knows, and
   everything from here on calls it by its name;
2. **validated** against the input schema;
3. **approved**, where the tool asks for it; changed arguments are validated again;
4. **counted and queued**: `max_tool_calls` counts every call that arrives, refused ones included, and ends the run;
   `max_concurrent_calls` makes calls wait for a place, and never fails one. A place is held for one attempt, not
   while a person thinks, a retry waits, or a fallback runs. (A program's calls are brought by
   `Driver`, which has as many workers as places: there, such a call does keep its worker);
5. **cache**, after approval, so that a hit never gets around it;
6. **called**: timeout, then retry, then fallback;
7. **encoded**: the result is validated, written as JSON and measured;
8. **recorded and told**: a record for every call, an event at its start and one at its end; and a note for every
   attempt in the registry's statistics.

`RunGate._pass` takes a call through these steps, from top to bottom. The numbers of policy are in `attempt`; in words:
*Timeout*: of one attempt. *Retry*: tried again are timeouts, crashes and errors that say they are retryable; never
wrong arguments, and never a timed-out call with side effects, whose outcome is unknown. *Fallback*: another tool, with
the same arguments, after a failure or a timeout (naming one is consent to a second attempt); not after a refusal or a
denial. It passes the whole gate itself, and no tool twice in one chain.

The gate knows no wire, no program and no plan. It never shows the text of a host's exception to a caller.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from callgate.errors import LimitReached, ToolError, ToolNotAllowed, ToolTimedOut
from callgate.limits import Limits
from callgate.runtime.offer import Offer
from callgate.tools import Caller, Retry, Tool
from callgate.tools.statistics import confidence_in
from callgate.tools.turns import LARGE_BYTES

from .approval import ApprovalRequest, ask
from .attempt import (
    ToolCrashed,
    as_dict,
    call_once,
    copied,
    copy_of,
    in_turns,
    key_of,
    retry_for,
    timeout_for,
    validated,
    validated_by,
)
from .cache import reads_kept_seconds
from .calls import CallRecord, CallStatus, CallUnderWay, weighing, weight
from .events import CallEnded, CallStarted, Event, Progressing, listening, tell
from .threads import Threads

if TYPE_CHECKING:
    from .gate import Gate

__all__ = ["Answered", "RunGate"]

Answered = Callable[[str, Any], str | ToolError | None]
"""The outcome of an earlier call of this tool with these arguments, or None. Gives each outcome once."""

MAX_RECORDED_BYTES = 64 * 1024 * 1024
"""Memory that the recorded arguments of one run may take, about: what a hostile guest sends must not fill the host."""
_SHORT = 200
"""Characters of an error that are kept when that memory is used up."""
MAX_SUGGESTIONS = 100
"""Unknown names in one run for which the nearest one is looked up: the search costs the host time; asking is free."""


_NOT_KEPT = "(not kept: the arguments recorded in this run take 64 MiB already)"
_NOT_WEIGHED = "(not kept: the call was cancelled before its large arguments were looked at)"
_CUT_OFF = "the call was cancelled while it was under way; it may have done its work all the same"


class RunGate:
    """The gate of one run; made by `Gate.open`."""

    def __init__(
        self,
        gate: Gate,
        limits: Limits,
        offer: Offer,
        on_event: Callable[[Event], None] | None,
        default_timeout_seconds: float | None,
    ) -> None:
        self.records: list[CallRecord] = []
        """Every call of the run so far, in the order of arrival."""
        self.offer = offer
        """What this run may call."""
        self.tools: list[Tool] = list(offer.tools)
        """The same without the built-in tools, sorted by name."""
        self.caller: Caller = offer.caller
        self.limits = limits
        self.gate = gate
        self._known = offer.by_name
        self._on_event = on_event
        self._default_timeout_seconds = default_timeout_seconds
        self._statistics = gate.registry.statistics
        self._places = anyio.Semaphore(limits.max_concurrent_calls, fast_acquire=True)
        self._entrance = anyio.Lock(fast_acquire=True)
        self._clock = gate.clock
        self._opened = gate.clock()
        self._most_calls = limits.max_tool_calls
        self._recordable = MAX_RECORDED_BYTES
        self._suggestions = MAX_SUGGESTIONS
        self._answered: Answered | None = None

    @cached_property
    def _threads(self) -> Threads:
        return Threads(self.gate.threads, self.limits.max_concurrent_calls)

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout_seconds: float | None = None,
        retry: Retry | None = None,
        fallback: str | None = None,
    ) -> Coroutine[Any, Any, str]:
        """Make a call.

        Args:
            name: the tool's name, in any way that `Registry.resolve` knows.
            arguments: by name; JSON values.
            timeout_seconds: instead of the tool's own.
            retry: instead of the tool's own. Heeded for read-only and idempotent tools, and for those whose operator
                set a `retry`: repeating a side effect is not the caller's to decide.
            fallback: instead of the tool's own.

        Returns:
            The result as compact JSON text, at most `max_message_bytes` long.

        Raises:
            ToolError: the call was refused, denied, or failed; its subclass says which.
            LimitReached: the run has made `max_tool_calls` calls already. Ends the run.
        """
        return self._pass(CallUnderWay(name, arguments, timeout_seconds, retry, fallback))

    def begin_anew(self, answered: Answered, given_up: int) -> None:
        """From here on the program runs a second time: no call that it has made is made twice.

        Args:
            answered: the outcomes of the calls so far. A call that has one is neither made nor recorded again.
            given_up: records of calls that have none. They do not count for `max_tool_calls`: they may be made again.
        """
        self._answered = answered
        self._most_calls = self.limits.max_tool_calls + given_up

    def refusal(self, name: str) -> str:
        """Why a name that is not among `tools` cannot be called; some times with the nearest one that can."""
        self._suggestions -= 4
        return self.offer.refusal(name, suggest=self._suggestions >= 0).message

    async def refuse(self, name: str, arguments: Any, error: ToolError) -> None:
        """Record a call that was refused before it came to the gate; it counts like any other.

        Raises:
            LimitReached: the run has made `max_tool_calls` calls already. Ends the run.
        """
        await self._note(CallUnderWay(name, arguments), "refused", error.message)

    async def give_up(self, name: str, arguments: Any) -> None:
        """Record a call that was given up before it came to the gate; it counts like any other.

        Raises:
            LimitReached: the run has made `max_tool_calls` calls already. Ends the run.
        """
        await self._note(CallUnderWay(name, arguments), "cancelled", "the call was cancelled before it had begun")

    async def begun(self) -> None:
        """Return once every call that has come here has passed the entrance."""
        while self._entrance.locked():
            await anyio.lowlevel.checkpoint()

    def chain(self, number: int) -> list[CallRecord]:
        """The record at a place in `records`, and those of the calls that were made in its stead; none where that call
        has no record."""
        chain = self.records[number : number + 1] if number >= 0 else []
        while chain and (instead := chain[-1].fallback_call) is not None and instead <= len(self.records):
            chain.append(self.records[instead - 1])
        return chain

    def only_reads(self, name: str) -> bool:
        """Whether this run's tool of that name is known to have no effects."""
        tool = self._known.get(name) or self._known.get(self.offer.canonical(name))
        return tool is not None and tool.read_only

    async def _pass(self, call: CallUnderWay) -> str:
        """Take a call through the gate. Nothing is awaited before it is recorded, and told."""
        known = self._named(call)
        if self._answered is not None and not call.tried:
            outcome = self._answered(call.name, call.arguments)
            if isinstance(outcome, ToolError):
                raise copied(outcome)
            if outcome is not None:
                return outcome
        record = self._begin(call)
        try:
            if call.size <= LARGE_BYTES and not self._entrance.locked():
                tool = self._allow(call, known)
                call.validated = validated_by(tool, call.given)
            else:
                tool = await self._enter(call, known)
            seconds = self._kept_seconds(tool)
            if seconds is not None:  # of the arguments that were validated
                call.key = await key_of(call)
            if tool.requires_approval:
                await self._approve(call)
            call.failure = "failed"
            if seconds is None:
                text = await self._attempts(call)
            else:
                key = (tool, self.gate.effects.since(tool), call.key)
                alone = self if tool.cache_seconds is None else None  # a tool's own plan must not wait for this run
                text, record.cached = await self.gate.cache.get_or_run(
                    key, seconds, lambda: self._attempts(call), terms=(call.timeout_seconds, call.retry, alone)
                )
            if len(text) * 4 > self.limits.max_message_bytes:
                self._measure(tool, text)
            record.status = "succeeded"
            record.duration_seconds = self._clock() - self._opened - record.started_seconds
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
            return text
        except BaseException:
            self._cut_off(call)
            raise
        finally:
            if self._on_event is not None:
                tell(self._on_event, CallEnded(record))

    def _named(self, call: CallUnderWay) -> Tool | None:
        """The tool that is called, if this run has it; from here on it and its arguments have their own names."""
        known = self._known.get(call.name)
        if known is None:
            call.name = self.offer.canonical(call.name)
            known = self._known.get(call.name)
        if known is not None and known.spellings and self.caller == "code" and isinstance(call.arguments, Mapping):
            call.arguments = known.respelled(call.arguments)
        return known

    def _begin(self, call: CallUnderWay) -> CallRecord:
        """Count the call, record that it is there, and tell of it."""
        count = len(self.records)
        if count >= self._most_calls:
            most = self.limits.max_tool_calls
            raise LimitReached("max_tool_calls", most, most)
        arguments: Any = call.arguments
        call.size = weight(arguments, LARGE_BYTES)
        self._recordable -= call.size
        if self._recordable < 0:
            arguments = _NOT_KEPT
        record = CallRecord(count + 1, call.name[:256], arguments, self.caller, self._clock() - self._opened)
        call.record = record
        self.records.append(record)
        if self._on_event is not None:
            tell(self._on_event, CallStarted(record))
        return record

    def _allow(self, call: CallUnderWay, tool: Tool | None) -> Tool:
        """Step 1, and the arguments as a dict."""
        if tool is None:
            self._suggestions -= 1
            raise self.offer.refusal(call.name, suggest=self._suggestions >= 0)
        call.tool = tool
        call.given = call.arguments if type(call.arguments) is dict else as_dict(tool, call.arguments)
        return tool

    async def _enter(self, call: CallUnderWay, known: Tool | None) -> Tool:
        """Steps 1 and 2 in turns with the host's other work, one call after the other: calls that come while a large
        one is looked at go on after it. Of large arguments the copy is made that an approval is shown.
        """
        large = call.size > LARGE_BYTES
        try:
            await self._entrance.acquire()
        except BaseException:
            if large:
                call.record.arguments = _NOT_WEIGHED
            raise
        try:
            if large:
                await self._weigh(call)
            tool = self._allow(call, known)
            call.validated = await validated(tool, call.given)
            if large and tool.requires_approval:
                call.shown = await copy_of(call.given)
            return tool
        finally:
            self._entrance.release()

    async def _weigh(self, call: CallUnderWay) -> None:
        """Count what large arguments take of the memory for records, beyond what is counted already."""
        try:
            size = await in_turns(weighing(call.arguments, max(self._recordable, 0) + call.size))
        except BaseException:
            call.record.arguments = _NOT_WEIGHED
            raise
        self._recordable -= size - call.size
        if self._recordable < 0:
            call.record.arguments = _NOT_KEPT

    async def _approve(self, call: CallUnderWay) -> None:
        """Step 3: ask, and take the arguments that the answer puts in place of the given ones."""
        tool, approve = call.tool, self.gate.approve
        if approve is None:
            raise ToolNotAllowed(
                f"tool {tool.name!r} needs approval, and there is nobody to ask: "
                "the operator must pass approve=... to the runtime",
                tool=tool.name,
            )
        call.failure = "denied"
        shown = call.shown if call.shown is not None else await copy_of(call.given)
        changed = await ask(approve, ApprovalRequest(tool, shown, self.caller, call.record.id))
        if changed is not None:
            call.failure = "refused"
            call.record.changed_arguments = call.given = as_dict(tool, changed)
            call.validated = await validated(tool, call.given)
            if call.key:
                call.key = await key_of(call)

    def _kept_seconds(self, tool: Tool) -> float | None:
        """For how long a result of this tool is kept; None: not at all."""
        if tool.cache_seconds is None and tool.read_only and self.caller == "plan":
            return reads_kept_seconds()
        return tool.cache_seconds

    async def _attempts(self, call: CallUnderWay) -> str:
        """Step 6: call the tool until it gives a result, or fails for good."""
        tool, default = call.tool, self._default_timeout_seconds
        timeout = timeout_for(tool, call.timeout_seconds, default, self.caller, self._statistics)
        retry = retry_for(tool, call.retry, self.caller)
        failures = 0
        while True:
            try:
                return await self._attempt(call, timeout)
            except ToolError as error:
                failures += 1
                again = error.retryable or isinstance(error, ToolCrashed)
                if retry is None or failures >= retry.attempts or not again:
                    raise
                adapted = call.timeout_seconds is None and not tool.timeout_seconds
                if adapted and default is not None and timeout is not None and isinstance(error, ToolTimedOut):
                    timeout = max(timeout, default)  # it may have been adapted too tightly
            await anyio.sleep(retry.delay_seconds(failures, self.gate.draw()))
            call.validated = await validated(tool, call.given)  # the function may have changed its own copy

    async def _attempt(self, call: CallUnderWay, timeout: float | None) -> str:
        """One attempt, in a place of its own; its outcome is noted in the statistics."""
        tool, record = call.tool, call.record
        threads = None if call.tool.is_async else self._threads
        if self._places.value:
            self._places.acquire_nowait()
        else:
            waited = self._clock()
            await self._places.acquire()
            record.queued_seconds += self._clock() - waited
        record.attempts += 1
        progressing = None if self._on_event is None else Progressing(self._on_event, record)
        if (before := listening.get()) is not progressing:
            listening.set(progressing)
        called = threads is None or threads.have_room(tool)  # otherwise it is refused before it begins
        text: str | None = None
        self.gate.effects.note(tool)
        started = self._clock()
        try:
            if timeout is None:
                text = await call_once(tool, call.validated, threads)
            else:
                with anyio.move_on_after(timeout) as scope:
                    try:
                        text = await call_once(tool, call.validated, threads)
                    except ToolError:
                        if not scope.cancel_called:
                            raise
        except ToolError:
            if called:
                self._statistics.note(tool.name, self._clock() - started, "failed")
            raise
        finally:
            if progressing is not None:
                progressing.over = True
            listening.set(before)  # `reset` would refuse where a call is given up in another context
            self._places.release()
            self.gate.effects.note(tool)
        if text is not None:
            self._statistics.note(tool.name, self._clock() - started, "succeeded", confidence_in(text))
            return text
        assert timeout is not None
        record.timeouts += 1
        if call.timeout_seconds is None:  # what somebody chose for one call says nothing of the tool
            self._statistics.note(tool.name, timeout, "timed_out")
        unknown = "; it may have done its work all the same: the outcome is unknown, find out before you call it again"
        raise ToolTimedOut(
            f"tool {tool.name!r} did not answer within {timeout:g} s{'' if tool.repeatable else unknown}",
            retryable=tool.repeatable,
            tool=tool.name,
        )

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
        self._recordable -= weight(error.message, self._recordable)
        record.error = error.message if self._recordable >= 0 else error.message[:_SHORT]
        record.duration_seconds = self._clock() - self._opened - record.started_seconds

    def _cut_off(self, call: CallUnderWay) -> None:
        """Record that the call was cancelled, or that the run ended."""
        record = call.record
        record.status, record.error = "cancelled", "the call was cancelled"
        if record.attempts and not call.tool.read_only:
            record.status, record.error = "unknown_outcome", _CUT_OFF
        record.duration_seconds = self._clock() - self._opened - record.started_seconds

    def _instead(self, call: CallUnderWay) -> CallUnderWay | None:
        """The fallback's call, where a call that failed has one."""
        record = call.record
        if record.status not in ("failed", "timed_out", "unknown_outcome"):
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
        return CallUnderWay(name, given, call.timeout_seconds, tried=(*call.tried, call.name))

    async def _note(self, call: CallUnderWay, status: CallStatus, error: str) -> None:
        """Record a call that does not pass the gate; one that was made already is not recorded again."""
        self._named(call)
        if self._answered is not None and self._answered(call.name, call.arguments) is not None:
            return
        record = self._begin(call)
        record.status = status
        record.error = error
        try:
            if call.size > LARGE_BYTES:
                await self._weigh(call)
        finally:
            tell(self._on_event, CallEnded(record))
