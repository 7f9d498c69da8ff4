"""The types in a module of stubs: their names, their text, and the annotations that name them.

Tools share a type with the same title and the same text. A type without a title belongs to its tool, so that its name
does not depend on other tools.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .texts import class_name, comment, docstring, one_line, shortened, shown_default

__all__ = ["ANY", "BUILT_IN", "TYPING", "Field", "Form", "Type", "Types", "mark", "named", "one_of", "written"]

TYPING = ("Any", "Literal", "NotRequired", "TypedDict")
BUILT_IN = frozenset({"str", "int", "float", "bool", "None", "list", "dict", "staticmethod", "NotImplementedError"})
_MOST_ABOUT = 500
_MARK = re.compile("\0(.+?)\0")

Form = tuple[str, ...]
"""An annotation as the members of a union; empty if no value fits. ``=1`` is a value of a `Literal`. Names of types are
between two zero characters (see `mark`)."""


def mark(name: str) -> str:
    """A placeholder for a type of the module or a name of `typing`, which the module may import under another name."""
    return f"\0{name}\0"


ANY: Form = (mark("Any"),)


def one_of(forms: Iterable[Form]) -> Form:
    """The union of forms: each member once, `Any` before everything, `float` before `int`, None last."""
    flat = dict.fromkeys(member for form in forms for member in form)
    if ANY[0] in flat:
        return ANY
    if "float" in flat:
        flat.pop("int", None)
    if "None" in flat:
        flat["None"] = flat.pop("None")
    return tuple(flat)


def written(form: Form) -> str:
    """The annotation as text, with its marks."""
    values = ", ".join(member[1:] for member in form if member[0] == "=")
    members = [f"{mark('Literal')}[{values}]" if member[0] == "=" else member for member in form or ANY]
    return " | ".join(dict.fromkeys(members))


def named(form: Form) -> list[str]:
    """The names between marks."""
    return _MARK.findall(written(form))


@dataclass(frozen=True, slots=True)
class Field:
    """One key of an object, or one argument."""

    key: str
    form: Form
    required: bool
    about: str = ""
    """Its description, and the constraints that Python's types cannot express."""
    default: Any = ...
    """A JSON value, if there is a default."""

    @property
    def key_form(self) -> str:
        """The annotation of the key in a `TypedDict` with required keys."""
        return written(self.form) if self.required else f"{mark('NotRequired')}[{written(self.form)}]"

    def remark(self, *, default: bool = True) -> str:
        """Its description and its default, on one line."""
        shown = shown_default(self.default) if default else ""
        return " ".join(part for part in (one_line(self.about), f"({shown})" if shown else "") if part)


@dataclass(slots=True)
class Type:
    """A `TypedDict`."""

    wanted: str
    """The wanted name, in words."""
    titled: bool
    """Whether the schema gave it that name."""
    is_object: bool = False
    plain: bool = True
    """Whether its keys can be fields of a class."""
    about: str = ""
    fields: list[Field] = field(default_factory=list)
    name: str | None = None
    """Given before the type is complete where the type contains itself."""


class Types:
    """The types of one module.

    Args:
        taken: names of functions, namespaces, members and keys, which types may not have.
        words: whether to describe keys and types.
    """

    def __init__(self, taken: Collection[str], *, words: bool) -> None:
        self.known: dict[str, Type] = {}
        self._words = words
        self._taken = set(taken)
        self._local = {name: self.free(name) for name in (*TYPING, "OMITTED")}
        self._taken |= {*self._local, *BUILT_IN}
        self._used: set[str] = set()
        self._shared: dict[object, str] = {}

    def free(self, name: str) -> str:
        """Take the name, or the name with a number if it is taken already."""
        free, number = name, 1
        while free in self._taken:
            number += 1
            free = f"{name}{number}"
        self._taken.add(free)
        return free

    def reserve(self, made: Type) -> str:
        """Give a name to a type that is not complete yet."""
        made.name = made.name or self.free(class_name(made.wanted))
        return made.name

    def add(self, made: Type, tool: str) -> Form:
        """Add a complete type. Returns the form that names this type or an equal one."""
        own = mark(made.name or "\n")
        key = (made.wanted if made.titled else (tool,), self._text(made, "").replace(own, "\0"))
        if key not in self._shared:
            self._shared[key] = self.reserve(made)
            self.known[self._shared[key]] = made
        elif made.name is not None:
            self._taken.discard(made.name)
        return (mark(self._shared[key]),)

    def reached(self, forms: Iterable[Form]) -> Iterator[str]:
        """The names of the types that the forms name, directly or through other types; each once."""
        todo = [name for form in forms for name in named(form)]
        seen: set[str] = set()
        for name in todo:  # the loop adds to it
            if name in self.known and name not in seen:
                seen.add(name)
                yield name
                todo += [below for field in self.known[name].fields for below in named(field.form)]

    def local(self, text: str) -> str:
        """The text with names in place of its marks."""
        return _MARK.sub(lambda found: self.typing(found[1]) if found[1] in self._local else found[1], text)

    def typing(self, name: str) -> str:
        """The local name of `OMITTED`, or of a name of `typing`, which the module then imports."""
        self._used.add(name)
        return self._local[name]

    def module(self, title: str, forms: Iterable[Form], functions: Iterable[str]) -> str:
        """The text of the module: the types that the forms need, and then the functions."""
        types = (self.local(self._text(self.known[name], name)) for name in sorted(self.reached(forms)))
        body = "".join(f"\n\n{each}" for each in (*types, *functions))
        omitted = f"\n{self._local['OMITTED']}: {self.typing('Any')} = ...\n" if "OMITTED" in self._used else ""
        names = ((name, self._local[name]) for name in sorted(self._used - {"OMITTED"}))
        imported = ", ".join(name if name == local else f"{name} as {local}" for name, local in names)
        imports = f"\nfrom typing import {imported}\n" if imported else ""
        return f'"""{title}"""\n\nfrom __future__ import annotations\n{imports}{omitted}{body}'

    def _text(self, made: Type, name: str) -> str:
        """The text of a type; with marks in it if `name` is empty."""
        final = self.local if name else str
        total = any(each.required for each in made.fields)
        forms = [final(each.key_form if total else written(each.form)) for each in made.fields]
        remarks = [each.remark() if self._words else "" for each in made.fields]
        lines = [
            (field.key, form, f"  {comment(text)}" if text else "")
            for field, form, text in zip(made.fields, forms, remarks, strict=True)
        ]
        about = shortened(made.about, _MOST_ABOUT) if self._words else ""
        stated = docstring(about, "    " if made.plain else "") if about else ""
        if made.plain:
            keys = "".join(f"    {key}: {form}{words}\n" for key, form, words in lines)
            return f"class {name}({mark('TypedDict')}{'' if total else ', total=False'}):\n{stated}{keys}"
        keys = "".join(f"        {key!r}: {form!r},{words}\n" for key, form, words in lines)
        optional = "" if total else "    total=False,\n"
        return f"{name} = {mark('TypedDict')}(\n    {name!r},\n    {{\n{keys}    }},\n{optional})\n{stated}"
