"""Programs in the dialects of other interpreters: they parse, and mean the same."""

from __future__ import annotations

import ast
import asyncio
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from callgate_bench.workloads import WORKLOADS, pace
from callgate_bench.workloads.dialects import DIALECTS, rewrite
from callgate_bench.workloads.workload import Function

TOOLS = ("get_weather", "list_cities")


@pytest.fixture(autouse=True)
def without_waits() -> Iterator[None]:
    pace(0)
    yield
    pace(1)


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """Where programs run: dataclasses look for their module."""
    made = types.ModuleType("program_under_test")
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def synchronous(function: Function) -> Callable[..., Any]:
    def call(**arguments: Any) -> Any:
        return asyncio.run(_awaited(function, arguments))

    return call


async def _awaited(function: Function, arguments: dict[str, Any]) -> Any:
    return await function(**arguments)


def run(program: str, names: dict[str, Any]) -> Any:
    """Execute a program, and return the value of its last expression."""
    tree = ast.parse(program)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "<program>", "exec"), names)
    return eval(compile(ast.Expression(last.value), "<program>", "eval"), names)


def awaits(program: str) -> list[str]:
    coroutines = (ast.Await, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith)
    return [ast.dump(node) for node in ast.walk(ast.parse(program)) if isinstance(node, coroutines)]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_program_can_be_said_in_every_dialect(name: str, dialect: str) -> None:
    tools = [each.__name__ for each in WORKLOADS[name].tools]
    written = rewrite(next(WORKLOADS[name].programs()), dialect, tools)
    body = ast.parse(written).body
    match dialect:
        case "call-tool":
            assert not any(f"{tool}(" in written for tool in tools)
            assert isinstance(body[-1], ast.Return)
        case "sync-final":
            assert awaits(written) == []
            assert "asyncio" not in written
            last = ast.unparse(body[-1]).replace("'", '"')  # which quotes it takes depends on the Python
            assert last.startswith('f"note' if name == "judgement" else "final_answer(f")
        case _:
            assert isinstance(body[-1], ast.Expr)


@pytest.mark.parametrize("name", WORKLOADS)
def test_programs_without_coroutines_reach_the_same_answer(name: str, module: types.ModuleType) -> None:
    workload = WORKLOADS[name]
    names = vars(module) | {each.__name__: synchronous(each) for each in workload.tools}
    names["final_answer"] = str
    saying, answer = workload.programs(), ""
    program = next(saying)
    while not answer:
        value = run(rewrite(program, "sync-final", [each.__name__ for each in workload.tools]), names)
        try:
            program = saying.send(value)
        except StopIteration as done:
            answer = done.value
    assert workload.wrong(answer) == ""


def test_a_program_for_callgate_stays_as_it_is() -> None:
    program = "# as written\nx = await get_weather(city='Oslo')\nx\n"
    assert rewrite(program, "callgate", TOOLS) is program


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("await asyncio.gather(*(get_weather(city=c) for c in d))", "[get_weather(city=c) for c in d]"),
        ("await asyncio.gather(*(f(a) for a in b), *(f(c) for c in d))", "[f(a) for a in b] + [f(c) for c in d]"),
        ("import asyncio, json\n1", "import json\n1"),
        ("import asyncio\n1", "1"),
        ("async def f(a):\n    return await a\nawait f(1)", "def f(a):\n    return a\nf(1)"),
    ],
)
def test_what_becomes_of_coroutines(program: str, expected: str) -> None:
    assert rewrite(program, "sync-final", TOOLS) == expected + "\n"


def test_tools_are_called_through_call_tool_by_name() -> None:
    program = "asked = await get_weather(city=await best(n=1), days=2)\nprint(asked)\nasked"
    assert rewrite(program, "call-tool", TOOLS) == (
        "asked = await call_tool('get_weather', {'city': await best(n=1), 'days': 2})\nprint(asked)\nreturn asked\n"
    )


@pytest.mark.parametrize(
    ("program", "dialect", "reason"),
    [
        ("1", "latin", "there is no dialect 'latin'; there are: callgate, final, call-tool"),
        ("x = 1", "call-tool", "line 1: the program does not end in an expression"),
        ("await get_weather('Oslo')", "call-tool", "line 1: get_weather is called with arguments that have no name"),
        ("await get_weather(**where)", "call-tool", "line 1: get_weather is called with arguments that have no name"),
        ("await asyncio.gather(first, *rest)", "sync-final", r"line 1: asyncio.gather\(first, \*rest\) has no form"),
        ("await asyncio.sleep(1)", "sync-final", r"line 1: asyncio.sleep\(1\) has no form without coroutines"),
    ],
)
def test_what_cannot_be_said_is_refused(program: str, dialect: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        rewrite(program, dialect, TOOLS)
