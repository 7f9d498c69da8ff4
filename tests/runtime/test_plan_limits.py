"""What ends a plan from outside: limits and cancellation. Each test shows what is left afterwards: nothing."""

from __future__ import annotations

import threading

import anyio
import pytest

from callgate import Limits, PlanResult, Runtime, tool
from runtime.planned import world
from runtime.test_plans import statuses, step

pytestmark = pytest.mark.anyio


def limit_of(result: PlanResult) -> str | None:
    assert result.error is not None
    assert result.error.kind == "LimitReached"
    return result.error.limit


async def test_wall_seconds_ends_everything_and_tells_what_may_have_happened() -> None:
    async with world() as (runtime, made):
        plan = {
            "steps": [step("r", "wait"), step("w", "hang"), step("n", depends_on="r"), step("done")],
        }
        with anyio.fail_after(30):
            result = await runtime.execute_tool_plan(plan, limits=Limits(wall_seconds=1))
    assert limit_of(result) == "wall_seconds"
    assert statuses(result) == {"r": "failed", "w": "unknown_outcome", "n": "skipped", "done": "succeeded"}
    assert str(result.step("r").error).startswith("interrupted: the run was ended")
    assert str(result.step("n").error).startswith("Skipped because the run was ended: limit reached: wall_seconds")
    assert made.log[-2:] in (["end r", "gone w"], ["gone w", "end r"])
    assert made.running == 0
    assert result.outputs == {"done": "done"}
    assert result.for_model().startswith("1/4 steps succeeded. The run was ended: limit reached: wall_seconds is 1")


async def test_max_tool_calls_ends_the_plan() -> None:
    async with world() as (runtime, made):
        plan = {"steps": [step("all", "put", for_each=list(range(10)), arguments={"key": "${index}"}), step("b")]}
        result = await runtime.execute_tool_plan(plan, limits=Limits(max_tool_calls=5))
    assert limit_of(result) == "max_tool_calls"
    assert len(made.log) == len(result.calls) == 5


async def test_a_plan_of_more_steps_than_max_tool_calls_is_refused() -> None:
    async with world() as (runtime, made):
        plan = {"steps": [step(f"s{n}") for n in range(6)]}
        result = await runtime.execute_tool_plan(plan, limits=Limits(max_tool_calls=5))
    assert result.faults[0].code == "too-large"
    assert made.log == []


async def test_results_that_grow_from_step_to_step_are_bounded() -> None:
    """Every step asks for twice the text of the one before."""
    async with world() as (runtime, made):
        steps = [step("s0", arguments={"key": "x" * 1000})]
        steps += [step(f"s{n}", arguments={"key": f"${{s{n - 1}}}${{s{n - 1}}}"}) for n in range(1, 60)]
        result = await runtime.execute_tool_plan({"steps": steps}, limits=Limits(max_message_bytes=100_000))
    failed = [each for each in result.steps if each.status == "failed"]
    assert [each.id for each in failed] == ["s7"]
    assert "max_message_bytes" in str(failed[0].error)
    assert len(made.log) == 7


async def test_memory_bytes_bounds_what_the_host_holds_for_a_plan() -> None:
    async with world() as (runtime, _):
        steps = [step("big", arguments={"key": "x" * 90_000})]
        steps += [step(f"s{n}", arguments={"key": "$ref:big"}) for n in range(100)]
        limits = Limits(max_message_bytes=100_000, memory_bytes=1_000_000, max_concurrent_calls=4)
        result = await runtime.execute_tool_plan({"steps": steps}, limits=limits)
    assert limit_of(result) == "memory_bytes"
    assert sum(len(each.result_json or "") for each in result.steps) < 2_000_000


async def test_a_cancelled_plan_leaves_nothing_running() -> None:
    async with world() as (runtime, made):
        plan = {"steps": [step(f"w{n}", "wait") for n in range(20)] + [step("h", "hang"), step("n", depends_on="w0")]}
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.execute_tool_plan, plan)
                while made.running < 20:  # noqa: ASYNC110
                    await anyio.sleep(0.001)
                tasks.cancel_scope.cancel()
        assert made.running == 0
        before = len(made.log)
        await anyio.sleep(0.05)
        assert len(made.log) == before
        assert "get n" not in made.log
        assert (await runtime.execute_tool_plan({"steps": [step("a")]})).ok


@pytest.mark.parametrize("moments", [0, 1, 2, 3, 5, 8, 13, 21])
async def test_a_plan_may_be_cancelled_at_any_moment(moments: int) -> None:
    async with world() as (runtime, made):
        plan = {
            "steps": [step(f"s{n}", arguments={"key": f"$ref:s{n - 1}"} if n else {"key": "k"}) for n in range(300)]
        }
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(runtime.execute_tool_plan, plan)
                for _ in range(moments):
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()
        made.log.clear()
        await anyio.sleep(0.01)
        assert made.log == []


async def test_a_tool_in_a_thread_that_hangs_does_not_hold_the_plan() -> None:
    release = threading.Event()

    @tool(read_only=True)
    def block() -> str:
        release.wait(20)
        return "late"

    async with Runtime([block], sandbox=None) as runtime:
        plan = {"steps": [{"id": "s", "tool": "block", "timeout_seconds": 0.1, "retry": 1}]}
        with anyio.fail_after(10):
            result = await runtime.execute_tool_plan(plan)
        release.set()
    assert result.steps[0].status == "failed"
    assert result.steps[0].kind == "ToolTimedOut"


async def test_a_long_plan_of_instant_tools_lets_others_run() -> None:
    async with world() as (runtime, _):
        turns = 0
        over = anyio.Event()

        async def others() -> None:
            nonlocal turns
            while not over.is_set():
                turns += 1
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            result = await runtime.execute_tool_plan({"steps": [step(f"s{n}") for n in range(2000)]})
            over.set()
    assert result.ok
    assert turns > 20


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # recursion would be the engine's own, whatever loop drives it
async def test_a_cycle_of_100_000_steps_is_named_without_recursion() -> None:
    async with world() as (runtime, _):
        count = 100_000
        steps = [{"id": f"s{n}", "tool": "get", "arguments": {"key": f"$ref:s{(n - 1) % count}"}} for n in range(count)]
        cycle = await runtime.execute_tool_plan({"steps": steps})
    assert [fault.code for fault in cycle.faults] == ["cycle"]
    assert "more) … →" in cycle.faults[0].message
