"""The methods an expression may call, by name and by exact type of the receiver, and what each may cost.

Python's own method gets the arguments, as in `functions`. A name that is missing here is not a method; a method that
changes its receiver is not listed, and neither is `str.format`, which reads attributes by text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from .budget import Budget
from .functions import Arguments, Options, collected
from .kinds import ITERATORS, SIZED, Record, text_bytes
from .operators import charge_find
from .weight import charge_key, charge_search, charge_text, types_in

__all__ = ["METHODS", "METHOD_KEYWORDS", "REFUSED_METHODS", "Method"]

Method = Callable[[Budget, Any, Arguments, Options], Any]
Native = Callable[..., Any]

_SPACES: Final = "".join(filter(str.isspace, map(chr, range(0x3001))))
_LINE_ENDS: Final = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
_ASCII_SPACES: Final = "".join(filter(str.isascii, _SPACES))
_PIECE: Final = 80
"""Bytes of a short text, and of its place in a list."""


def _free(native: Native) -> Method:
    def call(budget: Budget, value: Any, arguments: Arguments, options: Options) -> Any:
        return native(value, *arguments, **options)

    return call


def _made(native: Native) -> Method:
    """Makes a text about as long; upper and lower case of some characters are up to three."""

    def call(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
        budget.make(50 + text_bytes(text) * (1 if text.isascii() else 3))
        budget.work(len(text) >> (8 if text.isascii() else 4))
        return native(text, *arguments, **options)

    return call


def _looked_at(native: Native) -> Method:
    def call(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
        budget.work(len(text) >> 6)
        return native(text, *arguments, **options)

    return call


def _stripped(native: Native) -> Method:
    def call(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
        budget.make(50 + text_bytes(text))
        if arguments and type(arguments[0]) is str:
            budget.work(len(text) * len(arguments[0]) >> 9)
        return native(text, *arguments)

    return call


def _padded(native: Native) -> Method:
    def call(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
        width = arguments[0] if arguments and type(arguments[0]) is int else 0
        if width <= sys.maxsize:  # beyond, Python raises OverflowError
            wide = not text.isascii() or any(type(fill) is str and not fill.isascii() for fill in arguments[1:])
            budget.make(50 + max(width, len(text)) * (4 if wide else 1))
        return native(text, *arguments)

    return call


def _found(native: Native, *, backwards: bool = False) -> Method:
    def call(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
        if arguments and type(arguments[0]) is str:
            charge_find(budget, text, arguments[0], backwards=backwards)
        return native(text, *arguments)

    return call


def _fringed(native: Native) -> Method:
    def call(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
        if arguments and type(arguments[0]) is tuple:
            budget.work(len(arguments[0]) * (1 + (len(text) >> 8)))
        else:
            budget.work(len(text) >> 8)
        return native(text, *arguments)

    return call


def _partitioned(native: Native, *, backwards: bool = False) -> Method:
    def call(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
        if arguments and type(arguments[0]) is str:
            charge_find(budget, text, arguments[0], backwards=backwards)
            budget.make(150 + text_bytes(text))
        return native(text, *arguments)

    return call


def _replaced(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
    if len(arguments) > 1 and type(arguments[0]) is str and type(arguments[1]) is str:
        old, new = arguments[:2]
        charge_find(budget, text, old)
        times = text.count(old)
        if len(arguments) > 2 and type(arguments[2]) is int and arguments[2] >= 0:
            times = min(times, arguments[2])
        size = len(text) + times * max(0, len(new) - len(old))
        budget.make(50 + size * (1 if text.isascii() and new.isascii() else 4))
        budget.work(times >> 3)
    return str.replace(text, *arguments)


def _split(native: Native, *, backwards: bool = False) -> Method:
    def call(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
        separator = arguments[0] if arguments else options.get("sep")
        budget.make(56 + text_bytes(text))
        if type(separator) is str and separator:
            charge_find(budget, text, separator, backwards=backwards)
            budget.make(_PIECE * (text.count(separator) + 1))
        elif separator is None:
            _charge_pieces(budget, text, _ASCII_SPACES if text.isascii() else _SPACES)
        return native(text, *arguments, **options)

    return call


def _charge_pieces(budget: Budget, text: str, between: str) -> None:
    budget.work(len(text) * len(between) >> 10)
    budget.make(_PIECE * (1 + sum(map(text.count, between))))


def _splitlines(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
    budget.make(56 + text_bytes(text))
    _charge_pieces(budget, text, _LINE_ENDS)
    return str.splitlines(text, *arguments, **options)


def _joined(budget: Budget, text: str, arguments: Arguments, options: Options) -> Any:
    if len(arguments) != 1 or not (type(arguments[0]) in SIZED or type(arguments[0]) in ITERATORS):
        return str.join(text, *arguments)
    pieces = list(collected(budget, arguments[0]))  # what `join` itself begins with
    size, wide = len(text) * len(pieces), not text.isascii()
    types_in(budget, pieces)
    for piece in pieces:
        if type(piece) is str:
            size += len(piece)
            wide = wide or not piece.isascii()
    budget.make(50 + size * (4 if wide else 1))
    return text.join(pieces)


def _got(budget: Budget, value: Any, arguments: Arguments, options: Options) -> Any:
    if arguments:
        charge_key(budget, arguments[0])
    return value.get(*arguments)


def _copied(native: Native, each: int) -> Method:
    def call(budget: Budget, value: Any, arguments: Arguments, options: Options) -> Any:
        budget.make(200 + each * len(value))
        budget.work(len(value) >> 4)
        return native(value, *arguments)

    return call


def _counted(native: Native) -> Method:
    def call(budget: Budget, value: Any, arguments: Arguments, options: Options) -> Any:
        if arguments:
            charge_search(budget, arguments[0], value)
        return native(value, *arguments)

    return call


def _index_of(native: Native) -> Method:
    def call(budget: Budget, value: Any, arguments: Arguments, options: Options) -> Any:
        if arguments:
            charge_search(budget, arguments[0], value)
            charge_text(budget, arguments[0])  # Python's message quotes it
        return native(value, *arguments)

    return call


_OF_TEXT: Final[dict[str, Method]] = {
    "capitalize": _made(str.capitalize),
    "casefold": _made(str.casefold),
    "center": _padded(str.center),
    "count": _found(str.count),
    "endswith": _fringed(str.endswith),
    "find": _found(str.find),
    "index": _found(str.index),
    "isalnum": _looked_at(str.isalnum),
    "isalpha": _looked_at(str.isalpha),
    "isdigit": _looked_at(str.isdigit),
    "isspace": _looked_at(str.isspace),
    "join": _joined,
    "ljust": _padded(str.ljust),
    "lower": _made(str.lower),
    "lstrip": _stripped(str.lstrip),
    "partition": _partitioned(str.partition),
    "removeprefix": _made(str.removeprefix),
    "removesuffix": _made(str.removesuffix),
    "replace": _replaced,
    "rfind": _found(str.rfind, backwards=True),
    "rjust": _padded(str.rjust),
    "rpartition": _partitioned(str.rpartition, backwards=True),
    "rsplit": _split(str.rsplit, backwards=True),
    "rstrip": _stripped(str.rstrip),
    "split": _split(str.split),
    "splitlines": _splitlines,
    "startswith": _fringed(str.startswith),
    "strip": _stripped(str.strip),
    "swapcase": _made(str.swapcase),
    "title": _made(str.title),
    "upper": _made(str.upper),
    "zfill": _padded(str.zfill),
}
_OF_DICT: Final[dict[str, Method]] = {
    "copy": _copied(lambda value, *arguments: value.copy(*arguments), 100),
    "get": _got,
    "items": _free(lambda value, *arguments: value.items(*arguments)),
    "keys": _free(lambda value, *arguments: value.keys(*arguments)),
    "values": _free(lambda value, *arguments: value.values(*arguments)),
}
_OF_LIST: Final[dict[str, Method]] = {
    "copy": _copied(list.copy, 8),
    "count": _counted(list.count),
    "index": _index_of(list.index),
}
_OF_TUPLE: Final[dict[str, Method]] = {"count": _counted(tuple.count), "index": _index_of(tuple.index)}
_OF_SET: Final[dict[str, Method]] = {"copy": _copied(set.copy, 64)}


def _by_name() -> dict[str, dict[type, Method]]:
    table: dict[str, dict[type, Method]] = {}
    listed: list[tuple[type, dict[str, Method]]] = [
        (str, _OF_TEXT),
        (list, _OF_LIST),
        (tuple, _OF_TUPLE),
        (set, _OF_SET),
        (dict, _OF_DICT),
        (Record, _OF_DICT),
    ]
    for kind, methods in listed:
        for name, method in methods.items():
            table.setdefault(name, {})[kind] = method
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
"""Methods that somebody will try, and what to write instead."""
