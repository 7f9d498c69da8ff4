"""What Python's annotations can say of a JSON value. Values only: knows neither schemas nor how a form is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "ANY",
    "Anything",
    "Definition",
    "Field",
    "Form",
    "Listed",
    "Literals",
    "Mapped",
    "Named",
    "OneOf",
    "Plain",
    "fits",
    "one_of",
    "uses",
]


@dataclass(frozen=True, slots=True)
class Anything:
    """``Any``."""


@dataclass(frozen=True, slots=True)
class Plain:
    """``str``, ``int``, ``float``, ``bool`` or ``None``."""

    name: str


@dataclass(frozen=True, slots=True)
class Literals:
    """``Literal[...]`` of texts, whole numbers, truth values and None."""

    written: tuple[str, ...]
    """Each as Python writes it: to Python itself, 1 and True are equal."""


@dataclass(frozen=True, slots=True)
class Listed:
    """``list[...]``."""

    item: Form


@dataclass(frozen=True, slots=True)
class Mapped:
    """``dict[str, ...]``."""

    value: Form


@dataclass(frozen=True, slots=True)
class OneOf:
    """``A | B``; made by `one_of`."""

    members: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class Named:
    """A type that is defined apart."""

    definition: Definition


Form = Anything | Plain | Literals | Listed | Mapped | OneOf | Named
ANY = Anything()
_NONE = Plain("None")


@dataclass(frozen=True, slots=True)
class Field:
    """One key of an object, or one argument."""

    key: str
    form: Form
    required: bool
    about: str = ""
    """What its schema says in words, and what of it Python's types cannot say."""
    default: Any = None
    has_default: bool = False


@dataclass(eq=False, slots=True)
class Definition:
    """A `TypedDict` or an alias, filled in once it has been read: definitions may lead back to themselves."""

    kind: Literal["object", "alias"]
    wanted: str
    """The name it would like, in words."""
    scope: str
    """Who may have the same type: everybody ("") where the schema gave it that name, else the server or the tool."""
    about: str = ""
    fields: tuple[Field, ...] = ()
    body: Form = field(default=ANY)


def one_of(forms: Iterable[Form]) -> Form:
    """The union of forms: flat, each once, `Any` before everything, `float` before `int`, None last."""
    flat = list(dict.fromkeys(member for form in forms for member in _members(form)))
    if not flat or ANY in flat:
        return ANY
    if Plain("float") in flat and Plain("int") in flat:
        flat.remove(Plain("int"))
    literals = [form for form in flat if isinstance(form, Literals)]
    if len(literals) > 1:
        together = Literals(tuple(dict.fromkeys(value for form in literals for value in form.written)))
        flat[flat.index(literals[0])] = together
        flat = [form for form in flat if form is together or not isinstance(form, Literals)]
    if _NONE in flat:
        flat.remove(_NONE)
        flat.append(_NONE)
    return flat[0] if len(flat) == 1 else OneOf(tuple(flat))


def _members(form: Form) -> tuple[Form, ...]:
    return form.members if isinstance(form, OneOf) else (form,)


def uses(form: Form) -> Iterator[Definition]:
    """The definitions that a form names itself, in order."""
    if isinstance(form, Named):
        yield form.definition
    elif isinstance(form, Listed):
        yield from uses(form.item)
    elif isinstance(form, Mapped):
        yield from uses(form.value)
    elif isinstance(form, OneOf):
        for member in form.members:
            yield from uses(member)


def fits(form: Form, value: str | int | float | bool | None) -> bool:
    """Whether a plain value is one of `form`; yes only where that is certain."""
    match form:
        case Anything():
            return True
        case Plain("float"):
            return type(value) in (int, float)
        case Plain(name):
            return name == ("None" if value is None else type(value).__name__)
        case Literals(written):
            return not isinstance(value, float) and repr(value) in written
        case OneOf(members):
            return any(fits(member, value) for member in members)
        case Named(definition):
            return (
                definition.kind == "alias" and not isinstance(definition.body, Named) and fits(definition.body, value)
            )
        case _:
            return False
