"""How a model is told to call tools in words, and how a conversation reads then."""

from __future__ import annotations

from callgate.agent.models.model import Assistant, ToolCall, ToolReplies, ToolReply, User
from callgate.agent.react.actions import Action, Observation
from callgate.agent.react.text_calls import NO_ACTION
from callgate.agent.react.text_form import as_text, history_as_text, instructions, results_as_text

STRING = {"type": "string"}

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

    assert results_as_text(replies("a"), most=3) == User(text="Observation: a")
    assert results_as_text(replies("a", "b"), most=3) == User(text="Observation (ta): a\nObservation (tb): b")
    assert results_as_text(replies("a", "b", "c"), most=2).text.endswith(
        "c\n\nNote: 3 calls in one turn; at most 2 run at the same time, so these waited: tc."
    )


def test_a_conversation_with_calls_reads_as_text() -> None:
    calls = (ToolCall(id="1", name="list_tables"), ToolCall(id="2", name="search_database", arguments={"query": "x"}))
    conversation = as_text(
        [
            User(text="Do it."),
            Assistant(text="The next action: let me look.", calls=calls),
            ToolReplies(replies=(ToolReply(id="1", name="list_tables", text="users"),)),
            Assistant(text="Thought: hm", calls=(ToolCall(id="3", name=NO_ACTION, fault="there is no Action"),)),
            Assistant(text="Action: list_tables", calls=calls[:1]),
            Assistant(text="Done."),
        ]
    )
    assert [each.text for each in conversation if isinstance(each, User | Assistant)] == [
        "Do it.",
        "The next action: let me look.\nAction: list_tables\nAction Input: {}\n"
        'Action: search_database\nAction Input: {"query": "x"}',
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
