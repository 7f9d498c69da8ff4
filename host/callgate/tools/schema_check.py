"""A JSON Schema that is ready to check values, and what it has against one. The one door to `jsonschema_rs`.

Whether a value fits is asked first: the validator remembers, while it answers that, what it knows about each part, and
its time is bounded by `schema_cost`. Why a value does not fit is another matter: an error is made of every alternative
that was tried, with a copy of the value in it, which is fine for a small value and takes minutes for a large one. So a
small one is told all its faults; a large one a single fault, found by asking which part does not fit, and which part
of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import jsonschema_rs

from callgate.errors import ConfigurationError

from .encoding import compact_json
from .faults import MAX_LOOKED_AT
from .schema_cost import SchemaCost
from .schema_references import at_pointer

__all__ = ["SchemaCheck", "SchemaFault", "TooMuchToCheck"]

MAX_FAULT_STEPS = 20_000
"""Units (see `schema_cost`) of a value that is told all its faults; one such unit costs up to 20 us."""
_MAX_LEVELS = 8
"""So far into a large value a fault is followed."""
_MAX_PARTS = 200
"""So many parts of an object are asked for it."""

_LINEAR = jsonschema_rs.RegexOptions()
"""Patterns without look-around and back-references, in linear time."""
_WHOLE = "urn:callgate:schema"
_ALTERNATIVES = ("anyOf", "oneOf", "not", "if", "contains", "dependentSchemas", "dependencies", "propertyNames")
_FLAT = frozenset(
    {"type", "enum", "const", "required", "dependentRequired", "pattern", "format", "multipleOf", "uniqueItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"}
    | {"minItems", "maxItems", "minProperties", "maxProperties"}
)


class TooMuchToCheck(ValueError):
    """The value is too large for a schema that branches so much; the message says so."""


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """One thing that the schema has against a value.

    Attributes:
        path: where in the value.
        keyword: which keyword it is.
        details: what the keyword says: `limit`, `options`, `property`, ...
        value: what is there.
    """

    path: tuple[str | int, ...]
    keyword: str
    details: dict[str, Any]
    value: Any


class SchemaCheck:
    """A compiled schema.

    Args:
        schema: held, and not to be changed any more.
        what: what it is, for errors.

    Raises:
        ConfigurationError: it is no valid schema, refers to another place, or branches too often.
    """

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self._schema = schema
        self._validator = _validator(schema, what)
        self._cost = SchemaCost(schema, what)

    def faults(self, value: Any, text: str) -> Iterator[SchemaFault]:
        """What is wrong with a value: nothing, if it fits; at most `MAX_LOOKED_AT` faults.

        Args:
            value: a JSON value.
            text: the same as JSON text.

        Raises:
            TooMuchToCheck: the check could take more than about a second.
            ValueError: the validator cannot read the value.
        """
        if not self._cost.allows(text):
            raise TooMuchToCheck(
                f"{len(text)} bytes are too much to be checked by a schema that branches so often; use less at once"
            )
        if self._validator.is_valid(value):
            return
        if self._cost.steps_again(text, value) <= MAX_FAULT_STEPS:
            for error in itertools.islice(self._validator.iter_errors(value), MAX_LOOKED_AT):
                yield _fault(error, ())
        else:
            yield self._first(value)

    def _first(self, value: Any) -> SchemaFault:
        """One fault of a large value."""
        registry = jsonschema_rs.Registry([(_WHOLE, self._schema)], retriever=_refuse)
        dialect = {"$schema": self._schema["$schema"]} if "$schema" in self._schema else {}
        asked: dict[str, jsonschema_rs.Validator] = {}

        def part(pointer: str) -> jsonschema_rs.Validator:
            if pointer not in asked:
                reference = {**dialect, "$ref": f"{_WHOLE}#{quote(pointer, safe='/~')}"}
                asked[pointer] = jsonschema_rs.validator_for(reference, registry=registry, pattern_options=_LINEAR)
            return asked[pointer]

        schema, pointer, path = self._schema, "", list[str | int]()
        keyword = "the schema"
        for _ in range(_MAX_LEVELS):
            word = next((word for word in schema if not _fits(word, schema, dialect, value)), None)
            if word is not None:
                return SchemaFault(tuple(path), word, _details(word, schema, value), value)
            keyword = next((each for each in _ALTERNATIVES if each in schema), keyword)
            found = next((each for each in _parts(schema, pointer, value) if not part(each[1]).is_valid(each[2])), None)
            if found is None:
                break
            inside, pointer, value = found
            path += inside
            if inside and self._cost.steps_again(compact_json(value), value) <= MAX_FAULT_STEPS:
                return _fault(next(iter(part(pointer).iter_errors(value))), path)
            below = at_pointer(self._schema, pointer)
            if not isinstance(below, dict):
                break
            schema = below
        return SchemaFault(tuple(path), keyword, {}, value)


def _parts(schema: dict[str, Any], pointer: str, value: Any) -> Iterator[tuple[list[str | int], str, Any]]:
    """The parts of a value that a schema has other schemas for: where, the pointer to the schema, the part."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        yield [], unquote(reference[1:]), value
    for index in range(len(schema.get("allOf", ()))):
        yield [], f"{pointer}/allOf/{index}", value
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in itertools.islice((name for name in properties if name in value), _MAX_PARTS):
            yield [name], f"{pointer}/properties/{_escaped(name)}", value[name]
        if isinstance(schema.get("additionalProperties"), dict) and "patternProperties" not in schema:
            for name in value:
                if name not in properties:
                    yield [name], f"{pointer}/additionalProperties", value[name]
    elif isinstance(value, list):
        first = len(schema.get("prefixItems", ()))
        for index in range(min(first, len(value))):
            yield [index], f"{pointer}/prefixItems/{index}", value[index]
        if isinstance(schema.get("items"), dict):
            for index in range(first, len(value)):
                yield [index], f"{pointer}/items", value[index]


def _fits(word: str, schema: dict[str, Any], dialect: dict[str, Any], value: Any) -> bool:
    """Whether a value fits one keyword that looks at it alone, and not into it."""
    single = {**dialect, word: schema[word]}
    if word == "additionalProperties" and schema[word] is False:
        for names in ("properties", "patternProperties"):
            if names in schema:
                single[names] = {name: {} for name in schema[names]}
    elif word not in _FLAT:
        return True
    return _validator(single, "a part of the schema").is_valid(value)


def _details(word: str, schema: dict[str, Any], value: Any) -> dict[str, Any]:
    """As the validator words them."""
    said = schema[word]
    match word:
        case "type":
            return {"types": [said] if isinstance(said, str) else said}
        case "enum":
            return {"options": said}
        case "const":
            return {"expected_value": said}
        case "required":
            return {"property": next(name for name in said if name not in value)}
        case "additionalProperties":
            return {"unexpected": [name for name in value if name not in schema.get("properties", ())]}
        case _:
            return {"limit" if word.startswith(("min", "max", "exclusive")) else word: said}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _fault(error: jsonschema_rs.ValidationError, above: Sequence[str | int]) -> SchemaFault:
    return SchemaFault((*above, *error.instance_path), error.kind.name, error.kind.as_dict(), error.instance)


def _validator(schema: dict[str, Any], what: str) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=_LINEAR)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = getattr(error, "message", None) or str(error).splitlines()[0]
        raise ConfigurationError(f"{what} is no valid JSON Schema: {reason[:300]}") from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"schemas are never fetched; put {uri[:100]} under $defs")
