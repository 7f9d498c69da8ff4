"""What models write wrongly, over real HTTP: it is told, and mended where it can be."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from agent.models.wires import WIRES, answered, asks, request, says, talking, tells, tools
from callgate.agent.models.model import Message, ModelProvider, Request, ToolReplies, ToolReply, User
from callgate.errors import ModelUnavailable
from callgate_bench.model.stand_in import Call
from callgate_bench.model.stand_in.checks import Turn
from callgate_bench.model.stand_in.faults import (
    edited,
    well,
)

pytestmark = pytest.mark.anyio

Event = dict[str, Any]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_a_cut_reply_is_told(wire: ModelProvider, streamed: bool) -> None:
    async with talking(wire, asks, faults=(edited(_ended("length", "max_tokens")),)) as talk:
        reply = await talk.model.ask(
            request(tools=tools(wire, "weather")), on_delta=talk.told.append if streamed else None
        )
        assert (reply.ended, reply.turn.text) == ("cut", "I am looking at the weather of both.")


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("wire", WIRES)
async def test_an_empty_reply_is_told(wire: ModelProvider, streamed: bool) -> None:
    async with talking(wire, says("")) as talk:
        reply = await talk.model.ask(request(), on_delta=talk.told.append if streamed else None)
        assert (reply.ended, reply.turn.text, reply.turn.calls) == ("empty", "", ())


@pytest.mark.parametrize("wire", WIRES)
async def test_half_json_is_a_fault_of_the_call_and_goes_back_as_json(wire: ModelProvider) -> None:
    async with talking(wire, asks, tells, faults=(edited(_arguments(lambda text: text[:-3])),)) as talk:
        reply = await talk.model.ask(request(tools=tools(wire, "weather")), on_delta=talk.told.append)
        first = reply.turn.calls[0]
        assert first.arguments == {}
        assert first.fault.startswith("they are not JSON: ")
        assert json.loads(first.written + 'e"}') == {"city": "Rome"}
        replies = [ToolReply(id=call.id, name=call.name, text=call.fault, ok=False) for call in reply.turn.calls]
        messages: list[Message] = [User(text="Where?"), reply.turn, ToolReplies(replies=tuple(replies))]
        await talk.model.ask(Request(messages=messages, tools=tools(wire, "weather")))
        sent = talk.bodies[1]["messages"][1]
        if wire == "openai":
            assert json.loads(sent["tool_calls"][0]["function"]["arguments"]) == {"INVALID_JSON": first.written}
        else:
            assert sent["content"][1]["input"] == {"INVALID_JSON": first.written}
            assert talk.bodies[1]["messages"][2]["content"][0]["is_error"] is True


@pytest.mark.parametrize("wire", WIRES)
async def test_an_unknown_tool_is_called_as_the_model_wrote_it(wire: ModelProvider) -> None:
    async with talking(wire, asks, faults=(edited(_calls(name="wether report?")),)) as talk:
        reply = await talk.model.ask(request(tools=tools(wire, "weather")))
        assert [call.name for call in reply.turn.calls] == ["wether report?"] * 2


@pytest.mark.parametrize(
    ("given", "streamed"), [("same", False), ("same", True), (None, False), (None, True), (7, False), ("a b\n", True)]
)
@pytest.mark.parametrize("wire", WIRES)
async def test_calls_get_ids_of_their_own(wire: ModelProvider, given: Any, streamed: bool) -> None:
    async with talking(wire, asks, tells, faults=(edited(_calls(id=given)),)) as talk:
        on_delta = talk.told.append if streamed else None
        reply = await talk.model.ask(request(tools=tools(wire, "weather")), on_delta=on_delta)
        ids = [call.id for call in reply.turn.calls]
        assert ids == (["same", "call_1_1"] if given == "same" else ["call_1_0", "call_1_1"])
        replies = [ToolReply(id=call.id, name=call.name, text=str(call.arguments)) for call in reply.turn.calls]
        messages: list[Message] = [User(text="Where?"), reply.turn, ToolReplies(replies=tuple(replies))]
        second = await talk.model.ask(Request(messages=messages, tools=tools(wire, "weather")), on_delta=on_delta)
        assert second.turn.text == "{'city': 'Rome'} and {'city': 'Oslo'}"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_call_without_a_name_is_a_fault(wire: ModelProvider) -> None:
    async with talking(wire, asks, asks, faults=(edited(_calls(name=None)),), for_ever=True) as talk:
        for on_delta, number in ((None, 2), (talk.told.append, 1)):
            reply = await talk.model.ask(request(tools=tools(wire, "weather")), on_delta=on_delta)
            assert [(call.name, call.fault) for call in reply.turn.calls] == [("", "the call names no tool")] * number


@pytest.mark.parametrize("wire", WIRES)
async def test_a_megabyte_of_arguments_is_read(wire: ModelProvider) -> None:
    much = "a" * 1_000_000
    longer = edited(_arguments(lambda text: text.replace("Rome", much)))
    async with talking(wire, lambda turn: Call("weather", {"city": much}), asks, faults=(well, longer)) as talk:
        whole = await talk.model.ask(request(tools=tools(wire, "weather")))
        messages: list[Message] = [User(text="Where?"), whole.turn, answered(whole.turn)]
        streamed = await talk.model.ask(
            Request(messages=messages, tools=tools(wire, "weather")), on_delta=talk.told.append
        )
        assert whole.turn.calls[0].arguments == streamed.turn.calls[0].arguments == {"city": much}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_thousand_calls_are_read_and_no_more(wire: ModelProvider) -> None:
    for number, fits in ((1000, True), (1001, False)):
        calls = [Call("weather", {"city": "Rome"})] * number
        async with talking(wire, partial(_plays, calls)) as talk:
            if fits:
                assert len((await talk.model.ask(request(tools=tools(wire, "weather")))).turn.calls) == number
                continue
            with pytest.raises(ModelUnavailable, match=r"(more than 1000|1001) calls at once"):
                await talk.model.ask(request(tools=tools(wire, "weather")))


@pytest.mark.parametrize("missing", ["index", "id"])
async def test_servers_that_number_no_calls_or_name_none_are_read(missing: str) -> None:
    def without(event: Event) -> Event:
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                call.pop(missing, None)
        return event

    async with talking("openai", asks, faults=(edited(without),)) as talk:
        reply = await talk.model.ask(request(tools=tools("openai", "weather")), on_delta=talk.told.append)
        assert [call.arguments for call in reply.turn.calls] == [{"city": "Rome"}, {"city": "Oslo"}]


async def test_servers_that_give_all_calls_one_number_are_read() -> None:
    def same(event: Event) -> Event:
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                call["index"] = 0
        return event

    async with talking("openai", asks, faults=(edited(same),)) as talk:
        reply = await talk.model.ask(request(tools=tools("openai", "weather")), on_delta=talk.told.append)
        assert [call.arguments for call in reply.turn.calls] == [{"city": "Rome"}, {"city": "Oslo"}]


@pytest.mark.parametrize("wire", WIRES)
async def test_arguments_nested_too_deep_are_a_fault(wire: ModelProvider) -> None:
    deep = "[" * 150 + "]" * 150

    def deeper(answer: Event) -> Event:
        text = json.dumps(answer)
        return json.loads(text.replace('\\"Rome\\"', deep).replace('"Rome"', deep))  # type: ignore[no-any-return]

    async with talking(wire, asks, tells, faults=(edited(deeper),)) as talk:
        reply = await talk.model.ask(request(tools=tools(wire, "weather")))
        assert [call.fault for call in reply.turn.calls] == ["they are nested more than 100 deep", ""]
        assert deep in reply.turn.calls[0].written


@pytest.mark.parametrize("wire", WIRES)
async def test_half_characters_do_not_end_the_conversation(wire: ModelProvider) -> None:
    def halved(answer: Event) -> Event:
        return json.loads(json.dumps(answer).replace("looking", "\\ud83d").replace("Rome", "\\ud83d"))  # type: ignore[no-any-return]

    async with talking(wire, asks, tells, faults=(edited(halved),)) as talk:
        reply = await talk.model.ask(request(tools=tools(wire, "weather")))
        assert reply.turn.text == "I am ? at the weather of both."
        assert "surrogates" in reply.turn.calls[0].fault
        replies = [ToolReply(id=call.id, name=call.name, text="20") for call in reply.turn.calls]
        messages: list[Message] = [User(text="Where?"), reply.turn, ToolReplies(replies=tuple(replies))]
        assert (await talk.model.ask(Request(messages=messages, tools=tools(wire, "weather")))).ended == "answered"


def _plays(calls: list[Call], turn: Turn) -> list[Call]:
    return calls


def _ended(openai: str, anthropic: str) -> Callable[[Event], Event]:
    """The reply ends so, whole or streamed."""

    def change(event: Event) -> Event:
        if event.get("choices") and event["choices"][0]["finish_reason"]:
            return {**event, "choices": [{**event["choices"][0], "finish_reason": openai}]}
        if event.get("stop_reason"):
            return {**event, "stop_reason": anthropic}
        if event.get("type") == "message_delta":
            return {**event, "delta": {**event["delta"], "stop_reason": anthropic}}
        return event

    return change


def _arguments(change: Callable[[str], str]) -> Callable[[Event], Event]:
    """The pieces of arguments in a stream are changed."""

    def changed(event: Event) -> Event:
        for choice in event.get("choices", ()):
            for call in choice["delta"].get("tool_calls", ()):
                call["function"]["arguments"] = change(call["function"]["arguments"])
        if event.get("type") == "content_block_delta" and "partial_json" in event["delta"]:
            event["delta"]["partial_json"] = change(event["delta"]["partial_json"])
        return event

    return changed


def _calls(**fields: Any) -> Callable[[Event], Event]:
    """The id or the name of each call is another; None for none."""

    def change(where: Event, names: tuple[str, ...]) -> None:
        for name in names:
            if name in fields and name in where:
                where[name] = fields[name]
                if fields[name] is None:
                    del where[name]

    def changed(event: Event) -> Event:
        for choice in event.get("choices", ()):
            for call in choice.get("message", choice.get("delta", {})).get("tool_calls", ()):
                change(call, ("id",))
                change(call["function"], ("name",))
        for block in [*(event.get("content") or ()), event.get("content_block", {})]:
            if block.get("type") == "tool_use":
                change(block, ("id", "name"))
        return event

    return changed
