"""The journal of one durable run in this process: which calls were made, and in which order their outcomes were used.

1. **Named.** A call is its tool, its arguments, in a plan its place, and how many such calls the program made before.
2. **Replay.** While the run has outcomes that were used before, they are given one at a time, in that order: the next
   one when the one before was used. Nothing else happens meanwhile: a call that is not kept waits.
3. **In flight.** A call with effects that began and has no outcome is not made again. The run needs attention, or the
   program gets `UnknownOutcome`. A call that may be repeated is made again, with the same idempotency key.
4. **Parked.** Calls that wait for their turn, for a person, or for attention are parked. When nothing goes on but
   parked calls, `pause` says why, and the run is put to sleep.
5. **Durable before effects.** A call with effects is made when it is kept as ``started``, and with it all that came
   before: the store keeps its order. So results of reads are stored without waiting, unless too much waits in memory:
   nothing outside depends on what a crash loses of them. The outcome of a call with effects is kept before the program
   gets it.
6. **Failed.** What cannot be stored ends the run in this process, before anything else is called.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

import anyio

from callgate.durable.sealing import call_digest
from callgate.durable.store import (
    Approval,
    CallKey,
    Change,
    Consumed,
    Decision,
    Held,
    RunHistory,
    StateChange,
    Store,
    StoredCall,
)
from callgate.errors import ConfigurationError, DurableError, ReplayDiverged, ToolError, UnknownOutcome
from callgate.runtime.gate.approval import Allow, Deny
from callgate.runtime.gate.journal import KeptCall, Rests
from callgate.runtime.gate.records import CallRecord, CallUnderWay
from callgate.tools import Tool

from .asking import Questions
from .parking import Parked, Parking, Pause, Redact
from .recorded import arguments_text, error_from, key_of, stored_call, with_outcome

__all__ = ["Clock", "OnUnknown", "RunJournal"]

T = TypeVar("T")

OnUnknown = Literal["attention", "raise"]
_MOST_UNWRITTEN: Final = 4 << 20
"""Characters of reads, before the next one waits until they are stored: tools may be faster than the disk."""


class Clock:
    """Seconds since 1970 that never go back, also when the machine's clock does.

    Args:
        least: no time is below this one.
        wall: the machine's clock.
    """

    def __init__(self, least: float = 0.0, wall: Callable[[], float] = time.time) -> None:
        self._began = max(wall(), least)
        self._since = time.monotonic()

    def __call__(self) -> float:
        return self._began + time.monotonic() - self._since


class RunJournal:
    """The journal of one run.

    Args:
        store: keeps it.
        held: the run.
        history: what is kept of it.
        on_unknown: what happens to a call that was in flight at a crash.
        approval_seconds: how long a question to a person is valid.
        redact: makes what people see of arguments in reasons.

    Attributes:
        scope: of the run in this process; cancelled where the run must not go on.
        failure: why the run cannot go on in this process.
        drive: carries the calls.
        parking: the calls that wait.
        was_in_guest: whether a guest has used outcomes before: the run goes on in one.
        wake_at: of a guest that waits for a time.
    """

    def __init__(
        self,
        store: Store,
        held: Held,
        history: RunHistory,
        on_unknown: OnUnknown,
        approval_seconds: float,
        redact: Redact,
    ) -> None:
        self.run_id = held.run
        self.scope = anyio.CancelScope()
        self.failure: DurableError | None = None
        self.drive: Rests | None = None
        self.wake_at: float | None = None
        self._store = store
        self._held = held
        self._seed = history.run.seed
        self._calls = {call.key: call for call in history.calls}
        self._events = history.events
        self._history = history
        self.was_in_guest = any(
            event.call is None or self._calls[event.call].number is not None for event in history.events
        )
        self._used = 0
        """Number of events that were used: of those before, and of those since."""
        self._counts: Counter[bytes] = Counter()
        self._used_by_guest: frozenset[CallKey] = frozenset()
        """Calls whose outcomes a guest got with its history: it does not make them again."""
        self._primary: dict[CallKey, CallUnderWay] = {}
        """The calls that fallbacks stand in for."""
        self._tried: dict[CallKey, list[str]] = {}
        """Tools with effects that were called for each call under way."""
        self._failed: dict[CallKey, dict[str, str]] = {}
        """The errors of those that have failed, by the tools' names."""
        self._numbers: dict[int, CallKey] = {}
        """The calls of a guest that it has not received the outcome of, by its numbers."""
        self.parking = Parking(redact)
        self._unwritten = 0
        """Characters that were given to the store since a result was last waited for, and may wait there in memory."""
        self._leaving = False
        self._on_unknown = on_unknown
        self.clock = Clock(history.events[-1].time if history.events else 0.0)
        self._questions = Questions(
            held.run, history.approvals, approval_seconds, self.parking, self._keep, self._expire, self.clock
        )

    # names and order

    @property
    def is_live(self) -> bool:
        """See `CallJournal`."""
        return self._used >= len(self._events)

    def key_of(self, tool: str, arguments: Any, place: str = "") -> CallKey:
        """See `CallJournal`."""
        digest = call_digest(tool, arguments_text(arguments), place, self._store.digest_key)
        key = CallKey(digest, self._counts[digest])
        while key in self._used_by_guest:
            key = CallKey(digest, key.occurrence + 1)
        self._counts[digest] = key.occurrence + 1
        return key

    def outcome_of(self, key: CallKey) -> StoredCall | None:
        """A call that has its outcome; None for any other."""
        stored = self._calls.get(key)
        return stored if stored is not None and stored.status in ("done", "failed") else None

    async def turn(self, key: CallKey) -> None:
        """Return when the outcome of this call is used next."""
        stored = self._calls[key]
        while not self.is_live and self._events[self._used].call != key:
            await self.parking.park(key, Parked(stored.tool, stored.arguments, "turn"))
        del self._calls[key]

    def consumed(self, key: CallKey) -> None:
        """See `CallJournal`."""
        number, self._used = self._used, self._used + 1
        if number >= len(self._events):
            self._write(Consumed(self._used, self.clock(), key))
        elif self._events[number].call != key:
            self._used = number
            self.fail(self._divergence([]))
        elif self.is_live:
            self.parking.wake(*self.parking.calls)
        elif (following := self._events[self._used].call) is not None:
            self.parking.wake(following)

    # guests

    async def begin_in_guest(self) -> RunHistory:
        """What a guest has received before; nothing, if a walk has come so far, and the guest begins anew.

        Raises:
            ConfigurationError: the store is damaged, and cannot say what the guest received.
        """
        if self._counts or (self._events and not self.was_in_guest):
            await self._keep(StateChange("running", forgets_events=True))
            self._history = await self._store.load(self.run_id)
            self._calls = {call.key: call for call in self._history.calls}
            self._counts.clear()
        self._events, self._used = (), len(self._history.events)
        self._used_by_guest = frozenset(event.call for event in self._history.events if event.call is not None)
        for key in self._used_by_guest:
            if self._calls.pop(key).outcome is None:
                raise ConfigurationError("what is kept of it is damaged: a call whose outcome was used has none")
        history, self._history = self._history, replace(self._history, calls=(), events=())
        return history

    def numbered(self, key: CallKey, number: int) -> None:
        """A guest has made this call, under that number."""
        self._numbers[number] = key
        stored = self._calls.get(key)
        if stored is not None and stored.number != number:
            self._calls[key] = stored = replace(stored, number=number)
            self._write(stored)

    def received(self, at: float, number: int | None) -> None:
        """A guest receives its next event now.

        Args:
            at: the time of the event.
            number: of the call; None for a timer.
        """
        self._used += 1
        self.wake_at = None
        self._write(Consumed(self._used, at, None if number is None else self._numbers.pop(number)))

    # calls

    async def may_be_made(self, key: CallKey, call: CallUnderWay, tool: Tool | None) -> None:
        """Return when a call that has no outcome may be made.

        Raises:
            UnknownOutcome: it was in flight at a crash, and the program wants to know.
        """
        name = key.digest + key.occurrence.to_bytes(8, "big")
        call.idempotency_key = f"call_{hashlib.blake2b(name, digest_size=16, key=self._seed).hexdigest()}"
        await self._live(call, key)
        stored = self._calls.get(key)
        if stored is None or stored.status == "waiting" or self._may_be_repeated(stored, tool):
            return
        if self._on_unknown == "raise":
            del self._calls[key]
            raise UnknownOutcome(
                f"tool {call.name!r} was at work when the process ended; it may have done its work all the same: "
                "the outcome is unknown, find out before you call it again",
                tool=call.name,
            )
        if stored.status != "unknown":
            self._calls[key] = stored = replace(stored, status="unknown")
            await self._keep(stored)
        while True:
            await self.parking.park(key, Parked(call.name, call.arguments, "attention"))

    async def _live(self, call: CallUnderWay, key: CallKey) -> None:
        while self._leaving or not self.is_live:
            await self.parking.park(key, Parked(call.name, call.arguments, "turn"))

    def _may_be_repeated(self, stored: StoredCall, tool: Tool | None) -> bool:
        tried = json.loads(stored.record)[0].get("tried")
        return tool is not None and tool.repeatable and tried == [tool.name]

    def follow(self, call: CallUnderWay, instead: CallUnderWay, error: str) -> None:
        """`instead` is the fallback of `call`, which has failed. A run that sleeps before the fallback is made does not
        call the tool again: it fails with `error`, as text."""
        assert call.kept is not None
        key = key_of(call)  # an answer to the question about one fallback must not count for another
        place = f"\nfallback of {key.digest.hex()} {key.occurrence}"
        instead.kept = KeptCall(self, self.key_of(instead.name, instead.arguments, place), place=place)
        instead.idempotency_key = f"{call.idempotency_key}_{len(instead.tried)}"
        self._primary[key_of(instead)] = first = self._primary.get(key, call)
        key = key_of(first)
        if key in self._tried:
            self._failures_of(key)[call.tool.name] = error
            record = {"tried": self._tried[key], "failed": self._failed[key]}
            self._write(stored_call(key, first, "waiting", json.dumps([record])))

    def _failures_of(self, key: CallKey) -> dict[str, str]:
        """The errors of the tools with effects that were called for a call, also before the run slept."""
        if key not in self._failed:
            stored = self._calls.get(key)
            kept = [] if stored is None else json.loads(stored.record)
            self._failed[key] = kept[0].get("failed", {}) if kept else {}
        return self._failed[key]

    async def started(self, call: CallUnderWay) -> None:
        """See `CallJournal`."""
        first = self._primary.get(key_of(call), call)
        key = key_of(first)
        if self._leaving:
            await anyio.sleep_forever()
        tried = self._tried.get(key, [])
        if call.tool.name in tried:  # a retry
            return
        if (failed := self._failures_of(key).get(call.tool.name)) is not None:
            raise error_from(failed)
        self._tried[key] = tried
        tried.append(call.tool.name)
        await self._keep(stored_call(key, first, "started", json.dumps([{"tried": tried}])))

    async def ended(self, key: CallKey, call: CallUnderWay, chain: list[CallRecord], outcome: str | ToolError) -> None:
        """Keep the outcome of a call; if the call has effects, return when a crash cannot lose it.

        Args:
            key: its name.
            call: the call.
            chain: its record and those of its fallbacks.
            outcome: result or error.
        """
        stored = with_outcome(key, call, chain, outcome)
        if key in self._tried:
            await self._keep(stored)
        elif self._unwritten > _MOST_UNWRITTEN:
            await self._keep(stored)
            self._unwritten = 0
        else:
            self._write(stored)

    def left(self, key: CallKey) -> None:
        """A call is not at work any more, however it ended."""
        self._tried.pop(key, None)
        self._failed.pop(key, None)
        if self._leaving:
            self.leave()

    def adopt(self, key: CallKey, records: list[CallRecord], outcome: str | ToolError) -> None:
        """See `CallJournal`."""
        self._write(with_outcome(key, CallUnderWay(records[0].tool, records[0].arguments), records, outcome))

    # people

    async def ask(self, call: CallUnderWay, arguments: dict[str, Any]) -> Allow | Deny:
        """See `CallJournal`."""
        return await self._questions.ask(call, arguments)

    async def refresh(self) -> None:
        """Learn what people have decided."""
        self._questions.answered((await self._store.load(self.run_id)).approvals)

    # the end

    @property
    def rests(self) -> bool:
        """Whether nothing goes on but parked calls."""
        waits = bool(self.parking.calls) or self.wake_at is not None
        return waits and self.drive is not None and self.drive.rests(len(self.parking.calls))

    def pause(self) -> Pause:
        """Why the run sleeps, which `rests`. Raises `ReplayDiverged` if it should have gone on."""
        if not self.is_live:
            raise self._divergence(list(self.parking.calls.values()))
        return self.parking.pause(self.wake_at)

    def check_end(self) -> None:
        """The run has come to its end. Raises `ReplayDiverged` if it came to more before it was continued."""
        if not self.is_live:
            raise self._divergence([])

    def _divergence(self, got: Sequence[Parked]) -> ReplayDiverged:
        event = self._events[self._used]
        stored = None if event.call is None else self._calls.get(event.call)
        expected = "a timer" if stored is None else self.parking.shown([Parked(stored.tool, stored.arguments, "turn")])
        got_now = self.parking.shown(got) if got else "its end"
        return ReplayDiverged(None, f"the outcome of {expected} as its event {event.number}", got_now)

    # writing

    def _write(self, *changes: Change) -> None:
        self._unwritten += sum(
            len(each.arguments) + len(each.outcome or "") for each in changes if isinstance(each, StoredCall)
        )
        self._store.write(self._held, *changes)

    async def _keep(self, *changes: Change) -> None:
        await self._stored(self._store.write(self._held, *changes))

    async def _expire(self, call: CallKey, decision: Decision) -> Approval:
        return await self._stored(self._store.expire(self._held, call, decision))

    async def _stored(self, stored: Awaitable[T]) -> T:
        try:
            return await stored
        except DurableError as error:
            self.fail(error)
            while True:  # the call goes no further
                await anyio.sleep_forever()

    def leave(self) -> None:
        """Begin nothing more, and end the run in this process when no call with effects is at work."""
        self._leaving = True
        if not self._tried:
            self.scope.cancel()

    def fail(self, failure: DurableError) -> None:
        """End the run in this process; the first reason counts."""
        self.failure = self.failure or failure
        self.scope.cancel()
