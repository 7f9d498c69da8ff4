"""`Runtime.compile`, and what is kept of programs that were looked at."""

from __future__ import annotations

import json

import pytest

from callgate import ConfigurationError, Runtime
from callgate.runtime.fast_path.looking import GraphProgram, GraphPrograms
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


def test_a_call_that_the_tool_will_refuse_is_a_reason() -> None:
    compiled = closed().compile("a = await look(1)\nb = await look('x')")
    assert [reason.line for reason in compiled.reasons] == [2]
    assert "look('x')" in str(compiled.reasons[0])


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


def test_what_is_kept_is_bounded() -> None:
    runtime = closed()
    few, small = GraphPrograms(max_entries=3), GraphPrograms(max_bytes=600_000)

    def look(programs: GraphPrograms, code: str) -> object:
        return programs.look_at_once(runtime._programs.prepare(code, runtime.limits))

    kept = look(few, "await look(0)")
    for n in range(1, 10):
        look(few, f"await look({n})")
        assert look(few, "await look(0)") is kept
    assert len(few.kept) == 3
    refused = look(few, "while True: pass")
    assert look(few, "while True: pass") is refused
    for n in range(30):
        look(small, f"await look({n})  # {'x' * 300}")
    assert 1 < len(small.kept) < 30
    assert small.kept.bytes <= 600_000
    large = f"await look(1)  # {'x' * 3000}"
    assert look(small, large) is not look(small, large)


def test_what_is_kept_belongs_to_tools_and_inputs() -> None:
    runtime = closed()
    programs = GraphPrograms()

    def look(**options: object) -> object:
        return programs.look_at_once(runtime._programs.prepare("await look(n)", runtime.limits, **options))  # type: ignore[arg-type]

    one = look(inputs={"n": 1})
    assert isinstance(one, GraphProgram)
    assert look(inputs={"n": 1}) is one
    assert look(inputs={"n": True}) is not one
    assert look(inputs={"n": 1.0}) is not one
    assert look(inputs={"n": 1}, tools=["look"]) is not one
    large = look(inputs={"n": "x" * 5000})
    assert look(inputs={"n": "x" * 5000}) is large
    assert look(inputs={"n": "y" * 5000}) is not large


@pytest.mark.anyio
async def test_the_plan_of_a_program_runs_as_a_plan() -> None:
    async with world() as (runtime, made):
        compiled = runtime.compile(PROGRAM)
        assert compiled.plan is not None
        result = await runtime.execute_tool_plan(compiled.plan)
    assert result.ok, result.error
    assert made.notes == ["1 2"]
