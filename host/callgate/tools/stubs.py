"""Typed Python stubs of tools, for a model, an editor or mypy to read. Pure: JSON Schema in, text out.

1. The stubs are importable Python and pass ``mypy --strict``. What a schema says beyond Python's types is left out,
   never guessed: where nothing can be said, the annotation is `Any`.
2. An object with properties becomes a `TypedDict`; one with names that are no identifiers, the functional form of it. A
   definition that is no object becomes an alias where it is recursive, and stands in place otherwise.
3. Sorted, and stable to the byte: the same tools give the same text.
"""

from __future__ import annotations

import json
import keyword
import re
from typing import Any

from .registry import Registry
from .tool import Tool

__all__ = ["signature", "stubs"]

Schema = dict[str, Any]

_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_TYPING = ("Any", "Literal", "NotRequired", "TypeAlias", "TypedDict", "Unpack")
_PLAIN = frozenset({"str", "int", "float", "bool", "None", "list", "dict"})
_OMITTED = "OMITTED"
_HEAD = '"""Typed stubs of the tools that a program may call. They describe, and do nothing."""'
_MOST_DEPTH = 40


def stubs(registry: Registry) -> str:
    """A Python module with one ``async def`` for every tool, and the types they use."""
    names = registry.callable_names()
    module = _Module(frozenset(names.values()))
    functions = [module.function(tool, names[tool.name]) for tool in registry]
    return module.text(functions)


def signature(tool: Tool, name: str) -> str:
    """The call of one tool on one line, types by their names: ``get_weather(city: str) -> Weather``."""
    module = _Module(frozenset({name}))
    return module.head(tool, name).removeprefix("async def ").removesuffix(":")


class _Module:
    """The module under construction: its classes and aliases, and the names that are taken."""

    def __init__(self, functions: frozenset[str]) -> None:
        self._taken = {*functions, *_TYPING, *_PLAIN, _OMITTED}
        self._local = {each: f"_{each}" if each in functions else each for each in _TYPING}
        self._omitted = f"_{_OMITTED}" if _OMITTED in functions else _OMITTED
        self._used: set[str] = set()
        self._omits = False
        self._types: dict[str, str] = {}
        self._shared: dict[str, str] = {}
        """Text of a schema, with the root it refers into, to the name of its type."""

    def typing(self, name: str) -> str:
        """The local name of something in `typing`; imports it."""
        self._used.add(name)
        return self._local[name]

    def omitted(self) -> str:
        """What stands for a default that cannot be written."""
        self._omits = True
        self.typing("Any")
        return self._omitted

    def reserve(self, wanted: str) -> str:
        """A class name like `wanted` that is not taken yet."""
        name = _class_name(wanted)
        number = 1
        candidate = name
        while candidate in self._taken:
            number += 1
            candidate = f"{name}{number}"
        self._taken.add(candidate)
        return candidate

    def shared(self, key: str, wanted: str) -> tuple[str, bool]:
        """The name for the type of `key`, and whether it is new."""
        found = self._shared.get(key)
        if found is not None:
            return found, False
        name = self._shared[key] = self.reserve(wanted)
        return name, True

    def define(self, name: str, text: str) -> None:
        self._types[name] = text

    def class_keys_clash(self, keys: list[str]) -> bool:
        """Whether these cannot be written as the fields of a class: odd names, or names that would hide a type's."""
        return any(
            not key.isidentifier() or keyword.iskeyword(key) or key.startswith("__") or key in self._taken
            for key in keys
        )

    def head(self, tool: Tool, name: str) -> str:
        """The ``async def`` line of a tool."""
        schema = tool.output_schema
        if schema is None:
            result = self.typing("Any")
        else:
            result = _Annotator(self, schema, f"{name} result").annotation(schema)
        return f"async def {name}({self._parameters(tool, name)}) -> {result}:"

    def function(self, tool: Tool, name: str) -> str:
        """The whole stub of a tool."""
        note = "" if name == tool.name else f"  # the tool {json.dumps(tool.name)}"
        described = tool.description.strip()
        doc = f"    {_docstring(described)}\n" if described else ""
        return f"{self.head(tool, name)}{note}\n{doc}    raise NotImplementedError\n"

    def _parameters(self, tool: Tool, name: str) -> str:
        schema = tool.input_schema
        annotator = _Annotator(self, schema, f"{name} arguments")
        properties = _properties(schema)
        if any(not each.isidentifier() or keyword.iskeyword(each) or each.startswith("__") for each in tool.parameters):
            packed = annotator.object(schema, f"{name} arguments")
            return f"**arguments: {self.typing('Unpack')}[{packed}]"
        required = set(schema.get("required", ()))
        written: list[str] = []
        optional_seen = keyword_only = False
        for each in tool.parameters:
            below = properties.get(each, True)
            annotation = annotator.annotation(below, f"{name} {each}")
            if each in required:
                if optional_seen and not keyword_only:
                    written.append("*")
                    keyword_only = True
                written.append(f"{each}: {annotation}")
            else:
                optional_seen = True
                written.append(f"{each}: {annotation} = {self._default(below, annotator)}")
        more = schema.get("additionalProperties", False)
        if more or "patternProperties" in schema:
            rest = annotator.annotation(more, f"{name} more") if isinstance(more, dict) else self.typing("Any")
            other = "more" if "more" not in tool.parameters else "more_"
            written.append(f"**{other}: {rest}")
        return ", ".join(written)

    def _default(self, schema: Any, annotator: _Annotator) -> str:
        if isinstance(schema, dict) and "default" in schema:
            value = schema["default"]
            if (value is None or isinstance(value, (str, int, float))) and annotator.takes(schema, value):
                return repr(value)
        return self.omitted()

    def text(self, functions: list[str]) -> str:
        """The module."""
        parts = [f"{_HEAD}\n\nfrom __future__ import annotations\n"]
        if self._used:
            imported = [
                each if self._local[each] == each else f"{each} as {self._local[each]}" for each in sorted(self._used)
            ]
            parts.append(f"\nfrom typing import {', '.join(imported)}\n")
        if self._omits:
            parts.append(f"\n{self._omitted}: {self._local['Any']} = ...\n")
        parts += [f"\n\n{self._types[name]}" for name in sorted(self._types)]
        parts += [f"\n\n{function}" for function in functions]
        return "".join(parts)


class _Annotator:
    """Annotations for one schema document: the root that its references are looked up in."""

    def __init__(self, module: _Module, root: Schema, name: str) -> None:
        self._module = module
        self._root = root
        self._name = name
        self._open: list[str] = []
        """References being resolved with no list, dict or class in between: one of them again would be endless."""
        self._depth = 0

    def annotation(self, schema: Any, name: str = "") -> str:
        """The annotation for `schema`; classes it needs are defined in the module."""
        self._depth += 1
        try:
            if not isinstance(schema, dict) or self._depth > _MOST_DEPTH:
                return self._any()
            return self._of(schema, name or self._name)
        finally:
            self._depth -= 1

    def _of(self, schema: Schema, name: str) -> str:
        if isinstance(schema.get("$ref"), str):
            return self._reference(schema["$ref"], name)
        if "const" in schema:
            return self._literal([schema["const"]])
        if isinstance(schema.get("enum"), list):
            return self._literal(schema["enum"])
        for several in ("anyOf", "oneOf"):
            if isinstance(schema.get(several), list):
                return self._union([self.annotation(each, name) for each in schema[several]])
        if isinstance(schema.get("allOf"), list):
            said = [each for each in schema["allOf"] if isinstance(each, dict) and _says_a_type(each)]
            besides = {key: value for key, value in schema.items() if key != "allOf"}
            return self.annotation(said[0], name) if len(said) == 1 and not _says_a_type(besides) else self._any()
        kind = schema.get("type")
        kinds = kind if isinstance(kind, list) else [kind or ("object" if _properties(schema) else None)]
        written = [self._typed(str(each), schema, name) for each in kinds]
        return self._union([*written, "None"] if schema.get("nullable") is True else written)

    def _typed(self, kind: str, schema: Schema, name: str) -> str:
        if kind == "array":
            return self._array(schema, name)
        if kind == "object":
            return self.object(schema, name)
        return _TYPES.get(kind) or self._any()

    def _array(self, schema: Schema, name: str) -> str:
        held, self._open = self._open, []
        items = schema.get("items")
        several = schema.get("prefixItems", items if isinstance(items, list) else [])
        inside = [self.annotation(each, f"{name} item") for each in several]
        if isinstance(items, dict) or not inside:
            inside.append(self.annotation(items, f"{name} item"))
        self._open = held
        return f"list[{self._union(inside)}]"

    def object(self, schema: Schema, name: str) -> str:
        """The annotation of an object: a `TypedDict` where it names properties."""
        properties = _properties(schema)
        held, self._open = self._open, []
        try:
            if not properties:
                return f"dict[str, {self.annotation(schema.get('additionalProperties'), f'{name} value')}]"
            title = schema.get("title")
            wanted = title if isinstance(title, str) and _class_name(title) != "Type" else name
            made, new = self._module.shared(_identity(self._root, schema), wanted)
            if new:
                self._define(made, schema, properties)
            return made
        finally:
            self._open = held

    def _define(self, made: str, schema: Schema, properties: Schema) -> None:
        required = set(schema.get("required", ()))
        fields = {}
        for key, below in properties.items():
            written = self.annotation(below, f"{made} {key}")
            fields[key] = written if key in required else f"{self._module.typing('NotRequired')}[{written}]"
        typed_dict = self._module.typing("TypedDict")
        if self._module.class_keys_clash(list(fields)):
            lines = [f"    {key!a}: {written!a}," for key, written in fields.items()]
            self._module.define(
                made,
                f"{made} = {typed_dict}(\n    {made!a},\n    {{\n"
                + "".join(f"    {line}\n" for line in lines)
                + "    },\n)\n",
            )
        else:
            lines = [f"    {key}: {written}" for key, written in fields.items()]
            self._module.define(made, f"class {made}({typed_dict}):\n" + "\n".join(lines) + "\n")

    def _reference(self, reference: str, name: str) -> str:
        target = _resolved(self._root, reference)
        if not isinstance(target, dict) or reference in self._open:
            return self._any()
        last = reference.rpartition("/")[2]
        wanted = last if last not in ("", "#") else self._name
        if _properties(target) and not any(
            key in target for key in ("$ref", "enum", "const", "anyOf", "oneOf", "allOf")
        ):
            return self.object({"title": wanted, **target}, wanted)
        if reference not in _reached(self._root, target):
            self._open.append(reference)
            try:
                return self.annotation(target, wanted)
            finally:
                self._open.pop()
        made, new = self._module.shared(f"alias {_identity(self._root, target)}", wanted)
        if new:
            self._open.append(reference)
            written = self.annotation(target, wanted)
            self._open.pop()
            self._module.define(made, f"{made}: {self._module.typing('TypeAlias')} = {written!a}\n")
        return made

    def _literal(self, values: list[Any]) -> str:
        exact = [value for value in values if value is None or isinstance(value, (str, bool, int))]
        if len(exact) == len(values) and values:
            return f"{self._module.typing('Literal')}[{', '.join(dict.fromkeys(ascii(value) for value in values))}]"
        kinds = {float: "float", str: "str", bool: "bool", int: "int", type(None): "None"}
        return self._union([kinds.get(type(value)) or self._any() for value in values])

    def _union(self, written: list[str]) -> str:
        unique = list(dict.fromkeys(written))
        anything = self._module._local["Any"]
        if not unique or anything in unique:
            return self._any()
        if "None" in unique:
            unique.remove("None")
            unique.append("None")
        return " | ".join(unique)

    def _any(self) -> str:
        return self._module.typing("Any")

    def takes(self, schema: Any, value: Any) -> bool:
        """Whether a plain value fits the annotation of `schema`; only yes where that is certain."""
        if not isinstance(schema, dict):
            return True
        if isinstance(schema.get("$ref"), str):
            target = _resolved(self._root, schema["$ref"])
            return (
                isinstance(target, dict) and target is not schema and "$ref" not in target and self.takes(target, value)
            )
        if "const" in schema:
            return _same(schema["const"], value)
        if isinstance(schema.get("enum"), list):
            return any(_same(each, value) for each in schema["enum"])
        for several in ("anyOf", "oneOf"):
            if isinstance(schema.get(several), list):
                return any(self.takes(each, value) for each in schema[several])
        kinds = schema.get("type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        fitting = {
            str: ["string"],
            bool: ["boolean"],
            int: ["integer", "number"],
            float: ["number"],
            type(None): ["null"],
        }
        return any(kind in kinds for kind in fitting[type(value)])


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and a == b


def _properties(schema: Schema) -> Schema:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _says_a_type(schema: Schema) -> bool:
    return any(key in schema for key in ("$ref", "type", "enum", "const", "anyOf", "oneOf", "allOf", "properties"))


def _resolved(root: Schema, reference: str) -> Any:
    """What a reference within the document points at (RFC 6901); None where it leads nowhere."""
    if not reference.startswith("#"):
        return None
    place: Any = root
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(place, dict) and part in place:
            place = place[part]
        else:
            return None
    return place


def _reached(root: Schema, schema: Any) -> dict[str, Any]:
    """Every reference that `schema` leads to, however far down, with what it stands for."""
    found: dict[str, Any] = {}
    todo = [schema]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo.extend(each)
        elif isinstance(each, dict):
            reference = each.get("$ref")
            if isinstance(reference, str) and reference not in found:
                found[reference] = _resolved(root, reference)
                todo.append(found[reference])
            todo.extend(value for key, value in each.items() if key not in ("enum", "const", "default", "examples"))
    return found


def _identity(root: Schema, schema: Any) -> str:
    """The same text for the same type, whichever document it stands in."""
    return json.dumps([schema, _reached(root, schema)], sort_keys=True)


def _class_name(text: str) -> str:
    words = re.findall(r"[A-Za-z0-9]+", text)
    joined = "".join(word[0].upper() + word[1:] for word in words)
    return joined if joined and not joined[0].isdigit() and not keyword.iskeyword(joined) else f"Type{joined}"


def _docstring(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    escaped = "".join(
        c if c == "\n" or c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in escaped
    )
    lines = [line.strip() for line in escaped.split("\n")]
    if len(lines) == 1 and not lines[0].endswith('"'):
        return f'"""{lines[0]}"""'
    return '"""' + "\n".join([lines[0], *(f"    {line}" if line else "" for line in lines[1:])]) + '\n    """'
