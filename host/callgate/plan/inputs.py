"""The results so far, and the arguments made of them. Counts their memory and work; knows no order of steps.

1. New text and mapped arrays are counted before they are made, and bounded; so is the size of a value as JSON.
2. A result is decoded when a step refers to it, and counted before. The decoded value is freed after its last reader.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from callgate.tools.turns import Work

from .expressions import Budget, BudgetExceeded
from .outcomes import Result
from .sizes import SMALL_BYTES, json_size

if TYPE_CHECKING:
    from .steps import CompiledStep

__all__ = ["Arguments", "Inputs", "Unresolvable"]

EXPRESSION_STEPS = 500_000
"""Steps of all expressions and mapped references of one plan together; about a second of the host's event loop."""
EXPRESSION_BYTES = 256 * 1024 * 1024
"""Bytes that all expressions of one plan together may make."""
_EDGES_A_TURN = 10_000
_SMALL = 64 * 1024
"""Bytes; larger arguments are measured."""
_STEPS_FOR_A_MISS = 20
_MAX_SUGGESTIONS = 20
"""Searches for the nearest key in one plan."""
_MAX_WARNINGS = 20
"""Of one step."""


class Unresolvable(Exception):
    """A value cannot be resolved; the step fails with this message."""


class Arguments(NamedTuple):
    """Arguments of one call."""

    value: Any
    made_bytes: int
    """Memory that was made for this call alone."""


class Inputs:
    """The results of one plan, and the item and counts of the step whose values are resolved now.

    Args:
        max_bytes: of the arguments of one call, as JSON.
        max_memory_bytes: of the results; beyond it nothing more is decoded.
    """

    def __init__(self, max_bytes: int, max_memory_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.results: list[Result | None] = []
        self.held_bytes = 0
        """Memory of results, about: their text, and their values once decoded."""
        self.budget = Budget(steps=EXPRESSION_STEPS, bytes=EXPRESSION_BYTES)
        self._max_memory_bytes = max_memory_bytes
        self._readers: list[int] = []
        self._reserve = self.reserve  # one for all results
        self._misses = 0
        self._unread: list[Result] = []
        """Results whose values are kept for a step that has not begun; they are not counted yet, so they are few."""
        self.begin()

    # the results

    def taking(self, steps: Sequence[CompiledStep | None]) -> Work[None]:
        """Take further steps, many in turns, as readers of the results that they need until `release`."""
        self.results += [None] * len(steps)
        self._readers += [0] * len(steps)
        work = 0
        for step in steps:
            needs = () if step is None else step.needs
            for need in needs:
                self._readers[need] += 1
            work += 1 + len(needs)
            if work > _EDGES_A_TURN:
                work = 0
                yield

    def keep(self, index: int, text: str, value: Any = None) -> None:
        """Take a step's result; `value` is its value where it is at hand."""
        self.results[index] = result = Result(text, self._reserve)
        self.held_bytes += sys.getsizeof(text)
        if value is not None and self._readers[index]:
            self._unread = [each for each in self._unread if each.unread_bytes]
            if result.offer(value) + sum(each.unread_bytes for each in self._unread) <= SMALL_BYTES:
                self._unread.append(result)
            else:
                result.forget()

    def reserve(self, size: int) -> None:
        """Count a value before it is decoded. Raises `Unresolvable` beyond `memory_bytes`; then the run ends, too."""
        self.held_bytes += size
        if self.held_bytes > self._max_memory_bytes:
            raise Unresolvable(f"the results would take more than memory_bytes, {self._max_memory_bytes}")

    def release(self, step: CompiledStep) -> None:
        """Take a step off the readers. A decoded result is freed after its last reader; its text stays."""
        for need in step.needs:
            self._readers[need] -= 1
            result = self.results[need]
            if result is not None and not self._readers[need]:
                self.held_bytes -= result.forget()

    # the values of one step

    def begin(self, item: Any = None, index: int = 0, item_bytes: int = 0) -> None:
        """Start to resolve the values of a step, or of one item of its `for_each`."""
        self.item, self.index, self.item_bytes = item, index, item_bytes
        self.size = 0
        """An upper bound of the value's bytes as JSON."""
        self.is_measured = True
        """Whether `size` is exact, but for what is written in the plan: every result is in the value as a whole."""
        self.made = 0
        """Bytes of new text and mapped arrays."""
        self.warnings: list[str] = []

    def arguments(self, step: CompiledStep) -> Arguments:
        """Resolve the arguments of a call. Raises `Unresolvable`."""
        try:
            value = step.template.resolve(self)
        except RecursionError:
            raise Unresolvable("a value is nested too deeply") from None
        most = self.max_bytes
        if self.size > most and (size := json_size(value, most)) > most:
            raise Unresolvable(f"the arguments would be more than {size} bytes; max_message_bytes is {most}")
        measured = 0
        if step.large or self.size > _SMALL:
            measured = self.size if self.is_measured and not step.large else json_size(value, most)
        return Arguments(value, max(self.made, measured))

    def warn(self, words: str) -> None:
        """Add a warning to the step."""
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(words)

    def make(self, size: int) -> None:
        """Count bytes before they are made. Raises `Unresolvable` beyond what one call may have."""
        self.made += size
        if self.made > self.max_bytes:
            raise Unresolvable(f"the arguments would be longer than max_message_bytes, {self.max_bytes}")

    def map(self, items: int, segments: int) -> None:
        """Count the items of a `[*]`: two bytes each at least, and steps of the plan's budget for the rest of the path.

        Raises `Unresolvable`.
        """
        self.make(2 * items)
        self.walk(items * (1 + segments))

    def walk(self, steps: int) -> None:
        """Charge the plan's budget for following paths. Raises `Unresolvable`."""
        self._work(steps, "the references of this plan map over too many items, all together")

    def miss(self) -> bool:
        """Count a path that leads nowhere. Returns whether to search for the nearest key. Raises `Unresolvable`."""
        self._work(_STEPS_FOR_A_MISS, "too many references of this plan lead nowhere, all together")
        self._misses += 1
        return self._misses <= _MAX_SUGGESTIONS

    def _work(self, steps: int, words: str) -> None:
        try:
            self.budget.work(steps)
        except BudgetExceeded:
            raise Unresolvable(words) from None
