"""Annotations as the text of a Python module: names for its types, its functions, and its namespaces."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from callgate.tools.tool import Tool

from .reading import ANY, BUILT_IN, TYPING, Field, Form, Reader, Type, mark, uses, written
from .texts import class_name, comment, docstring, first_line, is_plain, one_line, shortened, shown_default

__all__ = ["Module", "ToolForms", "read_tool"]

_MARK = re.compile("\0(.+?)\0")
_MOST_DESCRIPTION = 8_000
_MOST_FIRST_LINE = 120
_MOST_DEFAULT = 100
_MOST_ABOUT = 500
_MOST_REACHED = 100
"""Types that one may lead to and still be shared by tools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolForms:
    """A tool, read."""

    tool: Tool
    name: str
    """The Python name of the tool."""
    types: list[Type]
    """Those that its schemas define; marks hold numbers of this list."""
    fields: list[Field]
    """Its arguments, in positional order."""
    spelled: Mapping[str, str]
    """How arguments are written whose names are no Python names."""
    packed: int | None
    """The arguments as a type, where a name cannot stand in a signature."""
    rest: Form | None
    """The form of the values of further arguments, where there may be any."""
    result: Form
    notes: str
    """What was left out."""


def read_tool(tool: Tool, name: str) -> ToolForms:
    """Read both schemas of a tool.

    Args:
        tool: any.
        name: its Python name.
    """
    types: list[Type] = []
    reader = Reader(tool.input_schema, f"{name} arguments", types)
    fields, rest = reader.arguments()
    spelled = {key: each for each, key in tool.spellings.items() if is_plain(each)}
    packed = None
    if not all(is_plain(field.key) or field.key in spelled for field in fields):
        packed, spelled = len(types), {}
        types.append(Type(f"{name} arguments", titled=False, fields=fields, plain=False))
    output = Reader({} if tool.output_schema is None else tool.output_schema, f"{name} result", types)
    result = output.form()
    return ToolForms(
        tool=tool, name=name, types=types, fields=fields, packed=packed, rest=rest, result=result, spelled=spelled,
        notes="; ".join([*reader.notes, *output.notes][:5]),
    )  # fmt: skip


class Module:
    """A module of stubs.

    Args:
        tools: in the order in which they name types.
        taken: the names of all functions, namespaces and members: no type is called like one.
        words: whether everything is described; else only the first line of what a tool does.
    """

    def __init__(self, tools: Sequence[ToolForms], taken: Collection[str], *, words: bool) -> None:
        self._words = words
        self._used: set[str] = set()
        keys = {field.key for read in tools for each in read.types if each.plain for field in each.fields}
        self._taken = {*taken, *keys}
        self._numbers = Counter[str]()
        self._local = {name: self._free(name) for name in (*TYPING, "OMITTED")}
        self._taken |= {*self._local, *BUILT_IN}
        self._shared: dict[object, str] = {}
        """The names of types by all that they and those below them are: tools share those that have a title."""
        self._names: dict[str, list[str]] = {}
        self._types: dict[str, str] = {}
        for read in tools:
            self._add(read)

    def _add(self, read: ToolForms) -> None:
        """Name and write the types of a tool."""
        called = [each.wanted if each.titled else f"of {read.name}" for each in read.types]
        alone = [self._type(each, name, [""] * len(called)) for each, name in zip(read.types, called, strict=True)]
        below = [list(dict.fromkeys(used for form in each.forms for used in uses(form))) for each in read.types]
        names = self._names[read.name] = []
        for number, each in enumerate(read.types):
            reached = [number]
            for one in reached:  # which grow meanwhile
                if len(reached) <= _MOST_REACHED:
                    reached += [other for other in below[one] if other not in reached]
            key: object = read.name, number
            if len(reached) <= _MOST_REACHED:
                key = tuple((alone[one], *map(reached.index, below[one])) for one in reached)
            if key not in self._shared:
                self._shared[key] = self._free(class_name(each.wanted))
            names.append(self._shared[key])
        for each, name in zip(read.types, names, strict=True):
            if name not in self._types:
                self._types[name] = self._type(each, name, names)

    def _free(self, name: str) -> str:
        """The name, or with a number behind it that makes it free; it is taken then."""
        free = name
        while free in self._taken:
            self._numbers[name] += 1
            free = f"{name}{self._numbers[name] + 1}"
        self._taken.add(free)
        return free

    def line(self, read: ToolForms, name: str, *, alone: bool = False) -> str:
        """``name(...) -> ...``; for a reader who has the line `alone`, arguments of odd names stand in it."""
        parameters = ", ".join(self._parameters(read))
        if alone and read.packed is not None:
            keys = (f"{field.key!r}: {self._named(_key_form(field), self._names[read.name])}" for field in read.fields)
            parameters = f"**{{{', '.join(keys)}}}"
        return f"{name}({parameters}) -> {self._form(read.result, read)}"

    def result_types(self, read: ToolForms, most: int) -> str:
        """The types that the result names, and those that these name, on one line of about `most` characters: a key
        with ``?`` may be missing; ``...`` stands for what is left out."""
        told: dict[str, str] = {}
        todo = uses(read.result)
        for number in todo:  # which grow meanwhile
            name = self._names[read.name][number]
            if name in told:
                continue
            if most <= 0:
                return f"{'; '.join(told.values())}; ..."
            told[name] = f"{name}: {self._keys(read.types[number], read, most)}"
            most -= len(told[name])
            todo += [used for form in read.types[number].forms for used in uses(form)]
        return "; ".join(told.values())

    def _keys(self, each: Type, read: ToolForms, most: int) -> str:
        if each.body is not None:
            text = self._form(each.body, read)
            return text if len(text) <= most else "..."
        keys: list[str] = []
        for field in each.fields:
            key = field.key if is_plain(field.key) else repr(field.key)
            keys.append(f"{key}{'' if field.required else '?'}: {self._form(field.form, read)}")
            most -= len(keys[-1])
            if most < 0:
                keys[-1] = "..."
                break
        return f"{{{', '.join(keys)}}}"

    def function(self, read: ToolForms, name: str, indent: str = "", *, note: str = "") -> str:
        """The whole stub of a tool, its lines behind `indent`."""
        inner = f"{indent}    "
        described = self._described(read)
        return "".join(
            [
                f"{indent}async def {self.line(read, name)}:{f'  {comment(note)}' if note else ''}\n",
                docstring(described, inner) if described else "",
                f"{inner}{comment(f'left out: {read.notes}', 1_200)}\n" if read.notes else "",
                f"{inner}raise NotImplementedError\n",
            ]
        )

    def text(self, title: str, functions: Iterable[str]) -> str:
        """The module: its types, and then what is given."""
        body = "".join(f"\n\n{each}" for each in (*(self._types[name] for name in sorted(self._types)), *functions))
        omitted = f"\n{self._local['OMITTED']}: {self.typing('Any')} = ...\n" if "OMITTED" in self._used else ""
        names = ((name, self._local[name]) for name in sorted(self._used - {"OMITTED"}))
        imported = ", ".join(name if name == local else f"{name} as {local}" for name, local in names)
        imports = f"\nfrom typing import {imported}\n" if imported else ""
        return f'"""{title}"""\n\nfrom __future__ import annotations\n{imports}{omitted}{body}'

    def typing(self, name: str) -> str:
        """The local name of something in `typing`, which is imported then; or of `OMITTED`."""
        self._used.add(name)
        return self._local[name]

    def _named(self, text: str, names: Sequence[str]) -> str:
        """A text with names in the places of its marks."""
        return _MARK.sub(lambda found: names[int(found[1])] if found[1].isdigit() else self.typing(found[1]), text)

    def _form(self, form: Form, read: ToolForms) -> str:
        return self._named(written(form), self._names[read.name])

    def _described(self, read: ToolForms) -> str:
        text = read.tool.description.strip()
        if not self._words:
            return first_line(text, _MOST_FIRST_LINE)
        parts = [shortened(text, _MOST_DESCRIPTION)] if text else []
        told = [self._argument(field, read) for field in read.fields]
        arguments = [f"    {key}: {about}" for key, about in told if about]
        if arguments:
            parts.append("\n".join(["Args:", *arguments]))
        result = (read.tool.output_schema or {}).get("description")
        named = len(read.result) == 1 and read.result != ANY and _MARK.fullmatch(read.result[0])
        if isinstance(result, str) and result.strip() and not named:
            parts.append(f"Returns:\n    {one_line(result)}")
        return "\n\n".join(parts)

    def _argument(self, field: Field, read: ToolForms) -> tuple[str, str]:
        """How an argument is written, and what is told of it; its default where the signature does not show it."""
        in_signature = read.packed is None and _default(field, read.types) is not None
        about, spelled = _about(field, default=not in_signature), read.spelled.get(field.key)
        if spelled is None:
            return one_line(field.key), about
        return spelled, f"stands for {one_line(repr(field.key))}{f': {about}' if about else ''}"

    def _parameters(self, read: ToolForms) -> list[str]:
        if read.packed is not None:
            return [f"**arguments: {self.typing('Unpack')}[{self._names[read.name][read.packed]}]"]
        parameters: list[str] = []
        in_order = iter(read.tool.parameters)
        optional_seen = keyword_only = False
        for field in read.fields:
            if not keyword_only and (next(in_order, None) != field.key or (field.required and optional_seen)):
                parameters.append("*")
                keyword_only = True
            optional_seen = optional_seen or not field.required
            default = "" if field.required else f" = {_default(field, read.types) or self.typing('OMITTED')}"
            parameters.append(f"{read.spelled.get(field.key, field.key)}: {self._form(field.form, read)}{default}")
        if read.rest is not None:
            rest = "more"
            while any(rest == read.spelled.get(field.key, field.key) for field in read.fields):
                rest += "_"
            parameters.append(f"**{rest}: {self._form(read.rest, read)}")
        return parameters

    def _type(self, each: Type, name: str, names: Sequence[str]) -> str:
        if each.body is not None:
            return f"{name}: {self.typing('TypeAlias')} = {self._named(written(each.body), names)!r}\n"
        typed_dict = self.typing("TypedDict")
        total = any(field.required for field in each.fields)
        forms = [self._named(_key_form(field) if total else written(field.form), names) for field in each.fields]
        told = [_about(field) if self._words else "" for field in each.fields]
        told = [f"  {comment(text)}" if text else "" for text in told]
        lines = zip(each.fields, forms, told, strict=True)
        about = shortened(each.about, _MOST_ABOUT) if self._words else ""
        stated = docstring(about, "    " if each.plain else "") if about else ""
        if each.plain:
            keys = "".join(f"    {field.key}: {form}{words}\n" for field, form, words in lines)
            return f"class {name}({typed_dict}{'' if total else ', total=False'}):\n{stated}{keys}"
        keys = "".join(f"        {field.key!r}: {form!r},{words}\n" for field, form, words in lines)
        optional = "" if total else "    total=False,\n"
        return f"{name} = {typed_dict}(\n    {name!r},\n    {{\n{keys}    }},\n{optional})\n{stated}"


def _key_form(field: Field) -> str:
    form = written(field.form)
    return form if field.required else f"{mark('NotRequired')}[{form}]"


def _about(field: Field, *, default: bool = True) -> str:
    """What is told of a field, besides its type."""
    shown = shown_default(field.default) if default else ""
    return " ".join(part for part in (one_line(field.about), f"({shown})" if shown else "") if part)


def _default(field: Field, types: list[Type]) -> str | None:
    """How the default is written; None where it cannot be, or is not certainly of the field's type."""
    value = field.default
    if field.required or not isinstance(value, (str, int, float, type(None))) or len(repr(value)) > _MOST_DEFAULT:
        return None
    members = set(field.form)
    for number in uses(field.form):
        members.update(types[number].body or () if mark(str(number)) in field.form else ())
    kind = "None" if value is None else type(value).__name__
    fits = {ANY[0], kind, f"={value!r}", "float" if kind == "int" else kind} & members
    return repr(value) if fits else None
