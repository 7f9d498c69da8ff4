"""Brings schemas of arguments into a provider's form, and a model's arguments back into the tool's own form. Pure.

1. The tool's own schema decides at the gate what is valid. A provider's form may be looser, where it cannot express the
   schema.
2. Anthropic and OpenAI want an object at the top, without `anyOf`, `oneOf`, `allOf`, `not`, `enum` or `$ref` there. The
   properties of all branches are merged; those that every case requires are required.
3. Anthropic takes property names of at most 64 letters, digits, ``_``, ``.`` and ``-``; one odd name makes it refuse
   the whole request. Odd names at the top are replaced; `own_arguments` puts them back.
4. OpenAI wants `items` in every array.
5. Foreign texts in a schema are cleaned and cut. A schema that is too long loses its descriptions first, and its
   contents if it is still too long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from callgate.tools import Tool
from callgate.tools.encoding import compact_json
from callgate.tools.secret import SECRET_KEYWORD

from .foreign import clean, fitted
from .providers import Provider

__all__ = [
    "MAX_SCHEMA_CHARACTERS",
    "mapped",
    "own_arguments",
    "promises_object",
    "result_schema",
    "shown_names",
    "shown_schema",
    "takes_null",
]

Schema = dict[str, Any]

MAX_SCHEMA_CHARACTERS = 16_000
"""Most characters of one schema as compact JSON, about 4,000 tokens; a longer schema loses its details."""
MAX_WORDS = 1_000
"""Most characters of one description in a schema."""
_MOST_PARTS = 500
_MOST_DEPTH = 100  # as deep as a tool's schema may be
_MOST_REFERENCES = 20
"""Most nested references and branches that are followed."""

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is an object of schemas by name."""
_DATA = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired", "type"})
"""Keywords whose value is not a schema."""
_IGNORED = frozenset({"$schema", "$id", "$comment", "$anchor", "$vocabulary"})
_WORDS = frozenset({"description", "title", "examples", "default"})
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$ref", "$dynamicRef")
_OPEN_OR_CLOSED = ("additionalProperties", "unevaluatedProperties")
_ODD_PROPERTY = re.compile(r"[^a-zA-Z0-9_.-]")
_LEADS_ELSEWHERE = re.compile(r'[{,]"\$(?:ref|dynamicRef|recursiveRef)":"(?!#/(?:\$defs|definitions)/)')
"""Matches, in compact JSON, a reference that would lead elsewhere if the schema moved one level down."""


def shown_schema(tool: Tool, provider: Provider) -> Schema:
    """A copy of a tool's input schema in the form that this provider's models see. The marks of secrets are for MCP
    clients; some providers refuse keywords that they do not know."""
    ignored = _IGNORED if provider == "mcp" else _IGNORED | {SECRET_KEYWORD, "writeOnly"}
    tidy = _tidied(tool.input_schema, ignored, items_everywhere=provider.startswith("openai"))
    return _fitting(tidy if provider == "mcp" else _renamed(_flat(tidy)))


def result_schema(tool: Tool) -> Schema | None:
    """The output schema for MCP, which wants an object at the top: as it is, or under ``result``.

    None if the tool has none, if it is too long, or if its references would break under ``result``.
    """
    if tool.output_schema is None:
        return None
    tidy = _tidied(tool.output_schema)
    text = compact_json(tidy)
    if len(text) > MAX_SCHEMA_CHARACTERS:
        return None
    if promises_object(tool):
        return tidy
    if _LEADS_ELSEWHERE.search(text):
        return None
    definitions: Schema = {key: tidy.pop(key) for key in ("$defs", "definitions") if key in tidy}
    return {"type": "object", "properties": {"result": tidy}, "required": ["result"], **definitions}


def promises_object(tool: Tool) -> bool:
    """Whether the output schema says that the result is an object; MCP then has the result as it is."""
    return tool.output_schema is not None and tool.output_schema.get("type") == "object"


def shown_names(tool: Tool) -> dict[str, str]:
    """The names of the tool's arguments for Anthropic and OpenAI, by the arguments' own names."""
    return fitted(_properties(tool.input_schema), odd=_ODD_PROPERTY)


def own_arguments(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    """A model's arguments under the tool's own names, without null for arguments that cannot be null: in a strict form
    null is the only way to leave an argument out."""
    properties = _properties(tool.input_schema)
    if any(name not in properties for name in given):
        back = {shown: name for name, shown in shown_names(tool).items() if shown != name}
        given = {back.get(name, name) if name not in properties else name: each for name, each in given.items()}
    try:
        cleared: dict[str, Any] = _without_nulls(given, tool.input_schema, tool.input_schema)
    except RecursionError:  # the gate reports it
        return given
    return cleared


def _without_nulls(value: Any, schema: Any, root: Schema) -> Any:
    """The value without members that are null but cannot be. Does not look into unions."""
    schema = _pointed(root, schema)
    if not isinstance(schema, dict):
        return value
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [_without_nulls(each, schema["items"], root) for each in value]
    if not isinstance(value, dict):
        return value
    properties, required = _properties(schema), _required(schema)
    return {
        name: _without_nulls(each, properties.get(name), root)
        for name, each in value.items()
        if each is not None or name in required or name not in properties or takes_null(properties[name], root)
    }


def takes_null(schema: Any, root: Schema, via: int = 0) -> bool:
    """Whether a schema takes null; False only if that is certain.

    Args:
        schema: a part of `root`.
        root: the schema to whose parts references lead.
        via: references and unions that led here.
    """
    if not isinstance(schema, dict) or via > _MOST_REFERENCES:
        return True
    if "$ref" in schema:
        return takes_null(_pointed(root, schema), root, via + 1)
    if isinstance(schema.get("enum"), list) or "const" in schema:
        return None in schema.get("enum", [schema.get("const")])
    kind = schema.get("type")
    if isinstance(kind, (str, list)):
        return "null" in ([kind] if isinstance(kind, str) else kind) or schema.get("nullable") is True
    union = schema.get("anyOf", schema.get("oneOf"))
    return not isinstance(union, list) or any(takes_null(each, root, via + 1) for each in union)


def _pointed(root: Schema, schema: Any) -> Any:
    """The target of a schema's reference; the schema itself without one, None if the reference leads nowhere."""
    reference = schema.get("$ref") if isinstance(schema, dict) else None
    if not isinstance(reference, str):
        return schema
    place: Any = root if reference.startswith("#") else None
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        place = place.get(part) if isinstance(place, dict) else None
    return place


def _properties(schema: Schema) -> Schema:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _required(schema: Schema) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def mapped(schema: Any, change: Callable[[Schema], Schema], depth: int = 0) -> Any:
    """A copy of a schema in which each schema is changed, the outer ones first.

    Args:
        schema: as JSON; a value that is not a schema stays as it is.
        change: makes a changed copy of one schema, without changing the schemas in it.
        depth: levels of schemas around this one.
    """
    if not isinstance(schema, dict) or depth > _MOST_DEPTH:
        return schema
    made: Schema = {}
    for key, value in change(schema).items():
        if key in _DATA:
            made[key] = value
        elif key in _NAMED and isinstance(value, dict):
            made[key] = {name: mapped(below, change, depth + 1) for name, below in value.items()}
        elif isinstance(value, list):
            made[key] = [mapped(below, change, depth + 1) for below in value]
        else:
            made[key] = mapped(value, change, depth + 1)
    return made


def _tidied(schema: Schema, ignored: frozenset[str] = _IGNORED, items_everywhere: bool = False) -> Schema:
    """A copy with clean, bounded texts, without keywords that mean nothing to a model."""

    def tidied(each: Schema) -> Schema:
        kept = {key: value for key, value in each.items() if key not in ignored}
        for key in ("description", "title"):
            if isinstance(words := kept.get(key), str):
                kept[key] = clean(words, MAX_WORDS)
        kind = kept.get("type")
        if items_everywhere and "items" not in kept and "array" in (kind if isinstance(kind, list) else [kind]):
            kept["items"] = {}
        return kept

    tidy: Schema = mapped(json.loads(compact_json(schema)), tidied)
    return tidy


def _flat(schema: Schema) -> Schema:
    """A schema of the same arguments with a plain object at the top."""
    if not any(key in schema for key in _NOT_AT_THE_TOP):
        return {**schema, "type": "object", "properties": _properties(schema)}
    properties, required = _gathered(schema, schema, 0, [_MOST_PARTS])
    dropped = (*_NOT_AT_THE_TOP, *_OPEN_OR_CLOSED, "properties", "required")
    kept = {key: value for key, value in schema.items() if key not in dropped}
    flat: Schema = {**kept, "type": "object", "properties": properties}
    return {**flat, "required": [name for name in properties if name in required]} if required else flat


def _gathered(schema: Any, root: Schema, via: int, left: list[int]) -> tuple[Schema, set[str]]:
    """All properties of an object, from all its branches, and the names of the required ones.

    Args:
        schema: the object, or a part of it.
        root: the schema to whose parts references lead.
        via: references and keywords that led here.
        left: parts that may still be visited: a few references can stand for a million parts.
    """
    left[0] -= 1
    if not isinstance(schema, dict) or via > _MOST_REFERENCES or left[0] < 0:
        return {}, set()
    properties, required = dict(_properties(schema)), set(_required(schema))
    if "$ref" in schema:
        more, needed = _gathered(_pointed(root, schema), root, via + 1, left)
        properties, required = {**more, **properties}, required | needed
    for key, join in (("allOf", set.union), ("anyOf", set.intersection), ("oneOf", set.intersection)):
        branches = schema.get(key)
        if not isinstance(branches, list) or not branches:
            continue
        parts = [_gathered(branch, root, via + 1, left) for branch in branches[:50]]
        for more, _ in parts:
            for name, below in more.items():
                properties[name] = below if properties.get(name, below) == below else _either(properties[name], below)
        required |= join(*(needed for _, needed in parts))
    for key in ("then", "else"):
        for name, below in _gathered(schema.get(key), root, via + 1, left)[0].items():
            properties.setdefault(name, below)
    return properties, required


def _either(one: Any, other: Any) -> Any:
    options = one["anyOf"] if isinstance(one, dict) and list(one) == ["anyOf"] else [one]
    return {"anyOf": options if other in options else [*options, other]}


def _renamed(schema: Schema) -> Schema:
    """The schema with property names at the top that a provider takes."""
    names = fitted(_properties(schema), odd=_ODD_PROPERTY)
    renamed = {**schema, "properties": {names[name]: below for name, below in _properties(schema).items()}}
    if isinstance(schema.get("required"), list):
        renamed["required"] = [names.get(name, name) for name in schema["required"]]
    return renamed


def _fitting(schema: Schema) -> Schema:
    """The schema if it is short enough; else without descriptions, or with the names of properties alone."""
    if len(compact_json(schema)) <= MAX_SCHEMA_CHARACTERS:
        return schema
    bare: Schema = mapped(schema, lambda each: {key: each[key] for key in each if key not in _WORDS})
    if len(compact_json(bare)) <= MAX_SCHEMA_CHARACTERS:
        return bare
    shown: Schema = {}
    room = MAX_SCHEMA_CHARACTERS // 2
    for name in _properties(schema):
        room -= len(name) + 10
        if room < 0:
            break
        shown[name] = {}
    required = [name for name in _required(schema) if name in shown]
    return {"type": "object", "properties": shown, **({"required": required} if required else {})}
