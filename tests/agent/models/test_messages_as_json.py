"""Messages and replies come back from JSON as they were, and nothing else does."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.agent.models.messages_json import (
    Unreadable,
    message_from_json,
    messages_from_json,
    messages_to_json,
    object_of,
    reply_from_json,
    reply_to_json,
    usage_from_json,
)
from callgate.agent.models.model import Assistant, Message, Reply, ToolCall, ToolReplies, ToolReply, Usage, User

MESSAGES: list[Message] = [
    User(text="Where?"),
    Assistant(
        text="Let me see.",
        calls=(
            ToolCall(id="a", name="weather", arguments={"city": "Rome", "deep": [{"x": None}]}),
            ToolCall(id="b", name="weather", fault="they are no JSON", written='{"city'),
        ),
        native=[{"type": "thinking", "signature": "x"}],
        provider="anthropic",
    ),
    ToolReplies(replies=(ToolReply(id="a", name="weather", text="20"), ToolReply(id="b", name="w", text="", ok=False))),
    Assistant(),
]


def test_a_conversation_comes_back_as_it_was() -> None:
    assert messages_from_json(json.loads(json.dumps(messages_to_json(MESSAGES)))) == MESSAGES


def test_replies_come_back_as_they_were() -> None:
    turn = MESSAGES[1]
    assert isinstance(turn, Assistant)
    usage = Usage(input_tokens=5, output_tokens=6, cached_input_tokens=1, estimated=True)
    for reply in (
        Reply(turn=turn, ended="calls", usage=usage, model="m", attempts=3),
        Reply(turn=Assistant(), ended="refused", refusal="no"),
    ):
        assert reply_from_json(object_of(json.dumps(reply_to_json(reply)))) == reply


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "message: an object was expected, and this is missing or null"),
        ([], "message: an object was expected, and this is a list"),
        ({}, "message.role: user, assistant or tools was expected, and this is None"),
        ({"role": "x" * 1000}, "message.role: user, assistant or tools"),
        ({"role": "user"}, "message.text: a text was expected"),
        ({"role": "user", "text": 7}, "message.text: a text was expected, and this is a number"),
        ({"role": "tools", "replies": [{"id": "a"}]}, r"message.replies\[0\].name: a text was expected"),
        ({"role": "tools", "replies": [{"id": "a", "name": "b", "text": "", "ok": 1}]}, "true or false was expected"),
        ({"role": "assistant", "calls": [7]}, r"message.calls\[0\]: an object was expected"),
        ({"role": "assistant", "calls": [{}] * 1001}, "at most 1000 entries"),
        (
            {"role": "assistant", "calls": [{"id": "a", "name": "b", "arguments": []}]},
            "arguments: an object was expected",
        ),
        ({"role": "assistant", "native": 7, "provider": "me"}, "message.provider: openai or anthropic"),
    ],
)
def test_what_is_no_message_is_refused_with_its_place(value: Any, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        message_from_json(value)


def test_what_is_too_large_or_too_deep_is_refused() -> None:
    with pytest.raises(Unreadable, match="at most 64000000 characters"):
        message_from_json({"role": "user", "text": "a" * 64_000_001})
    deep: Any = {}
    for _ in range(200):
        deep = {"a": deep}
    call = {"id": "a", "name": "b", "arguments": deep}
    with pytest.raises(Unreadable, match=r"calls\[0\].arguments: it is nested more than 100 deep"):
        message_from_json({"role": "assistant", "calls": [call]})
    with pytest.raises(Unreadable, match="at most 3 entries"):
        messages_from_json([{}] * 4, most=3)


@pytest.mark.parametrize("wrong", [-1, 1.5, True, "7", None, 10**13])
def test_tokens_are_whole_numbers(wrong: Any) -> None:
    with pytest.raises(Unreadable, match=r"usage\.input_tokens: a whole number from 0"):
        usage_from_json({"input_tokens": wrong})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)
NAMES = st.sampled_from(["role", "text", "calls", "turn", "ended", "usage", "native", "replies", "id", "name", "ok"])
WORDS = st.sampled_from(["user", "assistant", "tools", "answered", "cut", "a"])
NEAR = st.recursive(JSON | WORDS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=5))


@given(NEAR)
def test_any_json_is_read_or_refused(value: Any) -> None:
    for read in (message_from_json, reply_from_json, messages_from_json, usage_from_json):
        with contextlib.suppress(Unreadable):
            read(value)
