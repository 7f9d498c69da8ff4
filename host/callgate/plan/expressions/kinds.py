"""The closed list of types a value may have, by exact type, and how long each is.

Nothing of any other type is ever touched: no operator, no method, not even its truth is asked for.
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
"""What is compared, hashed and written out at a small cost. Not texts: those can be long."""
DICTS: Final[frozenset[type]] = frozenset((dict, Record))
SEQUENCES: Final = frozenset[type]({list, tuple})
VIEWS: Final = frozenset[type]({DictKeys, DictValues, DictItems})
SIZED: Final = DICTS | SEQUENCES | VIEWS | {str, set, range}
"""What can be iterated over again and again, and has a length."""
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
"""What can be iterated over once. Made within an expression, and never its value."""


class Unknown:
    """Stands for a value that nobody has yet. Containers take it in; whatever else is done with it raises."""

    __slots__ = ("fresh", "kin")

    def __init__(self, kin: Iterable[Any] = (), *, fresh: bool = False) -> None:
        self.kin = list(kin)
        """Containers and unknown values of which it may be a part, or which may be a part of it."""
        self.fresh = fresh
        """It is itself none of the containers that there are."""

    def _raise(self, *_: Any) -> Any:
        raise ExpressionFault("the value is not known yet", "wait for the call that gives it")

    __bool__ = __eq__ = __ne__ = __hash__ = __iter__ = __len__ = __repr__ = __str__ = __format__ = _raise
    __lt__ = __le__ = __gt__ = __ge__ = __contains__ = __getitem__ = __index__ = __int__ = __float__ = _raise


KNOWN: Final = SCALARS | SIZED | ITERATORS | {slice, Unknown}

RECORD_ATTRIBUTES: Final = frozenset(dir(dict))
"""Names that on a record are a dict's own, and not its fields."""
_ATTRIBUTES: Final = {kind: frozenset(dir(kind)) for kind in KNOWN}


def known(value: Any) -> Any:
    """The value itself. Raises `ExpressionFault` where its type is not on the list."""
    if type(value) not in KNOWN:
        raise foreign(value)
    return value


def foreign(value: object) -> ExpressionFault:
    """The refusal of a value whose type is not on the list."""
    return ExpressionFault(
        f"a value of type {type(value).__name__} cannot be used in an expression",
        "use JSON values: objects, arrays, texts, numbers, true, false, null",
    )


def has_attribute(kind: type, name: str) -> bool:
    """Whether CPython's own `kind` has an attribute of that name, whether or not the evaluator supports it."""
    return name in _ATTRIBUTES[kind]


def length(value: Any) -> int:
    """Length of a value of a type in `SIZED`; that of a longer range than `len` can tell is `sys.maxsize`."""
    try:
        return len(value)
    except OverflowError:
        return sys.maxsize


def text_bytes(text: str) -> int:
    """Bytes of a text's characters, at most; found out without looking at them."""
    return len(text) if text.isascii() else 4 * len(text)
