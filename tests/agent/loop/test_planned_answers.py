"""`Agent(answerer=PlannedAnswerer(...))`: a task answered by a plan made beforehand; and how the loop goes on where
there is no answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.loop.scripted_runs import faults, of, shown, told
from callgate import ConfigurationError, ModelUnavailable, Runtime, ToolError, tool
from callgate.agent.events import (
    CallProgress,
    Faulted,
    InnerEvent,
    ModelReplied,
    Planned,
    PlannedRun,
    TextArrived,
)
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.result import AgentResult
from callgate.agent.models.model import Request, Usage
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.agent.orchestration.answering import PlannedAnswerer
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.decomposition import Decomposer
from callgate.agent.planning.planner import MAX_QUERY_CHARACTERS, ToolPlanner
from callgate.agent.planning.settings import PlannerSettings

pytestmark = pytest.mark.anyio

TASK = "What are the stats of the Intercessors?"
ANSWER = "They have toughness 4 [1]."


def chain(*choices: tuple[str, dict[str, Any]], **more: Any) -> str:
    return json.dumps(
        {
            "toolChain": [
                {"tool": name, "parameters": given, "reasoning": "it fits", "confidence": 0.9, "subQuery": 0}
                for name, given in choices
            ],
            "reasoning": "one look-up is enough",
            **more,
        }
    )


GOOD = chain(("search_units", {"query": "Intercessors"}))
BROKEN = chain(("search_broken", {"query": "Intercessors"}))


class World:
    """Tools, and what was called."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        async def search_units(query: str) -> dict[str, Any]:
            """Search the units and their stats."""
            self.calls.append(f"units {query}")
            return {"toughness": 4, "source": "codex", "confidence": 0.9, "text": "x" * 100_000}

        @tool(read_only=True)
        async def search_broken(query: str) -> str:
            """Search where nothing works."""
            self.calls.append(f"broken {query}")
            raise ToolError("the index is broken", retryable=True)

        return [search_units, search_broken]


async def planned(
    *turns: Any,
    settings: PlannerSettings | None = None,
    decomposes: bool = False,
    task: str = TASK,
    world: World | None = None,
    max_characters: int = 32_000,
    **options: Any,
) -> tuple[AgentResult, ScriptedModel]:
    model = ScriptedModel(turns)
    settings = settings or PlannerSettings(retry_backoff="none")
    async with Runtime((world or World()).tools(), sandbox=None) as runtime:
        decomposer = Decomposer(model) if decomposes else None
        planner = ToolPlanner(runtime, model, settings=settings, decomposer=decomposer)
        orchestrator = ToolOrchestrator(runtime, settings=settings)
        answerer = PlannedAnswerer(planner, orchestrator, model, max_characters=max_characters)
        with anyio.fail_after(20):
            result = await Agent(model, runtime, answerer=answerer, mode="direct", **options).run(task)
    return result, model


def kinds(result: AgentResult, *of_kinds: type[Any]) -> list[str]:
    return [type(each).__name__ for each in result.events if isinstance(each, of_kinds)]


# an answer


async def test_an_agent_in_a_plan_made_beforehand_counts_in_the_task() -> None:
    model = ScriptedModel(
        [chain(("ask_expert", {"task": "How tough are they?"})), Say(ANSWER, usage=Usage(input_tokens=1))]
    )
    settings = PlannerSettings(retry_backoff="none")
    async with Runtime([], sandbox=None) as runtime:
        expert = Agent(ScriptedModel([Say("4", usage=Usage(input_tokens=1_000_000))]), runtime, mode="direct")
        runtime.registry.add(expert.as_tool("ask_expert", "Knows the units and their stats.", category="search"))
        orchestrator = ToolOrchestrator(runtime, settings=settings)
        answerer = PlannedAnswerer(ToolPlanner(runtime, model, settings=settings), orchestrator, model)
        with anyio.fail_after(20):
            result = await Agent(model, runtime, answerer=answerer, mode="direct").run(TASK)
    assert (result.outcome, result.answer) == ("answered", ANSWER)
    inside = of(result, InnerEvent)
    assert {(each.turn, each.call, each.agent) for each in inside} == {(0, "", "ask_expert")}
    assert result.usage.input_tokens > 1_000_000


async def test_a_task_is_planned_run_and_answered_and_each_has_its_line(tmp_path: Path) -> None:
    world = World()
    heard: list[Any] = []
    file = tmp_path / "t.jsonl"
    result, model = await planned(GOOD, ANSWER, world=world, transcript=file, on_event=heard.append)
    assert (result.outcome, result.answer, result.turns, result.tool_calls) == ("answered", ANSWER, 1, 1)
    assert world.calls == ["units Intercessors"]
    (plan,) = of(result, Planned)
    assert (plan.source, plan.stages) == ("model", (("c0",),))
    assert plan.reasoning == "one look-up is enough"
    assert plan.plan["steps"][0]["tool"] == "search_units"
    (run,) = of(result, PlannedRun)
    assert (run.plan_id, run.success, run.failed_steps, len(run.results)) == (plan.plan_id, True, (), 1)
    lines = [json.loads(line)["kind"] for line in file.read_text().splitlines()]
    assert lines == ["task_began", "planned", "planned_run", "model_asked", "model_replied", "finished"]
    assert [each["kind"] for each in result.runs] == ["planned", "planned"]
    assert any(isinstance(each, CallProgress) for each in heard)
    assert "".join(each.text for each in heard if isinstance(each, TextArrived)) == ANSWER
    assert faults(result) == []
    assert len(model.requests) == 2


async def test_tokens_and_cost_of_the_planning_count() -> None:
    usage = Usage(input_tokens=1_000, output_tokens=100)
    result, _ = await planned(Say(GOOD, usage=usage), Say(ANSWER, usage=usage), price=(1.0, 10.0))
    assert result.usage == usage + usage
    assert result.cost == pytest.approx(0.004)
    assert of(result, Planned)[0].usage == usage
    assert of(result, Planned)[0].cost == pytest.approx(0.002)


async def test_a_planner_with_a_model_of_its_own_has_that_model_s_price() -> None:
    pytest.importorskip("genai_prices", reason="genai-prices is not installed")
    usage = Usage(input_tokens=1_000_000)
    chooses = ScriptedModel([Say(GOOD, usage=usage)], name="gpt-4o-mini")
    answers = ScriptedModel([Say(ANSWER, usage=usage)], name="gpt-4o")
    async with Runtime(World().tools(), sandbox=None) as runtime:
        answerer = PlannedAnswerer(ToolPlanner(runtime, chooses), ToolOrchestrator(runtime), answers)
        result = await Agent(answers, runtime, answerer=answerer).run(TASK)
    assert of(result, Planned)[0].cost == pytest.approx(0.15)
    assert result.cost == pytest.approx(0.15 + 2.5)


async def test_a_plan_that_spent_the_budget_is_not_run() -> None:
    world = World()
    spent = Say(GOOD, usage=Usage(input_tokens=1_000))
    result, model = await planned(spent, "never asked", world=world, budget=Budget(tokens=1_000))
    assert (result.outcome, result.turns, world.calls) == ("budget", 0, [])
    assert "1000 of 1000 tokens" in result.reason
    assert len(model.requests) == 1
    (fault,) = of(result, Faulted)
    assert (fault.fault, fault.detail) == ("plan_failed", "the budget is spent: 1000 of 1000 tokens")


async def test_the_agent_s_temperature_and_limit_are_the_answer_s() -> None:
    _, model = await planned(GOOD, ANSWER, temperature=0.25, max_output_tokens=77)
    assert (model.requests[1].temperature, model.requests[1].max_output_tokens) == (0.25, 77)
    assert model.requests[0].temperature == PlannerSettings().temperature  # choosing has its own


async def test_the_sources_of_an_answer_are_those_that_its_numbers_name(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    result, _ = await planned(GOOD, ANSWER, transcript=file)
    assert result.answer == "They have toughness 4 [1]."
    assert result.sources == ({"title": "search_units", "location": "codex"},)
    (line,) = [each for each in map(json.loads, file.read_text().splitlines()) if each["kind"] == "planned_run"]
    assert line["sources"] == list(result.sources)
    failed, _ = await planned(BROKEN, "By the loop.")
    assert (failed.answer, failed.sources) == ("By the loop.", ())


async def test_the_operator_s_words_and_the_phases_are_in_the_request_for_the_answer() -> None:
    plan = {"phases": [{"worker": "rules", "goals": "Find stats"}]}
    _, model = await planned(GOOD, ANSWER, system="Answer in one sentence.", strategic_plan=plan)
    system = model.requests[1].system
    assert "Answer in one sentence." in system
    assert "STRATEGIC PLAN:" in system
    assert "Find stats" in system


async def test_only_the_agent_s_tools_are_planned() -> None:
    world = World()
    result, model = await planned(GOOD, GOOD, ANSWER, world=world, tools=["search_broken"])
    assert "search_units" not in model.requests[0].system + str(model.requests[0].messages)
    assert "units Intercessors" not in world.calls
    assert result.outcome == "answered"


async def test_a_tool_that_there_is_not_is_the_operator_s_mistake() -> None:
    with pytest.raises(ConfigurationError, match="tools names the tool 'search_planets'"):
        await planned(tools=["search_planets"])


# no answer: the loop goes on


async def test_a_plan_without_steps_is_told_and_the_loop_goes_on() -> None:
    result, model = await planned(chain(), "By heart: toughness 4.")
    assert (result.outcome, result.answer) == ("answered", "By heart: toughness 4.")
    assert faults(result) == [("plan_failed", "went on without")]
    (words,) = told(model.requests[-1])
    assert "A plan of tool calls was made for this task before, and gave no answer: the plan has no steps" in words
    assert words.endswith("Go on from there.")
    assert set(shown(model)[-1]) == {"search_units", "search_broken"}


async def test_a_plan_that_failed_is_told_with_why_and_the_loop_goes_on_with_its_tools() -> None:
    world = World()
    settings = PlannerSettings(retry_backoff="none", max_retries=1)
    search = Calls(("search_units", {"query": "Intercessors"}))
    result, model = await planned(BROKEN, search, ANSWER, world=world, settings=settings)
    assert (result.outcome, result.answer) == ("answered", ANSWER)
    (run,) = of(result, PlannedRun)
    assert not run.success
    assert run.retries == 1
    (words,) = told(model.requests[1])
    assert "the index is broken" in words
    assert world.calls[-1] == "units Intercessors"
    assert faults(result) == [("plan_failed", "went on without")]


async def test_what_was_found_is_told_to_the_model_within_a_bound() -> None:
    """The answer of the synthesis is refused; its results, 100,000 characters, are told up to 24,000."""
    refused = Say(refusal="I will not. " * 1_000)
    result, model = await planned(GOOD, refused, "Toughness 4.", max_characters=1_000_000)
    assert (result.outcome, result.answer) == ("answered", "Toughness 4.")
    (words,) = told(model.requests[2])
    assert "refused" in words
    assert len(words) < 30_000
    assert [each.ended for each in of(result, ModelReplied)] == ["empty", "answered"]


async def test_results_survive_an_endpoint_that_fails_at_the_answer() -> None:
    result, model = await planned(GOOD, ModelUnavailable("gone"), "Toughness 4.", max_characters=1_000_000)
    assert result.outcome == "answered"
    (words,) = told(model.requests[2])
    assert "toughness" in words
    assert len(words) < 30_000
    assert faults(result) == [("plan_failed", "went on without")]


async def test_a_task_that_is_too_long_to_plan_is_worked_on_without() -> None:
    result, model = await planned("Done.", task="x " * MAX_QUERY_CHARACTERS)
    assert (result.outcome, result.answer) == ("answered", "Done.")
    assert of(result, Planned) == []
    assert "more than 100000 characters" in told(model.requests[0])[0]


# what is wrong with the planning


async def test_a_model_that_does_not_choose_in_time_has_a_line(tmp_path: Path) -> None:
    async def slow(request: Request) -> str:
        await anyio.sleep_forever()
        return GOOD

    settings = PlannerSettings(planning_seconds=0.05, retry_backoff="none")
    result, _ = await planned(slow, ANSWER, settings=settings)
    assert result.outcome == "answered"
    (fault,) = of(result, Faulted)
    assert (fault.turn, fault.fault, fault.action) == (0, "planning_timeout", "went on without")
    assert "planning took longer than 0.05 s" in fault.detail
    assert of(result, Planned)[0].source == "fallback"


BAD: Sequence[tuple[Any, str]] = [
    ("I would search the units.", "prose"),
    ('{"toolChain": [{"to', "half_json"),
    ('{"tools_i_like": 3}', "no_schema"),
    (chain(("search_planets", {"query": "x"})), "no_schema"),
    ("", "empty"),
]


@pytest.mark.parametrize(("bad", "kind"), BAD, ids=["prose", "half", "other JSON", "unknown tool", "empty"])
async def test_bad_words_of_the_planner_s_model_have_a_line(bad: Any, kind: str) -> None:
    once, model = await planned(bad, GOOD, ANSWER)
    assert (once.outcome, once.answer) == ("answered", ANSWER)
    assert faults(once) == [(kind, "asked again")]
    assert len(model.requests) == 3
    twice, _ = await planned(bad, bad, ANSWER)
    assert twice.outcome == "answered"
    assert faults(twice)[:2] == [(kind, "asked again"), (kind, "went on without")]
    assert kinds(twice, Faulted, Planned)[:3] == ["Faulted", "Faulted", "Planned"]


async def test_a_refusal_to_choose_has_a_line_and_is_not_asked_again() -> None:
    result, model = await planned(Say(refusal="no"), ANSWER)
    assert faults(result) == [("refused", "went on without")]
    assert result.outcome == "answered"
    assert len(model.requests) == 2


async def test_bad_words_of_a_decomposition_have_a_line_too() -> None:
    result, _ = await planned("Sure!", "Sure, again!", ANSWER, decomposes=True)
    assert faults(result)[:2] == [("prose", "asked again"), ("prose", "went on without")]
    assert result.outcome == "answered"


# going on
