"""A query answered from end to end: planned, run, learned from, put into words; and where that ends."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest

from agent.orchestration.orchestrated import QUICK, Noted, data, orchestrator, plan, step
from callgate import ModelUnavailable, ToolError, tool
from callgate.agent.models.model import User
from callgate.agent.models.scripted import Move, Say, ScriptedModel
from callgate.agent.orchestration.answering import PlannedAnswerer
from callgate.agent.orchestration.context import execution_context
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.tool_plan import DecomposedQuery, SubQuery, ToolExecution, ToolPlan, ToolStep
from callgate.runtime import StepEnded
from callgate.tools.registry import ToolInfo

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _in_time() -> AsyncIterator[None]:
    with anyio.fail_after(20):
        yield


class ByHand:
    """Makes one step for each part of the query, or raises."""

    def __init__(self, *steps: ToolStep, error: Exception | None = None) -> None:
        self.steps = steps
        self.error = error
        self.learnt: list[tuple[ToolPlan, ToolExecution]] = []
        self.tools: Sequence[ToolInfo] | None = None

    async def plan(
        self, query: str, decomposition: DecomposedQuery | None = None, tools: Sequence[ToolInfo] | None = None
    ) -> ToolPlan:
        self.tools = tools
        if self.error is not None:
            raise self.error
        parts = () if decomposition is None else decomposition.sub_queries
        made = [step(f"s{n}", "lookup", unit=part.text, sub_query=part.text) for n, part in enumerate(parts)]
        return plan(*self.steps, *made, query=query)

    def learned(self, plan: ToolPlan, execution: ToolExecution) -> None:
        self.learnt.append((plan, execution))


@tool(read_only=True)
async def lookup(unit: str) -> dict[str, Any]:
    """Facts about a unit."""
    if unit == "unknown":
        raise ToolError("there is no such unit")
    context = execution_context()
    assert context is not None
    return {"unit": unit, "confidence": 0.8, "source": f"codex/{unit}", "history": len(context.history)}


async def test_a_decomposed_query_becomes_a_plan_results_and_an_answer() -> None:
    planner = ByHand()
    model = ScriptedModel(["Both are there [1, 2]."])
    seen: list[Any] = []
    noted = Noted()
    decomposition = DecomposedQuery(query="a and b", sub_queries=(SubQuery(text="a"), SubQuery(text="b")))
    async with orchestrator([lookup], memory=noted) as made:
        answer = await PlannedAnswerer(planner, made, model).answer(
            "a and b",
            decomposition=decomposition,
            history=(User(text="earlier"),),
            on_plan=seen.append,
            on_execution=seen.append,
            on_event=seen.append,
        )
    assert answer.ok
    assert answer.answer == "Both are there [1, 2]."
    assert answer.reason == ""
    assert answer.plan is not None
    assert answer.execution is not None
    assert answer.synthesis is not None
    assert [each["unit"] for each in data(answer.execution).values()] == ["a", "b"]
    assert data(answer.execution)["s0"]["history"] == 1
    assert answer.synthesis.cited == (1, 2)
    assert answer.synthesis.confidence == pytest.approx(0.8)
    assert [each.location for each in answer.synthesis.sources] == ["codex/a", "codex/b"]
    assert planner.learnt == [(answer.plan, answer.execution)]
    assert seen[0] is answer.plan
    assert seen[-1] is answer.execution
    assert [event.step.id for event in seen if isinstance(event, StepEnded)] == ["s0", "s1"]
    assert len(noted.outcomes) == 1


async def test_instructions_are_the_answerers_and_the_answers() -> None:
    model = ScriptedModel(["Ja [1]."])
    async with orchestrator([lookup]) as made:
        answerer = PlannedAnswerer(ByHand(step("a", "lookup", unit="x")), made, model, instructions="Be brief.")
        told = {"instructions": "Answer in German.", "temperature": 0.0, "max_output_tokens": 50}
        assert (await answerer.answer("?", **told)).ok  # type: ignore[arg-type]
    assert [(each.temperature, each.max_output_tokens) for each in model.requests] == [(0.0, 50)]
    assert model.requests[0].system.endswith("Be brief.\n\nAnswer in German.")


async def test_nothing_is_run_and_nothing_is_asked_after_it_was_stopped() -> None:
    planner = ByHand(step("a", "lookup", unit="x"))
    model = ScriptedModel(["never asked"])
    async with orchestrator([lookup]) as made:
        answerer = PlannedAnswerer(planner, made, model)
        before = await answerer.answer("?", stop=lambda: "no money")
        after = await answerer.answer("?", stop=lambda: "no money" if planner.learnt else "")
    assert (before.ok, before.reason, before.answer, before.execution) == (False, "no money", "", None)
    assert (after.ok, after.reason, after.synthesis) == (False, "no money", None)
    assert after.execution is not None
    assert "codex/x" in after.answer
    assert model.requests == []


async def test_a_partial_failure_is_answered_from_what_there_is() -> None:
    planner = ByHand(step("a", "lookup", unit="terminator"), step("b", "lookup", unit="unknown"))
    model = ScriptedModel([lambda request: "Only one: " + str("there is no such unit" in str(request.messages))])
    async with orchestrator([lookup]) as made:
        answer = await PlannedAnswerer(planner, made, model).answer("?")
    assert (answer.ok, answer.answer) == (True, "Only one: True")
    assert answer.synthesis is not None
    assert answer.synthesis.failed == ("b",)
    assert planner.learnt[0][1].failed_steps == ("b",)


@pytest.mark.parametrize(
    ("steps", "reason", "answer"),
    [
        ([], "the plan has no steps: no tool is needed", ""),
        (
            [step("a", "lookup", unit="unknown", sub_query="part")],
            "no step gave a result; 'a': there is no such unit",
            "part: no result (there is no such unit)",
        ),
        (
            [step("a", "lookup", unit="x"), step("b", "lookup", unit="unknown", critical=True)],
            "the critical step 'b' failed: there is no such unit",
            'a (lookup):\n{"unit":"x","confidence":0.8,"source":"codex/x","history":0}\n\n'
            "b (lookup): no result (there is no such unit)",
        ),
        ([step("a", "look_up", unit="x")], "no step gave a result; 'a': step 'a'", None),
    ],
)
async def test_where_no_answer_is_possible_the_reason_and_what_there_is_are_given(
    steps: list[ToolStep], reason: str, answer: str | None
) -> None:
    model = ScriptedModel([])  # it is not asked
    async with orchestrator([lookup]) as made:
        given = await PlannedAnswerer(ByHand(*steps), made, model).answer("?")
    assert not given.ok
    assert given.reason.startswith(reason)
    assert answer is None or given.answer == answer
    assert given.plan is not None
    assert (given.execution is None) == (not steps)


@pytest.mark.parametrize("stops", [True, False])
async def test_a_critical_failure_ends_it_where_the_settings_have_it_so(stops: bool) -> None:
    steps = [step("a", "lookup", unit="unknown", critical=True), step("b", "lookup", unit="x", after=("a",))]
    settings = replace(QUICK, stop_on_critical=stops)
    async with orchestrator([lookup], settings) as made:
        given = await PlannedAnswerer(ByHand(*steps), made, ScriptedModel(["Only x [1]."])).answer("?")
    if stops:
        assert not given.ok
        assert given.reason.startswith("the critical step 'a' failed: ")
    else:
        assert (given.ok, given.answer, given.reason) == (True, "Only x [1].", "")


async def test_a_cancelled_plan_is_no_answer() -> None:
    begun = anyio.Event()

    @tool
    async def never() -> None:
        """Run until it is given up."""
        begun.set()
        await anyio.sleep_forever()

    planner = ByHand(step("a", "lookup", unit="x"), step("b", "never"))
    async with orchestrator([lookup, never]) as made:
        answerer = PlannedAnswerer(planner, made, ScriptedModel([]))
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await begun.wait()
                await made.cancel("p1")

            tasks.start_soon(cancel)
            answer = await answerer.answer("?")
    assert not answer.ok
    assert answer.reason == "the plan was cancelled"
    assert answer.execution is not None
    assert answer.execution.cancelled


async def test_a_model_that_cannot_plan_is_told_as_a_reason() -> None:
    planner = ByHand(error=ModelUnavailable("nobody there", status=503))
    async with orchestrator([lookup]) as made:
        answer = await PlannedAnswerer(planner, made, ScriptedModel([])).answer("?")
    assert not answer.ok
    assert answer.plan is None
    assert answer.reason == "no plan: ModelUnavailable: nobody there"


@pytest.mark.parametrize(
    ("move", "ok", "reason"),
    [
        (Say("Half an", cut=True), True, ""),
        (Say(refusal="No."), False, "refused: No."),
        (Say(), False, "empty: the model said nothing (its reply ended: empty)"),
        (ModelUnavailable("nobody there"), False, "failed: ModelUnavailable: nobody there"),
    ],
)
async def test_what_the_model_made_of_the_results_decides(move: Move, ok: bool, reason: str) -> None:
    planner = ByHand(step("a", "lookup", unit="x"))
    async with orchestrator([lookup]) as made:
        answer = await PlannedAnswerer(planner, made, ScriptedModel([move])).answer("?")
    assert (answer.ok, answer.reason) == (ok, reason)
    assert answer.answer  # the refusal's words, or the results in order
    assert planner.learnt


async def test_only_the_tools_that_were_given_may_be_planned_and_called() -> None:
    calls: list[str] = []

    @tool
    async def other() -> str:
        """Another."""
        calls.append("other")
        return "x"

    planner = ByHand(step("a", "other"))
    async with orchestrator([lookup, other], QUICK) as made:
        tools = [made._runtime.registry.info("lookup")]
        answer = await PlannedAnswerer(planner, made, ScriptedModel([])).answer("?", tools=tools)
    assert planner.tools == tools
    assert calls == []
    assert not answer.ok


@tool(read_only=True, category="search", capabilities=["keyword search"])
async def find(query: str) -> dict[str, Any]:
    """Find a unit by its name."""
    return {"unit": query, "toughness": len(query), "confidence": 0.8, "source": f"codex/{query}"}


@tool(read_only=True, category="synthesis", capabilities=["comparison"])
async def compare(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The tougher of two units."""
    return {"tougher": max(a, b, key=lambda unit: unit["toughness"])["unit"]}


async def test_the_planner_s_own_plan_is_run_from_the_decomposed_query_to_the_answer() -> None:
    first, second, third = "find terminator", "find dreadnought", "which is tougher"
    choices = [
        (first, "find", {"query": "terminator"}),
        (second, "find", {"query": "dreadnought"}),
        (third, "compare", {"a": "$ref:c0", "b": "$ref:c1"}),
    ]
    chain = {
        "reasoning": "both, then compare",
        "toolChain": [
            {"subQuery": part, "tool": name, "parameters": given, "confidence": 0.9} for part, name, given in choices
        ],
    }
    decomposition = DecomposedQuery(
        query="terminator or dreadnought?",
        query_type="comparison",
        sub_queries=(
            SubQuery(text=first),
            SubQuery(text=second),
            SubQuery(text=third, kind="comparison", depends_on=(0, 1)),
        ),
    )
    model = ScriptedModel([json.dumps(chain), "The dreadnought [1, 2].", "The dreadnought, still [1]."])
    noted = Noted()
    async with orchestrator([find, compare], memory=noted) as made:
        planner = ToolPlanner(made._runtime, model, memory=noted)
        answerer = PlannedAnswerer(planner, made, model)
        answer = await answerer.answer("terminator or dreadnought?", decomposition=decomposition)
        again = await answerer.answer("terminator or dreadnought?", decomposition=decomposition)
    assert answer.ok, answer.reason
    assert answer.plan is not None
    assert answer.execution is not None
    assert answer.synthesis is not None
    assert [[step.tool for step in answer.plan.steps if step.id in stage] for stage in answer.plan.stages] == [
        ["find", "find"],
        ["compare"],
    ]
    assert data(answer.execution)["c2"] == {"tougher": "dreadnought"}
    assert [source.location for source in answer.synthesis.sources] == ["codex/terminator", "codex/dreadnought"]
    assert "which is tougher" in str(model.requests[1].messages)
    assert again.plan is not None
    assert again.plan.source == "cache"
    assert again.execution is not None
    assert all(each.cached for each in again.execution.results)
    assert [(each.strategy, each.success, each.reasoning) for each in noted.outcomes] == [
        (answer.plan.strategy, True, "both, then compare"),
        (answer.plan.strategy, True, again.plan.reasoning),
    ]
