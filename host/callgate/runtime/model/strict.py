"""Schemas in the form in which providers hold a model to them (``strict``), where that can be had. Pure.

1. An object is closed (`additionalProperties` false), and says its properties. One that is open cannot be strict.
2. OpenAI: every property is required; one that was optional may be null instead, which `own_arguments` takes out again.
   Anthropic: properties may be optional, at most 24 over all strict tools of a request; at most 20 strict tools, and 16
   properties that are a choice of types; no recursion.
3. Bounds of numbers, lengths and patterns are left out: providers differ in which they take, and the gate holds them.
4. What has no such form (`allOf`, `not`, `if`, `patternProperties`, a value of any type) makes the whole schema none.

Sources: OpenAI's guide to structured outputs ("supported schemas"), Anthropic's to strict tool use; and what the two
SDKs themselves make of a schema, which the tests hold this against.
"""

from __future__ import annotations

from typing import Any

from .options import Provider

__all__ = ["StrictForms"]

Schema = dict[str, Any]

MAX_DEPTH = 5
"""Levels of objects and arrays; OpenAI takes 5 at least."""
MAX_PROPERTIES = 100
"""Of one schema; OpenAI takes 100 at least."""
MAX_STRICT_TOOLS = 20
"""Of one request to Anthropic."""
MAX_OPTIONAL = 24
"""Optional properties of all strict tools of one request to Anthropic."""
MAX_UNIONS = 16
"""Properties with several types, of all strict tools of one request to Anthropic."""

_PLAIN = frozenset({"string", "integer", "number", "boolean", "null"})
_KNOWN = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "oneOf", "$ref"}
    | {"$defs", "description", "title", "default", "examples", "nullable", "deprecated", "readOnly", "writeOnly"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern"}
    | {"format", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "contentEncoding"}
)
"""Keywords that can be kept, or left out without harm."""
_KEPT = ("description", "enum")


class _NoForm(Exception):
    """A schema has no strict form."""


class StrictForms:
    """Strict forms for the tools of one request, while what the provider allows lasts."""

    def __init__(self, provider: Provider) -> None:
        self._nulls = provider != "anthropic"
        self._counts = provider == "anthropic"
        self._tools = self._optional = self._unions = 0

    def of(self, schema: Schema) -> Schema | None:
        """The strict form of the schema of a tool's arguments; None where it has none, or the allowance is used up."""
        form = _Form(schema, nulls=self._nulls)
        if len(schema.get("$defs", ())) > MAX_PROPERTIES:
            return None
        try:
            made = form.made(schema, 0)
            if "$defs" in schema:
                made["$defs"] = {name: form.made(below, 1) for name, below in sorted(schema["$defs"].items())}
        except (_NoForm, RecursionError, AttributeError, TypeError):  # the last two: no schema at all
            return None
        if not self._counts:
            return made
        if (
            form.recursive
            or self._tools >= MAX_STRICT_TOOLS
            or self._optional + form.optional > MAX_OPTIONAL
            or self._unions + form.unions > MAX_UNIONS
        ):
            return None
        self._tools += 1
        self._optional += form.optional
        self._unions += form.unions
        return made


class _Form:
    def __init__(self, root: Schema, *, nulls: bool) -> None:
        self._nulls = nulls
        self._definitions: Schema = root.get("$defs", {})
        self.properties = self.optional = self.unions = 0
        self.recursive = _recursive(self._definitions)

    def made(self, schema: Any, depth: int, *, branch: bool = False) -> Schema:
        if not isinstance(schema, dict) or depth > MAX_DEPTH or not _KNOWN.issuperset(schema):
            raise _NoForm
        kept: Schema = {key: schema[key] for key in _KEPT if key in schema}
        reference = schema.get("$ref")
        if reference is not None:
            name = reference.removeprefix("#/$defs/") if isinstance(reference, str) else None
            if name not in self._definitions or set(schema) - {"$ref", "description", "title", "default"}:
                raise _NoForm
            return {"$ref": reference}
        if "const" in schema:
            return {**kept, **_of_values([schema["const"]])}
        if "enum" in schema:
            return {**kept, **_of_values(schema["enum"])}
        for several in ("anyOf", "oneOf"):
            if several in schema:
                if set(schema) & {"type", "properties", "items"}:
                    raise _NoForm
                self.unions += 1
                return {**kept, "anyOf": [self.made(each, depth, branch=True) for each in schema[several]]}
        kinds = schema.get("type")
        if isinstance(kinds, list):
            if not _PLAIN.issuperset(kinds):
                raise _NoForm
            self.unions += 1
            return {**kept, "type": kinds}
        if schema.get("nullable") is True:
            raise _NoForm
        if kinds in _PLAIN:
            return {**kept, "type": kinds}
        if kinds == "array":
            return {**kept, "type": "array", "items": self.made(schema.get("items"), depth + 1, branch=branch)}
        if kinds == "object":
            return {**kept, **self._object(schema, depth, branch)}
        raise _NoForm

    def _object(self, schema: Schema, depth: int, branch: bool) -> Schema:
        properties = schema.get("properties", {})
        if schema.get("additionalProperties", not (depth == 0 or properties)) not in (False, None):
            raise _NoForm
        self.properties += len(properties)
        if self.properties > MAX_PROPERTIES:
            raise _NoForm
        required = set(schema.get("required", ()))
        if not required.issubset(properties):
            raise _NoForm
        made: Schema = {}
        for name, below in properties.items():
            made[name] = self.made(below, depth + 1, branch=branch)
            if name in required:
                continue
            self.optional += 1
            if self._nulls:
                if branch:  # which branch a null was left out of could not be told afterwards
                    raise _NoForm
                made[name] = _or_null(made[name])
        named = list(made) if self._nulls else [name for name in made if name in required]
        return {"type": "object", "properties": made, "required": named, "additionalProperties": False}


def _of_values(values: Any) -> Schema:
    """`enum`, with the type that strict forms want beside it."""
    names = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
    kinds = sorted({names.get(type(value), "") for value in values})
    if "" in kinds or not kinds:
        raise _NoForm
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _or_null(schema: Schema) -> Schema:
    kinds = schema.get("type")
    if "enum" in schema:
        listed = kinds if isinstance(kinds, list) else [kinds]
        if "null" in listed:
            return schema
        return {**schema, "type": [*listed, "null"], "enum": [*schema["enum"], None]}
    if isinstance(kinds, list):
        return schema if "null" in kinds else {**schema, "type": [*kinds, "null"]}
    if kinds in _PLAIN:
        return schema if kinds == "null" else {**schema, "type": [kinds, "null"]}
    if "anyOf" in schema:
        if {"type": "null"} in schema["anyOf"]:
            return schema
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    words = {"description": schema["description"]} if "description" in schema else {}
    return {**words, "anyOf": [{k: v for k, v in schema.items() if k != "description"}, {"type": "null"}]}


def _recursive(definitions: Schema) -> bool:
    """Whether a definition leads back to itself."""
    leads = {name: _referred(below) & set(definitions) for name, below in definitions.items()}
    for start in leads:
        seen: set[str] = set()
        todo = list(leads[start])
        while todo:
            name = todo.pop()
            if name == start:
                return True
            if name not in seen:
                seen.add(name)
                todo.extend(leads[name])
    return False


def _referred(schema: Any) -> set[str]:
    found: set[str] = set()
    todo = [schema]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo.extend(each)
        elif isinstance(each, dict):
            if isinstance(each.get("$ref"), str):
                found.add(each["$ref"].removeprefix("#/$defs/"))
            todo.extend(each.values())
    return found
