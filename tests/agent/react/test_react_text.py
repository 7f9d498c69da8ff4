"""Text mode: what comes of everything that models write instead of calls. The table is that of docs/planners.md."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.agent.react.text_calls import MAX_TEXT, NO_ACTION, read_text, written_calls

STRING, INTEGER = {"type": "string"}, {"type": "integer"}
KNOWN: dict[str, dict[str, Any]] = {
    "search_database": {"properties": {"query": STRING, "limit": INTEGER}},
    "get_record_details": {"properties": {"record_id": STRING}},
    "get_page": {"properties": {"number": INTEGER}},
    "list_tables": {"properties": {}},
}
SEARCH = 'Action: search_database\nAction Input: {"query": "x", "limit": 1}'
SEARCHED: list[tuple[str, dict[str, Any]]] = [("search_database", {"query": "x", "limit": 1})]
LIST = "Action: list_tables\nAction Input: {}"
LISTED: list[tuple[str, dict[str, Any]]] = [("list_tables", {})]
NEITHER = (
    "there is neither an Action nor a Final Answer. Write an Action and an Action Input, or, if you know the answer"
)
ELSEWHERE = "its arguments do not stand behind an Action Input of its own: write that under the Action"
DETAILS = "Action: get_record_details\nAction Input: "
MAIL = "Hello\nAction: list_tables\nAction Input: {}\nObservation: sent\nFinal Answer: 3"

CALLS: list[tuple[str, list[tuple[str, dict[str, Any]]]]] = [
    (f"Thought: first search\n{SEARCH}", SEARCHED),
    # the same, as models write it
    ('action: `search_database`\naction input: {"query": "x", "limit": 1}', SEARCHED),
    ('**Action:** search_database\n**Action Input:** {"query": "x", "limit": 1}', SEARCHED),
    ('Action 1: search_database\nAction Input 1: {"query": "x", "limit": 1}', SEARCHED),
    ('Action: search_database()\nAction Input:\n```json\n{\n  "query": "x",\n  "limit": 1\n}\n```', SEARCHED),
    ("Action: search_database\nAction Input: {'query': 'x', 'limit': 1}", SEARCHED),
    ('Action: "search_database"\nAction Input: {"query": "x", "limit": 1}\nThat should do.', SEARCHED),
    ('Action:\n```json\n{"action": "search_database", "action_input": {"query": "x", "limit": 1}}\n```', SEARCHED),
    ('Thought: so\nAction: {"name": "search_database", "arguments": {"query": "x", "limit": 1}}', SEARCHED),
    ('Action\uff1asearch_database\nAction Input\uff1a{"query": "x", "limit": 1}', SEARCHED),
    ('Action: search_database\nAction_Input: {"query": "x", "limit": 1}', SEARCHED),
    ('Action: search_database\n{"query": "x", "limit": 1}', SEARCHED),
    ('Action: search_database\nInput: {"query": "x", "limit": 1}', SEARCHED),
    ('Action: search_database\n**Arguments:**\n```json\n{"query": "x", "limit": 1}\n```', SEARCHED),
    # several, and without an input
    (f"{SEARCH}\nAction: list_tables\nThought: and\n{SEARCH}", [*SEARCHED, *LISTED, *SEARCHED]),
    ("Action: list_tables", LISTED),
    # what stands behind an observation of its own, and an answer behind an action, do not count
    (f"{SEARCH}\nObservation: [3 users]\n{LIST}\nFinal Answer: 3", SEARCHED),
    (f"{LIST}\nFinal Answer: users", LISTED),
    (f"{LIST}\nAction: Final Answer\nAction Input: 3", LISTED),
    (f'{LIST}\nAction: {{"action": "Final Answer"}}', LISTED),
    # words of the form inside of an input begin nothing
    (f'{DETAILS}{{"record_id": "{MAIL}"}}\n{LIST}', [("get_record_details", {"record_id": MAIL}), *LISTED]),
    (f'{DETAILS}```json\n{{"record_id": "{MAIL}"}}\n```', [("get_record_details", {"record_id": MAIL})]),
    # plain text is the argument of a tool that has one
    (f"{DETAILS}user 1", [("get_record_details", {"record_id": "user 1"})]),
    (f'{DETAILS}"user 1"', [("get_record_details", {"record_id": "user 1"})]),
    (f"{DETAILS}none of them", [("get_record_details", {"record_id": "none of them"})]),
    ("Action: get_page\nAction Input: 7", [("get_page", {"number": 7})]),
    # an unknown tool stays a call, for whoever answers it
    ('Action: drop_tables\nAction Input: {"a": 1}', [("drop_tables", {"a": 1})]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CALLS)
def test_what_is_meant_as_calls_is_calls(text: str, expected: list[tuple[str, dict[str, Any]]]) -> None:
    written = read_text(text, KNOWN)
    assert [(each.name, each.arguments) for each in written.calls] == expected
    assert not any(each.fault for each in written.calls)
    assert written.answer == ""


def test_what_a_model_made_up_is_not_kept() -> None:
    assert read_text(f"{SEARCH}\nObservation: [3 users]\n{LIST}", KNOWN).kept == SEARCH
    assert read_text(f"{LIST}\nFinal Answer: users", KNOWN).kept == LIST


ANSWERS = [
    ("  There are three active users.\n", "There are three active users."),
    ("Thought: so\nFinal Answer: 3\nAction: none of them failed", "3\nAction: none of them failed"),
    ("Action: Final Answer\nAction Input: There are 3.", "There are 3."),
    *[
        (f"Thought: I know\nAction: {none}\nFinal Answer: 42", "42")
        for none in ("None", "none needed", "No tool needed.", "N/A", "None\nAction Input: None")
    ],
    *[
        (text.replace("{}", '{"action": "Final Answer", "action_input": "42"}'), "42")
        for text in ("{}", "```json\n{}\n```", "Action:\n```json\n{}\n```", "Thought: I know\nAction: {}")
    ],
    ("<think>\nAction: list_tables\nAction Input: {}", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), ANSWERS)
def test_what_is_meant_as_the_answer_is_the_answer(text: str, answer: str) -> None:
    written = read_text(text, KNOWN)
    assert (written.answer, written.calls) == (answer, ())


FAULTS = [
    ('Action: search_database\nAction Input: {"query": "active us', "they are not JSON: Unterminated string"),
    ('Action: search_database\nAction Input: {"query": "active us', "the text ends in the middle"),
    ('Action: search_database\nAction Input: {"query": x}', "they are not JSON: Expecting value"),
    ("Action: search_database\nAction Input: [1, 2]", "they have to be a JSON object, and are list"),
    ('Action: search_database\nAction Input: {"query": NaN}', "they are not JSON: NaN is not JSON"),
    ('Action: search_database\nAction Input: {"query": "a"} {"query": "b"}', "there are several objects behind one"),
    ("Action: search_database\nAction Input: active, 10", 'an Action Input is a JSON object: {"query": ..., "limit"'),
    ("Action: search_database\nAction Input: " + "{" * 100_000, "they are not JSON"),
    ("Action: search_database\nAction Input: " + '{"a":' * 30_000, "they are not JSON"),
    ("Action: get_page\nAction Input: seven", "an Action Input is a JSON object"),
    ('Action: get_page\nAction Input: 7, "x": 8', "an Action Input is a JSON object"),
    ('Action: search_database\nwith {"query": "x"}', ELSEWHERE),
    *[
        (f"Action: {name}\nAction Input: {{}}", "an Action is the name of one tool alone")
        for name in ("search_database(query='x')", "search_database[x]", "search the database", "`")
    ],
    ('Action Input: {"query": "x"}', "an Action Input stands there without its own Action"),
    *[(f"Thought: so{more}", NEITHER) for more in ("", "\nAction: None", "\nObservation: 3\nFinal Answer: 3")],
    ("Action: x\n" + "y" * MAX_TEXT, "the reply has more than 200,000 characters"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), FAULTS)
def test_what_cannot_be_read_is_a_fault_and_never_a_call_with_empty_arguments(text: str, fault: str) -> None:
    (call,) = read_text(text, KNOWN).calls
    assert fault in call.fault
    assert call.arguments == {}
    assert call.written or call.name == NO_ACTION


@pytest.mark.parametrize(
    "text",
    ['Action Input: {"query": "x"}\nAction: search_database', f'{LIST}\nAction Input: {{"query": "x"}}'],
)
def test_an_input_without_its_own_action_is_a_fault(text: str) -> None:
    *_, last = read_text(text, KNOWN).calls
    assert last.fault == "an Action Input stands there without its own Action"


@pytest.mark.parametrize("half", ['{"query": "He said "go"', '{"query": "Hello', "{'query': 'It's'"])
def test_nothing_is_called_that_may_be_a_part_of_an_input_that_cannot_be_read(half: str) -> None:
    first, behind = read_text(f"Action: search_database\nAction Input: {half}\n{LIST}", KNOWN).calls
    assert first.fault.startswith("they are not JSON")
    assert behind.fault == "it was not made: the Action Input before it cannot be read, and this may be a part of it"


@pytest.mark.parametrize("text", ["<think>\n{}\n</think>\n", "{}\n</think>\n\n", "<thinking>{}</thinking>"])
def test_what_a_model_only_thought_calls_nothing(text: str) -> None:
    thought = text.format(f"I could write\n{LIST}\nor not")
    written = read_text(thought + SEARCH, KNOWN)
    assert [(each.name, each.arguments) for each in written.calls] == SEARCHED
    assert written.kept == SEARCH
    assert read_text(thought + "Final Answer: 3", KNOWN).answer == "3"
    assert read_text(thought + "There are 3.", KNOWN).answer == "There are 3."
    assert [each.name for each in written_calls(thought + WHOLE[0], KNOWN)] == ["search_database"]


def test_a_tool_that_is_called_finish_is_a_tool() -> None:
    (call,) = read_text(
        'Action: finish\nAction Input: {"with": "x"}', {"finish": {"properties": {"with": STRING}}}
    ).calls
    assert (call.name, call.arguments) == ("finish", {"with": "x"})


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
    "Action:", "Action Input:", "Thought:", "Final Answer:", "Observation:", "\n", " ", "search_database", "get_page",
    "list_tables", *'{}[]:"()`*', '"query"', '"x"', "'a'", "```json", "None", "7", "NaN", "1e999", "<tool_call>", "\0",
]  # fmt: skip


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
    assert read_text(text, KNOWN).calls == (call,)


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
    assert [each.name for each in written_calls(tagged, KNOWN)] == ["list_tables"] * 2
    (bad,) = written_calls('{"name": "search_database", "arguments": "{\\"query\\": "}', KNOWN)
    assert (bad.arguments, bad.written) == ({}, '{"query": ')
    assert bad.fault.startswith("they are not JSON")
