"""Text mode: how a model is told to call tools in words, and what comes of everything that models write."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callgate.agent.models.model import Assistant, ToolCall, ToolReplies, ToolReply, User
from callgate.agent.react.actions import Action, Observation
from callgate.agent.react.text_calls import MAX_TEXT, NO_ACTION, read_text, written_calls
from callgate.agent.react.text_form import as_text, history_as_text, instructions, told

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
    ],
)
def test_an_action_is_read_kindly(text: str) -> None:
    assert calls(text) == [("search_database", {"query": "x", "limit": 1}, "")]


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


# what the model is told

DEFINITIONS = [
    {
        "type": "function",
        "function": {
            "name": "search_database",
            "description": "Search the\ndatabase.",
            "parameters": {"type": "object", "properties": {"query": STRING}, "required": ["query"]},
        },
    },
    {
        "type": "function",
        "function": {"name": "list_tables", "description": "List.", "parameters": {"type": "object", "properties": {}}},
    },
]


def test_the_instructions_name_every_tool_its_words_and_its_arguments() -> None:
    text = instructions(DEFINITIONS, "auto", 3)
    assert "- search_database: Search the database.\n  Action Input, as JSON Schema: {" in text
    assert "- list_tables: List.\n  Action Input: {}" in text
    assert "one of: search_database, list_tables" in text
    assert "at most 3" in text
    assert "Final Answer:" in text
    assert "have to use" not in text


def test_the_instructions_say_the_tool_choice() -> None:
    assert "You have to use a tool now." in instructions(DEFINITIONS, "required", 3)
    assert "You have to use the tool list_tables now." in instructions(DEFINITIONS, "list_tables", 3)
    assert "Write one Action at a time." in instructions(DEFINITIONS, "auto", 1)
    none = instructions(DEFINITIONS, "none", 3)
    assert none == instructions([], "auto", 3)
    assert "search_database" not in none


def test_long_schemas_are_told_by_their_names() -> None:
    properties = {f"argument_{n}": {"type": "string", "description": "x" * 100} for n in range(60)}
    function = {"name": "big", "description": "Big.", "parameters": {"type": "object", "properties": properties}}
    text = instructions([{"function": function}], "auto", 3)
    assert "Action Input: an object with argument_0, argument_1" in text
    assert len(text) < 4_000


def test_results_are_told_as_observations() -> None:
    def replies(*words: str) -> ToolReplies:
        return ToolReplies(replies=tuple(ToolReply(id=each, name=f"t{each}", text=each) for each in words))

    assert told(replies("a"), most=3) == User(text="Observation: a")
    assert told(replies("a", "b"), most=3) == User(text="Observation (ta): a\nObservation (tb): b")
    assert told(replies("a", "b", "c"), most=2).text.endswith(
        "c\n\nNote: 3 calls in one turn; at most 2 run at the same time, so these waited: tc."
    )


def test_a_conversation_with_calls_reads_as_text() -> None:
    calls = (ToolCall(id="1", name="list_tables"), ToolCall(id="2", name="search_database", arguments={"query": "x"}))
    conversation = as_text(
        [
            User(text="Do it."),
            Assistant(text="Let me look.", calls=calls),
            ToolReplies(replies=(ToolReply(id="1", name="list_tables", text="users"),)),
            Assistant(text="Thought: hm", calls=(ToolCall(id="3", name=NO_ACTION, fault="there is no Action"),)),
            Assistant(text="Action: list_tables", calls=calls[:1]),
            Assistant(text="Done."),
        ]
    )
    assert [each.text for each in conversation if isinstance(each, User | Assistant)] == [
        "Do it.",
        'Let me look.\nAction: list_tables\nAction Input: {}\nAction: search_database\nAction Input: {"query": "x"}',
        "Observation: users",
        "Thought: hm",
        "Action: list_tables",
        "Done.",
    ]
    assert not any(each.calls for each in conversation if isinstance(each, Assistant))


def test_a_history_in_text_begins_with_the_task() -> None:
    history = [
        Action(tool_name="list_tables"),
        Observation(tool_name="list_tables", content="users"),
        Action(tool_name=NO_ACTION, fault="there is no Action", written="Thought: hm"),
    ]
    told = [each.text for each in history_as_text("Do it.", history) if isinstance(each, User | Assistant)]
    assert told == ["Do it.", "Action: list_tables\nAction Input: {}", "Observation: users", "Thought: hm"]
