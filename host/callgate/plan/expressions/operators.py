"""Operators. Each is paid for before Python's own operator runs. Knows types and sizes, no syntax.

Rules:

1. Nothing is computed here. Each function pays, then hands both operands to Python's own operator: value, error type
   and message are Python's.
2. For a pair of operands without a rule here, Python does little or raises TypeError.
3. Most operators make an integer about as long as both operands together; `_GROWING` has the others.
"""

from __future__ import annotations

import ast
import operator
import re
import sys
from collections.abc import Callable
from typing import Any, Final

from .budget import Budget, BudgetExceeded, ExpressionFault
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
)  # fmt: skip
from .weight import (
    charge_comparison,
    charge_float,
    charge_key,
    charge_keys_of,
    charge_search,
    charge_text,
    metered,
    weigh,
)  # fmt: skip

__all__ = [
    "BINARY", "COMPARISONS", "MODULO_HINT", "UNARY", "charge_find", "charge_unary", "formatted", "item_of", "joined",
    "slice_of",
]  # fmt: skip

Operator = Callable[[Any, Any], Any]
Charge = Callable[[Budget, Any, Any], None]

MODULO_HINT: Final = "write an f-string, like f'{x:.2f}'"
_INTEGERS: Final = frozenset[type]({int, bool})
_NO_INTEGERS: Final = frozenset[type]({float, bool})
_LIST_LIKE: Final = SEQUENCES | {str}
_SET_LIKE: Final = frozenset[type]({set, DictKeys})
_SMALL: Final = 1 << 64
_NUMBERS: Final = re.compile(r"\d+")
_MOST_DIGITS: Final = 4000


def _power_bits(base: int, exponent: int) -> int:
    return exponent * (abs(base) - 1).bit_length() + 1 if exponent > 0 and abs(base) > 1 else 1


_GROWING: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Mult: lambda left, right: left.bit_length() + right.bit_length(),
    ast.Pow: _power_bits,
    ast.LShift: lambda left, right: left.bit_length() + right if left and right > 0 else 1,
}
"""Bits of the result, for operators whose result may be longer than both operands together."""
_QUADRATIC: Final = (ast.Mult, ast.FloorDiv, ast.Mod)
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod)
_OF_SETS: Final = (ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor)


def _charge(which: type[ast.operator]) -> Charge:
    """Return the function that pays for an operator by the types and sizes of its operands."""
    growth = _GROWING.get(which)

    def charge(budget: Budget, left: Any, right: Any) -> None:
        kind, other = type(left), type(right)
        if kind in _INTEGERS and other in _INTEGERS:
            if growth is None and -_SMALL < left < _SMALL and -_SMALL < right < _SMALL:
                return
            bits, more = left.bit_length(), right.bit_length()
            made = growth(left, right) if growth else bits + more
            if growth:
                budget.integer(made)
            slow = made * made if which is ast.Pow else bits * more if which in _QUADRATIC else 0
            budget.work((slow >> 16) + (bits + more >> 10))
            budget.make(made >> 3)
        elif which is ast.Mult:
            value, times = (left, right) if kind in _LIST_LIKE else (right, left)
            if type(value) in _LIST_LIKE and type(times) in _INTEGERS and 0 < times <= sys.maxsize:
                # beyond, Python raises OverflowError, whatever the value
                budget.make(56 + (text_bytes(value) if type(value) is str else 8 * len(value)) * times)
                budget.work(len(value) * times >> 6)
        elif which is ast.Add and kind is other and kind in _LIST_LIKE:
            budget.make(56 + (text_bytes(left) + text_bytes(right) if kind is str else 8 * (len(left) + len(right))))
            budget.work(len(left) + len(right) >> (8 if kind is str else 4))
        elif which is ast.Mod and kind is str:
            raise ExpressionFault("`%` on a text is not supported", MODULO_HINT)
        elif which in _OF_SETS:
            _charge_tables(budget, left, right, which)

    return charge


def _charge_tables(budget: Budget, left: Any, right: Any, which: type[ast.operator]) -> None:
    kind, other = type(left), type(right)
    if (kind in _SET_LIKE and other in _SET_LIKE) or (kind in DICTS and other in DICTS and which is not ast.Sub):
        for value in (left, right):
            budget.make(100 * len(value))
            charge_keys_of(budget, value)
    elif (kind in VIEWS and other in SIZED | ITERATORS) or (other in VIEWS and kind in SIZED | ITERATORS):
        raise ExpressionFault(
            f"an operator between {kind.__name__} and {other.__name__} is not supported",
            "write set(...) around both sides",
        )


def _power_of(left: Any, right: Any) -> Any:
    value = left**right
    if type(value) is complex:
        raise ExpressionFault(f"({left!r}) ** {right!r} is a complex number", "use abs(...) of the base")
    return value


_APPLY: Final[dict[type[ast.operator], Operator]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power_of,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
BINARY: Final = {
    kind: (apply, _charge(kind), _NO_INTEGERS if kind in _ARITHMETIC else frozenset[type]())
    for kind, apply in _APPLY.items()
}
"""Python's operator, the function that pays, and the types that cost next to nothing on both sides."""


def charge_unary(budget: Budget, operand: Any) -> None:
    """Pay for the copy of a large integer that `-x`, `+x` and `~x` make."""
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
    """Return `wanted in values`."""
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
    """Pay for searching one text in another.

    Forwards, CPython takes the two-way algorithm from some length on and is quadratic only below it (`fastsearch.h`:
    30,000 and 100 characters). Backwards it is quadratic at any length.
    """
    size, piece = len(text), min(len(wanted), len(text))
    budget.work((size >> 7) + (size * piece if backwards else min(size, 30_000) * min(piece, 100)) // 512)


# Subscripts


def item_of(budget: Budget, value: Any, index: Any) -> Any:
    """Return `value[index]`."""
    if type(value) in DICTS:
        charge_key(budget, index)
    return value[index]


def slice_of(budget: Budget, value: Any, lower: Any, upper: Any, step: Any) -> Any:
    """Return `value[lower:upper:step]`."""
    kind = type(value)
    if kind in SEQUENCES or kind is str:
        taken = len(range(*slice(lower, upper, step).indices(len(value))))
        budget.make(56 + taken * (8 if kind is not str else 1 if value.isascii() else 4))
        budget.work(taken >> (6 if kind is str else 4))
    elif kind in DICTS:  # since 3.12 a slice has a hash, and then this is a KeyError
        for end in (lower, upper, step):
            charge_key(budget, end)
    return value[lower:upper:step]


# F-strings


def formatted(budget: Budget, value: Any, conversion: int, specification: str) -> str:
    """Return `f"{value!c:specification}"`; `conversion` is that of `ast.FormattedValue`.

    The specification is read only as far as to know how long the text will be.
    """
    if type(value) is not str or conversion in (97, 114):
        charge_text(budget, value)
    if conversion == 114:
        value = repr(value)
    elif conversion == 97:
        value = ascii(value)
    elif conversion == 115:
        value = str(value)
    if not specification:
        return value if type(value) is str else format(value)
    budget.work(len(specification) >> 6)
    charge_float(budget, value)
    width = 0
    for digits in _NUMBERS.findall(specification):  # width, precision, and perhaps the fill character
        if len(digits) > _MOST_DIGITS:
            raise BudgetExceeded("bytes", budget.bytes_allowed)
        if int(digits) <= sys.maxsize:  # beyond, Python raises ValueError
            width += int(digits)
    kind = type(value)
    text = text_bytes(value) if kind is str else value.bit_length() if kind is int else 0
    budget.work(width >> 4)
    budget.make(400 + text + width * (1 if specification.isascii() else 4))
    return format(value, specification)


def joined(budget: Budget, texts: list[str]) -> str:
    """Join the parts of an f-string."""
    if len(texts) == 1:
        return texts[0]
    budget.make(50 + sum(map(text_bytes, texts)))
    return "".join(texts)
