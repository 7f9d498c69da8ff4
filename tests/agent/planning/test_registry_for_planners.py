"""The registry as the tool planning engine asks for it: by name, by capability, with statistics that calls change."""

from __future__ import annotations

import pytest

from agent.planning.rulebook import RULEBOOK, answer, chosen, planner, rulebook
from callgate import ToolNotFound
from callgate.tools import tool

pytestmark = pytest.mark.anyio


def test_five_tools_and_more_are_registered_listed_and_had_by_name() -> None:
    registry = rulebook().registry
    assert len(registry) == len(RULEBOOK) >= 5
    assert registry.get("vector-search").description.startswith("Find passages of the rules by their meaning")
    assert [registry.info(name).name for name in registry.names()] == sorted(each.name for each in RULEBOOK)
    with pytest.raises(ToolNotFound, match="did you mean vector-search"):
        registry.get("vector-serch")


def test_which_tools_can_do_semantic_search() -> None:
    found = rulebook().find_by_capability("Semantic Search")
    assert [each.name for each in found] == ["hyde-search", "vector-search"]


async def test_calls_update_what_planning_goes_by() -> None:
    @tool(read_only=True, category="search", capabilities=["rules"])
    async def broken(query: str) -> str:
        """Search, and fail."""
        raise RuntimeError("down")

    async with rulebook(*RULEBOOK, broken) as runtime:
        for _ in range(2):
            steps = [
                {
                    "id": "a",
                    "tool": "broken",
                    "arguments": {"query": "x"},
                    "retry": {"attempts": 3, "backoff_seconds": 0},
                }
            ]
            await runtime.execute_tool_plan({"steps": steps})
        await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "vector-search", "arguments": {"query": "x"}}]})
        assert runtime.registry.info("broken").failure_rate == 1
        assert runtime.registry.info("vector-search").average_seconds is not None
        stats = runtime.registry.statistics.of("vector-search")
        assert stats is not None
        assert stats.average_confidence == pytest.approx(0.8)
        planning, model = planner(answer(chosen("broken", query="about x")), runtime=runtime)
        plan = await planning.plan("x, please")
        assert "fails 100 % of the time" in model.requests[0].system
        assert plan.steps[0].fallback is not None
