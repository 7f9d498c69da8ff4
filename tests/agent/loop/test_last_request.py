"""The last request that a budget allows: when it comes, that it has no tools, and that the model hears of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.loop.scripted_runs import asked_for_an_answer, look, looks, of, play
from callgate import Runtime, tool
from callgate.agent.events import CallEnded
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.task_run import LAST_WORDS
from callgate.agent.models.model import Usage
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.agent.orchestration.answering import PlannedAnswerer
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.planner import ToolPlanner
from callgate.agent.react.config import read_config
from callgate.agent.react.planner import ReActPlanner

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("budget", "options"),
    [(Budget(tokens=3_000), {}), (Budget(cost=0.003), {"price": (1.0, 5.0)})],
    ids=["tokens", "cost"],
)
async def test_a_request_whose_conversation_alone_goes_beyond_the_budget_is_the_last(
    budget: Budget, options: dict[str, Any]
) -> None:
    """Two thirds are spent, far from nine tenths: but the next request has all of the conversation again."""
    half = Usage(input_tokens=1_500, output_tokens=10)
    result, model = await play([look], looks(1, half), asked_for_an_answer, mode="direct", budget=budget, **options)
    assert (result.outcome, result.answer) == ("answered", "This is what I have.")
    assert [request.tool_choice for request in model.requests] == ["auto", "none"]


async def test_a_large_result_counts_towards_the_next_request() -> None:
    @tool(read_only=True)
    async def report() -> str:
        """A long one."""
        return "words " * 6_000

    small = Say(calls=Calls(("report", {})), usage=Usage(input_tokens=100, output_tokens=10))
    result, _ = await play([report], small, asked_for_an_answer, mode="direct", budget=Budget(tokens=5_000))
    assert result.outcome == "answered"
    again, other = await play([report], small, "done", mode="direct", budget=Budget(tokens=50_000))
    assert (again.outcome, other.requests[1].tool_choice) == ("answered", "auto")


@pytest.mark.parametrize("budget", [Budget(tokens=1_000), Budget(cost=0.001)], ids=["tokens", "cost"])
async def test_calls_of_a_reply_that_spent_the_budget_are_answered_and_not_made(budget: Budget) -> None:
    made = []

    @tool
    async def send(to: str) -> str:
        """Send."""
        made.append(to)
        return "sent"

    calls = Say(
        calls=Calls(("send", {"to": "a"}), ("send", {"to": "b"})), usage=Usage(input_tokens=5_000, output_tokens=9)
    )
    result, model = await play([send], calls, mode="direct", budget=budget, price=(1.0, 5.0))
    assert (result.outcome, made, len(model.requests)) == ("budget", [], 1)
    assert "5009 of 1000 tokens" in result.reason or "dollars" in result.reason
    assert all("was not made: the budget is spent" in each.text for each in of(result, CallEnded))
    assert len(of(result, CallEnded)) == 2


async def test_a_planner_that_writes_in_words_hears_that_the_only_turn_is_the_last() -> None:
    config = read_config(
        "apiVersion: v1\nspec: {planner: {type: ReActPlanner, config: {use_function_calling: false, tool_descriptions: "
        "[{name: look, description: Looks., args: [n]}]}}}"
    )
    model = ScriptedModel(["Final Answer: 4"])
    async with Runtime([look], sandbox=None) as runtime:
        planner = ReActPlanner(config, model, runtime.registry)
        await Agent(model, runtime, planner=planner, budget=Budget(turns=1)).run("What is 2 + 2?")
    assert LAST_WORDS in str(model.requests[0].messages)


@pytest.mark.parametrize(
    ("usage", "given", "made"),
    [
        (Usage(input_tokens=700), 700, 1_000),
        (Usage(output_tokens=30), 170, 30),
        (Usage(input_tokens=-5, output_tokens=10**400), 170, 1_000),
        (Usage(input_tokens=True, output_tokens="9"), 170, 1_000),  # type: ignore[arg-type]
    ],
    ids=["of the request alone", "of the reply alone", "no counts", "no numbers"],
)
async def test_what_an_endpoint_leaves_out_of_its_count_is_estimated(usage: Usage, given: int, made: int) -> None:
    result, _ = await play([look], Say("done" * 1_000, usage=usage), mode="direct", price=(1.0, 1.0))
    assert result.usage.estimated
    assert abs(result.usage.input_tokens - given) < 100
    assert result.usage.output_tokens == made
    assert (result.cost or 0) > 0


async def test_what_an_answer_to_a_plan_read_is_not_expected_of_the_next_request() -> None:
    chain = {"toolChain": [{"tool": "look", "parameters": {"n": 1}, "reasoning": "r", "confidence": 0.9}]}
    silent = Say("", usage=Usage(input_tokens=20_000, output_tokens=1))
    model = ScriptedModel([json.dumps(chain), silent, looks(2), "done"])
    async with Runtime([look], sandbox=None) as runtime:
        answerer = PlannedAnswerer(ToolPlanner(runtime, model), ToolOrchestrator(runtime), model)
        result = await Agent(model, runtime, answerer=answerer, budget=Budget(tokens=35_000)).run("Look at 1.")
    assert (result.outcome, result.answer) == ("answered", "done")
    assert model.requests[2].tool_choice == "auto"
