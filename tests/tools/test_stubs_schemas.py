"""What each form of JSON Schema becomes: references in odd places, what holds at once, alternatives, objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callgate.tools import Registry
from callgate.tools.stubs import stubs
from tools.stub_checks import foreign, imported, passes_mypy, takes


def result_of(schema: Any) -> tuple[str, str]:
    """The annotation of a result, and the types it needs."""
    text = stubs(Registry([foreign("f", output=schema)]), detail="signatures")
    types, _, function = text.partition("async def f()")
    return function.partition(":")[0].removeprefix(" -> "), types.partition("\n\n\n")[2].strip()


A = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
B = {"type": "object", "properties": {"b": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        ({}, "Any"),
        ({"type": "number"}, "float"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": True}, "list[Any]"),
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}], "type": "array"}, "list[str | int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]"),
        ({"type": ["null", "string"]}, "str | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"oneOf": [{"type": "string"}, {}]}, "Any"),
        ({"enum": ["a", 1, True, None]}, "Literal['a', 1, True, None]"),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "str"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "str"),
        ({"$ref": "#/$defs/x", "$defs": {"x": {"type": "string"}}}, "str"),
        ({"$ref": "#/definitions/x", "definitions": {"x": {"type": "string"}}}, "str"),
        ({"$ref": "#/$defs/a%20b~1c~0d", "$defs": {"a b/c~d": {"type": "integer"}}}, "int"),
        ({"$ref": "#/anyOf/1", "anyOf": [{"type": "integer"}, {"type": "integer", "minimum": 1}]}, "int"),
        ({"$ref": "#word", "$defs": {"x": {"$anchor": "word", "type": "boolean"}}}, "bool"),
        ({"$id": "https://e.org/s", "$ref": "https://e.org/s#/$defs/x", "$defs": {"x": {"type": "null"}}}, "None"),
        ({"$ref": "urn:x", "$defs": {"x": {"$id": "urn:x", "type": "number"}}}, "float"),
        (
            {"$ref": "urn:x", "$defs": {"x": {"$id": "urn:x", "$ref": "#/$defs/y", "$defs": {"y": {"const": 1}}}}},
            "Literal[1]",
        ),
        ({"$ref": "#/$defs/x", "enum": ["a", "b"], "$defs": {"x": {"enum": ["b", "c"]}}}, "Literal['a', 'b']"),
        ({"type": ["string", "null"], "allOf": [{"type": "string"}]}, "str | None"),
        ({"type": "number", "allOf": [{"type": "integer"}]}, "float"),
        ({"type": "integer", "enum": [1, "2", 3]}, "Literal[1, 3]"),
        ({"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}, "Literal['a', 'b']"),
        ({"anyOf": [{"type": "string"}, False]}, "str"),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "float"),
        ({"anyOf": [{"type": "string"}, {"minLength": 3}]}, "Any"),
        ({"type": "string", "anyOf": [{"minLength": 3}, {"pattern": "^a"}]}, "str"),
        ({"type": ["string", "integer"], "anyOf": [{"type": "integer"}, {"type": "array"}]}, "int | list[Any]"),
        ({"anyOf": [{"type": "string"}], "nullable": True}, "str | None"),
        ({"enum": ["a", "b"], "nullable": True}, "Literal['a', 'b'] | None"),
        ({"enum": [{"a": 1}, "x", [1]]}, "dict[str, Any] | str | list[Any]"),
        ({"enum": []}, "Any"),
        ({"items": {"type": "string"}}, "list[str]"),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}],
             "additionalItems": {"type": "integer"}}, "list[str | int]",
        ),
        ({"prefixItems": [{"type": "string"}], "items": False}, "list[str]"),
        ({"allOf": [{"items": {"type": "string"}}, {"items": {"enum": ["a"]}}]}, "list[str]"),
        ({"type": "object", "additionalProperties": False}, "dict[str, Any]"),
        ({"additionalProperties": {"type": "string"}}, "dict[str, str]"),
        ({"patternProperties": {"^a": {"type": "string"}}}, "dict[str, Any]"),
        ({"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False}, "dict[str, str]"),
        (
            {"patternProperties": {"^a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
            "dict[str, str | int]",
        ),
        ({"type": "object", "required": ["a"]}, "dict[str, Any]"),
        ({"not": {"type": "string"}}, "Any"),
        ({"type": "string", "format": "date"}, "str"),
        ({"const": 1.5}, "float"),
        ({"const": "\u202e'\"\\"}, "Literal['\\u202e\\'\"\\\\']"),
    ],
)  # fmt: skip
def test_a_schema_becomes_an_annotation(schema: Any, annotation: str) -> None:
    assert result_of(schema)[0] == annotation


def test_objects_that_hold_at_once_are_one() -> None:
    schema = {"allOf": [{"$ref": "#/$defs/A"}, B], "required": ["b"], "$defs": {"A": A}}
    assert result_of(schema) == ("A", "class A(TypedDict):\n    a: str\n    b: int")


def test_of_two_descriptions_of_a_key_the_first_counts() -> None:
    other = {"properties": {"a": {"enum": ["x", "y", 1]}}}
    assert result_of({"allOf": [A, other]})[1] == "class FResult(TypedDict):\n    a: str"
    assert result_of({"allOf": [other, A]})[1] == "class FResult(TypedDict):\n    a: Literal['x', 'y', 1]"


def test_keys_of_alternatives_beside_keys_may_be_there_and_hold_anything() -> None:
    schema = A | {"title": "Base", "oneOf": [B | {"title": "With B"}, {"properties": {"c": {"const": 1}}}]}
    annotation, types = result_of(schema)
    assert annotation == "Base"
    assert types == "class Base(TypedDict):\n    b: NotRequired[Any]\n    c: NotRequired[Any]\n    a: str"


def test_alternatives_that_only_ask_for_keys_leave_the_object_as_it_is() -> None:
    schema = B | {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert result_of(schema)[1] == "class FResult(TypedDict, total=False):\n    b: int"


def test_an_object_is_called_after_its_title_its_reference_or_its_place() -> None:
    schema = {
        "type": "object",
        "properties": {"one": A | {"title": "titled thing"}, "two": {"$ref": "#/$defs/referred"}, "three": A},
        "$defs": {"referred": B},
    }
    assert result_of(schema)[1] == (
        "class FResult(TypedDict, total=False):\n    one: TitledThing\n    two: Referred\n    three: FResultThree\n"
        "\n\nclass FResultThree(TypedDict):\n    a: str\n\n\nclass Referred(TypedDict, total=False):\n    b: int\n"
        "\n\nclass TitledThing(TypedDict):\n    a: str"
    )


def test_titles_that_clash_are_numbered_and_python_s_own_names_are_not_taken() -> None:
    titles = ["Thing", "thing", "str", "Literal", "None", "天气", "!?", "Any"]
    properties = {f"p{n}": {"type": "object", "title": t, "properties": {str(n): {}}} for n, t in enumerate(titles)}
    text = stubs(Registry([foreign("Str", {"type": "object", "properties": properties})]), detail="signatures")
    names = ("Thing", "Thing2", "Str2", "Literal2", "TypeNone", "天气", "Type", "Any2")
    assert all(f"\n{name} = TypedDict(" in text for name in names)


def test_a_list_of_values_stands_in_place_until_it_is_too_long() -> None:
    values = [f"a rather long value {number}" for number in range(100)]
    for count, annotation in ((10, f"list[Literal[{', '.join(map(repr, values[:10]))}]]"), (100, "list[str]")):
        assert result_of({"type": "array", "items": {"title": "Colour", "enum": values[:count]}}) == (annotation, "")
    constants = [{"const": number, "description": "One."} for number in range(40)]
    assert result_of({"oneOf": constants})[0] == f"Literal[{', '.join(map(str, range(40)))}]"


def test_wide_references_are_written_once(tmp_path: Path) -> None:
    definitions: dict[str, Any] = {"d30": {"type": "string"}}
    for level in range(30):  # in place, this would be 2 ** 30 types
        below = {"$ref": f"#/$defs/d{level + 1}"}
        definitions[f"d{level}"] = {"anyOf": [{"type": "array", "items": below}, {"additionalProperties": below}]}
    text = stubs(Registry([foreign("f", output={"$ref": "#/$defs/d0", "$defs": definitions})]))
    assert len(text) < 5_000
    passes_mypy(tmp_path, text)


def test_an_object_that_contains_itself_is_a_type_and_everything_else_is_any(tmp_path: Path) -> None:
    scalar = {"type": ["string", "number", "boolean", "null"]}
    json_value = {"anyOf": [scalar, {"items": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]}
    tree = {"title": "Tree", "type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#"}}}}
    crossed = {
        "$ref": "#/$defs/x",
        "$defs": {
            "x": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/y"}}, {"$ref": "#/$defs/y"}]},
            "y": {"anyOf": [{"additionalProperties": {"$ref": "#/$defs/x"}}, {"type": "null"}]},
        },
    }
    tools = [foreign("a", output=json_value), foreign("b", output=tree), foreign("c", crossed, crossed)]
    tools += [foreign("d", {"type": "object", "properties": {"again": {"$ref": "#"}}})]
    text = stubs(Registry(tools))
    passes_mypy(tmp_path, text)
    module = imported(tmp_path, text)
    assert takes(module.a.__annotations__["return"], [{"a": [None, 1.5]}, "x"], module)
    assert not takes(module.b.__annotations__["return"], {"below": [{"below": [1]}]}, module)
    assert result_of({"type": "array", "items": {"$ref": "#"}}) == ("list[Any]", "")


def test_equal_objects_of_different_tools_are_one_type_also_when_they_lead_back_to_themselves() -> None:
    def tree(description: str) -> dict[str, Any]:
        leaf = {"title": "Leaf", "type": "object", "properties": {"colour": {}}, "description": description}
        return {"title": "Tree", "type": "object", "properties": {"leaf": leaf, "up": {"$ref": "#"}}}

    registry = Registry([foreign("a", output=tree("One.")), foreign("b", output=tree("Two."))])
    assert stubs(registry, detail="signatures").count("(TypedDict, ") == 2
    assert stubs(registry, detail="full").count("(TypedDict, ") == 4  # they are described differently


def test_objects_without_a_title_are_types_of_their_tools() -> None:
    twice = {"type": "object", "properties": {"one": A, "two": A}}
    text = stubs(Registry([foreign("a", output=A), foreign("b", output=A), foreign("c", output=twice)]))
    assert "class AResult(TypedDict" in text
    assert "class BResult(TypedDict" in text
    assert "    one: CResultOne\n    two: CResultOne\n" in text
