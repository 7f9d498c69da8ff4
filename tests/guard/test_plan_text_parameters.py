"""What a ``$ref:`` brings to an argument that takes nothing but text is written as JSON, and noted; nowhere else.

And a refusal of an object names the key that is to blame.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import Limits, Runtime, Tool, ToolError, tool

pytestmark = pytest.mark.anyio

VALUES = {
    "number": 7,
    "exact": 2**53 + 1,
    "fraction": 1.0,
    "yes": True,
    "no": False,
    "object": {"a": [1, {"b": "ü"}]},
    "array": [1, "x"],
    "text": "7",
}
WRITTEN = {
    "number": "7",
    "exact": "9007199254740993",
    "fraction": "1.0",
    "yes": "true",
    "no": "false",
    "object": '{"a":[1,{"b":"ü"}]}',
    "array": '[1,"x"]',
    "text": "7",
}


class Tools:
    """One that gives values, and some that take text."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def taking(self, schema: dict[str, Any], name: str = "take") -> Tool:
        async def take(**arguments: Any) -> str:
            self.got.append(arguments["x"])
            return "done"

        whole = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
        return Tool.from_schema(name, "Takes x.", whole, take, read_only=True)

    @property
    def give(self) -> Tool:
        @tool(read_only=True)
        async def give() -> dict[str, Any]:
            """Gives values."""
            return VALUES

        return give


def plan_of(written: Any, **fields: Any) -> dict[str, Any]:
    return {
        "steps": [
            {"id": "s", "tool": "give", "arguments": {}},
            {"id": "t", "tool": "take", "arguments": {"x": written}, **fields},
        ]
    }


async def ran(schema: dict[str, Any], written: Any, **fields: Any) -> tuple[Any, Any, Tools]:
    tools = Tools()
    async with Runtime([tools.give, tools.taking(schema)], sandbox=None) as runtime:
        result = await runtime.execute_tool_plan(plan_of(written, **fields))
        return result, result.step("t"), tools


@pytest.mark.parametrize("key", VALUES)
async def test_what_is_no_text_is_written_as_json_where_only_text_is_taken(key: str) -> None:
    result, step, tools = await ran({"type": "string"}, f"$ref:s.{key}")
    assert (result.ok, tools.got) == (True, [WRITTEN[key]])
    assert (step.arguments, len(step.warnings)) == ({"x": WRITTEN[key]}, 0 if key == "text" else 1)
    if key != "text":
        assert "'x' takes text" in step.warnings[0]
        assert f"$ref:s.{key}" in step.warnings[0]
        assert step.warnings[0] in result.for_model()


async def test_whole_results_items_and_nested_parameters_are_written_too() -> None:
    _, _, tools = await ran({"type": "string"}, "$ref:s")
    assert [json.loads(each) for each in tools.got] == [VALUES]
    _, step, tools = await ran({"type": "string"}, "$item", for_each=[1, "two", {"n": 3}])
    assert sorted(tools.got) == sorted(["1", "two", '{"n":3}'])
    assert len(step.warnings) == 2
    _, _, tools = await ran({"type": "string"}, "$index", for_each=["a"])
    assert tools.got == ["0"]
    nested = {
        "type": "object",
        "properties": {"name": {"$ref": "#/properties/x/properties/kind"}, "kind": {"type": "string"}, "n": {}},
    }
    _, _, tools = await ran(nested, {"name": "$ref:s.number", "n": "$ref:s.number"})
    assert tools.got == [{"name": "7", "n": 7}]
    _, _, tools = await ran({"type": "array", "items": {"type": "string"}}, ["$ref:s.number", "a"])
    assert tools.got == [["7", "a"]]


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": ["7", "8"]},
        {"const": "7"},
        {"type": ["string"]},
        {"anyOf": [{"type": "string", "maxLength": 3}, {"enum": ["a"]}]},
    ],
    ids=str,
)
async def test_text_is_meant_in_whatever_way_the_schema_says_so(schema: dict[str, Any]) -> None:
    result, _, tools = await ran(schema, "$ref:s.number")
    assert (result.ok, tools.got) == (True, ["7"])


async def test_a_function_that_takes_text_gets_it() -> None:
    got: list[Any] = []

    @tool
    async def take(x: str) -> None:
        """Takes text."""
        got.append(x)

    async with Runtime([Tools().give, take], sandbox=None) as runtime:
        result = await runtime.execute_tool_plan(plan_of("$ref:s.object"))
        assert (result.ok, got) == (True, [WRITTEN["object"]])


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, {"$ref": "s.number"}),
        ({"type": "string"}, {"$ref": "steps[0].result.number"}),
        ({"type": "string"}, {"$expr": "s['number']"}),
        ({"type": "string"}, "$ref:s.nothing"),
        ({"type": ["string", "null"]}, "$ref:s.number"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "$ref:s.number"),
        ({"type": "boolean"}, "$ref:s.number"),
    ],
    ids=str,
)
async def test_nowhere_else_is_a_value_made_text(schema: dict[str, Any], written: Any) -> None:
    result, step, tools = await ran(schema, written)
    assert (result.ok, step.status, step.kind, tools.got) == (False, "failed", "InvalidArguments", [])


@pytest.mark.parametrize("schema", [{}, {"type": ["string", "integer"]}, {"type": "integer"}], ids=str)
async def test_where_the_value_fits_it_keeps_its_type(schema: dict[str, Any]) -> None:
    result, step, tools = await ran(schema, "$ref:s.number")
    assert (result.ok, step.warnings) == (True, ())
    assert [(type(each), each) for each in tools.got] == [(int, 7)]


async def test_a_program_and_a_direct_call_keep_their_types() -> None:
    tools = Tools()
    async with Runtime([tools.give, tools.taking({"type": "string"})], sandbox=None) as runtime:
        result = await runtime.execute_code("s = await give()\nawait take(x=s['number'])")
        assert (result.ok, tools.got, result.speculative) == (False, [], [])
        assert result.error is not None
        assert "argument 'x' must be of type string, got 7 (a number)" in result.error.message
        assert "must be of type string" in await runtime.handle("take", {"x": 7})


async def test_text_that_is_made_counts_towards_the_bound_on_arguments() -> None:
    tools = Tools()

    @tool(read_only=True)
    async def give() -> list[str]:
        """Gives much."""
        return ["x"] * 500_000  # 2 MB as JSON

    schema = {"type": "array", "items": {"type": "string"}}
    async with Runtime([give, tools.taking(schema)], sandbox=None) as runtime:
        result = await runtime.execute_tool_plan(
            plan_of(["$ref:s", "$ref:s"]), limits=Limits(max_message_bytes=2_500_000)
        )
        assert (result.ok, result.step("s").status, tools.got) == (False, "succeeded", [])
        assert "max_message_bytes" in str(result.error)


REFUSED: list[tuple[dict[str, Any], Any, str]] = [
    ({"additionalProperties": False, "properties": {"a": {}}}, {"b": 1, "a": 2}, "unknown argument 'x.b'"),
    ({"unevaluatedProperties": False, "properties": {"a": {}}}, {"b": 1, "a": 2}, "unknown argument 'x.b'"),
    ({"additionalProperties": False, "patternProperties": {"^a": {}}}, {"a1": 1, "b": 2}, "unknown argument 'x.b'"),
    ({"required": ["b"]}, {"a": 1}, "missing argument 'x.b'"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "missing argument 'x.b'"),
    ({"propertyNames": {"pattern": "^a"}}, {"a": 1, "b": 2}, "argument 'x' has the key 'b'"),
    ({"properties": {"b": False}}, {"b": 1}, "argument 'x.b' must not be there"),
]


@pytest.mark.parametrize(("below", "value", "words"), REFUSED, ids=lambda each: str(each)[:50])
async def test_a_refusal_of_an_object_names_the_key(below: dict[str, Any], value: Any, words: str) -> None:
    tools = Tools()
    take = tools.taking({"type": "object", **below})
    plan = {"steps": [{"id": "t", "tool": "take", "arguments": {"x": value}}]}
    async with Runtime([take], sandbox=None) as runtime:
        (fault,) = runtime.check_plan(plan)
        assert fault.message.startswith(words)
        assert words in await runtime.handle("take", {"x": value})
    assert tools.got == []


@pytest.mark.parametrize("below", [{"additionalProperties": False}, {"propertyNames": {"pattern": "^a"}}], ids=str)
async def test_a_refusal_of_a_large_object_names_the_key(below: dict[str, Any]) -> None:
    take = Tools().taking({"type": "object", "properties": {"a": {}}, **below})
    async with Runtime([take], sandbox=None) as runtime:
        said = await runtime.handle("take", {"x": {"a": ["y"] * 30_000, "bad": 1}})
    assert "bad" in said


async def test_a_refusal_of_a_result_names_the_key() -> None:
    for below, value, words in (
        ({"required": ["b"]}, {"a": 1}, "result has no 'b'"),
        ({"additionalProperties": False, "properties": {"a": {}}}, {"b": 1}, 'result must not have "b"'),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, "result has the key 'b'"),
    ):
        schema = {"type": "object", **below}
        bad = Tool.from_schema("bad", "Bad.", {"type": "object"}, print, output_schema=schema)
        with pytest.raises(ToolError, match=words):
            bad.encode(value)
