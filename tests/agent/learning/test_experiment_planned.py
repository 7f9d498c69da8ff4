"""Learning and experiments together with the planner and the orchestrator: outcomes of real plans find their way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from callgate import Runtime, ToolError, tool
from callgate.agent.learning.experiment import Experiment
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.ranked import LearnedSelector
from callgate.agent.learning.selections_file import SelectionsFile
from callgate.agent.models.scripted import ScriptedModel
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.selection import Selection, ToolChoice
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import DecomposedQuery
from callgate.tools.registry import ToolInfo

pytestmark = pytest.mark.anyio

SETTINGS = PlannerSettings(max_retries=0, result_cache_enabled=False)
NO_MODEL = ScriptedModel([])


@tool(read_only=True, capabilities=["forecast"])
async def broken(city: str) -> str:
    """The weather of a city, from a service that is down."""
    raise ToolError("no connection")


@tool(read_only=True, capabilities=["forecast"])
async def sound(city: str) -> str:
    """The weather of a city."""
    return "rain"


class Picks:
    """Chooses the first of its favourites that is offered."""

    def __init__(self, name: str, *favourites: str) -> None:
        self.name = name
        self.favourites = favourites

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        offered = [each.name for each in tools]
        chosen = next(each for each in self.favourites if each in offered)
        choice = ToolChoice(sub_query=0, tool=chosen, parameters={"city": query.query.split()[-1]})
        return Selection(chain=(choice,), reasoning=f"{chosen} is my favourite", strategy=self.name)


async def test_a_planner_learns_to_leave_a_broken_tool_out_and_the_log_says_why(tmp_path: Path) -> None:
    memory = SelectionMemory()
    async with (
        Runtime([broken, sound], sandbox=None) as runtime,
        SelectionsFile(tmp_path / "selections.sqlite", memory),
    ):
        selector = LearnedSelector(Picks("picks", "broken", "sound"), memory)
        planner = ToolPlanner(runtime, NO_MODEL, selector=selector, settings=SETTINGS)
        orchestrator = ToolOrchestrator(runtime, memory=memory, settings=SETTINGS)
        called = []
        for n in range(12):
            plan = await planner.plan(f"weather number {'abcdefghijkl'[n]} in Rome{n}")
            planner.learned(plan, await orchestrator.execute(plan))
            called.append(plan.steps[0].tool)
    assert called[0] == "broken"
    assert called[-1] == "sound"
    again = SelectionMemory()
    async with SelectionsFile(tmp_path / "selections.sqlite", again):
        first, last = again.outcomes[0], again.outcomes[-1]
    assert first.reasoning == "broken is my favourite"
    assert first.failed_tools == ("broken",)
    assert "Learned: broken was left out because it fails often" in last.reasoning
    assert last.strategy == "picks+learned"


async def test_an_experiment_on_planners_traffic_finds_the_better_strategy() -> None:
    pytest.importorskip("scipy", reason="scipy is not installed")
    async with Runtime([broken, sound], sandbox=None) as runtime:
        memory = SelectionMemory()
        experiment = Experiment(
            "favourites", Picks("old", "broken"), Picks("new", "sound"), memory=memory, samples=20
        )  # fmt: skip
        planner = ToolPlanner(runtime, NO_MODEL, selector=experiment, settings=SETTINGS)
        orchestrator = ToolOrchestrator(runtime, memory=memory, settings=SETTINGS)
        for n in range(60):
            plan = await planner.plan(f"weather in City{n}")
            assert plan.strategy == f"favourites:{experiment.arm(plan.query)}"
            alone = tuple(replace(step, fallback=None) for step in plan.steps)  # or it would hide what differs
            planner.learned(plan, await orchestrator.execute(replace(plan, steps=alone)))
    report = experiment.report()
    assert (report.winner, report.control.rate, report.treatment.rate) == ("treatment", 0.0, 1.0)
    assert len(memory) == 60
