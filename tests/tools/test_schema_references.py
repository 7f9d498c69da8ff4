"""Where references of schemas lead, and that the faults behind them are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate.errors import InvalidArguments
from callgate.tools import Tool
from callgate.tools.schema_check import SchemaCheck, SchemaFault
from callgate.tools.turns import at_once


def faults_of(check: SchemaCheck, value: Any, text: str) -> list[SchemaFault]:
    """All that a schema has against a value."""
    return at_once(check.checking(value, text))


def taking(schema: dict[str, Any]) -> Tool:
    def function(**arguments: Any) -> Any:
        return arguments

    return Tool.from_schema("take", "", schema, function)


def test_references_are_followed_wherever_they_lead() -> None:
    schema = {
        "$id": "http://h.example/root",
        "$defs": {
            "a/b~": {"$anchor": "here", "type": "integer"},
            "own": {"$id": "own", "$defs": {"x": {"type": "string"}}, "items": {"$ref": "#/$defs/x"}},
        },
        "properties": {
            "pointer": {"$ref": "#/$defs/a~1b~0"},
            "anchor": {"$ref": "#here"},
            "address": {"$ref": "own"},
            "whole": {"$ref": "#"},
            "standard": {"$ref": "https://json-schema.org/draft/2020-12/schema"},
            "first": {"$ref": "#/properties/listed/prefixItems/0"},
            "listed": {"prefixItems": [{"type": "null"}, True]},
        },
    }
    good = {"pointer": 1, "anchor": 2, "address": ["x"], "whole": {"anchor": 3}, "standard": {"type": "null"}}
    check = SchemaCheck(schema, "it")
    assert not list(faults_of(check, good, json.dumps(good)))
    for name in good:
        bad = good | {name: {"anchor": "x"} if name == "whole" else [1]}
        assert list(faults_of(check, bad, json.dumps(bad))), name


@pytest.mark.parametrize("name", ["default", "const", "enum", "examples"])
def test_a_property_may_be_called_like_a_keyword(name: str) -> None:
    schema = {
        "properties": {
            name: {"$id": "address", "type": "string"},
            "own": {"$anchor": "here", "type": "string"},
            "there": {"$ref": "address"},
            "here": {"$ref": "#here"},
        }
    }
    check = SchemaCheck(schema, "it")
    for reference in ("there", "here"):
        assert not list(faults_of(check, {reference: "x"}, "{}"))
        assert list(faults_of(check, {reference: 1}, "{}"))


@pytest.mark.parametrize(
    "more",
    [
        {"$defs": {"r": {"$id": "r.json", "type": "integer"}}},
        {"$id": "http://h.example/s.json", "$defs": {"r": {"$id": "r.json", "type": "integer"}}},
    ],
)
def test_a_large_value_is_told_its_fault_also_where_references_are_relative(more: dict[str, Any]) -> None:
    schema = {"properties": {"b": {"type": "array", "items": {"$ref": "r.json"}}}, **more}
    with pytest.raises(InvalidArguments, match=r"argument 'b\[30000\]' must be of type integer"):
        taking(schema).validate({"b": [*range(30_000), "x"]})


def test_where_a_part_cannot_be_asked_about_by_itself_there_is_a_fault_all_the_same() -> None:
    """In draft 4, whose addresses are called otherwise, a part has lost its base; some validators find it."""
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "id": "http://h.example/s.json",
        "properties": {"b": {"items": {"$ref": "r.json"}}},
        "definitions": {"r": {"id": "r.json", "type": "integer"}},
    }
    with pytest.raises(InvalidArguments, match=r"the arguments: does not fit the schema|must be of type integer"):
        taking(schema).validate({"b": [*range(30_000), "x"]})
