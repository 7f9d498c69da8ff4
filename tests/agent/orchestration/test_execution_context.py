"""What a tool may know of the plan that it runs in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from agent.orchestration.orchestrated import QUICK, orchestrator, plan, step
from callgate import tool
from callgate.agent.models.model import User
from callgate.agent.orchestration.context import execution_context
from callgate.agent.planning.tool_plan import ExecutionContext, ToolResult

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _in_time() -> AsyncIterator[None]:
    with anyio.fail_after(20):
        yield


def seen() -> dict[str, Any] | None:
    context = execution_context()
    if context is None:
        return None
    return {
        "plan": context.plan_id,
        "results": {name: result.data for name, result in context.previous_results.items()},
        "history": [each.text for each in context.history if isinstance(each, User)],
        "metadata": dict(context.metadata),
        "started": context.started > 0,
    }


@tool(read_only=True)
async def look() -> dict[str, Any] | None:
    """What an async tool sees."""
    return seen()


@tool(read_only=True)
def look_in_a_thread() -> dict[str, Any] | None:
    """What a sync tool sees."""
    return seen()


@tool(read_only=True)
async def give(value: int) -> int:
    """Give it."""
    return value


async def test_sequential_steps_see_the_results_of_earlier_ones_in_async_and_sync_tools() -> None:
    context = ExecutionContext(
        plan_id="not this",
        previous_results={"before": ToolResult(step_id="before", tool="x", success=True, data=0)},
        history=(User(text="hello"),),
        metadata={"tenant": "a"},
    )
    async with orchestrator([look, look_in_a_thread, give]) as made:
        execution = await made.execute(
            plan(
                step("one", "give", parameters={"value": 1}),
                step("async", "look", execution_mode="sequential"),
                step("sync", "look_in_a_thread", execution_mode="sequential"),
                id="p7",
            ),
            context=context,
        )
    _one, first, second = execution.results
    told = {"plan": "p7", "history": ["hello"], "metadata": {"tenant": "a"}, "started": True}
    assert first.data == {**told, "results": {"before": 0, "one": 1}}
    assert second.data == {**told, "results": {"before": 0, "one": 1, "async": first.data}}


async def test_results_come_in_while_a_step_runs() -> None:
    there = anyio.Event()

    @tool(read_only=True)
    async def watch() -> list[list[str]]:
        """What is there at first, and later."""
        context = execution_context()
        assert context is not None
        before = sorted(context.previous_results)
        await there.wait()
        return [before, sorted(context.previous_results)]

    def listen(event: Any) -> None:
        if type(event).__name__ == "StepEnded" and event.step.id == "other":
            there.set()

    async with orchestrator([watch, give]) as made:
        execution = await made.execute(
            plan(
                step("first", "give", parameters={"value": 1}),
                step("w", "watch", dependencies=("first",)),
                step("other", "give", parameters={"value": 2}, dependencies=("first",)),
            ),
            on_event=listen,
        )
    assert execution.results[1].data == [["first"], ["first", "other"]]


async def test_a_failed_step_is_seen_too() -> None:
    @tool(read_only=True)
    async def check() -> dict[str, Any]:
        """Which steps failed."""
        context = execution_context()
        assert context is not None
        return {name: each.error for name, each in context.previous_results.items()}

    async with orchestrator([check, give], QUICK) as made:
        execution = await made.execute(
            plan(
                step("good", "give", parameters={"value": 1}),
                step("bad", "give", parameters={"value": {"$ref": "good.nowhere"}}),
                step("c", "check", after=("bad",)),
            )
        )
    assert execution.failed_steps == ("bad",)
    assert execution.results[2].data == {"good": None, "bad": execution.results[1].error}


async def test_plans_at_the_same_time_see_each_their_own() -> None:
    both = anyio.Event()
    names: list[str] = []
    ids: dict[str, str] = {}

    @tool
    async def who(q: str) -> str:
        """The plan, once both run."""
        names.append(q)
        if len(names) == 2:
            both.set()
        await both.wait()
        context = execution_context()
        assert context is not None
        return context.plan_id

    async with orchestrator([who]) as made:

        async def run(id: str) -> None:
            ids[id] = (await made.execute(plan(step("a", "who", q=id), id=id))).results[0].data

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "one")
            tasks.start_soon(run, "two")
    assert ids == {"one": "one", "two": "two"}


async def test_a_step_alone_sees_the_context_it_was_given() -> None:
    context = ExecutionContext(
        plan_id="p3",
        previous_results={"before": ToolResult(step_id="before", tool="x", success=True, data=0)},
        history=(User(text="hello"),),
    )
    async with orchestrator([look]) as made:
        result = await made.execute_step(step("a", "look"), context)
    assert result.data["plan"] == "p3"
    assert result.data["results"] == {"before": 0}


async def test_a_tool_outside_of_a_plan_has_no_context_also_after_one() -> None:
    async with orchestrator([look, look_in_a_thread]) as made:
        assert (await made.execute(plan(step("a", "look")))).results[0].data is not None
        assert execution_context() is None
        for name in ("look", "look_in_a_thread"):
            result = await made._runtime.execute_tool_plan({"steps": [{"id": "a", "tool": name}]})
            assert result.outputs == {"a": None}


async def test_nothing_is_kept_of_a_tool_that_asked_whose_plan_it_runs_in() -> None:
    async with orchestrator([look, give]) as made:
        for id in ("mine", "yours"):
            execution = await made.execute(plan(step("a", "look"), step("b", "give", parameters={"value": 1}), id=id))
            assert execution.results[0].data["plan"] == id
            assert [each.cached for each in execution.results] == [False, id == "yours"]
