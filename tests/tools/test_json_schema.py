"""Tools that bring a plain JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate.errors import ConfigurationError, InvalidArguments, ToolError
from callgate.tools import Tool
from callgate.tools.json_schema import MAX_SCHEMA_BYTES

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "maximum": 10},
        "kind": {"enum": ["a", "b"]},
        "not-a-name": {"type": "array", "items": {"type": "string", "pattern": "^x"}},
        "fixed": {"const": 1},
        "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["n"],
}


def schema_tool(schema: dict[str, Any], **options: Any) -> Tool:
    def function(**arguments: Any) -> Any:
        return arguments

    return Tool.from_schema("take", "Takes.", schema, function, **options)


def test_the_function_is_called_with_every_name_even_one_that_is_no_identifier() -> None:
    take = schema_tool(SCHEMA)
    assert take.parameters == ("n", "kind", "not-a-name", "fixed", "any")
    assert take.invoke(take.validate({"n": 2**0, "not-a-name": ["x"]})) == {"n": 1, "not-a-name": ["x"]}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({}, "missing argument 'n'"),
        ({"n": "5"}, "argument 'n' must be of type integer, got \"5\" (a string)"),
        ({"n": True}, "argument 'n' must be of type integer, got true (a boolean)"),
        ({"n": 11}, "argument 'n' must keep to maximum 10, got 11 (a number)"),
        ({"n": 10**40}, f"argument 'n' must keep to maximum 10, got {10**40} (a number)"),
        ({"n": 1, "kind": "c"}, 'argument \'kind\' must be one of "a", "b", got "c" (a string)'),
        ({"n": 1, "fixed": 2}, "argument 'fixed' must be 1, got 2 (a number)"),
        ({"n": 1, "any": "x"}, "argument 'any' does not fit anyOf, got \"x\" (a string)"),
        (
            {"n": 1, "not-a-name": ["y"]},
            "argument 'not-a-name[0]' does not fit pattern '^x', got \"y\" (a string)",
        ),
        ({"n": 1, "kin": "a"}, "unknown argument 'kin'; did you mean kind?"),
        ({"n": float("inf")}, "arguments.n is inf, which is not JSON; use null or a string"),
    ],
)
def test_every_fault_is_named(arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        schema_tool(SCHEMA).validate(arguments)
    assert caught.value.message == f"tool 'take': {problem}"


def test_extra_arguments_pass_where_the_schema_says_so() -> None:
    take = schema_tool({"type": "object", "properties": {"n": {}}, "additionalProperties": True})
    assert take.validate({"m": 1}) == {"m": 1}
    assert schema_tool({"type": "object"}).validate({"m": 1}) == {"m": 1}


def test_extra_arguments_are_refused_where_the_schema_says_so() -> None:
    take = schema_tool({"type": "object", "properties": {"name": {}}, "additionalProperties": False})
    with pytest.raises(InvalidArguments, match=r"unknown argument 'nam'; did you mean name\?"):
        take.validate({"nam": 1})
    with pytest.raises(InvalidArguments, match="unknown argument 'x'; the tool takes no arguments"):
        schema_tool({"properties": {}}).validate({"x": 1})


def test_defaults_are_left_to_the_function() -> None:
    assert schema_tool({"properties": {"n": {"default": 5}}}).validate({}) == {}


def test_the_schema_is_copied() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    take = schema_tool(schema)
    schema["properties"].clear()
    assert take.input_schema["properties"] == {"n": {"type": "integer"}}


def nested(levels: int) -> dict[str, Any]:
    return json.loads('{"not":' * levels + "{}" + "}" * levels)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "objekt"}, "the input schema must be of type 'object', not 'objekt'"),
        ({"type": "array"}, "the input schema must be of type 'object', not 'array'"),
        (
            {"properties": {"a": {"type": "objekt"}}},
            'the input schema is not a valid JSON Schema: "objekt" is not valid',
        ),
        (
            {"properties": {"a": {"pattern": "(?=x)"}}},
            'the input schema is not a valid JSON Schema: "\\(\\?=x\\)" is not a',
        ),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "the input schema is not a valid JSON Schema"),
        ({"$ref": "http://127.0.0.1:9/x.json"}, "schemas are never fetched"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "schemas are never fetched"),
        (
            {"$ref": "#/$defs/missing"},
            "the input schema is not a valid JSON Schema: Pointer '/\\$defs/missing' does not",
        ),
        ({"$schema": "http://nowhere.example/draft"}, "the input schema is not a valid JSON Schema"),
        ([], "the input schema must be a dict with a JSON Schema, not a list"),
        ({"default": {1, 2}}, "the input schema is not JSON: schema.default is a set, which is not JSON"),
        ({"description": "x" * MAX_SCHEMA_BYTES}, "the input schema has 1048594 bytes; at most 1048576 are accepted"),
        (nested(150), "the input schema is nested more than 100 levels deep"),
        (nested(500), "the input schema is nested more than 100 levels deep"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        schema_tool(schema)


def test_what_is_called_must_be_callable() -> None:
    with pytest.raises(ConfigurationError, match="tool 'take': 5 cannot be called"):
        Tool.from_schema("take", "", {}, 5)  # type: ignore[arg-type]


def test_a_pattern_runs_in_linear_time() -> None:
    take = schema_tool({"properties": {"a": {"pattern": "^(a+)+$"}}})
    with pytest.raises(InvalidArguments, match="does not fit pattern"):
        take.validate({"a": "a" * 100_000 + "!"})


def test_a_recursive_schema_works() -> None:
    take = schema_tool(
        {
            "properties": {"tree": {"$ref": "#/$defs/tree"}},
            "$defs": {"tree": {"type": "object", "additionalProperties": {"$ref": "#/$defs/tree"}}},
        }
    )
    assert take.validate({"tree": {"a": {"b": {}}}})
    with pytest.raises(InvalidArguments, match=r"argument 'tree.a.b' must be of type object, got 1"):
        take.validate({"tree": {"a": {"b": 1}}})


def test_a_result_must_fit_the_output_schema() -> None:
    take = schema_tool({}, output_schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    assert take.encode({"n": 1}) == '{"n":1}'
    with pytest.raises(
        ToolError, match=r"tool 'take' returned what it must not: result.n must be of type integer, got"
    ):
        take.encode({"n": "1"})
    with pytest.raises(ToolError, match=r"returned what it must not: result must be of type object, got an array"):
        take.encode([])
