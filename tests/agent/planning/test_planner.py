"""From a query to a plan: the shapes of plans, the time limit, and what is always a plan."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.planning.rulebook import answer, by_id, chosen, decomposed, planner, rulebook
from callgate import ConfigurationError, ModelUnavailable
from callgate.agent.models.model import Request
from callgate.agent.models.recording import RecordingModel
from callgate.agent.models.scripted import ScriptedModel
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.selection import Advice, Combination, Selection, SelectionOutcome, ToolAdvice, ToolChoice
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import StepFallback, SubQuery, ToolExecution, ToolStep
from callgate.tools import tool

pytestmark = pytest.mark.anyio


async def test_a_simple_query_is_a_single_vector_search() -> None:
    query = "What is a terminator's toughness?"
    planning, _ = planner(answer(chosen("vector-search", query, query="terminator toughness")))
    plan = await planning.plan(query)
    assert [(step.tool, dict(step.parameters)) for step in plan.steps] == [
        ("vector-search", {"query": "terminator toughness"})
    ]
    assert plan.stages == (("c0",),)
    assert (plan.source, plan.strategy, plan.confidence) == ("model", "model", 0.9)


async def test_a_comparison_is_two_vector_searches_at_the_same_time() -> None:
    query = decomposed("Terminator vs Dreadnought", "Terminator profile", "Dreadnought profile")
    planning, _ = planner(
        answer(
            chosen("vector-search", "Terminator profile", query="Terminator"),
            chosen("vector-search", "Dreadnought profile", query="Dreadnought"),
        )
    )
    plan = await planning.plan(query.query, query)
    assert plan.stages == (("c0", "c1"),)
    assert [step.execution_mode for step in plan.steps] == ["parallel", "parallel"]
    assert all(not step.dependencies for step in plan.steps)


async def test_a_question_of_several_hops_is_a_sequential_chain() -> None:
    query = decomposed(
        "Can my terminators deep strike turn 1?",
        "Do terminators have deep strike?",
        SubQuery(text="When may units with deep strike arrive?", depends_on=(0,)),
        SubQuery(text="Does an exception allow turn 1?", depends_on=(1,)),
    )
    planning, _ = planner(
        answer(
            chosen("keyword-search", query.sub_queries[0].text, query="terminators"),
            chosen("vector-search", query.sub_queries[1].text, query="$ref:c0.hits.0"),
            chosen("vector-search", query.sub_queries[2].text, query="exceptions to deep strike on turn 1"),
        )
    )
    plan = await planning.plan(query.query, query)
    assert plan.stages == (("c0",), ("c1",), ("c2",))
    steps = by_id(plan)
    assert steps["c1"].dependencies == ("c0",)
    assert steps["c2"].dependencies == ("c1",)
    assert [step.execution_mode for step in plan.steps] == ["parallel", "sequential", "sequential"]
    assert steps["c0"].critical
    assert not steps["c2"].critical


async def test_building_a_list_is_a_plan_of_several_stages() -> None:
    query = "Build 2000pt list"
    planning, _ = planner(
        answer(
            chosen("roster", faction="Ultramarines", points=2000),
            chosen("vector-search", query="list building"),
            chosen("synthesize", findings=["$ref:c0", "$ref:c1"]),
            chosen("validate-answer", answer="$ref:c2"),
        )
    )
    plan = await planning.plan(query)
    assert plan.stages == (("c0", "c1"), ("c2",), ("c3",))
    steps = by_id(plan)
    assert steps["c2"].dependencies == ("c0", "c1")
    assert steps["c3"].dependencies == ("c2",)
    assert steps["c3"].after == ("c0", "c1")


async def test_a_plan_runs_in_the_plan_engine_as_it_is() -> None:
    async with rulebook() as runtime:
        planning, _ = planner(
            answer(chosen("keyword-search", query="terminator"), chosen("vector-search", query="$ref:c0.hits.0")),
            runtime=runtime,
        )
        plan = await planning.plan("What may a terminator do?")
        result = await runtime.execute_tool_plan(plan.to_plan())
        assert result.ok
        assert result.outputs["c1"]["hits"] == ["about terminator"]


async def test_a_step_says_all_that_its_call_goes_by_and_the_plan_language_takes_it() -> None:
    runtime = rulebook()
    turn = answer(
        chosen("roster", faction="Orks", points=500),
        chosen("keyword-search", query="${c0.points} points", confidence=0.3),
    )
    planning, _ = planner(turn, runtime=runtime, settings=PlannerSettings(low_result_confidence=0.4))
    plan = await planning.plan("What may Orks buy?")
    fallback = StepFallback(tool="vector-search", condition="on_low_confidence", threshold=0.4)
    assert plan.steps[1] == ToolStep(
        id="c1", tool="keyword-search", parameters={"query": "${c0.points} points"}, dependencies=("c0",),
        execution_mode="sequential", timeout_seconds=15.0, fallback=fallback, sub_query="What may Orks buy?",
        confidence=0.3,
    )  # fmt: skip
    written = plan.to_plan()
    assert not [fault for fault in runtime.check_plan(written) if fault.severity == "error"]
    assert written["steps"][1] == {
        "id": "c1", "tool": "keyword-search", "arguments": {"query": "${c0.points} points"},
        "description": "What may Orks buy?", "depends_on": ["c0"], "execution_mode": "sequential",
        "timeout_seconds": 15.0,
        "fallback": {"tool": "vector-search", "condition": "on_low_confidence", "threshold": 0.4},
    }  # fmt: skip


async def test_a_query_is_taken_apart_where_somebody_can() -> None:
    from callgate.agent.planning.decomposition import Decomposer

    parts = [{"text": f"profile of {name}", "confidence": 0.9, "dependsOn": []} for name in ("A", "B")]
    model = ScriptedModel(
        [
            json.dumps({"queryType": "comparison", "confidence": 0.9, "subQueries": parts}),
            answer(
                chosen("vector-search", "profile of A", query="A"), chosen("vector-search", "profile of B", query="B")
            ),
        ]
    )
    plan = await ToolPlanner(rulebook(), model, decomposer=Decomposer(model)).plan("A or B?")
    assert [step.sub_query for step in plan.steps] == ["profile of A", "profile of B"]
    assert "**Query Type**: comparison" in str(model.requests[1].messages[0])
    assert plan.usage.input_tokens > 0


async def test_the_planner_model_of_the_settings_chooses_instead_of_the_agents_own(tmp_path: Path) -> None:
    runtime, words = rulebook(), answer(chosen("keyword-search", "ork boyz", query="ork boyz"))
    recorder = RecordingModel(ScriptedModel([words]), tmp_path / "planner.jsonl")
    await ToolPlanner(runtime, recorder).plan("ork boyz")
    await recorder.aclose()
    environment = {"TOOL_PLANNER_MODEL": f"replay:{tmp_path / 'planner.jsonl'}"}
    settings = PlannerSettings.from_environment(environment)
    own = ScriptedModel(["asked by mistake"])
    for given in (own, None):
        planning = ToolPlanner(runtime, given, settings=settings)
        plan = await planning.plan("ork boyz")
        await planning.aclose()
        assert ([step.tool for step in plan.steps], plan.source) == (["keyword-search"], "model")
    assert own.requests == []


def test_somebody_has_to_choose() -> None:
    with pytest.raises(ConfigurationError, match="nobody chooses the tools: give a model, a selector, or"):
        ToolPlanner(rulebook())
    with pytest.raises(ConfigurationError, match="/there/is/none"):
        ToolPlanner(rulebook(), settings=PlannerSettings(planner_model="replay:/there/is/none"))


async def test_planning_that_takes_too_long_is_cancelled_and_rules_choose() -> None:
    cancelled: list[bool] = []

    async def never(request: Request) -> str:
        try:
            await anyio.sleep_forever()
        except BaseException:
            cancelled.append(True)
            raise
        return ""

    planning, _ = planner(never, settings=PlannerSettings(planning_seconds=0.01))
    with anyio.fail_after(30):
        plan = await planning.plan("how far do jump packs move")
    assert cancelled == [True]
    assert plan.timed_out
    assert plan.source == "fallback"
    assert plan.strategy == "rules"
    assert [step.parameters for step in plan.steps] == [{"query": "how far do jump packs move"}]
    assert "planning took longer than 0.01 s; rules chose" in plan.notes


async def test_an_endpoint_that_gives_nothing_leaves_it_to_the_rules() -> None:
    planning, _ = planner(ModelUnavailable("no connection", status=503))
    plan = await planning.plan("how far do jump packs move")
    assert plan.source == "fallback"
    assert len(plan.steps) == 1
    assert not plan.timed_out
    assert "the model gave no answer: no connection; rules chose" in plan.notes


async def test_where_nothing_is_certain_the_plan_has_no_steps_and_says_so() -> None:
    @tool
    async def order_pizza(kind: str) -> str:
        """Order a pizza."""
        return kind

    planning, _ = planner(ModelUnavailable("gone"), runtime=rulebook(order_pizza))
    plan = await planning.plan("order a pizza")
    assert plan.steps == ()
    assert plan.source == "fallback"
    assert any("no read-only tool is certain to fit 'order a pizza'" in note for note in plan.notes)


async def test_a_model_may_say_that_no_tool_is_needed() -> None:
    planning, _ = planner(answer(reasoning="a greeting"))
    plan = await planning.plan("Hello!")
    assert (plan.steps, plan.source, plan.notes) == ((), "model", ("no tool is needed",))


async def test_without_tools_there_is_a_plan_without_steps() -> None:
    @tool(allowed_callers=["direct"])
    async def whisper(words: str) -> str:
        """Whisper."""
        return words

    planning, model = planner(runtime=rulebook(whisper))
    plan = await planning.plan("whisper something")
    assert (plan.steps, plan.notes) == ((), ("there is no tool that a plan may call",))
    assert model.requests == []


@pytest.mark.parametrize("form", [str, rulebook().registry.info], ids=["by name", "with what is known"])
async def test_tools_that_may_not_be_used_are_not_shown(form: Any) -> None:
    planning, model = planner(answer(chosen("keyword-search", query="turn")))
    plan = await planning.plan("the turn", tools=[form("keyword-search")])
    assert "vector-search" not in model.requests[0].system
    assert [step.tool for step in plan.steps] == ["keyword-search"]
    with pytest.raises(ConfigurationError, match="there is no tool 'nothing'"):
        await planning.plan("the turn", tools=["nothing"])
    with pytest.raises(ConfigurationError, match="list of names"):
        await planning.plan("the turn", tools="keyword-search")


@pytest.mark.parametrize("query", ["", "   ", "x" * 100_001, None, 5])
async def test_what_is_no_query_is_refused(query: Any) -> None:
    planning, _ = planner()
    with pytest.raises(ConfigurationError, match="a query is text of 1 to 100000 characters"):
        await planning.plan(query)


async def test_the_plan_says_what_it_will_take() -> None:
    runtime = rulebook()
    for _ in range(3):
        runtime.registry.statistics.note("vector-search", 0.5, "succeeded")
    planning, _ = planner(
        answer(chosen("vector-search", query="a"), chosen("vector-search", query="b")), runtime=runtime
    )
    plan = await planning.plan("compare a and b")
    assert plan.estimated_seconds == pytest.approx(0.5)
    assert plan.estimated_cost == pytest.approx(0.4)
    assert plan.planning_seconds > 0
    assert plan.reasoning == "as the question asks"


@pytest.mark.parametrize(("limit", "seconds"), [(5, 1.5), (12, 0.5), (1, 6.0)])
async def test_the_estimate_knows_how_many_calls_run_at_the_same_time(limit: int, seconds: float) -> None:
    runtime = rulebook()
    runtime.registry.statistics.note("vector-search", 0.5, "succeeded")
    chain = answer(*[chosen("vector-search", query=f"unit {n}") for n in range(12)])
    planning, _ = planner(chain, runtime=runtime, settings=PlannerSettings(parallel_limit=limit))
    assert (await planning.plan("all units")).estimated_seconds == pytest.approx(seconds)


async def test_every_selection_is_logged_with_its_reasoning(caplog: pytest.LogCaptureFixture) -> None:
    planning, _ = planner(answer(chosen("vector-search", query="toughness"), reasoning="a semantic\nlookup"))
    with caplog.at_level(logging.INFO, logger="callgate"):
        plan = await planning.plan("toughness of terminators")
    (record,) = caplog.records
    assert plan.id in record.getMessage()
    assert "c0=vector-search (0.90)" in record.getMessage()
    assert "reasoning: a semantic lookup" in record.getMessage()


class _Foreign:
    """Somebody's own selector, which chooses what it should not."""

    name = "foreign"

    async def select(self, query: object, tools: object) -> Selection:
        return Selection(
            chain=(
                ToolChoice(sub_query=0, tool="nothing"),
                ToolChoice(sub_query=0, tool="vector-search", parameters={"query": "$ref:c0"}),
                ToolChoice(sub_query=7, tool="vector-search", parameters={"query": "x"}),
                ToolChoice(sub_query=0, tool="keyword-search", parameters={"query": "x"}),
                ToolChoice(sub_query=0, tool="keyword-search", parameters={"queri": "x"}),
                ToolChoice(sub_query=0, tool="vector-search", parameters={"query": "$ref:c3.hits.0"}),
            ),
            strategy="an arm",
        )


async def test_what_the_plan_engine_would_refuse_is_left_out() -> None:
    planning, _ = planner(selector=_Foreign())
    plan = await planning.plan("anything")
    assert [step.tool for step in plan.steps] == ["keyword-search", "vector-search"]
    assert plan.steps[1].parameters == {"query": f"$ref:{plan.steps[0].id}.hits.0"}
    assert planning_notes(plan.notes, "c0 (nothing) is left out: the tool 'nothing' may not be used")
    assert planning_notes(plan.notes, "is left out: its sub-query does not exist")
    assert planning_notes(plan.notes, "queri")
    assert plan.strategy == "an arm"


def planning_notes(notes: tuple[str, ...], words: str) -> bool:
    return any(words in note for note in notes)


async def test_a_strategy_that_is_not_the_selectors_own_is_asked_every_time() -> None:
    planning, _ = planner(selector=_Foreign())
    assert (await planning.plan("anything")).source == "model"
    assert (await planning.plan("anything")).source == "model"


def _nested(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [float("nan"), "\ud800", _nested(5_000)],
    ids=["nan", "half a character", "very deep"],
)
async def test_of_a_selectors_parameters_that_are_not_json_the_choice_is_left_out(value: Any) -> None:
    class Wrong(_Foreign):
        async def select(self, query: object, tools: object) -> Selection:
            wrong = ToolChoice(sub_query=0, tool="vector-search", parameters={"query": value})
            right = ToolChoice(sub_query=0, tool="keyword-search", parameters={"query": "x"})
            return Selection(chain=(wrong, right), strategy="foreign", source="model")

    planning, _ = planner(selector=Wrong())
    plan = await planning.plan("how far do jump packs move")
    assert [(step.id, step.tool) for step in plan.steps] == [("c1", "keyword-search")]
    assert planning_notes(plan.notes, "c0 (vector-search) is left out: the plan: the plan is ")


class _Advising:
    def note(self, outcome: SelectionOutcome) -> None:
        raise AssertionError("the orchestrator notes")

    def advice(self, query: str, tools: object) -> Advice:
        return Advice(
            tools=(ToolAdvice(tool="hybrid-search", samples=9, success_rate=0.2, avoid="it fails often"),),
            combinations=(Combination(tools=("keyword-search", "vector-search"), tries=4, successes=3),),
        )


async def test_the_model_is_told_what_worked_and_what_to_avoid() -> None:
    planning, model = planner(answer(chosen("vector-search", query="x")), memory=_Advising())
    plan = await planning.plan("what about x")
    told = str(model.requests[0].messages[0])
    assert "hybrid-search: avoid it: it fails often; 20 % of 9 tries succeeded" in told
    assert "worked together for queries like this one, 3 of 4 times: keyword-search then vector-search" in told
    planning.learned(plan, ToolExecution(plan_id=plan.id, results=(), total_seconds=0, success=False))


async def test_a_memory_that_fails_costs_no_plan(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(_Advising):
        def advice(self, query: str, tools: object) -> Advice:
            raise OSError("the disk is gone")

    planning, _ = planner(answer(chosen("vector-search", query="x")), memory=Broken())
    assert [step.tool for step in (await planning.plan("what about x")).steps] == ["vector-search"]
    assert "the memory failed to advise on 'what about x'" in caplog.text


async def test_several_queries_are_planned_at_the_same_time() -> None:
    began = 0
    everybody = anyio.Event()

    async def together(request: Request) -> str:
        nonlocal began
        began += 1
        if began == 5:
            everybody.set()
        await everybody.wait()
        return answer(chosen("vector-search", query="x"))

    planning, _ = planner(*[together] * 5, settings=PlannerSettings(planning_seconds=60))
    found: list[str] = []

    async def one(number: int) -> None:
        found.append((await planning.plan(f"about topic{number}")).id)

    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(one, number)
    assert len(set(found)) == 5


@pytest.mark.parametrize(
    ("first", "seconds", "source"),
    [
        (answer(chosen("vector-search", query="x"), chosen("keyword-serch", query="y")), 0.5, "model"),
        ("prose", 0.05, "fallback"),
    ],
)
async def test_what_was_right_is_not_lost_where_the_correction_does_not_come_in_time(
    first: str, seconds: float, source: str
) -> None:
    async def never(request: Request) -> str:
        await anyio.sleep_forever()
        return ""

    planning, model = planner(first, never, settings=PlannerSettings(planning_seconds=seconds))
    with anyio.fail_after(30):
        plan = await planning.plan("about x and y")
    assert (plan.source, plan.timed_out) == (source, source == "fallback")
    assert len(model.requests) == 2
    if source == "model":
        assert [(step.tool, step.parameters) for step in plan.steps] == [("vector-search", {"query": "x"})]
        assert "asked again, the model did not answer in time" in plan.notes
        assert [each.kind for each in plan.bad_words] == ["no_schema"]
