"""A JSON Schema that is ready to check values, and the faults it finds in them. The one door to `jsonschema_rs`.

1. The first question is whether the value fits. While the validator answers it, it remembers what it knows about each
   part, and `schema_cost` bounds its time.
2. A small value gets all its faults. An error holds a copy of the value for every alternative that was tried, which
   takes minutes for a large one. So a large value gets one fault, found by asking which part of it does not fit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from urllib.parse import quote, unquote, urljoin

import jsonschema_rs

from callgate.errors import ConfigurationError

from .encoding import compact_json
from .faults import MAX_LOOKED_AT
from .schema_cost import SchemaCost
from .schema_references import at_pointer
from .turns import Work, at_once

__all__ = ["SchemaCheck", "SchemaFault", "TooMuchToCheck", "validator_of"]

MAX_FAULT_STEPS = 5_000
"""Units (see `schema_cost`) of a value whose faults are all reported; one such unit costs up to 20 us."""
_MAX_LEVELS = 8
"""Levels of a large value through which a fault is followed."""
_MAX_PARTS = 200
"""Named members of a large object that are checked one by one; and members of an array between two turns of others."""

_LINEAR = jsonschema_rs.RegexOptions()
"""Patterns without look-around and back-references, in linear time."""
_WHOLE = "https://callgate.invalid/schema"
"""The address of a schema that has none; what it refers to lies beside it."""
_ALTERNATIVES = ("anyOf", "oneOf", "not", "if", "contains", "dependentSchemas", "dependencies", "propertyNames")
"""Keywords whose fault in a large value is reported without its place."""
_OWN_WORDS = frozenset(
    {"type", "enum", "const", "pattern", "format", "uniqueItems", "minLength", "maxLength"}
    | {"minItems", "maxItems", "minProperties", "maxProperties", "dependentRequired"}
)
"""Keywords that look at a large value itself, and not into it."""


class TooMuchToCheck(ValueError):
    """The value is too large for a schema that branches so much; the message says so."""


@dataclass(frozen=True, slots=True)
class SchemaFault:
    """One fault of a value.

    Attributes:
        path: where in the value.
        keyword: the keyword of the schema that the value does not fit.
        details: what the keyword says: `limit`, `options`, `property`, ...
        value: the value at `path`.
    """

    path: tuple[str | int, ...]
    keyword: str
    details: dict[str, Any]
    value: Any


class SchemaCheck:
    """A compiled schema.

    Args:
        schema: kept; the caller does not change it any more.
        what: words for the schema in errors.

    Raises:
        ConfigurationError: the schema is not valid, refers to another document, or branches too often.
    """

    def __init__(self, schema: dict[str, Any], what: str) -> None:
        self._schema = schema
        self._validator = validator_of(schema, what)
        self._cost = SchemaCost(schema, what)

    def checking(self, value: Any, text: str) -> Work[list[SchemaFault]]:
        """The faults of a value, at most `MAX_LOOKED_AT`; none if it fits. In turns.

        Args:
            value: a JSON value.
            text: the value as JSON text.

        Raises:
            TooMuchToCheck: the check could take more than 100 ms.
            ValueError: the validator cannot read the value.
        """
        if not (yield from self._cost.allowing(text, value)):
            raise TooMuchToCheck(
                f"{len(text)} bytes are too much to be checked by a schema that branches so often; use less at once"
            )
        yield
        if self._validator.is_valid(value):
            return []
        yield
        few = (yield from self._cost.steps_again(text, value, MAX_FAULT_STEPS)) <= MAX_FAULT_STEPS
        yield
        if few:
            errors = itertools.islice(self._validator.iter_errors(value), MAX_LOOKED_AT)
            return [_fault(error, ()) for error in errors]
        try:
            return [(yield from self._first(value))]
        except (ValueError, jsonschema_rs.ReferencingError):  # a part cannot be asked about by itself
            return [SchemaFault((), "the schema", {}, value)]

    def _is_small(self, value: Any) -> bool:
        """Whether all faults of a part can be reported."""
        if isinstance(value, (dict, list, str)) and len(value) > MAX_FAULT_STEPS:
            return False
        return at_once(self._cost.steps_again(compact_json(value), value, MAX_FAULT_STEPS)) <= MAX_FAULT_STEPS

    def _first(self, value: Any) -> Work[SchemaFault]:
        """The first fault of a large value: follows the parts that do not fit until one is small. In turns."""
        address = self._schema.get("$id")
        address = urljoin(_WHOLE, address).partition("#")[0] if isinstance(address, str) else _WHOLE
        registry = jsonschema_rs.Registry([(address, self._schema)], retriever=_refuse)
        dialect = {"$schema": self._schema["$schema"]} if "$schema" in self._schema else {}

        @cache
        def part(pointer: str) -> jsonschema_rs.Validator:
            one = {**dialect, "$ref": f"{address}#{quote(pointer, safe='/~')}"}
            return jsonschema_rs.validator_for(one, registry=registry, pattern_options=_LINEAR)

        schema: Any = self._schema
        pointer, path = "", list[str | int]()
        keyword = "the schema"
        for _ in range(_MAX_LEVELS):
            if not isinstance(schema, dict):
                break
            if own := _own_fault(schema, dialect, path, value):
                return own
            keyword = next((each for each in _ALTERNATIVES if each in schema), keyword)
            wrong: _Part | None = None
            for number, each in enumerate(_parts(schema, pointer, value)):
                if number % _MAX_PARTS == 0:
                    yield
                if not part(each[1]).is_valid(each[2]):
                    wrong = each
                    break
            if wrong is None:
                checks = _name_checks(schema, dialect, pointer, part)
                for number, name in enumerate(value if checks and isinstance(value, dict) else ()):
                    if number % _MAX_PARTS == 0:
                        yield
                    for word, fits in checks.items():
                        if not fits(name):
                            return SchemaFault(tuple(path), word, {"property": name, "unexpected": [name]}, value)
                break
            inside, pointer, value = wrong
            path += inside
            if inside and self._is_small(value):
                return next(_fault(error, path) for error in part(pointer).iter_errors(value))
            schema = at_pointer(self._schema, pointer)
        return SchemaFault(tuple(path), keyword, {}, value)


_Part = tuple[list[str | int], str, Any]
"""Where in the value, the pointer to the schema, the part."""


def _own_fault(
    schema: dict[str, Any], dialect: dict[str, Any], path: list[str | int], value: Any
) -> SchemaFault | None:
    """The fault by a keyword that looks at the value itself, and not into it."""
    where = tuple(path)
    if isinstance(value, dict):
        missing = [name for name in schema.get("required", ()) if name not in value]
        if missing:
            return SchemaFault(where, "required", {"property": missing[0]}, value)
        if schema.get("additionalProperties") is False and "patternProperties" not in schema:
            unexpected = [name for name in value if name not in schema.get("properties", ())]
            if unexpected:
                return SchemaFault(where, "additionalProperties", {"unexpected": unexpected}, value)
    for word in schema:
        wanted = schema[word]
        if word in _OWN_WORDS and not validator_of({**dialect, word: wanted}, "a part of the schema").is_valid(value):
            kinds = [wanted] if isinstance(wanted, str) else wanted
            details = {word: wanted, "types": kinds, "options": wanted, "expected_value": wanted}
            if word.startswith(("min", "max")):
                details["limit"] = wanted
            if word == "dependentRequired":
                needed = (name for given, names in wanted.items() if given in value for name in names)
                details["property"] = next(name for name in needed if name not in value)
            return SchemaFault(where, word, details, value)
    return None


def _name_checks(
    schema: dict[str, Any], dialect: dict[str, Any], pointer: str, part: Callable[[str], jsonschema_rs.Validator]
) -> dict[str, Callable[[str], bool]]:
    """Checks of one key of an object, by the keywords that look at keys alone."""
    checks: dict[str, Callable[[str], bool]] = {}
    if "propertyNames" in schema:
        checks["propertyNames"] = part(f"{pointer}/propertyNames").is_valid
    if schema.get("additionalProperties") is False and "patternProperties" in schema:
        known: dict[str, Any] = {
            word: {key: {} for key in schema.get(word, ())} for word in ("properties", "patternProperties")
        }
        closed = validator_of({**dialect, **known, "additionalProperties": False}, "a part of the schema")
        checks["additionalProperties"] = lambda name: closed.is_valid({name: None})
    return checks


def _parts(schema: dict[str, Any], pointer: str, value: Any) -> Iterator[_Part]:
    """The parts of a value for which a schema names other schemas."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        yield [], unquote(reference[1:]), value
    for index in range(len(schema.get("allOf", ()))):
        yield [], f"{pointer}/allOf/{index}", value
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for name in itertools.islice((name for name in known if name in value), _MAX_PARTS):
            yield [name], f"{pointer}/properties/{name.replace('~', '~0').replace('/', '~1')}", value[name]
        if isinstance(schema.get("additionalProperties"), dict) and "patternProperties" not in schema:
            for name in value:
                if name not in known:
                    yield [name], f"{pointer}/additionalProperties", value[name]
    elif isinstance(value, list):
        first = len(schema.get("prefixItems", ()))
        for index, item in enumerate(value[:first]):
            yield [index], f"{pointer}/prefixItems/{index}", item
        if isinstance(schema.get("items"), dict):
            for index, item in enumerate(itertools.islice(value, first, None), first):
                yield [index], f"{pointer}/items", item


def _fault(error: jsonschema_rs.ValidationError, above: Sequence[str | int]) -> SchemaFault:
    details = error.kind.as_dict()
    if error.kind.name == "propertyNames":
        details = {"property": details["error"].instance}
    return SchemaFault((*above, *error.instance_path), error.kind.name, details, error.instance)


def validator_of(schema: dict[str, Any], what: str) -> jsonschema_rs.Validator:
    """A validator that fetches nothing and whose patterns run in linear time. Raises `ConfigurationError`."""
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=_LINEAR)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = getattr(error, "message", None) or str(error).splitlines()[0]
        raise ConfigurationError(f"{what} is not a valid JSON Schema: {reason[:300]}") from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"schemas are never fetched; put {uri[:100]} under $defs")
