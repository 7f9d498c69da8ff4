"""What steps are given: the results so far, and the arguments made of them. Counts what that takes; knows no order.

1. What is made anew, text and mapped arrays, is counted before it is made, and bounded; so is what the value would
   take as JSON.
2. A result is read when somebody refers to it, and counted before. What was read goes when nobody is left to read it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from .expressions import Budget, BudgetExceeded
from .outcomes import Result
from .sizes import json_size

if TYPE_CHECKING:
    from .steps import CompiledStep

__all__ = ["Arguments", "Inputs", "Unresolvable"]

EXPRESSION_STEPS = 500_000
"""Steps of all expressions and mapped references of one plan together; about a second of the host's event loop."""
EXPRESSION_BYTES = 256 * 1024 * 1024
"""Bytes that all expressions of one plan together may make."""
_SMALL = 64 * 1024
"""Bytes; larger arguments are measured."""
_STEPS_FOR_A_MISS = 20
_MAX_SUGGESTIONS = 20
"""So many times in a plan the nearest key is looked for."""
_MAX_WARNINGS = 20
"""Of one step."""


class Unresolvable(Exception):
    """A value cannot be put together: the step fails with this message."""


class Arguments(NamedTuple):
    """What one call is made with."""

    value: Any
    made_bytes: int
    """What was made for this call alone, and goes with it."""


class Inputs:
    """The results of one plan, and what references stand for while the values of one step are put together.

    Args:
        max_bytes: of the arguments of one call, as JSON.
        max_memory_bytes: of what is held; what would exceed it is not read.
    """

    def __init__(self, max_bytes: int, max_memory_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.results: list[Result | None] = []
        self.held_bytes = 0
        """Memory of results, about: text as it is, and values where they were read."""
        self.budget = Budget(steps=EXPRESSION_STEPS, bytes=EXPRESSION_BYTES)
        self._max_memory_bytes = max_memory_bytes
        self._readers: list[int] = []
        self._reserve = self.reserve  # one for all results
        self._misses = 0
        self.begin()

    # the results

    def add(self) -> None:
        """One more step."""
        self.results.append(None)
        self._readers.append(0)

    def expect(self, step: CompiledStep) -> None:
        """This step will read the results of those it needs, until `release`."""
        for need in step.needs:
            self._readers[need] += 1

    def keep(self, index: int, text: str) -> None:
        """A step's result."""
        self.results[index] = Result(text, self._reserve)
        self.held_bytes += sys.getsizeof(text)

    def reserve(self, size: int) -> None:
        """Count what is about to be read. Raises `Unresolvable` where it is too much; then the run is over, too."""
        self.held_bytes += size
        if self.held_bytes > self._max_memory_bytes:
            raise Unresolvable(f"the results would take more than memory_bytes, {self._max_memory_bytes}")

    def release(self, step: CompiledStep) -> None:
        """The step is over. What was read of a result goes when nobody is left to read it; its text stays."""
        for need in step.needs:
            self._readers[need] -= 1
            result = self.results[need]
            if result is not None and not self._readers[need]:
                self.held_bytes -= result.forget()

    # the values of one step

    def begin(self, item: Any = None, index: int = 0, item_bytes: int = 0) -> None:
        """From now on values of one step are put together, or of one item of its `for_each`."""
        self.item, self.index, self.item_bytes = item, index, item_bytes
        self.size = 0
        """An upper bound of the value's bytes as JSON."""
        self.made = 0
        """Bytes that were made anew: text put together, items mapped."""
        self.warnings: list[str] = []

    def arguments(self, step: CompiledStep) -> Arguments:
        """The arguments of a call. Raises `Unresolvable`."""
        try:
            value = step.template.resolve(self)
        except RecursionError:
            raise Unresolvable("a value is nested too deeply") from None
        most = self.max_bytes
        if self.size > most and (size := json_size(value, most)) > most:
            raise Unresolvable(f"the arguments would be more than {size} bytes; max_message_bytes is {most}")
        measured = json_size(value, most) if self.size > _SMALL or step.large else 0
        return Arguments(value, max(self.made, measured))

    def warn(self, words: str) -> None:
        """Tell whoever reads the step's result."""
        if len(self.warnings) < _MAX_WARNINGS:
            self.warnings.append(words)

    def make(self, size: int) -> None:
        """Count what is about to be made. Raises `Unresolvable` when it is too much for one call."""
        self.made += size
        if self.made > self.max_bytes:
            raise Unresolvable(f"the arguments would be longer than max_message_bytes, {self.max_bytes}")

    def map(self, items: int, segments: int) -> None:
        """The same for the items of a `[*]`: two bytes each at least, and steps of the plan's budget for the rest of
        the path."""
        self.make(2 * items)
        self.walk(items * (1 + segments))

    def walk(self, steps: int) -> None:
        """Spend the plan's budget on following paths. Raises `Unresolvable`."""
        self._work(steps, "the references of this plan map over too many items, all together")

    def miss(self) -> bool:
        """Count a path that leads nowhere; whether it is worth looking for what was meant. Raises `Unresolvable`."""
        self._work(_STEPS_FOR_A_MISS, "too many references of this plan lead nowhere, all together")
        self._misses += 1
        return self._misses <= _MAX_SUGGESTIONS

    def _work(self, steps: int, words: str) -> None:
        try:
            self.budget.work(steps)
        except BudgetExceeded:
            raise Unresolvable(words) from None
