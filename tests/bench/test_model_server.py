"""The scripted endpoint, a process of its own, as the real SDKs find it."""

from __future__ import annotations

import http.client
import importlib
import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import anthropic
import openai
import pytest

from bench.scripted_workloads import CITIES, PLAN, PROGRAM, TOOLS, WORKLOADS, server_process
from callgate.bench.model.model_server import MOST_BODY_BYTES, MOST_CONVERSATIONS, ModelServer
from callgate.bench.model.scripted_model import FAILED
from callgate.bench.model.stand_in.server import KEY
from callgate.bench.model.tokens import Tokens

HEADERS = {"content-type": "application/json", "authorization": f"Bearer {KEY}", "anthropic-version": "2023-06-01"}
FUNCTIONS: Any = [
    {"type": "function", "function": {"name": each["name"], "parameters": each["input_schema"]}} for each in TOOLS
]
USER: Any = {"role": "user", "content": "Where is it warmest?"}
WIRES = ["openai", "anthropic"]
CLIENTS: dict[str, Any] = {}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
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


@pytest.mark.parametrize("wire", WIRES)
def test_a_batch_is_one_turn_with_several_calls(wire: str, address: str) -> None:
    chat = Chatting(wire, register(address))
    chat.ask()
    assert chat.calls == [("get_weather", {"city": city}) for city in CITIES]
    chat.tell(*map(weather, CITIES))
    chat.ask()
    assert chat.calls == [("get_height", {"city": "Oslo"})]
    chat.tell('{"metres": 23}')
    assert (chat.ask(), chat.calls) == ("Oslo: 30 degrees, 23 m", [])


@pytest.mark.parametrize("wire", WIRES)
def test_one_at_a_time_every_call_is_a_turn(wire: str, address: str) -> None:
    made = []
    chat = Chatting(wire, register(address, form="direct"))
    while not (said := chat.ask()):
        ((name, arguments),) = chat.calls
        made.append((name, arguments["city"]))
        chat.tell(weather(arguments["city"]) if name == "get_weather" else '{"metres": 23}')
    assert made == [*(("get_weather", city) for city in CITIES), ("get_height", "Oslo")]
    assert said == "Oslo: 30 degrees, 23 m"


@pytest.mark.parametrize("wire", WIRES)
def test_a_plan_is_an_object_and_a_program_is_rewritten(wire: str, address: str) -> None:
    schema = {"type": "object", "properties": {}}
    names: Any = [{"name": "run", "input_schema": schema}]
    if wire == "openai":
        names = [{"type": "function", "function": {"name": "run", "parameters": schema}}]
    chat = Chatting(wire, register(address, form="plan", tool="run", argument="plan"), names)
    chat.ask()
    ((name, written),) = chat.calls
    assert (name, written["plan"] | {"goal": ""}) == ("run", PLAN | {"goal": ""})
    chat.tell("rome: succeeded")
    assert chat.ask() == "planned: rome: succeeded"
    search = {"tool": "run", "arguments": {"query": "weather"}}
    order: Any = {"form": "program", "tool": "run", "argument": "code", "first": [[search, search], [search]]}
    chat = Chatting(wire, register(address, **order, dialect="sync"), names)
    chat.ask()
    assert chat.calls == [("run", {"query": "weather"})] * 2
    chat.tell("found", "found")
    chat.ask()
    chat.tell("found again")
    chat.ask()
    ((_, arguments),) = chat.calls
    assert "await" in PROGRAM
    assert "await" not in arguments["code"]
    assert "get_weather(city='Rome')" in arguments["code"]
    chat.tell("answer: 20")
    assert chat.ask() == "programmed: 20"


def test_no_two_conversations_have_the_same_program_or_plan_and_theirs_cost_as_much(address: str) -> None:
    names = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object", "properties": {}}}}]
    for form, argument, dialect in (("program", "code", "callgate"), ("program", "code", "sync"), ("plan", "plan", "")):
        written, costs = [], []
        for _ in range(3):
            order = {"form": form, "tool": "run", "argument": argument} | ({"dialect": dialect} if dialect else {})
            chat = Chatting("openai", register(address, **order), names)
            chat.ask()
            written.append(json.dumps(chat.calls[0][1][argument]))
            costs.append(chat.usage[1])
        assert len(set(written)) == 3
        assert len({re.sub(r"conversation \d{4}", "", each) for each in written}) == 1
        assert len(set(costs)) == 1


def _by_hand(sent: dict[str, Any]) -> int:
    """The tokens of a request, by the tokenizer alone."""
    count = importlib.import_module("rs_bpe.bpe").openai.o200k_base().count
    texts = [json.dumps(sent["tools"], ensure_ascii=False, separators=(",", ":")), sent.get("system", "")]
    for message in sent["messages"]:
        content = message.get("content") or ""
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "tool_use":
                texts += [block["name"], json.dumps(block["input"], ensure_ascii=False, separators=(",", ":"))]
            else:
                texts.append(block["text"] if block["type"] == "text" else block["content"])
        for call in message.get("tool_calls", []):
            texts += [call["function"]["name"], call["function"]["arguments"]]
    return sum(count(text) for text in texts)


@pytest.mark.parametrize("wire", WIRES)
def test_usage_is_what_the_tokenizer_says_of_the_body_that_was_sent(wire: str, address: str) -> None:
    count = importlib.import_module("rs_bpe.bpe").openai.o200k_base().count
    chat = Chatting(wire, register(address))
    chat.ask()
    first = chat.usage
    assert first[0] == _by_hand(chat.sent) > 50
    arguments = [json.dumps({"city": city}, ensure_ascii=False, separators=(",", ":")) for city in CITIES]
    assert first[1] == sum(count("get_weather") + count(each) for each in arguments)
    chat.tell(*map(weather, CITIES))
    chat.ask()
    assert chat.usage[0] == _by_hand(chat.sent) > first[0]
    chat.tell('{"metres": 23}')
    said = chat.ask()
    assert chat.usage == (_by_hand(chat.sent), count(said))


@pytest.mark.parametrize("wire", WIRES)
def test_an_answer_waits_for_the_turn_and_for_its_tokens(wire: str, address: str) -> None:
    chat = Chatting(wire, register(address, turn_seconds=0.2, token_seconds=0.01))
    began = time.perf_counter()
    chat.ask()
    taken = time.perf_counter() - began
    assert taken >= 0.2 + 0.01 * chat.usage[1] > 0.3


def test_conversations_go_on_side_by_side(address: str) -> None:
    names = [register(address, turn_seconds=0.5) for _ in range(40)]
    body = {"messages": [USER], "tools": FUNCTIONS}
    began = time.perf_counter()
    with ThreadPoolExecutor(len(names)) as pool:
        answers = list(pool.map(lambda name: post(address, "/v1/chat/completions", {"model": name, **body}), names))
    assert {status for status, _ in answers} == {200}
    assert 0.5 <= time.perf_counter() - began < 15, "one after the other they would take 20 s"


def test_what_is_too_long_is_refused_as_openai_does(address: str) -> None:
    chat = Chatting("openai", register(address, context_tokens=100))
    chat.messages = [{"role": "user", "content": "long " * 500}]
    with pytest.raises(openai.BadRequestError) as caught:
        chat.ask()
    assert (caught.value.code, caught.value.param, caught.value.type) == (
        "context_length_exceeded", "messages", "invalid_request_error",
    )  # fmt: skip
    tokens = _by_hand({"messages": chat.messages, "tools": FUNCTIONS})
    assert f"limit of 100 tokens. Your messages resulted in {tokens} tokens." in str(caught.value)


def test_what_is_too_long_is_refused_as_anthropic_does(address: str) -> None:
    chat = Chatting("anthropic", register(address, context_tokens=100))
    chat.messages = [{"role": "user", "content": "long " * 500}]
    with pytest.raises(anthropic.BadRequestError) as caught:
        chat.ask()
    tokens = _by_hand({"messages": chat.messages, "tools": TOOLS, "system": "Be brief."})
    error = {"type": "invalid_request_error", "message": f"prompt is too long: {tokens} tokens > 100 maximum"}
    assert caught.value.body["error"] == error  # type: ignore[index]


def test_input_that_just_fits_is_taken(address: str) -> None:
    tokens = _by_hand({"messages": [USER], "tools": FUNCTIONS})
    body = {"messages": [USER], "tools": FUNCTIONS}
    for most, status in ((tokens, 200), (tokens - 1, 400)):
        name = register(address, context_tokens=most)
        assert post(address, "/v1/chat/completions", {"model": name, **body})[0] == status


def test_a_model_that_nobody_registered_is_not_found(address: str) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        Chatting("openai", "gpt-6").ask()
    assert caught.value.code == "model_not_found"
    with pytest.raises(anthropic.NotFoundError, match="'not_found_error', 'message': 'model: claude'"):
        Chatting("anthropic", "claude").ask()


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("fails", "not what was expected: so it is"),
        ("breaks", "a result that is no JSON: so it is"),
        ("invents", "AssertionError: the script calls get_wether, which is not among"),
        ("stalls", "it neither calls a tool nor answers"),
    ],
)
def test_a_script_that_fails_is_a_model_that_refuses(wire: str, workload: str, words: str, address: str) -> None:
    chat = Chatting(wire, register(address, workload))
    chat.ask()
    if not chat.refusal:
        chat.tell("so it is")
        chat.ask()
    assert chat.refusal.startswith(FAILED + words)
    assert chat.calls == []
    register(address)


@pytest.mark.parametrize("wire", WIRES)
def test_a_request_that_is_sent_again_gets_the_same_words_and_another_turn_none(wire: str, address: str) -> None:
    chat = Chatting(wire, register(address))
    chat.ask()
    first = chat.calls
    chat.messages.pop()
    chat.ask()
    assert chat.calls == first
    chat.messages *= 3
    chat.messages.append(USER)
    late = register(address)
    body = {"model": late, "messages": [USER, {"role": "assistant", "content": "hm"}, USER], "tools": FUNCTIONS}
    status, answer = post(address, "/v1/chat/completions", body)
    assert status == 200
    assert answer["choices"][0]["message"]["refusal"] == FAILED + "it is at turn 0, and is asked for turn 1"


@pytest.mark.parametrize("wire", WIRES)
def test_results_of_six_megabytes_are_read_and_counted(wire: str, address: str) -> None:
    rows = json.dumps({"city": "Rome", "temp": 90, "rows": ["ä row of many"] * 400_000}, ensure_ascii=False)
    assert len(rows.encode()) > 6_000_000
    chat = Chatting(wire, register(address))
    chat.ask()
    chat.tell(rows, *map(weather, CITIES[1:]))
    chat.ask()
    assert chat.calls == [("get_height", {"city": "Rome"})]
    assert chat.usage[0] > 1_000_000


def test_what_is_read_is_bounded(address: str) -> None:
    body = b'{"model": "' + b"a" * MOST_BODY_BYTES + b'"}'
    status, answer = post(address, "/v1/messages", body)
    assert (status, answer["error"]["type"]) == (413, "request_too_large")
    register(address)


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/v1/chat/completions", b"{", 400, "not valid JSON"),
        ("/v1/chat/completions", b"\xff", 400, "not valid JSON"),
        ("/v1/messages", b"[" * 100_000, 400, "not valid JSON"),
        ("/v1/messages", b"[]", 400, "not a JSON object"),
        ("/v1/responses", b"{}", 404, "Unknown request URL: POST /v1/responses"),
        ("/v1/chat/completions", b'{"model": ["a"]}', 404, "does not exist"),
        ("/v1/chat/completions", b'{"model": "NAME", "stream": true}', 400, "does not stream"),
        ("/v1/chat/completions", b'{"model": "NAME", "messages": [1]}', 500, "AttributeError"),
    ],
)
def test_what_cannot_be_answered_is_refused(address: str, path: str, body: bytes, status: int, words: str) -> None:
    got, answer = post(address, path, body.replace(b"NAME", register(address).encode()))
    assert got == status
    assert words in answer["error"]["message"]


def test_a_request_without_a_length_or_a_key_is_refused(address: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
    connection.putrequest("POST", "/v1/messages")
    connection.endheaders()
    assert connection.getresponse().status == 411
    connection.close()
    body = {"model": register(address), "messages": [USER]}
    status, answer = post(address, "/v1/chat/completions", body, {"authorization": "Bearer none"})
    assert (status, answer["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize(
    ("order", "words"),
    [
        ({"workload": "wether"}, "no such workload: 'wether'; there are breaks, fails"),
        ({"form": "code"}, "no such form: 'code'; there are direct, direct-parallel, plan, program"),
        ({"form": "plan"}, "a plan needs `tool` and `argument`"),
        ({"form": "plan", "workload": "fails", "tool": "a", "argument": "b"}, "fails has no plan: nobody wrote one"),
        ({"workload": "uncalled"}, "uncalled has no calls: too much"),
        ({"tool": 1}, "tool has to be text"),
        ({"turn_seconds": "1"}, "turn_seconds has to be a number"),
        ({"turn_seconds": -1}, "turn_seconds has to be a number"),
        ({"turn_seconds": float("nan")}, "turn_seconds has to be a number"),
        ({"context_tokens": 1.5}, "context_tokens has to be a number"),
        ({"context_token": 1}, "no such field: context_token"),
        ({"first": [[{"tool": "a", "arguments": {}}]]}, "first: a model that calls tools itself"),
        ({"form": "program", "tool": "a", "argument": "b", "first": [[]]}, "first has to be a list of lists"),
        ({"form": "program", "tool": "a", "argument": "b", "first": [["a"]]}, "a call is"),
    ],
)
def test_conversations_that_cannot_be_registered(address: str, order: dict[str, Any], words: str) -> None:
    status, answer = post(address, "/conversations", {"workload": "weather", "form": "direct", **order})
    assert status == 400
    assert words in answer["error"]["message"]


def test_no_conversation_is_kept_for_ever() -> None:
    server = ModelServer(WORKLOADS, lambda program, dialect, tools: program, len)
    names = []
    for _ in range(MOST_CONVERSATIONS + 1):
        order = json.dumps({"workload": "weather", "form": "direct"}).encode()
        names.append(server.answer("/conversations", HEADERS, order)[1]["model"])
    for name, status in ((names[0], 404), (names[1], 200), (names[-1], 200)):
        body = json.dumps({"model": name, "messages": [USER], "tools": FUNCTIONS}).encode()
        assert server.answer("/v1/chat/completions", HEADERS, body)[0] == status


def test_it_ends_when_its_stdin_does() -> None:
    with server_process() as (process, address):
        name = register(address, turn_seconds=60)
        connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        body = json.dumps({"model": name, "messages": [USER], "tools": FUNCTIONS})
        connection.request("POST", "/v1/chat/completions", body, HEADERS)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30) == 0, "even while somebody waits for an answer"
        connection.close()


def test_a_text_is_counted_once_and_kept_as_a_digest() -> None:
    tokens = Tokens(most_kept=1)
    count = importlib.import_module("rs_bpe.bpe").openai.o200k_base().count
    long, longer = "a word and " * 100_000, "another ärow " * 1_000
    assert [tokens(each) for each in (long, long, longer, long)] == [count(each) for each in (long, long, longer, long)]
    assert tokens("") == 0
    assert tokens("\ud83d") > 0, "half of a surrogate pair, which JSON may hold"
