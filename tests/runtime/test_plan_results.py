"""What a plan's result says: to the model, in bounds; to people and programs, whole."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import PlanFault, PlanResult, RunError, StepResult
from runtime.planned import world
from runtime.test_plans import step

pytestmark = pytest.mark.anyio


async def run(*steps: dict[str, Any], **fields: Any) -> PlanResult:
    async with world() as (runtime, _):
        return await runtime.execute_tool_plan({"steps": list(steps), **fields})


async def test_the_text_for_the_model_has_a_line_for_each_step_and_only_the_outputs() -> None:
    result = await run(
        step("s1", "fail", arguments={}),
        step("s2", arguments={"key": "k", "value": {"a": [1, 2]}}),
        step("s3", depends_on="s1"),
        step("s4", arguments={"key": "$ref:s2.b"}),
        output_steps=["s2", "s3"],
    )
    assert result.for_model().splitlines() == [
        "1/4 steps succeeded.",
        "- s1 (fail): failed: no luck",
        "- s2 (get): succeeded",
        "- s3 (get): Skipped because dependency 's1' failed",
        "- s4 (get): failed: tool 'get': argument 'key' must be a valid string, got null "
        "($ref:s2.b leads nowhere, null was put there: 's2' has the keys: a)",
        "Outputs:",
        's2: {"a":[1,2]}',
    ]


async def test_long_outputs_are_cut_with_their_bytes_and_the_result_is_whole() -> None:
    result = await run(step("a", arguments={"key": "ä" * 50_000}), step("b", arguments={"key": "short"}))
    text = result.for_model(2000)
    assert len(text) < 2500
    assert "of 100000 bytes left out" in text
    assert text.endswith("b: short")
    assert result.outputs["a"] == "ä" * 50_000
    assert result.truncated == ()


async def test_many_steps_and_many_outputs_fit_into_the_text() -> None:
    result = await run(*[step(f"s{n}") for n in range(2000)], step("bad", "fail", arguments={}))
    text = result.for_model(4000)
    assert len(text) < 6000
    assert text.startswith("2000/2001 steps succeeded.\n- bad (fail): failed: no luck\n- ... 2000 more steps")
    assert "more outputs left out" in text


async def test_text_for_the_model_can_always_be_sent() -> None:
    result = await run(step("\ud83d"[:0] + "a", arguments={"key": "fine"}))
    result.for_model().encode()
    odd = PlanResult(
        ok=False,
        steps=[StepResult(id="a\ud800", tool="t", status="failed", wave=0, error="\udfff\nsecond line")],
        error=RunError("StepFailed", "x"),
    )
    assert odd.for_model().encode().count(b"\n") == 1


async def test_a_refusal_tells_every_fault_and_what_to_do() -> None:
    result = await run(step("a", "gett"), step("b", arguments={"key": 5}))
    assert result.for_model().splitlines() == [
        "The plan was not run: 2 faults. Correct them and send it again.",
        "- step 'a' (steps[0].tool): there is no tool 'gett'; did you mean get?",
        "- step 'b' (steps[1].arguments.key): argument 'key' must be a valid string, got 5 (a number)",
    ]
    assert result.error is not None
    assert result.error.message.endswith("(and 1 more)")
    assert (result.steps, result.outputs, result.calls, result.plan) == ([], {}, [], None)


async def test_the_artifact_has_arguments_timing_and_raw_results_and_is_json() -> None:
    result = await run(
        step("a", arguments={"key": "k", "value": 2**53 + 1}),
        step("b", arguments='{"key": "${a}", "value": "$ref:a"}'),
        step("c", for_each=[1, 2], arguments={"key": "$item.x"}, on_item_error="null"),
        goal="a goal",
    )
    told = json.loads(json.dumps(result.to_dict()))
    by_id = {each["id"]: each for each in told["steps"]}
    assert by_id["b"]["arguments"] == {"key": str(2**53 + 1), "value": 2**53 + 1}
    assert by_id["b"]["result"] == 2**53 + 1
    assert (by_id["b"]["wave"], by_id["b"]["needs"], by_id["b"]["attempts"]) == (1, ["a"], 1)
    assert by_id["a"]["started_seconds"] <= by_id["b"]["started_seconds"]
    assert by_id["b"]["duration_seconds"] > 0
    assert by_id["c"]["status"] == "failed"  # every item failed
    assert told["goal"] == "a goal"
    assert told["plan"]["steps"][1]["arguments"] == {"key": "${a}", "value": "$ref:a"}
    assert told["usage"]["tool_calls"] == len(told["calls"]) == 4
    assert told["error"]["kind"] == "StepFailed"


async def test_a_result_is_a_copy_each_time() -> None:
    result = await run(step("a", arguments={"key": "k", "value": [1]}))
    result.steps[0].result.append(2)
    assert result.steps[0].result == result.outputs["a"] == [1]
    with pytest.raises(KeyError):
        result.step("b")


async def test_it_explains_itself_in_three_forms() -> None:
    result = await run(
        step("a"), step("b", arguments={"key": "$ref:a"}), step('c"]<b>', "fail", arguments={}), output_steps=["b"]
    )
    text = result.explain()
    assert "wave 0, 2 steps in parallel" in text
    assert "waits for a" in text
    assert "outputs: b" in text
    assert json.loads(result.explain("json"))["steps"][1]["needs"] == ["a"]
    drawing = result.explain("mermaid")
    assert drawing.startswith("flowchart LR")
    assert "s0 --> s1" in drawing
    assert "c#34;#93;#60;b#62;" in drawing
    with pytest.raises(ValueError, match="there are: text, json, mermaid"):
        result.explain("dot")  # type: ignore[arg-type]


async def test_a_plan_is_explained_and_checked_without_running() -> None:
    async with world() as (runtime, made):
        plan = {"steps": [step("a"), step("b", "put", arguments={"key": "$ref:a"}, when="$ref:a")], "goal": "g"}
        assert runtime.explain_plan(plan).splitlines() == [
            "goal: g",
            "wave 0",
            '  a: get(key="a")',
            "wave 1",
            '  b: put(key="$ref:a")',
            '      when: "$ref:a"',
            "      waits for a",
        ]
        assert runtime.check_plan(plan) == []
        (fault,) = runtime.check_plan({"steps": [step("a", "nope")]})
        assert isinstance(fault, PlanFault)
        assert fault.code == "unknown-tool"
        assert runtime.explain_plan({"steps": [step("a", "nope")]}).startswith("step 'a' (steps[0].tool): there is no")
        assert made.log == []


async def test_a_small_space_still_gives_a_sensible_text() -> None:
    result = await run(step("a", arguments={"key": "x" * 1000}))
    assert result.for_model(50).startswith("1/1 steps succeeded.")
