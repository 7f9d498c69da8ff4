"""The plan engine: events in, actions out. No clock, no I/O, no recursion; the driver makes the calls.

    Begin                                    -> Call ...
    Arrived(step)                            -> Call ..., for a plan that is still being written
    Returned(step, item, again, text)        -> Call ..., StepEnded ..., Finished
    Failed(step, item, again, error, kind)   -> Call ..., StepEnded ..., Finished
    Stop(reason)                             -> StepEnded ..., Finished

`Paused` may come with any of them: there is more to begin, send `GoOn` when others have had their turn. So may
`Exceeded`: the driver has to cancel what is under way, and send `Stop`.

1. A step starts the moment its own inputs are there: dataflow, not waves.
2. Failure goes forward: what needs a failed step is skipped at once, with the root cause; everything else runs on.
3. Every step ends exactly once, and `Finished` comes exactly once, when all have.
4. A result is kept as text, and decoded when a step refers to it.
5. The items of a `for_each` are called in order, at most `window` at a time: arguments are resolved when they are
   needed.

`again` tells the call of a fallback on low confidence from the first one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from callgate.tools.turns import Work, at_once

from .actions import (
    Action,
    Arrived,
    Begin,
    Event,
    Exceeded,
    Failed,
    Finished,
    GoOn,
    Paused,
    Returned,
    StepEnded,
    Stop,
)  # fmt: skip
from .inputs import Inputs, Unresolvable
from .progress import UNKNOWN, Progress
from .steps import CompiledStep
from .under_way import CallsUnderWay, Items

__all__ = ["Engine"]

_TURN = 20_000
"""Work of one `handle` before the driver gets a turn: one for each follower that learns of an end, `_STEP` for each
step that begins or ends."""
_STEP = 10
_WORK_A_TURN = 50_000
"""Steps of expressions and mapped references after which the driver gets a turn, too."""


class Engine:
    """One plan under way.

    Args:
        steps: what to run; more may arrive.
        max_bytes: of the arguments of one call, as JSON.
        max_memory_bytes: of the results that are held, about.
        window: calls of one `for_each` under way at the same time.
        max_open: calls under way at the same time, all together; steps that are ready wait beyond that.
    """

    def __init__(
        self,
        steps: Iterable[CompiledStep],
        *,
        max_bytes: int,
        max_memory_bytes: int,
        window: int,
        max_open: int = 1024,
    ) -> None:
        self._progress = Progress()
        self.steps = self._progress.steps
        self.outcomes = self._progress.outcomes
        self.inputs = Inputs(max_bytes, max_memory_bytes)
        self._max_memory_bytes = max_memory_bytes
        self._window = window
        self._calls = CallsUnderWay(self.inputs, self.outcomes, max_open)
        self._hungry: deque[int] = deque()
        """Steps with items that wait until more calls may be under way."""
        self._items: dict[int, Items] = {}
        self._stopped: str | None = None
        self._cause: int | None = None
        self._exceeded = False
        self._turn = _TURN
        self._had_a_turn()
        self._finished = False
        at_once(self.taking(list(steps)))

    def held(self) -> tuple[list[Any], ...]:
        """The lists that grow with the plan; a driver that is done may clear them one by one."""
        return self.inputs.results, self.outcomes, self._progress.followers

    def taking(self, steps: Sequence[CompiledStep]) -> Work[None]:
        """Take the steps of a plan before it begins; many steps in turns."""
        yield from self._progress.taking(steps)
        yield from self.inputs.taking(steps)

    def handle(self, event: Event) -> list[Action]:
        """Return what to do next. Events about steps that have ended change nothing."""
        actions: list[Action] = []
        self._turn = _TURN
        match event:
            case Returned() | Failed():
                self._calls.close(event)
                if self.outcomes[event.step].status == "pending":
                    self._came_back(event, actions)
            case Begin():
                self._had_a_turn()
                self._progress.begin()
            case Arrived():
                at_once(self.inputs.taking([event.step]))
                self._progress.arrive(event.step, held=event.held)
            case Stop():
                self._stop(event)
            case GoOn():
                self._had_a_turn()
        self._go_on(actions)
        if self.inputs.held_bytes > self._max_memory_bytes and not self._exceeded:
            self._exceeded = True
            actions.append(Exceeded(self.inputs.held_bytes))
        return actions

    # turns

    def _go_on(self, actions: list[Action]) -> None:
        """Spread the news of ends, then begin what is ready, until there is nothing to do or the turn is over."""
        progress = self._progress
        while self._turn > 0:
            if progress.news:
                self._turn -= 1
                progress.tell(*progress.news.popleft())
            elif progress.ended:
                self._tell_driver(progress.ended.popleft(), actions)
            elif not self._calls.has_room or not (progress.ready or self._hungry):
                break
            elif self._worked_enough:
                actions.append(Paused())
                break
            elif progress.ready:
                self._begin(progress.ready.popleft(), actions)
            else:
                index = self._hungry.popleft()
                if index in self._items:
                    self._issue(self.steps[index], self._items[index], actions)
        else:
            actions.append(Paused())
            return
        if not progress.unended and not self._finished:
            self._finished = True
            actions.append(Finished())

    def _had_a_turn(self) -> None:
        self._work_before = self.inputs.budget.steps_left

    @property
    def _worked_enough(self) -> bool:
        """Whether expressions took so long that others need a turn."""
        return self._work_before - self.inputs.budget.steps_left > _WORK_A_TURN

    def _tell_driver(self, index: int, actions: list[Action]) -> None:
        self._turn -= _STEP
        actions.append(StepEnded(index))
        if self.steps[index] is not UNKNOWN:
            self.inputs.release(self.steps[index])
        self._progress.spread(index)

    # one step

    def _begin(self, index: int, actions: list[Action]) -> None:
        self._turn -= _STEP
        step = self._progress.begin_step(index)
        if step is None:
            return
        try:
            if step.when is not None:
                self.inputs.begin()
                holds = bool(step.when.resolve(self.inputs))
                self._calls.note(index)
                if not holds:
                    self._progress.skip(index, "Skipped because its condition is false", None)
                    return
            if step.for_each is not None:
                self._begin_items(step, actions)
            else:
                actions.append(self._calls.make(step, None))
        except (Unresolvable, RecursionError) as error:
            message = str(error) if isinstance(error, Unresolvable) else "a value is nested too deeply"
            self._end_as(Failed(index, None, False, message, "Unresolvable"))

    def _came_back(self, event: Returned | Failed, actions: list[Action]) -> None:
        step = self.steps[event.step]
        if event.again:
            event = self._calls.second_opinion(step, event)
        elif step.threshold is not None and isinstance(event, Returned) and self._stopped is None:
            call = self._calls.ask_fallback(step, event, self._items.get(event.step))
            if call is not None:
                actions.append(call)
                return
        if event.item is not None:
            items = self._items[event.step]
            self.inputs.held_bytes += items.came_back(event)
            self._issue(step, items, actions)
        else:
            self._end_as(event)

    def _end_as(self, event: Returned | Failed) -> None:
        index, outcome = event.step, self.outcomes[event.step]
        if isinstance(event, Returned):
            self.inputs.keep(index, event.text, event.value)
            self._progress.end(index, "succeeded")
            return
        outcome.error, outcome.kind = event.message, event.kind
        self.inputs.held_bytes += len(event.message)
        self._progress.end(index, "unknown_outcome" if event.unknown else "failed")
        if self.steps[index].model.critical and self._stopped is None:
            self._stopped = f"Skipped because the critical step {self.steps[index].id!r} failed"
            self._cause = index
            self._progress.skip_the_rest(self._stopped, index)
            for items in self._items.values():
                items.stopped = True

    def _stop(self, event: Stop) -> None:
        """End every step that has not ended."""
        for index, outcome in self._progress.pending():
            if (items := self._items.get(index)) is not None:
                outcome.items_failed = items.missing
            if index in event.begun or index in event.unknown:
                outcome.error, outcome.kind = f"interrupted: {event.reason}", "Interrupted"
                self._progress.end(index, "unknown_outcome" if index in event.unknown else "failed")
            else:
                self._progress.skip(index, f"Skipped because {event.reason}", None)
        self._stopped = self._stopped or event.reason
        self._items.clear()
        self._hungry.clear()
        self._progress.ready.clear()

    # the items of a `for_each`

    def _begin_items(self, step: CompiledStep, actions: list[Action]) -> None:
        try:
            items = Items.of(step, self.inputs)
        finally:
            self._calls.note(step.index)
        self._items[step.index] = items
        self.outcomes[step.index].items = len(items.values)
        self._issue(step, items, actions)

    def _issue(self, step: CompiledStep, items: Items, actions: list[Action]) -> None:
        """Call further items, and end the step when all have ended."""
        index, count = step.index, len(items.values)
        while items.next < count and items.running < self._window and not items.stopped:
            if not self._calls.has_room or self._turn <= 0 or self._worked_enough:
                self._hungry.append(index)
                return
            self._turn -= _STEP
            item = items.next
            items.next += 1
            try:
                actions.append(self._calls.make(step, item, items))
                items.running += 1
            except Unresolvable as error:
                items.errors[item] = (str(error), "Unresolvable")
        if items.running:
            return
        del self._items[index]
        self.inputs.held_bytes -= items.held_bytes
        self.outcomes[index].items_failed = items.missing
        end = items.end(step, self.outcomes[index], self._stopped)
        if end is None:
            self._progress.skip(index, str(self._stopped), self._cause)
        else:
            self._end_as(end)
