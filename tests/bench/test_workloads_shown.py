"""A model could write what the scripts write: all that stands there was shown by the mode, or said by the user."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from callgate import Runtime, tool
from callgate_bench.contestants.callgate_modes import Mode, words
from callgate_bench.workloads import WORKLOADS
from callgate_bench.workloads.workload import Workload

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="the jail needs Linux")]

NUMBERS = {3: "three", 8: "8"}
"""As tasks say them."""


@pytest.fixture
def anyio_backend() -> str:
    """The contestants run on asyncio."""
    return "asyncio"


async def shown(mode: str, workload: Workload) -> str:
    """All that the model has read when it writes."""
    modes = Mode(mode)
    opened = await modes.open(workload.name, 0.0)
    await modes.aclose()
    return _read(opened["tools"], opened["system"], workload)


def _read(tools: Any, system: str, workload: Workload) -> str:
    return "\n".join([json.dumps(tools, ensure_ascii=False), system, workload.task])


def of_program(program: str, tools: set[str]) -> Iterator[Any]:
    """Keys that are read from what tools gave, or stand in what they are given, and arguments that are written out."""
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Subscript):
            yield from _texts([node.slice])
        if isinstance(node, ast.Dict):
            yield from _texts(node.keys)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in tools:
            yield node.func.id
            for keyword in node.keywords:
                yield keyword.arg
                if isinstance(keyword.value, ast.Constant):
                    yield keyword.value.value
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.List):
            yield from _texts(node.value.elts)


def _texts(nodes: Iterable[ast.expr | None]) -> Iterator[str]:
    return (each.value for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))


def of_plan(plan: dict[str, Any]) -> Iterator[Any]:
    """The same of a plan: paths of its references, attributes in its expressions, what its arguments say."""
    for step in plan["steps"]:
        yield step["tool"]
        yield from step["arguments"]
        yield from _of_template([step["arguments"], step.get("for_each", "")])


def _of_template(template: Any) -> Iterator[Any]:
    if isinstance(template, dict) and set(template) == {"$expr"}:
        for node in ast.walk(ast.parse(template["$expr"], mode="eval")):
            if isinstance(node, ast.Attribute):
                yield node.attr
            if isinstance(node, ast.Dict):
                yield from (key.value for key in node.keys if isinstance(key, ast.Constant))
    elif isinstance(template, dict | list):
        for each in template.values() if isinstance(template, dict) else template:
            yield from _of_template(each)
    elif isinstance(template, str) and template.startswith("$"):
        yield from re.findall(r"\.(\w+)", template)
    elif template != "":
        yield template


def missing(said: Iterator[Any], text: str) -> list[Any]:
    """What of it was not shown, as whole words."""
    found = [(each, NUMBERS.get(each, each) if isinstance(each, int) else each) for each in said]
    return [each for each, written in found if not re.search(rf"(?<!\w){re.escape(str(written))}(?!\w)", text)]


@pytest.mark.parametrize("name", WORKLOADS)
async def test_programs_hold_nothing_that_a_model_was_not_told(name: str) -> None:
    workload = WORKLOADS[name]
    said = list(of_program(next(workload.programs()), {each.__name__ for each in workload.tools}))
    assert len(said) > (2 if name != "judgement" else 1)
    assert missing(iter(said), await shown("code-fast", workload)) == []
    lent = Runtime([tool(read_only=True)(each) for each in workload.tools], sandbox="jail")
    assert missing(iter(said), _read(*words(lent, "execute_code"), workload)) == []


@pytest.mark.parametrize("name", [name for name, each in WORKLOADS.items() if each.plans is not None])
async def test_plans_hold_nothing_that_a_model_was_not_told(name: str) -> None:
    workload = WORKLOADS[name]
    assert workload.plans is not None
    said = list(of_plan(next(workload.plans())))
    assert said
    assert missing(iter(said), await shown("plan", workload)) == []


@pytest.mark.slow
async def test_the_jail_shows_what_programs_need() -> None:
    workload = WORKLOADS["budget"]
    said = of_program(next(workload.programs()), {each.__name__ for each in workload.tools})
    assert missing(said, await shown("code-jail", workload)) == []


def test_what_was_not_told_is_found() -> None:
    program = "row = (await get(of='Q3', count=3))['lines'][0]\nother = {'own': 1}\nnames = ['Rome']\n"
    said = list(of_program(program, {"get"}))
    assert sorted(map(str, said)) == ["3", "Q3", "Rome", "count", "get", "lines", "of", "own"]
    assert missing(iter(said), "get(of: str, count: int) gives own lines; three; Rome") == ["Q3"]
    plan = {
        "steps": [
            {"tool": "get", "for_each": "$ref:a.rows[0].id", "arguments": {"x": "$item.sku", "y": ["Q3"]}},
            {"tool": "sum", "arguments": {"of": {"$expr": "[{'n': each.amount} for each in a]"}}},
        ]
    }
    assert sorted(of_plan(plan)) == ["Q3", "amount", "get", "id", "n", "of", "rows", "sku", "sum", "x", "y"]
