"""The one table of JSON forms: how a Python value that is not JSON is written, or why it is refused.

Guest and host share this file: a value of a program, an argument of a call, an input and a tool's result have the same
form. The table for people is in docs/tools.md, "Values and their JSON form".

1. A value that is JSON already never comes here. The encoder knows dict, list, tuple, str, int, float, bool and None
   with their subclasses (a namedtuple, an `IntEnum`, `numpy.float64`), and asks `json_form` for anything else.
2. A type is found by its name and that of its package, so that nothing is imported: not numpy, not even datetime.
3. A value without a certain form is refused: sets have no order, NaN is not a number, bytes are not text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

__all__ = ["NotFinite", "NotJson", "Unordered", "encoder", "json_form", "key_form", "plain"]

_DAY = 86_400_000_000  # microseconds
_YEAR = 365  # days, as pydantic writes and reads them


class NotJson(TypeError):
    """A value without a JSON form. `value` is that value, not what it sits in; `remedy` what to write, behind `; `."""

    def __init__(self, value: object) -> None:
        self.value = value
        self.remedy = _remedy(value)
        super().__init__(f"a value of type {type(value).__name__} has no JSON form{self.remedy}")


class Unordered(NotJson):
    """A set. Even its text is different from run to run."""


class NotAKey(NotJson):
    """A value that cannot be a key of a JSON object."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.args = (f"a key of type {type(value).__name__} has no JSON form; write text",)


class NotFinite(ValueError):
    """NaN or an infinity."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{value} is not JSON; use None or text")


def json_form(value: Any) -> Any:
    """The JSON form of a value, one level deep: what it holds may need its own.

    Raises:
        NotJson: it has none.
        NotFinite: a decimal that is NaN or infinite.
    """
    try:
        form = _form_of(type(value))
        if form is not None:
            return form(value)
    except (NotJson, NotFinite, RecursionError, MemoryError):
        raise
    except Exception as error:  # an array or a model that fails to say what it holds
        raise NotJson(value) from error
    raise NotJson(value)


def _form_of(kind: type) -> Callable[[Any], Any] | None:
    for base in kind.__mro__:
        form = _FORMS.get((str(base.__module__).partition(".")[0], base.__name__))
        if form is not None:
            return form
    if hasattr(kind, "__pydantic_serializer__"):
        return _model
    return _fields if hasattr(kind, "__dataclass_fields__") else None


def _remedy(value: object) -> str:
    """What to write instead, as the end of an error; empty if there is no better form."""
    for base in type(value).__mro__:
        words = _REMEDIES.get((str(base.__module__).partition(".")[0], base.__name__))
        if words is not None:
            return f"; {words}"
    return "; write list(...)" if hasattr(type(value), "__next__") else ""


# the forms


def _moment(value: Any) -> str:
    text: str = value.isoformat()
    return f"{text[:-6]}Z" if text.endswith("+00:00") else text


def _duration(value: Any) -> str:
    """ISO 8601, as pydantic writes it: ``P1DT2H``, ``-PT0.5S``; a year has 365 days."""
    total = value.days * _DAY + value.seconds * 1_000_000 + value.microseconds
    days, rest = divmod(abs(total), _DAY)
    years, days = divmod(days, _YEAR)
    seconds, micros = divmod(rest, 1_000_000)
    date = "".join(f"{count}{unit}" for count, unit in ((years, "Y"), (days, "D")) if count)
    fraction = f".{micros:06}".rstrip("0") if micros else ""
    parts = ((seconds // 3600, "H"), (seconds // 60 % 60, "M"))
    time = "".join(f"{count}{unit}" for count, unit in parts if count)
    if seconds % 60 or micros:
        time += f"{seconds % 60}{fraction}S"
    if not date and not time:
        return "PT0S"
    return ("-" if total < 0 else "") + "P" + date + ("T" + time if time else "")


def _decimal(value: Any) -> str:
    if not value.is_finite():
        raise NotFinite(value)
    return str(value)


def _numpy(value: Any) -> Any:
    """A scalar as Python's, an array as lists. Times as `_moment` and `_duration` have them, NaT as None."""
    kind = value.dtype.kind
    if kind == "M":
        return _each(value.astype(str).tolist(), _numpy_moment)
    if kind == "m":
        if value.dtype.str.endswith(("[M]", "[Y]")):  # months and years have no length
            raise NotJson(value)
        value = value.astype("timedelta64[us]")
    listed = value.tolist()
    if type(listed) is type(value):  # longer than Python's own numbers
        raise NotJson(value)
    return listed


def _numpy_moment(text: str) -> str | None:
    """As `datetime.isoformat` words it: no fraction, six digits, or nine."""
    if text == "NaT":
        return None
    head, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    return f"{head}.{fraction.ljust(6 if len(fraction) <= 6 else 9, '0')}" if fraction else head


def _each(value: Any, form: Callable[[str], Any]) -> Any:
    return [_each(item, form) for item in value] if isinstance(value, list) else form(value)


def _model(value: Any) -> Any:
    """A model, or a dataclass of pydantic's, says itself how it is written; this table, what it does not know."""
    write = type(value).__pydantic_serializer__.to_python
    return write(value, mode="json", by_alias=True, warnings=False, fallback=json_form)


def _fields(value: Any) -> dict[str, Any]:
    declared = type(value).__dataclass_fields__.items()  # with those of `ClassVar` and `InitVar`, which hold nothing
    return {name: getattr(value, name) for name, field in declared if str(field._field_type) == "_FIELD"}


def _listed(value: Any) -> Any:
    return value.tolist()


def _none(value: object) -> None:
    return None


def _unordered(value: object) -> Any:
    raise Unordered(value)


def _enum(value: Any) -> Any:
    return value.value


def _table(*rows: tuple[str, str, Any]) -> dict[tuple[str, str], Any]:
    """By the package that a type comes from, and its name. A row has several names."""
    return {(package, name): entry for package, names, entry in rows for name in names.split()}


_FORMS: dict[tuple[str, str], Callable[[Any], Any]] = _table(
    ("pandas", "NaTType NAType", _none),  # before datetime, which it claims to be
    ("datetime", "datetime date time", _moment),
    ("datetime", "timedelta", _duration),
    ("decimal", "Decimal", _decimal),
    ("enum", "Enum", _enum),
    ("uuid", "UUID", str),
    ("pathlib", "PurePath", str),
    ("ipaddress", "IPv4Address IPv6Address IPv4Network IPv6Network", str),
    ("pydantic", "_BaseUrl _BaseMultiHostUrl", str),
    ("collections", "deque", list),
    ("numpy", "generic ndarray", _numpy),
    ("pandas", "Series Index ExtensionArray", _listed),
    ("builtins", "set frozenset", _unordered),
)
_REMEDIES: dict[tuple[str, str], str] = _table(
    ("builtins", "set frozenset", "write sorted(...), since a set has no order"),
    ("builtins", "bytes bytearray memoryview", "write .decode() for text, or base64.b64encode(...).decode()"),
    ("builtins", "complex", "write [z.real, z.imag]"),
    ("builtins", "range dict_keys dict_values dict_items", "write list(...)"),
    ("numpy", "generic", "write float(...) or str(...)"),
    ("pandas", "DataFrame", 'write df.to_dict("records")'),
)


# whole values


def encoder(
    *, ensure_ascii: bool = True, sort_keys: bool = False, form: Callable[[Any], Any] = json_form
) -> Callable[[Any], str]:
    """A function that writes a value as compact JSON text. `form` gives the forms of values that are not JSON.

    It raises `NotJson`, `NotFinite`, ValueError for a cycle and for an integer of too many digits, and RecursionError.
    """
    fast = json.JSONEncoder(
        ensure_ascii=ensure_ascii, allow_nan=False, sort_keys=sort_keys, separators=(",", ":"), default=form
    ).encode

    def encode(value: Any) -> str:
        try:
            return fast(value)
        except (NotJson, NotFinite):
            raise
        except (TypeError, ValueError):  # a key that is not text: the encoder has no hook for keys
            return fast(plain(value, form))

    return encode


def plain(value: Any, form: Callable[[Any], Any] = json_form) -> Any:
    """The whole value in its JSON form, keys included: dict, list, str, int, float, bool and None alone.

    Raises:
        NotJson, NotFinite: a part has no form. ValueError: it contains itself, or two keys have the same form.
        RecursionError: it is nested too deeply.
    """
    return _plain(value, set(), form)


def _plain(value: Any, above: set[int], form: Callable[[Any], Any]) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise NotFinite(float.__repr__(value))
        return value
    if id(value) in above:
        raise ValueError("it contains itself")
    above.add(id(value))
    try:
        if isinstance(value, dict):
            named: dict[str, Any] = {}
            for key, item in value.items():
                name = key_form(key)
                if name in named:
                    raise ValueError(f"two keys are {name!r} as JSON")
                named[name] = _plain(item, above, form)
            return named
        if isinstance(value, (list, tuple)):
            return [_plain(item, above, form) for item in value]
        return _plain(form(value), above, form)
    finally:
        above.discard(id(value))


def key_form(key: Any) -> str:
    """A key as JSON has it: text as it is, a number or None in its own text, else the form of the key."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, (bool, int, float)):
        return json.dumps(_plain(key, set(), json_form))
    if isinstance(key, (tuple, list, dict)):
        raise NotAKey(key)
    try:
        return key_form(json_form(key))
    except Unordered:
        raise NotAKey(key) from None
