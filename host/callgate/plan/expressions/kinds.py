"""The closed list of exact types that a value may have.

A value of any other type is never touched: no operator, no method, not even its truth.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import GeneratorType, NoneType
from typing import Any, Final

from callgate_guest.records import Record

from .budget import ExpressionFault

__all__ = [
    "DICTS", "ITERATORS", "KNOWN", "NUMBERS", "RECORD_ATTRIBUTES", "SCALARS", "SEQUENCES", "SIZED", "VIEWS",
    "DictItems", "DictKeys", "DictValues", "Record", "Unknown", "foreign", "has_attribute", "known", "length",
    "text_bytes",
]  # fmt: skip


DictKeys: Final[type] = type({}.keys())
DictValues: Final[type] = type({}.values())
DictItems: Final[type] = type({}.items())

NUMBERS: Final = frozenset[type]({int, float, bool})
SCALARS: Final = NUMBERS | {NoneType}
"""Cheap to compare, hash and write; texts are not, as they can be long."""
DICTS: Final[frozenset[type]] = frozenset((dict, Record))
SEQUENCES: Final = frozenset[type]({list, tuple})
VIEWS: Final = frozenset[type]({DictKeys, DictValues, DictItems})
SIZED: Final = DICTS | SEQUENCES | VIEWS | {str, set, range}
"""Types with a length that can be iterated over again and again."""
ITERATORS: Final = frozenset[type](
    {
        enumerate,
        filter,
        map,
        zip,
        reversed,
        GeneratorType,
        type(reversed([])),
        type(reversed({})),
        type(reversed({}.values())),
        type(reversed({}.items())),
        type(iter(range(0))),
        type(iter(range(2**80))),
    }
)
"""Types that can be iterated over once: made within an expression, and never its value."""


class Unknown:
    """A value that is not known yet. Containers may hold it; every other use raises `ExpressionFault`."""

    __slots__ = ("fresh", "kin")

    def __init__(self, kin: Iterable[Any] = (), *, fresh: bool = False) -> None:
        self.kin = list(kin)
        """Containers and unknown values that may be a part of this one, or hold it."""
        self.fresh = fresh
        """Whether this value is certainly not one of the existing containers."""

    def _raise(self, *_: Any) -> Any:
        raise ExpressionFault("the value is not known yet", "wait for the call that gives it")

    __bool__ = __eq__ = __ne__ = __hash__ = __iter__ = __len__ = __repr__ = __str__ = __format__ = _raise
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = __index__ = __int__ = __float__ = _raise


KNOWN: Final = SCALARS | SIZED | ITERATORS | {slice, Unknown}

RECORD_ATTRIBUTES: Final = frozenset(dir(dict))
"""Names that on a record are attributes of `dict`, not fields."""
_ATTRIBUTES: Final = {kind: frozenset(dir(kind)) for kind in KNOWN}


def known(value: Any) -> Any:
    """Return the value. Raises `ExpressionFault` if its type is not on the list."""
    if type(value) not in KNOWN:
        raise foreign(value)
    return value


def foreign(value: object) -> ExpressionFault:
    """Return the refusal of a value whose type is not on the list."""
    return ExpressionFault(
        f"a value of type {type(value).__name__} cannot be used in an expression",
        "use JSON values: objects, arrays, texts, numbers, true, false, null",
    )


def has_attribute(kind: type, name: str) -> bool:
    """Return whether a type has an attribute of that name in CPython."""
    return name in _ATTRIBUTES[kind]


def length(value: Any) -> int:
    """Return the length of a value of a type in `SIZED`; `sys.maxsize` for a range that is too long for `len`."""
    try:
        return len(value)
    except OverflowError:
        return sys.maxsize


def text_bytes(text: str) -> int:
    """Return the bytes of a text's characters, at most, without reading them."""
    return len(text) if text.isascii() else 4 * len(text)
