"""The three ways an expression ends without a value, and whose move each is.

    CallgateError
    ├── ExpressionFault     the author: it uses something that this evaluator does not do. Python might do it.
    ├── ExpressionError     the author: Python itself would raise this error here.
    └── BudgetExceeded      the author, or whoever set the budget: the work was refused before it was done

They are siblings on purpose. Whoever runs an expression in place of Python passes an `ExpressionError` on as the
program's own failure; the other two say nothing about what Python would do.
"""

from __future__ import annotations

from callgate.errors import CallgateError

__all__ = ["BudgetExceeded", "ExpressionError", "ExpressionFault"]


class ExpressionFault(CallgateError, ValueError):
    """The expression holds something outside the closed list. Most are found by `parse_expression`.

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
    """Python's own error for this expression and these values.

    Attributes:
        kind: name of Python's exception class, e.g. ``"KeyError"``.
        message: what `str` of that exception gives.
        notes: what Python adds to it, from 3.14 on for instance what `dict` was about to do.
    """

    def __init__(self, kind: str, message: str, notes: tuple[str, ...] = ()) -> None:
        super().__init__(f"{kind}: {'; '.join((message, *notes))}" if message else kind)
        self.kind = kind
        self.message = message
        self.notes = notes


class BudgetExceeded(CallgateError):
    """An operation would have cost more than was left. It was not begun.

    Attributes:
        budget: ``"steps"``, ``"bytes"``, ``"integer_bits"``, ``"clashes"`` (keys of one hash) or ``"depth"``.
        allowed: what that budget was, in its own unit.
    """

    def __init__(self, budget: str, allowed: int) -> None:
        super().__init__(f"budget exceeded: {budget} is {allowed:,}")
        self.budget = budget
        self.allowed = allowed
