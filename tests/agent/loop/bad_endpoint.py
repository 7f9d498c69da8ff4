"""A provider's endpoint that plays a model which writes badly, and which fails: the real wires, whole and streamed.

What comes in is checked as the provider checks it: a stand-in of the benchmarks refuses a conversation in which a call
has no result, or a message is empty. What goes out is whatever a test says, right or wrong.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from callgate.agent.models.anthropic_model import AnthropicModel
from callgate.agent.models.openai_model import OpenAIModel
from callgate_bench.model.stand_in import AnthropicMessages, OpenAIChat, Script, Turn, serving
from callgate_bench.model.stand_in.checks import Refused
from callgate_bench.model.stand_in.server import KEY, Answered, Event, HangUp

Provider = Literal["openai", "anthropic"]
PROVIDERS: tuple[Provider, ...] = ("openai", "anthropic")


@dataclass(frozen=True)
class Says:
    """The model writes.

    Attributes:
        text: words.
        calls: names, and arguments: an object, or the text that stands in its place.
        ends: how it says that it has ended; None: as it should.
        ids: of the calls; None: good ones.
        breaks: after so many events of a stream the connection is gone; a whole answer is gone at once.
        silent: after so many events nothing more comes.
        stops: after so many events the stream ends in good order, and the reply is not whole.
        errs: after so many events comes one that says that the provider is overloaded.
    """

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    ends: Literal["cut", "refused"] | None = None
    ids: Sequence[Any] | None = None
    breaks: int | None = None
    silent: int | None = None
    stops: int | None = None
    errs: int | None = None


@dataclass(frozen=True)
class Fails:
    """The endpoint answers with an HTTP status."""

    status: int
    message: str = "no"
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: {"retry-after-ms": "1"})


@dataclass(frozen=True)
class Sends:
    """The endpoint sends these bytes, with status 200."""

    text: bytes


Turns = Says | Fails | Sends

OVERLOADED: dict[Provider, dict[str, Any]] = {
    "openai": {"error": {"message": "The server is overloaded", "type": "server_error", "code": None}},
    "anthropic": {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
}


class _Anything(Script):
    def play(self, turn: Turn) -> list[Any]:
        return ["."]


class BadEndpoint:
    """See the module.

    Args:
        provider: whose wire.
        turns: one for each request, in order; the last one stays.
    """

    def __init__(self, provider: Provider, *turns: Turns) -> None:
        self.provider = provider
        self.bodies: list[dict[str, Any]] = []
        """Of every request that came, refused ones too."""
        self._turns = list(turns)
        self._checks: Any = (OpenAIChat if provider == "openai" else AnthropicMessages)(_Anything())
        self.path = self._checks.path
        self._lock = threading.Lock()
        self.over = threading.Event()
        """Set when the test is: silent streams end."""

    def reply(self, headers: Mapping[str, str], body: dict[str, Any]) -> Answered:
        if "response_format" not in body and "output_config" not in body:  # whose schema no "." would fit
            self._checks.reply(headers, body)
        with self._lock:
            self.bodies.append(body)
            turn = self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]
            number = len(self.bodies)
        match turn:
            case Fails():
                kind = "invalid_request_error" if turn.status == 400 else "some_error"
                raise Refused(turn.message, status=turn.status, kind=kind, code=turn.code, headers=turn.headers)
            case Sends():
                return turn.text
            case Says():
                whole = _openai(turn, number) if self.provider == "openai" else _anthropic(turn, number)
                if body.get("stream"):
                    events = _openai_events(whole) if self.provider == "openai" else _anthropic_events(whole)
                    return self._until(turn, events)
                if turn.breaks is not None:
                    raise HangUp
                return whole

    def refusal(self, refused: Refused) -> dict[str, Any]:
        answer: dict[str, Any] = self._checks.refusal(refused)
        return answer

    def _until(self, turn: Says, events: Iterator[Event]) -> Iterator[Event]:
        for position, event in enumerate(events):
            if position == turn.breaks:
                raise HangUp
            if position == turn.silent:
                self.over.wait(30)
                raise HangUp
            if position == turn.errs:
                yield OVERLOADED[self.provider]
                return
            if position == turn.stops:
                return
            yield event

    def results(self, request: int = -1) -> list[str]:
        """Texts of the results that the model was sent last, in a request."""
        texts: list[str] = []
        for message in self.bodies[request]["messages"]:
            if message["role"] == "assistant":
                texts = []
            elif message["role"] == "tool":
                texts.append(message["content"])
            elif self.provider == "anthropic" and isinstance(message["content"], list):
                results = [block["content"] for block in message["content"] if block["type"] == "tool_result"]
                texts += [each if isinstance(each, str) else each[0]["text"] for each in results]
        return texts

    def words(self, request: int = -1) -> str:
        """All that stands in the last message of the user in a request."""
        return str(self.bodies[request]["messages"][-1]["content"])

    def tools(self, request: int = -1) -> list[str]:
        """Names of the tools that were sent with a request."""
        given = self.bodies[request].get("tools", [])
        return [each["function"]["name"] if self.provider == "openai" else each["name"] for each in given]


@contextlib.contextmanager
def misbehaving(
    provider: Provider, *turns: Turns, max_retries: int = 1, **options: Any
) -> Iterator[tuple[BadEndpoint, Callable[[], OpenAIModel | AnthropicModel]]]:
    """An endpoint that plays these turns; and what makes a model of it, with the provider's own SDK."""
    endpoint = BadEndpoint(provider, *turns)
    with serving(endpoint) as address:
        options = {"api_key": KEY, "max_retries": max_retries, "timeout_seconds": 10.0, **options}

        def model() -> OpenAIModel | AnthropicModel:
            if provider == "openai":
                return OpenAIModel("played", base_url=f"{address}/v1", **options)
            return AnthropicModel("played", base_url=address, **options)

        try:
            yield endpoint, model
        finally:
            endpoint.over.set()


def _openai(turn: Says, number: int) -> dict[str, Any]:
    calls = [
        {
            "id": turn.ids[place] if turn.ids is not None else f"call_{number}_{place}",
            "type": "function",
            "function": {"name": name, "arguments": given if isinstance(given, str) else json.dumps(given)},
        }
        for place, (name, given) in enumerate(turn.calls)
    ]
    refused = turn.ends == "refused"
    message: dict[str, Any] = {
        "role": "assistant",
        "content": None if refused else turn.text or None,
        "refusal": turn.text if refused else None,
    }
    if calls:
        message["tool_calls"] = calls
    finish = "length" if turn.ends == "cut" else "tool_calls" if calls else "stop"
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "played",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _openai_events(whole: dict[str, Any]) -> Iterator[Event]:
    (choice,) = whole["choices"]
    message = choice["message"]
    head = {"id": whole["id"], "object": "chat.completion.chunk", "created": whole["created"], "model": whole["model"]}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for name in ("content", "refusal"):
        for piece in _pieces(message[name] or ""):
            yield chunk({name: piece})
    for index, call in enumerate(message.get("tool_calls", ())):
        begun = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for piece in _pieces(call["function"]["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, choice["finish_reason"])
    yield {**head, "choices": [], "usage": whole["usage"]}
    yield "[DONE]"


def _anthropic(turn: Says, number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
    for place, (name, given) in enumerate(turn.calls):
        identity = turn.ids[place] if turn.ids is not None else f"toolu_{number}_{place}"
        content.append({"type": "tool_use", "id": identity, "name": name, "input": given})
    reason = "tool_use" if turn.calls else "end_turn"
    if turn.ends is not None:
        reason = "max_tokens" if turn.ends == "cut" else "refusal"
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "played",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def _anthropic_events(whole: dict[str, Any]) -> Iterator[Event]:
    yield {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}
    for index, block in enumerate(whole["content"]):
        text = block["type"] == "text"
        begun = {**block, "text": ""} if text else {**block, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": begun}
        given = block["text"] if text else block["input"]
        for piece in _pieces(given if isinstance(given, str) else json.dumps(given)):
            delta = (
                {"type": "text_delta", "text": piece} if text else {"type": "input_json_delta", "partial_json": piece}
            )
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}
    yield {"type": "message_stop"}


def _pieces(text: str) -> Iterator[str]:
    for begin in range(0, len(text), 12):
        yield text[begin : begin + 12]
