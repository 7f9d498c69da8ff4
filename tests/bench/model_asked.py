"""The scripted endpoint served and asked: by plain HTTP, and by the real SDKs."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai

from bench.scripted_workloads import TOOLS, server_process
from callgate.bench.model.stand_in.server import KEY

HEADERS = {"content-type": "application/json", "authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
FUNCTIONS: Any = [
    {"type": "function", "function": {"name": each["name"], "parameters": each["input_schema"]}} for each in TOOLS
]
USER: Any = {"role": "user", "content": "Where is it warmest?"}
WIRES = ["openai", "anthropic"]
CLIENTS: dict[str, Any] = {}


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The endpoint's address; its clients are in `CLIENTS`."""
    with server_process() as (_, found):
        CLIENTS["openai"] = openai.OpenAI(base_url=f"{found}/v1", api_key=KEY, max_retries=0)
        CLIENTS["anthropic"] = anthropic.Anthropic(base_url=found, api_key=KEY, max_retries=0)
        yield found
        for client in CLIENTS.values():
            client.close()


def post(address: str, path: str, body: Any, headers: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    try:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, text, HEADERS if headers is None else headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def register(address: str, workload: str = "weather", form: str = "direct-parallel", **rest: Any) -> str:
    status, answer = post(address, "/conversations", {"workload": workload, "form": form, **rest})
    assert status == 200, answer
    return str(answer["model"])


class Chatting:
    """A conversation by hand, with the real SDK of a wire."""

    def __init__(self, wire: str, model: str, tools: Any = None) -> None:
        self.model = model
        self.messages: list[Any] = [USER]
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self._ids: list[str] = []
        self._wire = wire
        self._tools = tools
        self._client = CLIENTS[wire]

    def ask(self) -> str:
        return self._ask_openai() if self._wire == "openai" else self._ask_anthropic()

    def _ask_openai(self) -> str:
        raw = self._client.chat.completions.with_raw_response.create(
            model=self.model, messages=self.messages, tools=self._tools or FUNCTIONS
        )
        completion = raw.parse()
        self.sent = json.loads(raw.http_request.content)
        self.usage = completion.usage.prompt_tokens, completion.usage.completion_tokens
        said = completion.choices[0].message
        self.refusal = said.refusal or ""
        self.messages.append(said)
        functions: list[Any] = said.tool_calls or []
        self._ids = [each.id for each in functions]
        self.calls = [(each.function.name, json.loads(each.function.arguments)) for each in functions]
        return said.content or ""

    def _ask_anthropic(self) -> str:
        raw = self._client.messages.with_raw_response.create(
            model=self.model, max_tokens=999, messages=self.messages, tools=self._tools or TOOLS, system="Be brief."
        )
        message = raw.parse()
        self.sent = json.loads(raw.http_request.content)
        self.usage = message.usage.input_tokens, message.usage.output_tokens
        self.messages.append({"role": "assistant", "content": message.content})
        text = "".join(block.text for block in message.content if block.type == "text")
        self.refusal = text if message.stop_reason == "refusal" else ""
        blocks: list[Any] = [block for block in message.content if block.type == "tool_use"]
        self._ids = [block.id for block in blocks]
        self.calls = [(block.name, block.input) for block in blocks]
        return text

    def tell(self, *texts: str) -> None:
        pairs = list(zip(self._ids, texts, strict=True))
        if self._wire == "openai":
            self.messages += [{"role": "tool", "tool_call_id": each, "content": text} for each, text in pairs]
        else:
            blocks = [{"type": "tool_result", "tool_use_id": each, "content": text} for each, text in pairs]
            self.messages.append({"role": "user", "content": blocks})


def weather(city: str) -> str:
    return json.dumps({"city": city, "temp": {"Rome": 20, "Oslo": 30, "Bäle": 10}[city]}, ensure_ascii=False)
