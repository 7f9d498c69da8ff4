"""The methods that an expression may call, by name and exact type of the receiver. Each call is paid for first.

Python's own method gets the arguments, as in `functions`. Methods that change their receiver are not listed, nor is
`str.format`, which reads attributes by text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from .budget import Budget
from .functions import Arguments, Options, collected
from .kinds import ITERATORS, SIZED, Record, text_bytes
from .operators import charge_find
from .weight import charge_key, charge_search, charge_text, types_in

__all__ = ["METHODS", "METHOD_KEYWORDS", "REFUSED_METHODS", "Method"]

Method = Callable[[Budget, Any, Arguments, Options], Any]
Rule = Callable[[Budget, Any, Arguments, Options], None]
"""Pays for a method call; may replace an argument."""

_SPACES: Final = "".join(filter(str.isspace, map(chr, range(0x3001))))
_LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_ASCII_SPACES: Final = "".join(filter(str.isascii, _SPACES))
_PIECE: Final = 80
"""Bytes of a short text, and of its place in a list."""


def _free(budget: Budget, value: Any, arguments: Arguments, options: Options) -> None:
    pass


# Texts


def _made(budget: Budget, text: str, arguments: Arguments, options: Options, *, slowly: bool = False) -> None:
    """Pay for a text of about the same length; upper or lower case turns some characters into three."""
    budget.make(50 + text_bytes(text) * (1 if text.isascii() else 3))
    budget.work(len(text) >> (8 if text.isascii() and not slowly else 4))


def _looked_at(budget: Budget, text: str, arguments: Arguments, options: Options) -> None:
    budget.work(len(text) >> 6)


def _stripped(budget: Budget, text: str, arguments: Arguments, options: Options) -> None:
    budget.make(50 + text_bytes(text))
    if arguments and type(arguments[0]) is str:
        budget.work(len(text) * len(arguments[0]) >> 9)


def _padded(budget: Budget, text: str, arguments: Arguments, options: Options) -> None:
    width = arguments[0] if arguments and type(arguments[0]) is int else 0
    if width <= sys.maxsize:  # beyond, Python raises OverflowError
        wide = not text.isascii() or any(type(fill) is str and not fill.isascii() for fill in arguments[1:])
        budget.make(50 + max(width, len(text)) * (4 if wide else 1))


def _found(
    budget: Budget, text: str, arguments: Arguments, options: Options, *, backwards: bool = False, pieces: bool = False
) -> None:
    """Pay for searching a text; with `pieces`, also for the parts around the match."""
    if arguments and type(arguments[0]) is str:
        charge_find(budget, text, arguments[0], backwards=backwards)
        if pieces:
            budget.make(150 + text_bytes(text))


def _fringed(budget: Budget, text: str, arguments: Arguments, options: Options) -> None:
    several = len(arguments[0]) if arguments and type(arguments[0]) is tuple else 1
    budget.work(several * (1 + (len(text) >> 8)) - 1)


def _replaced(budget: Budget, text: str, arguments: Arguments, options: Options) -> None:
    if len(arguments) > 1 and type(arguments[0]) is str and type(arguments[1]) is str:
        old, new = arguments[:2]
        charge_find(budget, text, old)
        times = text.count(old)
        if len(arguments) > 2 and type(arguments[2]) is int and arguments[2] >= 0:
            times = min(times, arguments[2])
        size = len(text) + times * max(0, len(new) - len(old))
        budget.make(50 + size * (1 if text.isascii() and new.isascii() else 4))
        budget.work(times >> 3)


def _split(
    budget: Budget, text: str, arguments: Arguments, options: Options, *, backwards: bool = False, lines: bool = False
) -> None:
    separator = arguments[0] if arguments else options.get("sep")
    budget.make(56 + text_bytes(text))
    if lines or separator is None:
        between = _LINE_ENDS if lines else _ASCII_SPACES if text.isascii() else _SPACES
        budget.work(len(text) * len(between) >> 10)
        budget.make(_PIECE * (1 + sum(map(text.count, between))))
    elif type(separator) is str and separator:
        charge_find(budget, text, separator, backwards=backwards)
        budget.make(_PIECE * (text.count(separator) + 1))


def _joined(budget: Budget, text: str, arguments: Arguments, options: Options) -> None:
    if len(arguments) != 1 or not (type(arguments[0]) in SIZED or type(arguments[0]) in ITERATORS):
        return
    pieces = arguments[0] = list(collected(budget, arguments[0]))  # what `join` itself begins with
    types_in(budget, pieces)
    texts = [piece for piece in pieces if type(piece) is str]
    wide = not (text.isascii() and all(map(str.isascii, texts)))
    budget.make(50 + (len(text) * len(pieces) + sum(map(len, texts))) * (4 if wide else 1))


# Containers


def _got(budget: Budget, value: Any, arguments: Arguments, options: Options) -> None:
    if arguments:
        charge_key(budget, arguments[0])


def _copied(budget: Budget, value: Any, arguments: Arguments, options: Options) -> None:
    budget.make(200 + (8 if type(value) is list else 100) * len(value))
    budget.work(len(value) >> 4)


def _searched(budget: Budget, value: Any, arguments: Arguments, options: Options, *, quoted: bool = False) -> None:
    if arguments:
        charge_search(budget, arguments[0], value)
        if quoted:
            charge_text(budget, arguments[0])  # Python's message quotes it


def _rules() -> list[tuple[tuple[type, ...], Rule, str]]:
    backwards = partial(_found, backwards=True)
    return [
        ((str,), _made, "casefold lower removeprefix removesuffix upper"),
        ((str,), partial(_made, slowly=True), "capitalize swapcase title"),
        ((str,), _looked_at, "isalnum isalpha isdigit isspace"),
        ((str,), _stripped, "lstrip rstrip strip"),
        ((str,), _padded, "center ljust rjust zfill"),
        ((str,), _fringed, "endswith startswith"),
        ((str,), _found, "count find index"),
        ((str,), backwards, "rfind"),
        ((str,), partial(_found, pieces=True), "partition"),
        ((str,), partial(backwards, pieces=True), "rpartition"),
        ((str,), _replaced, "replace"),
        ((str,), _split, "split"),
        ((str,), partial(_split, backwards=True), "rsplit"),
        ((str,), partial(_split, lines=True), "splitlines"),
        ((str,), _joined, "join"),
        ((list, tuple), _searched, "count"),
        ((list, tuple), partial(_searched, quoted=True), "index"),
        ((list, set, dict, Record), _copied, "copy"),
        ((dict, Record), _got, "get"),
        ((dict, Record), _free, "items keys values"),
    ]


def _priced(native: Callable[..., Any], rule: Rule) -> Method:
    def call(budget: Budget, value: Any, arguments: Arguments, options: Options) -> Any:
        rule(budget, value, arguments, options)
        return native(value, *arguments, **options)

    return call


def _own(name: str) -> Callable[..., Any]:
    """Return a record's method, which a field of that name may hide."""
    return lambda record, *arguments: getattr(record, name)(*arguments)


def _by_name() -> dict[str, dict[type, Method]]:
    table: dict[str, dict[type, Method]] = {}
    for kinds, rule, names in _rules():
        for name in names.split():
            for kind in kinds:
                table.setdefault(name, {})[kind] = _priced(_own(name) if kind is Record else getattr(kind, name), rule)
    return table


METHODS: Final = _by_name()
"""Method by name, then by the receiver's exact type."""

METHOD_KEYWORDS: Final[dict[str, frozenset[str]]] = {
    "rsplit": frozenset({"sep", "maxsplit"}),
    "split": frozenset({"sep", "maxsplit"}),
    "splitlines": frozenset({"keepends"}),
}

_CHANGES: Final = "it changes its object, and an expression changes nothing; "
REFUSED_METHODS: Final[dict[str, str]] = {
    "format": "write an f-string, like f'{name}: {x:.2f}'",
    "format_map": "write an f-string, like f'{name}: {x:.2f}'",
    "encode": "an expression has no bytes; use the text itself",
    "append": _CHANGES + "write values + [item]",
    "extend": _CHANGES + "write values + more",
    "insert": _CHANGES + "write values[:i] + [item] + values[i:]",
    "remove": _CHANGES + "write [x for x in values if x != item]",
    "sort": _CHANGES + "write sorted(values)",
    "reverse": _CHANGES + "write values[::-1]",
    "pop": _CHANGES + "write values[-1] or values[:-1]",
    "clear": _CHANGES + "write [] or {}",
    "update": _CHANGES + "write {**values, **more}",
    "setdefault": _CHANGES + "write values.get(key, default)",
    "popitem": _CHANGES + "write list(values.items())[-1]",
    "add": _CHANGES + "write values | {item}",
    "discard": _CHANGES + "write values - {item}",
    "union": "write values | more",
    "intersection": "write values & more",
    "difference": "write values - more",
    "symmetric_difference": "write values ^ more",
    "issubset": "write values <= more",
    "issuperset": "write values >= more",
    "isnumeric": "use isdigit",
    "isdecimal": "use isdigit",
    "isupper": "write text == text.upper()",
    "islower": "write text == text.lower()",
}
"""Methods that models try, and what to write instead."""
