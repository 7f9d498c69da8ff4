"""The stand-ins speak the wire formats that the real SDKs expect, and misbehave as they are told."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import Message, RawMessageStreamEvent
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response
from pydantic import TypeAdapter

from callgate_bench.model.stand_in import (
    AnthropicMessages,
    Call,
    OpenAIChat,
    OpenAIResponses,
    Script,
    Turn,
    serving,
)
from callgate_bench.model.stand_in.faults import Faulty, dribbling, hanging_up, refusing, saying
from callgate_bench.model.stand_in.server import KEY

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CLOSED = {**SCHEMA, "additionalProperties": False}
SEEN: list[Turn] = []


def _asks(turn: Turn) -> list[str | Call]:
    SEEN.append(turn)
    return ["let me look", Call("weather", {"city": "Rome"}), Call("weather", {"city": "Oslo"})]


def _tells(turn: Turn) -> str:
    SEEN.append(turn)
    return " and ".join(answer.text for answer in turn.answers)


SCRIPT = Script(_asks, _tells)
HEADERS = {"x-api-key": KEY, "anthropic-version": "2023-06-01", "authorization": f"Bearer {KEY}"}
USER = {"role": "user", "content": "hi"}


def test_anthropics_sdk_holds_a_conversation_with_it() -> None:
    SEEN.clear()
    api = AnthropicMessages(SCRIPT)
    tools: Any = [{"name": "weather", "description": "The weather.", "input_schema": SCHEMA}]
    messages: list[Any] = [{"role": "user", "content": "Where is it warmer?"}]
    with serving(api) as url, anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client:
        first = client.messages.create(model="a", max_tokens=100, messages=messages, tools=tools)
        calls = [block for block in first.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": f"{c.input['city']}: 20"} for c in calls]
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": results[::-1]}]
        second = client.messages.create(model="a", max_tokens=100, messages=messages, tools=tools)
    assert (first.stop_reason, second.stop_reason) == ("tool_use", "end_turn")
    assert second.content[0].type == "text"
    assert second.content[0].text == "Rome: 20 and Oslo: 20", "results belong to their calls, whatever their order"
    assert SEEN[0].user == SEEN[1].user == "Where is it warmer?"
    assert SEEN[0].tools == {"weather": SCHEMA}
    assert second.usage.input_tokens > first.usage.input_tokens > 0
    for message in (first, second):
        Message.model_validate(message.model_dump(), strict=True)


def test_what_anthropics_sdk_streams_adds_up_to_the_message() -> None:
    sent: list[str] = []
    api = AnthropicMessages(SCRIPT, before_piece=sent.append)
    tools: Any = [{"name": "weather", "input_schema": SCHEMA}]
    messages: list[Any] = [USER]
    with (
        serving(api) as url,
        anthropic.Anthropic(base_url=url, api_key=KEY, max_retries=0) as client,
        client.messages.stream(model="a", max_tokens=9, messages=messages, tools=tools) as stream,
    ):
        kinds = {event.type for event in stream}
        message = stream.get_final_message()
    assert {"message_start", "content_block_delta", "input_json", "message_stop"} <= kinds
    assert [block.input for block in message.content if block.type == "tool_use"] == [
        {"city": "Rome"},
        {"city": "Oslo"},
    ]
    assert message.stop_reason == "tool_use"
    assert json.dumps({"city": "Rome"}).startswith(sent[0])
    wire = AnthropicMessages(SCRIPT)
    body = {"model": "a", "max_tokens": 9, "messages": [USER], "tools": tools, "stream": True}
    for event in wire.reply(HEADERS, body):
        if isinstance(event, dict) and event["type"] != "ping":
            TypeAdapter(RawMessageStreamEvent).validate_python(event)


def test_openais_sdk_holds_a_chat_with_it() -> None:
    SEEN.clear()
    function = {"name": "weather", "parameters": CLOSED, "strict": True}
    tools: Any = [{"type": "function", "function": function}]
    messages: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Where?"}]
    api = OpenAIChat(SCRIPT)
    with serving(api) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        first = client.chat.completions.create(model="o", messages=messages, tools=tools)
        said = first.choices[0].message
        messages.append(said)
        for call in said.tool_calls or []:
            assert call.type == "function"
            city = json.loads(call.function.arguments)["city"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"{city}: 20"})
        second = client.chat.completions.create(model="o", messages=messages, tools=tools)
    assert (first.choices[0].finish_reason, second.choices[0].finish_reason) == ("tool_calls", "stop")
    assert second.choices[0].message.content == "Rome: 20 and Oslo: 20"
    assert SEEN[1].user == "Where?"
    for completion in (first, second):
        ChatCompletion.model_validate(completion.model_dump(), strict=True)


def test_what_openais_sdk_streams_adds_up_to_the_completion() -> None:
    SEEN.clear()
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
    api = OpenAIChat(SCRIPT)
    asked: Any = {"model": "o", "messages": [{"role": "user", "content": "Where?"}], "tools": tools}
    with serving(api) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
            chunks = [event.chunk for event in stream if event.type == "chunk"]
            streamed = stream.get_final_completion()
        bare = list(client.chat.completions.create(**asked, stream=True))
        whole = client.chat.completions.create(**asked)
    for chunk in chunks:
        ChatCompletionChunk.model_validate(chunk.model_dump(), strict=True)
    said, known = streamed.choices[0], whole.choices[0]
    assert (said.finish_reason, said.message.content) == (known.finish_reason, known.message.content)
    arguments = [call.function.arguments for call in said.message.tool_calls or []]
    assert [json.loads(each) for each in arguments] == [{"city": "Rome"}, {"city": "Oslo"}]
    assert streamed.usage == whole.usage
    assert len(chunks) > 5
    assert all(chunk.usage is None for chunk in bare)


@pytest.mark.parametrize("stored", [True, False])
def test_openais_sdk_gets_responses_from_it(stored: bool) -> None:
    SEEN.clear()
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    asked: list[Any] = [{"role": "user", "content": "Where?"}]
    api = OpenAIResponses(SCRIPT)
    with serving(api) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        first = client.responses.create(model="o", input=asked, tools=tools)
        calls = [item for item in first.output if item.type == "function_call"]
        results: list[Any] = [
            {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": f"{json.loads(call.arguments)['city']}: 20",
            }
            for call in calls
        ]
        if stored:
            second = client.responses.create(model="o", input=results, tools=tools, previous_response_id=first.id)
        else:
            whole: Any = [*asked, *[item.model_dump(exclude_none=True) for item in first.output], *results]
            second = client.responses.create(model="o", input=whole, tools=tools)
    assert second.output_text == "Rome: 20 and Oslo: 20"
    assert [turn.number for turn in SEEN] == [0, 1]
    for response in (first, second):
        Response.model_validate(response.model_dump(), strict=True)


def test_a_wrong_key_is_what_the_sdks_call_it() -> None:
    with (
        serving(AnthropicMessages(SCRIPT)) as url,
        anthropic.Anthropic(base_url=url, api_key="no") as client,
        pytest.raises(anthropic.AuthenticationError, match="invalid x-api-key"),
    ):
        client.messages.create(model="a", max_tokens=9, messages=[{"role": "user", "content": "hi"}])
    with (
        serving(OpenAIChat(SCRIPT)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key="no") as other,
        pytest.raises(openai.AuthenticationError, match="Incorrect API key"),
    ):
        other.chat.completions.create(model="o", messages=[{"role": "user", "content": "hi"}])


def test_another_address_is_not_found() -> None:
    with (
        serving(OpenAIChat(SCRIPT)) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key=KEY) as client,
        pytest.raises(openai.NotFoundError, match="POST /v1/responses"),
    ):
        client.responses.create(model="o", input="hi")


def test_what_fails_in_the_script_is_raised() -> None:
    def wrong(turn: Turn) -> str:
        raise AssertionError("what the tool said is not what was expected")

    with (
        pytest.raises(AssertionError, match="not what was expected"),
        serving(OpenAIChat(Script(wrong))) as url,
        openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client,
    ):
        client.chat.completions.create(model="o", messages=[{"role": "user", "content": "hi"}])


def test_each_request_meets_the_next_fault_and_then_all_is_well() -> None:
    api = Faulty(OpenAIChat(Script(lambda turn: "well")), refusing(503), hanging_up(), saying(b"no JSON"))
    asked: Any = {"model": "o", "messages": [{"role": "user", "content": "hi"}]}
    with serving(api) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        with pytest.raises(openai.InternalServerError):
            client.chat.completions.create(**asked)
        with pytest.raises(openai.APIConnectionError):
            client.chat.completions.create(**asked)
        assert client.chat.completions.create(**asked) == "no JSON"
        assert client.chat.completions.create(**asked).choices[0].message.content == "well"
    assert len(api.bodies) == 4


def test_a_client_may_leave_in_the_middle_of_a_stream() -> None:
    released = threading.Event()
    api = Faulty(OpenAIChat(Script(lambda turn: "a" * 1000)), dribbling(2, released, every_seconds=0.001))
    asked: Any = {"model": "o", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    with serving(api) as url, openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        with client.chat.completions.create(**asked) as stream:
            next(stream)
        released.set()
        assert client.chat.completions.create(model="o", messages=asked["messages"]).choices


@pytest.mark.parametrize("sent", [b"", b'{"model": '])
def test_a_client_may_leave_in_the_middle_of_a_request(sent: bytes) -> None:
    api = OpenAIChat(Script(lambda turn: "well"))
    with serving(api) as url, socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
        client.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 100\r\n\r\n" + sent)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b""
