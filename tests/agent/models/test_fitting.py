"""Whatever an endpoint writes becomes a turn that can be written down and sent back, to every provider."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
)

from agent.models.wires import written_and_read
from callgate.agent.models.conversation import messages_of
from callgate.agent.models.fitting import fit, fit_calls
from callgate.agent.models.model import Assistant, Message, Reply, Request, ToolCall, ToolReplies, ToolReply, User
from callgate.agent.models.response import reply_of

WORDS = st.sampled_from(["weather", "c1", "{}", '{"a":', '{"a": NaN}', "\ud800", "[1]", "", "a b\n"]) | st.text(
    max_size=3
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=10,
)
CALLS: st.SearchStrategy[Any] = st.builds(ToolCallPart, tool_name=WORDS, args=JSON, tool_call_id=WORDS | st.none())
PARTS = st.builds(TextPart, content=WORDS) | st.builds(ThinkingPart, content=WORDS, signature=WORDS) | CALLS


@given(st.lists(PARTS, max_size=5), st.sampled_from(["openai", "anthropic", "google"]))
def test_any_response_is_a_turn_that_goes_back(parts: list[Any], provider: str) -> None:
    reply = reply_of(ModelResponse(parts=parts), position=1, form="", model="m", provider=provider)
    assert written_and_read(reply) == reply
    ids = [call.id for call in reply.turn.calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    messages: list[Message] = [User(text="a"), reply.turn, ToolReplies(replies=()), User(text="b")]
    for following in (messages, [messages[0], reply.turn, messages[3]]):
        sent = messages_of(following, model="m", provider=provider, errors=True, thoughts=True)
        ModelMessagesTypeAdapter.dump_json(sent)


ROME = ToolCall(id="c1", name="weather", arguments={"city": "Rome"})


def _sent(native: Any, provider: str, model: str = "m") -> list[Any]:
    turn = Assistant(text="So", calls=(ROME,), native=native, provider=provider)
    messages: list[Message] = [User(text="a"), turn, ToolReplies(replies=())]
    return list(messages_of(messages, model=model, provider=provider, errors=True, thoughts=True)[1].parts)


def test_thoughts_of_an_old_transcript_go_back() -> None:
    blocks = [
        {"type": "thinking", "thinking": "Hm", "signature": "s"}, {"type": "redacted_thinking", "data": "d"},
        {"type": "text", "text": "So"}, {"type": "tool_use", "id": "c1"},
    ]  # fmt: skip
    first, second, text, call = _sent(blocks, "anthropic")
    assert (first.content, first.signature, second.id, second.signature) == ("Hm", "s", "redacted_thinking", "d")
    assert (text.content, call.tool_name, call.args) == ("So", "weather", {"city": "Rome"})
    fields = {"model": "m", "fields": {"reasoning_content": "Hm"}, "calls": {"c1": {"extra_content": {"google": 1}}}}
    thought, _, call = _sent(fields, "openai")
    assert (thought.id, thought.content, call.provider_details) == (
        "reasoning_content", "Hm", {"extra_content": {"google": 1}},
    )  # fmt: skip
    assert [part.part_kind for part in _sent(fields, "openai", model="another")] == ["text", "tool-call"]


def test_a_native_turn_that_is_none_is_left_out() -> None:
    call = {"part_kind": "tool-call", "tool_name": "", "tool_call_id": "other"}
    natives: list[Any] = [
        7,
        [],
        {"model": "m"},
        {"model": "m", "fields": 7, "calls": 7},
        {"parts": 7},
        {"parts": [call]},
    ]
    for native in natives:
        assert [part.part_kind for part in _sent(native, "anthropic")] == ["text", "tool-call"]


def _nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (ToolCall(id="a", name="weather", arguments={"x": _nested(400)}), "they are nested more than 100 deep"),
        (ToolCall(id="a", name="weather", arguments={"x": float("nan")}), "they cannot be sent back as JSON"),
        (ToolCall(id="a", name="weather", arguments={"x": "\ud800"}), "they cannot be sent back as JSON"),
        (ToolCall(id="a", name="weather", arguments={"x": "y" * 3_000_000}), "in this turn there is room for 2000000"),
        (ToolCall(id="a", name=""), "the call names no tool"),
        (ToolCall(id="a", name="weather", fault="of its own", written="z" * 20_000), "of its own"),
    ],
)
def test_arguments_that_no_turn_can_carry_are_a_fault(call: ToolCall, fault: str) -> None:
    (made,) = fit_calls([call], 3)
    assert fault in made.fault
    assert made.arguments == {}
    assert len(made.written) <= 10_000
    assert fit_calls([made], 3) == (made,)


def test_a_turn_is_bounded_and_every_call_has_an_id_of_its_own() -> None:
    calls = tuple(ToolCall(id=id, name="a" * 300, arguments={"x": "y" * 1_500_000}) for id in ("a", "a", "b c", "d"))
    reply = fit(Reply(turn=Assistant(text="t" * 2_000_000, calls=calls), ended="answered"), Request(messages=[]))
    assert [call.id for call in reply.turn.calls] == ["a", "call_0_1", "call_0_2", "d"]
    assert [bool(call.fault) for call in reply.turn.calls] == [False, True, True, True]
    assert (reply.ended, len(reply.turn.text), len(reply.turn.calls[0].name)) == ("calls", 1_000_000, 200)
    assert reply.usage.estimated


def test_an_id_that_looks_like_a_made_one_replaces_no_call() -> None:
    calls = [ToolCall(id=id, name="weather", arguments={"n": n}) for n, id in enumerate(("call_5_1", "", "call_5_1"))]
    made = fit_calls(calls, 5)
    assert [call.arguments["n"] for call in made] == [0, 1, 2]
    assert len({call.id for call in made}) == 3
    assert fit_calls(made, 5) == made


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_no_two_calls_of_a_conversation_have_one_id(provider: str) -> None:
    def turn(*ids: str) -> tuple[Message, Message]:
        calls = tuple(ToolCall(id=id, name="weather") for id in ids)
        return Assistant(calls=calls), ToolReplies(
            replies=tuple(ToolReply(id=id, name="weather", text=f"of {id}") for id in ids)
        )

    messages: list[Message] = [User(text="Where?"), *turn("written_0"), *turn("written_0", "a.b", "a:b"), *turn("c1")]
    sent = messages_of(messages, model="m", provider=provider, errors=True, thoughts=True)
    calls = [part.tool_call_id for each in sent for part in each.parts if isinstance(part, ToolCallPart)]
    results = [part for each in sent for part in each.parts if isinstance(part, ToolReturnPart)]
    assert calls == [part.tool_call_id for part in results]
    assert len(set(calls)) == 5
    assert (calls[0], calls[1], calls[4]) == ("written_0", "written_0_3", "c1")
    assert [part.content for part in results] == [f"of {id}" for id in ("written_0", "written_0", "a.b", "a:b", "c1")]
