"""Schemas in a provider's form, a model's arguments back, and strict forms held against what the SDKs make of them."""

from __future__ import annotations

import copy
import json
import time
from typing import Annotated, Any, Literal

import pytest
from anthropic import transform_schema
from hypothesis import given
from hypothesis import strategies as st
from openai.lib._pydantic import _ensure_strict_json_schema
from pydantic import BaseModel, Field, SecretBytes, SecretStr
from pydantic_ai.profiles.google import GoogleJsonSchemaTransformer

from callgate import Runtime, Secret, Tool, tool
from callgate.runtime.model.schemas import MAX_SCHEMA_CHARACTERS, own_arguments, result_schema, shown_schema
from callgate.runtime.model.strict import MAX_OPTIONAL, MAX_STRICT_TOOLS, MAX_UNIONS, StrictForms
from callgate.tools.encoding import compact_json


def taking(schema: dict[str, Any], returns: dict[str, Any] | None = None) -> Tool:
    return Tool.from_schema("it", "", schema, lambda **given: given, output_schema=returns)


TEXT = {"type": "string"}
NUMBER = {"type": "number"}

FLAT: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"type": "object"}, {"type": "object", "properties": {}}),
    (
        {"anyOf": [
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]},
            {"type": "object", "properties": {"a": NUMBER, "c": TEXT}, "required": ["a"]},
        ]},
        {"type": "object", "properties": {"a": {"anyOf": [TEXT, NUMBER]}, "b": TEXT, "c": TEXT}, "required": ["a"]},
    ),
    (
        {"allOf": [
            {"type": "object", "properties": {"a": TEXT}, "required": ["a"]},
            {"properties": {"b": TEXT}, "required": ["b"]},
        ]},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a", "b"]},
    ),
    (
        {"$ref": "#/$defs/Args", "$defs": {"Args": {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}}},
        {
            "type": "object", "properties": {"a": TEXT}, "required": ["a"],
            "$defs": {"Args": {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}},
        },
    ),
    (
        {"properties": {"a": TEXT}, "if": {"required": ["a"]}, "then": {"properties": {"b": TEXT}}, "else": False},
        {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
    ),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "x", "$comment": "y", "properties": {}},
        {"type": "object", "properties": {}},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), FLAT)
def test_the_top_of_a_schema_is_a_plain_object(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert shown_schema(taking(schema), "anthropic") == expected


def test_arrays_say_what_is_in_them_where_openai_wants_it() -> None:
    tool = taking({"properties": {"a": {"type": "array"}, "b": {"anyOf": [{"type": ["array", "null"]}]}}})
    shown = shown_schema(tool, "openai")
    assert shown["properties"] == {
        "a": {"type": "array", "items": {}},
        "b": {"anyOf": [{"type": ["array", "null"], "items": {}}]},
    }
    assert "items" not in shown_schema(tool, "anthropic")["properties"]["a"]


def test_mcp_gets_the_schema_as_it_is() -> None:
    schema = {"type": "object", "anyOf": [{"required": ["$top"]}, {"required": ["a"]}], "properties": {"$top": NUMBER}}
    assert shown_schema(taking(schema), "mcp") == schema


def test_odd_property_names_are_replaced_and_put_back() -> None:
    odd = {
        "filter[id]": TEXT,
        "$top": NUMBER,
        "naïve": TEXT,
        "x" * 70: TEXT,
        "filter_id_": TEXT,
        "日本": TEXT,
        "ok": TEXT,
    }
    tool = taking({"properties": odd, "required": ["$top", "filter[id]"]})
    shown = shown_schema(tool, "anthropic")
    assert len(shown["properties"]) == len(odd)
    assert all(0 < len(name) <= 64 and name.isascii() and "[" not in name for name in shown["properties"])
    assert {"ok", "_top", "filter_id_"} < set(shown["properties"])
    arguments = dict.fromkeys(shown["properties"], "x") | {"_top": 3}
    assert own_arguments(tool, arguments) == {name: 3 if name == "$top" else "x" for name in odd}
    assert set(shown["required"]) == {name for name in shown["properties"] if name in shown["required"]}
    assert own_arguments(tool, {"$top": 4}) == {"$top": 4}


def test_words_in_a_schema_are_cleaned_and_names_and_values_are_not_touched() -> None:
    schema = {
        "description": "a\u202eb\x00c\ud800",
        "properties": {
            "description": {"description": "x" * 5_000, "enum": ["a\u202eb"], "default": "\u200b"},
            "title": {"title": "\U000e0041hidden", "type": "string"},
        },
    }
    schema["description"] = "a\u202eb\x00c"
    shown = shown_schema(taking(schema), "openai")
    assert shown["description"] == "abc"
    below = shown["properties"]["description"]
    assert len(below["description"]) == 1_000
    assert below["enum"] == ["a\u202eb"]
    assert below["default"] == "\u200b"
    assert shown["properties"]["title"]["title"] == "hidden"


@pytest.mark.parametrize("provider", ["anthropic", "openai", "mcp"])
def test_enormous_schemas_are_shown_without_what_makes_them_so(provider: Any) -> None:
    wordy = taking({"properties": {f"p{n}": {"type": "string", "description": "x" * 900} for n in range(50)}})
    shown = shown_schema(wordy, provider)
    assert list(shown["properties"]) == [f"p{n}" for n in range(50)]
    assert shown["properties"]["p0"] == TEXT
    wide = taking(
        {
            "properties": {f"p{n}": {"enum": [f"{n}-{m}" for m in range(40)]} for n in range(2_000)},
            "required": ["p0", "p1999"],
        }
    )
    shown = shown_schema(wide, provider)
    assert len(compact_json(shown)) <= MAX_SCHEMA_CHARACTERS
    assert shown["properties"]["p0"] == {}
    assert shown["required"] == ["p0"]


def test_a_few_references_that_stand_for_many_thousand_take_no_time() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2, "properties": {f"p{n}": TEXT}} for n in range(12)
    }
    tool = taking({"allOf": [{"$ref": "#/$defs/d0"}], "$defs": {**definitions, "d12": {"properties": {"a": TEXT}}}})
    started = time.process_time()
    shown = shown_schema(tool, "anthropic")
    assert "p0" in shown["properties"]
    assert time.process_time() - started < 5


def test_arguments_as_deep_as_they_come_are_left_to_the_gate() -> None:
    tool = taking({"properties": {"a": {"$ref": "#"}}})
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert own_arguments(tool, deep) is deep


NULLS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"a": TEXT}, {"a": None}, {}),
    ({"a": {"type": ["string", "null"]}}, {"a": None}, {"a": None}),
    ({"a": {"anyOf": [TEXT, {"type": "null"}]}}, {"a": None}, {"a": None}),
    ({"a": {"anyOf": [TEXT, NUMBER]}}, {"a": None}, {}),
    ({"a": {"enum": ["x", None]}}, {"a": None}, {"a": None}),
    ({"a": {"enum": ["x"]}}, {"a": None}, {}),
    ({"a": {"const": 3}}, {"a": None}, {}),
    ({"a": {}}, {"a": None}, {"a": None}),
    ({"a": TEXT}, {"b": None}, {"b": None}),
    ({"a": {"type": "object", "properties": {"b": TEXT}}}, {"a": {"b": None}}, {"a": {}}),
    ({"a": {"type": "array", "items": {"properties": {"b": TEXT}}}}, {"a": [{"b": None}, None]}, {"a": [{}, None]}),
    ({"a": {"type": "string", "nullable": True}}, {"a": None}, {"a": None}),
]


@pytest.mark.parametrize(("properties", "given", "expected"), NULLS)
def test_null_for_what_cannot_be_null_and_may_be_left_out_is_left_out(
    properties: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert own_arguments(taking({"properties": properties}), given) == expected


def test_null_for_a_required_argument_stays_a_mistake() -> None:
    assert own_arguments(taking({"properties": {"a": TEXT}, "required": ["a"]}), {"a": None}) == {"a": None}


def test_results_that_are_no_objects_are_wrapped_with_their_definitions() -> None:
    listed = {"type": "array", "items": {"$ref": "#/$defs/Row"}, "$defs": {"Row": {"type": "object"}}}
    assert result_schema(taking({}, listed)) == {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
        "required": ["result"],
        "$defs": {"Row": {"type": "object"}},
    }
    assert result_schema(taking({}, {"anyOf": [{"$ref": "#/anyOf/1"}, {"type": "integer"}]})) is None
    assert result_schema(taking({})) is None


# strict


class Inner(BaseModel):
    name: str
    note: str | None = None


class Node(BaseModel):
    value: int
    children: list[Node] = Field(default_factory=list)


@tool
async def plain(city: str, unit: Literal["C", "F"] = "C", days: int | None = None) -> None: ...


@tool
async def nested(rows: list[Inner], first: Inner, ratio: float = 0.5) -> None: ...


@tool
async def recursive(node: Node) -> None: ...


class Sized(BaseModel):
    name: str
    size: str = "M"


@tool
async def of_inner(value: Inner | None = None) -> None: ...


@tool
async def of_sized(value: Sized | None = None) -> None: ...


@tool
async def open_ended(values: dict[str, int]) -> None: ...


@tool
async def anything(value: Any) -> None: ...


def test_openais_strict_form_is_what_its_own_sdk_makes() -> None:
    for each in (plain, nested, recursive):
        form = StrictForms("openai").of(shown_schema(each, "openai"))
        assert form is not None
        assert _ensure_strict_json_schema(copy.deepcopy(form), path=(), root=form) == form
        assert form["required"] == list(form["properties"])


def test_a_text_or_a_list_of_texts_has_a_strict_form_of_two_branches() -> None:
    schema = {"type": "object", "properties": {"q": {"type": ["string", "array"], "items": TEXT}}}
    several = [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
    for provider, more in (("openai", [{"type": "null"}]), ("anthropic", [])):
        form = StrictForms(provider).of(schema)  # type: ignore[arg-type]
        assert form is not None
        assert form["properties"]["q"] == {"anyOf": [*several, *more]}
    for kinds in (["array"], ["array", "object"]):
        schema["properties"]["q"]["type"] = kinds  # type: ignore[index]
        assert StrictForms("openai").of(schema) is None


def without_the_type_of_choices(schema: Any) -> Any:
    """Anthropic's SDK leaves the type out beside `enum`; its documentation has both."""
    if isinstance(schema, list):
        return [without_the_type_of_choices(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {k: without_the_type_of_choices(v) for k, v in schema.items() if not (k == "type" and "enum" in schema)}


def test_anthropics_strict_form_is_what_its_own_sdk_makes() -> None:
    for each in (plain, nested):
        form = StrictForms("anthropic").of(shown_schema(each, "anthropic"))
        assert form is not None
        assert transform_schema(copy.deepcopy(form)) == without_the_type_of_choices(form)
    form = StrictForms("anthropic").of(shown_schema(plain, "anthropic"))
    assert form is not None
    assert form["required"] == ["city"]
    assert StrictForms("anthropic").of(shown_schema(recursive, "anthropic")) is None


def test_nothing_in_a_union_has_to_be_null_that_cannot_be() -> None:
    """Which branch a null was left out of could not be told afterwards, so it could not be taken out again."""
    assert StrictForms("openai").of(shown_schema(of_sized, "openai")) is None
    assert StrictForms("anthropic").of(shown_schema(of_sized, "anthropic")) is not None
    assert StrictForms("openai").of(shown_schema(of_inner, "openai")) is not None
    of_inner.validate(own_arguments(of_inner, {"value": {"name": "x", "note": None}}))


@pytest.mark.parametrize("each", [open_ended, anything])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_what_cannot_be_said_strictly_is_not(each: Tool, provider: Any) -> None:
    assert StrictForms(provider).of(shown_schema(each, provider)) is None


NOT_STRICT: list[dict[str, Any]] = [
    {"properties": {"a": {"not": TEXT}}},
    {"properties": {"a": {"allOf": [TEXT, {"minLength": 3}]}}},
    {"properties": {"a": TEXT}, "additionalProperties": True},
    {"properties": {"a": TEXT}, "additionalProperties": TEXT},
    {"properties": {"a": {"type": "object"}}},
    {"properties": {"a": {"type": "array"}}},
    {"properties": {"a": {"type": ["object", "null"]}}},
    {"properties": {"a": {"enum": [{"b": 1}]}}},
    {"properties": {"a": {"enum": []}}},
    {"properties": {"a": True}},
    {"properties": {"a": {"$ref": "#/properties/b"}, "b": TEXT}},
    {"properties": {"a": {"anyOf": [{"type": "object", "properties": {"b": TEXT}}, TEXT]}}},
    {"properties": {"a": TEXT}, "required": ["b"]},
    {"properties": {f"p{n}": TEXT for n in range(101)}},
    {"properties": {"a": {"type": "array", "items": {"type": "array", "items": {"type": "array", "items": {
        "type": "array", "items": {"type": "array", "items": {"type": "array", "items": TEXT}}}}}}}},
]  # fmt: skip


@pytest.mark.parametrize("schema", NOT_STRICT)
def test_schemas_without_a_strict_form_have_none(schema: dict[str, Any]) -> None:
    assert StrictForms("openai").of({"type": "object", **schema}) is None


def test_bounds_are_left_to_the_gate() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "minimum": 3, "description": "x", "default": 4}},
    }
    assert StrictForms("anthropic").of(schema) == {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "x"}},
        "required": [],
        "additionalProperties": False,
    }


def test_what_anthropic_allows_in_one_request_is_not_exceeded() -> None:
    forms = StrictForms("anthropic")
    simple = {"type": "object", "properties": {"a": TEXT}, "required": ["a"]}
    assert [forms.of(simple) is not None for _ in range(MAX_STRICT_TOOLS + 1)].count(True) == MAX_STRICT_TOOLS
    forms = StrictForms("anthropic")
    optional = {"type": "object", "properties": {f"p{n}": TEXT for n in range(MAX_OPTIONAL - 1)}}
    assert forms.of(optional) is not None
    assert forms.of(optional) is None
    assert forms.of(simple) is not None
    several = {"type": ["string", "null"]}
    unions = {
        "type": "object",
        "properties": {f"p{n}": several for n in range(MAX_UNIONS + 1)},
        "required": [f"p{n}" for n in range(MAX_UNIONS + 1)],
    }
    assert StrictForms("anthropic").of(unions) is None
    assert StrictForms("openai").of(unions) is not None


LEAVES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [TEXT, NUMBER, {"type": "integer"}, {"type": "boolean"}, {"enum": ["a", 1, None]}, {"const": "x"}]
)


def objects(below: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    def of(properties: dict[str, Any], needed: set[str]) -> dict[str, Any]:
        return {"type": "object", "properties": properties, "required": sorted(needed & set(properties))}

    return st.builds(of, st.dictionaries(st.sampled_from("abcd"), below, max_size=3), st.sets(st.sampled_from("abcd")))


SCHEMAS = objects(
    st.recursive(
        LEAVES,
        lambda below: st.one_of(
            objects(below),
            st.builds(lambda items: {"type": "array", "items": items}, below),
            st.builds(lambda options: {"anyOf": options}, st.lists(below, min_size=1, max_size=3)),
        ),
        max_leaves=6,
    )
)


@given(SCHEMAS)
def test_every_openai_form_is_strict_and_every_anthropic_form_is_plain(schema: dict[str, Any]) -> None:
    shown = shown_schema(taking(schema), "openai")
    form = StrictForms("openai").of(shown)
    if form is not None:
        assert _ensure_strict_json_schema(copy.deepcopy(form), path=(), root=form) == form
    assert json.loads(compact_json(shown)) == shown


@given(SCHEMAS, st.data())
def test_what_a_strict_form_allows_the_tool_takes(schema: dict[str, Any], data: st.DataObject) -> None:
    """The nulls that a strict form asks for are gone again before the gate sees the arguments."""
    tool = taking(schema)
    form = StrictForms("openai").of(shown_schema(tool, "openai"))
    if form is not None:
        given = data.draw(values(form))
        tool.validate(own_arguments(tool, given))


def values(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that fit a strict form."""
    if "anyOf" in schema:
        return st.one_of([values(each) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    ways: dict[str, Any] = {
        "string": st.just("x"),
        "number": st.just(1.5),
        "integer": st.just(3),
        "boolean": st.just(True),
        "null": st.none(),
        "array": st.lists(values(schema["items"]), max_size=2) if "items" in schema else st.just([]),
        "object": st.fixed_dictionaries({name: values(each) for name, each in schema.get("properties", {}).items()}),
    }
    return st.one_of([ways[kind] for kind in kinds])


# secrets


class Vault(BaseModel):
    code: Annotated[str, Secret]
    pin: SecretStr


@tool
async def unlock(
    phrase: Annotated[str, Secret],
    vault: Annotated[Vault, Secret],
    pin: SecretStr,
    codes: list[Annotated[str, Secret]],
    raw: SecretBytes | None = None,
    hint: Annotated[str | None, Secret] = None,
) -> Annotated[str, Secret]:
    """Unlock."""
    return phrase


MARKED = Tool.from_schema(
    "marked",
    "A tool of a server.",
    {
        "type": "object",
        "properties": {
            "a": {"type": "string", "x-callgate-secret": True},
            "b": {"type": "object", "properties": {"c": {"type": "string", "format": "password", "writeOnly": True}},
                  "required": ["c"], "additionalProperties": False},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    },
    lambda **_: None,
)  # fmt: skip
STRICT_WORDS = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref", "$defs",
    "description", "title", "default",
}  # fmt: skip
"""What strict forms of OpenAI and Anthropic have in common, with what every provider ignores."""


def keywords(schema: Any) -> set[str]:
    """All keywords of a schema and of the schemas in it."""
    if isinstance(schema, list):
        return {word for each in schema for word in keywords(each)}
    if not isinstance(schema, dict):
        return set()
    found = set(schema)
    for word, below in schema.items():
        named = word in ("properties", "$defs")
        found |= keywords(list(below.values()) if named else [] if word in ("enum", "default") else below)
    return found


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
@pytest.mark.parametrize("strict", [False, True])
def test_the_definition_of_a_tool_with_secrets_has_only_what_every_provider_takes(provider: Any, strict: bool) -> None:
    runtime = Runtime([unlock, MARKED], sandbox=None)
    made = runtime.tool_definitions(provider, direct="all", meta=[], strict=strict)
    assert len(made) == 2
    for each in made:
        function = each.get("function", each)
        assert function.get("strict", False) is strict
        schema = function.get("parameters", function.get("input_schema"))
        assert keywords(schema) <= STRICT_WORDS | (set() if strict else {"format"})
        gemini = GoogleJsonSchemaTransformer(copy.deepcopy(schema)).walk()
        assert keywords(gemini) <= STRICT_WORDS
    (mcp, _) = runtime.tool_definitions("mcp", direct="all", meta=[])
    assert "x-callgate-secret" in str(mcp["inputSchema"])  # clients redact, too
