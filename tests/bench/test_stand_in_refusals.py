"""The stand-ins refuse what the services refuse, and hold their scripts to what a model can do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from callgate_bench.model.stand_in import (
    AnthropicMessages,
    Call,
    OpenAIChat,
    OpenAIResponses,
    Refusal,
    Script,
    Turn,
)
from callgate_bench.model.stand_in.checks import Refused
from callgate_bench.model.stand_in.server import KEY

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**SCHEMA, "additionalProperties": False}
SEEN: list[Turn] = []


def _asks(turn: Turn) -> list[str | Call]:
    return ["let me look", Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"})]


def _tells(turn: Turn) -> str:
    return " and ".join(answer.text for answer in turn.answers)


SCRIPT = Script(_asks, _tells)
HEADERS = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "authorization": f"Bearer {KEY}"}
USER = {"role": "user", "content": "hi"}


CALLED = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "weather", "input": {}}]}
RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "20"}]}
LATE = {"role": "user", "content": [{"type": "text", "text": "well?"}, *RESULT["content"]]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"mesages": []}, "body.mesages: Extra inputs"),
        ({"context_management": {}}, "context_management: Extra inputs"),  # without the header of its beta
        ({"messages": [{"role": "assistant", "content": "hi"}]}, "first message must use the user role"),
        ({"messages": [USER, CALLED, USER]}, "calls without results after them"),
        ({"messages": [USER, CALLED, LATE]}, "calls without results after them"),
        ({"messages": [USER, RESULT]}, "a result without its call"),
        ({"messages": [USER, CALLED, RESULT, {"role": "assistant", "content": "so"}]}, "prefill"),
        ({"messages": [{"role": "user", "content": ""}]}, "must be non-empty"),
        ({"tools": [{"name": "a.b", "input_schema": SCHEMA}]}, r"should match pattern"),
        ({"tools": [{"name": "a", "input_schema": SCHEMA}] * 2}, "must be unique"),
        ({"tools": [{"name": "a", "input_schema": {"type": "array"}}]}, "must be a JSON Schema of"),
        ({"tools": [{"name": "a", "input_schema": {"type": "object", "properties": {"x": 1}}}]}, "schema is invalid"),
        ({"tools": [{"name": "a", "input_schema": {**SCHEMA, "anyOf": [{}]}}]}, "does not support anyOf"),
        ({"tools": [{"name": "a", "input_schema": SCHEMA, "inputSchema": {}}]}, "inputSchema: Extra inputs"),
        ({"tools": [{"name": "a", "input_schema": SCHEMA, "strict": True}]}, "additionalProperties"),
        ({"tools": [{"name": "a", "input_schema": SCHEMA, "input_examples": [{"city": 1}]}]}, "does not fit"),
        ({"tools": [{"name": "a", "input_schema": SCHEMA, "defer_loading": True}]}, "defer_loading=false"),
        ({"tool_choice": {"type": "any"}}, "while providing tools"),
        ({"tool_choice": {"type": "required"}}, "does not match any of the expected tags"),
        ({"tool_choice": {"type": "none", "disable_parallel_tool_use": True}}, "Extra inputs"),
    ],
)
def test_anthropics_refusals(body: dict[str, Any], words: str) -> None:
    whole = {"model": "a", "max_tokens": 9, "messages": [USER], **body}
    with pytest.raises(Refused, match=words):
        AnthropicMessages(SCRIPT).reply(HEADERS, whole)


LATER = [{"name": "a", "input_schema": SCHEMA}, {"name": "b", "input_schema": SCHEMA, "defer_loading": True}]


REFERENCE = {"type": "tool_reference", "tool_name": "b"}
FOUND = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": [REFERENCE]}]}
ADDITION = {"role": "system", "content": [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "b"}}]}


@pytest.mark.parametrize("messages", [[USER, CALLED, FOUND], [USER, ADDITION]])
def test_a_deferred_tool_is_visible_once_a_result_or_a_system_message_names_it(messages: list[Any]) -> None:
    def look(turn: Turn) -> str:
        return f"I see {sorted(turn.tools)}"

    def asked(tools: list[Any], messages: list[Any]) -> str:
        body = {"model": "a", "max_tokens": 9, "tools": tools, "messages": messages}
        return str(AnthropicMessages(Script(look, look)).reply(HEADERS, body))

    assert "I see ['a']" in asked(LATER, [USER])
    assert "I see ['a', 'b']" in asked(LATER, messages)
    with pytest.raises(Refused, match="Tool reference 'b' not found"):
        asked(LATER[:1], messages)


def test_a_script_has_to_give_the_output_that_was_asked_for() -> None:
    body = {"model": "a", "max_tokens": 9, "messages": [USER]}
    body["output_config"] = {"format": {"type": "json_schema", "schema": CLOSED}}
    AnthropicMessages(Script(lambda turn: '{"city": "Rome"}')).reply(HEADERS, body)
    with pytest.raises(ValueError, match="town"):
        AnthropicMessages(Script(lambda turn: '{"city": "Rome", "town": 1}')).reply(HEADERS, body)
    named = {"name": "answer", "schema": CLOSED, "strict": True}
    chat = {"model": "o", "messages": [USER], "response_format": {"type": "json_schema", "json_schema": named}}
    OpenAIChat(Script(lambda turn: '{"city": "Rome"}')).reply(HEADERS, chat)
    with pytest.raises(ValueError, match="town"):
        OpenAIChat(Script(lambda turn: '{"city": "Rome", "town": 1}')).reply(HEADERS, chat)


ASKED = {
    "role": "assistant",
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
}
TOLD = {"role": "tool", "tool_call_id": "c1", "content": "20"}
NULLABLE = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"messages": [USER, ASKED, USER]}, "calls without results after them"),
        ({"messages": [USER, ASKED]}, "calls without results after them"),
        ({"messages": [USER, TOLD]}, "a result without its call"),
        ({"messages": [{"role": "function", "content": ""}]}, "Invalid value: 'function'"),
        ({"tools": [{"type": "function", "function": {"name": "a" * 65}}]}, "should match pattern"),
        ({"tools": [{"type": "function", "name": "a"}]}, "Extra inputs"),
        (
            {"tools": [{"type": "function", "function": {"name": "a", "parameters": SCHEMA, "strict": True}}]},
            "'additionalProperties' is required",
        ),
        (
            {
                "tools": [
                    {
                        "type": "function",
                        "function": {
                            "name": "a",
                            "parameters": {**NULLABLE, "additionalProperties": False},
                            "strict": True,
                        },
                    }
                ]
            },
            r"properties\.a: 'additionalProperties'",
        ),
        ({"tool_choice": "required"}, "only allowed when 'tools'"),
        ({"tool_choice": {"type": "function", "function": {"name": "a"}}}, "not found in 'tools'"),
        ({"tool_choice": "any"}, "Invalid value: 'any'"),
        ({"parallel_tool_calls": False}, "only allowed when 'tools'"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream' is enabled"),
        ({"response_format": {"type": "json_object"}}, "knows text and json_schema"),
        ({"response_format": {"type": "json_schema"}}, "json_schema: Field required"),
    ],
)
def test_openais_refusals_of_a_chat(body: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        OpenAIChat(SCRIPT).reply(HEADERS, {"model": "o", "messages": [USER], **body})


FUNCTION_CALL = {"type": "function_call", "call_id": "c1", "name": "weather", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "20"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"input": [USER, FUNCTION_CALL]}, "calls without results after them"),
        ({"input": [USER, OUTPUT]}, "a result without its call"),
        ({"previous_response_id": "resp_9"}, "'resp_9' not found"),
        ({"tools": [{"type": "function", "name": "a", "parameters": SCHEMA}]}, "Missing required parameter"),
        ({"tools": [{"type": "function", "name": "a", "parameters": SCHEMA, "strict": True}]}, "additionalProperties"),
        ({"tools": [{"type": "function", "function": {"name": "a"}}]}, "Missing required parameter"),
        ({"tool_choice": {"type": "function", "name": "a"}}, "not found in 'tools'"),
    ],
)
def test_openais_refusals_of_a_response(body: dict[str, Any], words: str) -> None:
    with pytest.raises(Refused, match=words):
        OpenAIResponses(SCRIPT).reply(HEADERS, {"model": "o", "input": [USER], **body})


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"type": "none"}, Call("weather", {"city": "Rome"})),
        ({"type": "any"}, "I would rather not"),
        ({"type": "tool", "name": "weather"}, "nor I"),
        ({"type": "auto", "disable_parallel_tool_use": True}, [Call("weather", {"city": x}) for x in ("Rome", "Oslo")]),
        ({"type": "auto"}, Call("wether", {"city": "Rome"})),
        ({"type": "auto"}, Call("weather", {"town": "Rome"})),
    ],
)
def test_a_script_has_to_keep_to_what_a_model_can_do(choice: dict[str, Any], said: Any) -> None:
    tools = [{"name": "weather", "input_schema": CLOSED, "strict": True}]
    body = {"model": "a", "max_tokens": 9, "messages": [USER], "tools": tools, "tool_choice": choice}
    with pytest.raises((AssertionError, ValueError)):
        AnthropicMessages(Script(lambda turn: said)).reply(HEADERS, body)


REFUSES = Script(lambda turn: Refusal("I will not"))


def test_a_model_may_refuse_whatever_it_was_told_to_call() -> None:
    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    body = {"model": "a", "max_tokens": 9, "messages": [USER], "tools": tools, "tool_choice": {"type": "any"}}
    message = AnthropicMessages(REFUSES).reply(HEADERS, body)
    assert isinstance(message, dict)
    read = Message.model_validate(message, strict=True)
    assert (read.stop_reason, [block.text for block in read.content if block.type == "text"]) == (
        "refusal", ["I will not"],
    )  # fmt: skip
    functions: Any = [{"type": "function", "function": {"name": "weather"}}]
    body = {"model": "o", "messages": [USER], "tools": functions, "tool_choice": "required"}
    said = ChatCompletion.model_validate(OpenAIChat(REFUSES).reply(HEADERS, body), strict=True).choices[0].message
    assert (said.content, said.refusal) == (None, "I will not")
    response = Response.model_validate(OpenAIResponses(REFUSES).reply(HEADERS, {"model": "o", "input": [USER]}))
    assert response.output[0].model_dump()["content"] == [{"type": "refusal", "refusal": "I will not"}]


def test_tokens_are_counted_as_one_wants_them() -> None:
    tools = [{"name": "weather", "input_schema": SCHEMA}]
    request = [USER, CALLED, RESULT]
    body = {"model": "a", "max_tokens": 9, "messages": request, "tools": tools, "system": "Be brief."}
    script = Script(_tells, _tells)
    message = AnthropicMessages(script, count=len).reply(HEADERS, body)
    assert isinstance(message, dict)
    texts = [json.dumps(tools, separators=(",", ":")), "Be brief.", "hi", "weather", "{}", "20"]
    assert (message["usage"]["input_tokens"], message["usage"]["output_tokens"]) == (sum(map(len, texts)), len("20"))
    spoken = [USER, ASKED, TOLD]
    completion = OpenAIChat(script, count=len).reply(HEADERS, {"model": "o", "messages": spoken})
    assert isinstance(completion, dict)
    assert completion["usage"]["prompt_tokens"] == len("hi" + "weather" + "{}" + "20")
    given = [{"type": "message", **USER}, FUNCTION_CALL, {**OUTPUT, "output": "20"}]
    response = OpenAIResponses(script, count=len).reply(HEADERS, {"model": "o", "input": given, "instructions": "Go."})
    assert isinstance(response, dict)
    assert response["usage"]["input_tokens"] == len("Go." + "hi" + "weather" + "{}" + "20")


def test_input_beyond_the_context_is_refused_and_the_script_is_not_asked() -> None:
    body = {"model": "a", "max_tokens": 9, "messages": [USER]}
    for api in (
        AnthropicMessages(Script(), count=len, context_tokens=1),
        OpenAIChat(Script(), count=len, context_tokens=1),
    ):
        api_body = body if isinstance(api, AnthropicMessages) else {"model": "o", "messages": [USER]}
        with pytest.raises(Refused, match="2 tokens"):
            api.reply(HEADERS, api_body)
