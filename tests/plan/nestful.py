"""The plans of NESTFUL, and stub tools that are built from their specifications. Used by `test_nestful`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any

from callgate.tools import Tool
from plan.plans import shared

KINDS = {
    "float": "number", "enum": "string", "file": "string", "date (yyyy-mm-dd)": "string",
    **{kind: kind for kind in ("string", "number", "integer", "boolean", "array", "object")},
}  # fmt: skip
_WHERE = ("query_parameters", "path_parameters", "parameters", "arguments")
_REFERENCE = re.compile(r"\$ref:(\w+)((?:\.[^.\[]+|\[\d+\])*)")


def plans_of_nestful() -> list[dict[str, Any]]:
    """All of them, as they stand."""
    found: list[dict[str, Any]] = shared("nestful.jsonl.gz")
    return found


def schema_of(spec: Any) -> dict[str, Any]:
    """JSON Schema of what a specification says in its own way. Lists of allowed values are prose and left out."""
    if not isinstance(spec, dict):
        return {}
    schema: dict[str, Any] = {}
    if isinstance(spec.get("type"), str):
        schema["type"] = KINDS[spec["type"].lower()]
    if isinstance(spec.get("properties"), dict):
        schema["properties"] = {name: schema_of(each) for name, each in spec["properties"].items()}
    if isinstance(spec.get("items"), dict):
        schema["items"] = schema_of(spec["items"])
    return schema


def input_schema(spec: dict[str, Any]) -> dict[str, Any]:
    """Of a tool's arguments."""
    parameters = {name: each for where in _WHERE for name, each in spec.get(where, {}).items()}
    return {
        "type": "object",
        "properties": {name: schema_of(each) for name, each in parameters.items()},
        "required": [name for name, each in parameters.items() if each.get("required") is True],
    }


def output_schema(spec: dict[str, Any]) -> dict[str, Any]:
    """Of its result."""
    return {"type": "object", "properties": {name: schema_of(each) for name, each in spec["output_parameters"].items()}}


class Stubs:
    """Tools that note what they are given and give what their output schema says, no value twice.

    Args:
        typed: hold arguments against the specification; otherwise anything is taken, and there are no unknown tools.
        extra: names of further tools that take and give anything.
    """

    def __init__(self, *, typed: bool, extra: tuple[str, ...] = ()) -> None:
        self.received: list[tuple[str, dict[str, Any]]] = []
        self.given: list[tuple[str, Any]] = []
        self._numbers = itertools.count(1)
        specs = {spec["name"]: spec for spec in shared("nestful_tools.jsonl.gz")}
        specs |= {name: {"output_parameters": {"anything": {"type": "string"}}} for name in extra}
        self.tools = [self._tool(name, spec, typed) for name, spec in specs.items()]

    def _tool(self, name: str, spec: dict[str, Any], typed: bool) -> Tool:
        output = output_schema(spec)

        async def call(**arguments: Any) -> Any:
            self.received.append((name, arguments))
            result = self._made(output, name)
            self.given.append((name, result))
            return result

        given = input_schema(spec) if typed else {"type": "object"}
        return Tool.from_schema(name, "A stub.", given, call, output_schema=output)

    def _made(self, schema: dict[str, Any], path: str) -> Any:
        number = next(self._numbers)
        match schema.get("type"):
            case "object":
                members = schema.get("properties") or {"anything": {}}
                return {name: self._made(each, f"{path}.{name}") for name, each in members.items()}
            case "array":
                return [self._made(schema.get("items", {}), f"{path}[{index}]") for index in range(2)]
            case "integer":
                return 10**15 + number
            case "number":
                return number + 0.5
            case "boolean":
                return number % 2 == 0
            case _:
                return f"{path} #{number}"


def references(value: Any) -> Iterator[str]:
    """The `$ref:` texts in a value, in order of writing."""
    if isinstance(value, str) and value.startswith("$ref:"):
        yield value
    elif isinstance(value, (dict, list)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from references(each)


def path_of(reference: str) -> str:
    """The path of a reference, as the collection lists it."""
    match = _REFERENCE.fullmatch(reference)
    assert match is not None, reference
    return match[2]


def resolved(value: Any, results: dict[str, Any]) -> Any:
    """A value with its references resolved, by the plainest reading of them there is."""
    if isinstance(value, dict):
        return {key: resolved(each, results) for key, each in value.items()}
    if isinstance(value, list):
        return [resolved(each, results) for each in value]
    if not (isinstance(value, str) and value.startswith("$ref:")):
        return value
    match = _REFERENCE.fullmatch(value)
    assert match is not None, value
    found = results[match[1]]
    for name, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", match[2]):
        if name:
            found = found.get(name) if isinstance(found, dict) else None
        else:
            found = found[int(index)] if isinstance(found, list) and int(index) < len(found) else None
    return found
