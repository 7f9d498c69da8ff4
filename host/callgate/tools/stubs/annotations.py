"""Annotations as text, and the types that they name. Knows neither schemas nor modules.

A form is an annotation whose names are not chosen yet. `writing` chooses them, when it knows all tools of the module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ANY", "BUILT_IN", "HIDING", "TYPING", "Field", "Form", "Type", "dict_of", "fits", "list_of", "mark",
           "one_of", "uses", "written"]  # fmt: skip

TYPING = ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict", "Unpack")
BUILT_IN = frozenset({"str", "int", "float", "bool", "None", "list", "dict", "staticmethod", "NotImplementedError"})
HIDING = BUILT_IN | {*TYPING, "OMITTED"}
"""In the body of a class, a key of such a name would hide what annotations mean."""

Form = tuple[str, ...]
"""An annotation as the members of a union. ``=1`` is a value of a `Literal`; a name between two zero characters is one
that is chosen when the module is written (see `mark`)."""


def mark(name: str) -> str:
    """Stands for something of `typing`, or with a number for a type of the tool."""
    return f"\0{name}\0"


ANY: Form = (mark("Any"),)


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


@dataclass(slots=True)
class Type:
    """A `TypedDict`, or with a `body` an alias."""

    wanted: str
    """The name it would like, in words."""
    titled: bool
    """Whether the schema gave it that name. Without a title, what looks the same elsewhere may mean something else."""
    about: str = ""
    fields: list[Field] = field(default_factory=list)
    body: Form | None = None
    plain: bool = True
    """Whether its keys can stand in a class."""


def one_of(forms: Iterable[Form]) -> Form:
    """The union of forms: each member once, `Any` before everything, `float` before `int`, None last."""
    flat = dict.fromkeys(member for form in forms for member in form)
    if not flat or ANY[0] in flat:
        return ANY
    if "float" in flat:
        flat.pop("int", None)
    if "None" in flat:
        flat["None"] = flat.pop("None")
    return tuple(flat)


def written(form: Form) -> str:
    """The annotation as text, with its marks."""
    values = [member[1:] for member in form if member.startswith("=")]
    members = [f"{mark('Literal')}[{', '.join(values)}]" if member.startswith("=") else member for member in form]
    return " | ".join(dict.fromkeys(members))


def uses(form: Form) -> list[int]:
    """The numbers of the types that a form names."""
    return [int(number) for member in form if member[0] != "=" for number in re.findall("\0(\\d+)\0", member)]


def fits(form: Form, value: Any, types: list[Type]) -> bool:
    """Whether a plain value is one of `form`; yes only where that is certain."""
    for member in form:
        if member == ANY[0] or (member == "float" and type(value) in (int, float)):
            return True
        if member == ("None" if value is None else type(value).__name__):
            return True
        if member == f"={value!r}" and not isinstance(value, float):
            return True
        for number in uses((member,)) if member.startswith("\0") else ():
            body = types[number].body
            if body is not None and not uses(body) and fits(body, value, types):
                return True
    return False


def list_of(item: Form) -> Form:
    return (f"list[{written(item)}]",)


def dict_of(value: Form) -> Form:
    return (f"dict[str, {written(value)}]",)
