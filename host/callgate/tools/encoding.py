"""Writes Python values as JSON text: no NaN, no infinity, no cycle, no lone surrogate; integers are exact.

Dates, decimals, models, arrays and the like have the JSON form that `callgate_guest.json_forms` lists. A value without
a form is an error that names its place. Where `handle_form` is set, bytes, pictures and artifacts have a form, too.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any

from callgate.artifacts import Artifact, handle_form
from callgate_guest import json_forms
from callgate_guest.json_forms import NotFinite, encoder, json_form, key_form

from .faults import path_text
from .quick_writer import quick_text
from .turns import Work, at_once

__all__ = ["NotJson", "TooLong", "canonical_json", "compact_json", "encoding"]

_MOST_AT_ONCE = 2_000
"""Members that are written at once."""
_TURN = 1 << 18
"""Characters between two turns of others: a few milliseconds."""
_STEP = 256
"""Characters that one step of our own writer counts for."""
_SPARE = 64 * _STEP
"""Characters that looks in vain may count for beyond what is written: a value may begin with some."""
_BITS_SQUARED = 10_000
"""Bits of an integer, squared, that count for one character: the time to write an integer grows with the square."""
_MAX_LEVELS = 900
_WALKED = (dict, list, tuple)
_TEXT = {str}


def _form(value: Any) -> Any:
    """See `json_form`; with the forms of artifacts, where they have one."""
    form = handle_form.get()
    if form is not None and (shown := form(value)) is not None:
        return shown
    if isinstance(value, Artifact):
        raise json_forms.NotJson(value)
    return json_form(value)


_compact = encoder(ensure_ascii=False, form=_form)
_canonical = encoder(sort_keys=True, form=_form)


class NotJson(ValueError):
    """The value is not JSON. The message says what is wrong and where."""


class TooLong(ValueError):
    """The JSON text would be longer than the caller takes."""


def compact_json(value: Any, root: str = "value") -> str:
    """Compact JSON text that can always be encoded as UTF-8.

    Args:
        value: dicts, lists, tuples, strings, numbers, booleans, None, and values that `json_forms` has a form for.
        root: the name of the whole value in the path of an error.

    Raises:
        NotJson: any other value, NaN, an infinity, a cycle, a lone surrogate, or nesting beyond Python's recursion
            limit.
    """
    try:
        return _checked(_compact(value))
    except (TypeError, ValueError, RecursionError):
        raise NotJson(at_once(_first_fault(value, root))) from None


def encoding(value: Any, root: str = "value", most: int | None = None, *, sort_keys: bool = False) -> Work[str]:
    """`compact_json` in turns, for a large value.

    A part that is not a dict, list, tuple or string is written in one step with everything in it.

    Args:
        value: as for `compact_json`.
        root: as for `compact_json`.
        most: about as many characters are written at most.
        sort_keys: write keys in sorted order, so that equal values give equal texts.

    Raises:
        NotJson: as for `compact_json`.
        TooLong: the text has more than `most` characters.
    """
    try:
        return (yield from _pieces(value, most, sort_keys))
    except TooLong:
        raise
    except (TypeError, ValueError, RecursionError):
        pass
    raise NotJson((yield from _first_fault(value, root)))


def _checked(text: str) -> str:
    if not text.isascii():
        text.encode()
    return text


def _pieces(value: Any, most: int | None, sort_keys: bool) -> Work[str]:
    """JSON text. One call writes a run of members; this function writes the levels around the runs."""
    if type(value) is str:
        return "".join((yield from _long_text(value)))
    if not value or type(value) not in _WALKED:
        return _checked(_compact(value))
    done = ["{" if type(value) is dict else "["]
    stack = [_Members((yield from _named(value)), sort_keys)]
    size = written = in_vain = 0
    while stack:
        size += _STEP
        if size > _TURN:
            size = 0
            if most is not None and written > most:
                raise TooLong
            yield
        members = stack[-1]
        text, cost, inside = members.next_run(quickly=in_vain <= written + _SPARE)
        in_vain += members.in_vain
        if text:
            size += cost
            written += len(text)
            done += (text,) if done[-1][-1] in "[{" else (",", text)
        if inside is not None:
            name, value = inside
            if done[-1][-1] not in "[{":
                done.append(",")
            if members.named:
                done.append(_checked(_compact({name: 0}))[1:-2])
            if type(value) is str:
                done += yield from _long_text(value)
                size += len(value)
                written += len(value)
                continue
            done.append("{" if type(value) is dict else "[")
            stack.append(_Members((yield from _named(value)), sort_keys))
            if len(stack) > _MAX_LEVELS:
                raise RecursionError
        elif not text:
            done.append("}" if members.named else "]")
            stack.pop()
    yield
    return "".join(done)


def _long_text(text: str) -> Work[list[str]]:
    """A text as JSON, in pieces. In turns."""
    done = ['"']
    for start in range(0, len(text), _TURN):
        done.append(_checked(_compact(text[start : start + _TURN]))[1:-1])
        yield
    done.append('"')
    return done


def _named(value: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> Work[dict[str, Any] | list[Any] | tuple[Any, ...]]:
    """The value; an object has strings as its keys. In turns."""
    if not isinstance(value, dict) or set(map(type, value)) <= _TEXT:
        return value
    named: dict[str, Any] = {}
    for number, (key, item) in enumerate(value.items(), 1):
        named[key_form(key)] = item
        if number % _MOST_AT_ONCE == 0:
            yield
    if len(named) < len(value):
        raise ValueError
    return named


class _Members:
    """The members of an array or object, in runs."""

    __slots__ = ("_batch", "_members", "_sorted", "in_vain", "named")

    def __init__(self, value: dict[str, Any] | list[Any] | tuple[Any, ...], sort_keys: bool) -> None:
        self.named = isinstance(value, dict)
        self._sorted = sort_keys
        self.in_vain = 0
        """What the last look counts for, if it was in vain: the quick writer refused the members."""
        self._batch: Iterator[Any] = iter(())
        """Members that are written one level at a time."""
        self._members: Iterator[Any] = iter(value)
        if isinstance(value, dict):
            self._members = iter([(name, value[name]) for name in sorted(value)] if sort_keys else value.items())

    def next_run(self, *, quickly: bool) -> tuple[str, int, tuple[str, Any] | None]:
        """The text of the next members and what it cost to write; and the member with members of its own, or the long
        text, that comes after them. Both are empty at the end. `quickly`: try the quick writer."""
        self.in_vain = 0
        flat, inside = _flat(self._batch, self.named)
        if not flat and inside is None:
            batch = list(islice(self._members, _MOST_AT_ONCE))
            if not batch:
                return "", 0, None
            if quickly:
                quick = quick_text(dict(batch) if self.named else batch, flat=self._sorted)
                if quick is not None:
                    return *quick, None
                self.in_vain = _STEP
            self._batch = iter(batch)
            flat, inside = _flat(self._batch, self.named)
        text = _checked(_compact(dict(flat) if self.named else flat))[1:-1] if flat else ""
        return text, len(text) + self.in_vain, inside


def _flat(members: Iterator[Any], named: bool) -> tuple[list[Any], tuple[str, Any] | None]:
    """The next flat members, and the member with members of its own, or the long text, that ends them."""
    found: list[Any] = []
    size = 0
    for member in members:
        value = member[1] if named else member
        kind = type(value)
        if kind is str:
            if len(value) > _TURN:
                return found, (member if named else ("", member))
            size += len(value)
        elif kind is int:
            size += value.bit_length() ** 2 // _BITS_SQUARED
        elif kind in _WALKED and value:
            return found, (member if named else ("", member))
        found.append(member)
        if size > _TURN:
            break
    return found, None


def canonical_json(value: Any, root: str = "value") -> str:
    """JSON text with sorted keys, equal for equal values. Raises `NotJson`."""
    try:
        return _canonical(value)
    except (TypeError, ValueError, RecursionError):
        raise NotJson(at_once(_first_fault(value, root))) from None


_JSON = (dict, list, tuple, str, int, float, type(None))
_Path = tuple[str | int, ...]
_END = object()


def _first_fault(value: Any, root: str) -> Work[str]:
    """Where and why a value is not JSON. Walks without recursion, in turns."""
    above: set[int] = set()
    inside: list[tuple[Any, Iterator[tuple[_Path, Any]]]] = [(None, iter([((), value)]))]
    seen = 0
    while inside:
        seen += 1
        if seen % _MOST_AT_ONCE == 0:
            yield
        holder, members = inside[-1]
        path, item = next(members, ((), _END))
        if item is _END:
            above.discard(id(holder))
            inside.pop()
            continue
        fault = _fault_of(item, above)
        if fault:
            return f"{path_text(path, root)} {fault}"
        if not isinstance(item, _JSON):
            above.add(id(item))
            inside.append((item, iter([(path, _form(item))])))
        elif isinstance(item, (dict, list, tuple)):
            above.add(id(item))
            inside.append((item, _members_with_paths(item, path)))
    return f"{root} is nested too deeply"


def _members_with_paths(value: Any, path: _Path) -> Iterator[tuple[_Path, Any]]:
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path[-7:], key if isinstance(key, (str, int)) else str(key)), member


def _fault_of(item: Any, above: set[int]) -> str:
    match item:
        case None | bool():
            return ""
        case int():
            # Python refuses to write integers of more than 4,300 digits (sys.set_int_max_str_digits).
            try:
                int.__repr__(item)
            except ValueError:
                return f"is an integer of {item.bit_length()} bits, too long to be written as text"
            return ""
        case float():
            return "" if math.isfinite(item) else f"is {item!r}, which is not JSON; use null or a string"
        case str():
            return "" if _is_unicode(item) else "holds half of a surrogate pair, which is not Unicode text"
        case dict() | list() | tuple():
            if id(item) in above:
                return "contains itself"
            return _fault_of_keys(item) if isinstance(item, dict) else ""
        case _ if id(item) in above:
            return "contains itself"
        case _:
            try:
                _form(item)
            except json_forms.NotJson as error:
                return f"is a {type(item).__name__}, which is not JSON{error.remedy}"
            except NotFinite:
                return f"is {item!r}, which is not JSON; use null or a string"
            return ""


def _fault_of_keys(item: dict[Any, Any]) -> str:
    names = set()
    for key in item:
        try:
            name = key_form(key)
        except NotFinite:
            return f"has the key {key!r}, which is not JSON"
        except (TypeError, ValueError):
            return f"has a key that is a {type(key).__name__}; JSON keys are strings"
        if not _is_unicode(name):
            return "has a key with half of a surrogate pair, which is not Unicode text"
        if name in names:
            return f"has two keys that are {name[:60]!r} as JSON"
        names.add(name)
    return ""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
