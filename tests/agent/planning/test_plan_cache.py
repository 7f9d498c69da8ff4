"""Selections used again: for equal queries, and for no others."""

from __future__ import annotations

from typing import Any

import pytest

from agent.planning.rulebook import answer, chosen, decomposed, planner, rulebook, vector_search
from callgate import Runtime, ToolError
from callgate.agent.models.scripted import ScriptedModel
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.decomposition import Decomposer
from callgate.agent.planning.plan_cache import PlanCache
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.selection import Selection
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import ToolExecution, as_one_part
from callgate.tools import tool

pytestmark = pytest.mark.anyio

TERMINATORS = answer(chosen("vector-search", "deep strike", query="Terminators"))


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        ("Rules  for TERMINATORS?", True),
        (" rules for terminators!", True),
        ("rules for Terminators ...", True),
        ("rules for Dreadnoughts", False),
        ("rule for Terminators", False),
        ("no rules for Terminators", False),
        ("rules for -Terminators", False),
        ("rules, for Terminators", False),
    ],
)
async def test_case_spaces_and_final_punctuation_make_no_other_query(other: str, equal: bool) -> None:
    planning, model = planner(TERMINATORS, TERMINATORS)
    first = await planning.plan("rules for Terminators")
    again = await planning.plan(other)
    assert (first.source, again.source) == ("model", "cache" if equal else "model")
    assert [step.parameters for step in again.steps] == [{"query": "Terminators"}]
    assert again.query == other
    assert again.id != first.id
    assert (again.usage.input_tokens == 0) == equal
    assert len(model.requests) == 2 - equal
    assert (planning.cache.hits, planning.cache.misses) == ((1, 1) if equal else (0, 2))


async def test_the_cache_is_for_the_same_tools_and_the_same_decomposition() -> None:
    runtime = rulebook()
    planning, model = planner(*[TERMINATORS] * 4, runtime=runtime)
    parts = decomposed("rules for Terminators", "deep strike", "toughness")
    for given in (None, parts, decomposed("rules for Terminators", "deep strike")):
        assert (await planning.plan("rules for Terminators", given)).source == "model"
        assert (await planning.plan("rules for Terminators", given)).source == "cache"

    @runtime.registry.add
    @tool(read_only=True)
    async def unit_rules(unit: str) -> str:
        """The rules of a unit."""
        return unit

    assert (await planning.plan("rules for Terminators")).source == "model"
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("ended", "kept"),
    [({"success": False}, False), ({"success": True}, True), ({"success": False, "cancelled": True}, True)],
)
async def test_a_plan_that_failed_is_not_used_again(ended: dict[str, Any], kept: bool) -> None:
    planning, _ = planner(TERMINATORS, TERMINATORS)
    for _ in range(2):
        plan = await planning.plan("rules for Terminators")
    planning.learned(plan, ToolExecution(plan_id=plan.id, results=(), total_seconds=1, **ended))
    assert (await planning.plan("rules for Terminators")).source == ("cache" if kept else "model")


async def test_a_plan_whose_fallback_stood_in_is_not_used_again() -> None:
    @tool(read_only=True, category="search", capabilities=["rules"])
    async def broken_search(query: str) -> dict[str, str]:
        """Find passages of the rules."""
        raise ToolError("the index is gone", retryable=False)

    turn = answer(chosen("broken_search", query="Terminators"))
    async with Runtime([broken_search, vector_search], sandbox=None) as runtime:
        planning, _ = planner(turn, turn, runtime=runtime)
        plan = await planning.plan("rules for Terminators")
        settings = PlannerSettings(retry_backoff="none")
        execution = await ToolOrchestrator(runtime, settings=settings).execute(plan)
        assert execution.success
        assert [result.tool for result in execution.results] == ["vector-search"]
        planning.learned(plan, execution)
        assert (await planning.plan("rules for Terminators")).source == "model"


async def test_what_was_not_whole_is_asked_for_again() -> None:
    half = answer(chosen("vector-search", query="x"), chosen("nothing"))
    planning, _ = planner(*[half] * 4)
    assert (await planning.plan("about x")).source == "model"
    assert (await planning.plan("about x")).source == "model"
    turns = ["First, A.", "And then B.", answer(chosen("vector-search", query="x"))]  # not taken apart, but chosen
    model = ScriptedModel(turns * 2)
    runtime = Runtime([vector_search], sandbox=None)
    settings = PlannerSettings(low_decomposition_confidence=0)
    planning = ToolPlanner(runtime, model, decomposer=Decomposer(model), settings=settings)
    assert (await planning.plan("about x")).source == "model"
    assert (await planning.plan("about x")).source == "model"


def test_selections_are_kept_for_so_long_and_so_many() -> None:
    now = [0.0]
    cache = PlanCache(2, 300.0, clock=lambda: now[0])
    keys = [PlanCache.key(f"query {n}", None, [], "model") for n in range(3)]
    for key in keys:
        cache.keep(key, as_one_part("q"), Selection(chain=()))
    assert [cache.find(key) is None for key in keys] == [True, False, False]
    now[0] = 300.0
    assert cache.find(keys[1]) is None
    assert (cache.hits, cache.misses) == (2, 2)
    none = PlanCache(0)
    none.keep(keys[0], as_one_part("q"), Selection(chain=()))
    assert none.find(keys[0]) is None
