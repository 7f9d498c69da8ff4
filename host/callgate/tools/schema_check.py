"""A JSON Schema that is ready to check values, and what it has against one. The one door to `jsonschema_rs`.

Whether a value fits is asked first: the validator remembers, while it answers that, what it knows about each part, and
its time is bounded by `schema_cost`. Why a value does not fit is another matter: an error is made of every alternative
that was tried, with a copy of the value in it, which is fine for a small value and takes minutes for a large one. So a
small one is told all its faults; a large one a single fault, found by asking which part does not fit, and which part
of that.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urljoin

import jsonschema_rs

from callgate.errors import ConfigurationError

from .encoding import compact_json
from .faults import MAX_LOOKED_AT
from .schema_cost import SchemaCost
from .schema_references import at_pointer
from .turns import Work, at_once

__all__ = ["SchemaCheck", "SchemaFault", "TooMuchToCheck"]

MAX_FAULT_STEPS = 5_000
"""Units (see `schema_cost`) of a value that is told all its faults; one such unit costs up to 20 us."""
_MAX_LEVELS = 8
"""So far into a large value a fault is followed."""
_MAX_PARTS = 200
"""So many parts of an object are asked for it."""

_LINEAR = jsonschema_rs.RegexOptions()
"""Patterns without look-around and back-references, in linear time."""
_WHOLE = "https://callgate.invalid/schema"
"""The address of a schema that has none; what it refers to lies beside it."""
_ALTERNATIVES = ("anyOf", "oneOf", "not", "if", "contains", "dependentSchemas", "dependencies", "propertyNames")
_FLAT = frozenset(
    {"type", "enum", "const", "required", "dependentRequired", "pattern", "format", "multipleOf", "uniqueItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength"}
    | {"minItems", "maxItems", "minProperties", "maxProperties"}
)
_EXCLUSIVE = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
"""Of draft 4, where they are true or false and say how the other one is meant."""


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

    def faults(self, value: Any, text: str) -> list[SchemaFault]:
        """What is wrong with a value, at once: see `checking`."""
        return at_once(self.checking(value, text))

    def checking(self, value: Any, text: str) -> Work[list[SchemaFault]]:
        """What is wrong with a value: nothing, if it fits; at most `MAX_LOOKED_AT` faults. In turns.

        Args:
            value: a JSON value.
            text: the same as JSON text.

        Raises:
            TooMuchToCheck: the check could take more than about a second.
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
        """Whether all faults of a part may be told."""
        if isinstance(value, (dict, list, str)) and len(value) > MAX_FAULT_STEPS:
            return False
        return at_once(self._cost.steps_again(compact_json(value), value, MAX_FAULT_STEPS)) <= MAX_FAULT_STEPS

    def _first(self, value: Any) -> Work[SchemaFault]:
        """One fault of a large value, in turns."""
        address = self._schema.get("$id")
        address = urljoin(_WHOLE, address).partition("#")[0] if isinstance(address, str) else _WHOLE
        registry = jsonschema_rs.Registry([(address, self._schema)], retriever=_refuse)
        dialect = {"$schema": self._schema["$schema"]} if "$schema" in self._schema else {}
        asked: dict[tuple[str, bool], jsonschema_rs.Validator] = {}

        def part(pointer: str, of_list: bool) -> jsonschema_rs.Validator:
            if (pointer, of_list) not in asked:
                one = {"$ref": f"{address}#{quote(pointer, safe='/~')}"}
                asking = {**dialect, **({"items": one} if of_list else one)}
                made = jsonschema_rs.validator_for(asking, registry=registry, pattern_options=_LINEAR)
                asked[pointer, of_list] = made
            return asked[pointer, of_list]

        schema, pointer, path = self._schema, "", list[str | int]()
        keyword = "the schema"
        for _ in range(_MAX_LEVELS):
            yield
            word = _wrong_word(schema, dialect, value)
            if word is not None:
                return SchemaFault(tuple(path), word, _details(word, schema, value), value)
            keyword = next((each for each in _ALTERNATIVES if each in schema), keyword)
            yield
            found = _wrong_part(schema, pointer, value, part)
            if found is None:
                if (name := _wrong_name(schema, pointer, value, part)) is not None:
                    return SchemaFault(tuple(path), "propertyNames", {"property": name}, value)
                break
            inside, pointer, value = found
            path += inside
            if inside and self._is_small(value):
                for error in part(pointer, False).iter_errors(value):
                    return _fault(error, path)
            below = at_pointer(self._schema, pointer)
            if not isinstance(below, dict):
                break
            schema = below
        return SchemaFault(tuple(path), keyword, {}, value)


_Part = tuple[list[str | int], str, Any]
"""Where in the value, the pointer to the schema, the part."""


def _wrong_part(
    schema: dict[str, Any], pointer: str, value: Any, part: Callable[[str, bool], jsonschema_rs.Validator]
) -> _Part | None:
    """The first part that does not fit a schema for it."""
    for each in _parts(schema, pointer, value):
        if not part(each[1], False).is_valid(each[2]):
            return each
    where: Sequence[str | int] = ()
    if isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        if "patternProperties" not in schema:
            where = [name for name in value if name not in schema.get("properties", ())]
        pointer += "/additionalProperties"
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        where = range(len(schema.get("prefixItems", ())), len(value))
        pointer += "/items"
    parts = [value[each] for each in where]
    if not parts or part(pointer, True).is_valid(parts):
        return None
    wrong = _first_wrong(len(parts), lambda some: part(pointer, True).is_valid(parts[some]))
    return [where[wrong]], pointer, parts[wrong]


def _wrong_name(
    schema: dict[str, Any], pointer: str, value: Any, part: Callable[[str, bool], jsonschema_rs.Validator]
) -> str | None:
    """The first key that does not fit `propertyNames`."""
    if not isinstance(value, dict) or not value or not isinstance(schema.get("propertyNames"), dict):
        return None
    names, fits = list(value), part(f"{pointer}/propertyNames", True).is_valid
    return None if fits(names) else str(names[_first_wrong(len(names), lambda some: fits(names[some]))])


def _first_wrong(count: int, fits: Callable[[slice], bool]) -> int:
    """Which of so many things, one of which does not fit, is the first such; `fits` asks about some together."""
    start = 0
    while count > 1:
        half = count // 2
        if fits(slice(start, start + half)):
            start += half
            count -= half
        else:
            count = half
    return start


def _parts(schema: dict[str, Any], pointer: str, value: Any) -> Iterator[_Part]:
    """The parts of a value that a schema has other schemas for, each its own."""
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        yield [], unquote(reference[1:]), value
    for index in range(len(schema.get("allOf", ()))):
        yield [], f"{pointer}/allOf/{index}", value
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        for name in itertools.islice((name for name in properties if name in value), _MAX_PARTS):
            yield [name], f"{pointer}/properties/{_escaped(name)}", value[name]
    elif isinstance(value, list):
        for index in range(min(len(schema.get("prefixItems", ())), len(value))):
            yield [index], f"{pointer}/prefixItems/{index}", value[index]


def _wrong_word(schema: dict[str, Any], dialect: dict[str, Any], value: Any) -> str | None:
    """The first keyword that the value does not fit, of those that look at it alone, and not into it."""
    words = [word for word in schema if word in _FLAT and not (word in _EXCLUSIVE and isinstance(schema[word], bool))]
    if schema.get("additionalProperties") is False:
        words.append("additionalProperties")

    def fits(some: slice) -> bool:
        only = {**dialect, **{word: schema[word] for word in words[some]}}
        if "additionalProperties" in only:
            for names in ("properties", "patternProperties"):
                if names in schema:
                    only[names] = {name: {} for name in schema[names]}
        for exclusive, limit in _EXCLUSIVE.items():
            if limit in only and schema.get(exclusive) is True:
                only[exclusive] = True
        return _validator(only, "a part of the schema").is_valid(value)

    return None if fits(slice(None)) else words[_first_wrong(len(words), fits)]


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
        case "dependentRequired":
            missing = [name for given, names in said.items() if given in value for name in names if name not in value]
            return {"property": missing[0]}
        case "additionalProperties":
            known, patterns = schema.get("properties", ()), schema.get("patternProperties")
            if patterns:  # asked about alone, each by itself
                fits = _validator({"patternProperties": {key: {} for key in patterns}, word: False}, "a part").is_valid
                names = [name for name in value if name not in known]
                return {"unexpected": [name for name in names if not fits({name: None})][:MAX_LOOKED_AT]}
            return {"unexpected": [name for name in value if name not in known]}
        case _:
            return {"limit" if word.startswith(("min", "max", "exclusive")) else word: said}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _fault(error: jsonschema_rs.ValidationError, above: Sequence[str | int]) -> SchemaFault:
    details = error.kind.as_dict()
    if error.kind.name == "propertyNames":
        details = {"property": details["error"].instance}
    return SchemaFault((*above, *error.instance_path), error.kind.name, details, error.instance)


def _validator(schema: dict[str, Any], what: str) -> jsonschema_rs.Validator:
    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse, pattern_options=_LINEAR)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        reason = getattr(error, "message", None) or str(error).splitlines()[0]
        raise ConfigurationError(f"{what} is no valid JSON Schema: {reason[:300]}") from None


def _refuse(uri: str) -> Any:
    raise ValueError(f"schemas are never fetched; put {uri[:100]} under $defs")
