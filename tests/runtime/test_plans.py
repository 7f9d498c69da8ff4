"""Plans through the runtime: order, failure, fallbacks, maps and conditions, all by the one gate."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate import Allow, ConfigurationError, Deny, Limits, PlanResult, Retry, Runtime, tool
from callgate.runtime.gate.attempts import retry_for
from runtime.planned import world

pytestmark = pytest.mark.anyio


def step(id: str, tool: str = "get", /, **fields: Any) -> dict[str, Any]:
    """A step; arguments that are not given otherwise are its id as the key."""
    return {"id": id, "tool": tool, "arguments": fields.pop("arguments", {"key": id}), **fields}


def statuses(result: PlanResult) -> dict[str, str]:
    return {each.id: each.status for each in result.steps}


async def test_a_step_starts_when_its_own_inputs_are_there_not_when_a_wave_is_complete() -> None:
    async with world() as (runtime, made):
        steps = [
            step("fast", "wait"),
            step("slow", "wait"),
            step("next", arguments={"key": "next", "value": "$ref:fast"}),
        ]
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.execute_tool_plan, {"steps": steps})
                made.gate("fast").set()
                while "get next" not in made.log:  # noqa: ASYNC110 (the log tells nobody)
                    await anyio.sleep(0.001)
                assert "end slow" not in made.log
                made.gate("slow").set()


async def test_independent_steps_run_at_the_same_time_up_to_the_limit() -> None:
    async with world() as (runtime, made):
        for limit, most in ((64, 5), (2, 2)):
            made.most = 0
            made.gates.clear()
            with anyio.fail_after(10):
                async with anyio.create_task_group() as tasks:
                    limits = Limits(max_concurrent_calls=limit)
                    plan = {"steps": [step(f"s{n}", "wait") for n in range(5)]}
                    tasks.start_soon(lambda plan, limits: runtime.execute_tool_plan(plan, limits=limits), plan, limits)
                    while made.running < most:  # noqa: ASYNC110
                        await anyio.sleep(0.001)
                    for n in range(5):
                        made.gate(f"s{n}").set()
            assert made.most == most


async def test_failure_goes_forward_and_names_the_root_cause() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_tool_plan(
            {
                "steps": [
                    step("s1", "fail", arguments={}),
                    step("s2"),
                    step("s3", arguments={"key": "$ref:s1"}),
                    step("s4", depends_on=["s3"]),
                ],
                "output_steps": ["s2", "s3"],
            }
        )
    assert statuses(result) == {"s1": "failed", "s2": "succeeded", "s3": "skipped", "s4": "skipped"}
    assert result.outputs == {"s2": "s2"}
    assert result.step("s3").error == "Skipped because dependency 's1' failed"
    assert result.step("s4").error == "Skipped because dependency 's3' was skipped: 's1' failed"
    assert [each.cause for each in result.steps] == [None, None, "s1", "s1"]
    assert result.error is not None
    assert (result.ok, result.error.kind, result.error.tool) == (False, "StepFailed", "fail")
    assert made.log == ["fail no luck", "get s2"]


async def test_a_tool_with_side_effects_is_never_tried_again_whatever_the_plan_says() -> None:
    async with world() as (runtime, made):
        plan = {"steps": [step("s1", "fail", arguments={}, retry={"attempts": 5, "backoff_seconds": 0})]}
        result = await runtime.execute_tool_plan(plan)
    assert made.log == ["fail no luck"]
    assert (result.steps[0].attempts, result.steps[0].status) == (1, "failed")
    assert [fault.code for fault in result.faults] == ["no-effect"]


async def test_a_tool_that_may_be_repeated_is_tried_again() -> None:
    async with world() as (runtime, made):
        made.failures["s1"] = made.failures["s2"] = 2
        plan = {"steps": [step("s1", "flaky"), step("s2", "flaky", retry=2), step("s3", "flaky", retry=False)]}
        for each in plan["steps"][1:]:
            if each["retry"] == 2:
                each["retry"] = {"attempts": 2, "backoff_seconds": 0}
        made.failures["s3"] = 1
        result = await runtime.execute_tool_plan(plan)
    assert statuses(result) == {"s1": "succeeded", "s2": "failed", "s3": "failed"}
    assert [each.attempts for each in result.steps] == [3, 2, 1]


async def test_reads_have_three_attempts_in_a_plan_by_default() -> None:
    async with world() as (runtime, _):
        get, put = runtime.registry.get("get"), runtime.registry.get("put")
        assert get.retry is None
        asked = [retry_for(get, None, "plan"), retry_for(put, None, "plan"), retry_for(get, None, "code")]
        assert asked == [Retry(), None, None]


async def test_a_timeout_of_a_tool_with_side_effects_has_an_unknown_outcome() -> None:
    async with world() as (runtime, made):
        plan = {
            "steps": [
                step("s1", "hang", timeout_seconds=0.05),
                step("s2", "wait", timeout_seconds=0.05, retry=1),
                step("s3", depends_on="s1"),
                step("s4"),
            ]
        }
        with anyio.fail_after(10):
            result = await runtime.execute_tool_plan(plan)
    assert [each.status for each in result.steps] == ["unknown_outcome", "failed", "skipped", "succeeded"]
    assert result.step("s3").error == "Skipped because the outcome of dependency 's1' is unknown"
    assert "outcome is unknown" in str(result.step("s1").error)
    assert "outcome unknown" in result.for_model()
    assert made.log.count("hang s1") == made.log.count("gone s1") == 1


async def test_a_fallback_is_called_after_a_failure_with_the_same_arguments() -> None:
    async with world() as (runtime, made):
        made.failures["a"] = 9
        plan = {"steps": [step("a", "flaky", fallback="get"), step("b", arguments={"key": "$ref:a"})]}
        result = await runtime.execute_tool_plan(plan)
    assert result.ok
    assert (result.steps[0].fallback, result.steps[0].result, result.steps[0].attempts) == ("get", "a", 4)
    assert len(result.steps[0].calls) == 2
    assert "succeeded: from fallback get" in result.for_model()


@pytest.mark.parametrize(
    ("value", "confidence", "given", "words"),
    [
        ("x", 0.9, {"value": "x", "confidence": 0.9}, ""),
        ("x", 0.3, {"value": "thought x", "confidence": 0.9}, "confidence 0.3 is below 0.5"),
        ("vague", 0.3, {"value": "vague", "confidence": 0.3}, "less confident"),
        ("too hard", 0.3, {"value": "too hard", "confidence": 0.3}, "the fallback failed: it is too hard"),
    ],
)
async def test_a_fallback_on_low_confidence(value: str, confidence: float, given: Any, words: str) -> None:
    async with world() as (runtime, _):
        fallback = {"tool": "think", "condition": "on_low_confidence", "threshold": 0.5}
        arguments = {"value": value, "confidence": confidence}
        plan = {"steps": [{"id": "s", "tool": "guess", "parameters": arguments, "fallback": fallback}]}
        result = await runtime.execute_tool_plan(plan)
        mapped = await runtime.execute_tool_plan({"steps": [{**plan["steps"][0], "for_each": [1, 2]}]})
    assert result.outputs == {"s": given}
    assert words in " ".join(result.steps[0].warnings)
    assert mapped.outputs == {"s": [given, given]}


async def test_maps_conditions_sequences_and_copies_are_wired_as_the_engine_has_them() -> None:
    """The rules are tests of the engine; here each of them goes once through the runtime and the gate."""
    mapped = {"for_each": ["a", "b", "c"], "arguments": {"key": "$item"}}
    steps = [
        step("list", arguments={"key": "", "value": {"items": [{"name": name} for name in "abcd"], "no": []}}),
        step("all", for_each="$ref:list.items", arguments={"key": "$item.name", "value": "$index"}),
        step("text", for_each="$ref:all", arguments={"key": "${item} of ${list.items[0].name}"}),
        step("many", for_each="$ref:list.items", max_items=3, arguments={"key": "x"}),
        step("failing", "flaky", **mapped),
        step("nulls", "flaky", **mapped, on_item_error="null"),
        step("after", depends_on="failing"),
        step("no", when="$ref:list.no"),
        step("needs_no", depends_on=["no"]),
        step("yes", when={"$expr": "not list['no'] and all[1] == 1"}),
        step("changed", "mutate", arguments={"value": "$ref:list"}),
        step("kept", depends_on="changed", arguments={"key": "kept", "value": "$ref:list.no"}),
        step("first", "fail", arguments={}, executionMode="sequential"),
        step("second", executionMode="sequential"),
    ]
    async with world() as (runtime, made):
        made.failures["b"] = 9
        result = await runtime.execute_tool_plan({"steps": steps}, limits=Limits(max_concurrent_calls=2))
    outputs, told = result.outputs, {each.id: each.error for each in result.steps if each.error}
    assert (outputs["all"], outputs["text"]) == ([0, 1, 2, 3], [f"{n} of a" for n in range(4)])
    assert (result.step("all").items, result.step("all").attempts, len(result.step("all").calls)) == (4, 4, 4)
    assert result.step("all").arguments[2] == {"key": "c", "value": 2}
    assert (outputs["nulls"], outputs["yes"], outputs["kept"]) == (["a", None, "c"], "yes", [])
    assert result.step("nulls").warnings == ("1 of 3 items failed and are null: item 1: b is not ready",)
    assert told == {
        "many": "for_each has 4 items, more than max_items, which is 3; map over fewer of them, or set max_items on "
        "the step",
        "failing": "1 of 3 items failed: item 1: b is not ready",
        "after": "Skipped because dependency 'failing' failed",
        "no": "Skipped because its condition is false",
        "needs_no": "Skipped because dependency 'no' was skipped: its condition is false",
        "first": "no luck",
    }
    assert made.log.index("fail no luck") < made.log.index("get second")
    assert not {"get no", "get x", "get after"} & set(made.log)
    assert "failed: 2 of 3 items succeeded: " in result.for_model()


async def test_a_critical_step_that_fails_stops_what_has_not_begun() -> None:
    async with world() as (runtime, made):
        plan = {
            "steps": [
                step("run", "wait"),
                step("bad", "fail", arguments={}, critical=True),
                step("later", depends_on="run"),
                step("maybe", "fail", arguments={"why": "harmless"}),
            ]
        }
        made.gate("run")
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                found: list[PlanResult] = []

                async def go() -> None:
                    found.append(await runtime.execute_tool_plan(plan))

                tasks.start_soon(go)
                while "fail no luck" not in made.log:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
                made.gate("run").set()
    assert statuses(found[0])["run"] == "succeeded"
    assert found[0].step("later").error == "Skipped because the critical step 'bad' failed"
    assert found[0].step("later").cause == "bad"


async def test_approval_holds_for_plans() -> None:
    for answer, status in ((Allow(), "succeeded"), (Deny("not today"), "failed")):

        async def approve(request: Any, answer: Any = answer) -> Any:
            assert request.caller == "plan"
            return answer

        async with world(approve=approve) as (runtime, made):
            result = await runtime.execute_tool_plan({"steps": [step("s", "erase")]})
        assert result.steps[0].status == status
        assert made.log == (["erase s"] if status == "succeeded" else [])


async def test_a_tool_that_is_not_for_plans_is_refused_before_anything_runs() -> None:
    async with world() as (runtime, made):
        result = await runtime.execute_tool_plan({"steps": [step("a"), step("b", "private", arguments={})]})
        only = await runtime.execute_tool_plan({"steps": [step("a")]}, tools=["put"])
        nothing = await runtime.execute_tool_plan({"steps": [step("a")]}, tools=[])
        with pytest.raises(ConfigurationError, match="does not exist"):
            await runtime.execute_tool_plan({"steps": [step("a")]}, tools=["nope"])
    assert result.error is not None
    assert result.error.kind == "PlanRefused"
    assert "tool 'private' may not be called by plan; it is for: direct" in result.for_model()
    assert "not among the tools that this run may call" in only.for_model()
    assert nothing.steps == []
    assert made.log == []


async def test_a_runtime_without_a_sandbox_runs_plans_and_what_needs_none() -> None:
    async with world() as (runtime, _):
        assert (await runtime.execute_tool_plan({"steps": [step("a")]})).ok
        with pytest.raises(ConfigurationError, match="sandbox=None"):
            await runtime.execute_code("1", path="sandbox")
        with pytest.raises(ConfigurationError, match="sandbox=None"):
            async with runtime.session():
                pass
    with pytest.raises(ConfigurationError, match="left already"):
        await runtime.execute_tool_plan({"steps": [step("a")]})
    with pytest.raises(ConfigurationError, match="enter the runtime"):
        await Runtime([]).execute_tool_plan({"steps": []})


async def test_a_model_gets_text_for_its_call_of_execute_tool_plan() -> None:
    async with world() as (runtime, _):
        text = await runtime.handle("execute_tool_plan", {"steps": [step("a")]})
        assert text == "1/1 steps succeeded.\n- a (get): succeeded\nOutputs:\na: a"
        text = await runtime.handle("execute_tool_plan", {"plan": '{"steps": [{"tool": "get", "args": {"key": "k"}}]}'})
        assert text.endswith("Outputs:\nsteps[0]: k")
        text = await runtime.handle("execute_tool_plan", {"plan": "not json at all {{"})
        assert text.startswith("The plan was not run: 1 fault.")
        assert "is not JSON" in text


async def test_a_large_plan_of_quick_calls_does_not_gather_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgate.runtime.driver.TURN_SECONDS", 0.0005)
    tasks: list[int] = []

    @tool(read_only=True)
    async def quick(n: int) -> int:
        if n % 50 == 0:
            tasks.append(len(anyio.get_running_tasks()))
        return n

    async with Runtime([quick], sandbox=None) as runtime:
        steps = [{"id": f"s{n}", "tool": "quick", "arguments": {"n": n}} for n in range(3_000)]
        result = await runtime.execute_tool_plan({"steps": steps, "output_steps": ["s1"]})
    assert (result.ok, len(result.calls)) == (True, 3_000)
    assert max(tasks) < 30
