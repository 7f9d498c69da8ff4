"""`Runtime.compile`, and the cache of looks at programs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import ConfigurationError, Runtime
from callgate.runtime.fast_path.path import Found, look
from callgate.runtime.fast_path.walker import GraphProgram
from callgate.runtime.run import CodeRun, Looks
from runtime.graphed import World
from runtime.test_fast_path import world

PROGRAM = "a = await look(1)\nb = await look(2)\nn = await note(f'{a} {b}')\nprint(n)\nn + a"


def closed() -> Runtime:
    return Runtime(World().tools(), sandbox=None)


def test_a_program_as_a_plan() -> None:
    compiled = closed().compile(PROGRAM)
    assert (compiled.ok, compiled.reasons) == (True, [])
    assert compiled.plan is not None
    assert [step["tool"] for step in compiled.plan["steps"]] == ["look", "look", "note"]
    assert list(compiled.step_lines.values()) == [1, 2, 3]
    assert list(compiled.step_lines) == [step["id"] for step in compiled.plan["steps"]]
    assert json.loads(json.dumps(compiled.plan)) == compiled.plan
    text = compiled.explain()
    assert "wave 0, 2 steps in parallel" in text
    assert "      line 2: look(2)\n" in text
    assert text.endswith("in the order of the program.")
    assert compiled.explain("mermaid").startswith("flowchart LR\n")
    assert len(json.loads(compiled.explain("json"))["steps"]) == 3
    assert repr(compiled) == "<Compilation: 3 steps>"


def test_a_program_without_calls() -> None:
    compiled = closed().compile("1 + 1")
    assert compiled.ok
    assert compiled.explain().startswith("No calls. ")


def test_reasons_name_their_lines() -> None:
    compiled = closed().compile("import os\na = await look(1)\nwhile True: pass")
    assert (compiled.ok, compiled.plan, compiled.step_lines) == (False, None, {})
    assert [reason.line for reason in compiled.reasons] == [1, 3]
    assert compiled.explain() == "\n".join(map(str, compiled.reasons))
    assert repr(compiled).startswith("<Compilation: no graph: line 1: ")


def test_what_no_plan_says_is_told_and_so_is_what_begins_at_once() -> None:
    compiled = closed().compile("a = await look(1)\nif a > 1:\n    await note('x')\nb = await look(2)")
    assert (compiled.ok, compiled.plan, compiled.reasons, compiled.step_lines) == (True, None, [], {})
    assert str(compiled.no_plan) == "line 2: if: a branch makes calls"
    assert compiled.first_calls == [{"tool": "look", "arguments": {"n": 1}, "line": 1}]
    text = compiled.explain()
    assert text.startswith("It takes the fast path, and no plan shows it: line 2: if: a branch makes calls.\n")
    assert '\nBegins at once:\n  line 1: look {"n": 1}\n' in text
    assert repr(compiled) == "<Compilation: no plan: line 2: if: a branch makes calls>"
    none = closed().compile("if await note('x'):\n    await look(2)")
    assert "\nNo call begins before the program gets there.\n" in none.explain()


def test_a_call_that_the_tool_will_refuse_is_in_no_plan_and_fails_as_in_the_sandbox() -> None:
    compiled = closed().compile("a = await look(1)\nb = await look('x')")
    assert (compiled.ok, compiled.plan) == (True, None)
    assert compiled.no_plan is not None
    assert (compiled.no_plan.line, compiled.no_plan.construct) == (2, "look('x')")


@pytest.mark.parametrize("code", ["x = (", "", "\ufeffawait look(1)", "await look(1\x00)", "x" * 70_000, "\ud800"])
def test_whatever_is_given_there_is_an_answer(code: str) -> None:
    compiled = closed().compile(code)
    assert compiled.ok == (code in ("", "\ufeffawait look(1)"))


def test_tools_and_inputs_are_those_of_a_run() -> None:
    runtime = closed()
    assert not runtime.compile("await note('x')", tools=["look"]).ok
    assert runtime.compile("await look(n)", inputs={"n": 1}).ok
    assert not runtime.compile("await look(n)").ok
    with pytest.raises(ConfigurationError, match="lok"):
        runtime.compile("1", tools=["lok"])
    with pytest.raises(ConfigurationError, match="JSON"):
        runtime.compile("1", inputs={"n": {1}})


def test_the_plan_of_a_compilation_is_its_own() -> None:
    runtime = closed()
    first = runtime.compile(PROGRAM)
    assert first.plan is not None
    first.plan.clear()
    assert runtime.compile(PROGRAM).plan != {}


@pytest.mark.anyio
async def test_cached_looks_are_bounded() -> None:
    runtime = closed()
    few, small = Looks(max_entries=3), Looks(max_bytes=600_000)

    async def found(looks: Looks, code: str) -> Found:
        return await look(CodeRun.of(runtime.gate, code, runtime.limits), looks)

    kept = await found(few, "await look(0)")
    for n in range(1, 10):
        await found(few, f"await look({n})")
        assert await found(few, "await look(0)") is kept
    assert len(few.cache) == 3
    refused = await found(few, "while True: pass")
    assert await found(few, "while True: pass") is refused
    for n in range(30):
        await found(small, f"await look({n})  # {'x' * 300}")
    assert 1 < len(small.cache) < 30
    assert small.cache.bytes <= 600_000
    large = f"await look(1)  # {'x' * 3000}"
    assert await found(small, large) is not await found(small, large)


@pytest.mark.anyio
async def test_a_cached_look_belongs_to_tools_and_inputs() -> None:
    runtime = closed()
    looks = Looks()

    async def found(**options: Any) -> Found:
        return await look(CodeRun.of(runtime.gate, "await look(n)", runtime.limits, **options), looks)

    one = await found(inputs={"n": 1})
    assert isinstance(one, GraphProgram)
    assert await found(inputs={"n": 1}) is one
    assert await found(inputs={"n": [2]}) is one
    assert await found(inputs={"n": 1, "m": 1}) is not one
    assert await found(inputs={"n": 1}, tools=["look"]) is not one


@pytest.mark.anyio
async def test_the_plan_of_a_program_runs_as_a_plan() -> None:
    async with world() as (runtime, made):
        compiled = runtime.compile(PROGRAM)
        assert compiled.plan is not None
        result = await runtime.execute_tool_plan(compiled.plan)
    assert result.ok, result.error
    assert made.notes == ["1 2"]


@pytest.mark.anyio
async def test_what_ran_is_a_plan_that_does_the_same_again() -> None:
    code = (
        "a = await row(1)\nfor n in a.parts:\n    if n > 1:\n        await note(f'part {n}')\n"
        "await note(a.name)\nc = a\nawait note(c['name'])"
    )
    async with world() as (runtime, made):
        result = await runtime.execute_code(code)
        plan = result.plan
        assert plan is not None
        assert plan is result.plan
        first = list(made.notes)
        again = await runtime.execute_tool_plan(json.loads(json.dumps(plan)))
    assert again.ok, again.error
    assert made.notes == first * 2
    steps = plan["steps"]
    assert [step["tool"] for step in steps] == [call.tool for call in result.calls]
    assert [step["arguments"] for step in steps if step["tool"] == "note"][-2:] == [
        {"text": {"$ref": "row_1.name"}}
    ] * 2


@pytest.mark.anyio
@pytest.mark.parametrize("rounds", [1_000, 1_001])
async def test_the_plan_of_what_ran_has_at_most_a_thousand_steps(rounds: int) -> None:
    async with world() as (runtime, _):
        result = await runtime.execute_code(f"for i in range({rounds}):\n    await echo(i)")
    plan = result.plan
    assert (plan is None) == (rounds > 1_000)
    assert plan is None or len(plan["steps"]) == 1_000


@pytest.mark.anyio
async def test_the_plan_of_a_program_that_failed_has_what_it_called() -> None:
    async with world() as (runtime, _):
        result = await runtime.execute_code("a = await look(1)\nb = await fail('no')\nc = await look(2)")
    assert not result.ok
    assert result.plan is not None
    assert [step["tool"] for step in result.plan["steps"]] == ["look", "fail"]


@pytest.mark.anyio
async def test_a_name_that_a_loop_binds_anew_is_no_reference_to_what_it_was() -> None:
    async with world() as (runtime, _):
        result = await runtime.execute_code("for n in [1, 2]:\n    await echo(n)\n    n = await echo(n + 10)")
    assert result.plan is not None
    assert [step["arguments"]["value"] for step in result.plan["steps"]] == [1, 11, 2, 12]
