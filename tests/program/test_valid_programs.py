"""Programs as models write them. None may get an error: a false one blocks a valid program."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from callgate.program import ToolShape, check_program
from program.programs import PROGRAMS, TOOLS

DATA = Path(__file__).parents[2] / ".." / "shared" / "data" / "calls"


@pytest.mark.parametrize("source", [pytest.param(text, id=f"{i}") for i, text in enumerate(PROGRAMS)])
def test_a_program_as_models_write_them_gets_no_finding(source: str) -> None:
    assert [str(finding) for finding in check_program(source, TOOLS, resolve=resolve)] == []


@pytest.mark.parametrize("source", [pytest.param(text, id=f"{i}") for i, text in enumerate(PROGRAMS)])
def test_line_ends_of_windows_make_no_difference(source: str) -> None:
    assert check_program(source.replace("\n", "\r\n"), TOOLS, resolve=resolve) == []


def test_there_are_enough_of_them() -> None:
    assert len(PROGRAMS) >= 90


def requests() -> list[dict[str, Any]]:
    if not DATA.is_dir():
        pytest.skip(f"{DATA} is absent")
    found = []
    for path in sorted(DATA.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            found += [json.loads(line) for line in lines]
    return found


def shape_of(function: dict[str, Any]) -> ToolShape:
    schema = function["parameters"]
    name = re.sub(r"\W", "_", function["name"])
    return ToolShape(name, tuple(schema["properties"]), frozenset(schema.get("required", ())))


def resolve(name: str) -> str:
    return re.sub(r"\W", "_", name)


def test_the_gold_calls_of_four_hundred_requests_get_no_finding_however_they_are_written() -> None:
    seen = 0
    for request in requests():
        tools = [shape_of(function) for function in request["functions"]]
        sequential, gathered, by_name = [], [], []
        for call in request["ground_truth"]:
            for function, answers in call.items():
                given = {name: values[0] for name, values in answers.items() if values and values[0] != ""}
                shape = next(tool for tool in tools if tool.name == resolve(function))
                if not shape.required <= given.keys() <= set(shape.parameters):
                    continue  # the gold answer itself does not fit the schema
                written = ", ".join(f"{name}={value!r}" for name, value in given.items())
                name = re.sub(r"\W", "_", function)
                sequential.append(f"print(await {name}({written}))")
                gathered.append(f"{name}({written})")
                by_name.append(f"await tool_call({function!r}, {written})")
        for source in (
            "\n".join(sequential),
            f"import asyncio\nresults = await asyncio.gather({', '.join(gathered)})\nprint(results)",
            "\n".join(by_name),
        ):
            seen += 1
            assert [str(finding) for finding in check_program(source, tools, resolve=resolve)] == [], source
    assert seen >= 1000
