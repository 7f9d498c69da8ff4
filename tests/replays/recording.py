"""Runs a program under a conductor, which decides what the program receives next, and says where a replay differs.

A program is recorded once: whenever it waits, the conductor draws the answer to one of its calls, or the end of its
nearest timer, and a time. Then it is replayed in another sandbox, cut off at every event, in one of two ways:

- *exactly*: behind the cut, the conductor sends the recorded events over the wire. Everything has to be as recorded:
  every call, the prints, the value, the error, the files.
- *freshly*: behind the cut, the tools answer, in an order that is drawn anew. What the program had printed and called
  when it came to the cut has to be as recorded, and no recorded answer may be asked for again. Some of these histories
  are replayed as a whole.
"""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel

from callgate import CodeResult, Limits, Runtime
from callgate.protocol.run import Called, Ended, Event, Withdrawn
from callgate.runtime.replay.check import padded
from callgate.runtime.replay.history import History, ReplayEvent
from callgate.runtime.replay.run import ReplayRun, replayable
from callgate.runtime.run import CodeRun
from callgate.sandbox.backend import Guest
from fast_path import catalogue as graphs
from replays.catalogue import TOOLS, WORLD, World, approve
from replays.programs import THEMES, Program, write
from replays.workers import Tell
from runtime.conftest import opened

__all__ = ["Checked", "Hangs", "Recorder", "Trace", "differences", "drawn", "open_recorder"]

RUN_SECONDS = 60.0
"""A run that takes longer hangs: its limits end every program sooner."""
_ALL_CUTS = 12
"""A program with more events is cut off at so many of them, chosen by chance."""
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
_SECONDS = (0.0, 0.0, 1e-6, 0.0004, 0.001, 0.002, 0.02)
"""How long answers take."""


@dataclass(frozen=True)
class Mark:
    """How far a program had come when it asked for an event."""

    printed: int
    calls: int


@dataclass
class Trace:
    """What came of one run."""

    result: CodeResult
    history: History
    made: dict[int, tuple[str, str]]
    """Tool and arguments of every call, by its number."""
    live: set[int]
    """Calls that left the guest in this run."""
    marks: dict[int, Mark]
    """By the number of events that the program had received."""
    stuck: bool = False
    """The program waited, and nothing could come."""


class Hangs(Exception):
    """A run did not end, though its limits end every program."""


@dataclass
class Checked:
    """What came of a program, in all its runs."""

    number: int
    program: Program
    events: int = 0
    runs: int = 0
    calls: int = 0
    ended: str = ""
    faults: list[str] = field(default_factory=list)


def drawn(seed: int, number: int, themes: Sequence[str] = THEMES) -> Program:
    """The program with this number; each theme in turn."""
    return write(random.Random(f"{seed} {number}").randrange, themes[number % len(themes)])


class _Conducted(ReplayRun):
    """A run whose events are drawn, or follow a script."""

    def __init__(
        self, run: CodeRun, guest: Guest, history: History, world: World, script: Sequence[ReplayEvent]
    ) -> None:
        super().__init__(run, guest, history)
        self._world = world
        self._script = script
        self._layout = random.Random(world.chance.random())
        self._first = len(history.events)
        self.made = {
            each.number: _call(each.tool, each.arguments) for each in history.events if each.number is not None
        }
        self.live: set[int] = set()
        self.asked: dict[int, Mark] = {}
        self.stuck = False

    def _execute(self) -> bytes:
        run = self._run
        return self._wire.execute(
            run.code, run.offer.wire, run.inputs, replay=padded(self._history.member, self._layout)
        )

    def _events_in(self, data: bytes) -> Iterator[Event]:
        for event in super()._events_in(data):
            if isinstance(event, Called):
                assert isinstance(event.id, int)
                self.live.add(event.id)
                self.made[event.id] = _call(event.method, json.dumps(event.arguments))
            elif isinstance(event, Withdrawn) and event.number is not None:
                self.made[event.number] = _call(event.method, json.dumps(event.arguments))
            elif isinstance(event, Ended):
                self._world.release()
            yield event

    async def next_event(self, until: float | None) -> ReplayEvent:
        self.asked.setdefault(len(self.events), Mark(self._wire.printed, max(self.made, default=0)))
        at = len(self.events) - self._first
        if at < len(self._script):
            return self._script[at]
        await _until(lambda: len(self.jobs) <= len(self._world.blocked))
        return await self._drawn(until)

    def now(self) -> float:
        return self._last

    async def _drawn(self, until: float | None) -> ReplayEvent:
        chance = self._world.chance
        arrived = sorted(self.arrived, key=lambda each: int(each.call.id))
        choices: list[Any] = [*arrived, *self._world.blocked, *([None] if until is not None else [])]
        if not choices:
            self.stuck = True
            self.stop()
            await anyio.sleep_forever()
        chosen = chance.choice(choices)
        if chosen is None:
            assert until is not None
            return self.timer(until + chance.choice(_SECONDS))
        if isinstance(chosen, anyio.Event):
            before, jobs = len(self.arrived), len(self.jobs)
            chosen.set()
            await _until(lambda: len(self.arrived) > before or len(self.jobs) < jobs)
            if len(self.arrived) == before:  # the program has cancelled that call
                return await self._drawn(until)
            chosen = self.arrived[-1]
        at = self._last + chance.choice(_SECONDS)
        return replace(self.outcome(chosen), time=at if until is None else max(self._last, min(at, until)))


def _how_far(made: Sequence[_Conducted]) -> str:
    """How far a run has come that hangs."""
    if not made:
        return "no guest"
    run = made[0]
    waits = "waits for an event" if run._wire.waits else "does not wait for an event"
    return (
        f"{len(run.events)} events, {len(run.made)} calls, {len(run.arrived)} answers that it has not asked for, "
        f"{len(run._world.blocked)} calls that wait for the conductor; the program {waits}"
    )


async def _until(is_so: Callable[[], bool]) -> None:
    """Tools with work of their own, some of them in threads, tell nobody when they end."""
    while not is_so():  # noqa: ASYNC110
        await anyio.sleep(0.0002)


def _call(tool: str, arguments: str) -> tuple[str, str]:
    return tool, json.dumps(json.loads(arguments), sort_keys=True)


class Recorder:
    """Two runtimes, whose guests share no ancestor: one records, the other one replays.

    Args:
        records: one of them.
        replays: the other one.
        tell: receives the number of a program and the run that begins.
    """

    def __init__(self, records: Runtime, replays: Runtime, tell: Tell = lambda *_: None) -> None:
        self._records = records
        self._replays = replays
        self._tell = tell
        self._at: dict[int, str] = {}
        """By the number of a program: its last run."""

    async def run(
        self, program: Program, history: History, seed: object, script: Sequence[ReplayEvent] = (), *, new: bool = False
    ) -> Trace:
        """Run a program behind a history.

        Args:
            program: the program.
            history: what it receives first.
            seed: of what it receives then.
            script: what it receives before anything is drawn.
            new: whether it is recorded.

        Raises:
            Hangs: it did not end in `RUN_SECONDS`.
        """
        runtime = self._records if new else self._replays
        world = World(random.Random(str(seed)), blocks=not script, serial=1000 * len(history.events))
        made: list[_Conducted] = []
        WORLD.set(world)
        graphs.WORLD.set(graphs.World())

        def driven(run: CodeRun, guest: Guest, *_: Any) -> _Conducted:
            made.append(_Conducted(run, guest, history, world, script))
            return made[0]

        result = None
        with anyio.move_on_after(RUN_SECONDS):
            result, _ = await replayable(
                runtime, program.source, history=history, check=False, driven=driven, inputs=program.inputs
            )
        if result is None:
            raise Hangs(f"hangs: it did not end in {RUN_SECONDS:g} s, with {_how_far(made)}")
        each = made[0]
        return Trace(result, each.history, each.made, each.live, each.asked, each.stuck)

    async def check(self, program: Program, number: int) -> Checked:
        """Record a program, replay it in every way, and say what was not the same. A run that hangs is a fault."""
        checked = Checked(number, program)
        try:
            await self._check(checked)
        except Hangs as error:
            checked.ended = "hangs"
            checked.faults.append(f"{self._at.get(number, '')}: {error}")
        finally:
            self._at.pop(number, None)
        return checked

    def _begins(self, checked: Checked, seed: str) -> str:
        """Note a run that begins. Returns its seed, which says what it does."""
        checked.runs += 1
        self._at[checked.number] = seed
        self._tell(checked.number, seed)
        return seed

    async def _check(self, checked: Checked) -> None:
        program, number = checked.program, checked.number
        chance = random.Random(f"cuts {number}")
        start = History(chance.randbytes(32), 1_700_000_000.0 + chance.random())
        recorded = await self.run(program, start, self._begins(checked, f"record {number}"), new=True)
        events = recorded.history.events
        error = recorded.result.error
        checked.events, checked.calls = len(events), len(recorded.made)
        checked.ended = "ended well" if error is None else "failed"
        if recorded.stuck:
            checked.ended = "stuck"
            return
        if error is not None and "occurs twice in one object" in error.message:  # a value such as {1: 0, "1": 0}
            checked.ended = "not JSON"
            return
        large = error is not None and "JSON values" in error.message  # in one message, before any of it is looked at
        if error is not None and (large or error.limit in ("memory_bytes", "cpu_seconds", "max_value_bytes")):
            checked.ended = "limit"
            return
        if error is not None and error.kind in ("ProtocolError", "SandboxCrashed", "GuestDied", "LimitReached"):
            checked.faults.append(f"{error.kind} in the recording: {error.message}")
            return
        cuts = range(len(events) + 1)
        for cut in cuts if len(cuts) <= _ALL_CUTS else sorted({0, len(events), *chance.sample(cuts, _ALL_CUTS - 2)}):
            history = recorded.history.cut(cut)
            if cut == len(events) or chance.random() < 0.5:
                again = await self.run(program, history, self._begins(checked, f"exact {number} {cut}"), events[cut:])
                found = differences(recorded, again) + _asked_again(history, again)
                checked.faults += (f"exactly, cut at {cut} of {len(events)}: {each}" for each in found)
                continue
            fresh = await self.run(program, history, self._begins(checked, f"fresh {number} {cut}"))
            found = _differences_before(cut, recorded, fresh) + _asked_again(history, fresh)
            checked.faults += (f"freshly, cut at {cut} of {len(events)}: {each}" for each in found)
            if chance.random() < 0.25 and not fresh.stuck and not checked.faults:
                whole = await self.run(program, fresh.history, self._begins(checked, f"whole {number}"))
                checked.faults += (f"as a whole, after a cut at {cut}: {each}" for each in differences(fresh, whole))


def _asked_again(history: History, trace: Trace) -> list[str]:
    again = trace.live & {event.number for event in history.events if event.number is not None}
    return [f"made again: calls {sorted(again)}, which the history answers"] if again else []


def _differences_before(cut: int, recorded: Trace, fresh: Trace) -> list[str]:
    """What was not the same when the program came to the cut."""
    mark = recorded.marks[cut]
    if cut not in fresh.marks:
        return [f"ended: before the cut, with {fresh.result.error}"]
    found = [] if fresh.marks[cut] == mark else [f"place: {fresh.marks[cut]} instead of {mark}"]
    one, two = (_masked(trace.result.logs[: mark.printed]) for trace in (recorded, fresh))
    if one != two:
        found.append(f"prints: {two!r} instead of {one!r}")
    calls = [{n: call for n, call in trace.made.items() if n <= mark.calls} for trace in (recorded, fresh)]
    return found + ([] if calls[0] == calls[1] else [f"calls: {calls[1]} instead of {calls[0]}"])


def differences(recorded: Trace, again: Trace) -> list[str]:
    """What was not the same in a whole run, a line for each thing."""
    one, two = _told(recorded), _told(again)
    return [f"{name}: {two[name]!r} instead of {one[name]!r}" for name in one if one[name] != two[name]]


def _told(trace: Trace) -> dict[str, Any]:
    result, error = trace.result, trace.result.error
    return {
        "error": error and (error.kind, _masked(error.message), error.line, error.tool, _masked(error.traceback)),
        "calls": trace.made,
        "prints": _masked(result.logs),
        "value": json.dumps(result.value),
        "value_repr": _masked(result.value_repr or ""),
        "lines of prints": [(mark.line, mark.offset) for mark in result.prints],
        "notes": result.notes,
        "artifacts": [(each.name, each.media_type, hash(each.data)) for each in result.artifacts],
        "events": [(event.number, event.tool, event.time) for event in trace.history.events],
        "stuck": trace.stuck,
    }


def _masked(text: str) -> str:
    return _ADDRESS.sub("0x", text)


@asynccontextmanager
async def open_recorder(tell: Tell = lambda *_: None) -> AsyncIterator[Recorder]:
    """Both runtimes, open; `tell` as for `Recorder`. A sandbox that is missing is a skip, in CI a failure."""
    logger = logging.getLogger("callgate")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # a tool's crash is reported there
    limits = Limits(wall_seconds=20, cpu_seconds=4, max_tool_calls=20_000, max_log_bytes=16 << 20)
    try:
        async with (
            opened(*TOOLS, approve=approve, limits=limits, pool_size=1) as records,
            opened(*TOOLS, approve=approve, limits=limits, pool_size=3) as replays,
        ):
            yield Recorder(records, replays, tell)
    finally:
        logger.setLevel(level)
