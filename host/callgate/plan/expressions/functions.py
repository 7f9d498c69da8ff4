"""The functions that an expression may call. Each call is paid for before Python's own function runs.

Rules:

1. Nothing is computed here: Python's own function gets the arguments, also wrong ones, and its messages are passed on.
   An argument that no rule looks at costs next to nothing.
2. Lazy stays lazy: an iterator is wrapped in one that pays for each item on demand, so that errors come in Python's
   order.
3. Keyword arguments are a closed list too: a keyword could pass an argument by the rules.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from .budget import Budget, BudgetExceeded, ExpressionFault
from .kinds import DICTS, ITERATORS, NUMBERS, SEQUENCES, SIZED, DictItems, length
from .operators import charge_unary
from .weight import Keys, charge_float, charge_keys_of, charge_sorting, charge_text, metered, types_in, weigh

__all__ = ["FUNCTIONS", "Arguments", "Function", "Options", "collected", "iterated"]

Arguments = list[Any]
Options = dict[str, Any]
Rule = Callable[[Budget, Arguments, Options], None]
"""Pays for a call; may replace an argument."""


@dataclass(frozen=True, slots=True)
class Function:
    """A listed function."""

    call: Callable[[Budget, Arguments, Options], Any]
    """Pays, then calls Python's own function."""
    keywords: frozenset[str] | None = frozenset()
    """Keyword arguments that the function takes; ``None``: any."""
    takes_function: Literal["key", "first"] | None = None
    """Which argument is a function: the keyword `key`, or the first argument."""


_BIG: Final = 1 << 63
_COUNTED_BITS: Final = 128
_LONG_NUMBER: Final = re.compile(r"(?<!\d)\d{4301}")
_DEFAULT_DIGITS: Final = 4300
_UNBOUNDED_BASES: Final = {0: 4, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5}
"""Bases for which CPython does not bound the digits, and bits of a digit. Base 0 reads its own from the text."""


def iterated(budget: Budget, values: Any) -> Any:
    """Pay for items that a function of CPython goes through at once; an iterator is wrapped to pay on demand."""
    kind = type(values)
    if kind in SIZED:
        budget.work(length(values) >> 3)
    elif kind in ITERATORS:
        return metered(budget, values)
    return values


def collected(budget: Budget, values: Any) -> Any:
    """Pay like `iterated`, and for a new list or tuple that keeps every item."""
    kind = type(values)
    if kind in SIZED:
        size = length(values)
        budget.work(size >> 3)
        each = 40 if kind is range else 80 if kind is DictItems else 90 if kind is str and not values.isascii() else 8
        budget.make(56 + each * size)
    elif kind in ITERATORS:
        return _kept(budget, values)
    return values


def _kept(budget: Budget, values: Iterable[Any]) -> Iterator[Any]:
    for value in metered(budget, values):
        budget.make(100 + 8 * len(value) if type(value) is tuple else 100)
        yield value


def _free(budget: Budget, arguments: Arguments, options: Options) -> None:
    pass


def _wrapped(budget: Budget, arguments: Arguments, options: Options) -> None:
    """Wrap arguments that Python goes through later, so that each item is paid for then."""
    for place, values in enumerate(arguments):
        if type(values) in SIZED or type(values) in ITERATORS:
            arguments[place] = metered(budget, values)


def _collected(budget: Budget, arguments: Arguments, options: Options) -> None:
    arguments[:1] = (collected(budget, values) for values in arguments[:1])


def _set(budget: Budget, arguments: Arguments, options: Options) -> None:
    if len(arguments) == 1 and (type(arguments[0]) in SIZED or type(arguments[0]) in ITERATORS):
        (values,) = arguments
        if type(values) not in ITERATORS and length(values) < 1 << 20:
            budget.make(200 + 64 * length(values))
            kinds = types_in(budget, values)
            if kinds <= {str, float} or (kinds == {int} and min(values) > -_BIG >> 3 and max(values) < _BIG >> 3):
                return
        arguments[0] = Keys(budget).paying(values)


def _dict(budget: Budget, arguments: Arguments, options: Options) -> None:
    if len(arguments) == 1:
        (values,) = arguments
        if type(values) in DICTS:
            budget.make(200 + 100 * len(values))
            charge_keys_of(budget, values)
        elif type(values) in SIZED or type(values) in ITERATORS:
            arguments[0] = Keys(budget).paying_for_pairs(values)


def _str(budget: Budget, arguments: Arguments, options: Options) -> None:
    if len(arguments) == 1 and type(arguments[0]) is not str:
        charge_text(budget, arguments[0])


def _int(budget: Budget, arguments: Arguments, options: Options) -> None:
    if arguments and type(arguments[0]) is str:
        base = arguments[1] if len(arguments) > 1 else options.get("base", 10)
        _charge_digits(budget, arguments[0])
        if type(base) is int and base in _UNBOUNDED_BASES:
            budget.integer(len(arguments[0]) * _UNBOUNDED_BASES[base])


def _float(budget: Budget, arguments: Arguments, options: Options) -> None:
    if arguments and type(arguments[0]) is str:
        budget.work(4 + (len(arguments[0]) >> 4))
        charge_text(budget, arguments[0])


def _charge_digits(budget: Budget, text: str) -> None:
    """Pay for reading numbers: each has at most 4,300 digits, and reading one is quadratic."""
    budget.work(len(text) >> 4)
    budget.make(4 * len(text))
    if not 0 < sys.get_int_max_str_digits() <= _DEFAULT_DIGITS and _LONG_NUMBER.search(text.replace("_", "")):
        raise BudgetExceeded("integer_bits", budget.integer_bits)  # the host has lifted CPython's own limit


def _abs(budget: Budget, arguments: Arguments, options: Options) -> None:
    for number in arguments:
        charge_unary(budget, number)


def _range(budget: Budget, arguments: Arguments, options: Options) -> None:
    for number in arguments:
        _refuse_large(number)


def _refuse_large(number: Any) -> None:
    """Refuse to count with a large number: each step would make an integer of its length."""
    if type(number) is int and number.bit_length() > _COUNTED_BITS:
        message = f"counting with a number of {number.bit_length():,} bits is not supported"
        raise ExpressionFault(message, f"use numbers of at most {_COUNTED_BITS} bits")


def _round(budget: Budget, arguments: Arguments, options: Options) -> None:
    digits = arguments[1] if len(arguments) > 1 else options.get("ndigits")
    for number in arguments[:1]:
        charge_unary(budget, number)
        if digits is not None:
            charge_float(budget, number)
    if type(digits) is int and digits < 0 and arguments and type(arguments[0]) is int:
        budget.integer(-digits * 4)  # CPython computes 10 ** -digits
        budget.work((digits >> 3) ** 2 >> 8)


def _sum(budget: Budget, arguments: Arguments, options: Options) -> None:
    if arguments:
        values = arguments[0]
        start = arguments[1] if len(arguments) > 1 else options.get("start", 0)
        if type(values) in ITERATORS or (type(values) in SIZED and not _plain_numbers(budget, values, start)):
            arguments[0] = _addends(budget, values, start)


def _plain_numbers(budget: Budget, values: Any, start: Any) -> bool:
    if type(start) not in NUMBERS or (type(values) is not range and not types_in(budget, values) <= NUMBERS):
        return False
    budget.work((length(values) if type(values) is range else weigh(budget, values).steps) >> 3)
    return type(values) is range or not values or (min(values) > -_BIG and max(values) < _BIG)


def _addends(budget: Budget, values: Any, start: Any) -> Iterator[Any]:
    """Return the items one by one; each pays for adding it to the sum so far."""
    size = len(start) if type(start) in SEQUENCES else 0
    for value in metered(budget, values):
        if type(value) is int:
            budget.work(value.bit_length() >> 12)
            budget.make(value.bit_length() >> 3)
        elif type(value) in SEQUENCES:
            size += len(value)
            budget.make(56 + 8 * size)
        yield value


def _extreme(budget: Budget, arguments: Arguments, options: Options) -> None:
    key = options.get("key")
    if key is not None:

        def weighed(item: Any) -> Any:
            value = key(item)
            _look_at(budget, value)
            return value

        options["key"] = weighed
        if len(arguments) == 1:
            arguments[0] = iterated(budget, arguments[0])
    elif len(arguments) > 1:
        _look_at(budget, arguments)
    elif arguments and type(arguments[0]) in ITERATORS:
        arguments[0] = _weighed(budget, arguments[0])
    elif arguments and type(arguments[0]) in SIZED:
        budget.work(length(arguments[0]) >> 3)
        _look_at(budget, arguments[0])


def _weighed(budget: Budget, values: Any) -> Iterator[Any]:
    for value in metered(budget, values):
        _look_at(budget, value)
        yield value


def _look_at(budget: Budget, value: Any) -> None:
    """Pay for comparing a value, or each item of a container, with one other."""
    if type(value) not in NUMBERS:
        budget.work(weigh(budget, value).steps >> 3)


def _sorted(budget: Budget, arguments: Arguments, options: Options) -> None:
    if len(arguments) != 1 or not (type(arguments[0]) in SIZED or type(arguments[0]) in ITERATORS):
        return
    items = keys = arguments[0] = list(collected(budget, arguments[0]))
    budget.make(8 * len(items))
    key = options.pop("key", None)
    if key is not None:
        keys = [key(item) for item in items]
        given = iter(keys)
        options["key"] = lambda _item: next(given)  # `sorted` asks once for each item, in order
    charge_sorting(budget, keys)


def _enumerate(budget: Budget, arguments: Arguments, options: Options) -> None:
    for start in [*arguments[1:], *options.values()]:
        _refuse_large(start)
    first = arguments[:1]
    _wrapped(budget, first, options)
    arguments[:1] = first


def _dumps(budget: Budget, arguments: Arguments, options: Options) -> None:
    indent = options.get("indent")
    deep = len(indent) if type(indent) is str else max(0, indent) if isinstance(indent, int) else 0
    separators: Any = options.get("separators")
    between = sum(map(_length_of_text, separators)) if type(separators) in SEQUENCES else 2
    for argument in arguments[:1]:
        charge_text(budget, argument, json=True, separator=between, indent=deep)
        # with an indent it is written by generators, one in the other for each level
        again = 8 * bool(options.get("sort_keys")) + 16 * (indent is not None)
        if again:
            budget.work(weigh(budget, argument).steps * again)


def _length_of_text(text: Any) -> int:
    return len(text) if type(text) is str else 0


def _loads(budget: Budget, arguments: Arguments, options: Options) -> None:
    for text in arguments[:1]:
        if type(text) is str:
            _charge_digits(budget, text)
            parts = sum(map(text.count, ",[{:"))
            budget.work(parts >> 1)
            budget.make(80 * parts)


def _function(
    native: Callable[..., Any],
    rule: Rule = _free,
    keywords: str | None = "",
    takes_function: Literal["key", "first"] | None = None,
) -> Function:
    def call(budget: Budget, arguments: Arguments, options: Options) -> Any:
        rule(budget, arguments, options)
        return native(*arguments, **options)

    return Function(call, None if keywords is None else frozenset(keywords.split()), takes_function)


FUNCTIONS: Final[dict[str, Function]] = {
    "abs": _function(abs, _abs),
    "all": _function(all, _wrapped),
    "any": _function(any, _wrapped),
    "bool": _function(bool),
    "dict": _function(dict, _dict, None),
    "enumerate": _function(enumerate, _enumerate, "start"),
    "filter": _function(filter, _wrapped, takes_function="first"),
    "float": _function(float, _float),
    "int": _function(int, _int, "base"),
    "len": _function(len),
    "list": _function(list, _collected),
    "map": _function(map, _wrapped, takes_function="first"),
    "max": _function(max, _extreme, "key default", "key"),
    "min": _function(min, _extreme, "key default", "key"),
    "range": _function(range, _range),
    "reversed": _function(reversed),
    "round": _function(round, _round, "ndigits"),
    "set": _function(set, _set),
    "sorted": _function(sorted, _sorted, "key reverse", "key"),
    "str": _function(str, _str),
    "sum": _function(sum, _sum, "start"),
    "tuple": _function(tuple, _collected),
    "zip": _function(zip, _wrapped, "strict"),
    "json.dumps": _function(json.dumps, _dumps, "allow_nan ensure_ascii indent separators skipkeys sort_keys"),
    "json.loads": _function(json.loads, _loads),
}
"""Every function, by the name it is called by."""
