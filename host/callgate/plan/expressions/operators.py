"""Operators: what each may cost, paid before Python itself does it. Knows types and sizes, and no syntax.

Rules:

1. Nothing is computed here. Each function pays, and then hands both operands to Python's own operator: value, error
   type and message are Python's.
2. A pair of operands that no line here mentions is one for which Python either does little or raises TypeError.
"""

from __future__ import annotations

import ast
import operator
import sys
from collections.abc import Callable
from typing import Any, Final

from .budget import Budget
from .faults import ExpressionFault
from .kinds import (
    DICTS,
    ITERATORS,
    SCALARS,
    SEQUENCES,
    SIZED,
    VIEWS,
    DictItems,
    DictKeys,
    DictValues,
    Unknown,
    length,
    text_bytes,
)
from .weight import charge_comparison, charge_key, charge_keys_of, charge_search, metered, weigh

__all__ = [
    "BINARY",
    "COMPARISONS",
    "MODULO_HINT",
    "UNARY",
    "charge_find",
    "charge_unary",
    "contains",
    "item_of",
    "slice_of",
]

Operator = Callable[[Any, Any], Any]
Charge = Callable[[Budget, Any, Any], None]

MODULO_HINT: Final = "write an f-string, like f'{x:.2f}'"
_INTEGERS: Final = frozenset[type]({int, bool})
_NO_INTEGERS: Final = frozenset[type]({float, bool})
_LIST_LIKE: Final = SEQUENCES | {str}
_SET_LIKE: Final = frozenset[type]({set, DictKeys})
_SMALL: Final = 1 << 64


def _add(budget: Budget, left: Any, right: Any) -> None:
    kind = type(left)
    if kind is type(right):
        if kind is str:
            budget.make(50 + text_bytes(left) + text_bytes(right))
        elif kind in SEQUENCES:
            budget.make(56 + 8 * (len(left) + len(right)))
            budget.work((len(left) + len(right)) >> 4)
    _integers(budget, left, right)


def _integers(budget: Budget, left: Any, right: Any) -> None:
    """Pays for an integer about as long as both together."""
    if (
        type(left) in _INTEGERS
        and type(right) in _INTEGERS
        and not (-_SMALL < left < _SMALL and -_SMALL < right < _SMALL)
    ):
        bits = left.bit_length() + right.bit_length()
        budget.work(bits >> 13)
        budget.make(bits >> 3)


def _subtract(budget: Budget, left: Any, right: Any) -> None:
    _integers(budget, left, right)
    _set_operation(budget, left, right)


def _multiply(budget: Budget, left: Any, right: Any) -> None:
    kind, other = type(left), type(right)
    if kind in _INTEGERS and other in _INTEGERS:
        if not (-_SMALL < left < _SMALL and -_SMALL < right < _SMALL):
            bits, more = left.bit_length(), right.bit_length()
            budget.integer(bits + more)
            budget.work(bits * more >> 16)
            budget.make((bits + more) >> 3)
    elif kind in _LIST_LIKE and other in _INTEGERS:
        _repeat(budget, left, right)
    elif other in _LIST_LIKE and kind in _INTEGERS:
        _repeat(budget, right, left)


def _repeat(budget: Budget, value: Any, times: int) -> None:
    if 0 < times <= sys.maxsize:  # beyond, Python raises OverflowError, whatever the value
        budget.make(56 + (text_bytes(value) if type(value) is str else 8 * len(value)) * times)
        budget.work(len(value) * times >> 6)


def _divide(budget: Budget, left: Any, right: Any) -> None:
    if type(left) is str:
        raise ExpressionFault("`%` on a text is not supported", MODULO_HINT)
    if type(left) in _INTEGERS and type(right) in _INTEGERS:
        bits, more = left.bit_length(), right.bit_length()
        budget.work((bits * more >> 16) + (bits >> 12))
        _integers(budget, left, right)


def _power(budget: Budget, base: Any, exponent: Any) -> None:
    if type(base) in _INTEGERS and type(exponent) in _INTEGERS and exponent > 0:
        bits = exponent * (abs(base) - 1).bit_length() + 1 if abs(base) > 1 else 1
        budget.integer(bits)
        budget.work(bits * bits >> 16)
        budget.make(bits >> 3)


def _shift_left(budget: Budget, left: Any, right: Any) -> None:
    if type(left) in _INTEGERS and type(right) in _INTEGERS and left and right > 0:
        budget.integer(left.bit_length() + right)
        budget.make((left.bit_length() + right) >> 3)


def _bits(budget: Budget, left: Any, right: Any) -> None:
    if type(left) in DICTS and type(right) in DICTS:
        budget.make(100 * (len(left) + len(right)))
        charge_keys_of(budget, left)
        charge_keys_of(budget, right)
    else:
        _integers(budget, left, right)
        _set_operation(budget, left, right)


def _set_operation(budget: Budget, left: Any, right: Any) -> None:
    kind, other = type(left), type(right)
    if kind in _SET_LIKE and other in _SET_LIKE:
        for value in (left, right):
            budget.make(64 * len(value))
            charge_keys_of(budget, value)
    elif (kind in VIEWS and other in SIZED | ITERATORS) or (other in VIEWS and kind in SIZED | ITERATORS):
        raise ExpressionFault(
            f"an operator between {kind.__name__} and {other.__name__} is not supported",
            "write set(...) around both sides",
        )


def _true_divide(budget: Budget, left: Any, right: Any) -> None:
    if type(left) in _INTEGERS and type(right) in _INTEGERS:
        budget.work((left.bit_length() + right.bit_length()) >> 10)


def _power_of(left: Any, right: Any) -> Any:
    value = left**right
    if type(value) is complex:
        raise ExpressionFault(f"({left!r}) ** {right!r} is a complex number", "use abs(...) of the base")
    return value


BINARY: Final[dict[type[ast.operator], tuple[Operator, Charge, frozenset[type]]]] = {
    ast.Add: (operator.add, _add, _NO_INTEGERS),
    ast.Sub: (operator.sub, _subtract, _NO_INTEGERS),
    ast.Mult: (operator.mul, _multiply, _NO_INTEGERS),
    ast.Div: (operator.truediv, _true_divide, _NO_INTEGERS),
    ast.FloorDiv: (operator.floordiv, _divide, _NO_INTEGERS),
    ast.Mod: (operator.mod, _divide, _NO_INTEGERS),
    ast.Pow: (_power_of, _power, frozenset()),
    ast.LShift: (operator.lshift, _shift_left, frozenset()),
    ast.RShift: (operator.rshift, _integers, frozenset()),
    ast.BitAnd: (operator.and_, _bits, frozenset()),
    ast.BitOr: (operator.or_, _bits, frozenset()),
    ast.BitXor: (operator.xor, _bits, frozenset()),
}
"""Python's operator, what it costs, and the types for which, on both sides, it costs nothing to speak of."""


def charge_unary(budget: Budget, operand: Any) -> None:
    """Pays for a copy of a large integer: of `-x`, `+x` and `~x`."""
    if type(operand) is int and not -_SMALL < operand < _SMALL:
        budget.make(operand.bit_length() >> 3)


def _invert(operand: Any) -> Any:
    return ~int(operand) if type(operand) is bool else ~operand  # since 3.12 `~True` is the same, with a warning


UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: _invert,
    ast.Not: operator.not_,
}


# Comparisons


def _compared(plain: Operator) -> Callable[[Budget, Any, Any], Any]:
    def compare(budget: Budget, left: Any, right: Any) -> Any:
        if not (type(left) in SCALARS and type(right) in SCALARS):
            charge_comparison(budget, left, right)
        return plain(left, right)

    return compare


def contains(budget: Budget, wanted: Any, values: Any) -> bool:
    """`wanted in values`."""
    kind = type(values)
    if kind is str:
        if type(wanted) is str:
            charge_find(budget, values, wanted)
    elif kind in DICTS or kind is set or kind is DictKeys:
        charge_key(budget, wanted)
    elif kind in SEQUENCES or kind is DictValues:
        charge_search(budget, wanted, values)
    elif kind is DictItems:
        budget.work(weigh(budget, wanted).steps)
    elif kind is range:
        if type(wanted) not in _INTEGERS:
            budget.work(length(values) >> 2)
    elif kind in ITERATORS:
        values = _compared_in_turn(budget, wanted, values)
    return wanted in values


def _compared_in_turn(budget: Budget, wanted: Any, values: Any) -> Any:
    for value in metered(budget, values):
        charge_comparison(budget, value, wanted)
        yield value


def _contains_not(budget: Budget, wanted: Any, values: Any) -> bool:
    return not contains(budget, wanted, values)


def _is(budget: Budget, left: Any, right: Any) -> bool:
    if type(left) is Unknown or type(right) is Unknown:
        return bool(left == right)  # raises
    return left is right


def _is_not(budget: Budget, left: Any, right: Any) -> bool:
    return not _is(budget, left, right)


COMPARISONS: Final[dict[type[ast.cmpop], Callable[[Budget, Any, Any], Any]]] = {
    ast.Eq: _compared(operator.eq),
    ast.NotEq: _compared(operator.ne),
    ast.Lt: _compared(operator.lt),
    ast.LtE: _compared(operator.le),
    ast.Gt: _compared(operator.gt),
    ast.GtE: _compared(operator.ge),
    ast.In: contains,
    ast.NotIn: _contains_not,
    ast.Is: _is,
    ast.IsNot: _is_not,
}


def charge_find(budget: Budget, text: str, wanted: str, *, backwards: bool = False) -> None:
    """Pays for looking for one text in another.

    Forwards, CPython takes the two-way algorithm from some length on and is quadratic only below it (`fastsearch.h`:
    30,000 and 100 characters). Backwards it is quadratic at any length.
    """
    size, piece = len(text), min(len(wanted), len(text))
    budget.work((size >> 7) + (size * piece if backwards else min(size, 30_000) * min(piece, 100)) // 512)


# Subscripts


def item_of(budget: Budget, value: Any, index: Any) -> Any:
    """`value[index]`."""
    if type(value) in DICTS:
        charge_key(budget, index)
    return value[index]


def slice_of(budget: Budget, value: Any, lower: Any, upper: Any, step: Any) -> Any:
    """`value[lower:upper:step]`."""
    kind = type(value)
    if kind in SEQUENCES or kind is str:
        taken = len(range(*slice(lower, upper, step).indices(len(value))))
        budget.make(56 + taken * (8 if kind is not str else 1 if value.isascii() else 4))
        budget.work(taken >> (6 if kind is str else 4))
    elif kind in DICTS:  # since 3.12 a slice has a hash, and then this is a KeyError
        for end in (lower, upper, step):
            charge_key(budget, end)
    return value[lower:upper:step]
