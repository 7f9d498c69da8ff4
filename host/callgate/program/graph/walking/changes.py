"""Changes of a value in place: methods, items, augmented assignment. As in `callgate.plan.expressions`, the budget pays
before the work, and the operation and its error texts are Python's own. A change with an uncertain result is refused.

No value may contain itself: functions that walk through values would not end.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any, Final

from callgate.plan.expressions import Budget, ExpressionFault
from callgate.plan.expressions.functions import collected
from callgate.plan.expressions.kinds import DICTS, ITERATORS, KNOWN, SIZED, foreign, has_attribute
from callgate.plan.expressions.operators import BINARY
from callgate.plan.expressions.weight import charge_key, types_in

__all__ = ["augment", "call_method", "has_method", "set_item"]

_IN_PLACE: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.iadd,
    ast.BitAnd: operator.iand,
    ast.BitOr: operator.ior,
    ast.BitXor: operator.ixor,
    ast.Div: operator.itruediv,
    ast.FloorDiv: operator.ifloordiv,
    ast.LShift: operator.ilshift,
    ast.Mod: operator.imod,
    ast.Mult: operator.imul,
    ast.Pow: operator.ipow,
    ast.RShift: operator.irshift,
    ast.Sub: operator.isub,
}
_LARGE_INTEGER: Final = 2**61 - 1
_CONTAINERS: Final = SIZED - {str, range}


def has_method(value: Any, method: str) -> bool:
    """Whether the value is of a kind that certainly has it."""
    kind = type(value)
    return kind in KNOWN and kind not in ITERATORS and (has_attribute(kind, method) or (kind, method) in _METHODS)


def set_item(budget: Budget, holder: Any, index: Any, value: Any) -> None:
    """``holder[index] = value``."""
    kind = type(holder)
    _check_known(index, value)
    if kind in DICTS:
        _charge_new_key(budget, index)
        budget.make(100)
    elif kind is not list or type(index) is not int:
        raise _unsure(f"an item of a {kind.__name__} is set")
    _check_no_circle(budget, holder, value)
    holder[index] = value


def augment(budget: Budget, how: type[ast.operator], before: Any, value: Any) -> Any:
    """``before += value`` and other operators. Returns the new value of the variable."""
    _check_known(before, value)
    kind = type(before)
    if kind is list:
        if how is ast.Add and (type(value) in SIZED or type(value) in ITERATORS):
            before += _new_items(budget, before, value)
            return before
        raise _unsure("a list is changed in place")
    if kind in _CONTAINERS and kind is not tuple:
        raise _unsure(f"a {kind.__name__} is changed in place")
    apply, charge, free = BINARY[how]
    if not (kind in free and type(value) in free):
        charge(budget, before, value)
    if how is ast.Pow:
        return apply(before, value)
    return _IN_PLACE[how](before, value)


def call_method(budget: Budget, holder: Any, method: str, given: list[Any]) -> None:
    """``holder.method(*given)``, for methods that return None."""
    _check_known(holder, *given)
    call = _METHODS.get((type(holder), method))
    if call is None or len(given) != 1:
        raise _unsure(f"`.{method}()` of a {type(holder).__name__}, so called")
    call(budget, holder, given[0])


def _append(budget: Budget, values: list[Any], given: Any) -> None:
    budget.make(16)
    _check_no_circle(budget, values, given)
    values.append(given)


def _extend(budget: Budget, values: list[Any], given: Any) -> None:
    if type(given) not in SIZED and type(given) not in ITERATORS:
        values.extend(given)  # raises, in Python's words
    values.extend(_new_items(budget, values, given))


def _new_items(budget: Budget, values: list[Any], given: Any) -> list[Any]:
    """The items that a list takes in, none of which is or contains the list."""
    items = list(collected(budget, given))
    if not types_in(budget, items).isdisjoint(_CONTAINERS):
        budget.work(len(items))
        for item in items:
            _check_no_circle(budget, values, item)
    return items


def _become(budget: Budget, values: list[Any], given: list[Any]) -> None:
    """Replace the items of a list by `given`, its items in another order."""
    budget.make(8 * len(given))
    values[:] = given


def _update(budget: Budget, values: dict[Any, Any], given: Any) -> None:
    if type(given) not in DICTS:
        raise _unsure("`.update()` with something else than a dict")
    budget.make(200 + 100 * len(given))
    for key, value in given.items():
        _charge_new_key(budget, key)
        _check_no_circle(budget, values, value)
    values.update(given)


_METHODS: Final[dict[tuple[type, str], Callable[[Budget, Any, Any], None]]] = {
    (list, "append"): _append,
    (list, "extend"): _extend,
    (list, "sort"): _become,
    **{(kind, "update"): _update for kind in DICTS},
}
"""Methods by type and name. Each takes one argument; for `sort` it is the sorted list."""


def _check_known(*values: Any) -> None:
    for value in values:
        if type(value) not in KNOWN:
            raise foreign(value)
        if type(value) in ITERATORS:
            raise _unsure("an iterator is kept")


def _charge_new_key(budget: Budget, key: Any) -> None:
    """Pay for a new key. Keys that can be made to collide are refused."""
    kind = type(key)
    if kind is tuple or (kind is int and not -_LARGE_INTEGER < key < _LARGE_INTEGER):
        raise _unsure("a tuple or a very large number becomes a key")
    budget.work(1)
    charge_key(budget, key)


def _check_no_circle(budget: Budget, holder: Any, value: Any) -> None:
    """Raise if `value` is `holder` or contains it."""
    if type(value) not in _CONTAINERS:
        return
    seen: set[int] = set()
    todo = [value]
    while todo:
        each = todo.pop()
        if each is holder:
            raise _unsure("a value comes to hold itself")
        if id(each) in seen:
            continue
        seen.add(id(each))
        inner = each.values() if type(each) in DICTS else each
        budget.work(1 + (len(each) >> 2))
        if not types_in(budget, inner).isdisjoint(_CONTAINERS):
            todo.extend(item for item in inner if type(item) in _CONTAINERS)


def _unsure(what: str) -> ExpressionFault:
    return ExpressionFault(what, "the sandbox decides")
