"""Contracts of tools with a plain JSON Schema: their arguments and results.

Rules:

1. A schema comes from outside. Its size and depth are bounded, nothing is fetched, patterns run in linear time (no
   look-around, no back-references), and the cost of a check is known before it begins (`schema_cost`): a schema that
   branches too often is refused, and so is a value that is too large for a schema that branches much.
2. A misspelt argument is refused: a schema that lists `properties` and does not allow others takes no others.
3. Defaults are not filled in; the function fills them in.

Knows schemas and values; calls no tool.
"""

from __future__ import annotations

import json
from typing import Any

from callgate.errors import ConfigurationError

from .annotations import Arguments, Encoded, UntypedResult, broken_contract
from .decoding import decoding, depth
from .encoding import NotJson, compact_json
from .faults import MAX_FAULTS, MAX_LOOKED_AT, Fault, described, path_text, refusal, unknown_argument
from .schema_check import SchemaCheck, SchemaFault
from .turns import LARGE_BYTES, Work, at_once

__all__ = ["MAX_SCHEMA_BYTES", "MAX_SCHEMA_DEPTH", "SchemaArguments", "SchemaResult", "own_copy"]

MAX_SCHEMA_BYTES = 1024 * 1024
"""Bytes of one schema as compact JSON; a larger one is refused."""
MAX_SCHEMA_DEPTH = 100
"""Levels of nesting of one schema; a deeper one is refused."""

# with one of these, `properties` alone does not say which arguments exist
_OPEN_KEYWORDS = frozenset(
    {"additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames", "allOf", "anyOf", "oneOf"}
    | {"if", "not", "$ref", "$dynamicRef", "$recursiveRef", "dependentSchemas", "dependencies"}
)


class SchemaArguments(Arguments):
    """The contract of arguments by JSON Schema.

    Raises:
        ConfigurationError: the schema is not a valid schema of an object, is too large, or refers to another document.
    """

    def __init__(self, tool: str, schema: dict[str, Any]) -> None:
        what = f"tool {tool!r}: the input schema"
        self.schema = own_copy(schema, what)
        if self.schema.setdefault("type", "object") != "object":
            raise ConfigurationError(f"{what} must be of type 'object', not {self.schema['type']!r}")
        self._check = SchemaCheck(self.schema, what)
        self.names = tuple(self.schema.get("properties", {}))
        self._known = frozenset(self.names)
        says = _OPEN_KEYWORDS.intersection(self.schema)
        self._says_so = says == {"additionalProperties"} and self.schema["additionalProperties"] is False
        self._closed = "properties" in self.schema and not _OPEN_KEYWORDS.intersection(self.schema)

    def _validated(self, tool: str, arguments: dict[str, Any], text: str) -> Work[dict[str, Any]]:
        copy: dict[str, Any] = json.loads(text) if len(text) <= LARGE_BYTES else (yield from decoding(text))
        unknown = [name for name in copy if name not in self._known] if self._closed or self._says_so else []
        if self._says_so and len(unknown) <= MAX_LOOKED_AT:  # the check reports them; very many need no check
            unknown = []
        faults = self._unknown(unknown[:MAX_FAULTS])
        faults += [Fault(name[:60], "") for name in unknown[MAX_FAULTS:MAX_LOOKED_AT]]  # only counted
        try:
            found = [] if len(unknown) > MAX_LOOKED_AT else (yield from self._check.checking(copy, text))
            for fault in found:
                faults.extend(self._faults(fault))
        except ValueError as error:
            faults.append(Fault("", f"the arguments cannot be checked: {error}"))
        if faults:
            raise refusal(tool, faults)
        return copy

    def _faults(self, fault: SchemaFault) -> list[Fault]:
        path = fault.path
        if fault.keyword == "required":
            name = path_text([*path, fault.details["property"]])
            return [Fault(name, f"missing argument {name!r}")]
        if fault.keyword in ("additionalProperties", "unevaluatedProperties") and "unexpected" in fault.details:
            unexpected = fault.details["unexpected"][:MAX_LOOKED_AT]
            if not path:
                return self._unknown(unexpected)
            names = [path_text([*path, each[:60]]) for each in unexpected]
            return [Fault(name, f"unknown argument {name!r}") for name in names]
        name = path_text(path)
        return [Fault(name, f"argument {name!r} {problem(fault)}" if path else f"the arguments: {problem(fault)}")]

    def _unknown(self, names: list[str]) -> list[Fault]:
        return [Fault(name[:60], unknown_argument(name[:60], self.names)) for name in names]


class SchemaResult:
    """The contract of a result by JSON Schema.

    Raises:
        ConfigurationError: the schema is not valid, is too large, or refers to another document.
    """

    def __init__(self, tool: str, schema: dict[str, Any]) -> None:
        what = f"tool {tool!r}: the output schema"
        self.schema = own_copy(schema, what)
        self._check = SchemaCheck(self.schema, what)

    def encode(self, tool: str, result: Any) -> str:
        """The result as compact JSON text. Raises `ToolError` when the tool broke its own contract."""
        text = UntypedResult.encode(tool, result)
        return at_once(self._checked(tool, json.loads(text), text))

    def encoding(self, tool: str, result: Any) -> Work[Encoded]:
        """`encode` in turns, for a large result."""
        text = (yield from UntypedResult().encoding(tool, result)).text
        value = yield from decoding(text)
        return Encoded((yield from self._checked(tool, value, text)), value)

    def _checked(self, tool: str, value: Any, text: str) -> Work[str]:
        try:
            for fault in (yield from self._check.checking(value, text)):
                raise broken_contract(tool, f"{path_text(fault.path, 'result')} {problem(fault)}")
        except ValueError as error:
            raise broken_contract(tool, f"result cannot be checked: {error}") from None
        return text


def problem(fault: SchemaFault) -> str:
    """What was expected and what was given, in a few words."""
    details = fault.details
    got = described(fault.value)
    match fault.keyword:
        case "type":
            return f"must be of type {' or '.join(details['types'])}, got {got}"
        case "enum":
            return f"must be one of {_some(details['options'])}, got {got}"
        case "const":
            return f"must be {_some([details['expected_value']])}, got {got}"
        case "required" | "dependentRequired" if "property" in details:
            return f"has no {details['property'][:60]!r}, got {got}"
        case "additionalProperties" | "unevaluatedProperties" if "unexpected" in details:
            return f"must not have {_some(details['unexpected'])}"
        case "propertyNames" if "property" in details:
            return f"has the key {details['property'][:60]!r}, which does not fit propertyNames, got {got}"
        case "falseSchema":
            return f"must not be there, got {got}"
        case name if "limit" in details:
            return f"must keep to {name} {details['limit']}, got {got}"
        case name:
            value = details.get(name)
            return f"does not fit {name}{f' {value!r}'[:100] if isinstance(value, str) else ''}, got {got}"


def _some(options: list[Any]) -> str:
    shown = ", ".join(json.dumps(option)[:60] for option in options[:20])
    return shown if len(options) <= 20 else f"{shown} and {len(options) - 20} more"


def own_copy(schema: object, what: str) -> dict[str, Any]:
    """A copy of a schema. Raises `ConfigurationError` if it is not a JSON object, or is too large or too deep."""
    if not isinstance(schema, dict):
        raise ConfigurationError(f"{what} must be a dict with a JSON Schema, not a {type(schema).__name__}")
    try:
        text = compact_json(schema, "schema")
    except NotJson as error:
        raise ConfigurationError(f"{what} is not JSON: {error}") from None
    size = len(text.encode())
    if size > MAX_SCHEMA_BYTES:
        raise ConfigurationError(f"{what} has {size} bytes; at most {MAX_SCHEMA_BYTES} are accepted")
    copy: dict[str, Any] = json.loads(text)
    if depth(copy, MAX_SCHEMA_DEPTH) > MAX_SCHEMA_DEPTH:
        raise ConfigurationError(f"{what} is nested more than {MAX_SCHEMA_DEPTH} levels deep")
    return copy
