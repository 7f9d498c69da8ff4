"""One tool as forms: what it takes and what it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from callgate.tools.tool import Tool

from .forms import ANY, Definition, Field, Form, uses
from .reading import Reader
from .texts import is_plain

__all__ = ["ToolForms", "definitions_of", "read_tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolForms:
    """A tool, read."""

    tool: Tool
    name: str
    """The Python name of the tool."""
    fields: tuple[Field, ...]
    """Its arguments, in positional order."""
    spelled: Mapping[str, str]
    """How arguments are written whose names are no Python names."""
    packed: Definition | None
    """The arguments as a type, where a name cannot stand in a signature."""
    rest: Form | None
    """The form of the values of further arguments, where there may be any."""
    result: Form
    cuts: tuple[str, ...]
    """What was left out for its size."""
    unsaid: tuple[str, ...]
    """What was left out because no type can say it."""

    def forms(self) -> Iterator[Form]:
        """All that its signature names."""
        yield from (field.form for field in self.fields)
        if self.rest is not None:
            yield self.rest
        yield self.result

    def named(self) -> Iterator[Definition]:
        """The definitions that the signature of its stub names."""
        forms = [self.result] if self.packed is not None else self.forms()
        if self.packed is not None:
            yield self.packed
        for form in forms:
            yield from uses(form)


def read_tool(tool: Tool, name: str) -> ToolForms:
    """Read both schemas of a tool.

    Args:
        tool: any.
        name: its Python name.
    """
    scope = f"the server {tool.server}" if tool.server is not None else f"the tool {tool.name}"
    reader = Reader(tool.input_schema, f"{name} arguments", scope)
    fields, rest = reader.arguments()
    spelled = {key: written for written, key in tool.spellings.items() if is_plain(written)}
    plain = all(is_plain(field.key) or field.key in spelled for field in fields)
    packed = None if plain else reader.packed(fields)
    result: Form = ANY
    cuts, unsaid = reader.cuts, reader.unsaid
    if tool.output_schema is not None:
        output = Reader(tool.output_schema, f"{name} result", scope)
        result = output.form()
        cuts += output.cuts
        unsaid += output.unsaid
    return ToolForms(
        tool=tool, name=name, fields=tuple(fields), packed=packed, rest=rest, result=result, cuts=cuts[:5],
        unsaid=unsaid[:5], spelled=spelled if plain else {},
    )  # fmt: skip


def definitions_of(read: ToolForms) -> list[Definition]:
    """Every definition that a tool leads to, each once, those that are named first first."""
    todo = [] if read.packed is None else [read.packed]
    todo += [used for form in read.forms() for used in uses(form)]
    found: dict[Definition, None] = {}
    for definition in todo:
        if definition not in found:
            found[definition] = None
            forms = (definition.body, *(field.form for field in definition.fields))
            todo.extend(used for form in forms for used in uses(form))
    return list(found)
