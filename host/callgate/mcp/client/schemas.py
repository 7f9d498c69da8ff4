"""Schemas as servers write them, made fit for use: what is unusable is left out with a warning, and the tool stays.

A schema is tried as it is; then with its wrong keywords translated or dropped (`schema_repair`); then without any
pattern, format and address; then only the names, types and descriptions of its parameters are kept. The server checks
its arguments itself in any case. What is larger or deeper than the bounds of `json_schema` gets the last of these at
once.

An output schema of an object that is closed is opened for one key, ``artifacts``: handles of images and files that come
beside the structured content stand there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callgate.errors import ConfigurationError
from callgate.tools.annotations import UntypedResult
from callgate.tools.json_schema import MAX_SCHEMA_DEPTH, SchemaArguments, SchemaResult, own_copy
from callgate.tools.schema_repair import repaired

from .status import one_line

__all__ = ["WRAPPED", "usable_input", "usable_output"]

WRAPPED = "x-fastmcp-wrap-result"
"""FastMCP's mark of an output schema that wraps what is no object under ``result``."""

_ARTIFACTS = {"type": "array", "items": {"type": "object"}, "description": "handles of images and files, if any"}

_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object"})

MAX_NOTES = 3
"""Changes to one schema that the status lists; further ones are only counted."""
MAX_NAMES = 1000
"""Parameters that are kept of a schema that cannot be used; with more parameters, none are kept."""
MAX_WORDS = 1000
"""Characters of their descriptions."""

Warn = Callable[[str], None]


def usable_input(tool: str, schema: object, warn: Warn) -> SchemaArguments:
    """The contract of a tool's arguments, as far as its schema can be used."""
    if not isinstance(schema, dict):
        if schema is not None:
            warn(f"the tool {one_line(tool, 60)!r}: its input schema is no object; any arguments are passed on")
        return SchemaArguments(tool, {})
    given = {**schema, "type": "object"} if _may_be_object(schema.get("type")) else schema
    try:
        return SchemaArguments(tool, given)
    except ConfigurationError as error:
        reason = error
    for attempt in (_mended, _plain):
        try:
            made, notes = attempt(given)
            contract = SchemaArguments(tool, made)
        except (ConfigurationError, RecursionError):
            continue
        warn(_changes(tool, "input", reason, notes))
        return contract
    known = _by_name_alone(tool, schema)
    what = "only the names and types of its parameters are used" if known.names else "any arguments are passed on"
    warn(f"{_reason(tool, reason)}; {what}")
    return known


def usable_output(tool: str, schema: object, warn: Warn) -> tuple[SchemaResult | UntypedResult, bool]:
    """The contract of a tool's results, as far as its schema can be used; and whether the value is under ``result``."""
    if schema is None:
        return UntypedResult(), False
    if not isinstance(schema, dict):
        warn(f"the tool {one_line(tool, 60)!r}: its output schema is no object; results are not checked")
        return UntypedResult(), False
    given, unwrap = schema, False
    inner = schema.get("properties", {}).get("result") if isinstance(schema.get("properties"), dict) else None
    if schema.get(WRAPPED) is True and isinstance(inner, dict):
        definitions = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
        given, unwrap = {**definitions, **inner}, True
    given = _with_room(given)
    try:
        return SchemaResult(tool, given), unwrap
    except ConfigurationError as error:
        reason = error
    for attempt in (_mended, _plain):
        try:
            made, notes = attempt(given)
            contract = SchemaResult(tool, made)
        except (ConfigurationError, RecursionError):
            continue
        warn(_changes(tool, "output", reason, notes))
        return contract if made else UntypedResult(), unwrap
    warn(f"{_reason(tool, reason)}; results are not checked")
    return UntypedResult(), unwrap


def _with_room(schema: dict[str, Any]) -> dict[str, Any]:
    """With a place for ``artifacts``, where the object has none and takes no key that it does not name."""
    properties = schema.get("properties", {})
    open_ = schema.get("additionalProperties", True) is True and schema.get("unevaluatedProperties", True) is True
    if open_ or schema.get("type") != "object" or not isinstance(properties, dict) or "artifacts" in properties:
        return schema
    return {**schema, "properties": {**properties, "artifacts": _ARTIFACTS}}


def _may_be_object(kind: object) -> bool:
    return kind is None or kind == "object" or (isinstance(kind, list) and "object" in kind)


def _mended(schema: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Valid, with what was done to it. Raises `ConfigurationError` for one that is beyond the bounds."""
    return repaired(own_copy(schema, "the schema"))


def _plain(schema: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    made, notes = _mended(schema)
    plainer: dict[str, Any] = _plainer(made, 0)
    return plainer, [*notes, "no pattern, format and address of it is checked here"]


def _changes(tool: str, which: str, reason: ConfigurationError, notes: list[str]) -> str:
    """What was done to a schema, in one line."""
    if not notes:
        return f"{_reason(tool, reason)}; it is read as one of draft 2020-12"
    shown = "; ".join(one_line(note, 160) for note in notes[:MAX_NOTES])
    more = f"; and {len(notes) - MAX_NOTES} more changes" if len(notes) > MAX_NOTES else ""
    return f"the tool {one_line(tool, 60)!r}: the {which} schema is no valid JSON Schema: {shown}{more}"


def _by_name_alone(tool: str, schema: dict[str, Any]) -> SchemaArguments:
    """What the parameters at the top are called, of which type they are, what they are for: what a model needs most."""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(properties) > MAX_NAMES:
        return SchemaArguments(tool, {})
    known: dict[str, Any] = {}
    for name, each in properties.items():
        said = each if isinstance(each, dict) else {}
        description, kind = said.get("description"), said.get("type")
        known[name] = {"description": description[:MAX_WORDS]} if isinstance(description, str) else {}
        if isinstance(kind, str) and kind in _TYPES:
            known[name]["type"] = kind
    listed = schema.get("required")
    required = [name for name in known if isinstance(listed, list) and name in listed[:MAX_NAMES]]
    try:
        return SchemaArguments(
            tool, {"type": "object", "properties": known, "required": required, "additionalProperties": True}
        )
    except ConfigurationError:  # half of a surrogate pair, a name without end
        return SchemaArguments(tool, {})


def _plainer(schema: Any, level: int) -> Any:
    """Without patterns and foreign references. The names of properties are no keywords, and stay."""
    if level > 3 * MAX_SCHEMA_DEPTH:
        raise RecursionError
    if isinstance(schema, list):
        return [_plainer(each, level + 1) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for key, value in schema.items():
        if key in ("pattern", "patternProperties", "format", "$id", "id", "$schema") and not isinstance(value, bool):
            continue
        if key in ("$ref", "$dynamicRef", "$recursiveRef") and not (isinstance(value, str) and value.startswith("#")):
            continue
        if key in ("properties", "$defs", "definitions", "dependentSchemas") and isinstance(value, dict):
            kept[key] = {name: _plainer(each, level + 2) for name, each in value.items()}
        elif key in ("const", "enum", "default", "examples", "example"):
            kept[key] = value
        else:
            kept[key] = _plainer(value, level + 1)
    return kept


def _reason(tool: str, error: ConfigurationError) -> str:
    text = str(error).partition(": ")[2] or str(error)  # without "tool '...'", which may be long
    return f"the tool {one_line(tool, 60)!r}: {one_line(text, 200)}"
