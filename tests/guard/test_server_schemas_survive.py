"""What is right in a server's schema is used and told to the model, whatever else is wrong in it, and each change is
told to people: in the server's status and by ``callgate doctor --mcp``.

The promise is "The tools" in docs/mcp.md. The servers here are real ones on stdio, which list what a test has
written down.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from callgate import ConfigurationError, InvalidArguments, Tool
from with_mcp.client.served import hostile, serving

pytestmark = pytest.mark.anyio
DATA = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def listing(folder: Path, tools: list[dict[str, Any]]) -> dict[str, Any]:
    """A server's configuration."""
    file = folder / "tools.json"
    file.write_text(json.dumps(tools))
    return hostile("tools_of_a_file", TOOLS_FILE=str(file))


Q = {"type": "string", "description": "what to look for"}


def beside(**parameters: Any) -> dict[str, Any]:
    """A schema of a good parameter and others."""
    return {"type": "object", "properties": {"q": Q, **parameters}, "required": ["q"]}


WRONG: dict[str, tuple[Any, Any, str]] = {
    "a bound of draft 4": (
        beside(n={"type": "object", "properties": {"m": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}}}),
        beside(n={"type": "object", "properties": {"m": {"type": "integer", "exclusiveMinimum": 0}}}),
        "in n.m: 'exclusiveMinimum' true is read with 'minimum' 0",
    ),
    "an upper bound of draft 4": (
        beside(n={"maximum": 9.5, "exclusiveMaximum": True}),
        beside(n={"exclusiveMaximum": 9.5}),
        "in n: 'exclusiveMaximum' true is read with 'maximum' 9.5",
    ),
    "no bound of draft 4": (
        beside(n={"minimum": 1, "exclusiveMinimum": False, "type": "any"}),
        beside(n={"minimum": 1}),
        "in n: 'type' 'any' is left out",
    ),
    "a bound without its number": (
        beside(n={"type": "integer", "exclusiveMinimum": True}),
        beside(n={"type": "integer"}),
        "in n: 'exclusiveMinimum' true without 'minimum' is left out",
    ),
    "required in a property": (
        beside(n={"type": "string", "required": True}),
        {**beside(n={"type": "string"}), "required": ["q", "n"]},
        "in n: 'required' true is read as its parent's",
    ),
    "not required in a property": (
        beside(n={"type": "string", "required": False}),
        beside(n={"type": "string"}),
        "in n: 'required' false is read as its parent's",
    ),
    "any": (beside(n={"type": "any"}), beside(n={}), "in n: 'type' 'any' is left out"),
    "float": (beside(n={"type": "float"}), beside(n={"type": "number"}), "in n: 'type' 'float' is read as 'number'"),
    "several types": (
        beside(n={"type": ["str", "null", "str"]}),
        beside(n={"type": ["string", "null"]}),
        "in n: 'type' ['str', 'null', 'str'] is read as ['string', 'null']",
    ),
    "no description": (
        beside(n={"type": "string", "description": None}),
        beside(n={"type": "string"}),
        "in n: 'description' is left out: it cannot be null",
    ),
    "required is null": (
        {"type": "object", "properties": {"q": Q}, "required": None},
        {"type": "object", "properties": {"q": Q}},
        "'required' is left out: it cannot be null",
    ),
    "required twice": (
        {"type": "object", "properties": {"q": Q}, "required": ["q", "q"]},
        {"type": "object", "properties": {"q": Q}, "required": ["q"]},
        "'required' is read without items that are not names or occur twice",
    ),
    "a reference to nowhere": (
        beside(n={"$ref": "#/$defs/Missing", "description": "n"}),
        beside(n={"description": "n"}),
        "in n: '$ref' '#/$defs/Missing' is left out: it leads nowhere in the schema",
    ),
    "a reference to the network": (
        beside(n={"$ref": "https://example.com/schema.json"}),
        beside(n={}),
        "in n: '$ref' 'https://example.com/schema.json' is left out: it leads nowhere in the schema",
    ),
    "a list of items": (
        beside(n={"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": False}),
        beside(n={"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}),
        "in n: 'items', a list, is read as 'prefixItems'",
    ),
    "a pattern that looks ahead": (
        beside(n={"type": "string", "pattern": "^(?=a)b"}),
        beside(n={"type": "string"}),
        "in n: 'pattern' '^(?=a)b' is left out: it cannot be checked",
    ),
    "one bad pattern of two": (
        beside(n={"pattern": "^a+$"}, m={"pattern": "(?!x)"}),
        beside(n={"pattern": "^a+$"}, m={}),
        "in m: 'pattern' '(?!x)' is left out",
    ),
    "a property that is not a schema": (
        beside(n="string"),
        beside(n={}),
        "in n: 'string' is left out: it is not a schema",
    ),
    "an enum that is none": (beside(n={"enum": "a"}), beside(n={}), "in n: 'enum' is left out: it cannot be 'a'"),
    "a bound below zero": (beside(n={"minLength": -1}), beside(n={}), "in n: 'minLength' is left out: it cannot be -1"),
    "no alternatives": (beside(n={"anyOf": []}), beside(n={}), "in n: 'anyOf' is left out: it cannot be []"),
    "wrong within alternatives": (
        beside(n={"anyOf": [{"type": "int"}, {"type": "null"}]}),
        beside(n={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        "in n.anyOf[0]: 'type' 'int' is read as 'integer'",
    ),
    "wrong in a definition": (
        {**beside(n={"$ref": "#/$defs/N"}), "$defs": {"N": {"type": "double", "title": 5}}},
        {**beside(n={"$ref": "#/$defs/N"}), "$defs": {"N": {"type": "number"}}},
        "'type' 'double' is read as 'number'",
    ),
    "closed in words": (
        {**beside(), "additionalProperties": "false"},
        beside(),
        "in additionalProperties: 'false' is left out: it is not a schema",
    ),
    "a type at the top that is none": (
        {**beside(), "type": "any"},
        beside(),
        "'type' 'any' is left out: JSON has no such type",
    ),
    "draft 4 in earnest, with a mistake": (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            **beside(n={"minimum": 1, "exclusiveMinimum": True, "title": None}),
        },
        beside(n={"exclusiveMinimum": 1}),
        "in n: 'title' is left out: it cannot be null",
    ),
    "a property called required": (
        beside(required={"type": "string", "description": None}, type={"type": "string"}),
        beside(required={"type": "string"}, type={"type": "string"}),
        "in required: 'description' is left out",
    ),
}


async def test_the_keyword_that_is_wrong_goes_or_is_translated_and_the_rest_stays(tmp_path: Path) -> None:
    names = list(WRONG)
    tools = [{"name": f"t{number}", "inputSchema": WRONG[name][0]} for number, name in enumerate(names)]
    for start in range(0, len(tools), 15):  # a status has twenty warnings
        async with serving({"s": listing(tmp_path, tools[start : start + 15])}) as served:
            warnings = "\n".join(served.status("s").warnings)
            for number, name in list(enumerate(names))[start : start + 15]:
                _, expected, told = WRONG[name]
                assert served.registry.get(f"s_t{number}").input_schema == expected, name
                assert f"the tool 't{number}': the input schema is not a valid JSON Schema: " in warnings, name
                assert told in warnings, name


async def test_arguments_are_still_checked_by_what_is_left(tmp_path: Path) -> None:
    schema = beside(n={"type": "float", "minimum": 0, "exclusiveMinimum": True}, m={"type": "any"})
    async with serving({"s": listing(tmp_path, [{"name": "t", "inputSchema": schema}])}) as served:
        assert await served.call("s_t", {"q": "a", "n": 0.5, "m": [1]}) == {"q": "a", "n": 0.5, "m": [1]}
        for wrong, words in (({"q": "a", "n": 0}, "'n'"), ({"n": 1}, "missing argument 'q'"), ({"q": 5}, "'q'")):
            with pytest.raises(InvalidArguments, match=words):
                await served.call("s_t", wrong)
        with pytest.raises(InvalidArguments, match="unknown argument 'p'"):
            await served.call("s_t", {"q": "a", "p": 1})


async def test_a_schema_that_cannot_be_used_still_tells_its_parameters(tmp_path: Path) -> None:
    twice = {str(level): {"oneOf": [{"$ref": f"#/$defs/{level + 1}"}] * 2} for level in range(20)}
    deep: Any = {"type": "string"}
    for _ in range(150):
        deep = {"type": "array", "items": deep}
    schemas = {
        "branching": {**beside(n={"$ref": "#/$defs/0"}), "$defs": {**twice, "20": {"type": "integer"}}},
        "deep": beside(n=deep),
        "large": beside(n={"enum": ["x" * 100_000] * 11}),
    }
    tools = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
    async with serving({"s": listing(tmp_path, tools)}) as served:
        for name in schemas:
            tool = served.registry.get(f"s_{name}")
            assert tool.parameters == ("q", "n")
            assert tool.input_schema["properties"]["q"] == Q
            assert tool.input_schema["required"] == ["q"]
            assert await served.call(f"s_{name}", {"q": "a", "n": [], "other": 1}) == {"q": "a", "n": [], "other": 1}
        told = "only the names and types of its parameters are used"
        assert [each.endswith(told) for each in served.status("s").warnings] == [True] * 3


async def test_an_output_schema_keeps_what_is_right(tmp_path: Path) -> None:
    output = {"type": "object", "properties": {"n": {"type": "float"}, "s": {"type": "string", "title": None}}}
    tools = [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": output}]
    async with serving({"s": listing(tmp_path, tools)}) as served:
        assert served.registry.get("s_t").output_schema == {
            "type": "object",
            "properties": {"n": {"type": "number"}, "s": {"type": "string"}},
        }
        (warning,) = served.status("s").warnings
        assert "the tool 't': the output schema is not a valid JSON Schema: in n: 'type' 'float' is read as" in warning


@pytest.mark.slow
async def test_hostile_schemas_take_bounded_work(tmp_path: Path) -> None:
    """Each is invalid, so that it is repaired, and as large or as dear as the bounds let it be."""
    wrong = {"type": "float"}
    schemas = {
        "wide": {"type": "object", "properties": {f"p{n}": wrong for n in range(900)}},
        "wider": {"type": "object", "properties": {f"p{n}": wrong for n in range(40_000)}},
        "names": {"type": "object", "properties": {"x": wrong}, "required": ["x"] * 200_000},
        "patterns": {"properties": {f"p{n}": {"pattern": f"\\w{{1,{900 + n}}}x", "type": "float"} for n in range(900)}},
        "references": {"properties": {f"p{n}": {"$ref": f"#/$defs/{n}"} for n in range(900)}},
        "nested": {"type": "object", "properties": {"x": wrong}, "allOf": [{"anyOf": [{"not": wrong}] * 20_000}]},
    }
    tools = [{"name": name, "inputSchema": schema} for name, schema in schemas.items()]
    before = time.process_time()
    async with serving({"s": listing(tmp_path, tools)}) as served:
        spent = time.process_time() - before
        assert len(served.registry) == len(schemas)
        assert served.registry.get("s_wide").input_schema["properties"]["p7"] == {"type": "number"}
        assert all(len(each) < 500 for each in served.status("s").warnings)
    assert spent < 20, f"{spent:.1f} s of processor time"


def functions() -> list[dict[str, Any]]:
    """The function collections as they were published, with the types of Python in them: `dict`, `float`, `any`."""
    found = []
    for file in sorted(DATA.glob("calls/bfcl_*.jsonl.gz")):
        with gzip.open(file, "rt") as lines:
            found += [each for line in lines for each in json.loads(line)["functions"]]
    return found


async def test_no_schema_of_the_collections_loses_its_parameters(tmp_path: Path) -> None:
    known = functions()
    if not known:
        pytest.skip("the collections are not here")
    tools = [
        {"name": f"t{number}", "description": each["description"], "inputSchema": each["parameters"]}
        for number, each in enumerate(known)
    ]
    async with serving({"s": listing(tmp_path, tools)}) as served:
        for number, each in enumerate(known):
            schema = served.registry.get(f"s_t{number}").input_schema
            given = each["parameters"]
            assert list(schema["properties"]) == list(given["properties"]), number
            assert schema.get("required", []) == list(dict.fromkeys(given.get("required", []))), number
            for name, said in given["properties"].items():
                if said["type"] != "any":
                    assert "type" in schema["properties"][name], (number, name)


def doctor(file: Path, *options: str) -> str:
    command = [sys.executable, "-m", "callgate", "doctor", "--mcp", str(file), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False).stdout


@pytest.mark.slow
def test_the_doctor_says_which_keyword_was_wrong(tmp_path: Path) -> None:
    server = listing(tmp_path, [{"name": "t", "inputSchema": beside(n={"type": "float"})}])
    file = tmp_path / "servers.json"
    file.write_text(json.dumps({"mcpServers": {"s": server}}))
    told = "the tool 't': the input schema is not a valid JSON Schema: in n: 'type' 'float' is read as 'number'"
    assert told in " ".join(doctor(file).split())
    data = json.loads(doctor(file, "--json"))
    assert data["servers"] == [{"name": "s", "state": "running", "tools": 1, "error": None, "warnings": [told]}]


@pytest.mark.parametrize("name", [name for name in WRONG if "pattern" not in name and "network" not in name])
def test_a_schema_of_the_operator_s_own_is_refused_as_it_was(name: str) -> None:
    """Who writes `Tool.from_schema` can mend it, and should know."""
    with pytest.raises(ConfigurationError, match="tool 't': the input schema"):
        Tool.from_schema("t", "Do it.", WRONG[name][0], lambda **given: given)
