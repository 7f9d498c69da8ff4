"""Forms as the text of a Python module: names for its types, its functions, and its namespaces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from .about import shown_default
from .cycles import components
from .equal import same_types
from .forms import ANY, Anything, Definition, Field, Form, Listed, Literals, Mapped, Named, OneOf, Plain, fits, uses
from .texts import class_name, comment, docstring, first_line, is_plain, one_line, shortened
from .tools import ToolForms, definitions_of

__all__ = ["Module"]

_TYPING = ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict", "Unpack")
_BUILT_IN = frozenset({"str", "int", "float", "bool", "None", "list", "dict", "staticmethod", "NotImplementedError"})
_MOST_DESCRIPTION = 8_000
_MOST_FIRST_LINE = 120
_MOST_DEFAULT = 100
_MOST_ABOUT = 500


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
        self._local = {name: _free(name, taken) for name in (*_TYPING, "OMITTED")}
        of_tools = [(each, definitions_of(each)) for each in tools]
        self._same = same_types((each for _, definitions in of_tools for each in definitions), words=words)
        self._taken = {*taken, *self._local, *self._local.values(), *_BUILT_IN}
        self._numbers: dict[str, int] = {}
        first = [definition for definition, first in self._same.items() if definition is first]
        self._names = {definition: self._reserved(class_name(definition.wanted)) for definition in first}
        self._also: dict[Definition, list[str]] = {}
        """More names of a type, as other tools call it."""
        self._own: dict[Definition, str] = {}
        """What a definition is called in the signature of its tool, where that is not the name of its type."""
        for read, definitions in of_tools:
            self._call_its_own(read, definitions)
        # what an annotation inside a class body may name
        self._in_annotations = {*self._names.values(), *self._own.values(), *self._local.values(), *_BUILT_IN}
        self._classes = {definition for definition in first if self._is_class(definition)}
        self._circles = components({each: self._below(each) for each in first if each not in self._classes})
        self._circle: int | None = None
        """That of the type which is being written: what is in it cannot be named there."""

    def _call_its_own(self, read: ToolForms, definitions: Sequence[Definition]) -> None:
        """Give the types in a tool's signature the names that they have where the tool stands alone."""
        alone: dict[Definition, Definition] = {}
        for definition in definitions:
            alone.setdefault(self._same[definition], definition)
        for used in read.named():
            first = self._same[used]
            wanted = class_name(alone[first].wanted)
            if wanted == class_name(first.wanted):
                continue
            name = self._own.get(alone[first])
            if name is None:
                name = self._own[alone[first]] = self._reserved(wanted)
                self._also.setdefault(first, []).append(name)
            self._own[used] = name

    def _reserved(self, wanted: str) -> str:
        candidate = wanted
        while candidate in self._taken:
            self._numbers[wanted] = self._numbers.get(wanted, 1) + 1
            candidate = f"{wanted}{self._numbers[wanted]}"
        self._taken.add(candidate)
        return candidate

    def head(self, read: ToolForms, name: str) -> str:
        """``name(...) -> ...``"""
        return f"{name}({', '.join(self._parameters(read))}) -> {self._form(read.result)}"

    def line(self, read: ToolForms, name: str) -> str:
        """As `head`, for a reader who has the line alone: arguments of odd names stand in it."""
        if read.packed is None:
            return self.head(read, name)
        fields = ", ".join(f"{field.key!r}: {self._field(field, total=True)}" for field in read.fields)
        return f"{name}(**{{{fields}}}) -> {self._form(read.result)}"

    def result_types(self, read: ToolForms, most: int) -> str:
        """The types that the result names, and those that these name, on one line of about `most` characters: a key
        with ``?`` may be missing; ``...`` stands for what is left out."""
        told: list[str] = []
        room = most
        todo = list(uses(read.result))
        seen: set[Definition] = set()
        for definition in todo:
            first = self._same[definition]
            if first in seen:
                continue
            seen.add(first)
            if room <= 0:
                return f"{'; '.join(told)}; ..."
            told.append(f"{self._names[first]}: {self._keys(first, room)}")
            room -= len(told[-1])
            todo += [used for form in (first.body, *(field.form for field in first.fields)) for used in uses(form)]
        return "; ".join(told)

    def _keys(self, definition: Definition, most: int) -> str:
        if definition.kind == "alias":
            text = self._form(definition.body)
            return text if len(text) <= most else "..."
        keys: list[str] = []
        for field in definition.fields:
            key = field.key if is_plain(field.key) else repr(field.key)
            keys.append(f"{key}{'' if field.required else '?'}: {self._form(field.form)}")
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
        written = list(functions)
        types = {name: self._type(definition, name) for definition, name in self._names.items()}
        for definition, also in self._also.items():
            name = self._names[definition]
            types[name] += "\n\n" + "".join(f"{each} = {name}\n" for each in sorted(also))
        parts = [f'"""{title}"""\n\nfrom __future__ import annotations\n']
        if self._omits:
            self.typing("Any")
        if self._used:
            names = ((each, self._local[each]) for each in sorted(self._used))
            imported = ", ".join(name if name == local else f"{name} as {local}" for name, local in names)
            parts.append(f"\nfrom typing import {imported}\n")
        if self._omits:
            parts.append(f"\n{self._local['OMITTED']}: {self._local['Any']} = ...\n")
        parts += [f"\n\n{types[name]}" for name in sorted(types)]
        return "".join([*parts, *(f"\n\n{each}" for each in written)])

    def typing(self, name: str) -> str:
        """The local name of something in `typing`; imports it."""
        self._used.add(name)
        return self._local[name]

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
        if isinstance(result, str) and result.strip() and not isinstance(read.result, Named):
            parts.append(f"Returns:\n    {one_line(result)}")
        return "\n\n".join(parts)

    def _argument(self, field: Field, read: ToolForms) -> tuple[str, str]:
        """How an argument is written, and what is told of it."""
        about, written = self._about(field, read), read.spelled.get(field.key)
        if written is None:
            return one_line(field.key), about
        return written, f"stands for {one_line(repr(field.key))}{f': {about}' if about else ''}"

    def _about(self, field: Field, read: ToolForms | None = None) -> str:
        """What is told of a field, besides its type; its default where the signature does not show it."""
        told = one_line(field.about)
        in_signature = read is not None and read.packed is None and self._default(field) is not None
        default = "" if not field.has_default or in_signature else shown_default(field.default)
        return " ".join(part for part in (told, f"({default})" if default else "") if part)

    def _parameters(self, read: ToolForms) -> list[str]:
        if read.packed is not None:
            return [f"**arguments: {self.typing('Unpack')}[{self._form(Named(read.packed))}]"]
        written: list[str] = []
        in_order = iter(read.tool.parameters)
        optional_seen = keyword_only = False
        for field in read.fields:
            if not keyword_only and (next(in_order, None) != field.key or (field.required and optional_seen)):
                written.append("*")
                keyword_only = True
            optional_seen = optional_seen or not field.required
            name = read.spelled.get(field.key, field.key)
            written.append(f"{name}: {self._form(field.form)}{'' if field.required else self._shown(field)}")
        if read.rest is not None:
            names = {read.spelled.get(field.key, field.key) for field in read.fields}
            written.append(f"**{_free('more', names, '{}_')}: {self._form(read.rest)}")
        return written

    def _shown(self, field: Field) -> str:
        default = self._default(field)
        if default is None:
            self._omits = True
            return f" = {self._local['OMITTED']}"
        return f" = {default}"

    def _default(self, field: Field) -> str | None:
        """How the default is written; None where it cannot be, or is not of the field's type."""
        value = field.default
        if field.required or not field.has_default or not (value is None or isinstance(value, (str, int, float))):
            return None
        written = repr(value)
        return written if len(written) <= _MOST_DEFAULT and fits(field.form, value) else None

    def _type(self, definition: Definition, name: str) -> str:
        if definition.kind == "alias":
            return f"{name}: {self.typing('TypeAlias')} = {self._form(definition.body)!r}\n"
        typed_dict = self.typing("TypedDict")
        about = shortened(definition.about, _MOST_ABOUT) if self._words else ""
        total = any(field.required for field in definition.fields)
        if definition in self._classes:
            lines = [
                f"    {field.key}: {self._field(field, total=total)}{self._told(field)}\n"
                for field in definition.fields
            ]
            stated = docstring(about, "    ") if about else ""
            return f"class {name}({typed_dict}{'' if total else ', total=False'}):\n{stated}{''.join(lines)}"
        self._circle = self._circles[definition]
        lines = [
            f"        {field.key!r}: {self._field(field, total=total)!r},{self._told(field)}\n"
            for field in definition.fields
        ]
        self._circle = None
        lines = [f"    {name!r},\n    {{\n", *lines, "    },\n", *([] if total else ["    total=False,\n"])]
        stated = docstring(about, "") if about else ""
        return f"{name} = {typed_dict}(\n{''.join(lines)})\n{stated}"

    def _is_class(self, definition: Definition) -> bool:
        return definition.kind == "object" and all(
            is_plain(field.key) and field.key not in self._in_annotations for field in definition.fields
        )

    def _below(self, definition: Definition) -> list[Definition]:
        """What a type names that is no class. For pyright, the functional form of a `TypedDict` must not lead back to
        itself by such types alone."""
        forms = (definition.body, *(field.form for field in definition.fields))
        named = (self._same[used] for form in forms for used in uses(form))
        return [each for each in named if each not in self._classes]

    def _field(self, field: Field, *, total: bool) -> str:
        form = self._form(field.form)
        return form if field.required or not total else f"{self.typing('NotRequired')}[{form}]"

    def _told(self, field: Field) -> str:
        told = self._about(field) if self._words else ""
        return f"  {comment(told)}" if told else ""

    def _form(self, form: Form) -> str:
        match form:
            case Anything():
                return self.typing("Any")
            case Plain(name):
                return name
            case Literals(written):
                return f"{self.typing('Literal')}[{', '.join(written)}]"
            case Listed(item):
                return f"list[{self._form(item)}]"
            case Mapped(value):
                return f"dict[str, {self._form(value)}]"
            case OneOf(members):
                return " | ".join(self._form(member) for member in members)
            case Named(definition):
                first = self._same[definition]
                if self._circle is not None and self._circles.get(first) == self._circle:
                    return self._form(ANY if first.kind == "alias" else Mapped(ANY))
                return self._own.get(definition) or self._names[first]


def _free(name: str, taken: Collection[str], more: str = "_{}") -> str:
    while name in taken:
        name = more.format(name)
    return name
