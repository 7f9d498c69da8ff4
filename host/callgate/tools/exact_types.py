"""Rewrites annotations for a contract: exact where pydantic is lenient, refused where JSON has no form.

1. `Literal[1, 2]` and an enum of numbers take only the numbers they list. In Python ``1 == True == 1.0``; in JSON these
   are three values.
2. An iterable parameter becomes a list: pydantic would check the items only while the function reads them. The result
   of a sync tool may be an iterator, which the call reads to its end. An asynchronous iterator is refused.
3. A text within `Annotated` is a description, as `Field` and `Doc` are.
4. In a result a picture of Pillow is an `Artifact`. Pillow is not imported.

Inside models, dataclasses and TypedDicts pydantic's own rules hold.
"""

from __future__ import annotations

import collections.abc
import enum
import sys
import types
import typing
from collections.abc import Callable
from typing import Any

import pydantic
from pydantic.fields import FieldInfo

from callgate.artifacts import Artifact
from callgate.errors import ConfigurationError

__all__ = ["mentions_artifact", "parameter_type", "result_type", "words_of"]

_UNIONS = (typing.Union, types.UnionType)
_ITERATORS = (collections.abc.Iterator, collections.abc.Generator)
_ASYNCHRONOUS = (collections.abc.AsyncIterator, collections.abc.AsyncIterable, collections.abc.AsyncGenerator)


def parameter_type(annotation: Any, what: str) -> Any:
    """The type that checks a parameter. Raises `ConfigurationError` for iterators, which have no JSON form."""

    def plainer(origin: Any, arguments: tuple[Any, ...]) -> Any:
        if origin in (*_ITERATORS, *_ASYNCHRONOUS):
            raise ConfigurationError(f"{what} is an iterator, which has no JSON form: take a list")
        if origin is collections.abc.Iterable:
            return types.GenericAlias(list, arguments[:1] or Any)
        return None

    return _rewritten(annotation, plainer)


def result_type(annotation: Any, tool: str) -> Any:
    """The type that checks a result. Raises `ConfigurationError` for asynchronous iterators."""

    def plainer(origin: Any, arguments: tuple[Any, ...]) -> Any:
        pillow = sys.modules.get("PIL.Image")
        if pillow is not None and isinstance(origin, type) and issubclass(origin, pillow.Image):
            return Artifact
        if origin in _ASYNCHRONOUS:
            raise ConfigurationError(
                f"tool {tool!r} returns an asynchronous iterator; a call has one result: return a list"
            )
        items = arguments[:1] or Any
        return types.GenericAlias(collections.abc.Iterable, items) if origin in _ITERATORS else None

    return _rewritten(annotation, plainer)


def mentions_artifact(annotation: Any) -> bool:
    """Whether a type is `Artifact`, or is made of it: ``list[Artifact]``, ``Artifact | None``."""
    return annotation is Artifact or any(map(mentions_artifact, typing.get_args(annotation)))


def words_of(annotation: Any) -> str:
    """The description in an `Annotated`, also inside a union; empty where there is none."""
    if typing.get_origin(annotation) is typing.Annotated:
        inner, *metadata = typing.get_args(annotation)
        for each in metadata:
            text = each.description if isinstance(each, FieldInfo) else getattr(each, "documentation", each)
            if isinstance(text, str) and text.strip():
                return " ".join(text.split())
        return words_of(inner)
    if typing.get_origin(annotation) in _UNIONS:
        return next(filter(None, map(words_of, typing.get_args(annotation))), "")
    return ""


def _rewritten(annotation: Any, plainer: Callable[[Any, tuple[Any, ...]], Any]) -> Any:
    """The annotation with exact parts; the same object where nothing changes."""
    origin, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    if origin is typing.Literal or (isinstance(annotation, type) and issubclass(annotation, enum.Enum)):
        return _exact(annotation, arguments if origin is typing.Literal else tuple(annotation))
    if origin is typing.Annotated and arguments:
        inner, *metadata = arguments
        made = _rewritten(inner, plainer)
        return annotation if made is inner else typing.Annotated[(made, *metadata)]
    parts = tuple(_rewritten(each, plainer) if _is_type(each) else each for each in arguments)
    plain = plainer(origin, parts)
    if plain is not None:
        return plain
    if all(made is each for made, each in zip(parts, arguments, strict=True)):
        return annotation
    if origin in _UNIONS:
        return typing.Union[parts]  # noqa: UP007 -- of values, not of source
    return origin[parts] if isinstance(annotation, types.GenericAlias) else annotation.copy_with(parts)


def _is_type(part: Any) -> bool:
    return not isinstance(part, (list, str, typing.TypeVar)) and part is not Ellipsis


def _exact(annotation: Any, members: tuple[Any, ...]) -> Any:
    options = [member.value if isinstance(member, enum.Enum) else member for member in members]
    numbers = [option for option in options if isinstance(option, (int, float))]
    if not numbers:
        return annotation
    wording = " or ".join(filter(None, [", ".join(map(repr, options[:-1])), repr(options[-1])]))

    def check(value: Any) -> Any:
        if type(value) in (bool, int, float):
            equal = [type(number) for number in numbers if number == value]
            if equal and not any(_holds(kind, type(value)) for kind in equal):
                raise ValueError(wording)
        return value

    return typing.Annotated[annotation, pydantic.BeforeValidator(check)]


def _holds(kind: type, given: type) -> bool:
    """Whether JSON takes a number of type `given` for one of type `kind`; an integer passes for a float."""
    return issubclass(kind, float) if given is float else issubclass(kind, bool) == (given is bool)
