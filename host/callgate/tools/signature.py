"""Reads a Python function: parameters, types, defaults, docstring. Calls nothing. The only file that imports
`docstring_parser`, for Google, NumPy and Sphinx style. A docstring in another style becomes the description as it is.

Refuses functions that cannot be described to a model: with `*args` or `**kwargs`, unbound methods, generators, and
types that do not exist.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import docstring_parser

from callgate.errors import ConfigurationError

__all__ = ["Docs", "Signature", "is_async_callable", "read_docstring", "read_signature"]

NOTHING = inspect.Parameter.empty
_FIRST_LINE = "Sections follow."


@dataclass(frozen=True, kw_only=True, slots=True)
class Docs:
    """The contents of a docstring.

    Attributes:
        description: the text before the sections.
        parameters: descriptions by parameter name.
        returns: description of the result, or an empty text.
    """

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)
    returns: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """A function's signature and docstring. Annotations of parameters are types; `returns` is `NOTHING` without a
    return annotation."""

    name: str
    docs: Docs
    parameters: tuple[inspect.Parameter, ...]
    returns: Any


def is_async_callable(function: Callable[..., Any]) -> bool:
    """Whether a call gives a coroutine: an `async def`, a partial of one, or an object whose `__call__` is one."""
    inner = _innermost(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(_call_of(inner))


def read_signature(function: Callable[..., Any], name: str | None = None) -> Signature:
    """Read a function.

    Args:
        function: a function, bound method, partial or callable object.
        name: the tool's name, if not the function's own.

    Raises:
        ConfigurationError: the function cannot be a tool; the message says why and what to write instead.
    """
    if not callable(function):
        raise ConfigurationError(f"a tool is made from a function, not from {function!r}")
    inner = _innermost(function)
    name = name or getattr(inner, "__name__", None) or type(inner).__name__
    if name == "<lambda>":
        raise ConfigurationError("a lambda has no name: pass name=..., or write a function")
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ConfigurationError(f"tool {name!r} is a generator; a call has one result: return a list")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"tool {name!r} has no signature that Python can read; wrap it in a function, or use Tool.from_schema"
        ) from None
    hints = _hints(inner, name)
    docs = read_docstring(inspect.getdoc(inner))
    parameters = tuple(_parameter(name, each, hints) for each in signature.parameters.values())
    return Signature(name=name, docs=docs, parameters=parameters, returns=_returned(hints))


def _innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _call_of(instance: Any) -> Any:
    return getattr(type(instance), "__call__", None)  # noqa: B004 -- returns the method


def _parameter(tool: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> inspect.Parameter:
    name = parameter.name
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        stars = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
        raise ConfigurationError(
            f"tool {tool!r} takes {stars}{name}, which cannot be described to a model: "
            f"name each parameter, take a list or a dict, or use Tool.from_schema"
        )
    if name in ("self", "cls") and name not in hints:
        raise ConfigurationError(f"tool {tool!r} takes {name!r}: it is a method; make the tool from a bound method")
    annotation = hints.get(name, Any)
    if parameter.default is None and annotation is not Any:
        ordered = isinstance(annotation, types.UnionType)  # `Optional` gives the first of equal unions in any order
        annotation = annotation | None if ordered else typing.Optional[annotation]  # noqa: UP045 -- `|` fails on strings
    return parameter.replace(annotation=annotation)


def _hints(function: Any, tool: str) -> dict[str, Any]:
    """The annotations as types. Names are looked up in the function's module, then in the frames that define it."""
    target = function if isinstance(function, (types.FunctionType, types.MethodType)) else None
    if target is None:
        # A builtin has no annotations; an object's are on its `__call__`.
        call = _call_of(function)
        target = call if isinstance(call, types.FunctionType) else None
    if target is None:
        return {}
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, AttributeError, TypeError, SyntaxError):
        pass
    try:
        return typing.get_type_hints(target, localns=_names_in_sight(), include_extras=True)
    except Exception as error:
        raise ConfigurationError(f"tool {tool!r}: an annotation cannot be read: {error}") from error


def _names_in_sight() -> dict[str, Any]:
    """Local names of the running frames; the nearest frame wins. So a tool inside a function may use its classes."""
    names: dict[str, Any] = {}
    frame = sys._getframe(1)
    while (back := frame.f_back) is not None:
        frame = back
        if not frame.f_globals.get("__name__", "").startswith("callgate.tools"):
            for name, value in frame.f_locals.items():
                names.setdefault(name, value)
    return names


def _returned(hints: dict[str, Any]) -> Any:
    returned = hints.get("return", NOTHING)
    origin = typing.get_origin(returned)
    if origin in (collections.abc.Awaitable, collections.abc.Coroutine):
        returned = (typing.get_args(returned) or (Any,))[-1]
    if returned in (Any, object, typing.NoReturn, typing.Never):
        return NOTHING
    return returned


def read_docstring(text: str | None) -> Docs:
    """Read a docstring of any of the three styles."""
    if not text or not text.strip():
        return Docs()
    try:
        parsed = _parsed(text)
    except docstring_parser.ParseError:
        return Docs(description=text.strip())
    paragraphs = [part.strip() for part in (parsed.short_description, parsed.long_description) if part]
    parameters: dict[str, str] = {}
    for param in parsed.params:
        if param.description:
            for name in param.arg_name.split(","):  # NumPy style documents `x, y : int` together
                parameters[name.strip().lstrip("*")] = " ".join(param.description.split())
    returned = parsed.returns.description if parsed.returns else None
    if not paragraphs and not parameters and not (returned and returned.strip()):
        return Docs(description=text.strip())  # other sections alone: `Raises`, `Example`
    return Docs(
        description="\n\n".join(paragraphs),
        parameters=parameters,
        returns=" ".join(returned.split()) if returned else "",
    )


def _parsed(text: str) -> docstring_parser.Docstring:
    """The parsed docstring. The parser needs a first line, so a docstring that begins with a section gets one."""
    if text.strip().partition("\n")[0].rstrip().endswith(":"):
        parsed = docstring_parser.parse(f"{_FIRST_LINE}\n\n{text.lstrip()}")
        if parsed.meta and parsed.short_description == _FIRST_LINE:
            parsed.short_description = None
            return parsed
    return docstring_parser.parse(text)
