"""A plan ended in the middle: now, from anywhere in the event loop, and with nothing left of it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator

import anyio
import anyio.from_thread
import pytest

from agent.orchestration.orchestrated import Noted, data, errors, orchestrator, plan, step
from callgate import tool
from callgate.agent.planning.tool_plan import ToolExecution

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _in_time() -> AsyncIterator[None]:
    with anyio.fail_after(20):
        yield


class Work:
    """Tools that end at once, or only when they are given up."""

    def __init__(self) -> None:
        self.running = 0
        self.begun = anyio.Event()
        self.quick = 0

    async def now(self, q: str) -> str:
        """Answer at once."""
        self.quick += 1
        return q

    async def never(self, q: str) -> str:
        """Run until it is given up."""
        self.running += 1
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.running -= 1
        return q


async def test_a_plan_cancelled_in_the_middle_ends_now_with_what_it_has_and_leaves_nothing() -> None:
    work = Work()
    noted = Noted()
    executions: list[ToolExecution] = []
    threads = threading.active_count()
    async with orchestrator([tool(read_only=True)(work.now), tool(work.never)], memory=noted) as made:

        async def run() -> None:
            executions.append(
                await made.execute(
                    plan(
                        step("a", "now", q="x"),
                        step("b", "never", parameters={"q": "$ref:a"}),
                        step("c", "now", parameters={"q": "$ref:b"}),
                    )
                )
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await work.begun.wait()
            assert list(made.running) == ["p1"]
            assert await made.cancel("p1") is True
            assert work.running == 0
            assert list(made.running) == []
            assert await made.cancel("p1") is False
    (execution,) = executions
    assert execution.cancelled
    assert not execution.success
    assert data(execution) == {"a": "x"}
    assert execution.failed_steps == ("b", "c")
    assert execution.plan_result is None
    assert errors(execution)["b"] == (
        "the plan was cancelled while this step was running; it may have done its work all the same"
    )
    assert errors(execution)["c"] == "the plan was cancelled before this step began"
    assert work.quick == 1
    assert threading.active_count() <= threads  # one of an earlier test may end meanwhile
    assert noted.outcomes == []  # it says nothing of the selection


async def test_cancelling_one_plan_leaves_the_others_alone() -> None:
    work = Work()
    door = anyio.Event()
    waiting = anyio.Event()
    executions: dict[str, ToolExecution] = {}

    @tool
    async def wait(q: str) -> str:
        """Wait for the door."""
        waiting.set()
        await door.wait()
        return q

    async with orchestrator([wait, tool(work.never)]) as made:

        async def run(id: str, name: str) -> None:
            executions[id] = await made.execute(plan(step("a", name, q="x"), id=id))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "one", "never")
            tasks.start_soon(run, "two", "wait")
            await work.begun.wait()
            await waiting.wait()
            assert set(made.running) == {"one", "two"}
            assert await made.cancel("one")
            door.set()
    assert executions["one"].cancelled
    assert not executions["two"].cancelled
    assert executions["two"].success


async def test_two_runs_of_one_plan_at_the_same_time_are_both_ended() -> None:
    work = Work()
    executions: list[ToolExecution] = []
    async with orchestrator([tool(work.never)]) as made:

        async def run() -> None:
            executions.append(await made.execute(plan(step("a", "never", q="x"))))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            tasks.start_soon(run)
            while work.running < 2:
                await anyio.lowlevel.checkpoint()
            assert await made.cancel("p1")
    assert [each.cancelled for each in executions] == [True, True]


async def test_a_tool_may_cancel_the_plan_that_it_is_part_of() -> None:
    work = Work()
    async with orchestrator([tool(work.never)]) as made:

        @tool
        async def stop() -> str:
            """End the plan."""
            await made.cancel("p1")
            return "not reached"

        made._runtime.registry.add(stop)
        execution = await made.execute(plan(step("a", "stop"), step("b", "never", q="x")))
    assert execution.cancelled
    assert data(execution) == {}
    assert work.running == 0


@pytest.mark.parametrize("inside", [False, True])
async def test_a_tool_that_cannot_be_interrupted_does_not_wait_for_itself(inside: bool) -> None:
    ended: list[bool] = []

    @tool
    async def stop() -> str:
        """End the plan, whatever happens to the caller."""
        with anyio.CancelScope(shield=True):
            ended.append(await made.cancel("p1"))
        return "done"

    @tool
    async def within() -> str:
        """Run a plan of its own."""
        await made.execute(plan(step("a", "stop"), id="p2"))
        return "done"

    async with orchestrator([stop, within]) as made:
        execution = await made.execute(plan(step("a", "within" if inside else "stop")))
    assert ended == [True]
    assert execution.cancelled


async def test_a_sync_tool_is_left_behind_in_its_thread_and_its_result_thrown_away() -> None:
    begun, go_on, ended = anyio.Event(), threading.Event(), threading.Event()
    executions: list[ToolExecution] = []

    @tool
    def block(q: str) -> str:
        """Block its thread."""
        anyio.from_thread.run_sync(begun.set)
        go_on.wait(10)
        ended.set()
        return q

    async with orchestrator([block]) as made:

        async def run() -> None:
            executions.append(await made.execute(plan(step("a", "block", q="x"))))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await begun.wait()
            assert await made.cancel("p1")
            assert not ended.is_set()
        go_on.set()
        assert await anyio.to_thread.run_sync(ended.wait, 10)
    assert executions[0].cancelled
    assert data(executions[0]) == {}


async def test_cancelling_the_caller_is_no_cancelled_plan_but_a_cancellation() -> None:
    work = Work()
    async with orchestrator([tool(work.never)]) as made:
        ended: list[ToolExecution] = []
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                ended.append(await made.execute(plan(step("a", "never", q="x"))))

            tasks.start_soon(run)
            await work.begun.wait()
            tasks.cancel_scope.cancel()
        assert ended == []
        assert work.running == 0
        assert made.running == ()
