"""What a `ReActPlanner` asks its model, and what it makes of the reply. Factors of tool choice are in what is sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from agent.react.scene import NAMES, TASK, TEXT, AnalystTools, chosen, config, planner
from callgate import ConfigurationError, Registry, tool
from callgate.agent.loop.options import TurnPlanner
from callgate.agent.models.model import Assistant, Message, Reply, Request, ToolCall, ToolReplies, ToolReply, User
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.agent.react.actions import MAX_CALLS, Action, Observation
from callgate.agent.react.config import AgentConfig, read_config
from callgate.agent.react.planner import ReActPlanner
from callgate.agent.react.text_calls import NO_ACTION

pytestmark = pytest.mark.anyio

SEARCHING = AnalystTools().tools()[0]
SEARCHED = [
    Action(tool_name="search_database", tool_args={"query": "active users", "limit": 10}),
    Observation(tool_name="search_database", content="Found 10 records: [user1, user2, ...]"),
]


async def asked(planner: ReActPlanner, task: str = TASK, history: Sequence[Any] = (), **context: Any) -> Request:
    """What the model is sent."""
    assert isinstance(planner.model, ScriptedModel)
    await planner.plan(task, history, context)
    return planner.model.requests[-1]


async def one_action(planner: ReActPlanner) -> Action:
    actions = await planner.plan(TASK)
    assert isinstance(actions, list)
    assert len(actions) == 1
    return actions[0]


def named(request: Request) -> list[str]:
    return [each["function"]["name"] for each in request.tools]


# the factors of tool choice


async def test_factor_descriptions_are_the_words_that_the_model_chooses_by() -> None:
    good = await asked(planner())
    bad = await asked(planner(("Search the database.", "Searches stuff.")))
    assert good.tools[0]["function"]["description"] == "Search the database."
    assert bad.tools[0]["function"]["description"] == "Searches stuff."
    assert named(good) == NAMES


async def test_factor_the_system_prompt_guides() -> None:
    workflow = '"You are an analyst.\\nWorkflow:\\n1. Use search_database to find relevant records"'
    request = await asked(planner(("You are a data analysis specialist.", workflow)))
    assert request.system == "You are an analyst.\nWorkflow:\n1. Use search_database to find relevant records"


async def test_factor_the_task_is_the_last_message() -> None:
    for task in ("Find all active users and analyze their activity", "Check users"):
        assert (await asked(planner(), task)).messages == (User(text=task),)
        assert (await asked(planner(), task, SEARCHED)).messages[-1] == User(text=task)


async def test_factor_the_history_shows_what_was_done() -> None:
    before = await asked(planner())
    after = await asked(planner(), TASK, SEARCHED)
    assert len(before.messages) == 1
    assert [each.text for each in after.messages if isinstance(each, User | Assistant)][1:3] == [
        'Calling tool: search_database with args: {"query": "active users", "limit": 10}',
        "Tool result: Found 10 records: [user1, user2, ...]",
    ]


async def test_factor_the_strategic_plan_stands_in_the_system_text() -> None:
    plan = {"phases": [{"worker": "data-analysis", "goals": "Analyze user activity patterns"}]}
    request = await asked(planner(), strategic_plan=plan)
    assert request.system == (f"You are a data analysis specialist.\n\nSTRATEGIC PLAN:\n{json.dumps(plan, indent=2)}\n")


async def test_factor_a_tool_that_is_not_described_is_not_there() -> None:
    @tool
    async def create_record(name: str) -> str:
        """Create a record."""
        return name

    says = Calls(("create_record", {"name": "x"}))
    made = planner(says=says, registry=Registry([SEARCHING, create_record]))
    action = await one_action(made)
    assert "create_record" not in named(await asked(planner(registry=Registry([create_record]))))
    assert (action.tool_name, action.tool_args, action.written) == ("create_record", {}, '{"name": "x"}')
    assert action.fault == (f"you have no tool 'create_record'; you have: {', '.join(NAMES)}")


# what is sent


async def test_the_request_has_what_the_gateway_says() -> None:
    request = await asked(planner())
    assert (request.temperature, request.max_output_tokens) == (0, 500)
    assert (request.tool_choice, request.parallel) == ("auto", None)


async def test_types_come_from_the_registry_and_else_are_texts() -> None:
    (with_types, *others) = (await asked(planner(registry=Registry([SEARCHING])))).tools
    assert with_types["function"]["parameters"] == {
        "type": "object",
        "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["query"],
    }
    assert others[0]["function"]["parameters"]["properties"] == {"record_id": {"type": "string"}}


async def test_a_tool_that_comes_later_gets_its_types_then() -> None:
    registry = Registry()
    made = ReActPlanner(config(), ScriptedModel(["Done."]), registry)
    assert made.tools_schema()[0]["function"]["parameters"]["properties"]["limit"] == {"type": "string"}
    assert made.notes[0].startswith("search_database: there is no such tool")
    registry.add(SEARCHING)
    assert made.tools_schema()[0]["function"]["parameters"]["properties"]["limit"] == {"type": "integer"}
    assert not made.notes[0].startswith("search_database")


async def test_the_definitions_have_the_form_of_the_model_s_provider() -> None:
    request = await asked(planner(provider="anthropic"))
    assert [set(each) for each in request.tools] == [{"name", "description", "input_schema"}] * len(NAMES)


@pytest.mark.parametrize("choice", ["auto", "required", "none", "analyze_data"])
async def test_the_tool_choice_is_sent(choice: str) -> None:
    assert (await asked(planner(chosen(choice)))).tool_choice == choice


@pytest.mark.parametrize(("choice", "then"), [("required", "auto"), ("analyze_data", "auto"), ("none", "none")])
async def test_a_forced_choice_holds_until_there_is_a_result(choice: str, then: str) -> None:
    assert (await asked(planner(chosen(choice)), TASK, SEARCHED)).tool_choice == then
    kept = chosen(f"{choice}, reset_tool_choice: false")
    assert (await asked(planner(kept), TASK, SEARCHED)).tool_choice == choice


async def test_one_call_at_a_time_is_asked_for_where_no_more_may_run() -> None:
    request = await asked(planner(("max_parallel_tool_calls: 3", "max_parallel_tool_calls: 1")))
    assert request.parallel is False


async def test_without_tools_no_choice_is_sent() -> None:
    none = read_config("spec: {planner: {type: ReActPlanner, config: {tool_descriptions: []}}}\n", {})
    model = ScriptedModel(["Done."])
    assert await ReActPlanner(none, model).plan(TASK) == "Done."
    assert (list(model.requests[0].tools), model.requests[0].tool_choice) == ([], "auto")


def test_a_tool_that_has_to_be_called_has_to_be_described() -> None:
    wrong = config().model_copy(update={"openai_tool_choice": "serach_database"})
    with pytest.raises(ConfigurationError, match=r"no such tool is described; did you mean search_database\?"):
        ReActPlanner(wrong, ScriptedModel([]))
    empty = AgentConfig(
        planner=config().planner.model_copy(update={"tool_descriptions": ()}), openai_tool_choice="required"
    )
    with pytest.raises(ConfigurationError, match="tool_choice is required, and no tool is described"):
        ReActPlanner(empty, ScriptedModel([]))


# what becomes of the reply


async def test_the_example_of_the_reference_becomes_actions() -> None:
    says = Calls(("search_database", {"query": "active users", "limit": 10}), ("list_tables", {}))
    assert await planner(says=says).plan(TASK) == [
        Action(tool_name="search_database", tool_args={"query": "active users", "limit": 10}),
        Action(tool_name="list_tables", tool_args={}),
    ]


async def test_words_are_the_answer() -> None:
    assert await planner(says="There are 3 active users.").plan(TASK) == "There are 3 active users."


async def test_surplus_calls_are_not_dropped() -> None:
    says = Calls(*[("search_database", {"query": str(n)}) for n in range(5)])
    actions = await planner(says=says).plan(TASK)
    assert [each.tool_args["query"] for each in actions if isinstance(each, Action)] == list("01234")


async def test_more_calls_than_a_turn_may_have_are_answered_and_not_made() -> None:
    says = Calls(*[("list_tables", {})] * (MAX_CALLS + 1))
    actions = await planner(says=says).plan(TASK)
    faults = [each.fault for each in actions if isinstance(each, Action)]
    assert faults == [""] * MAX_CALLS + ["it was not made: 65 calls in one turn are too many, at most 64 are made"]


async def test_invalid_arguments_are_not_emptied() -> None:
    bad = ToolCall(id="1", name="search_database", fault="they are not JSON: ...", written='{"query": ')
    action = await one_action(planner(says=bad))
    assert action == Action(tool_name="search_database", fault="they are not JSON: ...", written='{"query": ')


async def test_arguments_that_are_nested_too_deeply_are_a_fault() -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    action = await one_action(planner(says=Calls(("search_database", {"query": deep}))))
    assert (action.tool_args, action.fault) == ({}, "they are nested more than 100 deep")


async def test_calls_of_a_reply_that_was_cut_are_not_made() -> None:
    says = Say(calls=[ToolCall(id="1", name="list_tables")], cut=True)
    action = await one_action(planner(says=says))
    assert action.fault.startswith("the reply was cut at its limit of tokens, so the call was not made")


async def test_a_refusal_is_the_answer() -> None:
    assert await planner(says=Say(refusal="I will not.")).plan(TASK) == "I will not."


async def test_calls_where_none_may_be_made_have_a_fault() -> None:
    action = await one_action(planner(chosen("none"), says=Calls(("list_tables", {}))))
    assert action.fault == "no tool may be called here: answer in words"


async def test_a_call_that_was_written_as_text_is_read_as_one() -> None:
    says = 'Calling tool: search_database with args: {"query": "active users"}'
    expected = [Action(tool_name="search_database", tool_args={"query": "active users"})]
    assert await planner(says=says).plan(TASK) == expected


# a turn of a loop


def conversation() -> list[Message]:
    return [
        User(text=TASK),
        Assistant(calls=(ToolCall(id="call_1", name="list_tables"),)),
        ToolReplies(replies=(ToolReply(id="call_1", name="list_tables", text='["users"]'),)),
    ]


def test_a_loop_keeps_calls_and_results_as_the_provider_has_them() -> None:
    made: TurnPlanner = planner(chosen("required"))
    request = made.request(conversation(), {"strategic_plan": {"phases": []}})
    assert list(request.messages) == conversation()
    assert "STRATEGIC PLAN" in request.system
    assert request.tool_choice == "auto"
    assert made.request(conversation()[:1], {}).tool_choice == "required"
    assert made.max_parallel_tool_calls == 3


async def test_an_observation_of_a_call_that_was_not_made_does_not_end_a_forced_choice() -> None:
    bad = [
        Action(tool_name="list_tables", fault="they are not JSON"),
        Observation(tool_name="list_tables", content="no"),
    ]
    assert (await asked(planner(chosen("required")), TASK, bad)).tool_choice == "required"
    assert (await asked(planner(chosen("required")), TASK, [*bad, *SEARCHED])).tool_choice == "auto"
    assert (await asked(planner(chosen("required")), TASK, bad[1:])).tool_choice == "auto"


def test_a_call_that_could_not_be_read_does_not_end_a_forced_choice() -> None:
    bad = Assistant(calls=(ToolCall(id="1", name="list_tables", fault="they are not JSON"),))
    assert planner(chosen("required")).request([User(text=TASK), bad], {}).tool_choice == "required"


def test_results_go_back_as_results_with_a_word_on_those_that_waited() -> None:
    replies = ToolReplies(replies=tuple(ToolReply(id=str(n), name="list_tables", text=f"result {n}") for n in range(5)))
    told = planner().tell(replies)
    assert isinstance(told, ToolReplies)
    assert [each.text for each in told.replies[:4]] == [f"result {n}" for n in range(4)]
    assert told.replies[4].text == (
        "result 4\n\nNote: 5 calls in one turn; at most 3 run at the same time, so these waited: "
        "list_tables, list_tables."
    )
    few = ToolReplies(replies=replies.replies[:3])
    assert planner().tell(few) == few


def read(made: ReActPlanner, turn: Assistant, ended: Any = "calls") -> Reply:
    return made.read(Reply(turn=turn, ended=ended))


def test_a_reply_that_needs_no_reading_stays_the_same() -> None:
    made = planner()
    replies: list[tuple[Assistant, Any]] = [
        (Assistant(text="Done."), "answered"),
        (Assistant(calls=(ToolCall(id="1", name="list_tables"),), native=[1], provider="openai"), "calls"),
        (Assistant(), "empty"),
        (Assistant(text='{"name": "list_tables", "arg'), "cut"),
        (Assistant(text="No."), "refused"),
    ]
    for turn, ended in replies:
        assert read(made, turn, ended) == Reply(turn=turn, ended=ended)


# text mode


async def test_in_text_mode_everything_is_in_words() -> None:
    request = await asked(planner(TEXT), TASK, SEARCHED, strategic_plan={"phases": [1]})
    assert (list(request.tools), request.tool_choice) == ([], "auto")
    assert request.system.startswith("You are a data analysis specialist.\n\nSTRATEGIC PLAN:\n")
    assert "- search_database: Search the database." in request.system
    assert [each.text for each in request.messages if isinstance(each, User | Assistant)] == [
        TASK,
        'Action: search_database\nAction Input: {"query": "active users", "limit": 10}',
        "Observation: Found 10 records: [user1, user2, ...]",
    ]


async def test_in_text_mode_actions_are_read() -> None:
    says = 'Thought: so\nAction: search_database\nAction Input: {"query": "active users"}'
    assert await planner(TEXT, says=says).plan(TASK) == [
        Action(tool_name="search_database", tool_args={"query": "active users"})
    ]
    assert await planner(TEXT, says="Thought: I know\nFinal Answer: 3").plan(TASK) == "3"


async def test_in_text_mode_a_wrong_form_is_answered() -> None:
    action = await one_action(planner(TEXT, says="Thought: let me see"))
    assert (action.tool_name, action.written) == (NO_ACTION, "Thought: let me see")
    assert action.fault.startswith("there is neither an Action nor a Final Answer")
    action = await one_action(planner(TEXT, says="Action: drop_tables\nAction Input: {}"))
    assert action.fault.startswith("you have no tool 'drop_tables'")


def test_in_text_mode_a_loop_s_conversation_has_no_calls() -> None:
    made = planner(TEXT, chosen("required"))
    first = made.request(conversation()[:1], {})
    assert "You have to use a tool now." in first.system
    reply = read(made, Assistant(text="Action: list_tables\nAction Input: {}\nObservation: users"), "answered")
    assert (reply.ended, reply.turn.text) == ("calls", "Action: list_tables\nAction Input: {}")
    (call,) = reply.turn.calls
    result = made.tell(ToolReplies(replies=(ToolReply(id=call.id, name=call.name, text='["users"]'),)))
    assert result == User(text='Observation: ["users"]')
    then = made.request([User(text=TASK), reply.turn, result], {})
    assert list(then.messages) == [User(text=TASK), Assistant(text="Action: list_tables\nAction Input: {}"), result]
    assert "You have to use a tool now." not in then.system
    answer = read(made, Assistant(text="Final Answer: users"), "answered")
    assert (answer.turn, answer.ended) == (Assistant(text="users"), "answered")
    assert read(made, Assistant(text="Final Answer:"), "answered").ended == "empty"
