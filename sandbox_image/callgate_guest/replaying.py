"""A guest that does the same again: what its program receives depends on its events alone, and these are recorded.

1. **The guest pulls.** When an event loop has nothing ready, or a plain function blocks, one event is taken: the answer
   to a call, or the time of a timer. Nothing else reaches the program. While the history lasts, it has the events;
   afterwards each one is asked for by `WAIT`, and the host records it before it sends it.
2. **Nothing leaves before the history is used up.** Calls and prints are held until then. A call that the history
   answers never leaves. So a replay that goes another way than the recorded run has called nothing.
3. Timers with the same time end in the order in which they were made. Tasks, futures and calls have their number as
   their hash, so that sets of them have one order. Garbage is collected at fixed events.
4. What else differs from run to run (clocks, randomness, files, threads) is `standing_still`'s.

An ordinary run never imports this.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import json
import math
import os
import select
import selectors
import sys
import weakref
from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import Any, NoReturn

from . import standing_still
from .link import Link, decode, encode
from .loops import Loops, _asyncio_run, _Loop
from .nursery import Nursery
from .standing_still import Clock
from .tool_calls import ToolCall
from .wire import DIVERGED, WAIT

_RESOLUTION = 1e-6
"""Seconds by which a timer may end early: more than what is lost between a loop's time and seconds since 1970."""
_EVENTS_A_COLLECTION = 256
"""Events before the objects made since the last collection are looked at."""
_EVENTS_A_FULL_COLLECTION = 4_096
"""Events before all objects are looked at: of 100,000 tasks, that takes a tenth of a second."""
_MOST_TURNS = 1_000
"""Turns of a loop without an event, for programs that ask with ``asyncio.sleep(0)`` whether a task has ended."""
_SHOWN = 200
"""Characters of a call's arguments in an error."""
_FAR = 1 << 40
"""Hashes of tasks, futures and calls begin here, where a program's own numbers are not: else `==` would be asked."""
_select: Any = selectors.DefaultSelector.select
_as_completed: Any = asyncio.as_completed
_numbers = count(_FAR)
_task_numbers = count(1)


class ReplayLink(Link):
    """The wire of a guest whose events are recorded. An ordinary link becomes one by `begin_replay`."""

    _history: deque[bytes]
    clock: Clock

    def begin_replay(self, clock: Clock, events: int, number: Any) -> None:
        """Use up so many events of the history, which come behind the request `number`."""
        self.clock = clock
        self._left = events
        self._taken = 0
        self._number = number
        self._history = deque(self.further)

    # nothing leaves before the history is used up

    def request(self, method: str, params: dict[str, Any], reply: Any, *, holds: bool = False) -> int:
        return super().request(method, params, reply, holds=True)

    def _write(self, text: str) -> None:
        if not self._left:
            super()._write(text)
        elif text:
            self._unnumbered -= 1
            self.held[self._unnumbered] = text, "", "", ""

    def reply(self, number: Any, body: str) -> None:
        if self._left:
            message = decode(self._next_line().decode())
            self._diverged(0, _expected(message), "the end of the program")
        super().reply(number, body)

    # one event at a time

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """No loop reads the wire."""

    def wait(self, reply: Any) -> None:
        while not reply.done:
            self.pull(None)

    def pull(self, until: float | None) -> None:
        """Take the next event. `until` is the time of the nearest timer, in seconds since 1970."""
        recorded = self._left > 0
        if recorded:
            self._left -= 1
        else:
            body = "null" if until is None or not math.isfinite(until) else repr(until)
            self._write(f'{{"jsonrpc":"2.0","method":"{WAIT}","params":{{"until":{body}}}}}\n')
        message = decode(self._next_line().decode())
        if (number := message.get("id")) is None:
            now = message["params"]["time"]
            if recorded and (until is None or until > now + _RESOLUTION):
                self._diverged(0, _expected(message), self._waits_for(until))
        else:
            now = message["time"]
            if recorded:
                self._compare(number, message, until)
        self.clock.set(now)
        self._taken += 1
        if self._taken % _EVENTS_A_COLLECTION == 0:
            gc.collect(2 if self._taken % _EVENTS_A_FULL_COLLECTION == 0 else 0)
        if number is not None and (waiting := self.pending.pop(number, None)) is not None:
            waiting.resolve(message)
        self.wake_news()

    def _compare(self, number: int, message: dict[str, Any], until: float | None) -> None:
        """Raise unless call `number` has been made as it was in the recorded run."""
        held = self.held.pop(number, None)
        if held is None or number not in self.pending:
            self._diverged(0, _expected(message), self._waits_for(until))
        _, tool, body, at = held
        named, arguments = message["call"]
        if tool != named or (body != arguments and _canonical(body) != _canonical(arguments)):
            line = int(at.rpartition(":")[2] or 0)
            self._diverged(line, _expected(message), f"call {number}, {_call(tool, body)}")

    def _waits_for(self, until: float | None) -> str:
        if until is None:
            return f"a program that has made {self.last_id} calls and waits"
        return f"a program that has made {self.last_id} calls and waits until {until:.6f}"

    def _diverged(self, line: int, expected: str, got: str) -> NoReturn:
        """Tell the host that this is not the recorded run, and end."""
        self.held.clear()
        self._left = 0
        data = {"line": line or None, "expected": expected, "got": got}
        failure = {"code": DIVERGED, "message": "the replay diverged", "data": data}
        super().reply(self._number, f'"error":{encode(failure)}')
        while not self.closed:  # the host may still be sending the history
            self._history.clear()
            self._await_line()
        os._exit(0)

    def _next_line(self) -> bytes:
        while not self._history:
            if self.closed:
                os._exit(0)  # the host is gone
            self._await_line()
        return self._history.popleft()

    def _await_line(self) -> None:
        select.select([self._incoming], [], [])
        self._read()

    def _hand_out(self, data: bytes) -> None:
        self.closed = self.closed or not data
        self._history.extend(self._lines.feed(data))


def _canonical(text: str) -> str:
    return json.dumps(json.loads(text), sort_keys=True)


def _call(tool: str, arguments: str) -> str:
    shown = arguments if len(arguments) <= _SHOWN else f"{arguments[:_SHOWN]}..."
    return f"{tool}({shown})"


def _expected(message: dict[str, Any]) -> str:
    """An event of the history, in words."""
    if "call" not in message:
        return f"the timer at {message['params']['time']:.6f}"
    tool, arguments = message["call"]
    return f"the answer to call {message['id']}, {_call(tool, arguments)}"


class _Selector(selectors.DefaultSelector):
    """Takes an event where another selector waits."""

    loop: _ReplayLoop

    def select(self, timeout: float | None = None) -> Any:
        ready = _select(self, 0)  # what the program itself has written
        if not ready:
            self.loop.idle(timeout)
        return ready


class _Timer(asyncio.TimerHandle):
    """A timer. Of several with the same time, the one that was made first ends first."""

    __slots__ = ("_made",)
    _when: float
    _scheduled: bool

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._made = next(_numbers)

    def __lt__(self, other: Any) -> bool:
        return (self._when, self._made) < (other._when, other._made)


class _InOrder(weakref.WeakKeyDictionary[Any, None]):
    """A loop's open asynchronous generators, in the order in which they were first used."""

    def add(self, each: Any) -> None:
        self[each] = None

    def discard(self, each: Any) -> None:
        self.pop(each, None)


class _ReplayLoop(_Loop):
    """An event loop whose time is that of the last event."""

    _link: ReplayLink
    _scheduled: list[_Timer]
    _check_closed: Any
    _turns = 0

    def __init__(self, link: Link, nursery: Nursery) -> None:
        super().__init__(link, nursery, _Selector())
        self._selector.loop = self  # type: ignore[attr-defined]
        self._clock_resolution = _RESOLUTION
        self._asyncgens = _InOrder()

    def time(self) -> float:
        return self._link.clock.steady()

    def create_future(self) -> asyncio.Future[Any]:
        return Future(loop=self)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *arguments: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        if not when == when:
            raise ValueError("the time of a timer is not a number (NaN)")
        self._check_closed()
        timer = _Timer(when, callback, arguments, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def idle(self, timeout: float | None) -> None:
        """Take an event if nothing is ready, or a program has looked too often for an event that is to come."""
        self._turns += 1
        if timeout != 0 or (self._turns > _MOST_TURNS and (self._scheduled or self._link.pending)):
            self._turns = 0
            clock = self._link.clock
            self._link.pull(clock.since_1970(self._scheduled[0]._when) if self._scheduled else None)


class _Kind(type):
    """`isinstance` and `issubclass` of `Future` and `Task` hold for asyncio's own, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _OWN[cls]) if cls in _OWN else type.__instancecheck__(cls, instance)

    def __subclasscheck__(cls, kind: Any) -> bool:
        return issubclass(kind, _OWN[cls]) if cls in _OWN else type.__subclasscheck__(cls, kind)


class Future(asyncio.Future[Any], metaclass=_Kind):
    __doc__ = asyncio.Future.__doc__
    __module__ = "asyncio"

    def __init__(self, **options: Any) -> None:
        self._made = next(_numbers)
        super().__init__(**options)

    def __hash__(self) -> int:
        return self._made


class Task(asyncio.Task[Any], metaclass=_Kind):
    __doc__ = asyncio.Task.__doc__
    __module__ = "asyncio"

    def __init__(self, coro: Any, *, name: Any = None, **options: Any) -> None:
        self._made = next(_numbers)
        super().__init__(coro, name=f"Task-{next(_task_numbers)}" if name is None else name, **options)

    def __hash__(self) -> int:
        return self._made


_OWN: dict[Any, Any] = {Future: Future.__base__, Task: Task.__base__}


def as_completed(fs: Iterable[Any], *, timeout: float | None = None) -> Any:
    if not (asyncio.isfuture(fs) or asyncio.iscoroutine(fs)):
        fs = [asyncio.ensure_future(each) for each in dict.fromkeys(fs)]
    return _as_completed(fs, timeout=timeout)


def begin(link: Link, loops: Loops, params: dict[str, Any], number: Any) -> None:
    """Make this fresh guest one that does the same again.

    Args:
        link: its wire.
        loops: has no loop yet.
        params: ``seed`` as hexadecimal digits, ``start`` in seconds since 1970, ``events``: how many events of the
            history come behind the request.
        number: id of the request.
    """
    if sys.flags.hash_randomization:
        raise RuntimeError("this sandbox gives each guest other hashes: start Python with PYTHONHASHSEED=0, without -I")
    link.__class__ = ReplayLink
    assert isinstance(link, ReplayLink)
    clock = Clock(params["start"])
    link.begin_replay(clock, params["events"], number)
    gc.disable()
    gc.freeze()  # the collections to come look at the program's objects alone
    loops.kind = _ReplayLoop

    def run(main: Any, **options: Any) -> Any:  # where a loop is running, CPython's refuses: there are no threads
        return (loops.run_anywhere if asyncio._get_running_loop() is None else _asyncio_run)(main, **options)

    asyncio.run = run
    asyncio.Future = asyncio.futures.Future = Future  # type: ignore[misc]
    asyncio.Task = asyncio.tasks.Task = Task  # type: ignore[misc]
    asyncio.as_completed = asyncio.tasks.as_completed = as_completed
    if hasattr(asyncio, "create_eager_task_factory"):  # since Python 3.12
        vars(asyncio)["eager_task_factory"] = asyncio.create_eager_task_factory(Task)
    asyncio.tasks._GatheringFuture.__hash__ = _numbered_late  # type: ignore[attr-defined]
    ToolCall.__hash__ = _numbered_by_calls  # type: ignore[method-assign, assignment]
    standing_still.begin(clock, bytes.fromhex(params["seed"]), link.pull)


def _numbered_late(self: Any) -> int:
    if (made := getattr(self, "_made", None)) is None:
        made = self._made = next(_numbers)
    return int(made)


def _numbered_by_calls(self: Any) -> int:
    return 2 * _FAR + int(self._number)
