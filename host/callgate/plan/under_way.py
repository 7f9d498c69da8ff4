"""The calls that an engine asks for: arguments, the items of a `for_each`, room for more, second opinions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callgate.tools.faults import described
from callgate.tools.statistics import confidence_in

from .actions import Call, Failed, Returned
from .inputs import Inputs, Unresolvable
from .outcomes import Outcome, json_inside, plain
from .sizes import memory_of
from .steps import CompiledStep

__all__ = ["CallsUnderWay", "Items"]

_MESSAGE = 1000
"""Characters of a failed item's message that are kept."""

_MOST_OPEN_BYTES = 16 * 1024 * 1024
"""Of large arguments of calls under way, as JSON; beyond that, steps that are ready wait. Each takes some times that
in memory, since a tool gets a copy of its own."""


class Items:
    """The items of one `for_each`, under way.

    Args:
        values: the items.
        bytes_each: what an item's arguments may have as JSON, at most.
        read_bytes: memory that the items take, where a text was read to get them.
    """

    def __init__(self, values: Sequence[Any], bytes_each: int, read_bytes: int) -> None:
        self.values = values
        self.bytes_each = bytes_each
        self.errors: dict[int, tuple[str, str]] = {}
        """Message and error kind of the items that failed."""
        self.next = 0
        """The first item that is not begun."""
        self.running = 0
        self.stopped = False
        """Whether no further item may begin."""
        self._results: list[str | None] = [None] * len(values)
        self._read_bytes = read_bytes
        self._unknown = False

    @classmethod
    def of(cls, step: CompiledStep, inputs: Inputs) -> Items:
        """The items of a step that begins. Raises `Unresolvable`."""
        assert step.for_each is not None
        inputs.begin()
        written = step.for_each.resolve(inputs)
        read_bytes = memory_of(written) if isinstance(written, str) else 0
        inputs.reserve(read_bytes)
        given = json_inside(written)
        if not isinstance(given, list):
            raise Unresolvable(f"for_each needs an array, got {described(given)}")
        if len(given) > step.model.max_items:
            raise Unresolvable(
                f"for_each has {len(given)} items, more than max_items, which is {step.model.max_items}; "
                "map over fewer of them, or set max_items on the step"
            )
        return cls(given, inputs.size, read_bytes)

    def came_back(self, event: Returned | Failed) -> int:
        """Take the end of one item's call. Returns the bytes that are held for the item from now on."""
        assert event.item is not None
        self.running -= 1
        if isinstance(event, Failed):
            self.errors[event.item] = (event.message[:_MESSAGE], event.kind)
            self._unknown = self._unknown or event.unknown
            return 0
        self._results[event.item] = event.text
        return len(event.text)

    @property
    def held_bytes(self) -> int:
        """Memory of the items and their results, about."""
        return self._read_bytes + sum(len(text) for text in self._results if text is not None)

    @property
    def missing(self) -> int:
        """How many items have no result."""
        return sum(text is None for text in self._results)

    def end(self, step: CompiledStep, outcome: Outcome, stopped: str | None) -> Returned | Failed | None:
        """What the step comes to once no item is running; None if no item was begun before the plan stopped.

        Args:
            step: the step.
            outcome: of the step; a warning may be added.
            stopped: why the plan begins nothing more, if so.
        """
        count, failed = len(self.values), len(self.errors)
        if self.stopped and self.next < count:
            if not self.next:
                return None
            reason = f"only {self.next} of {count} items were begun: {plain(stopped)}"
            return Failed(step.index, None, False, reason, "Stopped", self._unknown)
        if failed:
            first = "; ".join(f"item {item}: {message}" for item, (message, _) in sorted(self.errors.items())[:5])
            told = f"{first}; and {failed - 5} more" if failed > 5 else first
            if step.model.on_item_error == "fail" or failed == count or self._unknown:
                kind = self.errors[min(self.errors)][1]
                message = f"{failed} of {count} items failed: {told}"
                return Failed(step.index, None, False, message, kind, self._unknown)
            outcome.warn(f"{failed} of {count} items failed and are null: {told}")
        text = f"[{','.join('null' if text is None else text for text in self._results)}]"
        return Returned(step.index, None, False, text)


class CallsUnderWay:
    """Makes the calls of one plan.

    Args:
        inputs: what references stand for.
        outcomes: of the steps; warnings are added there.
        max_open: calls under way at the same time.
    """

    def __init__(self, inputs: Inputs, outcomes: Sequence[Outcome], max_open: int) -> None:
        self._inputs = inputs
        self._outcomes = outcomes
        self._max_open = max_open
        self._open: dict[tuple[int, int | None, bool], int] = {}
        """Calls under way, with the bytes that were made for each."""
        self._open_bytes = 0
        self._unsure: dict[tuple[int, int | None], tuple[Returned, float]] = {}
        """Results whose fallback was asked, with their confidence."""

    @property
    def has_room(self) -> bool:
        """Whether one more call may begin; always, when none is under way."""
        return not self._open or (len(self._open) < self._max_open and self._open_bytes < _MOST_OPEN_BYTES)

    def make(self, step: CompiledStep, item: int | None, items: Items | None = None, *, again: bool = False) -> Call:
        """Make the call of a step or of one of its items. Raises `Unresolvable`.

        Args:
            step: the step.
            item: number of the item, or None.
            items: of the `for_each`, where `item` is given.
            again: call the fallback, because the first result was not confident.
        """
        if item is None or items is None:
            self._inputs.begin()
        else:
            self._inputs.begin(items.values[item], item, items.bytes_each)
        arguments = self._inputs.arguments(step)
        if self._inputs.warnings:
            self.note(step.index, "" if item is None else f"item {item}: ")
        self._open[step.index, item, again] = arguments.made_bytes
        self._open_bytes += arguments.made_bytes
        tool, retry, instead = step.tool, step.retry, step.fallback
        on_error = instead.name if instead is not None and step.threshold is None else None
        if again and instead is not None:
            tool, retry = instead, None
            on_error = tool.name  # the fallback's own fallback might be the tool that was called first
        return Call(step.index, item, again, tool.name, arguments.value, step.model.timeout_seconds, retry, on_error)

    def close(self, event: Returned | Failed) -> None:
        """The call has come back."""
        self._open_bytes -= self._open.pop((event.step, event.item, event.again), 0)

    def note(self, index: int, prefix: str = "") -> None:
        """Move the warnings of the values just resolved to the step's outcome."""
        for warning in self._inputs.warnings:
            self._outcomes[index].warn(prefix + warning)
        self._inputs.warnings.clear()

    def ask_fallback(self, step: CompiledStep, event: Returned, items: Items | None) -> Call | None:
        """Return the call of the fallback where the result is not confident enough to count."""
        confidence = confidence_in(event.text)
        if confidence is None or step.threshold is None or confidence >= step.threshold:
            return None
        try:
            call = self.make(step, event.item, items, again=True)
        except Unresolvable:  # by now the plan's budget may be spent
            return None
        self._unsure[event.step, event.item] = event, confidence
        return call

    def second_opinion(self, step: CompiledStep, event: Returned | Failed) -> Returned:
        """Choose between the first result and the fallback's: return the one that counts, and warn of the choice."""
        assert step.fallback is not None
        name, outcome = step.fallback.name, self._outcomes[step.index]
        first, confidence = self._unsure.pop((step.index, event.item))
        second = confidence_in(event.text) if isinstance(event, Returned) else None
        if isinstance(event, Failed):
            outcome.warn(f"confidence {confidence:g} is low, and the fallback failed: {event.message}")
        elif second is not None and second < confidence:
            less = f"{second:g} than {confidence:g}"
            outcome.warn(f"the fallback {name!r} was less confident ({less}), and not taken")
        else:
            low = f"confidence {confidence:g} is below {step.threshold:g}"
            outcome.warn(f"{low}: the result is that of the fallback {name!r}")
            outcome.fallback = name
            return event
        return first
