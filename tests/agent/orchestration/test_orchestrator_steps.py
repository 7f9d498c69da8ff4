"""One step alone, earlier results that a plan refers to, and what the memory is told."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from agent.orchestration.orchestrated import Noted, compare, fail, lookup, orchestrator, plan, step
from callgate import ConfigurationError, tool
from callgate.agent.planning.selection import SelectionOutcome
from callgate.agent.planning.tool_plan import ExecutionContext, ToolExecution, ToolResult

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _in_time() -> AsyncIterator[None]:
    with anyio.fail_after(20):
        yield


async def test_a_step_alone_takes_its_references_from_the_context() -> None:
    async with orchestrator([lookup, compare]) as made:
        first = await made.execute(
            plan(step("t", "lookup", unit="terminator"), step("d", "lookup", unit="dreadnought"))
        )
        context = _context(first)
        one = await made.execute_step(step("c", "compare", a="$ref:t", b={"$ref": "d"}, dependencies=("t",)), context)
        text = await made.execute_step(step("x", "lookup", unit="${t.unit}"), context)
        bad = await made.execute_step(step("y", "lookup", unit="$ref:nobody.unit"), context)
        skipped = await made.execute_step(step("z", "lookup", unit="x", dependencies=("nobody",)), context)
    assert one.success
    assert one.data["tougher"] == "dreadnought"
    assert text.data["toughness"] == 5
    assert not bad.success
    assert "nobody" in (bad.error or "")
    assert "'y'" in (bad.error or "")
    assert not skipped.success
    assert "dependency 'nobody'" in (skipped.error or "")


def _context(execution: ToolExecution) -> ExecutionContext:
    return ExecutionContext(plan_id="p1", previous_results={each.step_id: each for each in execution.results})


async def test_earlier_results_that_are_no_json_are_the_caller_s_mistake() -> None:
    result = ToolResult(step_id="t", tool="x", success=True, data={1, 2})
    async with orchestrator([lookup]) as made:
        with pytest.raises(ConfigurationError, match="the result of 't' in the context is not JSON"):
            await made.execute_step(
                step("a", "lookup", unit="terminator"),
                ExecutionContext(plan_id="p1", previous_results={"t": result}),
            )
        assert made.running == ()


async def test_arguments_of_a_step_alone_may_be_nested_as_deeply_as_anyone_likes() -> None:
    value: Any = "$ref:t"
    found = ToolResult(step_id="t", tool="x", success=True, data=[[1]])
    context = ExecutionContext(plan_id="p1", previous_results={"t": found})
    for _ in range(400):
        value = [value]
    async with orchestrator([lookup]) as made:
        for _ in range(120):
            value = [value]
            assert not (await made.execute_step(step("a", "lookup", unit=value), context)).success


async def test_a_timeout_of_no_seconds_is_refused() -> None:
    async with orchestrator([lookup]) as made:
        execution = await made.execute(plan(step("a", "lookup", unit="terminator", timeout_seconds=0.0)))
    assert "timeout_seconds" in (execution.results[0].error or "")


async def test_the_memory_is_told_of_each_plan() -> None:
    noted = Noted()

    @tool(read_only=True, cost=2)
    async def paid(q: str) -> dict[str, Any]:
        """Costs two."""
        return {"confidence": 0.6}

    async with orchestrator([paid, fail, lookup], memory=noted) as made:
        await made.execute(
            plan(
                step("a", "paid", q="1"),
                step("b", "paid", q="2"),
                step("c", "fail", why="no luck", fallback=None),
                query="what is it",
                reasoning="because",
            )
        )
        await made.execute_step(step("d", "lookup", unit="terminator"), ExecutionContext(plan_id="p1"))
    (outcome,) = noted.outcomes
    assert (outcome.query, outcome.strategy, outcome.reasoning) == ("what is it", "by hand", "because")
    assert outcome.tools == ("paid", "fail")
    assert outcome.failed_tools == ("fail",)
    assert not outcome.success
    assert outcome.error == "no luck"
    assert outcome.cost == 4
    assert outcome.confidence == pytest.approx(0.6)
    assert outcome.seconds > 0


async def test_a_memory_that_fails_loses_no_result(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Noted):
        def note(self, outcome: SelectionOutcome) -> None:
            raise RuntimeError("the disk is full")

    async with orchestrator([lookup], memory=Broken()) as made:
        assert (await made.execute(plan(step("a", "lookup", unit="terminator")))).success
    assert "the memory failed to take note of plan p1" in caplog.text
