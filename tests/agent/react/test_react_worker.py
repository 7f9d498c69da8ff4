"""The whole small cycle over a real runtime: plan, call through the gate, observe, until an answer or an end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from agent.react.scene import NAMES, SEARCH, TASK, TEXT, House, config
from callgate import ConfigurationError, Runtime, tool
from callgate.agent.models.model import Request, ToolCall, User
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.agent.react.actions import Action, Observation
from callgate.agent.react.planner import ReActPlanner
from callgate.agent.react.worker import ReActWorker, WorkerResult
from callgate.errors import ContextExceeded, ModelRejected, ModelUnavailable, SandboxUnavailable

pytestmark = pytest.mark.anyio

HAVE = ", ".join(NAMES)


@asynccontextmanager
async def working(
    *turns: Any, changes: tuple[tuple[str, str], ...] = (), house: House | None = None, **options: Any
) -> AsyncIterator[tuple[ReActWorker, ScriptedModel]]:
    model = ScriptedModel(turns)
    async with Runtime((house or House()).tools(), sandbox=None) as runtime:
        planner = ReActPlanner(config(*changes), model, runtime.registry)
        yield ReActWorker(planner, runtime, **options), model


async def run(*turns: Any, **options: Any) -> WorkerResult:
    async with working(*turns, **options) as (worker, _):
        return await worker.run(TASK)


async def test_a_task_goes_through_the_whole_cycle() -> None:
    entries: list[Any] = []
    async with working(Calls(SEARCH), "There is user1.", on_entry=entries.append) as (worker, model):
        result = await worker.run(TASK, {"strategic_plan": {"phases": [1]}})
    assert (result.outcome, result.answer, result.turns) == ("answered", "There is user1.", 2)
    assert result.history == (
        Action(tool_name="search_database", tool_args={"query": "active"}),
        Observation(tool_name="search_database", content='["active user1"]', id="call_1_1"),
    )
    assert entries == list(result.history)
    first, second = model.requests
    assert "STRATEGIC PLAN" in first.system
    assert "STRATEGIC PLAN" in second.system
    assert [str(getattr(each, "text", "")) for each in second.messages][1:] == [
        'Calling tool: search_database with args: {"query": "active"}',
        'Tool result: ["active user1"]',
        TASK,
    ]
    assert result.usage.input_tokens > 0


async def test_calls_of_a_turn_run_at_the_same_time_and_are_observed_together() -> None:
    house = House()
    turn = Calls(*[("wait_for_others", {"count": n}) for n in range(3)])
    async with working(turn, "Done.", house=house) as (worker, model):
        result = await worker.run(TASK)
    assert house.most == 3
    told = [getattr(each, "text", "") for each in model.requests[1].messages]
    assert told[-4:] == ["Tool result: 0", "Tool result: 1", "Tool result: 2", TASK]
    assert [each.content for each in result.history if isinstance(each, Observation)] == ["0", "1", "2"]
    kinds = [type(each) for each in result.history]
    assert kinds == [Action] * 3 + [Observation] * 3


async def test_surplus_calls_wait_run_and_are_told_of() -> None:
    house = House()
    result = await run(Calls(*[("wait_for_others", {"count": n}) for n in range(5)]), "Done.", house=house)
    assert house.most == 3
    contents = [each.content for each in result.history if isinstance(each, Observation)]
    assert contents[:4] == ["0", "1", "2", "3"]
    assert contents[4] == (
        "4\n\nNote: 5 calls in one turn; at most 3 run at the same time, so these waited: "
        "wait_for_others, wait_for_others."
    )


async def test_invalid_arguments_are_answered_and_the_tool_is_not_called() -> None:
    house = House()
    bad = ToolCall(id="1", name="wait_for_others", fault="they are no JSON: ...", written='{"count": ')
    async with working(bad, "Sorry.", house=house) as (worker, model):
        result = await worker.run(TASK)
    assert house.most == 0
    assert [getattr(each, "text", "") for each in model.requests[1].messages][1:] == [
        'Calling tool: wait_for_others with args: {"count": ',
        "Tool result: Error: wait_for_others: they are no JSON: ...",
        TASK,
    ]
    (observation,) = [each for each in result.history if isinstance(each, Observation)]
    assert (observation.ok, observation.content) == (False, "Error: wait_for_others: they are no JSON: ...")
    assert result.outcome == "answered"


async def test_arguments_that_do_not_fit_are_answered_by_the_gate() -> None:
    result = await run(Calls(("search_database", {"limit": 3})), "Sorry.")
    (observation,) = [each for each in result.history if isinstance(each, Observation)]
    assert not observation.ok
    assert "query" in observation.content


async def test_a_described_tool_that_does_not_exist_fails_in_clear_words() -> None:
    result = await run(Calls(("not_here", {"x": "1"})), "Sorry.")
    (observation,) = [each for each in result.history if isinstance(each, Observation)]
    assert (observation.ok, observation.content) == (False, "Error: there is no tool 'not_here'")


async def test_a_tool_that_is_not_described_is_not_called() -> None:
    house = House()
    result = await run(Calls(("delete_all", {})), Calls(("execute_code", {"code": "1"})), "Sorry.", house=house)
    assert not house.deleted
    contents = [each.content for each in result.history if isinstance(each, Observation)]
    assert contents == [
        f"Error: delete_all: you have no tool 'delete_all'; you have: {HAVE}",
        f"Error: execute_code: you have no tool 'execute_code'; you have: {HAVE}",
    ]


async def test_a_described_meta_tool_is_called() -> None:
    result = await run(
        Calls(("execute_code", {"code": "await search_database('all')"})),
        "Done.",
        changes=(("name: not_here", "name: execute_code"),),
    )
    (observation,) = [each for each in result.history if isinstance(each, Observation)]
    assert "all user1" in observation.content


async def test_text_mode_goes_through_the_same_cycle() -> None:
    turns = (
        "Thought: hm",
        'Thought: so\nAction: search_database\nAction Input: {"query": "acti',
        'Action: search_database\nAction Input: {"query": "active"}\nObservation: [everybody]',
        "Thought: I know\nFinal Answer: user1",
    )
    async with working(*turns, changes=(TEXT,)) as (worker, model):
        result = await worker.run(TASK)
    assert (result.outcome, result.answer) == ("answered", "user1")
    said = [each.text for each in model.requests[-1].messages if isinstance(each, User)]
    assert said[0] == TASK
    assert said[1].startswith("Observation: Error: Action: there is neither an Action nor a Final Answer")
    assert said[2].startswith("Observation: Error: search_database: they are no JSON: Unterminated string")
    assert said[3] == 'Observation: ["active user1"]'
    assert not any(request.tools for request in model.requests)


ENDS = [
    ([Say(refusal="I will not.")], "refused", "I will not.", 1),
    (["", "", ""], "empty", "", 3),
    ([Say("Half an ans", cut=True)] * 3, "cut", "Half an ans", 3),
    ([Calls(("search_database", {}))] * 3, "stuck", "", 3),
    ([Calls(SEARCH)] * 4, "turns", "", 4),
    ([Calls(SEARCH), ModelUnavailable("503")], "unavailable", "", 1),
    ([ModelRejected("no such model")], "rejected", "", 0),
    ([ContextExceeded("too long")], "too_long", "", 0),
]


@pytest.mark.parametrize(("turns", "outcome", "answer", "asked"), ENDS, ids=[each[1] for each in ENDS])
async def test_every_end_has_an_outcome_and_a_reason(turns: Any, outcome: str, answer: str, asked: int) -> None:
    result = await run(*turns, max_turns=4)
    assert (result.outcome, result.answer, result.turns) == (outcome, answer, asked)
    assert result.reason
    assert len([each for each in result.history if isinstance(each, Action)]) in (0, asked)


async def test_an_empty_or_cut_reply_is_asked_for_again() -> None:
    result = await run("", Say(calls=[ToolCall(id="1", name="search_database")], cut=True), "Done.")
    assert (result.outcome, result.answer, result.turns) == ("answered", "Done.", 3)
    (observation,) = [each for each in result.history if isinstance(each, Observation)]
    assert "the reply was cut at its limit of tokens" in observation.content


async def test_a_different_failing_call_is_no_circle() -> None:
    turns = [Calls(("search_database", {"wrong": n})) for n in range(5)]
    assert (await run(*turns, "Done.")).outcome == "answered"


class Broken(Runtime):
    """One whose sandbox has gone away."""

    async def answer(self, *given: Any, **options: Any) -> Any:
        raise SandboxUnavailable("no sandbox works here")


async def test_a_sandbox_that_cannot_work_is_told_to_the_model() -> None:
    model = ScriptedModel([Calls(SEARCH), "It cannot be had."])
    async with Broken(House().tools(), sandbox=None) as runtime:
        result = await ReActWorker(ReActPlanner(config(), model), runtime).run(TASK)
    assert (result.outcome, result.answer) == ("answered", "It cannot be had.")
    assert result.history[1] == Observation(
        tool_name="search_database", content="Error: no sandbox works here", ok=False, id="call_1_1"
    )


async def test_what_the_operator_did_wrong_is_raised() -> None:
    model = ScriptedModel([Calls(SEARCH)])
    runtime = Runtime(House().tools(), sandbox=None)
    worker = ReActWorker(ReActPlanner(config(), model), runtime)
    with pytest.raises(ConfigurationError, match="enter the runtime first"):
        await worker.run(TASK)


async def test_a_run_without_turns_is_the_operators_mistake() -> None:
    with pytest.raises(ConfigurationError, match="max_turns must be 1 or more, and is 0"):
        await run("Done.", max_turns=0)


async def test_a_cancelled_run_leaves_nothing_under_way() -> None:
    began = anyio.Event()
    ended: list[str] = []

    @tool
    async def search_database(query: str) -> str:
        """Search."""
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(query)
        return ""

    async with Runtime([search_database], sandbox=None) as runtime:
        worker = ReActWorker(ReActPlanner(config(), ScriptedModel([Calls(SEARCH)])), runtime)
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(worker.run, TASK)
                await began.wait()
                group.cancel_scope.cancel()
    assert ended == ["active"]


async def test_the_types_of_the_registry_are_what_the_model_sees() -> None:
    def looks(request: Request) -> str:
        return str(request.tools[4]["function"]["parameters"]["properties"])

    assert (await run(looks)).answer == "{'count': {'type': 'integer'}}"
