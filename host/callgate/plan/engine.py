"""The plan engine: events in, actions out. No clock, no I/O, no recursion; whoever drives it makes the calls.

    Begin                                    -> Call ...
    Arrived(step)                            -> Call ..., for a plan that is still being written
    Returned(step, item, again, text)        -> Call ..., StepEnded ..., Finished
    Failed(step, item, again, error, kind)   -> the same
    Stop(reason)                             -> StepEnded ..., Finished

`Paused` may come with any of them: there is more to begin, send `GoOn` when others have had their turn. So may
`Exceeded`: the driver has to give up what is under way, and send `Stop`.

1. A step starts the moment its own inputs are there: dataflow, not waves.
2. Failure goes forward: what needs a failed step is skipped at once, with the root cause; everything else runs on.
3. Every step ends exactly once, and `Finished` comes exactly once, when all have.
4. A result is kept as the text it came as, and read when somebody refers to it.
5. The items of a `for_each` are called in order, at most `window` of them under way: arguments are put together when
   they are needed.

`again` tells the call of a fallback on low confidence from the first one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from callgate.tools.faults import described
from callgate.tools.statistics import confidence_in
from callgate.tools.turns import Work, at_once

from .actions import (
    Action,
    Arrived,
    Begin,
    Call,
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
from .inputs import EXPRESSION_STEPS, Arguments, Inputs
from .outcomes import Items, Outcome, StepStatus, json_inside
from .sizes import memory_of
from .steps import CompiledStep
from .values import Unresolvable, Values

__all__ = ["UNKNOWN", "Engine"]

UNKNOWN: Any = None
"""Stands for a step that arrived and cannot be run; it has ended before it began."""

_MAX_WARNINGS = 20
_MESSAGE = 1000
"""Characters of a failed item's message that are kept."""
_TURN = 20_000
"""What one `handle` may do before the driver gets a turn: followers told, or ten for a step begun or ended."""
_STEP = 10
_MOST_OPEN_BYTES = 16 * 1024 * 1024
"""Of large arguments of calls under way, as JSON; beyond that, steps that are ready wait. Each takes some times that
in memory, since a tool gets a copy of its own."""
_EDGES_A_TURN = 10_000
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
        expression_steps: what all expressions together may spend.
    """

    def __init__(
        self,
        steps: Iterable[CompiledStep],
        *,
        max_bytes: int,
        max_memory_bytes: int,
        window: int,
        max_open: int = 1024,
        expression_steps: int = EXPRESSION_STEPS,
    ) -> None:
        self.steps: list[CompiledStep] = []
        self.outcomes: list[Outcome] = []
        self.inputs = Inputs(max_bytes, max_memory_bytes, expression_steps)
        self._max_memory_bytes = max_memory_bytes
        self._window = window
        self._max_open = max_open
        self._open: dict[tuple[int, int | None, bool], int] = {}
        """Calls under way, and what was made for each."""
        self._open_bytes = 0
        self._hungry: deque[int] = deque()
        """Steps with items that wait until more calls may be under way."""
        self._left: list[int] = []
        self._followers: list[list[int] | None] = []
        self._items: dict[int, Items] = {}
        self._first: dict[tuple[int, int | None], tuple[str, float]] = {}
        """Results that were not confident enough, and how confident; the fallback is asked."""
        self._unended = 0
        self._ready: deque[int] = deque()
        self._ending: deque[int] = deque()
        """Steps whose end nobody was told of yet."""
        self._ended = 0
        self._to_tell: Iterator[int] = iter(())
        """Followers of the step that ended last, as far as they do not know."""
        self._stopped: str | None = None
        self._cause: int | None = None
        self._exceeded = False
        self._turn = _TURN
        self._work_before = self.inputs.work_left
        self._finished = False
        at_once(self.taking(list(steps)))

    def taking(self, steps: Sequence[CompiledStep]) -> Work[None]:
        """Take the steps of a plan before it begins; in turns where there are many."""
        seen = 0
        for step in steps:
            self._make_room(step)
            seen += 1
            if seen % _EDGES_A_TURN == 0:
                yield
        for step in steps:
            self._join(step)
            seen += 1 + len(step.needs) + len(step.after)
            if seen > _EDGES_A_TURN:
                seen = 0
                yield

    def handle(self, event: Event) -> list[Action]:
        """What to do next. Events about steps that have ended are ignored."""
        actions: list[Action] = []
        self._turn = _TURN
        if isinstance(event, Begin | GoOn):  # only then others had a turn for sure
            self._work_before = self.inputs.work_left
        match event:
            case Returned() | Failed():
                self._open_bytes -= self._open.pop((event.step, event.item, event.again), 0)
                if self.outcomes[event.step].status == "pending":
                    self._came_back(event, actions)
            case Begin():
                self._ready.extend(index for index, left in enumerate(self._left) if not left)
            case Arrived():
                self._arrived(event)
            case Stop():
                self._stop(event)
            case GoOn():
                pass
        self._go_on(actions)
        if self.inputs.held_bytes > self._max_memory_bytes and not self._exceeded:
            self._exceeded = True
            actions.append(Exceeded(self.inputs.held_bytes))
        return actions

    @property
    def _turn_is_over(self) -> bool:
        """Whether the driver has to give others a turn, which it tells by `GoOn`, before anything more is begun."""
        return self._turn <= 0 or self._work_before - self.inputs.work_left > _WORK_A_TURN

    @property
    def _has_room(self) -> bool:
        """Whether one more call may begin; always, when there is none."""
        return not self._open or (len(self._open) < self._max_open and self._open_bytes < _MOST_OPEN_BYTES)

    # the graph

    def _make_room(self, step: CompiledStep) -> None:
        self.steps.append(step)
        self.outcomes.append(Outcome())
        self.inputs.add()
        self._left.append(0)
        self._followers.append(None)
        self._unended += 1

    def _join(self, step: CompiledStep) -> None:
        self.inputs.expect(step)
        for earlier in (*step.needs, *step.after):
            followers = self._followers[earlier]
            if followers is None:
                self._followers[earlier] = [step.index]
            else:
                followers.append(step.index)
        self._left[step.index] = len(step.needs) + len(step.after)

    def _arrived(self, event: Arrived) -> None:
        step = event.step
        if step is None:
            self._make_room(UNKNOWN)
            self.outcomes[-1].status = "skipped"
            self._unended -= 1
            return
        self._make_room(step)
        self._join(step)
        if event.held:
            self._left[step.index] += 1
        elif not self._left[step.index]:
            self._ready.append(step.index)
        for earlier in (*step.needs, *step.after):
            if self.outcomes[earlier].status != "pending":
                self._tell_follower(step.index, earlier)

    # what comes back

    def _came_back(self, event: Returned | Failed, actions: list[Action]) -> None:
        step, item = self.steps[event.step], event.item
        if event.again:
            self._second_opinion(step, event, actions)
        elif isinstance(event, Returned):
            if step.threshold is None or not self._asked(step, event, actions):
                self._counts(step, item, event.text, actions)
        elif item is None:
            self._fail(event.step, event.message, event.kind, unknown=event.unknown)
        else:
            items = self._items[event.step]
            items.errors[item] = (event.message[:_MESSAGE], event.kind)
            items.unknown = items.unknown or event.unknown
            self._item_ended(step, actions)

    def _asked(self, step: CompiledStep, event: Returned, actions: list[Action]) -> bool:
        """Whether the fallback is asked before this result counts."""
        confidence = confidence_in(event.text)
        if self._stopped is not None or step.threshold is None or confidence is None or confidence >= step.threshold:
            return False
        arguments = self._resolved(step, event.item)
        if isinstance(arguments, Unresolvable):  # it was put together once
            return False
        self._first[event.step, event.item] = event.text, confidence
        actions.append(self._call(step, event.item, arguments, again=True))
        return True

    def _second_opinion(self, step: CompiledStep, event: Returned | Failed, actions: list[Action]) -> None:
        """The fallback has answered, or failed: one of the two results counts."""
        assert step.fallback is not None
        name = step.fallback.name
        text, confidence = self._first.pop((step.index, event.item))
        second = confidence_in(event.text) if isinstance(event, Returned) else None
        if isinstance(event, Failed):
            warning = f"confidence {confidence:g} is low, and the fallback failed: {event.message}"
        elif second is not None and second < confidence:
            less = f"{second:g} than {confidence:g}"
            warning = f"the fallback {name!r} was less confident ({less}), and not taken"
        else:
            low = f"confidence {confidence:g} is below {step.threshold:g}"
            warning = f"{low}: the result is that of the fallback {name!r}"
            text, self.outcomes[step.index].fallback = event.text, name
        self._warn(step.index, warning)
        self._counts(step, event.item, text, actions)

    def _counts(self, step: CompiledStep, item: int | None, text: str, actions: list[Action]) -> None:
        """A result is final."""
        if item is None:
            self._succeed(step.index, text)
            return
        self._items[step.index].results[item] = text
        self.inputs.held_bytes += len(text)
        self._item_ended(step, actions)

    def _item_ended(self, step: CompiledStep, actions: list[Action]) -> None:
        items = self._items[step.index]
        items.running -= 1
        self._issue(step, items, actions)

    # how a step ends

    def _succeed(self, index: int, text: str) -> None:
        self.inputs.keep(index, text)
        self._end(index, "succeeded")

    def _fail(self, index: int, message: str, kind: str, *, unknown: bool = False) -> None:
        outcome = self.outcomes[index]
        outcome.error, outcome.kind = message, kind
        self.inputs.held_bytes += len(message)
        self._end(index, "unknown_outcome" if unknown else "failed")
        if self.steps[index].model.critical and self._stopped is None:
            self._stopped = f"Skipped because the critical step {self.steps[index].id!r} failed"
            self._cause = index
            self._skip_the_rest()

    def _skip(self, index: int, reason: str, cause: int | None) -> None:
        outcome = self.outcomes[index]
        outcome.error, outcome.cause = reason, cause
        self._end(index, "skipped")

    def _end(self, index: int, status: StepStatus) -> None:
        self.outcomes[index].status = status
        self._unended -= 1
        self._ending.append(index)

    def _stop(self, event: Stop) -> None:
        """The run is over, whatever was under way."""
        for index, outcome in enumerate(self.outcomes):
            if outcome.status != "pending":
                continue
            if (items := self._items.get(index)) is not None:
                outcome.items_failed = sum(text is None for text in items.results)
            if index in event.begun or index in event.unknown:
                outcome.error, outcome.kind = f"interrupted: {event.reason}", "Interrupted"
                self._end(index, "unknown_outcome" if index in event.unknown else "failed")
            else:
                self._skip(index, f"Skipped because {event.reason}", None)
        self._stopped = self._stopped or event.reason
        self._items.clear()
        self._hungry.clear()
        self._ready.clear()

    def _skip_the_rest(self) -> None:
        """Nothing new is begun; what is under way may end."""
        assert self._stopped is not None
        for index, outcome in enumerate(self.outcomes):
            if outcome.status == "pending" and self._left[index] >= 0:
                self._skip(index, self._stopped, self._cause)
        for items in self._items.values():
            items.stopped = True

    # what follows

    def _go_on(self, actions: list[Action]) -> None:
        while True:
            if not self._tell_of_ends(actions):
                actions.append(Paused())
                return
            if not self._has_room:
                break
            if self._turn_is_over:
                if self._ready or self._hungry:
                    actions.append(Paused())
                break
            if self._ready:
                index = self._ready.popleft()
                self._turn -= _STEP
                if self.outcomes[index].status == "pending":
                    self._begin(index, actions)
            elif self._hungry:
                index = self._hungry.popleft()
                if index in self._items:
                    self._issue(self.steps[index], self._items[index], actions)
            elif not self._ending:
                break
        if not self._unended and not self._finished:
            self._finished = True
            actions.append(Finished())

    def _tell_of_ends(self, actions: list[Action]) -> bool:
        """Tell of the steps that have ended; whether all was told before the turn was over."""
        while True:
            for follower in self._to_tell:
                self._tell_follower(follower, self._ended)
                self._turn -= 1
                if self._turn <= 0:
                    return False
            if not self._ending:
                return True
            if self._turn <= 0:
                return False
            self._ended = index = self._ending.popleft()
            actions.append(StepEnded(index))
            if self.steps[index] is not UNKNOWN:
                self.inputs.release(self.steps[index])
            self._turn -= _STEP
            if (followers := self._followers[index]) is not None:
                self._to_tell = iter(followers)

    def _tell_follower(self, follower: int, ended: int) -> None:
        outcome = self.outcomes[follower]
        if outcome.status != "pending":
            return
        status = self.outcomes[ended].status
        if status != "succeeded" and ended in self.steps[follower].needs:
            self._skip(follower, *self._because(ended))
            return
        self._left[follower] -= 1
        if not self._left[follower]:
            self._ready.append(follower)

    def _because(self, ended: int) -> tuple[str, int | None]:
        """Why a step that needs one that did not succeed is skipped, and the step that began it."""
        if self.steps[ended] is UNKNOWN:
            return "Skipped because it needs a step that is not known", None
        outcome, name = self.outcomes[ended], self.steps[ended].id
        if outcome.status == "failed":
            return f"Skipped because dependency {name!r} failed", ended
        if outcome.status == "unknown_outcome":
            return f"Skipped because the outcome of dependency {name!r} is unknown", ended
        if outcome.cause is None:
            return f"Skipped because dependency {name!r} was skipped: {_plain(outcome.error)}", ended
        what = {"failed": "failed", "unknown_outcome": "has an unknown outcome"}.get(
            self.outcomes[outcome.cause].status, "was skipped: its condition is false"
        )
        root = self.steps[outcome.cause].id
        return f"Skipped because dependency {name!r} was skipped: {root!r} {what}", outcome.cause

    def _begin(self, index: int, actions: list[Action]) -> None:
        step = self.steps[index]
        self._left[index] = -1  # under way
        if step.when is not None or step.for_each is not None:
            try:
                values = self.inputs.values()
                held = step.when is None or bool(step.when.resolve(values))
                self._note(index, values)
                if not held:
                    self._skip(index, "Skipped because its condition is false", None)
                    return
                if step.for_each is not None:
                    self._begin_items(step, values, actions)
                    return
            except (Unresolvable, RecursionError) as error:
                self._fail(index, _unresolvable(error), "Unresolvable")
                return
        arguments = self._resolved(step, None)
        if isinstance(arguments, Unresolvable):
            self._fail(index, str(arguments), "Unresolvable")
        else:
            actions.append(self._call(step, None, arguments))

    def _begin_items(self, step: CompiledStep, values: Values, actions: list[Action]) -> None:
        assert step.for_each is not None
        written = step.for_each.resolve(values)
        self._note(step.index, values)
        read_bytes = memory_of(written) if isinstance(written, str) else 0
        self.inputs.reserve(read_bytes)
        given = json_inside(written)
        if not isinstance(given, list):
            raise Unresolvable(f"for_each needs an array, got {described(given)}")
        if len(given) > step.model.max_items:
            raise Unresolvable(
                f"for_each has {len(given)} items, more than max_items, which is {step.model.max_items}; "
                "map over fewer of them, or set max_items on the step"
            )
        self.outcomes[step.index].items = len(given)
        items = self._items[step.index] = Items(given, values.size)
        items.read_bytes = read_bytes
        self._issue(step, items, actions)

    def _issue(self, step: CompiledStep, items: Items, actions: list[Action]) -> None:
        """Call further items, and end the step when all have ended."""
        count = len(items.values)
        while items.next < count and items.running < self._window and not items.stopped:
            if not self._has_room or self._turn_is_over:
                self._hungry.append(step.index)
                return
            self._turn -= _STEP
            item = items.next
            items.next += 1
            arguments = self._resolved(step, item)
            if isinstance(arguments, Unresolvable):
                items.errors[item] = (str(arguments), "Unresolvable")
                continue
            items.running += 1
            actions.append(self._call(step, item, arguments))
        if not items.running:
            self._end_items(step, items)

    def _end_items(self, step: CompiledStep, items: Items) -> None:
        del self._items[step.index]
        self.inputs.held_bytes -= items.read_bytes + sum(len(text) for text in items.results if text is not None)
        outcome = self.outcomes[step.index]
        count, failed = len(items.values), len(items.errors)
        outcome.items_failed = sum(text is None for text in items.results)
        told = "; ".join(f"item {item}: {message}" for item, (message, _) in sorted(items.errors.items())[:5])
        more = f"; and {failed - 5} more" if failed > 5 else ""
        if items.stopped and not items.next and count:
            self._skip(step.index, str(self._stopped), self._cause)
        elif items.stopped and items.next < count:
            reason = f"only {items.next} of {count} items were begun: {_plain(self._stopped)}"
            self._fail(step.index, reason, "Stopped", unknown=items.unknown)
        elif failed and (step.model.on_item_error == "fail" or failed == count or items.unknown):
            kind = items.errors[min(items.errors)][1]
            self._fail(step.index, f"{failed} of {count} items failed: {told}{more}", kind, unknown=items.unknown)
        else:
            if failed:
                self._warn(step.index, f"{failed} of {count} items failed and are null: {told}{more}")
            self._succeed(step.index, f"[{','.join('null' if text is None else text for text in items.results)}]")

    # calls

    def _call(self, step: CompiledStep, item: int | None, arguments: Arguments, *, again: bool = False) -> Call:
        self._open[step.index, item, again] = arguments.made_bytes
        self._open_bytes += arguments.made_bytes
        tool, timeout, retry, instead = step.tool, step.model.timeout_seconds, step.retry, step.fallback
        if again and instead is not None:
            tool, retry = instead, None
        on_error = instead.name if instead is not None and step.threshold is None else None
        if again:
            on_error = tool.name  # its own fallback might be the tool that was called first
        return Call(step.index, item, again, tool.name, arguments.value, timeout, retry, on_error)

    def _resolved(self, step: CompiledStep, item: int | None) -> Arguments | Unresolvable:
        """The arguments of a call, or why they cannot be put together."""
        try:
            values = self.inputs.values()
            if item is not None:
                items = self._items[step.index]
                values.item, values.index, values.item_bytes = items.values[item], item, items.bytes_each
            arguments = self.inputs.arguments(step, values)
        except Unresolvable as error:
            return error
        if values.warnings:
            self._note(step.index, values, "" if item is None else f"item {item}: ")
        return arguments

    def _note(self, index: int, values: Values, prefix: str = "") -> None:
        for warning in values.warnings:
            self._warn(index, prefix + warning)
        values.warnings.clear()

    def _warn(self, index: int, warning: str) -> None:
        outcome = self.outcomes[index]
        if len(outcome.warnings) < _MAX_WARNINGS and warning not in outcome.warnings:
            outcome.warnings += (warning,)


def _plain(reason: str | None) -> str:
    return (reason or "").removeprefix("Skipped because ")


def _unresolvable(error: BaseException) -> str:
    return str(error) if isinstance(error, Unresolvable) else "a value is nested too deeply"
