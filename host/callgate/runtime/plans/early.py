"""Makes calls while a model still writes the plan; the complete plan then takes their outcomes.

1. Only read-only tools are called early.
2. The complete plan decides: its engine requests each call, and gets the outcome of an early call of the same step with
   the same arguments. The step is the same if its text is, and that of all steps that it waits for: one of these may
   have an effect now, and what was read before it is old.
3. An early call of another step is cancelled, so that it holds no place. It stays in the records, and does not count
   for `max_tool_calls`.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel

from callgate.errors import LimitReached, ToolError
from callgate.plan.actions import Action, Arrived, Call, Exceeded, Failed, Returned, Stop
from callgate.plan.compile import CompiledPlan
from callgate.plan.engine import Engine
from callgate.plan.progress import UNKNOWN
from callgate.runtime.driver import Driver
from callgate.runtime.gate import RunGate
from callgate.runtime.gate.deadline import Deadline
from callgate.runtime.gate.events import StepStarted, tell
from callgate.runtime.gate.journal import KeptCall
from callgate.runtime.gate.records import CallUnderWay
from callgate.runtime.gate.watching import CallPlace, place
from callgate.tools.encoding import NotJson, compact_json

if TYPE_CHECKING:
    from .run import PlanRun

__all__ = ["EarlyCall", "EarlyCalls", "make_call"]

_A_TURN = 500
"""Steps that are compared before other tasks get a turn."""


async def make_call(
    gate: RunGate, call: Call, step: str, deadline: Deadline | None = None, *, early: bool = False
) -> Returned | Failed:
    """Make a call that an engine requests, and return its outcome. Raises `LimitReached`: see `RunGate.call`."""
    first = len(gate.records)  # the gate records a call before it waits for anything
    # a plan's values were read from JSON text: the plan's own, or that of a result
    under_way = CallUnderWay(
        call.tool, call.arguments, call.timeout_seconds, call.retry, call.fallback, are_json=True, deadline=deadline,
        early=early,
    )  # fmt: skip
    if gate.journal is not None:
        under_way.kept = KeptCall(gate.journal, place=f"{step}\n{call.item}\n{call.again}")
    if gate.watches is not None:
        place.set(CallPlace(step, call.item, early))
    try:
        text = await gate.take(under_way)
    except ToolError as error:
        unknown = any(each.status == "unknown_outcome" for each in gate.chain(first))
        return Failed(*call[:3], error.message, type(error).__name__, unknown)
    return Returned(*call[:3], text, under_way.value)


@dataclass(slots=True)
class EarlyCall:
    """One call made early."""

    call: Call
    record: int = -1
    """Index of its record in the gate's records; -1 before it began."""
    outcome: Returned | Failed | None = None
    """None until the call is done, and if a limit ended it."""
    done: anyio.Event = field(default_factory=anyio.Event)


class EarlyCalls(Driver[Any, EarlyCall]):
    """Runs the first calls of a plan that is still arriving.

    Args:
        tasks: the task group of the calls; cancelling it cancels them.
        run: has the gate, the listener and the limits.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup, run: PlanRun) -> None:
        limits = run.limits
        super().__init__(limits.max_concurrent_calls, tasks)
        self.started: set[int] = set()
        """Steps whose `StepStarted` was sent."""
        self._on_event = run.on_event
        self._gate = run.gate
        self._engine = Engine(
            (),
            max_bytes=limits.max_message_bytes,
            max_memory_bytes=limits.memory_bytes,
            window=limits.max_concurrent_calls,
        )
        self._made: dict[tuple[int, int | None, bool], EarlyCall] = {}
        self._begun: list[EarlyCall] = []
        self._over = False

    def arrive(self, step: Arrived) -> None:
        """Take a step, and begin it if its inputs are known."""
        if not self._over:
            self._perform(self._engine.handle(step))

    def complete(self) -> None:
        """Begin no further calls, since the plan is complete. Calls under way go on."""
        self._over = True
        self._engine.handle(Stop("the plan is complete"))

    async def decide(self, plan: CompiledPlan) -> None:
        """Take the complete plan. Calls of a step that it has otherwise, or whose earlier steps it has otherwise, are
        not taken: those under way are cancelled, since they hold places, and none of them counts."""
        stays: set[int] = set()
        for index, (step, own) in enumerate(zip(self._engine.steps, plan.steps, strict=False)):
            if step is not UNKNOWN and step.model == own.model and stays.issuperset(step.needs + step.after):
                stays.add(index)
            if index % _A_TURN == 0:
                await anyio.lowlevel.checkpoint()
        self.started &= stays
        self._made = {key: early for key, early in self._made.items() if key[0] in stays}
        for early in self._begun:
            if early.call.step not in stays:
                self._gate.leave_out(len(self._gate.chain(early.record)))
                if not early.done.is_set():
                    self.cancel(early.call[:3])

    def take(self, call: Call) -> EarlyCall | None:
        """The early call that equals `call`, if it has begun."""
        made = self._made.pop(call[:3], None)
        if made is None or made.record < 0:
            return None
        with contextlib.suppress(NotJson):
            if compact_json(made.call.arguments) == compact_json(call.arguments):
                return made
        self.cancel(call[:3])
        return None

    def step_ended(self, index: int) -> None:
        """Cancel the calls of a step of which the complete plan requests no more."""
        self.cancel_begun(lambda early: early.call.step == index)

    async def cancel_all(self) -> None:
        """Cancel the calls under way, and wait for their end."""
        self._over = True
        for early in self._begun:
            if not early.done.is_set():
                self.cancel(early.call[:3])
        for early in self._begun:
            if not early.done.is_set():
                await early.done.wait()

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Call):
                early = self._made[action[:3]] = EarlyCall(action)
                self.submit(action[:3], early)
            elif isinstance(action, Exceeded):
                self._over = True  # the complete plan finds out for itself

    async def _serve(self, early: EarlyCall) -> None:
        await anyio.lowlevel.checkpoint()  # more of the plan's text may arrive
        if self._over:
            return
        call = early.call
        early.record = len(self._gate.records)
        self._begun.append(early)
        step = self._engine.steps[call.step].id
        if self._on_event is not None and call.step not in self.started:
            self.started.add(call.step)
            tell(self._on_event, StepStarted(step, call.tool))
        try:
            outcome = await make_call(self._gate, call, step, early=True)
            # nobody counts the memory of outcomes that wait for the complete plan
            early.outcome = outcome._replace(value=None) if isinstance(outcome, Returned) else outcome
        except LimitReached:  # the complete plan finds out for itself
            self._over = True
            if early.record >= len(self._gate.records):  # there was no room for the call itself
                early.record = -1
            return
        finally:
            early.done.set()
        if not self._over:
            self._perform(self._engine.handle(early.outcome))
