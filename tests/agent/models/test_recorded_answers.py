"""One talk with each provider and server, from answers as they send them: calls, results, and what goes back.

Providers whose SDK is not installed are skipped.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from agent.models.wires import answered, request, tools
from callgate.agent.models.model import Delta, Message, Request, User
from callgate.agent.models.named import model_named
from callgate.errors import ModelUnavailable

pytestmark = pytest.mark.anyio

CITY = '{"city": "Rome"}'


def _chat(message: dict[str, Any], finish: str | None, **rest: Any) -> dict[str, Any]:
    """An answer of Chat Completions."""
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
        "usage": usage,
    } | rest


def _function(arguments: str, **rest: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "weather", "arguments": arguments}, **rest}


def _chunks(*deltas: dict[str, Any], finish: str | None) -> list[Any]:
    """A stream of Chat Completions."""
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    events = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return [*events, {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, "[DONE]"]


OLLAMA = _chat(
    {"content": "", "tool_calls": [_function(CITY, id="call_1", index=0)]}, "tool_calls", system_fingerprint="fp_ollama"
)
OLLAMA_STREAM = _chunks(
    {"role": "assistant", "content": "", "tool_calls": [_function(CITY, id="call_1", index=0)]}, finish="tool_calls"
)
VLLM = _chat(
    {"content": None, "reasoning_content": "Hm.", "tool_calls": [_function(CITY, id="chatcmpl-tool-1")]}, "tool_calls",
    prompt_logprobs=None, kv_transfer_params=None,
)  # fmt: skip
VLLM_STREAM = _chunks(
    {"role": "assistant", "content": ""}, {"reasoning_content": "Hm"}, {"reasoning_content": "."},
    {"tool_calls": [{"id": "chatcmpl-tool-1", "index": 0, **_function("")}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"city": '}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '"Rome"}'}}]},
    finish="tool_calls",
)  # fmt: skip
LLAMA_CPP = _chat({"content": None, "tool_calls": [_function(CITY, id="")]}, "tool_calls", timings={"prompt_n": 10})
LLAMA_CPP_STREAM = _chunks(
    {"role": "assistant", "content": None}, {"tool_calls": [{"index": 0, **_function('{"city":', id="abc")}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": ' "Rome"}'}}]}, finish="tool_calls",
)  # fmt: skip
GEMINI = {
    "candidates": [{
        "index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [
            {"text": "Hm", "thought": True},
            {"functionCall": {"name": "weather", "args": {"city": "Rome"}}, "thoughtSignature": "c2ln"},
        ]},
    }],
    "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
    "modelVersion": "m", "responseId": "r1",
}  # fmt: skip
BEDROCK = {
    "output": {"message": {"role": "assistant", "content": [
        {"toolUse": {"toolUseId": "t1", "name": "weather", "input": {"city": "Rome"}}},
    ]}},
    "stopReason": "tool_use", "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
    "metrics": {"latencyMs": 1},
}  # fmt: skip
MISTRAL = _chat({"content": "", "tool_calls": [_function(CITY, id="abc123XYZ")]}, "tool_calls")


@contextlib.contextmanager
def _sending(answer: Any) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A server that sends this, an object or events, to everybody; gives its address and the bodies that came."""
    bodies: list[dict[str, Any]] = []
    text = json.dumps(answer)
    if isinstance(answer, list):
        text = "".join(f"data: {each if isinstance(each, str) else json.dumps(each)}\r\n\r\n" for each in answer)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream" if isinstance(answer, list) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", bodies
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize(
    ("spec", "sdk", "answer", "back"),
    [
        ("openai:ollama", "openai", OLLAMA, ["call_1"]),
        ("openai:ollama", "openai", OLLAMA_STREAM, ["call_1"]),
        ("openai:vllm", "openai", VLLM, ["chatcmpl-tool-1", '"reasoning_content": "Hm."']),
        ("openai:vllm", "openai", VLLM_STREAM, ["chatcmpl-tool-1", '"reasoning_content": "Hm."']),
        ("openai:llama.cpp", "openai", LLAMA_CPP, ["call_1_0"]),
        ("openai:llama.cpp", "openai", LLAMA_CPP_STREAM, ["abc"]),
        ("vllm:model", "openai", VLLM, ["chatcmpl-tool-1", "Hm."]),
        ("google:gemini-3-pro", "google.genai", GEMINI, ['"thoughtSignature": "c2ln"', '"thought": true']),
        ("google:gemini-3-pro", "google.genai", [GEMINI], ['"thoughtSignature": "c2ln"']),
        ("mistral:mistral-small", "mistralai", MISTRAL, ["abc123XYZ"]),
        ("bedrock:amazon.nova-pro-v1:0", "boto3", BEDROCK, ['"toolUseId": "t1"']),
    ],
)
async def test_a_call_is_read_and_its_result_goes_back(
    spec: str, sdk: str, answer: Any, back: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _needs(sdk)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "any")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    told: list[Delta] = []
    on_delta = told.append if isinstance(answer, list) else None
    with _sending(answer) as (address, bodies):
        key = {} if sdk == "boto3" else {"api_key": "a key of some length"}
        model = model_named(spec, base_url=address, **key)  # type: ignore[arg-type]
        try:
            messages: list[Message] = [User(text="Where?")]
            given = tools("openai", "weather")
            options: dict[str, Any] = {"tools": given, "system": "Be brief.", "temperature": 0.5}
            reply = await model.ask(Request(messages=messages, max_output_tokens=50, **options), on_delta=on_delta)
            assert (reply.ended, reply.attempts) == ("calls", 1)
            assert [(call.name, call.arguments) for call in reply.turn.calls] == [("weather", {"city": "Rome"})]
            assert reply.usage.input_tokens > 0
            assert "".join(delta.arguments for delta in told) == (CITY if told else "")
            messages += [reply.turn, answered(reply.turn)]
            await model.ask(Request(messages=messages, max_output_tokens=50, tools=given), on_delta=on_delta)
        finally:
            await model.aclose()
    first, second = map(json.dumps, bodies)
    assert all(each in first for each in ("Where?", "Be brief.", "It is known.", "0.5", "50"))
    assert all(each in second for each in ("Rome: 20", *back))


@pytest.mark.parametrize(
    ("spec", "sdk"), [("openai:m", "openai"), ("mistral:m", "mistralai"), ("google:m", "google.genai")]
)
async def test_an_address_without_a_server_is_unavailable(spec: str, sdk: str) -> None:
    _needs(sdk)
    model = model_named(spec, base_url="http://127.0.0.1:9", api_key="a key of some length", max_retries=0)
    with pytest.raises(ModelUnavailable, match="no connection to the model"):
        await model.ask(request())
    await model.aclose()


def _needs(sdk: str) -> None:
    with contextlib.suppress(ModuleNotFoundError):
        if importlib.util.find_spec(sdk) is not None:
            return
    pytest.skip(f"{sdk} is not installed: pip install 'pydantic-ai-slim[google,mistral,bedrock]'")
