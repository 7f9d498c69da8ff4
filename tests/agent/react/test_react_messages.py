"""What a model is told besides definitions: the system text, the strategic plan, the history, the task last."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import ConfigurationError
from callgate.agent.models.model import Assistant, Message, Reply, ToolCall, User
from callgate.agent.react.actions import Action, Observation, actions_of
from callgate.agent.react.messages import (
    MAX_ENTRIES,
    MAX_ENTRY_CHARACTERS,
    MAX_HISTORY_CHARACTERS,
    MAX_PLAN_CHARACTERS,
    history_messages,
    newest,
    plan_block,
    system_text,
)

PLAN = {"phases": [{"worker": "data-analysis", "goals": "Analyze user activity patterns"}]}


def texts(messages: tuple[Message, ...]) -> list[str]:
    return [each.text for each in messages if isinstance(each, User | Assistant)]


def test_the_strategic_plan_stands_behind_the_system_prompt_as_in_the_reference() -> None:
    plan_block_of_the_reference = f"\nSTRATEGIC PLAN:\n{json.dumps(PLAN, indent=2)[:1500]}\n"
    assert system_text("You are an analyst.", {"strategic_plan": PLAN}) == (
        f"You are an analyst.\n{plan_block_of_the_reference}"
    )


@pytest.mark.parametrize("context", [None, {}, {"strategic_plan": None}, {"strategic_plan": {}}, {"other": 1}])
def test_without_a_plan_the_system_text_is_the_prompt(context: Any) -> None:
    assert system_text("You are an analyst.\n", context) == "You are an analyst."


def test_a_plan_without_a_prompt_stands_alone() -> None:
    assert system_text("", {"strategic_plan": [1]}) == "STRATEGIC PLAN:\n[\n  1\n]\n"


def test_a_long_plan_is_cut_at_1500_characters_and_says_so() -> None:
    long = {"phases": ["x" * 5_000]}
    block = plan_block(long)
    shown = json.dumps(long, indent=2)[:1500]
    assert block == f"\nSTRATEGIC PLAN:\n{shown}\n(cut here: the plan is longer than 1,500 characters)\n"
    fits = "x" * MAX_PLAN_CHARACTERS
    assert plan_block(fits) == f"\nSTRATEGIC PLAN:\n{fits}\n"


def test_a_plan_that_is_no_json_is_the_operators_mistake() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ConfigurationError, match="the strategic plan is not a JSON value"):
        plan_block(circle)
    assert "2026-01-01" in plan_block({"until": __import__("datetime").date(2026, 1, 1)})


def test_the_history_is_told_in_the_words_of_the_reference_and_the_task_is_last() -> None:
    history = [
        Action(tool_name="search_database", tool_args={"query": "active users", "limit": 10}),
        Observation(tool_name="search_database", content="Found 10 records: [user1, user2, ...]"),
    ]
    first, call, result, task = history_messages("Find all records matching criteria X", history)
    assert first == User(text="What was done so far for the task below:")
    assert call == Assistant(text='Calling tool: search_database with args: {"query": "active users", "limit": 10}')
    assert result == User(text="Tool result: Found 10 records: [user1, user2, ...]")
    assert task == User(text="Find all records matching criteria X")


def test_without_a_history_there_is_the_task() -> None:
    assert history_messages("Do it.", []) == (User(text="Do it."),)


def test_what_is_neither_action_nor_observation_is_passed_over() -> None:
    history = ["a note", {"type": "action"}, None, Action(tool_name="a")]
    assert texts(history_messages("Do it.", history))[1:] == ["Calling tool: a with args: {}", "Do it."]


def test_arguments_with_a_fault_are_told_as_they_were_written() -> None:
    action = Action(tool_name="a", fault="they are not JSON", written='{"x": ')
    assert texts(history_messages("Do it.", [action]))[1] == 'Calling tool: a with args: {"x": '


def test_halves_of_characters_do_not_break_a_wire() -> None:
    (_, call, _) = history_messages("Do it.", [Action(tool_name="a", tool_args={"x": "\ud800é"})])
    assert call == Assistant(text='Calling tool: a with args: {"x": "?é"}')


def test_a_plan_with_half_a_character_does_not_break_a_wire() -> None:
    assert plan_block({"goal": "\ud800é"}) == '\nSTRATEGIC PLAN:\n{\n  "goal": "?é"\n}\n'


def test_actions_of_a_reply_have_the_ids_of_its_calls() -> None:
    calls = (ToolCall(id="call_123", name="a"), ToolCall(id="call_124", name="b"))
    assert [each.id for each in actions_of(Reply(turn=Assistant(calls=calls), ended="calls"))] == [
        "call_123",
        "call_124",
    ]


def test_a_long_history_is_told_from_its_newest_end() -> None:
    history = [
        each
        for n in range(100)
        for each in (Action(tool_name=f"t{n}"), Observation(tool_name=f"t{n}", content=f"result {n}"))
    ]
    told = texts(history_messages("Do it.", history))
    assert told[0] == "What was done so far for the task below (140 earlier entries are left out):"
    assert told[1:3] == ["Calling tool: t70 with args: {}", "Tool result: result 70"]
    assert told[-2:] == ["Tool result: result 99", "Do it."]
    assert len(told) == MAX_ENTRIES + 2


def test_a_long_entry_is_cut_and_says_so() -> None:
    content = "x" * (MAX_ENTRY_CHARACTERS + 5)
    (kept,), left_out = newest([Observation(tool_name="a", content=content)])
    assert isinstance(kept, Observation)
    assert kept.content.endswith("x\n... (5 more characters are left out)")
    assert left_out == 0
    (action,), _ = newest([Action(tool_name="a", tool_args={"x": content})])
    assert isinstance(action, Action)
    assert len(action.written) < MAX_ENTRY_CHARACTERS + 100


def test_the_whole_history_is_bounded_and_no_result_stands_there_without_its_call() -> None:
    big = "x" * 7_000
    history = [each for _ in range(20) for each in (Action(tool_name="a"), Observation(tool_name="a", content=big))]
    kept, left_out = newest(history)
    assert isinstance(kept[0], Action)
    assert sum(len(each.content) for each in kept if isinstance(each, Observation)) <= MAX_HISTORY_CHARACTERS
    assert left_out == 40 - len(kept) > 0
