"""Models of any provider, in memory: what pydantic-ai says of a failure, and what it means here; and what a response
becomes. No HTTP: the ends of it are in the tests of each provider."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import exceptions as of
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ThinkingPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from agent.models.wires import answered, request, tools, written_and_read
from callgate.agent.models.connection import Connection
from callgate.agent.models.direct import DirectModel
from callgate.agent.models.model import Delta, Message, Request, User
from callgate.agent.models.named import is_provider, model_named
from callgate.errors import ConfigurationError, ContextExceeded, ModelError, ModelRejected, ModelUnavailable

pytestmark = pytest.mark.anyio

SECRET = "sk-very-secret-0123456789"
OTHER_SECRET = "of-the-environment-0123456789"
CLOSED = {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False,
}  # fmt: skip


class Played:
    """A provider that answers with these, in order: a response, or an error that pydantic-ai raises."""

    def __init__(self, *turns: ModelResponse | Exception, name: str = "gemini-9") -> None:
        self.turns = list(turns)
        self.asked: list[tuple[list[ModelMessage], AgentInfo]] = []
        model = FunctionModel(self._whole, stream_function=self._pieces, model_name=name)
        connection = Connection(stream_retries=1, headers={"x-token": SECRET})
        self.model = DirectModel(model, provider="openai", connection=connection)

    def _next(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append((messages, info))
        turn = self.turns.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn

    def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return self._next(messages, info)

    async def _pieces(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for number, part in enumerate(self._next(messages, info).parts):
            match part:
                case TextPart():
                    yield part.content[:3]
                    yield part.content[3:]
                case ThinkingPart():
                    yield {number: DeltaThinkingPart(content=part.content, signature=part.signature)}
                case ToolCallPart():
                    arguments = part.args_as_json_str()
                    yield {number: DeltaToolCall(name=part.tool_name, json_args="", tool_call_id=part.tool_call_id)}
                    yield {number: DeltaToolCall(json_args=arguments)}


def _http(kind: Any, status: int, **rest: Any) -> Exception:
    body = {"message": f"so it is: {SECRET}, {OTHER_SECRET}"}
    return of.ModelHTTPError.for_category(kind, status_code=status, model_name="m", body=body, **rest)


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (_http(of.ModelRateLimitError, 429), ModelUnavailable, "answered 429"),
        (_http(of.ModelOverloadedError, 529), ModelUnavailable, "answered 529"),
        (_http(of.ModelServerError, 500), ModelUnavailable, "answered 500"),
        (_http(of.ModelQuotaExceededError, 429), ModelRejected, "answered 429"),
        (_http(of.ModelAuthenticationError, 401), ModelRejected, "answered 401"),
        (_http(of.ModelNotFoundError, 404), ModelRejected, "answered 404"),
        (_http(of.ModelRequestRejectedError, 400), ModelRejected, "answered 400"),
        (_http(of.ModelContextWindowExceededError, 400), ContextExceeded, "the input is too long"),
        (_http(None, 413), ContextExceeded, "the input is too long"),
        (of.ModelTimeoutError("m", "slow"), ModelUnavailable, "no reply of the model within 600 s"),
        (of.ModelConnectionError("m", f"refused {SECRET}"), ModelUnavailable, "no connection to the model: .*refused"),
        (of.UnexpectedModelBehavior("nonsense"), ModelUnavailable, "gave no reply: .*nonsense"),
        (of.UserError("no such setting"), ModelRejected, "does not send the request: .*no such setting"),
        (AttributeError("a bug"), ModelUnavailable, "gave no reply: AttributeError: a bug"),
    ],
)
async def test_an_error_says_what_it_means_and_no_secret(
    error: Exception, kind: type[ModelError], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", OTHER_SECRET)
    with pytest.raises(kind, match=words) as raised:
        await Played(error).model.ask(request())
    assert SECRET not in str(raised.value)
    assert OTHER_SECRET not in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [
        of.ModelConnectionError("m", "reset", phase="read"),
        of.ModelAPIError("m", "it ended early"),
        _http(of.ModelOverloadedError, 529, in_stream=True),
    ],
)
async def test_a_stream_that_breaks_off_is_asked_for_again(error: Exception) -> None:
    told: list[Delta] = []
    played = Played(error, ModelResponse(parts=[TextPart("here it is")]))
    reply = await played.model.ask(request(), on_delta=told.append)
    assert (reply.turn.text, reply.attempts) == ("here it is", 2)
    assert [delta.restarted for delta in told] == [True, False, False]
    with pytest.raises(ModelUnavailable, match="broke off, 2 times"):
        await Played(error, error).model.ask(request(), on_delta=told.append)


@pytest.mark.parametrize("streamed", [False, True])
async def test_thinking_and_calls_go_back_as_they_came(streamed: bool) -> None:
    thought = ThinkingPart("Hm.", signature="c2lnbmVk", provider_name="function")
    call = ToolCallPart("weather", {"city": "Rome"}, tool_call_id="c1")
    played = Played(
        ModelResponse(parts=[thought, TextPart("Let me see."), call]), ModelResponse(parts=[TextPart("It is 20.")])
    )
    told: list[Delta] = []
    on_delta = told.append if streamed else None
    messages: list[Message] = [User(text="Where?")]
    given = tools("anthropic", "weather")
    reply = await played.model.ask(Request(messages=messages, tools=given, system="Be brief."), on_delta=on_delta)
    assert (reply.ended, reply.turn.text) == ("calls", "Let me see.")
    assert [(each.id, each.name, each.arguments) for each in reply.turn.calls] == [("c1", "weather", {"city": "Rome"})]
    kept = written_and_read(reply).turn
    last = await played.model.ask(Request(messages=[*messages, kept, answered(reply.turn)], tools=given))
    assert last.turn.text == "It is 20."
    sent, info = played.asked[1]
    assert [tool.name for tool in info.function_tools] == ["weather"]
    first = sent[1].parts[0]
    assert isinstance(first, ThinkingPart)
    assert (first.content, first.signature) == ("Hm.", "c2lnbmVk")
    result = sent[2].parts[0]
    assert isinstance(result, ToolReturnPart)
    assert (result.tool_call_id, result.content, result.outcome) == ("c1", "Rome: 20", "success")


@pytest.mark.parametrize(
    ("response", "ended"),
    [
        (ModelResponse(parts=[TextPart("so")], finish_reason="stop"), "answered"),
        (ModelResponse(parts=[TextPart("so")]), "answered"),
        (ModelResponse(parts=[]), "empty"),
        (ModelResponse(parts=[TextPart("so")], finish_reason="length"), "cut"),
        (ModelResponse(parts=[TextPart("so")], state="suspended"), "cut"),
        (ModelResponse(parts=[], finish_reason="content_filter"), "refused"),
        (ModelResponse(parts=[], finish_reason="tool_call"), "calls"),
    ],
)
async def test_how_a_reply_ended(response: ModelResponse, ended: str) -> None:
    reply = await Played(response).model.ask(request())
    assert (reply.ended, bool(reply.refusal)) == (ended, ended == "refused")


async def test_a_reply_has_a_thousand_calls_at_most() -> None:
    response = ModelResponse(parts=[ToolCallPart("weather", {})] * 1001)
    with pytest.raises(ModelUnavailable, match="1001 calls at once"):
        await Played(response).model.ask(request())


async def test_json_of_a_schema_is_asked_for_as_the_model_can() -> None:
    answer = ModelResponse(parts=[ToolCallPart("answer", {"city": "Rome"})])
    refused = _http(of.ModelRequestRejectedError, 400)
    played = Played(refused, answer, answer)
    for _ in range(2):
        reply = await played.model.ask(request(json_schema=CLOSED))
        assert (json.loads(reply.turn.text), reply.ended) == ({"city": "Rome"}, "answered")
    assert [info.model_request_parameters.output_mode for _, info in played.asked] == ["native", "tool", "tool"]
    gone = Played(of.ModelConnectionError("m", "refused"))
    with pytest.raises(ModelUnavailable, match="no connection"):
        await gone.model.ask(request(json_schema=CLOSED))  # and is not asked in another way


def test_providers_are_known_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [is_provider(kind) for kind in ("mistral", "bedrock", "qwen3", "")] == [True, True, False, False]
    with pytest.raises(ConfigurationError, match=r"the SDK of mistral is not installed|there is no model mistral:m"):
        model_named("mistral:m")
    monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match=r"there is no model openrouter:m: .*OPENROUTER_API_KEY"):
        model_named("openrouter:m")
