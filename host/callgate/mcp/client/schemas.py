"""Schemas as servers write them, made fit for use: what is unusable is left out with a warning, and the tool stays.

A schema is tried as it is; then without what callgate cannot check (patterns with look-around, references to the
network); then it is replaced by one that takes anything. The server checks its arguments itself in any case.

An output schema of an object that is closed is opened for one key, ``artifacts``: handles of images and files that come
beside the structured content stand there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from callgate.errors import ConfigurationError
from callgate.tools.annotations import UntypedResult
from callgate.tools.json_schema import MAX_SCHEMA_DEPTH, SchemaArguments, SchemaResult

from .faults import one_line

__all__ = ["WRAPPED", "usable_input", "usable_output"]

WRAPPED = "x-fastmcp-wrap-result"
"""FastMCP's mark of an output schema that wraps what is no object under ``result``."""

_ARTIFACTS = {"type": "array", "items": {"type": "object"}, "description": "handles of images and files, if any"}

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
    try:
        contract = SchemaArguments(tool, _without_unchecked(given))
        warn(f"{_reason(tool, reason)}; that part is not checked here")
        return contract
    except (ConfigurationError, RecursionError):
        warn(f"{_reason(tool, reason)}; any arguments are passed on")
        return SchemaArguments(tool, {})


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
    try:
        contract = SchemaResult(tool, _without_unchecked(given))
        warn(f"{_reason(tool, reason)}; that part is not checked here")
        return contract, unwrap
    except (ConfigurationError, RecursionError):
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


def _without_unchecked(schema: dict[str, Any]) -> dict[str, Any]:
    kept: dict[str, Any] = _plainer(schema, 0)
    return kept


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
