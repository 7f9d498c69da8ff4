"""The attempts of a call: its place among others, timeout, retry, and the call of the tool's function.

1. *Places*: at most `max_concurrent_calls` attempts run at a time; of these, a runtime's sync tools and the tools of an
   MCP server have so many at a time as threads and the server's configuration allow. A call holds its places for one
   attempt, not while a retry waits.
2. *Timeout*: the call's own, else the tool's. In a plan, other calls get 30 s, adapted to the tool's history (see
   `adaptive_timeout_seconds`); elsewhere only the run's `wall_seconds` holds.
3. *Retry*: the tool's own. A plan tries read-only and idempotent tools without a `retry` three times. Timeouts, crashes
   and retryable errors are tried again; a timed-out call with side effects never is, since its outcome is unknown.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import anyio

from callgate.errors import ToolError, ToolTimedOut
from callgate.limits import Limits
from callgate.runtime.products import Products
from callgate.tools import Caller, Retry, Tool
from callgate.tools.statistics import Statistics, adaptive_timeout_seconds, confidence_in
from callgate.tools.tool import Places
from callgate.tools.turns import LARGE_BYTES

from .arguments import in_turns, validated, weight
from .events import Event, Progressing, listening
from .failures import ToolCrashed, crashed, make_presentable, propagates
from .handles import written_with_handles
from .records import CallRecord, CallUnderWay
from .threads import MAX_THREADS, Threads

if TYPE_CHECKING:
    from .gate import Gate

__all__ = ["PLAN_RETRY", "PLAN_TIMEOUT_SECONDS", "Attempts", "retry_for"]

PLAN_TIMEOUT_SECONDS = 30.0
"""In a plan, for one attempt of a tool without a timeout and without a history."""
PLAN_RETRY = Retry()
"""In a plan, for read-only and idempotent tools without a `retry`: three attempts, 1 s and 2 s apart."""
STATISTICS_LAG = 128
"""An adapted timeout may ignore the newest 128 of its 256 attempts: a p95 for every call would cost more than the call.
A timed-out attempt counts at once."""


class Attempts:
    """The attempts of one run's calls.

    Args:
        gate: of the runtime.
        limits: of which `max_concurrent_calls` holds here.
        caller: of the run.
        on_event: receives the progress of calls.
        products: keep the artifacts that tools return.
    """

    def __init__(
        self,
        gate: Gate,
        limits: Limits,
        caller: Caller,
        on_event: Callable[[Event], None] | None,
        products: Products,
    ) -> None:
        self._gate = gate
        self._caller: Caller = caller
        self._on_event = on_event
        self._products = products
        self._most = limits.max_concurrent_calls
        self._statistics: Statistics = gate.registry.statistics

    @cached_property
    def _places(self) -> anyio.Semaphore:
        return anyio.Semaphore(self._most, fast_acquire=True)

    @cached_property
    def _threads(self) -> Threads:
        return Threads(self._gate.threads, min(self._most, MAX_THREADS))

    async def make(self, call: CallUnderWay) -> str:
        """Call the tool until it returns a result or fails for good. Raises `ToolError`."""
        tool, timeout, retry = call.tool, self._timeout(call), retry_for(call.tool, call.retry, self._caller)
        failures = 0
        if call.watches is not None:
            call.failure = "refused"
            call.watches.calling(tool, call.given)
            call.failure = "failed"
        while True:
            try:
                return await self._attempt(call, timeout)
            except ToolError as error:
                failures += 1
                again = error.retryable or isinstance(error, ToolCrashed)
                if retry is None or failures >= retry.attempts or not again:
                    raise
                adapted = self._caller == "plan" and (call.timeout_seconds or tool.timeout_seconds) is None
                if adapted and timeout is not None and isinstance(error, ToolTimedOut):
                    timeout = max(timeout, PLAN_TIMEOUT_SECONDS)  # the adapted timeout may be too short
            await anyio.sleep(retry.delay_seconds(failures, random.random()))
            call.validated = await validated(
                tool, call.given, are_json=call.are_json
            )  # the function may have changed its own copy

    def _timeout(self, call: CallUnderWay) -> float | None:
        """Seconds for one attempt; None for no timeout."""
        given = call.timeout_seconds or call.tool.timeout_seconds
        if given is not None or self._caller != "plan":
            return given
        history = self._statistics.of(call.tool.name, lag=STATISTICS_LAG)
        return adaptive_timeout_seconds(history, PLAN_TIMEOUT_SECONDS, call.tool.repeatable)

    async def _attempt(self, call: CallUnderWay, timeout: float | None) -> str:
        """Make one attempt, in a place of its own, and note its outcome in the statistics."""
        tool, record, clock = call.tool, call.record, self._gate.clock
        threads, shared = (None, tool.places) if tool.is_async else (self._threads, self._gate.threads.places())
        if self._places.value:
            self._places.acquire_nowait()
        else:
            await self._wait_for(self._places, record)
        if shared is not None:
            try:
                await self._wait_for(shared, record)
            except BaseException:
                self._places.release()
                raise
        if call.kept is not None and not tool.read_only:
            try:
                await call.kept.journal.started(call)
            except BaseException:
                self._places.release()
                if shared is not None:
                    shared.release()
                raise
        record.attempts += 1
        progressing = None if self._on_event is None else Progressing(self._on_event, record)
        if (before := listening.get()) is not progressing:
            listening.set(progressing)
        called = threads is None or threads.have_room(tool)  # otherwise the call is refused before it begins
        text: str | None = None
        self._gate.effects.note(tool)
        started = clock()
        try:
            if timeout is None:
                text = await _call_once(call, threads, self._products)
            else:
                with anyio.move_on_after(timeout) if call.deadline is None else call.deadline.after(timeout) as scope:
                    try:
                        text = await _call_once(call, threads, self._products)
                    except ToolError:
                        if not scope.cancel_called:
                            raise
        except ToolError:
            if called:
                self._statistics.note(tool.name, clock() - started, "failed")
            raise
        finally:
            if progressing is not None:
                progressing.over = True
            if before is not progressing:
                listening.set(before)  # `reset` would fail if the call is cancelled in another context
            self._places.release()
            if shared is not None:
                shared.release()
            self._gate.effects.note(tool)
        if text is not None:
            self._statistics.note(tool.name, clock() - started, "succeeded", confidence_in(text))
            return text
        assert timeout is not None
        record.timeouts += 1
        if call.timeout_seconds is None:  # a timeout that was chosen for one call says nothing about the tool
            self._statistics.note(tool.name, timeout, "timed_out")
        unknown = "; it may have done its work all the same: the outcome is unknown, find out before you call it again"
        raise ToolTimedOut(
            f"tool {tool.name!r} did not answer within {timeout:g} s{'' if tool.repeatable else unknown}",
            retryable=tool.repeatable,
            tool=tool.name,
        )

    async def _wait_for(self, places: Places, record: CallRecord) -> None:
        waited = self._gate.clock()
        await places.acquire()
        record.queued_seconds += self._gate.clock() - waited


async def _call_once(call: CallUnderWay, threads: Threads | None, products: Products) -> str:
    """Call the tool's function and encode its result; artifacts in it are kept among `products`.

    Raises:
        ToolError: the tool failed, broke its contract, or left too many threads behind.
        BaseException: the call was cancelled, or the host is being interrupted.
    """
    tool = call.tool
    try:
        result = await (tool.invoke(call.validated) if threads is None else threads.run(tool, call.validated))
        try:
            if weight(result, LARGE_BYTES) > LARGE_BYTES:
                return await _written(call, result)
            return tool.encode(result)
        except ToolError:
            text = await written_with_handles(tool, products, partial(_written, call, result))
            if text is None:
                raise
            return text
    except ToolError as error:
        make_presentable(tool, error)
        raise
    except BaseException as error:
        if await propagates(error):
            raise
        raise crashed(tool, error) from None


async def _written(call: CallUnderWay, result: Any) -> str:
    """The text of a large result, written in turns."""
    text, call.value = await in_turns(call.tool.encoding(result))
    return text


def retry_for(tool: Tool, asked: Retry | None, caller: Caller) -> Retry | None:
    """How often a call is tried; None for once.

    Args:
        tool: the tool.
        asked: the call's own retry. It counts if repeating can do no harm, or if the operator set a `retry`.
        caller: of the run.
    """
    if asked is not None and (tool.repeatable or tool.retry is not None):
        return asked
    if tool.retry is None and caller == "plan" and tool.repeatable:
        return PLAN_RETRY
    return tool.retry
