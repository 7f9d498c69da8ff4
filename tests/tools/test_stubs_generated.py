"""Schemas that nobody thought of: their stubs import, pass mypy, stay the same, and take what the schemas allow."""

from __future__ import annotations

import inspect
import tempfile
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from callgate.errors import ConfigurationError
from callgate.tools import Registry
from callgate.tools.stubs import DETAILS, stubs
from tools.stub_checks import foreign, imported, passes_mypy, takes

pytestmark = pytest.mark.slow

DEFINITIONS = ("A", "B", "C d")
KEYS = st.sampled_from(["a", "b", "c-d", "class", "__e", "str", "Literal", "ü", "type", "x" * 60])
TITLES = st.sampled_from(["Thing", "thing", "", "List", "Größe", "a.b"])
SCALARS = st.sampled_from([None, True, False, 0, 1, -7, 1.5, "", "a", "b", "it's", "\n", "天"])
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])


def lists(schemas: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[list[Any]]:
    return st.lists(schemas, min_size=1, max_size=most)


def larger(schemas: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas made of schemas; keywords are combined as they come."""
    objects = st.fixed_dictionaries(
        {"properties": st.dictionaries(KEYS, schemas, max_size=4)},
        optional={
            "type": st.sampled_from(["object", ["object", "null"]]),
            "required": st.lists(KEYS, max_size=3, unique=True),
            "additionalProperties": schemas,
            "title": TITLES,
            "description": st.text(max_size=10),
        },
    )
    maps = st.fixed_dictionaries(
        {"type": st.just("object")},
        optional={
            "additionalProperties": schemas,
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$", "x"]), schemas, max_size=2),
            "propertyNames": st.just({"maxLength": 5}),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={"items": schemas, "prefixItems": lists(schemas), "maxItems": st.integers(0, 3)},
    )
    together = st.fixed_dictionaries(
        {},
        optional={
            "allOf": lists(schemas),
            "anyOf": lists(schemas),
            "oneOf": lists(schemas),
            "not": schemas,
            "if": schemas,
            "then": schemas,
            "type": TYPES,
            "properties": st.dictionaries(KEYS, schemas, max_size=2),
            "required": st.lists(KEYS, max_size=2, unique=True),
            "$ref": REFERENCES,
        },
    )
    return st.one_of(objects, maps, arrays, together)


REFERENCES = st.sampled_from(["#", *(f"#/$defs/{name.replace(' ', '%20')}" for name in DEFINITIONS)])
SMALL = st.one_of(
    st.booleans(),
    st.just({}),
    st.fixed_dictionaries({"type": TYPES}, optional={"nullable": st.booleans(), "minLength": st.integers(0, 2)}),
    st.fixed_dictionaries({"type": st.lists(TYPES, min_size=1, max_size=3, unique=True)}),
    st.fixed_dictionaries({"enum": st.lists(SCALARS, min_size=1, max_size=4)}),
    st.fixed_dictionaries({"const": SCALARS}),
    st.fixed_dictionaries({"$ref": REFERENCES}, optional={"title": TITLES}),
)
SCHEMAS = st.recursive(SMALL, larger, max_leaves=8)
OBJECTS = SCHEMAS.filter(lambda schema: isinstance(schema, dict))
DOCUMENTS = st.builds(
    lambda root, definitions: root | {"$defs": definitions},
    OBJECTS,
    st.fixed_dictionaries(dict.fromkeys(DEFINITIONS, SCHEMAS)),
)
VALUES = st.recursive(SCALARS, lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=3))


def explicit(schema: Any) -> Any:
    """The same without what the stubs take liberties with: keys and items only where the type is said, and no more
    items than are listed."""
    if isinstance(schema, list):
        return [explicit(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    mended = {
        key: {name: explicit(each) for name, each in value.items()} if key in _MAPS else explicit(value)
        for key, value in schema.items()
        if key not in ("enum", "const")
    }
    mended |= {key: schema[key] for key in ("enum", "const") if key in schema}
    if "prefixItems" in mended:
        mended.setdefault("items", False)
    if mended.keys() & {"properties", "patternProperties", "additionalProperties"}:
        mended.setdefault("type", "object")
    return mended


_MAPS = ("properties", "patternProperties", "$defs")
_KINDS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.sampled_from(["", "a", "b", "it's"]),
    "integer": st.integers(-8, 8),
    "number": st.sampled_from([1, 1.5]),
    "boolean": st.booleans(),
    "null": st.none(),
    "array": st.just([]),
    "object": st.just({}),
}


@st.composite
def values_for(draw: st.DrawFn, root: dict[str, Any], schema: Any = None, depth: int = 0) -> Any:
    """A value that may well be valid."""
    schema = root if schema is None else schema
    if not isinstance(schema, dict) or depth > 5:
        return draw(VALUES)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return draw(st.sampled_from(schema["enum"]))
    made = []
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2].replace("%20", " ")
        made.append(draw(values_for(root, root if name == "#" else root["$defs"][name], depth + 1)))
    for several in ("anyOf", "oneOf"):
        if several in schema:
            made.append(draw(values_for(root, draw(st.sampled_from(schema[several])), depth + 1)))
    made += [draw(values_for(root, each, depth + 1)) for each in schema.get("allOf", ())]
    kinds = schema.get("type", [])
    kind = draw(st.sampled_from(kinds)) if isinstance(kinds, list) and kinds else kinds
    if kind == "array":
        places = schema.get("prefixItems", [])
        items = [schema["items"]] * draw(st.integers(0, 2)) if isinstance(schema.get("items"), dict) else []
        made.append([draw(values_for(root, each, depth + 1)) for each in [*places, *items]])
    elif kind == "object":
        required = schema.get("required", [])
        named = schema.get("properties", {})
        keys = [*required, *(key for key in named if draw(st.booleans())), *draw(st.lists(KEYS, max_size=1))]
        more = schema.get("additionalProperties", True)
        made.append({key: draw(values_for(root, named.get(key, more), depth + 1)) for key in keys})
    elif isinstance(kind, str):
        made.append(draw(_KINDS[kind]))
    if not made:
        return draw(VALUES)
    together = [value for value in made if isinstance(value, dict)]
    return {key: value for each in together for key, value in each.items()} if together == made else made[-1]


def registry_of(documents: list[dict[str, Any]]) -> Registry:
    """Tools with each document as their result, and as their arguments; those that `Tool` takes."""
    registry = Registry()
    for number, document in enumerate(documents):
        try:
            registry.add(foreign(f"tool_{number}", document | {"type": "object"}, document))
        except ConfigurationError as refused:
            event(f"refused: {str(refused)[-40:]}")
    return registry


def arguments_fit(module: Any, name: str, value: dict[str, Any]) -> bool:
    """Whether arguments can be passed: each fits, and those that are not there may be left out."""
    parameters = inspect.signature(vars(module)[name]).parameters
    if "arguments" in parameters and parameters["arguments"].kind is inspect.Parameter.VAR_KEYWORD:
        packed = parameters["arguments"].annotation
        return packed == "Any" or takes(packed.removeprefix("Unpack[").removesuffix("]"), value, module)
    named = [each for each in parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    return all(
        takes(each.annotation, value[each.name], module) if each.name in value else each.default is not each.empty
        for each in named
    )


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(documents=st.lists(DOCUMENTS, min_size=15, max_size=40))
def test_generated_stubs_pass_mypy_strict(documents: list[dict[str, Any]]) -> None:
    registry = registry_of(documents)
    with tempfile.TemporaryDirectory() as folder:
        passes_mypy(Path(folder), *(stubs(registry, detail=detail) for detail in DETAILS))


@settings(suppress_health_check=list(HealthCheck))
@given(documents=st.lists(DOCUMENTS.map(explicit), min_size=1, max_size=3), data=st.data())
def test_generated_stubs_import_stay_the_same_and_take_what_is_valid(
    documents: list[dict[str, Any]], data: st.DataObject
) -> None:
    registry = registry_of(documents)
    text = stubs(registry)
    assert text == stubs(Registry(reversed(registry.tools())))
    with tempfile.TemporaryDirectory() as folder:
        module = imported(Path(folder), text)
    for each in registry:
        schema = each.output_schema
        assert schema is not None
        result, arguments = jsonschema_rs.validator_for(schema), jsonschema_rs.validator_for(each.input_schema)
        annotation = vars(module)[each.name].__annotations__["return"]
        alternatives = any(keyword in schema for keyword in ("anyOf", "oneOf", "allOf", "$ref"))
        for value in data.draw(st.lists(values_for(schema), max_size=8)):
            if result.is_valid(value):
                event("a valid result")
                assert takes(annotation, value, module), (annotation, value, schema, text)
            if isinstance(value, dict) and not alternatives and arguments.is_valid(value):
                event("valid arguments")
                assert arguments_fit(module, each.name, value), (value, schema, text)
