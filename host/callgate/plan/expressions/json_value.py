"""From a value of an expression to a JSON value: tuples, ranges and views become lists, all else must be JSON."""

from __future__ import annotations

import math
from typing import Any

from .budget import MOST_DEPTH, Budget
from .expression import guarded
from .faults import BudgetExceeded, ExpressionError, ExpressionFault
from .functions import collected
from .kinds import DICTS, ITERATORS, KNOWN, SEQUENCES, VIEWS, foreign

__all__ = ["to_json"]


def to_json(value: Any, budget: Budget | None = None) -> Any:
    """A copy made of dict, list, str, int, float, bool and None alone.

    Raises:
        ExpressionError: a set, NaN, an infinity or a key that is no text, none of which JSON has.
        ExpressionFault: a value of a type that no expression has, or one that can be read only once.
        BudgetExceeded: as a tree it is larger or deeper than the budget allows.
    """
    spent = Budget() if budget is None else budget
    return guarded(spent, lambda: _copy(spent, value, MOST_DEPTH))


def _copy(budget: Budget, value: Any, depth: int) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise ExpressionError("ValueError", f"{value!r} is not a JSON number; write a condition that avoids it")
        return value
    if not depth:
        raise BudgetExceeded("depth", MOST_DEPTH)
    if kind in SEQUENCES or kind in VIEWS or kind is range:
        values = collected(budget, value)
        budget.work(len(value))
        return [_copy(budget, item, depth - 1) for item in values]
    if kind in DICTS:
        budget.work(len(value))
        budget.make(200 + 100 * len(value))
        return {_key(key): _copy(budget, item, depth - 1) for key, item in value.items()}
    if kind is set:
        raise ExpressionError("TypeError", "a set is not a JSON value; write sorted(...) or list(...)")
    if kind in ITERATORS:
        raise ExpressionFault(f"a {kind.__name__} object is not a JSON value", "write list(...) around it")
    if kind in KNOWN:
        raise ExpressionError("TypeError", f"a {kind.__name__} is not a JSON value; use its parts")
    raise foreign(value)


def _key(key: Any) -> str:
    if type(key) is not str:
        kind = type(key).__name__
        raise ExpressionError("TypeError", f"a key of a JSON object is text, not {kind}; write str(...) for the key")
    return key
