"""Schemas of arguments in the form that a provider takes, and a model's arguments back in the tool's own form. Pure.

1. Nothing here decides what is valid: that is the tool's own schema, at the gate. What cannot be said in a provider's
   form is said more loosely.
2. Anthropic and OpenAI want an object at the top, without `anyOf`, `oneOf`, `allOf`, `not`, `enum` or `$ref` there.
   The branches' properties are put together, and those are required that are in every case.
3. Anthropic takes property names of at most 64 letters, digits, ``_``, ``.`` and ``-``; one odd name makes it refuse
   the whole request. Odd names at the top are replaced, and put back by `own_arguments`.
4. OpenAI wants `items` in every array.
5. Foreign words in a schema are cleaned and cut. One that is too long to be shown loses its descriptions first; one
   that still is, its contents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from callgate.tools import Tool
from callgate.tools.encoding import compact_json

from .clean import clean
from .names import fitted
from .options import Provider

__all__ = [
    "MAX_SCHEMA_CHARACTERS",
    "is_object",
    "own_arguments",
    "promises_object",
    "result_schema",
    "shown_names",
    "shown_schema",
]

Schema = dict[str, Any]

MAX_SCHEMA_CHARACTERS = 16_000
"""Of one schema as compact JSON, about 4,000 tokens. What is longer is shown without its details."""
MAX_WORDS = 1_000
"""Characters of one description in a schema."""
_MOST_PARTS = 500
_MOST_DEPTH = 100  # as deep as a tool's schema may be

_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose value is an object of schemas by name."""
_LISTED = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_DATA = frozenset({"enum", "const", "default", "examples", "required", "dependentRequired", "type"})
"""Keywords whose value is no schema, or none that is looked into."""
_IGNORED = frozenset({"$schema", "$id", "$comment", "$anchor", "$vocabulary"})
_NOT_AT_THE_TOP = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else", "$ref", "$dynamicRef")
_ODD_PROPERTY = re.compile(r"[^a-zA-Z0-9_.-]")


def shown_schema(tool: Tool, provider: Provider) -> Schema:
    """The input schema of a tool as this provider's models are shown it; nobody else's object."""
    schema = tool.input_schema
    if provider == "mcp":
        return _fitting(_tidied(schema, False))
    flat = _flat(_tidied(schema, provider != "anthropic"))
    return _fitting(_renamed(flat))


def result_schema(tool: Tool) -> Schema | None:
    """The output schema for MCP, where its root has to be an object: as it is, or under ``result``.

    None where there is none, where it is too long, or where it refers to places that would move.
    """
    schema = tool.output_schema
    if schema is None:
        return None
    tidy = _tidied(schema, False)
    if len(compact_json(tidy)) > MAX_SCHEMA_CHARACTERS:
        return None
    if is_object(schema):
        return tidy
    if _refers_elsewhere(tidy):
        return None
    wrapped: Schema = {"type": "object", "properties": {"result": tidy}, "required": ["result"]}
    for key in ("$defs", "definitions"):
        if key in tidy:
            wrapped[key] = tidy.pop(key)
    return wrapped


def is_object(schema: Schema) -> bool:
    """Whether the root of a schema says itself that it is an object."""
    return schema.get("type") == "object"


def promises_object(tool: Tool) -> bool:
    """Whether the result of a tool stands for itself in MCP's structured content."""
    return tool.output_schema is not None and is_object(tool.output_schema)


def own_arguments(tool: Tool, given: dict[str, Any]) -> dict[str, Any]:
    """What a model gave, under the tool's own names, and without what it only wrote because a strict form has no other
    way to leave an argument out: null, where null is no value of it."""
    properties = _own_properties(tool.input_schema)
    if any(name not in properties for name in given):
        back = {shown: name for name, shown in _shown_names(properties).items() if shown != name}
        if back:
            given = {back.get(name, name) if name not in properties else name: each for name, each in given.items()}
    try:
        cleared: dict[str, Any] = _without_nulls(given, tool.input_schema, tool.input_schema)
    except RecursionError:  # the gate has words for it
        return given
    return cleared


def _without_nulls(value: Any, schema: Any, root: Schema) -> Any:
    """Without members that are null and cannot be. Goes as deep as the value does, where it is clear which schema
    holds."""
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str):
        schema = _pointed(root, schema["$ref"])
    if not isinstance(schema, dict):
        return value
    if isinstance(value, list):
        items = schema.get("items")
        return [_without_nulls(each, items, root) for each in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    properties = _own_properties(schema)
    named = schema.get("required")
    required = named if isinstance(named, list) else ()
    return {
        name: _without_nulls(each, properties.get(name), root)
        for name, each in value.items()
        if each is not None or name in required or name not in properties or _takes_null(properties[name], root)
    }


def shown_names(tool: Tool) -> dict[str, str]:
    """What Anthropic and OpenAI are told that the tool's arguments are called, by their own names."""
    return _shown_names(_own_properties(tool.input_schema))


def _own_properties(schema: Schema) -> Schema:
    found = schema.get("properties")
    return found if isinstance(found, dict) else {}


def _shown_names(properties: Schema) -> dict[str, str]:
    return fitted(properties, odd=_ODD_PROPERTY)


def _takes_null(schema: Any, root: Schema, via: int = 0) -> bool:
    """Whether null may be a value of it; only no where that is certain."""
    if isinstance(schema, dict) and isinstance(schema.get("$ref"), str) and via < 20:
        return _takes_null(_pointed(root, schema["$ref"]), root, via + 1)
    if not isinstance(schema, dict):
        return True
    if isinstance(schema.get("enum"), list):
        return None in schema["enum"]
    if "const" in schema:
        return schema["const"] is None
    kind = schema.get("type")
    if isinstance(kind, str):
        return kind == "null" or schema.get("nullable") is True
    if isinstance(kind, list):
        return "null" in kind
    for several in ("anyOf", "oneOf"):
        if isinstance(schema.get(several), list):
            return any(_takes_null(each, root, via + 1) for each in schema[several])
    return True


def _tidied(schema: Schema, items_everywhere: bool) -> Schema:
    """A copy in which foreign words are clean and bounded, without keywords that mean nothing to a model."""

    def words(value: Any) -> Any:
        return clean(value, MAX_WORDS) if isinstance(value, str) else value

    def walked(each: Any, depth: int) -> Any:
        if not isinstance(each, dict) or depth > _MOST_DEPTH:
            return each
        made: Schema = {}
        for key, value in each.items():
            if key in _IGNORED:
                continue
            if key in ("description", "title"):
                made[key] = words(value)
            elif key in _NAMED and isinstance(value, dict):
                made[key] = {name: walked(below, depth + 1) for name, below in value.items()}
            elif key in _LISTED and isinstance(value, list):
                made[key] = [walked(below, depth + 1) for below in value]
            elif key in _DATA or not isinstance(value, (dict, list)):
                made[key] = value
            elif isinstance(value, list):
                made[key] = [walked(below, depth + 1) for below in value]
            else:
                made[key] = walked(value, depth + 1)
        if items_everywhere and "items" not in made and _is_array(made.get("type")):
            made["items"] = {}
        return made

    copy: Schema = json.loads(compact_json(schema))
    tidy: Schema = walked(copy, 0)
    return tidy


def _is_array(kind: Any) -> bool:
    return kind == "array" or (isinstance(kind, list) and "array" in kind)


def _flat(schema: Schema) -> Schema:
    """The same arguments with a plain object at the top."""
    if not any(key in schema for key in _NOT_AT_THE_TOP):
        return {**schema, "type": "object", "properties": _own_properties(schema)}
    properties, required = _gathered(schema, schema, (), [_MOST_PARTS])
    kept = {key: value for key, value in schema.items() if key not in _NOT_AT_THE_TOP and key != "properties"}
    kept.pop("required", None)
    kept.pop("additionalProperties", None)
    kept.pop("unevaluatedProperties", None)
    flat: Schema = {**kept, "type": "object", "properties": properties}
    if required:
        flat["required"] = [name for name in properties if name in required]
    return flat


def _gathered(schema: Any, root: Schema, via: tuple[str, ...], left: list[int]) -> tuple[Schema, set[str]]:
    """Properties of an object however it is put together, and the names of those that it always has.

    Args:
        schema: the object, or a part of it.
        root: where references lead.
        via: references that led here, and keywords.
        left: how many more parts are looked at: a few references can stand for a million.
    """
    left[0] -= 1
    if not isinstance(schema, dict) or len(via) > 20 or left[0] < 0:
        return {}, set()
    properties = dict(_own_properties(schema))
    named = schema.get("required")
    required = {name for name in named if isinstance(name, str)} if isinstance(named, list) else set()
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in via:
        more, needed = _gathered(_pointed(root, reference), root, (*via, reference), left)
        properties, required = {**more, **properties}, required | needed
    for key, join in (("allOf", set.union), ("anyOf", set.intersection), ("oneOf", set.intersection)):
        branches = schema.get(key)
        if not isinstance(branches, list) or not branches:
            continue
        parts = [_gathered(branch, root, (*via, key), left) for branch in branches[:50]]
        for more, _ in parts:
            for name, below in more.items():
                properties[name] = below if properties.get(name, below) == below else _either(properties[name], below)
        required |= join(*(needed for _, needed in parts))
    for key in ("then", "else"):
        for name, below in _gathered(schema.get(key), root, (*via, key), left)[0].items():
            properties.setdefault(name, below)
    return properties, required


def _either(one: Any, other: Any) -> Any:
    options = one["anyOf"] if isinstance(one, dict) and list(one) == ["anyOf"] else [one]
    return {"anyOf": options if other in options else [*options, other]}


def _pointed(root: Schema, reference: str) -> Any:
    place: Any = root
    if not reference.startswith("#"):
        return None
    for part in reference[1:].split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        place = place.get(part) if isinstance(place, dict) else None
    return place


def _renamed(schema: Schema) -> Schema:
    """With property names at the top that a provider takes."""
    properties = _own_properties(schema)
    names = _shown_names(properties)
    if all(name == shown for name, shown in names.items()):
        return schema
    renamed = {**schema, "properties": {names[name]: below for name, below in properties.items()}}
    if isinstance(schema.get("required"), list):
        renamed["required"] = [names.get(name, name) for name in schema["required"]]
    return renamed


def _fitting(schema: Schema) -> Schema:
    """The same, if it is short enough to be shown; else with less in it."""
    if len(compact_json(schema)) <= MAX_SCHEMA_CHARACTERS:
        return schema
    bare: Schema = _without_words(schema, lambda key: key not in ("description", "title", "examples", "default"))
    if len(compact_json(bare)) <= MAX_SCHEMA_CHARACTERS:
        return bare
    properties = list(_own_properties(schema))
    shown: Schema = {}
    room = MAX_SCHEMA_CHARACTERS // 2
    for name in properties:
        room -= len(name) + 10
        if room < 0:
            break
        shown[name] = {}
    required = [name for name in schema.get("required", ()) if name in shown]
    return {"type": "object", "properties": shown, **({"required": required} if required else {})}


def _without_words(schema: Any, wanted: Callable[[str], bool], named: bool = False, depth: int = 0) -> Any:
    if isinstance(schema, list):
        return [_without_words(each, wanted, False, depth + 1) for each in schema]
    if not isinstance(schema, dict) or depth > _MOST_DEPTH * 2:
        return schema
    return {
        key: value
        if not named and key in _DATA
        else _without_words(value, wanted, not named and key in _NAMED, depth + 1)
        for key, value in schema.items()
        if named or wanted(key)
    }


def _refers_elsewhere(schema: Any) -> bool:
    """Whether a schema has references that would not lead to the same place one level further down."""
    todo = [schema]
    while todo:
        each = todo.pop()
        if isinstance(each, list):
            todo.extend(each)
        elif isinstance(each, dict):
            for key in ("$ref", "$dynamicRef", "$recursiveRef"):
                reference = each.get(key)
                if isinstance(reference, str) and not reference.startswith(("#/$defs/", "#/definitions/")):
                    return True
            todo.extend(each.values())
    return False
