"""Runs one program on a guest that replays: gives it its history, then one event whenever it waits for one.

1. Replies of calls queue up here, in the order in which they came. A guest that waits gets the next one, or the end of
   its timer if that time came first.
2. An event is recorded (`Consumed`) before it is sent.
3. The time of an event is when it came; it is never less than that of the event before, whatever the machine's clock
   does: the clock is read once, and from then on it counts.
4. What a program prints while its history lasts was shown before: it goes to the logs, and no listener hears it again.
"""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import anyio

from callgate.errors import CallgateError, LimitReached, ProtocolError, ReplayDiverged, SandboxCrashed
from callgate.protocol.logs import printable
from callgate.protocol.run import CallCancelled, Called, Ended, Event, Other, Waits, Withdrawn, encode
from callgate.runtime.gate.watches import watched
from callgate.runtime.guest_run import GuestRun, in_guest
from callgate.sandbox.backend import Guest

from .history import History, ReplayEvent

if TYPE_CHECKING:
    from callgate.runtime.result import CodeResult
    from callgate.runtime.run import CodeRun
    from callgate.runtime.runtime import Runtime

__all__ = ["Arrived", "Consumed", "ReplayRun", "replayable"]

Consumed = Callable[[int, ReplayEvent], Awaitable[None] | None]
"""Receives the number of an event (from 1) and the event, before the program does."""
_UNREAD_BYTES = 32 << 20
"""Bytes of replies that the guest has not asked for, before the host serves no further call."""
_WORDS = 1_000
"""Characters of what a guest says about a call."""
_ONE_WAIT_SECONDS = 3_600.0
_ERROR = b'{"jsonrpc":"2.0","error":'
_RESULT = b'{"jsonrpc":"2.0","result":'


class Arrived(NamedTuple):
    """The outcome of a call, while its program has not asked for it."""

    time: float
    """When it came."""
    call: Called
    reply: bytes


class ReplayRun(GuestRun):
    """One run on an idle guest that has run nothing, and runs nothing afterwards.

    Args:
        run: the program.
        guest: the guest.
        history: what the program has received in earlier runs; empty for a program that begins.
        consumed: is told each further event.

    Attributes:
        events: all events so far, those of the history included; empty without `keeps_events`.
        arrived: outcomes of calls that the program has not received, in the order in which they came.
    """

    keeps_events: ClassVar[bool] = True
    """Whether `events` has them. A run whose events are stored elsewhere needs no copy in memory."""

    def __init__(self, run: CodeRun, guest: Guest, history: History, consumed: Consumed | None = None) -> None:
        super().__init__(run, guest)
        self.events = list(history.events) if self.keeps_events else []
        self._number = len(history.events)
        self._history = history
        self._consumed = consumed
        self._last = history.last
        self._since = max(time.time(), history.last) - time.monotonic()
        self.arrived: deque[Arrived] = deque()
        self._arrived_bytes = 0
        self._timers = sum(event.number is None for event in history.events)
        self._last_call = 0
        self._cancelled_calls: set[int | str] = set()
        self._has_cancelled = False
        """Whether `arrived` may have outcomes of calls that the program has cancelled since."""
        self._until: float | None = None
        self._news = anyio.Event()
        self._space: anyio.Event | None = None
        """Set when the program has taken an outcome."""
        if history.events:
            self._on_event = None
        replayed = len(history.events) - self._timers
        self._gate.leave_out(-replayed)

    @property
    def history(self) -> History:
        """Everything that the program has received."""
        return History(self._history.seed, self._history.start, tuple(self.events))

    def _execute(self) -> bytes:
        run = self._run
        return self._wire.execute(
            run.code, run.offer.wire, run.inputs, answers=run.given is not None, replay=self._history.member
        )

    async def give_history(self) -> None:
        """Send the history."""
        for piece in self._history.lines():
            await self._send(piece)
        self._history = self._history.cut(0)  # the guest has it

    async def read(self) -> None:
        await self.give_history()
        await self.open_tasks()
        self.later(0, self._feed)
        await super().read()
        if self.ended is not None and self.ended.diverged:
            self._tell_divergence(self.ended)

    def _tell_divergence(self, ended: Ended) -> None:
        found: dict[str, Any] = ended.error or {}
        line, *words = found.get("line"), found.get("expected"), found.get("got")
        expected, got = (printable(str(each)[:_WORDS]) for each in words)
        self.ended = None
        self.fail(ReplayDiverged(line if type(line) is int and line > 0 else None, expected, got))

    # what comes from the guest

    def _events_in(self, data: bytes) -> Iterator[Event]:
        for event in super()._events_in(data):
            if isinstance(event, Waits):
                self._on_event = self._run.on_event
                self._drop_cancelled()
                self._until = event.until
                self._news.set()
                continue
            if isinstance(event, (Called, Withdrawn)):
                number = event.id if isinstance(event, Called) else event.number
                if type(number) is not int or number <= self._last_call:
                    raise ProtocolError("a guest that replays numbers its calls 1, 2, 3, ...")
                self._last_call = number
            elif isinstance(event, CallCancelled):
                self._cancelled_calls.add(event.id)
                self._has_cancelled = True
            elif isinstance(event, Other):
                raise ProtocolError("a guest that replays makes plain calls only")
            yield event

    async def wait_for_room(self) -> None:
        self._fail_if_stuck()
        await super().wait_for_room()

    def _fail_if_stuck(self) -> None:
        """Raise `ProtocolError` if neither side can go on: the guest writes calls, and reads nothing meanwhile."""
        self._drop_cancelled()
        if self._arrived_bytes > _UNREAD_BYTES and self._is_far_ahead() and not self._wire.waits:
            raise ProtocolError(
                "the program made more calls at once than can wait here, while 32 MiB of results waited for it: "
                "make fewer calls at a time, for instance with asyncio.Semaphore"
            )

    # what goes to the guest

    async def _reply(self, call: Called, data: bytes) -> None:
        while self._arrived_bytes > _UNREAD_BYTES:  # the program must ask for its replies first
            try:
                self._fail_if_stuck()
            except ProtocolError as error:
                self.end(error)
            self._space = self._space or anyio.Event()
            await self._space.wait()
        if call.id not in self._cancelled_calls:
            self.arrived.append(Arrived(self.now(), call, data))
            self._arrived_bytes += len(data)
            self._news.set()

    def now(self) -> float:
        """Seconds since 1970, by a clock that never goes back."""
        return self._since + time.monotonic()

    async def _feed(self) -> None:
        """Send one event whenever the program waits for one."""
        try:
            while self.ended is None:
                while not self._wire.waits:
                    await self.news()
                event = await self.next_event(self._until)
                self._number += 1
                if self.keeps_events:
                    self.events.append(event)
                self._last = event.time
                if self._consumed is not None:
                    told = self._consumed(self._number, event)
                    if inspect.isawaitable(told):
                        await told
                self._wire.waits = False
                await self._send(event.message)
        except SandboxCrashed:
            return  # the reader sees the crash, too
        except CallgateError as error:
            self.end(error)

    async def news(self, most_seconds: float = _ONE_WAIT_SECONDS) -> None:
        """Return when the program waits or an outcome has arrived, after `most_seconds` at the latest."""
        with anyio.move_on_after(most_seconds):
            await self._news.wait()
        self._news = anyio.Event()

    async def next_event(self, until: float | None) -> ReplayEvent:
        """Wait for the next event of a program that waits; `until` is the time of its nearest timer."""
        while True:
            now = self.now()
            if self.arrived and (until is None or self.arrived[0].time <= until):
                return self.outcome(self.arrived[0])
            if until is not None and (self.arrived or until <= now):
                return self.timer(self.arrived[0].time if self.arrived else now)
            await self.news(_ONE_WAIT_SECONDS if until is None else min(until - now, _ONE_WAIT_SECONDS))

    def outcome(self, arrived: Arrived) -> ReplayEvent:
        """Take one of `arrived` as the next event."""
        self._take_out(arrived)
        at, call, data = arrived
        assert isinstance(call.id, int)
        failed = data.startswith(_ERROR)
        outcome = data[len(_ERROR if failed else _RESULT) : data.rindex(b',"id":')].decode()
        return ReplayEvent(max(at, self._last), call.id, call.method, encode(call.arguments), outcome, failed)

    def _take_out(self, arrived: Arrived) -> None:
        self.arrived.remove(arrived)
        self._make_space(len(arrived.reply))

    def _drop_cancelled(self) -> None:
        """Forget the outcomes of cancelled calls, all at once: thousands of each would take minutes one by one."""
        if self._has_cancelled:
            self._has_cancelled = False
            before, self.arrived = self.arrived, deque()
            for each in before:
                if each.call.id in self._cancelled_calls:
                    self._make_space(len(each.reply))
                else:
                    self.arrived.append(each)

    def _make_space(self, size: int) -> None:
        self._arrived_bytes -= size
        if self._space is not None:
            self._space.set()
            self._space = None

    def timer(self, at: float) -> ReplayEvent:
        """Take the end of the nearest timer as the next event. Raises `LimitReached`."""
        self._timers += 1
        if self._timers > (most := self._limits.max_tool_calls):
            raise LimitReached("max_tool_calls", most, self._timers)
        return ReplayEvent(max(at, self._last))


async def replayable(
    runtime: Runtime,
    code: str,
    *,
    history: History | None = None,
    consumed: Consumed | None = None,
    check: bool = True,
    driven: Callable[..., ReplayRun] = ReplayRun,
    **options: Any,
) -> tuple[CodeResult, History]:
    """Run a program in a guest that records what it receives, or does the same again.

    Args:
        runtime: has the tools and the sandbox.
        code: the program.
        history: the beginning, as an earlier run has recorded it. None: the program begins.
        consumed: is told each further event before the program receives it.
        check: see `Runtime.execute_code`.
        driven: makes what drives the guest, from the arguments of `ReplayRun`.
        options: inputs, tools, limits, on_event and files, as `Runtime.execute_code` takes them.

    Returns:
        The result, with the calls that this run has made, and everything that the program has received.
    """
    made: list[ReplayRun] = []

    def drive(run: CodeRun, guest: Guest) -> GuestRun:
        made.append(driven(run, guest, history or History(), consumed))
        return made[0]

    run, _ = runtime._new_run(code, path="sandbox", **options)
    if check:
        run.findings = run.check(runtime._language, session=False, replays=True)
        if (stopped := run.check_failure(runtime.backend.description)) is not None:
            return stopped, history or History()
    guests = await runtime._confined_for_replay()
    result = await watched(run.gate, in_guest(run, *guests, drive), "code", code, run.inputs)
    return replace(result, redactor=runtime.redactor), made[0].history
