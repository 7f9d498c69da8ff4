"""Brings schemas into the form that providers enforce (``strict``), if they have such a form. Pure.

1. An object is closed (`additionalProperties` false) and names its properties. An open object has no strict form.
2. OpenAI: every property is required. An optional property may be null instead, which `own_arguments` removes again,
   but not inside a union: there a schema with an optional property that cannot be null has no strict form.
3. Anthropic: properties may be optional, at most 24 in all strict tools of a request. At most 20 tools are strict, and
   at most 16 properties are a choice of types. Recursion has no strict form.
4. Bounds of numbers, lengths and patterns are left out: providers differ in which they take, and the gate checks them.
5. A schema with `allOf`, `not`, `if`, `patternProperties` or a value of any type has no strict form.

Sources: OpenAI's guide to structured outputs ("supported schemas"), Anthropic's guide to strict tool use, and the
schemas that the two SDKs make, with which the tests compare.
"""

from __future__ import annotations

from typing import Any

from .providers import Provider
from .schemas import takes_null

__all__ = ["StrictForms"]

Schema = dict[str, Any]

MAX_DEPTH = 5
"""Most levels of objects and arrays; OpenAI takes 5 or more."""
MAX_PROPERTIES = 100
"""Most properties of one schema; OpenAI takes 100 or more."""
MAX_STRICT_TOOLS = 20
"""Most strict tools of one request to Anthropic."""
MAX_OPTIONAL = 24
"""Most optional properties of all strict tools of one request to Anthropic."""
MAX_UNIONS = 16
"""Most properties with several types in all strict tools of one request to Anthropic."""

_TYPES = {"string": str, "boolean": bool, "integer": int, "number": float, "null": type(None)}
_KNOWN = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "oneOf", "$ref"}
    | {"$defs", "description", "title", "default", "examples", "nullable", "deprecated", "readOnly", "writeOnly"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"}
    | {"format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "contentEncoding"}
)
"""Keywords that a strict form keeps, or can leave out."""


class _NoForm(Exception):
    """The schema has no strict form."""


class StrictForms:
    """Makes strict forms for the tools of one request, up to the provider's limits."""

    def __init__(self, provider: Provider) -> None:
        self._anthropic = provider == "anthropic"
        self._tools = self._optional = self._unions = 0

    def of(self, schema: Schema) -> Schema | None:
        """The strict form of a tool's arguments; None if there is none, or a limit is reached."""
        form = _Form(schema, nulls=not self._anthropic)
        try:
            made = form.made(schema, 0)
        except (_NoForm, RecursionError, AttributeError, TypeError):  # the last two: not a schema
            return None
        if form.definitions:
            made["$defs"] = {name: form.definitions[name] for name in sorted(form.definitions)}
        optional, unions = self._optional + form.optional, self._unions + form.unions
        if self._anthropic:
            used_up = self._tools >= MAX_STRICT_TOOLS or optional > MAX_OPTIONAL or unions > MAX_UNIONS
            if form.recursive or used_up:
                return None
        self._tools, self._optional, self._unions = self._tools + 1, optional, unions
        return made


class _Form:
    """One schema in the making. `definitions` are those that it refers to, once each."""

    def __init__(self, root: Schema, *, nulls: bool) -> None:
        self._root = root
        self._nulls = nulls
        self._open: list[str] = []  # definitions in the making, one within the other
        self._begun: set[tuple[str, bool]] = set()  # by name, and whether in a branch of a union
        self.definitions: Schema = {}
        self.properties = self.optional = self.unions = 0
        self.recursive = False

    def made(self, schema: Any, depth: int, *, branch: bool = False) -> Schema:
        """The strict form of a part. Raises `_NoForm`.

        Args:
            schema: the part.
            depth: levels of objects and arrays around it.
            branch: whether it is in a branch of a union, from which null cannot be removed again.
        """
        if not isinstance(schema, dict) or depth > MAX_DEPTH or not _KNOWN.issuperset(schema):
            raise _NoForm
        if "$ref" in schema:
            return self._reference(schema, branch)
        kept: Schema = {"description": schema["description"]} if "description" in schema else {}
        if "const" in schema or "enum" in schema:
            return {**kept, **_of_values([schema["const"]] if "const" in schema else schema["enum"])}
        kind = schema.get("type")
        union = schema.get("anyOf", schema.get("oneOf"))
        if union is not None or isinstance(kind, list):
            self.unions += 1
        if union is not None:
            if {"type", "properties", "items"} & set(schema):
                raise _NoForm
            return {**kept, "anyOf": [self.made(each, depth, branch=self._nulls) for each in union]}
        if schema.get("nullable") is True:
            raise _NoForm
        if isinstance(kind, list) and "array" in kind and len(kind) > 1:  # a strict form says each type for itself
            rest = [each for each in kind if each != "array"]
            options = [{"type": rest[0] if len(rest) == 1 else rest}, {"type": "array", "items": schema.get("items")}]
            return {**kept, "anyOf": [self.made(each, depth, branch=self._nulls) for each in options]}
        if kind == "array":
            return {**kept, "type": "array", "items": self.made(schema.get("items"), depth + 1, branch=branch)}
        if kind == "object":
            return {**kept, **self._object(schema, depth, branch)}
        if kind is None or not set(_listed(kind)) <= set(_TYPES):
            raise _NoForm
        return {**kept, "type": kind}

    def _reference(self, schema: Schema, branch: bool) -> Schema:
        """The reference; also makes the strict form of its definition."""
        name = schema["$ref"].removeprefix("#/$defs/")
        if name not in self._root.get("$defs", ()) or set(schema) - {"$ref", "description", "title", "default"}:
            raise _NoForm
        self.recursive = self.recursive or name in self._open
        if (name, branch) not in self._begun:
            self._begun.add((name, branch))
            self._open.append(name)
            self.definitions[name] = self.made(self._root["$defs"][name], 1, branch=branch)
            self._open.pop()
        return {"$ref": schema["$ref"]}

    def _object(self, schema: Schema, depth: int, branch: bool) -> Schema:
        properties, required = schema.get("properties", {}), set(schema.get("required", ()))
        self.properties += len(properties)
        is_open = schema.get("additionalProperties", not (depth == 0 or properties)) not in (False, None)
        if is_open or self.properties > MAX_PROPERTIES or not required.issubset(properties):
            raise _NoForm
        made: Schema = {}
        for name, below in properties.items():
            made[name] = self.made(below, depth + 1, branch=branch)
            if name in required:
                continue
            self.optional += 1
            if self._nulls and not takes_null(made[name], self._root):
                if branch:
                    raise _NoForm
                made[name] = _or_null(made[name])
        named = list(made) if self._nulls else [name for name in made if name in required]
        return {"type": "object", "properties": made, "required": named, "additionalProperties": False}


def _listed(kind: Any) -> list[Any]:
    return kind if isinstance(kind, list) else [kind]


def _of_values(values: Any) -> Schema:
    """An `enum` with its type, which strict forms want."""
    kinds = [name for name, kind in sorted(_TYPES.items()) if any(type(value) is kind for value in values)]
    if not kinds or not all(type(value) in _TYPES.values() for value in values):
        raise _NoForm
    return {"enum": values, "type": kinds[0] if len(kinds) == 1 else kinds}


def _or_null(schema: Schema) -> Schema:
    """The strict form with null added."""
    kinds = _listed(schema.get("type"))
    if "enum" in schema:
        return {**schema, "type": [*kinds, "null"], "enum": [*schema["enum"], None]}
    if set(kinds) <= set(_TYPES):
        return {**schema, "type": [*kinds, "null"]}
    words = {"description": schema["description"]} if "description" in schema else {}
    own = {key: value for key, value in schema.items() if key not in words}
    return {**words, "anyOf": [*own.get("anyOf", [own]), {"type": "null"}]}
