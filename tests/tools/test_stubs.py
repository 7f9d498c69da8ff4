"""Stubs are Python: they import, pass mypy --strict, and say of each schema what Python's types can say."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from callgate.tools import Registry, Tool, tool
from callgate.tools.stubs import DETAILS, signature, stubs
from tools.stub_checks import imported, passes_mypy


class Place(BaseModel):
    name: str
    inside: Place | None = None
    neighbours: list[Place] = []


@tool
async def find(place: Place, order: Literal["near", "far"] = "near", limit: int | None = None) -> dict[str, Place]:
    """Find places.

    With a \\ backslash, \"\"\"three quotes\"\"\", and a "quote at its end"
    """
    return {}


@tool
def count(tags: list[str], exact: bool = False, weight: float = 1) -> int:
    """Count."""
    return 0


def foreign(name: str, properties: dict[str, Any], **schema: Any) -> Tool:
    """A tool from a schema that nobody here wrote."""
    return Tool.from_schema(name, "Foreign.", {"type": "object", "properties": properties, **schema}, lambda **_: None)


RECURSIVE_LIST = {"json": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/json"}}]}}
MUTUAL = {
    "a": {"type": "object", "properties": {"b": {"$ref": "#/$defs/b"}}},
    "b": {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}},
}
HIDING = {"type": "object", "properties": {"str": {"type": "string"}, "Literal": {}, "b": {"type": "string"}}}
ODD = [
    foreign("odd-name!", {"a-b": {"type": "string"}, "class": {"enum": ["x", 1, None]}, "__p": {}}, required=["a-b"]),
    foreign("Any", {"optional": {"type": "integer"}, "Any": HIDING}, required=["Any"]),
    foreign("OMITTED", {"late": {"type": "array"}, "early": {}}, required=["early"], additionalProperties=True),
    foreign("json", {"value": {"$ref": "#/$defs/json"}}, **{"$defs": RECURSIVE_LIST}),
    foreign("mutual", {"value": {"$ref": "#/$defs/a"}}, **{"$defs": MUTUAL}),
    foreign("defaults", {"a": {"type": "string", "default": "'\\\n"}, "b": {"type": "string", "default": 3}}),
    foreign("naïve_größe", {"ü": {"type": "string"}, "enum": {"enum": ["ü", 'a"b', "\x00"]}}, required=["ü"]),
    foreign("floats", {"x": {"enum": [1.5, 2]}, "y": {"const": {"a": 1}}, "z": {"type": "string", "nullable": True}}),
]


def test_stubs_pass_mypy_strict_and_import(tmp_path: Path) -> None:
    text = stubs(Registry([find, count, *ODD]))
    passes_mypy(tmp_path, text)
    imported(tmp_path, text)


def test_stubs_are_the_same_whatever_the_order_of_the_tools() -> None:
    assert stubs(Registry([find, count, *ODD])) == stubs(Registry([*reversed(ODD), count, find]))


def test_a_model_that_two_schemas_describe_alike_is_one_class() -> None:
    text = stubs(Registry([find]), detail="signatures")
    assert text.count("class Place(TypedDict):") == 1
    assert "class Place2" not in text
    assert "    inside: NotRequired[Place | None]\n" in text


def test_no_tools_are_an_empty_module(tmp_path: Path) -> None:
    passes_mypy(tmp_path, *(stubs(Registry(), detail=detail) for detail in DETAILS))


def test_a_signature_is_one_line() -> None:
    assert signature(count, "count") == "count(tags: list[str], exact: bool = False, weight: float = 1) -> int"


def test_a_signature_tells_odd_arguments_as_they_are_written() -> None:
    odd = foreign("convert", {"from": {"type": "string"}, "a-b": {"type": "integer"}}, required=["from"])
    assert signature(odd, "convert") == "convert(from_: str, a_b: int = OMITTED) -> Any"


def test_a_signature_tells_odd_arguments_that_cannot_be_written_as_they_are_given() -> None:
    odd = foreign("convert", {"from": {"type": "string"}, "from_": {"type": "integer"}}, required=["from"])
    assert signature(odd, "convert") == "convert(**{'from': str, 'from_': NotRequired[int]}) -> Any"
