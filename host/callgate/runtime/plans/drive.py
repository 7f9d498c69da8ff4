"""Runs one plan: the engine requests calls, the gate makes them, and the engine receives the outcomes.

There are more workers than `max_concurrent_calls`, since the gate hands out the places: a call that waits for its next
attempt or for a person holds no place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from callgate.errors import LimitReached
from callgate.plan.actions import Action, Begin, Call, Exceeded, Finished, GoOn, Paused, Stop
from callgate.plan.actions import Event as EngineEvent
from callgate.plan.compile import CompiledPlan, CompiledStep
from callgate.plan.engine import Engine
from callgate.runtime.driver import Driver, Worker
from callgate.runtime.gate.arguments import in_turns
from callgate.runtime.gate.deadline import Deadline
from callgate.runtime.gate.events import StepEnded, StepStarted, tell
from callgate.runtime.gate.records import CallRecord
from callgate.tools.turns import at_once

from .early import EarlyCalls, make_call
from .result import StepResult

if TYPE_CHECKING:
    from .run import PlanRun

__all__ = ["PlanDrive"]

_WORKERS = 1024
"""More than places: calls that wait for a person or a retry hold a worker and no place."""
_MANY = 500
"""Steps; the engine takes the steps of a larger plan in turns."""


class PlanDrive(Driver[Any, Call]):
    """Runs one plan.

    Args:
        run: has the gate, the listener and the limits: `wall_seconds` holds here, memory in the engine, calls in the
            gate.
        plan: the plan.
        early: calls that were made while the plan was written.
    """

    def __init__(self, run: PlanRun, plan: CompiledPlan, early: EarlyCalls | None = None) -> None:
        limits = run.limits
        most = limits.max_concurrent_calls
        workers = min(16 * most, max(_WORKERS, 4 * most))
        super().__init__(workers)
        self.engine = Engine(
            (),
            max_bytes=limits.max_message_bytes,
            max_memory_bytes=limits.memory_bytes,
            window=most,
            max_open=workers,
        )
        self.results: list[StepResult | None] = [None] * len(plan.steps)
        self._plan = plan
        self._ids = [step.id for step in plan.steps]
        self._gate = run.gate
        self._limits = limits
        self._on_event = run.on_event
        self._early = early
        self._calls: list[list[int] | None] = [None] * len(plan.steps)
        self._items: dict[int, int] = {}
        """The item of a `for_each`, by the index of its record."""
        self._second: set[int] = set()
        """Indexes of records of calls that were made because the first result was not confident."""
        self._deadlines: dict[Worker, Deadline] = {}
        self._interrupted: set[int] = set()
        self._over = False
        self._paused = False
        if run.gate.journal is not None:
            run.gate.journal.drive = self

    def rests(self, parked: int) -> bool:
        """See `callgate.runtime.gate.journal.Rests`."""
        return not (self._over or self._paused) and self.only_waits_for(parked)

    async def run(self) -> None:
        """Run the plan to its end. Raises only cancellation; afterwards nothing runs on."""
        taking = self.engine.taking(self._plan.steps)
        if len(self._plan.steps) > _MANY:
            await in_turns(taking)
        else:
            at_once(taking)
        await self.drive(self._to_the_end, self._limits.wall_seconds)
        if self._over:
            return
        self.end(LimitReached("wall_seconds", self._limits.wall_seconds))
        if self._early is not None:
            await self._early.cancel_all()
        begun = frozenset(step for step, calls in enumerate(self._calls) if calls)
        self._paused = False
        self._feed(Stop(f"the run was ended: {self.failure}", frozenset(self._interrupted), begun))
        while self._paused and not self._over:
            self._paused = False
            await anyio.lowlevel.checkpoint()
            self._feed(GoOn())

    async def free(self) -> None:
        """Free what a large plan's run held, in turns: all of it at once takes 0.1 s for 100,000 steps."""
        lists: tuple[list[Any], ...] = (self._calls, self.results, *self.engine.held())
        for held in lists:
            held.clear()
            await anyio.lowlevel.checkpoint()

    async def _to_the_end(self) -> None:
        self._feed(Begin())
        while not self._over:
            await self.woken()
            if self._paused:
                self._paused = False
                await anyio.lowlevel.checkpoint()
                self._feed(GoOn())

    def _feed(self, event: EngineEvent) -> None:
        self._perform(self.engine.handle(event))

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            kind = type(action)
            if kind is Call:
                self.submit(action[:3], action)  # type: ignore[arg-type]
            elif kind is Finished:
                self._over = True
                self.wake()
            elif kind is Paused:
                self._paused = True
                self.wake()
            elif isinstance(action, Exceeded):
                self.end(LimitReached("memory_bytes", self._limits.memory_bytes, action.used_bytes))
            else:
                self._step_ended(action.step)  # type: ignore[union-attr]

    async def _give_a_turn(self) -> None:
        """Let other tasks run until this worker's turn begins. A worker that waits has no call, so that it calls no
        further worker: each turn wakes all that wait."""
        while self.wants_a_turn:
            await super()._give_a_turn()

    async def _work_off(self, worker: Worker) -> None:
        self._deadlines[worker] = deadline = Deadline()
        try:
            await super()._work_off(worker)
        finally:
            del self._deadlines[worker]
            deadline.close()

    async def _serve(self, call: Call) -> None:
        if self.failure is not None:
            return
        step = call.step
        records = self._gate.records
        first = len(records)  # the gate records a call before it waits for anything
        calls = self._calls[step]
        if calls is None:
            calls = self._calls[step] = []
            if self._on_event is not None and (self._early is None or step not in self._early.started):
                tell(self._on_event, StepStarted(self._plan.steps[step].id, call.tool))
        early = None if self._early is None else self._early.take(call)
        if early is not None:
            self._note(call, early.record)
            await early.done.wait()
            if early.outcome is not None:
                self._feed(early.outcome)
                return
            calls.remove(early.record)  # a limit ended it, and will end this call as well
            first = len(records)
        self._note(call, first)
        try:
            outcome = await make_call(self._gate, call, self._ids[step], self._deadlines[self._at_work[call[:3]][0]])
        except LimitReached as reached:
            if len(records) == first:
                calls.pop()
                if early is not None:
                    calls.append(early.record)
            self.end(reached)
        except BaseException:
            tools = self._gate.offer.by_name
            if any(each.attempts and not tools[each.tool].repeatable for each in self._gate.chain(first)):
                self._interrupted.add(step)
            raise
        else:
            if (durable := self._gate.durable) is not None:
                while self._paused:  # what has begun when an outcome is used must not depend on time
                    await anyio.lowlevel.checkpoint()
                durable.consumed(first)
            self._feed(outcome)

    def _note(self, call: Call, record: int) -> None:
        calls = self._calls[call.step]
        assert calls is not None
        calls.append(record)
        if call.item is not None:
            self._items[record] = call.item
        if call.again:
            self._second.add(record)

    def _step_ended(self, index: int) -> None:
        if self._early is not None:
            self._early.step_ended(index)
        step, outcome, result = self._plan.steps[index], self.engine.outcomes[index], self.engine.inputs.results[index]
        numbers = self._calls[index]
        timing: dict[str, Any] = {}
        if numbers:
            if step.for_each is not None:  # items may have begun in another order
                numbers.sort(key=self._items.__getitem__)
            timing = self._timing(step, numbers)
        if outcome.fallback is not None:
            timing["fallback"] = outcome.fallback
        ended = StepResult(
            id=step.id,
            tool=step.tool.name,
            status=outcome.status,
            wave=self._plan.waves[index],
            needs=tuple([self._ids[need] for need in step.needs]),
            after=tuple([self._ids[earlier] for earlier in step.after]),
            result_json=None if result is None else result.text,
            error=outcome.error,
            kind=outcome.kind,
            cause=None if outcome.cause is None else self._plan.steps[outcome.cause].id,
            items=outcome.items,
            items_failed=outcome.items_failed,
            warnings=outcome.warnings,
            **timing,
        )
        self.results[index] = ended
        if self._on_event is not None:
            tell(self._on_event, StepEnded(ended))

    def _timing(self, step: CompiledStep, numbers: list[int]) -> dict[str, Any]:
        """The fields of a step's result that come from the gate's records."""
        items = step.for_each is not None
        first = self._gate.records[numbers[0]]
        if len(numbers) == 1 and first.fallback_call is None:
            return {
                "arguments": [_given(first)] if items else _given(first),
                "started_seconds": first.started_seconds,
                "duration_seconds": first.duration_seconds,
                "attempts": first.attempts,
                "cached": first.cached,
                "calls": (first.id,),
            }
        records = [self._gate.records[number] for number in numbers]
        everything = [each for number in numbers for each in self._gate.chain(number)]
        started = min(each.started_seconds for each in everything)
        instead = [each.tool for each in everything[1:] if each.status == "succeeded"]
        return {
            "arguments": [_given(record) for record in records if record.id - 1 not in self._second]
            if items
            else _given(first),
            "started_seconds": started,
            "duration_seconds": max(each.started_seconds + each.duration_seconds for each in everything) - started,
            "attempts": sum(each.attempts for each in everything),
            "cached": all(record.cached for record in records),
            "fallback": instead[-1] if instead and not items and step.threshold is None else None,
            "calls": tuple(each.id for each in everything),
        }


def _given(record: CallRecord) -> Any:
    return record.arguments if record.changed_arguments is None else record.changed_arguments
