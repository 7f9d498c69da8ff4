"""The wires are pure: whatever JSON an endpoint sends is a reply or is refused, and streams are cut anywhere."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.agent.models.anthropic_wire import AnthropicWire
from callgate.agent.models.messages_json import reply_from_json, reply_to_json
from callgate.agent.models.model import Assistant, Message, Request, ToolReplies, User
from callgate.agent.models.openai_wire import OpenAIWire
from callgate.agent.models.replies import BadReply
from callgate.agent.models.sse import Events
from callgate.agent.models.structured import is_closed
from callgate.agent.models.wire import Wire

OPENAI = OpenAIWire("m", limit_field="max_tokens", extra={})
ANTHROPIC = AnthropicWire("m", extra={})
NAMES = st.sampled_from([
    "choices", "message", "delta", "content", "tool_calls", "function", "name", "arguments", "id", "index", "usage",
    "finish_reason", "type", "text", "input", "content_block", "stop_reason", "error", "refusal", "prompt_tokens",
    "prompt_tokens_details", "cached_tokens", "partial_json", "role", "output_tokens", "model", "code", "stop_details",
    "explanation", "thinking",
])  # fmt: skip
WORDS = st.sampled_from([
    "message_start", "content_block_start", "content_block_delta", "message_delta", "message_stop", "tool_use", "text",
    "thinking", "refusal", "error", "length", "stop", "weather", "c1", "{}", '{"a":', "\ud800", "overloaded_error",
])  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | WORDS | st.text(max_size=3)
JSON = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=25
)
CALL = st.fixed_dictionaries({}, optional={"id": JSON, "index": JSON, "function": JSON, "name": JSON, "type": WORDS})
OBJECTS = st.dictionaries(NAMES, JSON, max_size=5) | st.fixed_dictionaries(
    {},
    optional={
        "type": WORDS,
        "index": st.integers(0, 2),
        "choices": st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "message": st.fixed_dictionaries({}, optional={"content": JSON, "tool_calls": st.lists(CALL)}),
                    "delta": st.fixed_dictionaries({}, optional={"content": JSON, "tool_calls": st.lists(CALL)}),
                    "finish_reason": JSON,
                },
            ),
            max_size=2,
        ),
        "content": st.lists(CALL, max_size=3),
        "content_block": CALL,
        "delta": JSON,
        "usage": JSON,
    },
)


def _sound(wire: Wire, reply: Any) -> None:
    """It can be written down, and goes back over the wire."""
    text = json.dumps(reply_to_json(reply), allow_nan=False)
    assert reply_from_json(json.loads(text)) == reply
    ids = [call.id for call in reply.turn.calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    messages: list[Message] = [User(text="a"), reply.turn, ToolReplies(replies=()), User(text="b")]
    for following in (messages, [messages[0], reply.turn, messages[3]]):
        json.dumps(
            wire.body(Request(messages=following), "", stream=False), ensure_ascii=False, allow_nan=False
        ).encode()


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC])
@given(answer=OBJECTS | JSON, form=st.sampled_from(["", "tool"]))
def test_any_json_is_a_reply_or_refused(wire: Wire, answer: Any, form: str) -> None:
    with contextlib.suppress(BadReply):
        _sound(wire, wire.whole(answer, Request(messages=[User(text="a")]), form))


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC])
@given(events=st.lists(OBJECTS, max_size=6), form=st.sampled_from(["", "tool"]))
def test_any_events_are_a_reply_or_refused(wire: Wire, events: list[Any], form: str) -> None:
    told: list[Any] = []
    collector = wire.collector(Request(messages=[User(text="a")]), form, told.append)
    with contextlib.suppress(BadReply):
        for event in events:
            collector.take(event)
        _sound(wire, collector.reply())


@pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC])
@given(status=st.sampled_from([400, 413, 429]), error=JSON)
def test_any_error_is_too_long_or_another(wire: Wire, status: int, error: Any) -> None:
    tokens = wire.too_long(status, error)
    assert tokens is None or tokens >= 0


@pytest.mark.parametrize(
    ("wire", "status", "error", "tokens"),
    [
        (OPENAI, 400, {"code": "context_length_exceeded", "message": "Your messages resulted in 77 tokens."}, 77),
        (
            OPENAI,
            400,
            {"message": "This model's maximum context length is 10 tokens. However, you requested 25 tokens"},
            25,
        ),
        (OPENAI, 400, {"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 9}}, 9),
        (OPENAI, 413, None, 0),
        (OPENAI, 400, {"message": "no such model"}, None),
        (OPENAI, 429, {"message": "maximum context length"}, None),
        (ANTHROPIC, 400, {"error": {"message": "prompt is too long: 210000 tokens > 200000 maximum"}}, 210000),
        (ANTHROPIC, 400, {"error": {"message": "prompt is too long"}}, 0),
        (ANTHROPIC, 413, {"error": {"type": "request_too_large"}}, 0),
        (ANTHROPIC, 400, {"error": {"message": "no such model"}}, None),
    ],
)
def test_input_that_is_too_long_is_known(wire: Wire, status: int, error: Any, tokens: int | None) -> None:
    assert wire.too_long(status, error) == tokens


@given(texts=st.lists(st.text(max_size=9).filter(lambda text: "\n" not in text and "\r" not in text)), data=st.data())
def test_a_stream_may_be_cut_anywhere(texts: list[str], data: st.DataObject) -> None:
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    stream = f": alive{end}{end}" + "".join(f"event: x{end}data: {text}{end}id: 7{end}{end}" for text in texts)
    left = stream.encode()
    events = Events()
    read: list[bytes] = []
    while left:
        cut = data.draw(st.integers(1, max(1, len(left))))
        read += events.take(left[:cut])
        left = left[cut:]
    assert [each.decode() for each in read] == texts


def test_data_of_several_lines_is_one_event() -> None:
    assert list(Events().take(b'data: {"a":\ndata: 1}\n\n')) == [b'{"a":\n1}']


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        ({"type": "string"}, True),
        ({"type": "object"}, False),
        ({"type": "object", "properties": {}, "additionalProperties": False}, True),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, False),
        ({"type": "object", "properties": {"a": {}}, "required": ["a"], "additionalProperties": False}, True),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "array", "items": {"type": "object"}}},
                "required": ["a"],
                "additionalProperties": False,
            },
            False,
        ),
        ({"anyOf": [{"type": "null"}, {"type": "object"}]}, False),
        ({"$defs": {"a": {"type": "object"}}}, False),
        ({"enum": [{"type": "object"}]}, True),
    ],
)
def test_a_schema_is_closed_where_every_object_is(schema: dict[str, Any], closed: bool) -> None:
    assert is_closed(schema) is closed


def test_a_turn_of_the_other_provider_goes_without_its_native_form() -> None:
    turn = Assistant(text="so", native=[{"type": "thinking"}, {"type": "text", "text": "so"}], provider="openai")
    body = ANTHROPIC.body(Request(messages=[User(text="a"), turn, User(text="b")]), "", stream=False)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "so"}]
