"""Annotations as the text of a Python module: names for its types, its functions, and its namespaces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from callgate.tools.tool import Tool

from .annotations import ANY, BUILT_IN, TYPING, Field, Form, Type, fits, mark, uses, written
from .reading import Reader
from .texts import class_name, comment, docstring, first_line, is_plain, one_line, shortened, shown_default

__all__ = ["Module", "ToolForms", "read_tool"]

_MARK = re.compile("\0(.+?)\0")
_MOST_DESCRIPTION = 8_000
_MOST_FIRST_LINE = 120
_MOST_DEFAULT = 100
_MOST_ABOUT = 500
_MOST_REACHED = 100
"""Types that one may lead to and still be shared by tools."""

Naming = Callable[[str], str]
"""Puts names in the places of marks."""


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
    cuts: tuple[str, ...]
    """What was left out for its size."""
    unsaid: tuple[str, ...]
    """What was left out because no type can say it."""


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
    result, cuts, unsaid = ANY, reader.cuts, reader.unsaid
    if tool.output_schema is not None:
        output = Reader(tool.output_schema, f"{name} result", types)
        result = output.form()
        cuts, unsaid = cuts + output.cuts, unsaid + output.unsaid
    return ToolForms(
        tool=tool, name=name, types=types, fields=fields, packed=packed, rest=rest, result=result, cuts=cuts[:5],
        unsaid=unsaid[:5], spelled=spelled,
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
        self._omits = False
        keys = {field.key for read in tools for each in read.types if each.plain for field in each.fields}
        self._local = {name: _free(name, {*taken, *keys}) for name in (*TYPING, "OMITTED")}
        self._taken = {*taken, *keys, *self._local, *self._local.values(), *BUILT_IN}
        self._numbers: dict[str, int] = {}
        self._shared: dict[object, str] = {}
        """The names of types by all that they and those below them are: tools share those that have a title."""
        self._names: dict[str, list[str]] = {}
        self._types: dict[str, str] = {}
        for read in tools:
            self._add(read)

    def _add(self, read: ToolForms) -> None:
        """Name and write the types of a tool."""
        _cut_circles(read.types)
        called = [each.wanted if each.titled else f"of {read.name}" for each in read.types]
        alone = [self._type(each, name, [""] * len(called)) for each, name in zip(read.types, called, strict=True)]
        below = [[number for form in _forms(each) for number in uses(form)] for each in read.types]
        names = self._names[read.name] = []
        for number, each in enumerate(read.types):
            reached = [number]
            for one in reached:  # which grow meanwhile
                if len(reached) <= _MOST_REACHED:
                    reached += [other for other in dict.fromkeys(below[one]) if other not in reached]
            key: object = read.name, number
            if len(reached) <= _MOST_REACHED:
                key = tuple((alone[one], *map(reached.index, below[one])) for one in reached)
            if key not in self._shared:
                self._shared[key] = self._reserved(class_name(each.wanted))
            names.append(self._shared[key])
        for each, name in zip(read.types, names, strict=True):
            if name not in self._types:
                self._types[name] = self._type(each, name, names)

    def _reserved(self, wanted: str) -> str:
        candidate = wanted
        while candidate in self._taken:
            self._numbers[wanted] = self._numbers.get(wanted, 1) + 1
            candidate = f"{wanted}{self._numbers[wanted]}"
        self._taken.add(candidate)
        return candidate

    def head(self, read: ToolForms, name: str) -> str:
        """``name(...) -> ...``"""
        return f"{name}({', '.join(self._parameters(read))}) -> {self._form(read.result, read)}"

    def line(self, read: ToolForms, name: str) -> str:
        """As `head`, for a reader who has the line alone: arguments of odd names stand in it."""
        if read.packed is None:
            return self.head(read, name)
        naming = self._naming(self._names[read.name])
        fields = ", ".join(f"{field.key!r}: {naming(_field(field))}" for field in read.fields)
        return f"{name}(**{{{fields}}}) -> {self._form(read.result, read)}"

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
            todo += [used for form in _forms(read.types[number]) for used in uses(form)]
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
        lines = [f"{indent}async def {self.head(read, name)}:{f'  {comment(note)}' if note else ''}\n"]
        described = self._described(read)
        if described:
            lines.append(docstring(described, inner))
        if read.cuts:
            lines.append(f"{inner}{comment('left out for its size: ' + '; '.join(read.cuts), 1_200)}\n")
        if read.unsaid:
            lines.append(f"{inner}{comment('left out, since no type can say it: ' + '; '.join(read.unsaid), 1_200)}\n")
        return "".join([*lines, f"{inner}raise NotImplementedError\n"])

    def text(self, title: str, functions: Iterable[str]) -> str:
        """The module: its types, and then what is given."""
        body = "".join(f"\n\n{each}" for each in (*(self._types[name] for name in sorted(self._types)), *functions))
        parts = [f'"""{title}"""\n\nfrom __future__ import annotations\n']
        if self._omits:
            self.typing("Any")
        if self._used:
            names = ((each, self._local[each]) for each in sorted(self._used))
            imported = ", ".join(name if name == local else f"{name} as {local}" for name, local in names)
            parts.append(f"\nfrom typing import {imported}\n")
        if self._omits:
            parts.append(f"\n{self._local['OMITTED']}: {self._local['Any']} = ...\n")
        return "".join([*parts, body])

    def typing(self, name: str) -> str:
        """The local name of something in `typing`; imports it."""
        self._used.add(name)
        return self._local[name]

    def _naming(self, names: Sequence[str]) -> Naming:
        def named(match: re.Match[str]) -> str:
            return names[int(match[1])] if match[1].isdigit() else self.typing(match[1])

        return lambda text: _MARK.sub(named, text)

    def _form(self, form: Form, read: ToolForms) -> str:
        return self._naming(self._names[read.name])(written(form))

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
        if isinstance(result, str) and result.strip() and not (len(read.result) == 1 and _is_type(read.result[0])):
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
            name, default = read.spelled.get(field.key, field.key), ""
            if not field.required:
                shown = _default(field, read.types)
                self._omits = self._omits or shown is None
                default = f" = {self._local['OMITTED'] if shown is None else shown}"
            parameters.append(f"{name}: {self._form(field.form, read)}{default}")
        if read.rest is not None:
            names = {read.spelled.get(field.key, field.key) for field in read.fields}
            parameters.append(f"**{_free('more', names, '{}_')}: {self._form(read.rest, read)}")
        return parameters

    def _type(self, each: Type, name: str, names: Sequence[str]) -> str:
        naming = self._naming(names)
        if each.body is not None:
            return f"{name}: {self.typing('TypeAlias')} = {naming(written(each.body))!r}\n"
        typed_dict = self.typing("TypedDict")
        about = shortened(each.about, _MOST_ABOUT) if self._words else ""
        total = any(field.required for field in each.fields)
        told = [_about(field) if self._words else "" for field in each.fields]
        forms = [naming(_field(field, total=total)) for field in each.fields]
        told = [f"  {comment(text)}" if text else "" for text in told]
        lines = zip(each.fields, forms, told, strict=True)
        if each.plain:
            stated = docstring(about, "    ") if about else ""
            keys = "".join(f"    {field.key}: {form}{words}\n" for field, form, words in lines)
            return f"class {name}({typed_dict}{'' if total else ', total=False'}):\n{stated}{keys}"
        keys = "".join(f"        {field.key!r}: {form!r},{words}\n" for field, form, words in lines)
        optional = "" if total else "    total=False,\n"
        stated = docstring(about, "") if about else ""
        return f"{name} = {typed_dict}(\n    {name!r},\n    {{\n{keys}    }},\n{optional})\n{stated}"


def _forms(each: Type) -> list[Form]:
    return [each.body] if each.body is not None else [field.form for field in each.fields]


def _is_type(member: str) -> bool:
    return _MARK.fullmatch(member) is not None and member != ANY[0]


def _field(field: Field, *, total: bool = True) -> str:
    form = written(field.form)
    return form if field.required or not total else f"{mark('NotRequired')}[{form}]"


def _about(field: Field, *, default: bool = True) -> str:
    """What is told of a field, besides its type."""
    shown = shown_default(field.default) if default and field.has_default else ""
    return " ".join(part for part in (one_line(field.about), f"({shown})" if shown else "") if part)


def _default(field: Field, types: list[Type]) -> str | None:
    """How the default is written; None where it cannot be, or is not of the field's type."""
    value = field.default
    if field.required or not field.has_default or not (value is None or isinstance(value, (str, int, float))):
        return None
    shown = repr(value)
    return shown if len(shown) <= _MOST_DEFAULT and fits(field.form, value, types) else None


def _cut_circles(types: list[Type]) -> None:
    """For pyright, the functional form of a `TypedDict` must not lead back to itself without a class in between: where
    it might, its keys are `Any`."""
    odd = {number for number, each in enumerate(types) if each.body is not None or not each.plain}
    ahead = {number: {used for form in _forms(types[number]) for used in uses(form)} & odd for number in odd}
    behind: dict[int, list[int]] = {number: [] for number in odd}
    for number, below in ahead.items():
        for each in below:
            behind[each].append(number)
    left = {number: len(below) for number, below in ahead.items()}
    ends = [number for number, count in left.items() if not count]
    for number in ends:  # which grow meanwhile
        for above in behind[number]:
            left[above] -= 1
            if not left[above]:
                ends.append(above)
    circles = odd - set(ends)
    for number in circles:
        odd_one = types[number]
        if odd_one.body is None:
            odd_one.fields[:] = [
                Field(field.key, ANY, field.required, field.about, field.default, field.has_default)
                if circles & set(uses(field.form)) else field
                for field in odd_one.fields
            ]  # fmt: skip


def _free(name: str, taken: Collection[str], more: str = "_{}") -> str:
    while name in taken:
        name = more.format(name)
    return name
