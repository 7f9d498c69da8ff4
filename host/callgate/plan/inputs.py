"""What steps are given: the results so far, and the arguments made of them. Counts what that takes; knows no order."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from .expressions import Budget
from .outcomes import Result
from .sizes import json_size
from .steps import CompiledStep
from .values import Unresolvable, Values

__all__ = ["EXPRESSION_BYTES", "EXPRESSION_STEPS", "Arguments", "Inputs"]

EXPRESSION_STEPS = 500_000
"""Steps of all expressions and mapped references of one plan together; about a second of the host's event loop."""
EXPRESSION_BYTES = 256 * 1024 * 1024
"""Bytes that all expressions of one plan together may make."""


_SMALL = 64 * 1024
"""Bytes; larger arguments are measured."""


class Arguments(NamedTuple):
    """What one call is made with."""

    value: Any
    made_bytes: int
    """What was made for this call alone, and goes with it."""


class Inputs:
    """The results of one plan.

    Args:
        max_bytes: of the arguments of one call, as JSON.
        max_memory_bytes: of what is held; what would exceed it is not read.
        expression_steps: of all expressions together.
    """

    def __init__(self, max_bytes: int, max_memory_bytes: int, expression_steps: int = EXPRESSION_STEPS) -> None:
        self._max_memory_bytes = max_memory_bytes
        self.results: list[Result | None] = []
        self.held_bytes = 0
        """Memory of results, about: text as it is, and values where they were read."""
        self._max_bytes = max_bytes
        budget = Budget(steps=expression_steps, bytes=EXPRESSION_BYTES)
        self._values = Values(self.results, budget, max_bytes)
        self._readers: list[int] = []
        self._reserve = self.reserve  # one for all results

    @property
    def work_left(self) -> int:
        """Steps that expressions may still spend."""
        return self._values.budget.steps_left

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

    def values(self) -> Values:
        """What the references of a step stand for; good until it is asked for again."""
        values = self._values
        values.item, values.index, values.item_bytes, values.size, values.made = None, 0, 0, 0, 0
        if values.warnings:
            values.warnings = []
        return values

    def reserve(self, size: int) -> None:
        """Count what is about to be read. Raises `Unresolvable` where it is too much; then the run is over, too."""
        self.held_bytes += size
        if self.held_bytes > self._max_memory_bytes:
            raise Unresolvable(f"the results would take more than memory_bytes, {self._max_memory_bytes}")

    def arguments(self, step: CompiledStep, values: Values) -> Arguments:
        """The arguments of a call. Raises `Unresolvable`."""
        try:
            value = step.template.resolve(values)
        except RecursionError:
            raise Unresolvable("a value is nested too deeply") from None
        if values.size > self._max_bytes and (size := json_size(value, self._max_bytes)) > self._max_bytes:
            raise Unresolvable(f"the arguments would be more than {size} bytes; max_message_bytes is {self._max_bytes}")
        size = values.made
        if values.size > _SMALL or step.large:
            size = max(size, json_size(value, self._max_bytes))
        return Arguments(value, size)

    def release(self, step: CompiledStep) -> None:
        """The step is over. What was read of a result goes when nobody is left to read it; its text stays."""
        for need in step.needs:
            self._readers[need] -= 1
            result = self.results[need]
            if result is not None and not self._readers[need]:
                self.held_bytes -= result.forget()
