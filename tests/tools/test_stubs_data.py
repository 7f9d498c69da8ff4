"""Every tool of the collections becomes a stub that imports and passes the type checkers; one module for 500 tools."""

from __future__ import annotations

import gzip
import itertools
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgate.tools import Registry, Tool
from callgate.tools.stubs import DETAILS, stubs
from plan.nestful import input_schema, output_schema
from tools.stub_checks import PYRIGHT, foreign, imported, passes_mypy, passes_pyright

DATA = Path(__file__).parents[3] / "shared" / "data"
_TOOLS_OF_A_MODULE = 500
_JSON_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string"}
SETS = {
    "bfcl_parallel": 200,
    "bfcl_parallel_multiple": 520,
    "nestful": 139,
    "stabletoolbench": 2_479,
    "bfcl_all": 1_287,
}


def lines_of(path: str) -> list[Any]:
    file = DATA / path
    if not file.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"{file} has to be there in CI")
        pytest.skip(f"{file} is absent")
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def as_json_schema(schema: Any) -> Any:
    """The function collections write Python's type names into their schemas."""
    if isinstance(schema, list):
        return [as_json_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    mended = {key: as_json_schema(value) for key, value in schema.items()}
    kind = mended.get("type")
    return mended | {"type": _JSON_TYPES.get(kind, kind)} if isinstance(kind, str) else mended


def tools_of(collection: str) -> Iterator[Tool]:
    """The tools of one collection. `toolsearch/` has names and descriptions, and no schemas."""
    if collection.startswith("bfcl_parallel"):
        for request in lines_of(f"calls/{collection}.jsonl.gz"):
            for function in request["functions"]:
                schema = as_json_schema(function["parameters"])
                yield foreign(function["name"], schema, schema, function["description"])
    elif collection == "nestful":
        for spec in lines_of("plans/nestful_tools.jsonl.gz"):
            yield foreign(spec["name"], input_schema(spec), output_schema(spec), spec["description"])
    else:
        for document in lines_of(f"toolsearch/{collection}_tools.jsonl.gz"):
            server, _, name = document["id"].rpartition("/")
            tool = foreign(" ".join(document["id"].split()), None, None, document["text"])
            yield replace(tool, server=server, server_tool=name) if server else tool


def modules_of(collection: str, detail: Any) -> tuple[int, list[str]]:
    """How many tools there are, and their stubs."""
    registries = []
    tools = tools_of(collection)
    while chunk := list(itertools.islice(tools, _TOOLS_OF_A_MODULE)):
        registries.append(Registry())
        for each in chunk:
            registries[-1].add(each, rename=True)
    return sum(map(len, registries)), [stubs(each, detail=detail) for each in registries]


@pytest.mark.slow
@pytest.mark.parametrize("collection", SETS)
def test_every_tool_of_a_collection_becomes_a_stub_that_passes_mypy_strict(collection: str, tmp_path: Path) -> None:
    count, modules = modules_of(collection, "full")
    assert count == SETS[collection]
    for text in modules:
        imported(tmp_path, text)
    passes_mypy(tmp_path, *modules)


@pytest.mark.slow
@pytest.mark.skipif(PYRIGHT is None, reason="basedpyright is not installed: pip install basedpyright")
def test_every_tool_of_every_collection_becomes_a_stub_that_passes_pyright(tmp_path: Path) -> None:
    """In one run: most of a short one is its start."""
    passes_pyright(tmp_path, *(text for collection in SETS for text in modules_of(collection, "full")[1]))


@pytest.mark.parametrize("collection", SETS)
def test_a_collection_gives_the_same_bytes_whatever_its_order(collection: str) -> None:
    tools = list({tool.name: tool for tool in tools_of(collection)}.values())[:200]
    for detail in DETAILS:
        assert stubs(Registry(tools), detail=detail) == stubs(Registry(reversed(tools)), detail=detail)
