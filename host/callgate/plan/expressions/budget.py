"""What one evaluation may spend. A counter: knows units, and nothing of what they are spent on.

1. Spent before the work is done, never after: what does not fit is not begun.
2. Nothing is given back. `bytes` counts all that is ever made, not what is alive, so that it bounds time as well.
3. A budget may serve several evaluations in turn; once it is exceeded, it stays so.
"""

from __future__ import annotations

from typing import Final

from .faults import BudgetExceeded

__all__ = ["MOST_DEPTH", "Budget"]

MOST_DEPTH: Final = 200
"""Levels of a value that is compared, written out, hashed or sorted: those recurse in CPython's C code."""


class Budget:
    """What is left to spend.

    Args:
        steps: units of work: a node evaluated, or some eight list items or some hundreds of characters looked at.
            The default takes a few hundredths of a second.
        bytes: of all texts and containers made on the way, as an upper estimate.
        integer_bits: size of the largest integer that multiplication, power, shift or text may make.
    """

    __slots__ = ("bytes_allowed", "bytes_left", "integer_bits", "steps_allowed", "steps_left")

    def __init__(self, *, steps: int = 100_000, bytes: int = 16 * 1024 * 1024, integer_bits: int = 65_536) -> None:
        self.steps_allowed = self.steps_left = steps
        self.bytes_allowed = self.bytes_left = bytes
        self.integer_bits = integer_bits

    def __repr__(self) -> str:
        steps = f"{self.steps_left:,} of {self.steps_allowed:,} steps"
        return f"<Budget: {steps} and {self.bytes_left:,} of {self.bytes_allowed:,} bytes left>"

    def work(self, steps: int) -> None:
        """Spends steps; raises `BudgetExceeded` when they are not there."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise BudgetExceeded("steps", self.steps_allowed)

    def make(self, size: int) -> None:
        """Spends bytes; raises `BudgetExceeded` when they are not there."""
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise BudgetExceeded("bytes", self.bytes_allowed)

    def integer(self, bits: int) -> None:
        """Raises `BudgetExceeded` for an integer of more bits than one may have."""
        if bits > self.integer_bits:
            raise BudgetExceeded("integer_bits", self.integer_bits)
