"""Repairs a JSON Schema of a server: translates a wrong keyword or leaves it out, and keeps the rest.

1. The repaired schema is of draft 2020-12: `items` lists of older drafts become `prefixItems`, draft 4's
   ``"exclusiveMinimum": true`` is merged with `minimum`, and draft 3's ``"required": true`` moves to the parent.
2. Each part and each reference is visited once: the work is linear in the size, which the caller bounds.
3. A keyword without inner schemas is wrong if the standard's own schema says so. Every change is noted with its place.
   Unknown keywords and values (`enum`, `default`) stay as they are.

Knows schemas; `SchemaCheck` finds out whether the repaired schema can be used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from callgate.errors import ConfigurationError

from .faults import path_text
from .patterns import pattern_states
from .schema_references import References

__all__ = ["repaired"]

Path = tuple[str | int, ...]

MAX_PATTERN_STATES = 50_000
"""Most states of all patterns, repetitions written out: a quarter of a second. Further patterns are left out."""

_MEANT = {
    **dict.fromkeys(("float", "double", "decimal", "numeric", "real"), "number"),
    **dict.fromkeys(("int", "int32", "int64", "long", "short"), "integer"),
    **dict.fromkeys(("str", "text", "char", "date", "datetime", "date-time", "uuid", "uri", "url", "enum"), "string"),
    **dict.fromkeys(("dict", "map", "mapping", "json", "struct", "hashmap"), "object"),
    **dict.fromkeys(("list", "tuple", "set", "sequence"), "array"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("none", "nil", "undefined"), "null"),
}
"""Names of types in other languages. Any other name (`any`, `file`) is left out."""

_ONE = frozenset(
    {"not", "if", "then", "else", "contains", "propertyNames", "additionalProperties", "additionalItems", "items"}
    | {"unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
"""Keywords that hold a schema."""
_SOME = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
"""Keywords that hold a list of schemas, which is not empty."""
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords that hold schemas by name."""
_is_valid = jsonschema_rs.meta.is_valid
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def repaired(schema: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The schema with its wrong keywords translated or left out, and notes of the changes, for people.

    Args:
        schema: JSON, of bounded size and depth; not changed.
    """
    repair = _Repair()
    made = repair.part(schema, ())
    repair.references(made)
    return made, repair.notes


class _Repair:
    def __init__(self) -> None:
        self.notes: list[str] = []
        self._patterns: dict[str, bool] = {}
        self._room = MAX_PATTERN_STATES
        self._parts: list[tuple[Path, dict[str, Any]]] = []

    def note(self, path: Path, what: str) -> None:
        self.notes.append(f"in {path_text(path[-8:])}: {what}" if path else what)

    def part(self, schema: Mapping[str, Any], path: Path) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self._parts.append((path, made))
        for key, value in self._of_older_drafts(schema, path).items():
            if key in _ONE:
                if (below := self._below(value, (*path, key))) is not None:
                    made[key] = below
            elif key in _SOME and value and isinstance(value, list):
                read = [self._below(each, (*path, key, index)) for index, each in enumerate(value)]
                made[key] = [{} if each is None else each for each in read]
            elif key in _NAMED and isinstance(value, dict):
                made[key] = self._named(key, value, path)
            elif key == "type":
                if (kind := self._type(value, path)) is not None:
                    made[key] = kind
            elif key == "required":
                made[key] = self._names(value, path, key)
            elif key == "dependentRequired" and isinstance(value, dict):
                made[key] = {
                    name: self._names(each, path, key) for name, each in value.items() if isinstance(each, list)
                }
            elif not _is_valid({key: value}):
                self.note(path, f"{key!r} is left out: it cannot be {_shown(value)}")
            elif key == "pattern" and not self._is_pattern(value):
                self.note(path, f"'pattern' {_shown(value)} is left out: it cannot be checked")
            else:
                made[key] = value
        return made

    def references(self, root: dict[str, Any]) -> None:
        """Drop the references that lead nowhere, or out of the schema."""
        known = References(root, "the schema")
        for path, part in self._parts:
            words = [word for word in _REFERENCES if word in part]
            try:
                known.of(part)
            except (ConfigurationError, ValueError):
                for word in words:
                    self.note(path, f"{word!r} {_shown(part.pop(word))} is left out: it leads nowhere in the schema")

    def _below(self, schema: Any, path: Path) -> Any:
        """The repaired part; None for a value that is not a schema."""
        if isinstance(schema, dict):
            return self.part(schema, path)
        if isinstance(schema, bool):
            return schema
        self.note(path, f"{_shown(schema)} is left out: it is not a schema")
        return None

    def _named(self, key: str, given: dict[str, Any], path: Path) -> dict[str, Any]:
        made = {}
        for name, value in given.items():
            at = (*path, key, name) if key != "properties" else (*path, name)
            if key == "patternProperties" and not self._is_pattern(name):
                self.note(path, f"'patternProperties' {_shown(name)} is left out: it cannot be checked")
            else:
                below = self._below(value, at)
                made[name] = {} if below is None else below
        return made

    def _type(self, value: Any, path: Path) -> str | list[str] | None:
        given = value if isinstance(value, list) else [value]
        kinds = [_MEANT.get(each.lower(), each.lower()) for each in given if isinstance(each, str)]
        made: str | list[str] = list(dict.fromkeys(kinds)) if isinstance(value, list) else "".join(kinds)
        if len(kinds) < len(given) or not _is_valid({"type": made}):
            self.note(path, f"'type' {_shown(value)} is left out: JSON has no such type")
            return None
        if made != value:
            self.note(path, f"'type' {_shown(value)} is read as {_shown(made)}")
        return made

    def _names(self, value: list[Any], path: Path, key: str) -> list[str]:
        names = list(dict.fromkeys(each for each in value if isinstance(each, str)))
        if len(names) < len(value):
            self.note(path, f"{key!r} is read without items that are not names or occur twice")
        return names

    def _is_pattern(self, pattern: str) -> bool:
        if pattern not in self._patterns:
            self._room -= pattern_states(pattern)
            try:
                if self._room < 0:
                    raise ValueError("too much to look at")
                jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
                self._patterns[pattern] = True
            except ValueError:
                self._patterns[pattern] = False
        return self._patterns[pattern]

    def _of_older_drafts(self, schema: Mapping[str, Any], path: Path) -> dict[str, Any]:
        """The part in the keywords of draft 2020-12."""
        given = {key: value for key, value in schema.items() if key != "$schema"}
        for exclusive, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if isinstance(given.get(exclusive), bool):
                is_on = given.pop(exclusive)
                if is_on and limit in given and _is_valid({limit: given[limit]}):
                    given[exclusive] = given.pop(limit)
                    self.note(path, f"{exclusive!r} true is read with {limit!r} {given[exclusive]}")
                elif is_on:
                    self.note(path, f"{exclusive!r} true without {limit!r} is left out")
        if isinstance(given.get("items"), list):
            listed = given.pop("items")
            if listed:
                given.setdefault("prefixItems", listed)
            if "additionalItems" in given:
                given["items"] = given.pop("additionalItems")
            self.note(path, "'items', a list, is read as 'prefixItems'")
        properties = given.get("properties")
        if isinstance(properties, dict):
            marked = {name: each for name, each in properties.items() if _marks_required(each)}
            if marked:
                listed = given.get("required")
                wanted = [name for name, each in marked.items() if each["required"]]
                given["required"] = list(dict.fromkeys((*(listed if isinstance(listed, list) else ()), *wanted)))
                given["properties"] = properties | {
                    name: {key: value for key, value in each.items() if key != "required"}
                    for name, each in marked.items()
                }
                for name in marked:
                    self.note((*path, name), f"'required' {_shown(marked[name]['required'])} is read as its parent's")
        if "required" in given and not isinstance(given["required"], list):
            self.note(path, f"'required' is left out: it cannot be {_shown(given.pop('required'))}")
        dependencies = given.get("dependencies")
        if isinstance(dependencies, dict):
            del given["dependencies"]
            names = {name: each for name, each in dependencies.items() if isinstance(each, list)}
            schemas = {name: each for name, each in dependencies.items() if isinstance(each, (dict, bool))}
            given |= {"dependentRequired": names} if names else {}
            given |= {"dependentSchemas": schemas} if schemas else {}
        return given


def _marks_required(schema: Any) -> bool:
    return isinstance(schema, dict) and isinstance(schema.get("required"), bool)


def _shown(value: Any) -> str:
    match value:
        case dict():
            return "an object"
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case _:
            return repr(value)[:40]
