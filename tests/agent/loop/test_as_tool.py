"""Agents as tools: one task inside a call of another, on a part of its budget, in its transcript, never in a circle."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from agent.loop.resuming import lines_of
from agent.loop.scripted_runs import THOUSAND, looks, of, play, sandboxed, told
from callgate import Runtime, Tool, tool
from callgate.agent.events import (
    AgentEvent,
    CallEnded,
    CallProgress,
    Finished,
    InnerEvent,
    ModelReplied,
    TextArrived,
    innermost,
    is_kept,
)
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.result import AgentResult
from callgate.agent.models.model import Request, Usage
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.errors import ConfigurationError, ModelUnavailable, ToolError

pytestmark = pytest.mark.anyio

TASK = {"task": "How many are there?"}
ASK = Calls(("research", TASK))
PLAN = {"steps": [{"id": "a", "tool": "research", "arguments": TASK}], "output_steps": ["a"]}
CALLERS = {
    "directly": ASK,
    "by a graph": Calls(("execute_code", {"code": f"print(await research(**{TASK}))"})),
    "by a program": Calls(("execute_code", {"code": f"import os\nprint(await research(**{TASK}))"})),
    "by a plan": Calls(("execute_tool_plan", PLAN)),
}


@tool(read_only=True)
async def look(n: int) -> int:
    """Looks something up."""
    return n


@tool
async def send(to: str) -> str:
    """Sends."""
    return f"sent to {to}"


def research(runtime: Runtime, *turns: Any, name: str = "research", **options: Any) -> Tool:
    """A tool that is an agent with these turns."""
    given: dict[str, Any] = {"mode": "direct", "tools": ["look"], "price": (1, 1), **options}
    return Agent(ScriptedModel(turns), runtime, **given).as_tool(name, "Finds out.")


@contextlib.asynccontextmanager
async def with_agent(*turns: Any, sandbox: bool = False, tools: Sequence[Any] = (look,), **options: Any) -> Any:
    """A runtime with `look`, and an agent that may call it."""
    opened = sandboxed(tools) if sandbox else Runtime(tools, sandbox=None)
    async with opened as runtime:
        runtime.registry.add(research(runtime, *turns, **options))
        yield runtime


def inner(result: AgentResult) -> list[AgentEvent]:
    return [event.event for event in of(result, InnerEvent)]


# what comes of it


@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "not"])
@pytest.mark.parametrize("by", CALLERS)
async def test_an_agent_is_called_by_a_model_a_program_and_a_plan(by: str, stream: bool, tmp_path: Path) -> None:
    heard: list[AgentEvent] = []
    file = tmp_path / "task.jsonl"
    async with with_agent(looks(1), Say("There are three.", usage=THOUSAND), sandbox=True) as runtime:
        result, model = await play(
            runtime, Say(calls=CALLERS[by], usage=THOUSAND), Say("Three.", usage=THOUSAND), mode="auto", price=(1, 1),
            transcript=file, on_event=heard.append, stream=stream,
        )  # fmt: skip
    assert (result.outcome, result.answer) == ("answered", "Three.")
    assert "There are three." in told(model.requests[1])[0]
    assert (result.turns, result.model_calls, result.tool_calls) == (4, 4, 2)
    assert result.usage == Usage(input_tokens=3_600, output_tokens=400)
    assert result.cost == pytest.approx(0.004)
    (end,) = of(result, Finished)
    assert (end.turns, end.usage, end.cost) == (4, result.usage, result.cost)
    inside = [event for event in heard if isinstance(event, InnerEvent)]
    assert {(event.turn, event.call, event.agent) for event in inside} == {(1, "call_1_1", "research")}
    assert len({event.task for event in inside}) == 1
    assert [type(event.event) for event in inside if is_kept(event)] == [type(event) for event in inner(result)]
    assert any(isinstance(event.event, CallProgress) for event in inside)
    said = "".join(event.event.text for event in inside if isinstance(event.event, TextArrived))
    assert said == ("There are three." if stream else "")
    lines = [line for line in lines_of(file) if line["kind"] == "inner_event"]
    assert {(line["turn"], line["call"], line["agent"]) for line in lines} == {(1, "call_1_1", "research")}
    assert [line["event"]["kind"] for line in lines] == [
        "task_began", "model_asked", "model_replied", "call_began", "call_ended", "message_added", "model_asked",
        "model_replied", "finished",
    ]  # fmt: skip


@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("own", [True, False])
async def test_words_come_as_they_are_written_to_those_who_stream(own: bool, outer: bool) -> None:
    heard: list[AgentEvent] = []
    heard_outside: list[AgentEvent] = []
    async with with_agent("There are three.", stream=own, on_event=heard.append) as runtime:
        await play(runtime, ASK, "Three.", mode="direct", on_event=heard_outside.append, stream=outer)
    said = [each for each in heard if isinstance(each, TextArrived)]
    said_outside = [each for each in map(innermost, heard_outside) if isinstance(each, TextArrived)]
    assert bool(said) == own
    assert ("There are three." in "".join(each.text for each in said_outside)) == (own and outer)
    assert bool(said_outside) == outer


class Found(BaseModel):
    """What was found."""

    count: int


async def test_its_answer_has_its_type_and_a_program_gets_it_as_a_value() -> None:
    async with with_agent('{"count": 3}', output_type=Found) as runtime:
        (tool,) = [each for each in runtime.registry if each.name == "research"]
        assert tool.output_schema is not None
        assert "count" in tool.output_schema["properties"]
        program = Calls(("execute_code", {"code": "found = await research('Count')\nprint(found['count'] + 1)"}))
        _, model = await play(runtime, program, "4", mode="code")
    assert told(model.requests[1]) == ["4"]


async def test_an_agent_that_answers_by_a_program_is_called_by_a_program_that_answers() -> None:
    inner = Calls(("execute_code", {"code": "final_answer({'count': await look(3)})"}))
    outer = Calls(("execute_code", {"code": "found = await research('Count')\nfinal_answer(found['count'] + 1)"}))
    async with with_agent(inner, sandbox=True, mode="code", output_type=Found, one_turn="offer") as runtime:
        result, _ = await play(runtime, outer, mode="code", output_type=int, one_turn="offer")
    assert (result.output, result.answered_by, result.turns) == (4, "program", 2)


async def test_without_a_task_around_it_an_agent_has_its_own_budget() -> None:
    async with with_agent(looks(1), "three") as runtime:
        assert await runtime.handle("research", TASK) == "three"


@pytest.mark.parametrize(
    ("turns", "words"),
    [
        ([ModelUnavailable("503")], "Error: the agent 'research' gave no answer (unavailable): 503"),
        (["", ""], "Error: the agent 'research' gave no answer (empty): the reply was empty, again"),
        ([Say(refusal="I will not.")], "Error: the agent 'research' gave no answer (refused): I will not."),
        (
            [looks(1), [Calls(("look", {"n": 2}), text="Two, so far")]],
            "Error: the agent 'research' gave no answer (budget): the budget is spent: 2 of 2 turns; the model called "
            "tools in its last turn; it said so far: Two, so far",
        ),
    ],
    ids=["endpoint", "empty", "refused", "budget"],
)
async def test_an_agent_without_an_answer_is_a_failed_call_that_says_why(turns: list[Any], words: str) -> None:
    async with with_agent(*turns, budget=Budget(turns=2)) as runtime:
        result, model = await play(runtime, ASK, "I do not know.", mode="direct")
    assert told(model.requests[1]) == [words]
    (call,) = of(result, CallEnded)
    assert (call.ok, call.mistake) == (False, False)


@pytest.mark.parametrize("task", ["", " \n", "x" * 1_000_001, 5], ids=["empty", "blank", "long", "number"])
async def test_a_task_that_is_none_is_the_callers_mistake(task: Any) -> None:
    async with with_agent() as runtime:
        result, _ = await play(runtime, Calls(("research", {"task": task})), "Well.", mode="direct")
    (call,) = of(result, CallEnded)
    assert call.mistake
    assert not of(result, InnerEvent)


async def test_a_wrong_option_is_the_operators_error() -> None:
    async with Runtime([], sandbox=None) as runtime:
        agent = Agent(ScriptedModel([]), runtime)
        with pytest.raises(ConfigurationError, match="print"):
            agent.as_tool("print()\n", "Prints.")
        with pytest.raises(ConfigurationError, match="there is no option 'speed'"):
            agent.as_tool("research", "Finds out.", speed=3)  # type: ignore[call-arg]


# budgets


def endless(words: str = "as far as I came") -> list[Any]:
    """A model that calls for as long as it may."""

    def turn(number: int) -> Any:
        return lambda request: Say(words, usage=THOUSAND) if request.tool_choice == "none" else looks(number)

    return [turn(number) for number in range(100)]


def turns_of(result: AgentResult) -> dict[str, int]:
    """Replies of each agent inside a task."""
    counts: dict[str, int] = {}
    for event in of(result, InnerEvent):
        if isinstance(event.event, ModelReplied):
            counts[event.agent] = counts.get(event.agent, 0) + 1
    return counts


async def together(outer: Budget, *inner: Budget, by: Calls | None = None) -> tuple[AgentResult, ScriptedModel]:
    """A task whose first turn calls that many endless agents at once, `a0`, `a1`, ..."""
    async with (
        sandboxed([look], pool_size=0) if by is AT_ONCE["by a graph"] else Runtime([look], sandbox=None) as runtime
    ):
        for number, budget in enumerate(inner):
            runtime.registry.add(research(runtime, *endless(), name=f"a{number}", budget=budget))
        calls = by or Calls(*((f"a{number}", TASK) for number in range(len(inner))))
        ends = lambda request: Say("This is it.", usage=THOUSAND)  # noqa: E731
        first = Say(calls=calls, usage=THOUSAND)
        return await play(runtime, first, ends, mode="auto", budget=outer, price=(1, 1))


GATHER = "import asyncio\nprint(await asyncio.gather(*(f('Count') for f in (a0, a1, a2))))"
AT_ONCE: dict[str, Calls | None] = {
    "directly": None,
    "by a graph": Calls(("execute_code", {"code": GATHER})),
    "by a plan": Calls(
        ("execute_tool_plan",
         {"steps": [{"id": f"s{n}", "tool": f"a{n}", "arguments": TASK} for n in range(3)], "output_steps": ["s0"]})
    ),
}  # fmt: skip


@pytest.mark.parametrize("by", AT_ONCE)
@pytest.mark.parametrize(
    "outer",
    [Budget(turns=20), Budget(turns=5), Budget(turns=None, tokens=20_000), Budget(turns=None, cost=0.02)],
    ids=["turns", "few turns", "tokens", "dollars"],
)
async def test_agents_at_once_cannot_together_overspend(by: str, outer: Budget) -> None:
    result, _ = await together(outer, Budget(), Budget(), Budget(), by=AT_ONCE[by])
    assert (result.outcome, result.answer) == ("answered", "This is it.")
    assert result.turns <= (outer.turns or 20)
    assert len(turns_of(result)) == 3 or outer.turns == 5
    assert result.turns > 2 + len(turns_of(result)) or outer.turns == 5


async def test_an_agent_gets_its_whole_budget_or_half_of_what_is_left() -> None:
    result, _ = await together(Budget(turns=22), Budget(turns=4), Budget(), Budget(), Budget(turns=5))
    assert turns_of(result) == {"a0": 4, "a1": 8, "a2": 4, "a3": 2}  # of 20 turns: 4, then halves of 16, 8 and 4


async def test_what_an_agent_did_not_use_is_given_back() -> None:
    async with Runtime([look], sandbox=None) as runtime:
        runtime.registry.add(research(runtime, "one", "two", "three", budget=Budget(turns=8)))
        result, _ = await play(runtime, ASK, ASK, ASK, "done", mode="direct", budget=Budget(turns=14))
    assert (result.outcome, result.turns) == ("answered", 7)
    assert [call.ok for call in of(result, CallEnded)] == [True] * 3


async def test_where_nothing_is_left_an_agent_is_not_asked_and_the_task_still_has_its_answer() -> None:
    result, model = await together(Budget(turns=4), Budget(turns=2), Budget(turns=2))
    assert turns_of(result) == {"a0": 2}
    assert told(model.requests[1])[1:] == [] or model.requests[1].tool_choice == "none"
    calls = {call.name: call.text for call in of(result, CallEnded) if call.name in ("a0", "a1")}
    assert calls["a1"] == (
        "Error: the agent 'a1' was not asked: 3 of 4 turns are spent, or reserved for other agents; go on without it"
    )
    assert (result.outcome, result.answer, result.turns) == ("answered", "This is it.", 4)


@pytest.mark.parametrize(
    ("outer", "words"),
    [
        (Budget(turns=None, tokens=3_000), "its first request has about 1[0-9]{3} tokens, and 900 are left for it"),
        (Budget(turns=None, cost=0.003), r"its first request costs about 0.001\d dollars, and 0.0009 are left for it"),
    ],
    ids=["tokens", "dollars"],
)
async def test_a_model_is_not_asked_where_its_first_request_alone_is_more_than_is_left(
    outer: Budget, words: str
) -> None:
    async with with_agent("three", system="x" * 4_000) as runtime:
        first = Say(calls=ASK, usage=Usage(input_tokens=1_100, output_tokens=100))
        result, _ = await play(runtime, first, "None.", mode="direct", budget=outer, price=(1, 1))
    (call,) = of(result, CallEnded)
    assert re.match(rf"Error: the agent 'research' gave no answer \(budget\): {words}", call.text)
    assert not turns_of(result)
    assert result.ok


async def test_an_agent_without_a_price_is_not_asked_where_the_budget_is_in_dollars() -> None:
    async with with_agent("three", price=None) as runtime:
        result, model = await play(runtime, ASK, "None.", mode="direct", budget=Budget(cost=1.0), price=(1, 1))
    assert "the budget is in dollars, and the price of its model 'scripted' is not known" in told(model.requests[1])[0]
    assert result.cost is not None


async def test_an_agent_ends_with_an_answer_before_its_calls_time_is_over() -> None:
    from callgate import Limits

    async def slow(request: Request) -> Any:
        if request.tool_choice == "none":
            return "what I have"
        await anyio.sleep(0.5)
        return looks(len(request.messages))

    async with Runtime([look], sandbox=None) as runtime:
        runtime.registry.add(research(runtime, *[slow] * 100))
        _, model = await play(runtime, ASK, "done", mode="direct", limits=Limits(wall_seconds=4))
    assert told(model.requests[1]) == ["what I have"]


async def test_the_seconds_of_an_agent_are_those_that_the_task_has_left() -> None:
    async with Runtime([look], sandbox=None) as runtime:
        runtime.registry.add(research(runtime, lambda request: anyio.sleep_forever()))
        result, _ = await play(runtime, ASK, "done", mode="direct", budget=Budget(seconds=2))
    (call,) = of(result, CallEnded)
    assert "gave no answer (budget)" in call.text
    assert result.outcome == "answered"


# inside each other


async def test_an_agent_inside_an_agent_counts_in_both() -> None:
    async with Runtime([look], sandbox=None) as runtime:
        runtime.registry.add(research(runtime, *endless(), name="b", budget=Budget(turns=7)))
        runtime.registry.add(research(runtime, Calls(("b", TASK)), "from b", name="a", tools=["b"]))
        result, _ = await play(runtime, Calls(("a", TASK)), "done", mode="direct", budget=Budget(turns=20))
    assert result.outcome == "answered"
    (mine,) = [each.event for each in of(result, InnerEvent) if isinstance(each.event, Finished)]
    theirs = [each for each in inner(result) if isinstance(each, InnerEvent)]
    assert {(each.agent, each.turn, each.call) for each in theirs} == {("b", 1, "call_1_1")}
    assert mine.turns == 9  # half of the 18 that are left beside the last: its first, seven of b's, its last
    assert result.turns == 11


def refusals(result: AgentResult) -> list[str]:
    """What agents inside the task read of their calls that failed."""
    ends = [each for each in map(innermost, of(result, InnerEvent)) if isinstance(each, CallEnded)]
    return [each.text for each in ends if not each.ok]


CIRCLES = {"itself": {"a": "a"}, "another": {"a": "b", "b": "a"}, "two others": {"a": "b", "b": "c", "c": "a"}}


@pytest.mark.parametrize("circle", CIRCLES)
async def test_an_agent_that_would_call_itself_is_refused_in_words(circle: str) -> None:
    async with Runtime([look], sandbox=None) as runtime:
        for name, below in CIRCLES[circle].items():
            turns = [Calls((below, TASK)), f"{name} did it alone"]
            runtime.registry.add(research(runtime, *turns, name=name, tools=[below]))
        result, _ = await play(runtime, Calls(("a", TASK)), "done", mode="direct")
    assert refusals(result) == [
        "Error: the agent 'a' is at work on this task already, and cannot be called inside of it, neither by itself "
        "nor by another agent: do this part without it"
    ]
    assert (result.outcome, result.turns) == ("answered", 2 + 2 * len(CIRCLES[circle]))


async def test_a_resumed_agent_is_the_same_agent(tmp_path: Path) -> None:
    async with Runtime([look], sandbox=None) as runtime:
        file = tmp_path / "task.jsonl"
        first = Agent(ScriptedModel([ModelUnavailable("503")]), runtime, mode="direct", transcript=file)
        assert (await first.run("Do it")).outcome == "unavailable"
        lead = Agent(ScriptedModel([ASK, "done"]), runtime, mode="direct")
        runtime.registry.add(research(runtime, Calls(("lead", TASK)), "alone", tools=["lead"]))
        runtime.registry.add(lead.as_tool("lead", "Leads."))
        result = await lead.resume(file)
    assert "is at work on this task already" in refusals(result)[0]


async def test_more_than_eight_agents_inside_each_other_are_refused() -> None:
    async with Runtime([look], sandbox=None) as runtime:
        for number in range(10):
            turns = [Calls((f"a{number + 1}", TASK)), "did it"]
            budget = Budget(turns=None)
            runtime.registry.add(
                research(runtime, *turns, name=f"a{number}", tools=[f"a{number + 1}"], budget=budget)
                if number < 9 else research(runtime, "last", name="a9", budget=budget)
            )  # fmt: skip
        result, _ = await play(runtime, Calls(("a0", TASK)), "done", mode="direct", budget=Budget(turns=None))
    refused = [
        each.text for each in map(innermost, of(result, InnerEvent)) if isinstance(each, CallEnded) and not each.ok
    ]
    assert refused == ["Error: there are 8 agents inside each other already: do this part without 'a7'"]
    assert result.ok


# ends


async def test_an_agent_is_cancelled_with_the_task_around_it(tmp_path: Path) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    @tool
    async def hang() -> None:
        """Hangs."""
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    file = tmp_path / "task.jsonl"
    async with Runtime([hang], sandbox=None) as runtime:
        runtime.registry.add(research(runtime, Calls(("hang", {})), tools=["hang"]))
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                agent = Agent(ScriptedModel([ASK]), runtime, mode="direct", transcript=file)
                tasks.start_soon(agent.run, "Do it")
                await begun.wait()
                tasks.cancel_scope.cancel()
    assert ended.is_set()
    assert lines_of(file)[-1]["event"]["kind"] == "call_began"


async def test_what_a_call_left_behind_cannot_write_into_the_task_that_went_on(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    failures: list[str] = []
    arrived, going_on, over = anyio.Event(), anyio.Event(), anyio.Event()

    async def waits(request: Request) -> Any:
        arrived.set()
        await going_on.wait()
        return "late"

    async with Runtime([look], sandbox=None) as runtime, anyio.create_task_group() as behind:
        asked = research(runtime, waits)

        async def work() -> None:
            try:
                await asked(**TASK)
            except ToolError as error:
                failures.append(error.message)
            over.set()

        @tool
        async def begin() -> str:
            """Begins something, and does not wait for it."""
            behind.start_soon(work)
            await arrived.wait()
            return "begun"

        async def goes_on(request: Request) -> str:
            going_on.set()
            await over.wait()
            return "done"

        runtime.registry.add(begin)
        result, _ = await play(runtime, Calls(("begin", {})), goes_on, mode="direct", transcript=file)
        assert (await Agent(ScriptedModel([]), runtime).resume(file)).answer == "done"
    assert result.ok
    assert failures == ["the call that this agent works for is over"]
    kinds = [line["kind"] for line in lines_of(file)]
    assert "inner_event" in kinds
    assert "inner_event" not in kinds[kinds.index("call_ended") :]
