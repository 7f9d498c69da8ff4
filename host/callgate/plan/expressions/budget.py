"""What one evaluation may spend, and the three ways it ends without a value.

1. A budget is spent before the work is done, never after: what does not fit is not begun.
2. Nothing is given back. `bytes` counts all that is ever made, not what is alive, so that it bounds time as well.
3. A budget may serve several evaluations in turn; once exceeded, it stays exceeded.

    CallgateError
    ├── ExpressionFault     the author: it uses something that this evaluator does not do. Python might do it.
    ├── ExpressionError     the author: Python itself would raise this error here.
    └── BudgetExceeded      the author, or who set the budget: the work was refused before it was done

The three are siblings on purpose. Who runs an expression in place of Python passes an `ExpressionError` on as the
program's own failure; the other two say nothing about what Python would do.
"""

from __future__ import annotations

from typing import Final

from callgate.errors import CallgateError

__all__ = ["INTEGER_BITS", "MOST_DEPTH", "Budget", "BudgetExceeded", "ExpressionError", "ExpressionFault"]

INTEGER_BITS: Final = 16_384

MOST_DEPTH: Final = 200
"""Levels of a value that is compared, written, hashed or sorted: CPython's C code recurses there."""


class Budget:
    """Counts what is left to spend.

    Args:
        steps: units of work: a node evaluated, or some eight list items or some hundreds of characters looked at. One
            is at most a quarter of a microsecond, and often less than half of that.
        bytes: of all texts and containers made on the way, as an upper estimate.
        integer_bits: size of the largest integer that a constant, multiplication, power, shift or text may make. The
            default is somewhat more than the 4,300 digits that Python writes, and so little that hashing one, or
            comparing two, takes a few steps at most.
    """

    __slots__ = ("bytes_allowed", "bytes_left", "integer_bits", "steps_allowed", "steps_left")

    def __init__(
        self, *, steps: int = 100_000, bytes: int = 16 * 1024 * 1024, integer_bits: int = INTEGER_BITS
    ) -> None:
        self.steps_allowed = self.steps_left = steps
        self.bytes_allowed = self.bytes_left = bytes
        self.integer_bits = integer_bits

    def __repr__(self) -> str:
        steps = f"{self.steps_left:,} of {self.steps_allowed:,} steps"
        return f"<Budget: {steps} and {self.bytes_left:,} of {self.bytes_allowed:,} bytes left>"

    def work(self, steps: int) -> None:
        """Spend steps. Raises `BudgetExceeded` if too few are left."""
        self.steps_left -= steps
        if self.steps_left < 0:
            raise BudgetExceeded("steps", self.steps_allowed)

    def make(self, size: int) -> None:
        """Spend bytes. Raises `BudgetExceeded` if too few are left."""
        self.bytes_left -= size
        if self.bytes_left < 0:
            raise BudgetExceeded("bytes", self.bytes_allowed)

    def share(self, *, steps: int, bytes: int) -> Budget:
        """Return a budget for a part of the work, within what is left here. Call `settle` with it afterwards."""
        return Budget(
            steps=min(steps, self.steps_left), bytes=min(bytes, self.bytes_left), integer_bits=self.integer_bits
        )

    def settle(self, share: Budget) -> None:
        """Spend what a share has spent."""
        self.steps_left -= share.steps_allowed - max(share.steps_left, 0)
        self.bytes_left -= share.bytes_allowed - max(share.bytes_left, 0)

    def integer(self, bits: int) -> None:
        """Raise `BudgetExceeded` for an integer with too many bits."""
        if bits > self.integer_bits:
            raise BudgetExceeded("integer_bits", self.integer_bits)


class ExpressionFault(CallgateError, ValueError):
    """The expression uses something outside the closed list. `parse_expression` finds most of them.

    A few show only in the values: `a % b` is refused where `a` turns out to be a text.

    Attributes:
        message: what was found, in one line.
        hint: what to write instead, in one line.
        column: where in the source, in characters, from 1; ``None`` where only the values showed it.
    """

    def __init__(self, message: str, hint: str, column: int | None = None) -> None:
        where = "" if column is None else f" (column {column})"
        super().__init__(f"{message}{where}; {hint}")
        self.message = message
        self.hint = hint
        self.column = column


class ExpressionError(CallgateError):
    """Python raises this error for this expression and these values.

    Attributes:
        kind: name of Python's exception class, e.g. ``"KeyError"``.
        message: the text of that exception.
        notes: the notes of that exception; since 3.14 `dict` adds one.
    """

    def __init__(self, kind: str, message: str, notes: tuple[str, ...] = ()) -> None:
        super().__init__(f"{kind}: {'; '.join((message, *notes))}" if message else kind)
        self.kind = kind
        self.message = message
        self.notes = notes


class BudgetExceeded(CallgateError):
    """An operation would cost more than is left; it was not begun.

    Attributes:
        budget: ``"steps"``, ``"bytes"``, ``"integer_bits"``, ``"clashes"`` (keys of one hash) or ``"depth"``.
        allowed: the whole budget, in its own unit.
    """

    def __init__(self, budget: str, allowed: int) -> None:
        super().__init__(f"budget exceeded: {budget} is {allowed:,}")
        self.budget = budget
        self.allowed = allowed
