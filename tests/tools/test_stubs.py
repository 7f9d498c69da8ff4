"""Stubs are Python: they import, pass mypy --strict, and say of each schema what Python's types can say."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from callgate.tools import Registry, Tool, tool
from callgate.tools.stubs import signature, stubs


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
ENDLESS = {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}
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
    foreign("endless", {"value": {"$ref": "#/$defs/a"}}, **{"$defs": ENDLESS}),
    foreign("mutual", {"value": {"$ref": "#/$defs/a"}}, **{"$defs": MUTUAL}),
    foreign("defaults", {"a": {"type": "string", "default": "'\\\n"}, "b": {"type": "string", "default": 3}}),
    foreign("naïve_größe", {"ü": {"type": "string"}, "enum": {"enum": ["ü", 'a"b', "\x00"]}}, required=["ü"]),
    foreign("floats", {"x": {"enum": [1.5, 2]}, "y": {"const": {"a": 1}}, "z": {"type": "string", "nullable": True}}),
]


def passes_mypy(text: str, folder: Path) -> None:
    (folder / "stub_module.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "--config-file=", "stub_module.py"],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + text


def test_stubs_pass_mypy_strict_and_import(tmp_path: Path) -> None:
    text = stubs(Registry([find, count, *ODD]))
    passes_mypy(text, tmp_path)
    subprocess.run([sys.executable, "-W", "error", "-c", "import stub_module"], cwd=tmp_path, check=True)


JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}


def as_json_schema(schema: Any) -> Any:
    """The function collections write Python's type names into their schemas."""
    if isinstance(schema, list):
        return [as_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    mended = {key: as_json_schema(value) for key, value in schema.items()}
    kind = mended.get("type")
    return mended | {"type": JSON_TYPES.get(kind, kind)} if isinstance(kind, str) else mended


def test_stubs_of_seven_hundred_real_functions_pass_mypy_strict(tmp_path: Path) -> None:
    folder = Path(__file__).parents[3] / "shared" / "data" / "calls"
    if not folder.is_dir():
        pytest.skip(f"the function collections are not in {folder}")
    registry = Registry()
    for path in sorted(folder.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for function in (each for line in lines for each in json.loads(line)["functions"]):
                schema = as_json_schema(function["parameters"])
                made = Tool.from_schema(function["name"], function["description"], schema, dict, output_schema=schema)
                registry.add(made, rename=True)
    assert len(registry) == 720
    passes_mypy(stubs(registry), tmp_path)


def test_stubs_are_the_same_whatever_the_order_of_the_tools() -> None:
    assert stubs(Registry([find, count, *ODD])) == stubs(Registry([*reversed(ODD), count, find]))


def test_a_model_that_two_schemas_describe_alike_is_one_class() -> None:
    text = stubs(Registry([find]))
    assert text.count("class Place(TypedDict):") == 1
    assert "class Place2" not in text
    assert "    inside: NotRequired[Place | None]\n" in text


def test_no_tools_are_an_empty_module(tmp_path: Path) -> None:
    passes_mypy(stubs(Registry()), tmp_path)


@pytest.mark.parametrize(
    ("schema", "annotation"),
    [
        ({}, "Any"),
        (True, "Any"),
        (False, "Any"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "array", "items": {"type": "string"}}, "list[str]"),
        ({"prefixItems": [{"type": "string"}, {"type": "integer"}], "type": "array"}, "list[str | int]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"type": "object", "additionalProperties": {"type": "boolean"}}, "dict[str, bool]"),
        ({"type": ["null", "string"]}, "str | None"),
        ({"type": "string", "nullable": True}, "str | None"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "str | None"),
        ({"oneOf": [{"type": "string"}, {}]}, "Any"),
        ({"enum": ["a", 1, True, None]}, "Literal['a', 1, True, None]"),
        ({"const": "x"}, "Literal['x']"),
        ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "str"),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "Any"),
    ],
)
def test_a_schema_becomes_an_annotation(schema: Any, annotation: str) -> None:
    output = {"type": "object", "properties": {"x": schema}}
    made = Tool.from_schema("f", "", {"type": "object"}, lambda: None, output_schema=output)
    text = stubs(Registry([made]))
    assert f"    x: NotRequired[{annotation}]\n" in text


def test_a_signature_is_one_line() -> None:
    assert signature(count, "count") == "count(tags: list[str], exact: bool = False, weight: float = 1) -> int"
