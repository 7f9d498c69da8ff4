"""Queries like earlier ones: when a plan is used again, and when it is not."""

from __future__ import annotations

import pytest

from agent.planning.rulebook import answer, chosen, planner, rulebook, vector_search
from callgate import Runtime, ToolError
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import ToolExecution
from callgate.tools import tool

pytestmark = pytest.mark.anyio


async def test_a_query_like_an_earlier_one_asks_no_model() -> None:
    runtime = rulebook()
    planning, model = planner(
        answer(chosen("roster", faction="Orks", points=500)),
        answer(chosen("roster", faction="Orks", points=500)),
        runtime=runtime,
    )
    first = await planning.plan("Give me Orks for 500 points, please")
    again = await planning.plan("Give me Tyranids for 1500 points")
    assert first.source == "model"
    assert again.source == "cache"
    assert [step.parameters for step in again.steps] == [{"faction": "Tyranids", "points": 1500}]
    assert again.query == "Give me Tyranids for 1500 points"
    assert again.id != first.id
    assert again.usage.input_tokens == 0
    assert len(model.requests) == 1
    assert (planning.cache.hits, planning.cache.misses) == (1, 1)


async def test_the_cache_is_for_the_same_tools() -> None:
    runtime = rulebook()
    turn = answer(chosen("vector-search", query="Terminators"))
    planning, model = planner(turn, turn, runtime=runtime)
    await planning.plan("rules for Terminators")
    assert (await planning.plan("rules for Terminators")).source == "cache"

    @runtime.registry.add
    @tool(read_only=True)
    async def unit_rules(unit: str) -> str:
        """The rules of a unit."""
        return unit

    assert (await planning.plan("rules for Terminators")).source == "model"
    assert len(model.requests) == 2


async def test_a_plan_that_failed_is_not_used_again() -> None:
    turn = answer(chosen("vector-search", query="Terminators"))
    planning, _ = planner(turn, turn)
    await planning.plan("rules for Terminators")
    cached = await planning.plan("rules for Terminators")
    planning.learned(cached, ToolExecution(plan_id=cached.id, results=(), total_seconds=1, success=False))
    assert (await planning.plan("rules for Terminators")).source == "model"


async def test_a_plan_whose_fallback_stood_in_is_not_used_again() -> None:
    @tool(read_only=True, category="search", capabilities=["rules"])
    async def broken_search(query: str) -> dict[str, str]:
        """Find passages of the rules."""
        raise ToolError("the index is gone", retryable=False)

    turn = answer(chosen("broken_search", "rules for Terminators", query="Terminators"))
    async with Runtime([broken_search, vector_search], sandbox=None) as runtime:
        planning, _ = planner(turn, turn, runtime=runtime)
        orchestrator = ToolOrchestrator(runtime, settings=PlannerSettings(retry_backoff="none"))
        plan = await planning.plan("rules for Terminators")
        execution = await orchestrator.execute(plan)
        assert execution.success
        assert [result.tool for result in execution.results] == ["vector-search"]
        planning.learned(plan, execution)
        assert (await planning.plan("rules for Terminators")).source == "model"


async def test_a_plan_that_succeeded_or_was_cancelled_is() -> None:
    planning, _ = planner(answer(chosen("vector-search", query="Terminators")))
    plan = await planning.plan("rules for Terminators")
    planning.learned(plan, ToolExecution(plan_id=plan.id, results=(), total_seconds=1, success=True))
    planning.learned(plan, ToolExecution(plan_id=plan.id, results=(), total_seconds=1, success=False, cancelled=True))
    assert (await planning.plan("rules for Terminators")).source == "cache"


async def test_values_that_a_tool_does_not_take_make_no_plan_of_the_cache() -> None:
    @tool(read_only=True)
    async def unit(code: str) -> str:
        """A unit by its code."""
        return code

    schema = {"type": "object", "properties": {"code": {"type": "string", "maxLength": 6}}, "required": ["code"]}
    from callgate import Tool

    short = Tool.from_schema("unit", "A unit by its code.", schema, unit.function, read_only=True)
    planning, model = planner(
        answer(chosen("unit", code="AB-12")), answer(chosen("unit", code="AB-123")), runtime=rulebook(short)
    )
    await planning.plan("the unit AB-12")
    plan = await planning.plan("the unit AB-12345678")
    assert plan.source == "model"
    assert len(model.requests) == 2
    assert [step.parameters for step in plan.steps] == [{"code": "AB-123"}]
