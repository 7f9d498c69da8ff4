"""Writes the stub of a tool: its signature on one line, the function, and the types of its result."""

from __future__ import annotations

from collections.abc import Iterator

from callgate.tools.tool import Tool

from .reading import Reader
from .texts import comment, docstring, first_line, is_plain, one_line, shortened
from .types import ANY, Field, Form, Types, named, written

__all__ = ["ToolStub"]

_MOST_DESCRIPTION = 8_000
_MOST_FIRST_LINE = 120
_MOST_DEFAULT = 100


class ToolStub:
    """The stub of one tool.

    Args:
        tool: any tool.
        name: its Python name.
        types: the types of the module; the tool's types are added.
    """

    def __init__(self, tool: Tool, name: str, types: Types) -> None:
        self.tool = tool
        self.name = name
        self._types = types
        arguments = Reader(tool.input_schema, name, f"{name} arguments", types)
        result = Reader(tool.output_schema or {}, name, f"{name} result", types)
        self._fields, self._rest = arguments.arguments()
        self._result = result.form()
        self._notes = "; ".join([*arguments.notes, *result.notes][:5])
        spelled = {key: written for written, key in tool.spellings.items()} | {
            field.key: field.key for field in self._fields if is_plain(field.key)
        }
        self._spelled = {key: each for key, each in spelled.items() if is_plain(each)}
        """Python spellings of the arguments that have one."""

    @property
    def forms(self) -> list[Form]:
        """All annotations."""
        return [self._result, *(field.form for field in self._fields), *([self._rest] if self._rest else [])]

    def line(self, name: str, *, alone: bool = False) -> str:
        """``name(...) -> ...``. A line that stands `alone` has arguments without a Python spelling in it, too."""
        return self._types.local(f"{name}({', '.join(self._parameters(alone))}) -> {written(self._result)}")

    def result_types(self, most: int) -> str:
        """The types that the result needs, on one line of about `most` characters. A key with ``?`` may be missing;
        ``...`` stands for the rest."""
        listed: list[str] = []
        for name in self._types.reached([self._result]):
            if most <= 0:
                return f"{'; '.join(listed)}; ..."
            listed.append(f"{name}: {self._keys(name, most)}")
            most -= len(listed[-1])
        return "; ".join(listed)

    def _keys(self, name: str, most: int) -> str:
        keys: list[str] = []
        for field in self._types.known[name].fields:
            key = field.key if is_plain(field.key) else repr(field.key)
            keys.append(f"{key}{'' if field.required else '?'}: {self._types.local(written(field.form))}")
            most -= len(keys[-1])
            if most < 0:
                keys[-1] = "..."
                break
        return f"{{{', '.join(keys)}}}"

    def function(self, name: str, indent: str = "", *, note: str = "", words: bool) -> str:
        """The whole stub, with `indent` before each line."""
        inner = f"{indent}    "
        text = self.tool.description.strip()
        described = "\n\n".join(self._described(text)) if words else first_line(text, _MOST_FIRST_LINE)
        return "".join(
            [
                f"{indent}async def {self.line(name)}:{f'  {comment(note)}' if note else ''}\n",
                docstring(described, inner) if described else "",
                f"{inner}{comment(f'left out: {self._notes}', 1_200)}\n" if self._notes else "",
                f"{inner}raise NotImplementedError\n",
            ]
        )

    def _described(self, text: str) -> Iterator[str]:
        if text:
            yield shortened(text, _MOST_DESCRIPTION)
        described = [self._argument(field) for field in self._fields]
        arguments = [f"    {key}: {about}" for key, about in described if about]
        if arguments:
            yield "\n".join(["Args:", *arguments])
        result = (self.tool.output_schema or {}).get("description")
        is_type = len(self._result) == 1 and named(self._result) == [self._result[0].strip("\0")] != ["Any"]
        if isinstance(result, str) and result.strip() and not is_type:
            yield f"Returns:\n    {one_line(result)}"

    def _argument(self, field: Field) -> tuple[str, str]:
        """How an argument is written, and its description; its default, too, if the signature does not show it."""
        spelled = self._spelled.get(field.key)
        about = field.remark(default=spelled is None or self._default(field) is None)
        if spelled is None:
            return f"**{{{one_line(repr(field.key))}: ...}}", about
        if spelled == field.key:
            return field.key, about
        return str(spelled), f"stands for {one_line(repr(field.key))}{f': {about}' if about else ''}"

    def _parameters(self, alone: bool) -> Iterator[str]:
        in_order = iter(self.tool.parameters)
        optional_seen = keyword_only = False
        odd = [field for field in self._fields if field.key not in self._spelled]
        for field in self._fields:
            if field in odd:
                continue
            if not keyword_only and (next(in_order, None) != field.key or (field.required and optional_seen)):
                keyword_only = True
                yield "*"
            optional_seen = optional_seen or not field.required
            default = "" if field.required else f" = {self._default(field) or self._types.typing('OMITTED')}"
            yield f"{self._spelled[field.key]}: {written(field.form)}{default}"
        if odd and alone:
            yield f"**{{{', '.join(f'{field.key!r}: {field.key_form}' for field in odd)}}}"
        elif odd or self._rest is not None:
            rest = "more"
            while rest in self._spelled.values():
                rest += "_"
            yield f"**{rest}: {written(ANY if odd else self._rest or ANY)}"

    def _default(self, field: Field) -> str | None:
        """The default as Python source; None if it cannot be written, or may not be of the field's type."""
        value = field.default
        if field.required or not isinstance(value, (str, int, float, type(None))) or len(repr(value)) > _MOST_DEFAULT:
            return None
        kind = "None" if value is None else type(value).__name__
        fits = {ANY[0], kind, f"={value!r}", "float" if kind == "int" else kind}.intersection(field.form)
        return repr(value) if fits else None
