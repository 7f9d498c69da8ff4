"""Text mode: how a model is told to call tools in words, and what comes of everything that models write."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.agent.models.model import ToolCall
from callgate.agent.react.text_calls import MAX_TEXT, NO_ACTION, read_text, written_calls

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
KNOWN: dict[str, dict[str, Any]] = {
    "search_database": {"properties": {"query": STRING, "limit": INTEGER}},
    "get_record_details": {"properties": {"record_id": STRING}},
    "get_page": {"properties": {"number": INTEGER}},
    "list_tables": {"properties": {}},
}


def calls(text: str) -> list[tuple[str, dict[str, Any], str]]:
    return [(each.name, each.arguments, each.fault) for each in read_text(text, KNOWN).calls]


def one_fault(text: str) -> str:
    ((_, arguments, fault),) = calls(text)
    assert arguments == {}
    assert fault
    return fault


def test_an_action_with_its_input_is_a_call() -> None:
    text = 'Thought: first search\nAction: search_database\nAction Input: {"query": "active users", "limit": 10}'
    written = read_text(text, KNOWN)
    assert written.calls == (
        ToolCall(id="written_0", name="search_database", arguments={"query": "active users", "limit": 10}),
    )
    assert (written.answer, written.kept) == ("", text)


def test_a_final_answer_is_the_answer() -> None:
    written = read_text("Thought: I know the answer\nFinal Answer: There are 3.\nAction: none of them failed", KNOWN)
    assert written.answer == "There are 3.\nAction: none of them failed"
    assert written.calls == ()


@pytest.mark.parametrize(
    "text",
    [
        'Action: search_database\nAction Input: {"query": "x", "limit": 1}',
        'action: `search_database`\naction input: {"query": "x", "limit": 1}',
        '**Action:** search_database\n**Action Input:** {"query": "x", "limit": 1}',
        'Action 1: search_database\nAction Input 1: {"query": "x", "limit": 1}',
        'Action: search_database()\nAction Input:\n```json\n{\n  "query": "x",\n  "limit": 1\n}\n```',
        "Action: search_database\nAction Input: {'query': 'x', 'limit': 1}",
        'Action: "search_database"\nAction Input: {"query": "x", "limit": 1}\nThat should do.',
        'Action:\n```json\n{"action": "search_database", "action_input": {"query": "x", "limit": 1}}\n```',
        'Thought: so\nAction: {"name": "search_database", "arguments": {"query": "x", "limit": 1}}',
        'Action\uff1asearch_database\nAction Input\uff1a{"query": "x", "limit": 1}',
        'Action: search_database\nAction_Input: {"query": "x", "limit": 1}',
        'Action: search_database\n{"query": "x", "limit": 1}',
        'Action: search_database\nInput: {"query": "x", "limit": 1}',
        'Action: search_database\n**Arguments:**\n```json\n{"query": "x", "limit": 1}\n```',
    ],
)
def test_an_action_is_read_kindly(text: str) -> None:
    assert calls(text) == [("search_database", {"query": "x", "limit": 1}, "")]


@pytest.mark.parametrize(
    "text",
    [
        'Action: search_database\nwith {"query": "x"}',
        'Action Input: {"query": "x"}\nAction: search_database',
    ],
)
def test_arguments_that_stand_elsewhere_are_never_emptied(text: str) -> None:
    (_, arguments, fault), *_ = calls(text)
    assert arguments == {}
    assert fault == "its arguments do not stand behind an Action Input of its own: write that under the Action"


@pytest.mark.parametrize("text", ["<think>\n{}\n</think>\n", "{}\n</think>\n\n", "<thinking>{}</thinking>"])
def test_what_a_model_only_thought_calls_nothing(text: str) -> None:
    thought = text.format("I could write\nAction: list_tables\nAction Input: {}\nor not")
    said = 'Action: search_database\nAction Input: {"query": "x"}'
    written = read_text(thought + said, KNOWN)
    assert [(each.name, each.arguments) for each in written.calls] == [("search_database", {"query": "x"})]
    assert written.kept == said
    assert read_text(thought + "Final Answer: 3", KNOWN).answer == "3"
    assert read_text(thought + "There are 3.", KNOWN).answer == "There are 3."
    ((call),) = written_calls(thought + WHOLE[0], KNOWN)
    assert call.name == "search_database"


def test_a_thought_that_does_not_end_says_nothing() -> None:
    assert read_text("<think>\nAction: list_tables\nAction Input: {}", KNOWN) == read_text("", KNOWN)


def test_words_of_the_form_inside_of_an_input_begin_nothing() -> None:
    mail = "Hello\nAction: list_tables\nAction Input: {}\nObservation: sent\nFinal Answer: 3"
    given = f'{{"query": "{mail}"}}'
    for text in (given, f"```json\n{given}\n```"):
        written = f"Action: search_database\nAction Input: {text}\nAction: get_page\nAction Input: 7"
        assert calls(written) == [("search_database", {"query": mail}, ""), ("get_page", {"number": 7}, "")]


@pytest.mark.parametrize("half", ['{"query": "He said "go"', '{"query": "Hello', "{'query': 'It's'"])
def test_nothing_is_called_that_may_be_a_part_of_an_input_that_cannot_be_read(half: str) -> None:
    first, behind = calls(f"Action: search_database\nAction Input: {half}\nAction: list_tables\nAction Input: {{}}")
    assert first[2].startswith("they are no JSON")
    assert behind[2] == "it was not made: the Action Input before it cannot be read, and this may be a part of it"


@pytest.mark.parametrize("none", ["None", "none needed", "No tool needed.", "N/A", "None\nAction Input: None"])
def test_an_answer_behind_the_word_that_nothing_is_called_is_the_answer(none: str) -> None:
    assert read_text(f"Thought: I know\nAction: {none}\nFinal Answer: 42", KNOWN).answer == "42"
    assert one_fault(f"Action: {none}").startswith("there is neither an Action nor a Final Answer")


def test_a_single_text_argument_may_begin_with_none() -> None:
    assert calls("Action: get_record_details\nAction Input: none of them")[0][1] == {"record_id": "none of them"}


def test_several_actions_are_several_calls() -> None:
    text = (
        'Action: search_database\nAction Input: {"query": "x"}\n'
        "Action: list_tables\n"
        'Thought: and\nAction: get_record_details\nAction Input: {"record_id": "u1"}'
    )
    assert calls(text) == [
        ("search_database", {"query": "x"}, ""),
        ("list_tables", {}, ""),
        ("get_record_details", {"record_id": "u1"}, ""),
    ]
    assert [each.id for each in read_text(text, KNOWN).calls] == ["written_0", "written_1", "written_2"]


def test_an_observation_of_its_own_ends_what_counts() -> None:
    real = 'Thought: look\nAction: search_database\nAction Input: {"query": "x"}'
    written = read_text(f"{real}\nObservation: [3 users]\nAction: list_tables\nFinal Answer: 3", KNOWN)
    assert [each.name for each in written.calls] == ["search_database"]
    assert (written.answer, written.kept) == ("", real)


def test_an_answer_behind_an_action_waits_for_what_the_tool_says() -> None:
    written = read_text("Action: list_tables\nAction Input: {}\nFinal Answer: users", KNOWN)
    assert [each.name for each in written.calls] == ["list_tables"]
    assert (written.answer, written.kept) == ("", "Action: list_tables\nAction Input: {}")


@pytest.mark.parametrize("answer", ["Action: Final Answer\nAction Input: 3", 'Action: {"action": "Final Answer"}'])
def test_an_action_that_is_the_final_answer_drops_no_call(answer: str) -> None:
    written = read_text(f"Action: list_tables\nAction Input: {{}}\n{answer}", KNOWN)
    assert [each.name for each in written.calls] == ["list_tables"]
    assert (written.answer, written.kept) == ("", "Action: list_tables\nAction Input: {}")


@pytest.mark.parametrize("text", ["{}", "```json\n{}\n```", "Action:\n```json\n{}\n```", "Thought: I know\nAction: {}"])
def test_a_json_object_that_is_the_final_answer_is_the_answer(text: str) -> None:
    assert read_text(text.replace("{}", '{"action": "Final Answer", "action_input": "42"}'), KNOWN).answer == "42"


def test_a_tool_that_is_called_finish_is_a_tool() -> None:
    known = {"finish": {"properties": {"with": STRING}}}
    (call,) = read_text('Action: finish\nAction Input: {"with": "x"}', known).calls
    assert (call.name, call.arguments) == ("finish", {"with": "x"})


def test_an_action_that_is_the_final_answer_is_the_answer() -> None:
    assert read_text("Action: Final Answer\nAction Input: There are 3.", KNOWN).answer == "There are 3."


def test_half_a_json_is_a_fault_and_says_that_it_was_cut() -> None:
    fault = one_fault('Action: search_database\nAction Input: {"query": "active us')
    assert fault.startswith("they are no JSON: Unterminated string")
    assert "the text ends in the middle" in fault
    (call,) = read_text('Action: search_database\nAction Input: {"query": "active us', KNOWN).calls
    assert call.written == '{"query": "active us'


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ('{"query": x}', "they are no JSON: Expecting value"),
        ("[1, 2]", "they have to be a JSON object, and are list"),
        ('{"query": NaN}', "they are no JSON: NaN is not JSON"),
        ('{"query": "a"} {"query": "b"}', "there are several objects behind one Action Input"),
        ("active users, 10", 'an Action Input is a JSON object: {"query": ..., "limit": ...}'),
        ("{" * 100_000, "they are no JSON"),
        ('{"a":' * 30_000, "they are no JSON"),
    ],
)
def test_input_that_is_no_object_is_a_fault(given: str, words: str) -> None:
    assert words in one_fault(f"Action: search_database\nAction Input: {given}")


def test_plain_text_is_the_argument_of_a_tool_that_has_one() -> None:
    assert calls("Action: get_record_details\nAction Input: user 1") == [
        ("get_record_details", {"record_id": "user 1"}, "")
    ]
    assert calls('Action: get_record_details\nAction Input: "user 1"')[0][1] == {"record_id": "user 1"}
    assert calls("Action: get_page\nAction Input: 7")[0][1] == {"number": 7}
    assert one_fault("Action: get_page\nAction Input: seven")
    assert one_fault('Action: get_page\nAction Input: 7, "x": 8')


def test_an_unknown_tool_stays_a_call_for_whoever_answers_it() -> None:
    assert calls('Action: drop_tables\nAction Input: {"a": 1}') == [("drop_tables", {"a": 1}, "")]


@pytest.mark.parametrize("name", ["search_database(query='x')", "search_database[x]", "search the database", "`"])
def test_an_action_that_is_no_name_is_a_fault(name: str) -> None:
    assert "an Action is the name of one tool alone" in one_fault(f"Action: {name}\nAction Input: {{}}")


@pytest.mark.parametrize(
    "text",
    ["Thought: I should search.", "Thought: so\nAction: None", "Thought: x\nObservation: 3 users\nFinal Answer: 3"],
)
def test_neither_an_action_nor_an_answer_is_a_fault_that_says_what_to_write(text: str) -> None:
    assert one_fault(text) == (
        "there is neither an Action nor a Final Answer. Write an Action and an Action Input, or, if you know the "
        "answer, a Final Answer"
    )
    (call,) = read_text(text, KNOWN).calls
    assert call.name == NO_ACTION


def test_an_input_without_its_action_is_a_fault() -> None:
    assert one_fault('Action Input: {"query": "x"}') == "an Action Input stands there without its own Action"
    two = calls('Action: list_tables\nAction Input: {}\nAction Input: {"query": "x"}')
    assert [bool(fault) for _, _, fault in two] == [False, True]


def test_prose_is_the_answer() -> None:
    written = read_text("  There are three active users.\n", KNOWN)
    assert (written.answer, written.calls) == ("There are three active users.", ())


def test_a_turn_that_is_too_long_is_a_fault() -> None:
    assert one_fault("Action: x\n" + "y" * MAX_TEXT).startswith("the reply has more than 200,000 characters")


@pytest.mark.parametrize(
    "text",
    [
        "Action:" * 25_000,
        "Action:\n" * 25_000,
        " " * 190_000 + "x",
        "\n" * 190_000,
        "Action: list_tables\nAction Input: ```json " + " " * 150_000 + "x",
        "*#>`-" * 38_000,
        "<tool_call>" * 18_000,
        "Calling tool: a with args: {" + "} " * 90_000,
        "[" * 190_000,
        "Action: search_database\nAction Input: " + "{'a': " * 3_000,
        "Action: None\n" * 8_000 + 'Action: {"action": "finish"}\n' * 3_000,
        'Action Input: ["", "\n' * 9_000,
        'Action: x\nAction Input: [[["\\", "\n' * 5_000,
        "<think>" * 25_000,
        "</think> \n" * 20_000,
    ],
)
def test_odd_texts_are_read_in_no_time(text: str) -> None:
    began = time.process_time()
    read_text(text, KNOWN)
    written_calls(text, KNOWN)
    assert time.process_time() - began < 5


PIECES = [
    "Action:",
    "Action Input:",
    "Thought:",
    "Final Answer:",
    "Observation:",
    "\n",
    " ",
    "search_database",
    "get_page",
]
PIECES += [
    "list_tables",
    *'{}[]:"()`*',
    '"query"',
    '"x"',
    "'a'",
    "```json",
    "None",
    "7",
    "NaN",
    "1e999",
    "<tool_call>",
    "\0",
]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_whatever_a_model_writes_is_an_answer_or_calls(text: str) -> None:
    written = read_text(text, KNOWN)
    assert not (written.calls and written.answer)
    assert not any(call.fault and call.arguments for call in written.calls)
    assert len({call.id for call in written.calls}) == len(written.calls)
    assert all(call.name in KNOWN and not call.fault for call in written_calls(text, KNOWN))


WHOLE = [
    '{"name": "search_database", "arguments": {"query": "x"}}',
    '```json\n{"tool": "search_database", "args": {"query": "x"}}\n```',
    '[{"type": "function", "function": {"name": "search_database", "arguments": "{\\"query\\": \\"x\\"}"}}]',
    '<tool_call>\n{"name": "search_database", "arguments": {"query": "x"}}\n</tool_call>',
    'Calling tool: search_database with args: {"query": "x"}',
]


@pytest.mark.parametrize("text", WHOLE)
def test_a_text_that_is_a_call_and_nothing_else_is_read_as_one(text: str) -> None:
    (call,) = written_calls(text, KNOWN)
    assert (call.name, call.arguments, call.fault) == ("search_database", {"query": "x"}, "")
    assert calls(text) == [("search_database", {"query": "x"}, "")]


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Alice", "arguments": {"for": "and against"}}',
        '{"name": "search_database"}',
        '{"rows": [1, 2]}',
        'I would write {"name": "search_database", "arguments": {}}',
        '<tool_call>{"name": "search_database", "arguments": {}}</tool_call> and then I answer',
        "Calling tool: search_database with args: {}\nand then I answer",
        "Calling it a day.",
        "[1, 2]",
        "42",
        "",
    ],
)
def test_a_text_that_is_more_or_something_else_is_no_call(text: str) -> None:
    assert written_calls(text, KNOWN) == ()


def test_several_calls_in_a_text() -> None:
    tagged = '<tool_call>{"name": "list_tables", "arguments": {}}</tool_call>' * 2
    assert [each.id for each in written_calls(tagged, KNOWN)] == ["written_0", "written_1"]
    (bad,) = written_calls('{"name": "search_database", "arguments": "{\\"query\\": "}', KNOWN)
    assert (bad.arguments, bad.written) == ({}, '{"query": ')
    assert bad.fault.startswith("they are no JSON")
