"""`Record`, a JSON object of a tool's result: a dict whose fields can also be read as attributes, and whose errors name
the fields that exist.

Guest and host use this one class: a program reads results in the sandbox and on the fast path with the same errors.
Rules:

1. It is a dict in all else: equality, `json.dumps`, copies, methods. Decoding makes one at the speed of a C call.
2. Methods win over fields: ``r.items()`` works whatever the keys are. Where the record has a key of that name,
   ``r.items`` without a call is a `HiddenField`, and using that as a value says to write ``r['items']``.
3. The cost of a message is bounded: it shows some keys, and short ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, Final

_SHOWN: Final = 20
_COMPARED: Final = 100
_LONGEST: Final = 64
_CUT: Final = 200
_SMALL: Final = 1 << 64


class MissingKey(KeyError):
    """``r['totl']``: a `KeyError` for programs, with the key as its argument and the existing keys in its text.

    Args:
        key: the missing key.
        keys: the first keys of the record.
        more: whether the record has more keys.
    """

    def __init__(self, key: object, keys: tuple[object, ...] = (), *, more: bool = False) -> None:
        super().__init__(key)
        self._keys = keys
        self._more = more

    def __str__(self) -> str:
        key, keys = self.args[0], self._keys
        near = _near(key, keys)
        shown = ", ".join(_short(each) for each in keys[:_SHOWN]) or "none"
        rest = ", ..." if self._more or len(keys) > _SHOWN else ""
        meant = f"did you mean {near!r}? " if near is not None else ""
        return f"{_short(key)}: the result has no such key; {meant}its keys are: {shown}{rest}"


MissingKey.__name__ = MissingKey.__qualname__ = "KeyError"
MissingKey.__module__ = "builtins"


def _near(key: object, keys: Iterable[object]) -> str | None:
    if not isinstance(key, str) or len(key) > _LONGEST:
        return None
    import difflib  # where something is wrong already

    known = [each for each in keys if isinstance(each, str) and len(each) <= _LONGEST]
    return next(iter(difflib.get_close_matches(key, known, 1)), None)


def _short(key: object) -> str:
    text = repr(key)
    return text if len(text) <= _CUT else f"{text[:_CUT]}..."


class HiddenField:
    """``r.items`` where ``r`` has the key ``items``: the method, which can be called, and nothing else.

    Args:
        method: the dict's own, bound.
    """

    __slots__ = ("_method",)

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._method(*arguments, **options)

    def misused(self) -> TypeError:
        """The error for using it as if it were the field."""
        name = self._method.__name__
        return TypeError(f"`.{name}` is the dict's method and not the field of that name: write r[{name!r}]")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return getattr(self._method, name)
        raise AttributeError(str(self.misused()))

    def __repr__(self) -> str:
        name = self._method.__name__
        return f"<the method {name} of a dict; for the field write r[{name!r}]>"

    __hash__ = object.__hash__


def _refuse(self: HiddenField, *_: Any) -> Any:
    raise self.misused()


_USES_OF_A_VALUE = """
    str format bool len iter getitem setitem delitem contains int float index eq ne lt le gt ge add radd sub rsub mul
    rmul mod rmod and rand or ror reversed await aiter enter aenter
"""
for _name in _USES_OF_A_VALUE.split():
    setattr(HiddenField, f"__{_name}__", _refuse)

# the name that Python's own errors show: "Object of type ... is not JSON serializable"
HiddenField.__name__ = HiddenField.__qualname__ = "method of a dict (for its field of that name write r['...'])"


class Record(dict[str, Any]):
    """A JSON object of a tool's result: a dict whose fields can also be read as attributes."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(name if name.startswith("__") else no_field(self, name))

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"set a field with result[{name!r}] = ..., not as an attribute")

    def __missing__(self, key: Any) -> Any:
        kind = type(key)
        if kind is str or key is None or kind is bool or (kind is int and -_SMALL < key < _SMALL):
            raise MissingKey(key, tuple(islice(self, _COMPARED)), more=len(self) > _COMPARED)
        raise KeyError(key)


def no_field(record: Iterable[Any], name: str) -> str:
    """The text of an `AttributeError` for a field that a record does not have."""
    fields = ", ".join(map(repr, islice(record, _SHOWN))) or "none"
    return f"the result has no field {name!r}; its fields are: {fields}"


def _hiding(name: str) -> property:
    bind = getattr(dict, name).__get__

    def get(self: Record) -> Any:
        return HiddenField(bind(self)) if name in self else bind(self)

    return property(get)


for _name in ("items", "keys", "values", "get", "pop", "update", "copy", "clear", "setdefault", "popitem"):
    setattr(Record, _name, _hiding(_name))
