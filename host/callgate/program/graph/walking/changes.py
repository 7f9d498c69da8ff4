"""What changes a value in place: methods, items, augmented assignment. As in `callgate.plan.expressions`: paid for
before, Python's own operation, Python's own words; what is not certain is refused.

No value may come to hold itself: what walks values would not end.
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
from callgate.plan.expressions.weight import charge_key, charge_search, charge_sorting, types_in

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
    """``before += value`` and its like; returns what the variable is afterwards."""
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
    """``holder.method(*given)``, one that has no value."""
    _check_known(holder, *given)
    call = _METHODS.get((type(holder), method))
    if call is None or not call.fewest <= len(given) <= call.most:
        raise _unsure(f"`.{method}()` of a {type(holder).__name__}, so called")
    call.run(budget, holder, given)


class _Method:
    __slots__ = ("fewest", "most", "run")

    def __init__(self, run: Callable[[Budget, Any, list[Any]], None], fewest: int, most: int) -> None:
        self.run = run
        self.fewest = fewest
        self.most = most


def _append(budget: Budget, values: list[Any], given: list[Any]) -> None:
    budget.make(16)
    _check_no_circle(budget, values, given[0])
    values.append(given[0])


def _extend(budget: Budget, values: list[Any], given: list[Any]) -> None:
    if type(given[0]) not in SIZED and type(given[0]) not in ITERATORS:
        values.extend(given[0])  # raises, in Python's words
    values.extend(_new_items(budget, values, given[0]))


def _new_items(budget: Budget, values: list[Any], given: Any) -> list[Any]:
    """The items that a list is about to take in, none of which is or holds the list."""
    items = list(collected(budget, given))
    if not types_in(budget, items).isdisjoint(_CONTAINERS):
        budget.work(len(items))
        for item in items:
            _check_no_circle(budget, values, item)
    return items


def _insert(budget: Budget, values: list[Any], given: list[Any]) -> None:
    if type(given[0]) is not int:
        raise _unsure("the place of an insertion is no integer")
    budget.work(1 + (len(values) >> 6))
    _append(budget, [], given[1:])
    _check_no_circle(budget, values, given[1])
    values.insert(given[0], given[1])


def _sort(budget: Budget, values: list[Any], given: list[Any]) -> None:
    charge_sorting(budget, values)
    values.sort()


def _become(budget: Budget, values: list[Any], given: list[Any]) -> None:
    """The same items in another order."""
    budget.make(8 * len(given[0]))
    values[:] = given[0]


def _reverse(budget: Budget, values: list[Any], given: list[Any]) -> None:
    budget.work(1 + (len(values) >> 6))
    values.reverse()


def _clear(budget: Budget, values: Any, given: list[Any]) -> None:
    budget.work(1 + (len(values) >> 4))
    values.clear()


def _remove(budget: Budget, values: list[Any], given: list[Any]) -> None:
    charge_search(budget, given[0], values)
    budget.work(1 + (len(values) >> 6))
    values.remove(given[0])


def _update(budget: Budget, values: dict[Any, Any], given: list[Any]) -> None:
    if type(given[0]) not in DICTS:
        raise _unsure("`.update()` with something else than a dict")
    budget.make(200 + 100 * len(given[0]))
    for key, value in given[0].items():
        _charge_new_key(budget, key)
        _check_no_circle(budget, values, value)
    values.update(given[0])


_METHODS: Final[dict[tuple[type, str], _Method]] = {
    (list, "append"): _Method(_append, 1, 1),
    (list, "extend"): _Method(_extend, 1, 1),
    (list, "insert"): _Method(_insert, 2, 2),
    (list, "sort"): _Method(_sort, 0, 0),
    (list, "become"): _Method(_become, 1, 1),
    (list, "reverse"): _Method(_reverse, 0, 0),
    (list, "clear"): _Method(_clear, 0, 0),
    (list, "remove"): _Method(_remove, 1, 1),
    **{(kind, "update"): _Method(_update, 1, 1) for kind in DICTS},
    **{(kind, "clear"): _Method(_clear, 0, 0) for kind in DICTS},
}


def _check_known(*values: Any) -> None:
    for value in values:
        if type(value) not in KNOWN:
            raise foreign(value)
        if type(value) in ITERATORS:
            raise _unsure("an iterator is kept")


def _charge_new_key(budget: Budget, key: Any) -> None:
    """Keys that can be made to collide are not put in one by one."""
    kind = type(key)
    if kind is tuple or (kind is int and not -_LARGE_INTEGER < key < _LARGE_INTEGER):
        raise _unsure("a tuple or a very large number becomes a key")
    budget.work(1)
    charge_key(budget, key)


def _check_no_circle(budget: Budget, holder: Any, value: Any) -> None:
    """Raises where `holder` is `value`, or is somewhere in it."""
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
