"""What a task may spend, and that it spends no more: turns, tokens, cost, seconds."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.loop.scripted_runs import asked_for_an_answer, look, looks, of, play, sandboxed
from callgate import ConfigurationError, ModelUnavailable, Runtime, tool
from callgate.agent.events import CallEnded, MessageAdded, ModelAsked
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget, Spent
from callgate.agent.loop.task_run import LAST_WORDS
from callgate.agent.models.model import Request, Usage
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.agent.orchestration.answering import PlannedAnswerer
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.planner import ToolPlanner

pytestmark = pytest.mark.anyio


class Hanging:
    """Tools that never end, and whether they were ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.inside = 0

    def tool(self) -> Any:
        @tool(read_only=True)
        async def hang(n: int = 0) -> int:
            """Never ends."""
            self.begun += 1
            self.inside += 1
            try:
                await anyio.sleep_forever()
            finally:
                self.inside -= 1
            return n

        return hang


# values


@pytest.mark.parametrize(
    ("budget", "spent", "is_last", "over"),
    [
        (Budget(turns=3), Spent(turns=1), False, ""),
        (Budget(turns=3), Spent(turns=2), True, ""),
        (Budget(turns=3), Spent(turns=3), True, "3 of 3 turns"),
        (Budget(tokens=1_000), Spent(tokens=899), False, ""),
        (Budget(tokens=1_000), Spent(tokens=900), True, ""),
        (Budget(tokens=1_000), Spent(tokens=1_200), True, "1200 of 1000 tokens"),
        (Budget(cost=1.0), Spent(cost=0.89), False, ""),
        (Budget(cost=1.0), Spent(cost=0.9), True, ""),
        (Budget(cost=1.0), Spent(cost=1.5), True, "1.5 of 1 dollars"),
        (Budget(seconds=10), Spent(seconds=8.9), False, ""),
        (Budget(seconds=10), Spent(seconds=9), True, ""),
        (Budget(seconds=10), Spent(seconds=10), True, "10 of 10 seconds"),
        (Budget(cost=1.0), Spent(cost=None), False, "is not known"),
        (Budget(turns=None, seconds=None), Spent(turns=10**6, tokens=10**9, seconds=1e9), False, ""),
    ],
)
def test_what_is_last_and_what_is_over(budget: Budget, spent: Spent, is_last: bool, over: str) -> None:
    assert budget.is_last(spent, Spent()) is is_last
    assert over in budget.over(spent)
    assert bool(budget.over(spent)) is bool(over)


# turns, tokens, cost


@pytest.mark.parametrize(
    ("budget", "before", "options"),
    [
        (Budget(turns=3), 2, {}),
        (Budget(tokens=2_200), 2, {}),
        (Budget(cost=0.003), 2, {"price": (1.0, 5.0)}),  # a turn of these costs 0.0014
    ],
    ids=["turns", "tokens", "cost"],
)
async def test_the_last_request_asks_for_an_answer_without_tools(
    budget: Budget, before: int, options: dict[str, Any]
) -> None:
    turns = [looks(n) for n in range(before)]
    result, model = await play([look], *turns, asked_for_an_answer, mode="direct", budget=budget, **options)
    assert (result.outcome, result.answer) == ("answered", "This is what I have.")
    assert result.reason == "it was the last turn of the budget"
    assert [each.tool_choice for each in of(result, ModelAsked)] == ["auto"] * before + ["none"]
    assert [each.text for each in of(result, MessageAdded) if each.text] == [LAST_WORDS]
    assert all(request.tools for request in model.requests)  # the conversation has calls of them


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        (Budget(turns=2), "2 of 2 turns; the model called tools in its last turn"),
        (Budget(tokens=1_000), "1000 of 1000 tokens"),
        (Budget(cost=0.001), "0.0014 of 0.001 dollars"),
    ],
    ids=["turns", "tokens", "cost"],
)
async def test_a_spent_budget_ends_the_task(budget: Budget, reason: str) -> None:
    result, model = await play([look], *(looks(n) for n in range(5)), mode="direct", budget=budget, price=(1.0, 5.0))
    assert result.outcome == "budget"
    assert reason in result.reason
    assert len(model.requests) <= 2
    assert not result.ok


async def test_a_budget_of_one_turn_answers_without_any_tool() -> None:
    result, model = await play([look], "By heart: 4.", mode="direct", budget=Budget(turns=1))
    assert (result.outcome, result.answer) == ("answered", "By heart: 4.")
    assert model.requests[0].tool_choice == "none"


async def test_tokens_that_nobody_counted_are_estimated() -> None:
    result, _ = await play([look], looks(1, Usage()), "x" * 4_000, mode="direct", price=(1.0, 1.0))
    assert result.usage.estimated
    assert result.usage.output_tokens > 1_000
    assert (result.cost or 0.0) > 0.001
    short, _ = await play(
        [look], *(looks(n, Usage()) for n in range(9)), mode="direct", budget=Budget(tokens=300), price=(1.0, 1.0)
    )
    assert short.outcome == "budget"


async def test_a_budget_of_cost_needs_a_price_before_anything_is_asked() -> None:
    async with Runtime([look], sandbox=None) as runtime:
        model = ScriptedModel([])
        with pytest.raises(ConfigurationError, match="that of 'scripted' is not known"):
            Agent(model, runtime, budget=Budget(cost=1.0))
        Agent(model, runtime, budget=Budget(cost=1.0), price=(1, 1))


# seconds


SOON = Budget(seconds=0.3)


async def test_a_request_under_way_is_given_up_at_the_end_of_the_time() -> None:
    ended = []

    async def silent(request: Request) -> str:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(1)
        return ""

    result, _ = await play([look], silent, mode="direct", budget=SOON)
    assert (result.outcome, result.turns) == ("budget", 0)
    assert "0.3 seconds" in result.reason
    assert ended == [1]
    assert result.seconds < 10


async def test_a_call_under_way_is_given_up_at_the_end_of_the_time() -> None:
    hanging = Hanging()
    result, model = await play([hanging.tool()], Calls(("hang", {})), mode="direct", budget=SOON)
    assert (result.outcome, result.turns) == ("budget", 1)
    assert (hanging.begun, hanging.inside) == (1, 0)
    (ended,) = of(result, CallEnded)
    assert not ended.ok
    assert len(model.requests) == 1
    assert result.seconds < 10


async def test_a_search_under_way_is_given_up_at_the_end_of_the_time() -> None:
    async def load(query: str) -> list[Any]:
        await anyio.sleep_forever()
        return []

    result, _ = await play([look], Calls(("search_tools", {"query": "x"})), mode="direct", loader=load, budget=SOON)
    assert result.outcome == "budget"
    assert result.seconds < 10


async def test_a_plan_under_way_is_ended_and_nothing_of_it_is_left() -> None:
    hanging = Hanging()
    plan = {
        "steps": [
            {"id": "a", "tool": "look", "arguments": {"n": 1}},
            {"id": "b", "tool": "hang", "arguments": {"n": {"$ref": "a"}}},
            {"id": "c", "tool": "hang", "arguments": {}},
            {"id": "d", "tool": "look", "arguments": {"n": {"$ref": "b"}}},
        ]
    }
    result, _ = await play([look, hanging.tool()], Calls(("execute_tool_plan", plan)), mode="plan", budget=SOON)
    assert result.outcome == "budget"
    assert (hanging.begun, hanging.inside) == (2, 0)
    (run,) = result.runs
    statuses = {step["id"]: step["status"] for step in run["steps"]}
    assert statuses["a"] == "succeeded"
    assert "succeeded" not in (statuses["b"], statuses["c"], statuses["d"])
    assert result.seconds < 10


def children() -> set[str]:
    """Processes that this one has begun and that live."""
    return {each for path in Path("/proc/self/task").glob("*/children") for each in path.read_text().split()}


async def test_a_program_that_computes_for_ever_is_ended_too() -> None:
    before = children()
    async with sandboxed([look]) as runtime:
        code = "while True:\n    pass"
        result, _ = await play(
            runtime, Calls(("execute_code", {"code": code})), mode="code", budget=Budget(seconds=0.7)
        )
        assert result.outcome == "budget"
        assert result.seconds < 10
        async with runtime.session() as session:
            assert (await session.execute_code("1 + 1")).value == 2
    assert children() <= before


async def test_a_plan_made_beforehand_is_ended_at_the_end_of_the_time() -> None:
    hanging = Hanging()
    chain = {
        "toolChain": [{"tool": "hang", "parameters": {"n": 1}, "reasoning": "r", "confidence": 0.9, "subQuery": 0}]
    }
    model = ScriptedModel([json.dumps(chain)])
    async with Runtime([hanging.tool()], sandbox=None) as runtime:
        answerer = PlannedAnswerer(ToolPlanner(runtime, model), ToolOrchestrator(runtime), model)
        with anyio.fail_after(20):
            result = await Agent(model, runtime, answerer=answerer, budget=SOON).run("Hang once.")
    assert result.outcome == "budget"
    assert (hanging.begun, hanging.inside) == (1, 0)
    assert result.seconds < 10


async def test_from_nine_tenths_of_the_time_on_the_next_request_is_the_last(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    await play([look], looks(1), ModelUnavailable("down"), mode="direct", transcript=file)
    first, *rest = file.read_text().splitlines()
    began = json.loads(first)
    began["at"] = (datetime.fromisoformat(began["at"]) - timedelta(seconds=950)).isoformat()  # it took so long
    file.write_text("\n".join([json.dumps(began), *rest, ""]))
    async with Runtime([look], sandbox=None) as runtime:
        model = ScriptedModel(["done"])
        result = await Agent(model, runtime, mode="direct", budget=Budget(seconds=1_000)).resume(file)
    assert (result.outcome, result.reason) == ("answered", "it was the last turn of the budget")
    assert model.requests[0].tool_choice == "none"


BUDGETS = st.builds(
    Budget,
    turns=st.none() | st.integers(1, 50),
    tokens=st.none() | st.integers(1, 100_000),
    cost=st.none() | st.floats(0.000_001, 10),
    seconds=st.none() | st.floats(0.01, 1_000),
)
SPENT = st.builds(
    Spent, turns=st.integers(0, 60), tokens=st.integers(0, 120_000), cost=st.floats(0, 12), seconds=st.floats(0, 1_100)
)


@given(BUDGETS, SPENT, st.lists(st.tuples(BUDGETS, st.floats(0, 1)), max_size=6))
def test_the_parts_of_a_budget_are_never_more_than_what_is_left_of_it(
    outer: Budget, spent: Spent, inner: list[tuple[Budget, float]]
) -> None:
    """Each begins while those before it are at work and have used a share of their parts."""
    rests: list[Spent] = []
    for own, used in inner:
        try:
            part = outer.part(own, spent, rests, seconds=500)
        except ValueError:
            continue
        for name in ("turns", "tokens", "cost", "seconds"):
            wanted, got = getattr(own, name), getattr(part, name)
            assert wanted is None or got <= wanted
            assert got is not None or (wanted is None and (getattr(outer, name) is None))
        assert part.seconds is not None
        assert part.seconds <= 450
        now = Spent(
            turns=int((part.turns or 0) * used), tokens=int((part.tokens or 0) * used), cost=(part.cost or 0) * used
        )
        spent = Spent(
            turns=spent.turns + now.turns, tokens=spent.tokens + now.tokens, cost=(spent.cost or 0) + (now.cost or 0),
            seconds=spent.seconds,
        )  # fmt: skip
        rests.append(part.rest(now))
        for name in ("turns", "tokens", "cost"):
            allowed, taken = getattr(outer, name), getattr(spent, name) + sum(getattr(each, name) for each in rests)
            keeps = {"turns": 1, "tokens": 0, "cost": 0}[name]
            assert allowed is None or taken <= (allowed - keeps) * (1 + 1e-9)


def test_a_part_is_the_whole_budget_or_half_of_what_is_left() -> None:
    outer, spent = Budget(turns=21, tokens=20_000, cost=1.0, seconds=100), Spent(turns=4, tokens=2_000, cost=0.1)
    small = Budget(turns=16, tokens=16_200, cost=0.81, seconds=90)
    assert outer.part(small, spent, [], 1_000) == small
    large = Budget(turns=17, tokens=16_201, cost=0.82, seconds=91)
    assert outer.part(large, spent, [], 1_000) == Budget(turns=8, tokens=9_000, cost=0.45, seconds=90)
    beside = [Spent(turns=10, tokens=10_000, cost=0.5)]
    assert outer.part(Budget(), spent, beside, 10) == Budget(turns=3, tokens=4_000, cost=0.2, seconds=9)


@pytest.mark.parametrize(
    ("outer", "spent", "words"),
    [
        (Budget(turns=5), Spent(turns=4), "4 of 5 turns are spent, or reserved for other agents"),
        (Budget(tokens=10), Spent(tokens=10), "10 of 10 tokens are spent, or reserved for other agents"),
        (Budget(cost=0.5), Spent(cost=0.75), "0.75 of 0.5 dollars are spent, or reserved for other agents"),
        (Budget(cost=0.5), Spent(cost=None), "what was spent is not known"),
        (Budget(seconds=5), Spent(seconds=5), "the time is over"),
    ],
)
def test_nothing_left_has_no_part(outer: Budget, spent: Spent, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        outer.part(Budget(), spent, [], 60)
