"""The one gate. Every tool call passes here, whoever makes it, in this order, and there is no path around it:

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

Policy, in words; `policy` has the numbers. *Timeout*: of one attempt. *Retry*: tried again are timeouts, crashes and
errors that say they are retryable; never wrong arguments, and never a timed-out call with side effects, whose outcome
is unknown. *Fallback*: another tool, with the same arguments, after a failure or a timeout (naming one is consent to a
second attempt); not after a refusal or a denial. It passes the whole gate itself, and no tool twice in one chain.

The gate knows no wire, no program and no plan. It never shows the text of a host's exception to a caller.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import anyio

from callgate.errors import (
    LimitReached,
    ToolError,
    ToolTimedOut,
)
from callgate.limits import Limits
from callgate.tools import Caller, Registry, Retry, Tool
from callgate.tools.statistics import confidence_in
from callgate.tools.turns import LARGE_BYTES

from .approval import Allow, ApprovalRequest, Approve, Decision, Deny, approver, ask
from .arguments import as_dict, copied_in_turns, copy_of, in_turns, key_of, validated_by, validated_in_turns
from .attempt import Threads, ToolCrashed, call_once, copied, retry_for, timeout_for
from .cache import ResultCache
from .calls import CallRecord, CallStatus, weighing, weight
from .events import CallEnded, CallStarted, Event, Progressing, listening, tell
from .offer import Builtins, Offer, Offers
from .slots import Slots

__all__ = ["Allow", "ApprovalRequest", "Approve", "Decision", "Deny", "Gate", "RunGate"]

logger = logging.getLogger("callgate")

MAX_RECORDED_BYTES = 64 * 1024 * 1024
"""Memory that the recorded arguments of one run may take, about: what a hostile guest sends must not fill the host."""
_SHORT = 200
"""Characters of an error that are kept when that memory is used up."""
MAX_SUGGESTIONS = 100
"""Unknown names in one run for which the nearest one is looked up: the search costs the host time; asking is free."""


_NOT_KEPT = "(not kept: the arguments recorded in this run take 64 MiB already)"
_NOT_WEIGHED = "(not kept: the call was cancelled before its large arguments were looked at)"
_CUT_OFF = "the call was cancelled while it was under way; it may have done its work all the same"


class Gate:
    """The gate of one runtime.

    Its result cache serves one tenant: do not share a gate between people who may not see each other's data.

    Args:
        registry: the tools; tools added later are seen by runs opened later.
        approve: asked before every call of a tool with `requires_approval`. Without one such calls are refused.
        builtins: gives the built-in tools of an offer, which its runs may call as well; see `callgate.runtime.offer`.
        cache_entries: so many results are kept for tools with `cache_seconds`.
        cache_bytes: so many bytes of results are kept.
        clock: seconds, never going back; for records and the cache.
        draw: a random number from 0 to 1; for the jitter of retries.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        approve: Approve | None = None,
        builtins: Builtins | None = None,
        cache_entries: int = 1024,
        cache_bytes: int = 64 * 1024 * 1024,
        clock: Callable[[], float] = time.perf_counter,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self.registry = registry
        self.approve = approve
        self.cache = ResultCache(max_entries=cache_entries, max_bytes=cache_bytes, clock=clock)
        self.threads = Threads()
        self.clock = clock
        self.draw = draw
        self._offers = Offers(registry, builtins)

    def open(
        self,
        *,
        caller: Caller,
        limits: Limits,
        allowed: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
        default_timeout_seconds: float | None = None,
    ) -> RunGate:
        """The gate of one run.

        Args:
            caller: who calls in this run.
            limits: `max_tool_calls`, `max_concurrent_calls` and `max_message_bytes` hold here.
            allowed: the tools this run may call, named in any way that `Registry.resolve` knows. None: every tool that
                allows this caller. Empty: none at all. A tool that does not allow this caller stays forbidden.
            on_event: told at the start and the end of every call, at once; what it raises is logged and harms nothing.
            default_timeout_seconds: for tools without a timeout of their own; None lets the run's wall limit rule.
                For a plan's run it is where an adaptive timeout starts.

        Raises:
            ConfigurationError: `allowed` or a tool's `fallback` names a tool that does not exist.
        """
        return RunGate(self, limits, self._offers.get(caller, allowed), on_event, default_timeout_seconds)


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
        self._gate = gate
        self._known = offer.by_name
        self._on_event = on_event
        self._default_timeout_seconds = default_timeout_seconds
        self._statistics = gate.registry.statistics
        self._threads = Threads(gate.threads)
        self._slots = Slots(limits.max_concurrent_calls)
        self._entrance = Slots(1)
        self._clock = gate.clock
        self._opened = gate.clock()
        self._recordable = MAX_RECORDED_BYTES
        self._suggestions = MAX_SUGGESTIONS

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout_seconds: float | None = None,
        retry: Retry | None = None,
        fallback: str | None = None,
    ) -> str:
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
        return await self._call(name, arguments, timeout_seconds, retry, fallback, ())

    def refusal(self, name: str) -> str:
        """Why a name that is not among `tools` cannot be called; some times with the nearest one that can."""
        self._suggestions -= 4
        return self.offer.refusal(name, suggest=self._suggestions >= 0).message

    async def refuse(self, name: str, arguments: Any, error: ToolError) -> None:
        """Record a call that was refused before it came to the gate; it counts like any other.

        Raises:
            LimitReached: the run has made `max_tool_calls` calls already. Ends the run.
        """
        await self._note(name, arguments, "refused", error.message)

    async def give_up(self, name: str, arguments: Any) -> None:
        """Record a call that was given up before it came to the gate; it counts like any other.

        Raises:
            LimitReached: the run has made `max_tool_calls` calls already. Ends the run.
        """
        await self._note(name, arguments, "cancelled", "the call was cancelled before it had begun")

    async def begun(self) -> None:
        """Return once every call that has come here has passed the entrance."""
        while self._entrance.full:
            await anyio.lowlevel.checkpoint()

    def only_reads(self, name: str) -> bool:
        """Whether this run's tool of that name is known to have no effects."""
        tool = self._known.get(name) or self._known.get(self.offer.canonical(name))
        return tool is not None and tool.read_only

    async def _note(self, name: str, arguments: Any, status: CallStatus, error: str) -> None:
        size = weight(arguments, LARGE_BYTES)
        record = self._begin(self.offer.canonical(name), arguments, size)
        record.status = status
        record.error = error
        try:
            if size > LARGE_BYTES:
                await self._weigh(record, arguments, size)
        finally:
            tell(self._on_event, CallEnded(record))

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float | None,
        retry: Retry | None,
        fallback: str | None,
        tried: tuple[str, ...],
    ) -> str:
        if name not in self._known:
            name = self.offer.canonical(name)
        if self.caller == "code" and (tool := self._known.get(name)) is not None and tool.spellings:
            arguments = tool.respelled(arguments)
        size = weight(arguments, LARGE_BYTES)
        record = self._begin(name, arguments, size)
        try:
            return await self._perform(record, name, arguments, timeout_seconds, retry, size)
        except ToolError as error:
            instead = self._fallback(record, name, fallback, tried)
            if instead is None:
                raise
            given = arguments if record.changed_arguments is None else record.changed_arguments
            if len(self.records) < self.limits.max_tool_calls:
                record.fallback_call = len(self.records) + 1
            try:
                text = await self._call(instead, given, timeout_seconds, None, None, (*tried, name))
            except ToolError as second:
                failed = copied(error)
                failed.message = f"{error.message}; and its fallback: {second.message}"
                failed.args = (failed.message,)
                raise failed from None
            record.fallback = instead
            return text
        finally:
            if self._on_event is not None:
                tell(self._on_event, CallEnded(record))

    async def _perform(
        self,
        record: CallRecord,
        name: str,
        arguments: Mapping[str, Any],
        timeout_seconds: float | None,
        retry: Retry | None,
        size: int,
    ) -> str:
        """Steps 1 to 7, and the record; all but the fallback."""
        tool: Tool | None = None
        failure: CallStatus = "refused"
        try:
            shown: dict[str, Any] | None = None
            if size <= LARGE_BYTES and not self._entrance.full:
                tool, given = self._known_tool(name, arguments)
                validated = validated_by(tool, given)
            else:
                tool, given, validated, shown = await self._enter(record, name, arguments, size)
            key = await key_of(tool, given, size > LARGE_BYTES)
            if tool.requires_approval:
                approve = approver(tool, self._gate.approve)
                failure = "denied"
                shown = copy_of(given) if shown is None else shown
                changed = await ask(approve, ApprovalRequest(tool, shown, self.caller, record.id))
                if changed is not None:
                    failure = "refused"
                    record.changed_arguments = given = as_dict(tool, changed)
                    large = weight(given, LARGE_BYTES) > LARGE_BYTES
                    validated = await validated_in_turns(tool, given) if large else validated_by(tool, given)
                    key = await key_of(tool, given, large)
            failure = "failed"
            timeout = timeout_for(tool, timeout_seconds, self._default_timeout_seconds, self.caller, self._statistics)
            asked = timeout_seconds is not None
            policy = retry_for(tool, retry, self.caller)
            if tool.cache_seconds is None:
                text = await self._attempts(tool, given, validated, record, timeout, asked, policy)
            else:
                if asked or retry is not None:  # nobody else waits for a call that was given terms of its own
                    key += f"\n{timeout_seconds} {retry}"
                text, record.cached = await self._gate.cache.get_or_run(
                    key,
                    tool.cache_seconds,
                    lambda: self._attempts(tool, given, validated, record, timeout, asked, policy),
                )
            if len(text) * 4 > self.limits.max_message_bytes:
                self._measure(tool, text)
            record.status = "succeeded"
            return text
        except ToolError as error:
            if tool is not None and failure == "failed" and isinstance(error, ToolTimedOut):
                failure = "timed_out" if tool.repeatable else "unknown_outcome"
            record.status = failure
            self._recordable -= weight(error.message, self._recordable)
            record.error = error.message if self._recordable >= 0 else error.message[:_SHORT]
            raise
        except BaseException:
            record.status, record.error = "cancelled", "the call was cancelled"
            if record.attempts and tool is not None and not tool.read_only:
                record.status, record.error = "unknown_outcome", _CUT_OFF
            raise
        finally:
            record.duration_seconds = self._clock() - self._opened - record.started_seconds

    def _known_tool(self, name: str, arguments: Mapping[str, Any]) -> tuple[Tool, dict[str, Any]]:
        """Step 1, and the arguments as a dict."""
        tool = self._known.get(name)
        if tool is None:
            self._suggestions -= 1
            raise self.offer.refusal(name, suggest=self._suggestions >= 0)
        return tool, arguments if type(arguments) is dict else as_dict(tool, arguments)

    async def _enter(
        self, record: CallRecord, name: str, arguments: Mapping[str, Any], size: int
    ) -> tuple[Tool, dict[str, Any], dict[str, Any], dict[str, Any] | None]:
        """Steps 1 and 2 in turns with the host's other work, one call after the other: calls that come while a large
        one is looked at go on after it. Returns the tool, the arguments, what it is called with, and of large arguments
        the copy that an approval is shown.
        """
        weighed = size <= LARGE_BYTES
        try:
            await self._entrance.acquire()
            try:
                if not weighed:
                    await self._weigh(record, arguments, size)
                    weighed = True
                tool, given = self._known_tool(name, arguments)
                if size <= LARGE_BYTES:
                    return tool, given, validated_by(tool, given), None
                validated = await validated_in_turns(tool, given)
                shown = await copied_in_turns(given) if tool.requires_approval else None
                return tool, given, validated, shown
            finally:
                self._entrance.release()
        finally:
            if not weighed:
                record.arguments = _NOT_WEIGHED

    async def _weigh(self, record: CallRecord, arguments: Any, counted: int) -> None:
        """Count what large arguments take of the memory for records, beyond what is counted already."""
        try:
            size = await in_turns(weighing(arguments, max(self._recordable, 0) + counted))
        except BaseException:
            record.arguments = _NOT_WEIGHED
            raise
        self._recordable -= size - counted
        if self._recordable < 0:
            record.arguments = _NOT_KEPT

    async def _attempts(
        self,
        tool: Tool,
        arguments: dict[str, Any],
        validated: dict[str, Any],
        record: CallRecord,
        timeout: float | None,
        asked: bool,
        retry: Retry | None,
    ) -> str:
        failures = 0
        while True:
            try:
                return await self._once(tool, validated, record, timeout, asked)
            except ToolError as error:
                failures += 1
                again = error.retryable or isinstance(error, ToolCrashed)
                if retry is None or failures >= retry.attempts or not again:
                    raise
                patient = None if asked or tool.timeout_seconds else self._default_timeout_seconds
                if patient is not None and timeout is not None and isinstance(error, ToolTimedOut):
                    timeout = max(timeout, patient)  # it may have been adapted too tightly
            await anyio.sleep(retry.delay_seconds(failures, self._gate.draw()))
            # the function may have changed its own copy
            large = weight(arguments, LARGE_BYTES) > LARGE_BYTES
            validated = await validated_in_turns(tool, arguments) if large else validated_by(tool, arguments)

    async def _once(
        self, tool: Tool, arguments: dict[str, Any], record: CallRecord, timeout: float | None, asked: bool
    ) -> str:
        if not self._slots.acquire_nowait():
            waited = self._clock()
            await self._slots.acquire()
            record.queued_seconds += self._clock() - waited
        record.attempts += 1
        progressing = None if self._on_event is None else Progressing(self._on_event, record)
        if (before := listening.get()) is not progressing:
            listening.set(progressing)
        threads, most = self._threads, self.limits.max_concurrent_calls
        called = tool.is_async or threads.have_room(tool, most)  # otherwise it is refused before it begins
        text: str | None = None
        started = self._clock()
        try:
            if timeout is None:
                text = await call_once(tool, arguments, threads, most)
            else:
                with anyio.move_on_after(timeout) as scope:
                    try:
                        text = await call_once(tool, arguments, threads, most)
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
            self._slots.release()
            self._statistics.over(tool.name)
        if text is not None:
            self._statistics.note(tool.name, self._clock() - started, "succeeded", confidence_in(text))
            return text
        assert timeout is not None
        record.timeouts += 1
        if not asked:  # what somebody chose for one call says nothing of the tool
            self._statistics.note(tool.name, timeout, "timed_out")
        unknown = "; it may have done its work all the same: the outcome is unknown, find out before you call it again"
        raise ToolTimedOut(
            f"tool {tool.name!r} did not answer within {timeout:g} s{'' if tool.repeatable else unknown}",
            retryable=tool.repeatable,
            tool=tool.name,
        )

    def _fallback(self, record: CallRecord, name: str, asked: str | None, tried: tuple[str, ...]) -> str | None:
        if record.status not in ("failed", "timed_out", "unknown_outcome"):
            return None
        instead = asked or self._known[name].fallback
        if instead is not None:
            instead = self.offer.canonical(instead)
        return None if instead == name or instead in tried else instead

    def _measure(self, tool: Tool, text: str) -> None:
        size = len(text) if text.isascii() else len(text.encode())
        most = self.limits.max_message_bytes
        if size > most:
            raise ToolError(
                f"tool {tool.name!r}: the result is {size} bytes, the limit max_message_bytes is {most}: ask for less",
                tool=tool.name,
            )

    def _begin(self, name: str, arguments: Any, size: int) -> CallRecord:
        count = len(self.records)
        if count >= self.limits.max_tool_calls:
            raise LimitReached("max_tool_calls", self.limits.max_tool_calls, count)
        self._recordable -= size
        if self._recordable < 0:
            arguments = _NOT_KEPT
        record = CallRecord(count + 1, name[:256], arguments, self.caller, self._clock() - self._opened)
        self.records.append(record)
        if self._on_event is not None:
            tell(self._on_event, CallStarted(record))
        return record
