"""The functions an expression may call: what each may cost, paid before Python's own function runs.

Rules:

1. As with operators, nothing is computed here: Python's own function gets the arguments, also the wrong ones, and its
   words about them are passed on. An argument that no line here looks at costs nothing to speak of.
2. What is lazy stays lazy. An iterator is handed on wrapped in one that pays for each item as it is asked for, so that
   errors come in Python's order.
3. Keyword arguments are a closed list too, because a keyword is a way around the lines that look at the arguments.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from .budget import Budget
from .faults import BudgetExceeded, ExpressionFault
from .kinds import DICTS, ITERATORS, NUMBERS, SEQUENCES, SIZED, DictItems, length
from .operators import charge_unary
from .weight import Keys, charge_float, charge_keys_of, charge_sorting, charge_text, metered, types_in, weigh

__all__ = ["FUNCTIONS", "Arguments", "Call", "Function", "Options", "collected", "iterated"]

Arguments = list[Any]
Options = dict[str, Any]
Call = Callable[[Budget, Arguments, Options], Any]


@dataclass(frozen=True, slots=True)
class Function:
    """One function of the list."""

    call: Call
    keywords: frozenset[str] | None = frozenset()
    """Keyword arguments it takes; ``None`` for any."""
    takes_function: Literal["key", "first"] | None = None
    """Which argument is a function: the keyword `key`, or the first one."""


_BIG: Final = 1 << 63
_COUNTED_BITS: Final = 128
_LONG_NUMBER: Final = re.compile(r"(?<!\d)\d{4301}")
_DEFAULT_DIGITS: Final = 4300
_UNBOUNDED_BASES: Final = {0: 4, 2: 1, 4: 2, 8: 3, 16: 4, 32: 5}
"""Bases for which CPython does not bound the digits, and bits of a digit. Base 0 reads its own from the text."""


def iterated(budget: Budget, values: Any) -> Any:
    """The same, for a function of CPython that goes through it at once: paid for, or wrapped so that it will be."""
    kind = type(values)
    if kind in SIZED:
        budget.work(length(values) >> 3)
    elif kind in ITERATORS:
        return metered(budget, values)
    return values


def collected(budget: Budget, values: Any) -> Any:
    """The same as `iterated`, for a function that keeps every item in a new list or tuple."""
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


def _wrapped(budget: Budget, values: Any) -> Any:
    """The same, for a function that will go through it later."""
    return metered(budget, values) if type(values) in SIZED or type(values) in ITERATORS else values


def _plain(function: Callable[..., Any]) -> Call:
    def call(budget: Budget, arguments: Arguments, options: Options) -> Any:
        return function(*arguments, **options)

    return call


def _collection(make: Callable[..., Any]) -> Call:
    def call(budget: Budget, arguments: Arguments, options: Options) -> Any:
        return make(*(collected(budget, argument) for argument in arguments[:1]), *arguments[1:])

    return call


def _set(budget: Budget, arguments: Arguments, options: Options) -> Any:
    if len(arguments) == 1 and (type(arguments[0]) in SIZED or type(arguments[0]) in ITERATORS):
        (values,) = arguments
        if type(values) not in ITERATORS and length(values) < 1 << 20:
            budget.make(200 + 64 * length(values))
            kinds = types_in(budget, values)
            if kinds <= {str, float} or (kinds == {int} and min(values) > -_BIG >> 3 and max(values) < _BIG >> 3):
                return set(values)
        return set(Keys(budget).paying(values))
    return set(*arguments)


def _dict(budget: Budget, arguments: Arguments, options: Options) -> Any:
    if len(arguments) == 1:
        (values,) = arguments
        if type(values) in DICTS:
            budget.make(200 + 100 * len(values))
            charge_keys_of(budget, values)
        elif type(values) in SIZED or type(values) in ITERATORS:
            return dict(Keys(budget).paying_for_pairs(values), **options)
    return dict(*arguments, **options)


def _str(budget: Budget, arguments: Arguments, options: Options) -> Any:
    if len(arguments) == 1 and type(arguments[0]) is not str:
        charge_text(budget, arguments[0])
    return str(*arguments)


def _int(budget: Budget, arguments: Arguments, options: Options) -> Any:
    if arguments and type(arguments[0]) is str:
        base = arguments[1] if len(arguments) > 1 else options.get("base", 10)
        _charge_digits(budget, arguments[0])
        if type(base) is int and base in _UNBOUNDED_BASES:
            budget.integer(len(arguments[0]) * _UNBOUNDED_BASES[base])
    return int(*arguments, **options)


def _float(budget: Budget, arguments: Arguments, options: Options) -> Any:
    if arguments and type(arguments[0]) is str:
        budget.work(4 + (len(arguments[0]) >> 4))
        charge_text(budget, arguments[0])
    return float(*arguments)


def _charge_digits(budget: Budget, text: str) -> None:
    """Each run of digits is an integer of at most 4,300 digits, and reading one is quadratic."""
    budget.work(len(text) >> 4)
    budget.make(4 * len(text))
    if not 0 < sys.get_int_max_str_digits() <= _DEFAULT_DIGITS and _LONG_NUMBER.search(text.replace("_", "")):
        raise BudgetExceeded("integer_bits", budget.integer_bits)  # the host has lifted CPython's own limit


def _abs(budget: Budget, arguments: Arguments, options: Options) -> Any:
    for number in arguments:
        charge_unary(budget, number)
    return abs(*arguments)


def _range(budget: Budget, arguments: Arguments, options: Options) -> Any:
    for number in arguments:
        _refuse_large(number)
    return range(*arguments)


def _refuse_large(number: Any) -> None:
    """Counting makes an integer of this length each time."""
    if type(number) is int and number.bit_length() > _COUNTED_BITS:
        message = f"counting with a number of {number.bit_length():,} bits is not supported"
        raise ExpressionFault(message, f"use numbers of at most {_COUNTED_BITS} bits")


def _round(budget: Budget, arguments: Arguments, options: Options) -> Any:
    digits = arguments[1] if len(arguments) > 1 else options.get("ndigits")
    for number in arguments[:1]:
        charge_unary(budget, number)
        if digits is not None:
            charge_float(budget, number)
    if type(digits) is int and digits < 0 and arguments and type(arguments[0]) is int:
        budget.integer(-digits * 4)  # CPython computes 10 ** -digits
        budget.work((digits >> 3) ** 2 >> 8)
    return round(*arguments, **options)


def _sum(budget: Budget, arguments: Arguments, options: Options) -> Any:
    if arguments:
        values = arguments[0]
        start = arguments[1] if len(arguments) > 1 else options.get("start", 0)
        if type(values) in ITERATORS or (type(values) in SIZED and not _plain_numbers(budget, values, start)):
            return sum(_addends(budget, values, start), *arguments[1:], **options)
    return sum(*arguments, **options)


def _plain_numbers(budget: Budget, values: Any, start: Any) -> bool:
    if type(start) not in NUMBERS or not _all_numbers(budget, values):
        return False
    budget.work(weigh(budget, values).steps >> 3)
    return type(values) is range or not values or (min(values) > -_BIG and max(values) < _BIG)


def _addends(budget: Budget, values: Any, start: Any) -> Iterator[Any]:
    """The items one by one; adding each to what is there already is paid for."""
    size = len(start) if type(start) in SEQUENCES else 0
    for value in metered(budget, values):
        if type(value) is int:
            budget.work(value.bit_length() >> 12)
            budget.make(value.bit_length() >> 3)
        elif type(value) in SEQUENCES:
            size += len(value)
            budget.make(56 + 8 * size)
        yield value


def _extreme(function: Callable[..., Any]) -> Call:
    def call(budget: Budget, arguments: Arguments, options: Options) -> Any:
        key = options.get("key")
        if key is not None:

            def weighed(item: Any) -> Any:
                value = key(item)
                if type(value) not in NUMBERS:
                    _charge_weight(budget, value)
                return value

            options["key"] = weighed
            if len(arguments) == 1:
                return function(iterated(budget, arguments[0]), **options)
        elif len(arguments) == 1:
            values = arguments[0]
            if type(values) in ITERATORS:
                return function(_weighed(budget, values), **options)
            if type(values) in SIZED:
                budget.work(length(values) >> 3)
                _charge_weight(budget, values)
        else:
            _charge_weight(budget, arguments)
        return function(*arguments, **options)

    return call


def _all_numbers(budget: Budget, values: Any) -> bool:
    if type(values) is range:
        budget.work(length(values) >> 3)
        return True
    return types_in(budget, values) <= NUMBERS


def _weighed(budget: Budget, values: Any) -> Iterator[Any]:
    for value in metered(budget, values):
        if type(value) not in NUMBERS:
            _charge_weight(budget, value)
        yield value


def _charge_weight(budget: Budget, value: Any) -> None:
    """Pays for comparing a value, or each item of a container, with one other."""
    budget.work(weigh(budget, value).steps >> 3)


def _sorted(budget: Budget, arguments: Arguments, options: Options) -> Any:
    if len(arguments) != 1 or not (type(arguments[0]) in SIZED or type(arguments[0]) in ITERATORS):
        return sorted(*arguments, **options)
    items = keys = list(collected(budget, arguments[0]))
    budget.make(8 * len(items))
    key = options.pop("key", None)
    if key is not None:
        keys = [key(item) for item in items]
        given = iter(keys)
        options["key"] = lambda _item: next(given)  # `sorted` asks once for each item, in order
    charge_sorting(budget, keys)
    return sorted(items, **options)


def _truth(function: Callable[[Any], bool]) -> Call:
    def call(budget: Budget, arguments: Arguments, options: Options) -> Any:
        return function(*(_wrapped(budget, argument) for argument in arguments))

    return call


def _enumerate(budget: Budget, arguments: Arguments, options: Options) -> Any:
    for start in [*arguments[1:], *options.values()]:
        _refuse_large(start)
    return enumerate(*(_wrapped(budget, argument) for argument in arguments[:1]), *arguments[1:], **options)


def _zip(budget: Budget, arguments: Arguments, options: Options) -> Any:
    strict = options.get("strict", False)
    return zip(*(_wrapped(budget, argument) for argument in arguments), strict=strict)


def _map(budget: Budget, arguments: Arguments, options: Options) -> Any:
    return map(*arguments[:1], *(_wrapped(budget, argument) for argument in arguments[1:]))


def _filter(budget: Budget, arguments: Arguments, options: Options) -> Any:
    return filter(*arguments[:1], *(_wrapped(budget, argument) for argument in arguments[1:]))


def _dumps(budget: Budget, arguments: Arguments, options: Options) -> Any:
    indent = options.get("indent")
    deep = len(indent) if type(indent) is str else max(0, indent) if isinstance(indent, int) else 0
    separators: Any = options.get("separators")
    between = sum(map(_length_of_text, separators)) if type(separators) in SEQUENCES else 2
    for argument in arguments[:1]:
        charge_text(budget, argument, json=True, separator=between, indent=deep)
        if options.get("sort_keys"):
            budget.work(weigh(budget, argument).steps * 8)
        if indent is not None:  # written by generators, one in the other for each level
            budget.work(weigh(budget, argument).steps * 16)
    return json.dumps(*arguments, **options)


def _length_of_text(text: Any) -> int:
    return len(text) if type(text) is str else 0


def _loads(budget: Budget, arguments: Arguments, options: Options) -> Any:
    for text in arguments[:1]:
        if type(text) is str:
            _charge_digits(budget, text)
            parts = sum(map(text.count, ",[{:"))
            budget.work(parts >> 1)
            budget.make(80 * parts)
    return json.loads(*arguments)


FUNCTIONS: Final[dict[str, Function]] = {
    "abs": Function(_abs),
    "all": Function(_truth(all)),
    "any": Function(_truth(any)),
    "bool": Function(_plain(bool)),
    "dict": Function(_dict, keywords=None),
    "enumerate": Function(_enumerate, frozenset({"start"})),
    "filter": Function(_filter, takes_function="first"),
    "float": Function(_float),
    "int": Function(_int, frozenset({"base"})),
    "len": Function(_plain(len)),
    "list": Function(_collection(list)),
    "map": Function(_map, takes_function="first"),
    "max": Function(_extreme(max), frozenset({"key", "default"}), takes_function="key"),
    "min": Function(_extreme(min), frozenset({"key", "default"}), takes_function="key"),
    "range": Function(_range),
    "reversed": Function(_plain(reversed)),
    "round": Function(_round, frozenset({"ndigits"})),
    "set": Function(_set),
    "sorted": Function(_sorted, frozenset({"key", "reverse"}), takes_function="key"),
    "str": Function(_str),
    "sum": Function(_sum, frozenset({"start"})),
    "tuple": Function(_collection(tuple)),
    "zip": Function(_zip, frozenset({"strict"})),
    "json.dumps": Function(
        _dumps, frozenset({"allow_nan", "ensure_ascii", "indent", "separators", "skipkeys", "sort_keys"})
    ),
    "json.loads": Function(_loads),
}
"""Every function there is, by the name it is called by."""
