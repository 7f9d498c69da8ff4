"""The models behind the official SDKs: what goes over the wire, and what comes back, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from agent.models.wires import SCHEMA, WIRES, answered, asks, request, says, talking, tells, tools
from callgate.agent.models.model import (
    Assistant,
    Message,
    ModelProvider,
    Request,
    ToolCall,
    ToolReplies,
    ToolReply,
    Usage,
    User,
)
from callgate.errors import ContextExceeded
from callgate_bench.model.stand_in import Call, Refusal
from callgate_bench.model.stand_in.checks import Turn
from callgate_bench.model.stand_in.faults import edited, refusing

pytestmark = pytest.mark.anyio

CLOSED = {**SCHEMA, "additionalProperties": False}
OPEN = {"type": "object", "properties": {"parameters": {"type": "object"}}}


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_with_parallel_calls_is_held(wire: ModelProvider, streamed: bool) -> None:
    async with talking(wire, asks, tells) as talk:
        on_delta = talk.told.append if streamed else None
        messages: list[Message] = [User(text="Where is it warmer?")]
        first = await talk.model.ask(
            Request(messages=messages, system="Be brief.", tools=tools(wire, "weather")), on_delta=on_delta
        )
        assert (first.ended, first.turn.text) == ("calls", "I am looking at the weather of both.")
        assert [(call.name, call.arguments) for call in first.turn.calls] == [
            ("weather", {"city": "Rome"}),
            ("weather", {"city": "Oslo"}),
        ]
        assert first.model == "m"
        assert first.attempts == 1
        assert first.usage.input_tokens > 10
        assert first.usage.output_tokens > 5
        if streamed:
            assert talk.said == first.turn.text
            assert len(talk.told) >= 6
            pieces = {call: "".join(each.arguments for each in talk.told if each.call == call) for call in (0, 1)}
            assert {call: json.loads(text) for call, text in pieces.items()} == {
                0: {"city": "Rome"},
                1: {"city": "Oslo"},
            }
            assert [each.name for each in talk.told if each.name] == ["weather", "weather"]
            talk.told.clear()
        messages += [first.turn, answered(first.turn)]
        second = await talk.model.ask(Request(messages=messages, tools=tools(wire, "weather")), on_delta=on_delta)
        assert (second.ended, second.turn.text) == ("answered", "Rome: 20 and Oslo: 20")
        assert talk.said == ("Rome: 20 and Oslo: 20" if streamed else "")


@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_is_asked_several_things_at_once(wire: ModelProvider) -> None:
    def repeats(turn: Turn) -> str:
        return turn.user

    async with talking(wire, repeats) as talk:
        got: dict[str, str] = {}

        async def ask(word: str) -> None:
            got[word] = (await talk.model.ask(request(word), on_delta=talk.told.append)).turn.text

        async with anyio.create_task_group() as group:
            for word in ("one", "two", "three"):
                group.start_soon(ask, word)
    assert got == {"one": "one", "two": "two", "three": "three"}


@pytest.mark.parametrize(
    ("choice", "openai", "anthropic"),
    [
        ("auto", "auto", {"type": "auto"}),
        ("required", "required", {"type": "any"}),
        ("none", "none", {"type": "none"}),
        (
            "weather",
            {"type": "function", "function": {"name": "weather"}},
            {"type": "tool", "name": "weather"},
        ),
    ],
)
@pytest.mark.parametrize("wire", WIRES)
async def test_the_tool_choice_is_sent(wire: ModelProvider, choice: str, openai: Any, anthropic: Any) -> None:
    def plays(turn: Turn) -> str | Call:
        return "words" if choice in ("auto", "none") else Call("weather", {"city": "Rome"})

    async with talking(wire, plays) as talk:
        reply = await talk.model.ask(request(tools=tools(wire, "weather", "height"), tool_choice=choice))
        assert reply.ended == ("answered" if choice in ("auto", "none") else "calls")
        assert talk.bodies[0].get("tool_choice") == (openai if wire == "openai" else anthropic)


@pytest.mark.parametrize("wire", WIRES)
async def test_parallel_calls_limits_and_temperature_are_sent(wire: ModelProvider) -> None:
    async with talking(wire, says("a")) as talk:
        options: dict[str, Any] = {"max_output_tokens": 77, "temperature": 0.5, "parallel": False}
        await talk.model.ask(request(tools=tools(wire, "weather"), **options))
        body = talk.bodies[0]
        assert (body["max_tokens"], body["temperature"]) == (77, 0.5)
        if wire == "openai":
            assert body["parallel_tool_calls"] is False
        else:
            assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


@pytest.mark.parametrize("wire", WIRES)
async def test_fields_and_headers_of_ones_own_are_sent(wire: ModelProvider) -> None:
    async with talking(wire, says("a"), extra={"top_p": 0.5}, headers={"x-mine": "yes"}) as talk:
        await talk.model.ask(request())
        assert talk.bodies[0]["top_p"] == 0.5
        assert talk.endpoint.headers[0]["x-mine"] == "yes"


@pytest.mark.parametrize("streamed", [False, True])
async def test_deferred_tools_and_marks_of_the_cache_are_sent_as_they_are(streamed: bool) -> None:
    given = tools("anthropic", "weather", "height", "depth")
    given[0]["cache_control"] = {"type": "ephemeral"}
    given[1]["defer_loading"] = True
    cached = {"cache_control": {"type": "ephemeral"}}
    async with talking("anthropic", says("a"), extra=cached) as talk:
        await talk.model.ask(request(tools=given), on_delta=talk.told.append if streamed else None)
        assert (talk.bodies[0]["tools"], talk.bodies[0]["cache_control"]) == (given, {"type": "ephemeral"})


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_json_of_a_closed_schema_is_the_providers_structured_output(wire: ModelProvider, streamed: bool) -> None:
    async with talking(wire, says('{"city": "Rome"}')) as talk:
        on_delta = talk.told.append if streamed else None
        reply = await talk.model.ask(request(json_schema=CLOSED), on_delta=on_delta)
        assert json.loads(reply.turn.text) == {"city": "Rome"}
        body = talk.bodies[0]
        if wire == "openai":
            assert body["response_format"]["json_schema"] == {"name": "answer", "schema": CLOSED, "strict": True}
        else:
            assert body["output_config"] == {"format": {"type": "json_schema", "schema": CLOSED}}


async def test_json_of_an_open_schema_is_not_strict_at_openai() -> None:
    async with talking("openai", says('{"parameters": {"a": 1}}')) as talk:
        await talk.model.ask(request(json_schema=OPEN))
        assert talk.bodies[0]["response_format"]["json_schema"]["strict"] is False


@pytest.mark.parametrize("streamed", [False, True])
async def test_json_of_an_open_schema_is_a_tool_that_has_to_be_called_at_anthropic(streamed: bool) -> None:
    def plays(turn: Turn) -> Call:
        return Call("answer", {"parameters": {"a": 1}})

    async with talking("anthropic", plays) as talk:
        reply = await talk.model.ask(request(json_schema=OPEN), on_delta=talk.told.append if streamed else None)
        assert (json.loads(reply.turn.text), reply.ended) == ({"parameters": {"a": 1}}, "answered")
        assert reply.turn.calls == ()
        assert talk.said == (reply.turn.text if streamed else "")
        assert talk.bodies[0]["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}


async def test_beside_other_tools_an_open_schema_is_asked_for_in_words_at_anthropic() -> None:
    async with talking("anthropic", says("{}")) as talk:
        await talk.model.ask(request(json_schema=OPEN, tools=tools("anthropic", "weather"), system="Be brief."))
        assert talk.bodies[0]["system"][0]["text"].startswith("Be brief.\n\nAnswer with one JSON value")


@pytest.mark.parametrize("status", [400, 422, 500])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_form_of_structured_output_that_is_refused_is_not_asked_for_again(
    wire: ModelProvider, status: int
) -> None:
    said = says('{"city": "Rome"}')

    def plays(turn: Turn) -> Any:
        return Call("answer", {"city": "Rome"}) if "answer" in turn.tools else said(turn)

    refused = refusing(status, "unknown", headers={"x-should-retry": "false"})
    async with talking(wire, plays, faults=(refused,)) as talk:
        if wire == "openai":  # the stand-in does not know json_object
            talk.endpoint._faults.append(refused)
        for _ in range(2):
            reply = await talk.model.ask(request(json_schema=CLOSED))
            assert json.loads(reply.turn.text) == {"city": "Rome"}
        if wire == "openai":
            kinds = [body.get("response_format", {}).get("type") for body in talk.bodies]
            assert kinds == ["json_schema", "json_object", None, None]
            assert talk.bodies[1]["response_format"]["schema"] == CLOSED
            assert "JSON Schema" in talk.bodies[3]["messages"][0]["content"]
        else:
            assert ["output_config" in body for body in talk.bodies] == [True, False, False]
            assert talk.bodies[2]["tool_choice"]["type"] == "any"


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_refusal_is_told(wire: ModelProvider, streamed: bool) -> None:
    async with talking(wire, lambda turn: Refusal("I will not.")) as talk:
        reply = await talk.model.ask(request(), on_delta=talk.told.append if streamed else None)
        assert (reply.ended, reply.refusal) == ("refused", "I will not.")


async def test_the_content_filter_refuses() -> None:
    async with talking("openai", says("so"), faults=(_finished("content_filter"),)) as talk:
        reply = await talk.model.ask(request())
        assert (reply.ended, reply.refusal, reply.turn.text) == ("refused", "by the content filter", "so")


async def test_tokens_of_a_cache_are_told() -> None:
    def openai(answer: dict[str, Any]) -> dict[str, Any]:
        return answer | {
            "usage": {**answer["usage"], "prompt_tokens": 90, "prompt_tokens_details": {"cached_tokens": 64}}
        }

    def anthropic(answer: dict[str, Any]) -> dict[str, Any]:
        usage = {
            "input_tokens": 6,
            "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 64,
            "output_tokens": 1,
        }
        return answer | {"usage": usage}

    for wire, change in (("openai", openai), ("anthropic", anthropic)):
        async with talking(wire, says("abcd"), faults=(edited(change),)) as talk:  # type: ignore[arg-type]
            usage = (await talk.model.ask(request())).usage
            assert usage == Usage(input_tokens=90, output_tokens=1, cached_input_tokens=64)


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
@pytest.mark.parametrize("nothing", [{}, None])
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_what_an_endpoint_does_not_count_is_estimated(
    wire: ModelProvider, streamed: bool, nothing: dict[str, Any] | None
) -> None:
    def uncounted(event: dict[str, Any]) -> dict[str, Any]:
        inner = event.get("message")
        message = {"message": {**inner, "usage": nothing}} if isinstance(inner, dict) else {}
        return {**event, **({"usage": nothing} if "usage" in event else {}), **message}

    async with talking(wire, says("abcdefgh"), faults=(edited(uncounted),)) as talk:
        usage = (await talk.model.ask(request(), on_delta=talk.told.append if streamed else None)).usage
        assert usage.estimated
        assert usage.output_tokens == 2
        assert usage.input_tokens > 10


@pytest.mark.parametrize(("wire", "sent"), [("openai", "functions.a:0"), ("anthropic", "functions_a_0")])
async def test_an_id_of_another_providers_goes_out_in_letters_that_are_taken(wire: ModelProvider, sent: str) -> None:
    turn = Assistant(calls=(ToolCall(id="functions.a:0", name="a"),))
    async with talking(wire, says("never"), says("here")) as talk:
        await talk.model.ask(Request(messages=[User(text="Where?"), turn, answered(turn)], tools=tools(wire, "a")))
        assert json.dumps(talk.bodies[0]).count(f'"{sent}"') == 2


async def test_thinking_goes_back_as_it_came() -> None:
    thinking = {"type": "thinking", "thinking": "Hm, so", "signature": "c2lnbmVk"}

    def thoughtful(answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "content": [thinking, *answer["content"]]}

    async with talking("anthropic", asks, tells, faults=(edited(thoughtful),)) as talk:
        messages: list[Message] = [User(text="Where?")]
        reply = await talk.model.ask(Request(messages=messages, tools=tools("anthropic", "weather")))
        messages += [reply.turn, answered(reply.turn)]
        await talk.model.ask(Request(messages=messages, tools=tools("anthropic", "weather")))
        content = talk.bodies[1]["messages"][1]["content"]
        assert content[0] == thinking
        assert [block["type"] for block in content] == ["thinking", "text", "tool_use", "tool_use"]
        assert reply.turn.provider == "anthropic"
    async with talking("openai", asks, tells) as talk:  # another provider's model goes on, without the thinking
        reply = await talk.model.ask(Request(messages=messages, tools=tools("openai", "weather")))
        assert reply.turn.text == "Rome: 20 and Oslo: 20"


async def test_thinking_that_is_streamed_is_kept_with_its_signature() -> None:
    deltas = [{"type": "thinking_delta", "thinking": "Hm, "}, {"type": "thinking_delta", "thinking": "so"}]
    deltas.append({"type": "signature_delta", "signature": "c2lnbmVk"})
    shifted = {"type": "content_block_start", "index": 9, "content_block": {"type": "thinking", "thinking": ""}}
    events = [shifted, *({"type": "content_block_delta", "index": 9, "delta": delta} for delta in deltas)]

    def thoughtful(event: dict[str, Any]) -> Any:
        if event["type"] != "ping":
            return event
        return "".join(f"\n\nevent: {each['type']}\ndata: {json.dumps(each)}" for each in events)

    async with talking("anthropic", asks, faults=(edited(thoughtful),)) as talk:
        reply = await talk.model.ask(request(tools=tools("anthropic", "weather")), on_delta=talk.told.append)
        thought = next(each for each in reply.turn.native["parts"] if each["part_kind"] == "thinking")
        assert (thought["content"], thought["signature"]) == ("Hm, so", "c2lnbmVk")
        assert talk.said == "I am looking at the weather of both."


@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_that_no_provider_would_take_is_mended(wire: ModelProvider) -> None:
    """Empty turns, calls that nobody answered, calls of tools that are gone, half characters."""
    call = ToolCall(id="functions.weather:0", name="the weather!", arguments={"city": "Rome"})
    bad = ToolCall(id="c2", name="weather", fault="they are not JSON: ...", written='{"city": "Ro')
    messages: list[Message] = [
        User(text="half \ud83d"),
        Assistant(),
        User(text="You said nothing."),
        Assistant(text="cut", calls=(call,)),
        User(text="Go on."),
        Assistant(calls=(call, bad)),
        ToolReplies(replies=(ToolReply(id="c2", name="weather", text="no JSON \udc00", ok=False),)),
        User(text="And now?"),
    ]
    async with talking(wire, *[says("never")] * 3, says("done")) as talk:
        reply = await talk.model.ask(Request(messages=messages, system="\ud83d"))
        assert reply.turn.text == "done"
        sent = json.dumps(talk.bodies[0])
        assert "INVALID_JSON" in sent
        assert "This call was not made." in sent
        assert "(nothing was said)" in sent
        assert '"content": null' not in sent


@pytest.mark.parametrize("wire", WIRES)
async def test_input_beyond_the_context_is_told_with_its_tokens(wire: ModelProvider) -> None:
    async with talking(wire, says("never"), context_tokens=50) as talk:
        with pytest.raises(ContextExceeded, match="the input is too long") as raised:
            await talk.model.ask(request("word " * 100))
        assert raised.value.tokens == 125
        assert len(talk.bodies) == 1


def _finished(reason: str) -> Any:
    def change(answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "choices": [{**answer["choices"][0], "finish_reason": reason}]}

    return edited(change)
