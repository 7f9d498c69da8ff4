"""What a model may write where a plan, a decomposition or an answer is due, and what its endpoint may do: there is
always a plan or a reason, and the plan's notes say what was wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from agent.planning.rulebook import answer, chosen, planner
from callgate import Runtime, tool
from callgate.agent.models.model import Request
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.agent.orchestration.answering import PlannedAnswerer
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.decomposition import Decomposer
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import ToolPlan
from callgate.errors import ContextExceeded, ModelError, ModelRejected, ModelUnavailable

pytestmark = pytest.mark.anyio

QUERY = "How high may a shelf be?"


@tool(read_only=True, category="search")
async def search_rules(query: str) -> dict[str, Any]:
    """Searches the rules for a question."""
    return {"text": f"Shelves: 2 m. ({query})", "confidence": 0.9}


@tool(read_only=True)
async def check_rule(rule: str) -> dict[str, Any]:
    """Checks whether a rule is in force."""
    return {"rule": rule, "valid": True}


TOOLS = [search_rules, check_rule]
GOOD = json.dumps(
    {
        "reasoning": "a search",
        "toolChain": [{"subQuery": QUERY, "tool": "search_rules", "parameters": {"query": QUERY}}],
    }
)

BAD = {
    "prose": "Sure! I would first search the rules, and then check them.",
    "half": '{"reasoning": "I will sea',
    "empty": Say(),
    "cut": Say(text='{"toolChain": [', cut=True),
    "calls": Calls(("search_rules", {"query": QUERY})),
    "array of numbers": "[1, 2, 3]",
    "deep": "[" * 50_000,
    "unknown tool": json.dumps({"reasoning": "", "toolChain": [{"tool": "ask_oracle", "parameters": {}}]}),
    "wrong arguments": json.dumps({"reasoning": "", "toolChain": [{"tool": "search_rules", "parameters": {"q": 1}}]}),
    "needs itself": json.dumps(
        {"reasoning": "", "toolChain": [{"tool": "search_rules", "parameters": {"query": "$ref:c0.text"}}]}
    ),
}
"""What may stand where a selection of tools is due."""


async def planned(turns: Sequence[Any], *, decomposer: bool = False, **settings: Any) -> tuple[ToolPlan, ScriptedModel]:
    model = ScriptedModel(turns)
    async with Runtime(TOOLS, sandbox=None) as runtime:
        planner = ToolPlanner(
            runtime,
            model,
            decomposer=Decomposer(model) if decomposer else None,
            settings=PlannerSettings(**settings),
        )
        with anyio.fail_after(10):
            return await planner.plan(QUERY), model


@pytest.mark.parametrize("name", BAD)
async def test_a_selection_that_is_wrong_is_asked_for_once_more_with_what_was_wrong(name: str) -> None:
    plan, model = await planned([BAD[name], GOOD])
    assert (plan.source, [step.tool for step in plan.steps]) == ("model", ["search_rules"])
    assert any(note.startswith("asked again: ") for note in plan.notes)
    assert len(model.requests) == 2
    assert len(model.requests[1].messages) == 3


@pytest.mark.parametrize("name", BAD)
async def test_a_selection_that_stays_wrong_is_made_by_rules(name: str) -> None:
    plan, model = await planned([BAD[name], BAD[name]])
    assert plan.source == "fallback"
    assert [step.tool for step in plan.steps] == ["search_rules"]
    assert len(model.requests) == 2
    assert plan.notes


async def test_of_half_a_selection_the_whole_entries_are_used() -> None:
    half = '{"reasoning": "x", "toolChain": [' + json.dumps(json.loads(GOOD)["toolChain"][0]) + ', {"tool": "check_ru'
    plan, _ = await planned([half, half])
    assert [step.tool for step in plan.steps] == ["search_rules"]
    assert any("not" in note or "JSON" in note for note in plan.notes)


@pytest.mark.parametrize("name", ["prose", "half", "empty", "array of numbers", "deep"])
async def test_a_decomposition_that_is_none_makes_a_simple_plan(name: str) -> None:
    plan, _ = await planned([BAD[name], BAD[name], GOOD], decomposer=True)
    assert [step.tool for step in plan.steps] == ["search_rules"]
    assert plan.confidence <= 0.2
    assert plan.notes


@pytest.mark.parametrize(
    "error",
    [
        ModelUnavailable("the model's endpoint answered 429: slow down", status=429),
        ModelUnavailable("the model's reply broke off, 3 times"),
        ModelRejected("the model's endpoint answered 401: no such key", status=401),
        ContextExceeded("the input is too long for the model", 9_000),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("decomposer", [False, True], ids=["whole", "decomposed"])
async def test_without_an_answer_of_the_endpoint_rules_choose(error: ModelError, decomposer: bool) -> None:
    plan, _ = await planned([error], decomposer=decomposer)
    assert plan.source == "fallback"
    assert [step.tool for step in plan.steps] == ["search_rules"]
    assert any("rules chose" in note and str(error)[:30] in note for note in plan.notes)


async def test_a_model_that_is_silent_is_given_up_when_the_planning_time_is_over() -> None:
    async def silent(request: Any) -> str:
        await anyio.sleep_forever()
        raise AssertionError

    plan, _ = await planned([silent], planning_seconds=0.1)
    assert plan.source == "fallback"
    assert any("planning took longer than 0.1 s" in note for note in plan.notes)


async def test_a_refusal_to_choose_is_not_asked_again() -> None:
    plan, model = await planned([Say(refusal="I will not.")])
    assert plan.source == "fallback"
    assert len(model.requests) == 1
    assert any("the model refused: I will not." in note for note in plan.notes)


@pytest.mark.parametrize(
    ("said", "ended"),
    [
        (Say(), "empty"),
        (ModelUnavailable("no connection to the model"), "failed"),
        (Say(refusal="I will not."), "refused"),
        (Say(text="Shelves may be", cut=True), "cut"),
        (Calls(("search_rules", {"query": "again"})), "empty"),
    ],
    ids=["empty", "unavailable", "refused", "cut", "calls"],
)
async def test_a_synthesis_without_words_is_made_of_the_results_and_a_refusal_is_a_refusal(
    said: Any, ended: str
) -> None:
    model = ScriptedModel([GOOD, said])
    async with Runtime(TOOLS, sandbox=None) as runtime:
        answerer = PlannedAnswerer(ToolPlanner(runtime, model), ToolOrchestrator(runtime), model)
        answer = await answerer.answer(QUERY)
    assert answer.synthesis is not None
    assert answer.synthesis.ended == ended
    assert answer.ok == (ended == "cut")
    if ended in ("empty", "failed"):
        assert not answer.synthesis.by_model
        assert "Shelves: 2 m." in answer.answer
    if ended == "refused":
        assert "I will not." in answer.reason
        assert "Shelves" not in answer.answer


async def test_what_was_right_is_not_lost_where_the_correction_does_not_come_in_time() -> None:
    async def never(request: Request) -> str:
        await anyio.sleep_forever()
        return ""

    half_right = answer(chosen("vector-search", query="x"), chosen("keyword-serch", query="y"))
    planning, model = planner(half_right, never, settings=PlannerSettings(planning_seconds=0.5))
    with anyio.fail_after(30):
        plan = await planning.plan("about x and y")
    assert [(step.tool, step.parameters) for step in plan.steps] == [("vector-search", {"query": "x"})]
    assert (plan.source, plan.timed_out) == ("model", False)
    assert "asked again, the model did not answer in time" in plan.notes
    assert len(model.requests) == 2
    assert [each.kind for each in plan.bad_words] == ["no_schema"]


async def test_where_nothing_was_right_a_correction_that_does_not_come_in_time_leaves_it_to_the_rules() -> None:
    async def never(request: Request) -> str:
        await anyio.sleep_forever()
        return ""

    planning, _ = planner("prose", never, settings=PlannerSettings(planning_seconds=0.05))
    with anyio.fail_after(30):
        plan = await planning.plan("about x and y")
    assert (plan.source, plan.timed_out) == ("fallback", True)
