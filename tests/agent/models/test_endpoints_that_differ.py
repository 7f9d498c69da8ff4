"""Endpoints that speak a provider's protocol, and differ: what they do not take, and what they want back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agent.models.wires import WIRES, answered, asks, request, says, talking, tells, tools, written_and_read
from callgate.agent.models.forms import named_in
from callgate.agent.models.model import Message, ModelProvider, Request, Usage, User
from callgate.agent.models.openai_model import OpenAIModel
from callgate.errors import ModelRejected
from callgate_bench.model.stand_in.faults import Fault, edited, refusing, well
from callgate_bench.model.stand_in.server import KEY, Answered, HangUp

pytestmark = pytest.mark.anyio

Event = dict[str, Any]
NO_TEMPERATURE = "Unsupported value: 'temperature' does not support 0.3 with this model."
FIELDS = ("temperature", "parallel_tool_calls", "stream_options", "max_completion_tokens", "max_tokens")


@pytest.mark.parametrize("words", [NO_TEMPERATURE, "`temperature` is deprecated for this model."])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_that_takes_no_temperature_is_asked_without(
    wire: ModelProvider, streamed: bool, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking(wire, says("here"), faults=(refusing(400, words),)) as talk:
        for attempts in (2, 1):
            reply = await talk.model.ask(request(temperature=0.3), on_delta=talk.told.append if streamed else None)
            assert (reply.turn.text, reply.attempts) == ("here", attempts)
        assert ["temperature" in body for body in talk.bodies] == [True, False, False]
    assert caplog.messages == ["the model m does not take temperature: it is asked without it, or otherwise"]


@pytest.mark.parametrize(
    ("words", "sent"),
    [
        ("Unrecognized request argument supplied: stream_options", "stream_options"),
        ("Unsupported parameter: 'parallel_tool_calls' is not supported with this model.", "parallel_tool_calls"),
    ],
)
async def test_a_gateway_that_knows_a_field_not_is_asked_without(words: str, sent: str) -> None:
    async with talking("openai", asks, faults=(refusing(422, words),)) as talk:
        given = request(tools=tools("openai", "weather"), parallel=True)
        reply = await talk.model.ask(given, on_delta=talk.told.append)
        assert len(reply.turn.calls) == 2
        assert [sent in body for body in talk.bodies] == [True, False]


async def test_the_limit_of_the_output_goes_by_the_name_that_the_model_takes() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    for first, other in (("max_tokens", "max_completion_tokens"), ("max_completion_tokens", "max_tokens")):
        refused = refusing(400, words if first == "max_tokens" else f"Unknown field {first}")
        async with talking("openai", says("a"), faults=(refused,), limit_field=first) as talk:
            await talk.model.ask(request(max_output_tokens=77))
            assert [body.get(first) for body in talk.bodies] == [77, None]
            assert talk.bodies[1][other] == 77


async def test_a_model_that_cannot_write_as_much_as_most_is_asked_for_less() -> None:
    refused = refusing(400, "max_tokens: 16000 > 4096, which is the maximum allowed number of output tokens for m")
    async with talking("anthropic", says("here"), faults=(refused,)) as talk:
        for limit in (None, None, 300):
            assert (await talk.model.ask(request(max_output_tokens=limit))).turn.text == "here"
        assert [body["max_tokens"] for body in talk.bodies] == [16_384, 4096, 4096, 300]
    async with talking("anthropic", says("never"), faults=(refused,)) as talk:
        with pytest.raises(ModelRejected, match="16000 > 4096"):
            await talk.model.ask(request(max_output_tokens=20_000))  # the caller's own


async def test_several_fields_are_left_out_and_a_request_that_is_wrong_stays_rejected() -> None:
    faults = (refusing(400, NO_TEMPERATURE), refusing(400, "stream_options: extra fields not permitted"))
    async with talking("openai", says("here"), faults=faults) as talk:
        assert (await talk.model.ask(request(temperature=0.3), on_delta=talk.told.append)).turn.text == "here"
        assert len(talk.bodies) == 3
    always = refusing(400, "max_tokens and max_completion_tokens are both unknown here, and temperature is")
    async with talking("openai", faults=(always,), for_ever=True) as talk:
        with pytest.raises(ModelRejected, match="both unknown"):
            await talk.model.ask(request(temperature=0.3, max_output_tokens=5))
        assert len(talk.bodies) <= 4
        assert talk.model._refused == set()


async def test_a_field_of_ones_own_is_not_left_out() -> None:
    refused = refusing(400, NO_TEMPERATURE)
    async with talking("openai", faults=(refused,), for_ever=True, extra={"temperature": 0.3}) as talk:
        with pytest.raises(ModelRejected, match="temperature"):
            await talk.model.ask(request())
        assert len(talk.bodies) == 1


@pytest.mark.parametrize(
    ("error", "field"),
    [
        ({"param": "temperature", "code": "unsupported_value", "message": "no"}, "temperature"),
        ({"error": {"param": "max_tokens", "code": "unsupported_parameter"}}, "max_tokens"),
        ({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"]}]}, "stream_options"),
        ("UnsupportedParamsError: gpt-5 models don't support temperature=0.3.", "temperature"),
        ({"param": "max_tokens", "code": "invalid_value", "message": "max_tokens is too large"}, ""),
        ({"param": "temperature", "code": "decimal_above_max_value", "message": "temperature"}, ""),
        ({"param": "tools[0].function.parameters", "message": "temperature has no type"}, ""),
        ({"message": "my_temperature and temperatures"}, ""),
        (None, ""),
        (7, ""),
    ],
)
async def test_the_field_that_an_error_names_is_found(error: Any, field: str) -> None:
    assert named_in(error, FIELDS) == field


@pytest.mark.parametrize("ended", ["hanging up", "dribbling"])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_reply_is_whole_at_its_last_word_whatever_becomes_of_the_connection(
    wire: ModelProvider, ended: str
) -> None:
    async with talking(wire, asks, faults=(_after_the_end(ended),)) as talk:
        reply = await talk.model.ask(request(tools=tools(wire, "weather")), on_delta=talk.told.append)
        assert [call.arguments for call in reply.turn.calls] == [{"city": "Rome"}, {"city": "Oslo"}]
        assert (len(talk.bodies), reply.attempts, reply.usage.estimated) == (1, 1, False)
        again = await talk.model.ask(request(tools=tools(wire, "weather")), on_delta=talk.told.append)
        assert [call.arguments for call in again.turn.calls] == [{"city": "Rome"}, {"city": "Oslo"}]


async def test_usage_that_does_not_come_is_not_waited_for_long() -> None:
    uncounted = _after_the_end("hanging up", usage=False)
    async with talking("openai", says("here"), faults=(uncounted,)) as talk:
        reply = await talk.model.ask(request(), on_delta=talk.told.append)
        assert (reply.turn.text, reply.usage.estimated, len(talk.bodies)) == ("here", True, 1)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_connection_serves_streams_one_after_the_other(wire: ModelProvider) -> None:
    async with talking(wire, says("here")) as talk:
        used = []
        for _ in range(3):
            await talk.model.ask(request(), on_delta=talk.told.append)
            used += talk.client._client._transport._pool.connections
        assert len(used) == 3
        assert len(set(map(id, used))) == 1


@pytest.mark.parametrize("id", ["", None])
async def test_whole_calls_with_one_number_and_no_id_are_calls_of_their_own(id: str | None) -> None:
    """As Gemini streams them by OpenAI's protocol; its arguments come at once."""

    def piece(name: str | None, arguments: str) -> Event:
        return {"index": 0, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}

    given = [
        [piece("weather", '{"city": "Rome"}'), piece("weather", '{"city": "Oslo"}')], [piece("height", "{}")],
        [piece("weather", ""), piece("weather", '{"ci'), piece(None, 'ty": "Bari"}')],
    ]  # fmt: skip
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events: list[Event | str] = [
        {**head, "choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]} for calls in given
    ]
    events += [{**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, "[DONE]"]
    async with talking("openai", faults=(lambda answer: iter(events),)) as talk:
        reply = await talk.model.ask(request(tools=tools("openai", "weather", "height")), on_delta=talk.told.append)
    assert [(call.name, call.arguments, call.fault) for call in reply.turn.calls] == [
        ("weather", {"city": "Rome"}, ""),
        ("weather", {"city": "Oslo"}, ""),
        ("height", {}, ""),
        ("weather", {"city": "Bari"}, ""),
    ]


async def test_what_the_total_alone_counts_was_made() -> None:
    def thinking(answer: Event) -> Event:
        return answer | {"usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 115}}

    async with talking("openai", says("abcd"), faults=(edited(thinking),)) as talk:
        assert (await talk.model.ask(request())).usage == Usage(input_tokens=10, output_tokens=105)


@pytest.mark.parametrize(
    ("counts", "found"),
    [({"completion_tokens": 7}, (True, 7)), ({"prompt_tokens": 99}, (False, 1)), ({"prompt_tokens": 0}, (True, 1))],
)
async def test_what_is_counted_in_part_is_estimated_for_the_rest(counts: Event, found: tuple[bool, int]) -> None:
    async with talking("openai", says("abcd"), faults=(edited(lambda answer: answer | {"usage": counts}),)) as talk:
        usage = (await talk.model.ask(request())).usage
        assert usage.estimated
        assert (usage.input_tokens != 99, usage.output_tokens) == found
        assert usage.input_tokens > 10


async def test_a_count_that_falls_at_the_end_of_a_stream_is_not_believed() -> None:
    def forgets(event: Event) -> Event:
        forgetful = event.get("type") == "message_delta"
        return {**event, "usage": {**event["usage"], "input_tokens": 0}} if forgetful else event

    async with talking("anthropic", says("abcd"), faults=(edited(forgets),)) as talk:
        assert (await talk.model.ask(request(), on_delta=talk.told.append)).usage.input_tokens > 3


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_a_model_thought_before_its_calls_goes_back_to_it(streamed: bool) -> None:
    def thoughtful(event: Event) -> Event:
        for choice in event.get("choices", ()):
            said = choice.get("message") or choice["delta"]
            if calls := said.get("tool_calls"):
                for call in calls:
                    if call.get("id"):
                        call["extra_content"] = {"google": {"thought_signature": call["id"]}}
                said["reasoning_content"] = "Hm. "
        return event

    async with talking("openai", asks, tells, tells, faults=(edited(thoughtful),)) as talk:
        on_delta = talk.told.append if streamed else None
        messages: list[Message] = [User(text="Where?")]
        given = tools("openai", "weather")
        reply = await talk.model.ask(Request(messages=messages, tools=given), on_delta=on_delta)
        kept = written_and_read(reply)
        messages += [kept.turn, answered(reply.turn)]
        await talk.model.ask(Request(messages=messages, tools=given), on_delta=on_delta)
        sent = talk.bodies[1]["messages"][1]
        assert set(sent["reasoning_content"].split()) == {"Hm."}
        assert [call["extra_content"]["google"]["thought_signature"] for call in sent["tool_calls"]] == [
            call.id for call in reply.turn.calls
        ]
        other = OpenAIModel("another", base_url=str(talk.client.base_url), api_key=KEY)
        await other.ask(Request(messages=messages, tools=given))
        await other.aclose()
        assert "reasoning_content" not in talk.bodies[2]["messages"][1]
        assert "extra_content" not in talk.bodies[2]["messages"][1]["tool_calls"][0]


async def test_an_endpoint_that_does_not_take_its_thoughts_back_is_asked_without() -> None:
    def thoughtful(answer: Event) -> Event:
        answer["choices"][0]["message"]["reasoning_content"] = "Hm."
        return answer

    refused = refusing(400, "'messages.1' : property 'reasoning_content' is unsupported")
    async with talking("openai", asks, tells, faults=(edited(thoughtful), refused, well)) as talk:
        reply = await talk.model.ask(request(tools=tools("openai", "weather")))
        messages: list[Message] = [User(text="Where?"), reply.turn, answered(reply.turn)]
        assert (await talk.model.ask(Request(messages=messages, tools=tools("openai", "weather")))).ended == "answered"
        assert ["reasoning_content" in body["messages"][1] for body in talk.bodies[1:]] == [True, False]


@pytest.mark.parametrize("wire", WIRES)
async def test_an_endpoint_that_does_not_stream_is_asked_for_whole_replies(wire: ModelProvider) -> None:
    said: Event = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": None}
    said["choices"] = [{"index": 0, "message": {"role": "assistant", "content": "here"}, "finish_reason": "stop"}]
    if wire == "anthropic":
        said = {"id": "c", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn"}
        said |= {"content": [{"type": "text", "text": "here"}], "usage": {"input_tokens": 1, "output_tokens": 1}}
    async with talking(wire, faults=(lambda answer: said,), for_ever=True) as talk:
        for attempts in (2, 1):
            reply = await talk.model.ask(request(), on_delta=talk.told.append)
            assert (reply.turn.text, reply.attempts) == ("here", attempts)
        assert [body.get("stream", False) for body in talk.bodies] == [True, False, False]
        assert talk.said == "herehere"


async def test_a_reply_may_lack_what_says_nothing() -> None:
    call = {"function": {"name": "weather", "arguments": "{}"}}
    said: Event = {"choices": [{"message": {"content": "here", "tool_calls": [call, {"id": "x", "function": None}]}}]}
    async with talking("openai", faults=(lambda answer: said,)) as talk:
        turn = (await talk.model.ask(request(tools=tools("openai", "weather")))).turn
    assert turn.text == "here"
    assert [(call.name, call.fault) for call in turn.calls] == [("weather", ""), ("", "the call names no tool")]


def _after_the_end(ended: str, *, usage: bool = True) -> Fault:
    """The stream is whole but for its end: no [DONE], and the connection breaks, or stays open."""

    def fault(answer: Callable[[], Answered]) -> Answered:
        events = answer()
        assert not isinstance(events, dict | bytes)
        return _all_but_the_end(events, ended, usage=usage)

    return fault


def _all_but_the_end(events: Iterator[Event | str], ended: str, *, usage: bool) -> Iterator[Event | str]:
    for event in events:
        if not isinstance(event, str) and (usage or event.get("choices")):
            yield event
    never = threading.Event()
    while ended == "dribbling" and not never.wait(0.01):
        yield ""
    raise HangUp
