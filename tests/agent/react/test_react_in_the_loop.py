"""`Agent(planner=ReActPlanner(...))`: the loop asks as the configuration says, in both forms; and both wires."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.react.scene import NAMES, TASK, TEXT, AnalystTools, chosen, config
from callgate import Runtime
from callgate.agent.loop.agent import Agent
from callgate.agent.models.anthropic_model import AnthropicModel
from callgate.agent.models.model import Assistant, Model, ToolCall, ToolReplies, User
from callgate.agent.models.openai_model import OpenAIModel
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.agent.react.planner import ReActPlanner
from callgate_bench.model.stand_in import AnthropicMessages, Call, Move, OpenAIChat, Script, Turn, serving
from callgate_bench.model.stand_in.server import KEY

pytestmark = pytest.mark.anyio

NATIVE = [chosen("required"), ("calls: 3", "calls: 2")]
WRITTEN = [*NATIVE, TEXT]


async def run(
    changes: list[tuple[str, str]], *turns: Any, house: AnalystTools | None = None, **options: Any
) -> tuple[Any, ScriptedModel]:
    model = ScriptedModel(turns)
    async with Runtime((house or AnalystTools()).tools(), sandbox=None) as runtime:
        planner = ReActPlanner(config(*changes), model, runtime.registry)
        return await Agent(model, runtime, planner=planner, **options).run(TASK), model


async def test_the_loop_keeps_calls_and_results_native(tmp_path: Path) -> None:
    plan = {"phases": [{"worker": "data-analysis"}]}
    result, model = await run(
        NATIVE,
        Calls(("search_database", {"query": "active"}), ("list_tables", {}), ("list_tables", {})),
        "There is user1.",
        strategic_plan=plan,
        transcript=tmp_path / "task.jsonl",
    )
    assert (result.outcome, result.answer) == ("answered", "There is user1.")
    first, second = model.requests
    assert first.system.startswith("You are a data analysis specialist.")
    assert first.system.count("STRATEGIC PLAN") == 1
    assert [each["function"]["name"] for each in first.tools] == NAMES
    assert (first.tool_choice, second.tool_choice) == ("required", "auto")
    task, said, results = second.messages
    assert task == User(text=TASK)
    assert isinstance(said, Assistant)
    assert isinstance(results, ToolReplies)
    assert [call.id for call in said.calls] == [reply.id for reply in results.replies]
    assert results.replies[0].text == '["active user1"]'
    assert "at most 2 run at the same time, so these waited: list_tables." in results.replies[-1].text


async def test_the_loop_goes_on_in_text_where_the_configuration_says_so() -> None:
    result, model = await run(
        WRITTEN,
        'Thought: so\nAction: search_database\nAction Input: {"query": "active"}\nObservation: everybody',
        "Thought: hm",
        "Thought: I know\nFinal Answer: user1",
    )
    assert (result.outcome, result.answer) == ("answered", "user1")
    texts = [each.text for each in model.requests[-1].messages if isinstance(each, User | Assistant)]
    assert len(texts) == len(model.requests[-1].messages)
    assert texts[:3] == [
        TASK,
        'Thought: so\nAction: search_database\nAction Input: {"query": "active"}',
        'Observation: ["active user1"]',
    ]
    assert "there is neither an Action nor a Final Answer" in texts[4]
    assert not any(request.tools for request in model.requests)


@pytest.mark.parametrize("changes", [NATIVE, WRITTEN], ids=["native", "text"])
async def test_the_loop_makes_no_call_of_a_tool_that_is_not_described(changes: list[tuple[str, str]]) -> None:
    calls: Any = ToolCall(id="1", name="delete_all") if changes is NATIVE else "Action: delete_all\nAction Input: {}"
    result, model = await run(changes, calls, "Final Answer: sorry" if changes is WRITTEN else "sorry")
    assert (result.outcome, result.answer) == ("answered", "sorry")
    last = model.requests[-1].messages[-1]
    told = last.replies[0].text if isinstance(last, ToolReplies) else getattr(last, "text", "")
    assert "you have no tool 'delete_all'; you have: search_database, " in told


async def test_a_call_written_as_text_twice_is_two_calls_for_the_provider() -> None:
    written = '{"name": "list_tables", "arguments": {}}'
    result, model = await run(NATIVE, written, written, "users")
    assert (result.outcome, result.answer) == ("answered", "users")
    ids = [call.id for each in model.requests[-1].messages if isinstance(each, Assistant) for call in each.calls]
    assert len(set(ids)) == len(ids) == 2


def told(model: ScriptedModel) -> list[str]:
    """The results of the last turn, as the model is told of them."""
    last = model.requests[-1].messages[-1]
    assert isinstance(last, ToolReplies)
    return [each.text for each in last.replies]


async def test_calls_of_a_turn_run_at_the_same_time_and_are_observed_together() -> None:
    house = AnalystTools()
    _, model = await run([], Calls(*[("wait_for_others", {"count": n}) for n in range(3)]), "Done.", house=house)
    assert house.most == 3
    assert told(model) == ["0", "1", "2"]


async def test_surplus_calls_wait_run_and_are_named() -> None:
    house = AnalystTools()
    _, model = await run([], Calls(*[("wait_for_others", {"count": n}) for n in range(5)]), "Done.", house=house)
    assert house.most == 3
    assert told(model) == [
        "0",
        "1",
        "2",
        "3",
        (
            "4\n\nNote: 5 calls in one turn; at most 3 run at the same time, so these waited: "
            "wait_for_others, wait_for_others."
        ),
    ]


async def test_invalid_arguments_are_answered_and_the_tool_is_not_called() -> None:
    house = AnalystTools()
    bad = ToolCall(id="1", name="wait_for_others", fault="they are not JSON: ...", written='{"count": ')
    result, model = await run([], bad, "Sorry.", house=house)
    assert (house.most, result.outcome) == (0, "answered")
    (said,) = told(model)
    assert "wait_for_others" in said
    assert "they are not JSON: ..." in said


async def test_a_described_tool_that_does_not_exist_fails_in_clear_words() -> None:
    _, model = await run([], Calls(("not_here", {"x": "1"})), "Sorry.")
    (said,) = told(model)
    assert "there is no tool 'not_here'" in said


async def test_a_described_meta_tool_is_called() -> None:
    program = Calls(("execute_code", {"code": "await search_database('all')"}))
    _, model = await run([("name: not_here", "name: execute_code")], program, "Done.")
    assert "all user1" in told(model)[0]


def searches(turn: Turn) -> Move:
    if turn.tools:
        assert turn.user == TASK
        assert turn.tools["search_database"]["properties"]["query"] == {"type": "string"}
        return Call("search_database", {"query": "active"})
    return 'Thought: so\nAction: search_database\nAction Input: {"query": "active"}'


def concludes(turn: Turn) -> Move:
    if turn.tools:
        assert turn.user.endswith(TASK)
        return "user1"
    assert turn.user == 'Observation: ["active user1"]'
    return "Thought: I know\nFinal Answer: user1"


@pytest.mark.parametrize("changes", [NATIVE, WRITTEN], ids=["native", "text"])
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_both_providers_take_what_the_loop_sends(provider: str, changes: list[tuple[str, str]]) -> None:
    pytest.importorskip(provider, reason=f"{provider} is not installed")
    api = (
        OpenAIChat(Script(searches, concludes))
        if provider == "openai"
        else AnthropicMessages(Script(searches, concludes))
    )
    with serving(api) as url:
        model: Model
        if provider == "openai":
            model = OpenAIModel("m", base_url=f"{url}/v1", api_key=KEY)
        else:
            model = AnthropicModel("m", base_url=url, api_key=KEY)
        try:
            async with Runtime(AnalystTools().tools(), sandbox=None) as runtime:
                planner = ReActPlanner(config(*changes), model, runtime.registry)
                result = await Agent(model, runtime, planner=planner).run(TASK)
        finally:
            await model.aclose()
    assert (result.outcome, result.answer, result.turns) == ("answered", "user1", 2), result.reason
