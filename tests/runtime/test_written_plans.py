"""Plans that a model begins to write, and then writes otherwise: the finished plan runs as if nothing had begun."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Event, Limits, PlanResult, Runtime, StepEnded, StepStarted
from callgate.runtime.plans.writing import PlanWriting
from runtime.planned import World, world
from runtime.test_plans import step

pytestmark = pytest.mark.anyio


def receive(writing: PlanWriting, *steps: Any) -> None:
    for piece in json.dumps({"steps": steps})[:-2].split(" "):
        writing.receive(f"{piece} ")


async def logged(made: World, words: str) -> None:
    with anyio.fail_after(10):
        while words not in made.log:  # noqa: ASYNC110 (the log tells nobody)
            await anyio.sleep(0.001)


async def rewritten(
    runtime: Runtime,
    made: World,
    first: Any,
    until: str,
    second: Any,
    limits: Limits | None = None,
    events: list[Event] | None = None,
) -> PlanResult:
    """Write `first` until the log has `until`, break off, and finish with `second`."""
    events = [] if events is None else events
    async with runtime._writing_plan(None, limits or runtime.limits, events.append, None, None) as writing:
        receive(writing, first)
        await logged(made, until)
        writing.restart()
        with anyio.fail_after(10):
            result = await writing.finish({"steps": second})
        assert {call.status for call in result.calls}.isdisjoint({"pending", "running"})
        return result


async def test_a_read_that_the_finished_plan_has_not_got_holds_no_place() -> None:
    async with world() as (runtime, made):
        limits = Limits(max_concurrent_calls=1)
        result = await rewritten(runtime, made, step("a", "wait"), "wait a", [step("b")], limits)
    assert result.ok, result.error
    assert made.log == ["wait a", "end a", "get b"]
    assert [(call.tool, call.status) for call in result.calls] == [("wait", "cancelled"), ("get", "succeeded")]


async def test_a_read_behind_a_step_that_was_written_otherwise_holds_no_place() -> None:
    async with world() as (runtime, made):
        behind = step("b", "wait", depends_on="a")
        async with runtime._writing_plan(None, Limits(max_concurrent_calls=1), None, None, None) as writing:
            receive(writing, step("a"), behind)
            await logged(made, "wait b")
            with anyio.fail_after(10):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(writing.finish, {"steps": [step("a", arguments={"key": "new"}), behind]})
                    await logged(made, "get new")
                    made.gate("b").set()
    assert sorted(made.log[:4]) == ["end b", "get a", "get new", "wait b"]
    assert made.log[4:] == ["wait b", "end b"]


async def test_a_read_behind_a_step_that_has_an_effect_now_is_made_anew() -> None:
    async with world() as (runtime, made):
        behind = step("b", depends_on="a")
        async with runtime._writing_plan(None, runtime.limits, None, None, None) as writing:
            receive(writing, step("a"), behind)
            await logged(made, "get b")
            writing.restart()
            result = await writing.finish({"steps": [step("a", "put"), behind]})
    assert result.ok, result.error
    assert made.log == ["get a", "get b", "put a", "get b"]


async def test_calls_for_a_text_that_was_written_otherwise_do_not_count() -> None:
    async with world() as (runtime, made):
        result = await rewritten(runtime, made, step("a"), "get a", [step("b")], Limits(max_tool_calls=1))
    assert result.ok, result.error
    assert made.log == ["get a", "get b"]


@pytest.mark.parametrize("change", [{"retry": {"attempts": 2}}, {"fallback": "get"}, {"timeout_seconds": 9}])
async def test_a_step_whose_call_is_to_be_made_in_another_way_is_made_anew(change: Any) -> None:
    async with world() as (runtime, made):
        made.failures["a"] = 3  # attempts of the tool's own
        result = await rewritten(runtime, made, step("a", "flaky"), "flaky a", [step("a", "flaky", **change)])
    (ended,) = result.steps
    assert ended.status == "succeeded"
    assert not result.calls[ended.calls[0] - 1].early


async def test_each_step_of_the_finished_plan_starts_before_it_ends() -> None:
    events: list[Event] = []
    async with world() as (runtime, made):
        await rewritten(runtime, made, step("a"), "get a", [step("b")], events=events)
    told = [each for each in events if isinstance(each, StepStarted | StepEnded)]
    assert [each.id if isinstance(each, StepStarted) else each.step.id for each in told] == ["a", "b", "b"]


async def test_a_limit_that_an_early_call_reaches_ends_the_plan_as_any_limit() -> None:
    plan = [step("a", "wait", fallback="get", timeout_seconds=0.2, retry=1)]
    found = []
    async with world() as (runtime, made):
        limits = Limits(max_tool_calls=1)
        async with runtime._writing_plan(None, limits, None, None, None) as writing:
            receive(writing, *plan)
            await logged(made, "wait a")
            with anyio.fail_after(10):
                found.append(await writing.finish({"steps": plan}))
        assert made.log == ["wait a", "end a"]
        found.append(await runtime.execute_tool_plan({"steps": plan}, limits=limits))
    early, plain = [(each.error, each.steps[0].status, [call.status for call in each.calls]) for each in found]
    assert early == plain


async def test_half_a_character_begins_nothing() -> None:
    async with world() as (runtime, made), runtime._writing_plan(None, runtime.limits, None, None, None) as writing:
        writing.receive('{"steps": [{"id": "a", "tool": "get", "arguments": {"key": "\ud83d')
        writing.receive('\ude00"}}, ')
        await anyio.wait_all_tasks_blocked()
        assert made.log == []
        result = await writing.finish({"steps": [step("a", arguments={"key": "😀"})]})
    assert result.ok
    assert made.log == ["get 😀"]


async def test_the_audit_log_says_that_a_finished_plan_was_cancelled(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    async with world(audit=path) as (runtime, _), runtime._writing_plan(None, None, None, None, None) as writing:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await writing.finish({"steps": [step("a")]})
    (ended,) = [line for line in map(json.loads, path.read_text().splitlines()) if line["kind"] == "run_ended"]
    assert (ended["ok"], ended.get("error")) in ((False, "CancelledError"), (False, "Cancelled"))


async def test_a_second_opinion_that_was_asked_for_early_is_no_item_of_its_own() -> None:
    fallback = {"tool": "think", "condition": "on_low_confidence"}
    plan = [step("a", "guess", for_each=[1, 2], arguments={"value": "${item}", "confidence": 0.1}, fallback=fallback)]
    async with world() as (runtime, made):
        async with runtime._writing_plan(None, runtime.limits, None, None, None) as writing:
            receive(writing, *plan)
            while made.log.count("think") < 2:  # noqa: ASYNC110 (the log tells nobody)
                await anyio.sleep(0.001)
            early = await writing.finish({"steps": plan})
        plain = await runtime.execute_tool_plan({"steps": plan})
    assert all(call.early for call in early.calls)
    assert early.steps[0].arguments == plain.steps[0].arguments
    assert early.steps[0].result_json == plain.steps[0].result_json


async def test_nothing_begins_of_a_text_that_is_longer_than_a_plan_may_be() -> None:
    limits = Limits(max_message_bytes=2000)
    async with world() as (runtime, made), runtime._writing_plan(None, limits, None, None, None) as writing:
        receive(writing, step("a"), step("b", "put", arguments={"key": "k " * 1000}), step("c"))
        await anyio.wait_all_tasks_blocked()
        assert "get c" not in made.log
        result = await writing.finish({"steps": [step("a", arguments={"key": "k " * 1000})]})
    assert result.error is not None
    assert result.error.kind == "PlanRefused"


async def test_no_call_is_made_early_with_a_value_that_the_plan_may_still_call_missing() -> None:
    steps = [step("a"), step("b", arguments={"key": "b", "value": "$ref:a.no.such"}), step("c", arguments={"key": "c"})]
    for rule, status, last in (("error", "failed", []), ("null", "succeeded", ["get b"])):
        async with world() as (runtime, made), runtime._writing_plan(None, None, None, None, None) as writing:
            receive(writing, *steps)
            await logged(made, "get a")
            await logged(made, "get c")
            result = await writing.finish({"steps": steps, "missing": rule})
        assert result.steps[1].status == status
        assert sorted(made.log) == sorted(["get a", "get c", *last])
