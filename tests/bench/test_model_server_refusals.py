"""The scripted endpoint: what it bounds, refuses and lets go of."""

from __future__ import annotations

import http.client
import importlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from bench.model_asked import FUNCTIONS, HEADERS, USER, post, register, served
from bench.scripted_workloads import WORKLOADS, server_process
from callgate.bench.model.model_server import MOST_BODY_BYTES, MOST_CONVERSATIONS, ModelServer
from callgate.bench.model.tokens import Tokens


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served() as found:
        yield found


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
    encode = importlib.import_module("splintr").Tokenizer.from_pretrained("o200k_base").encode_ordinary
    long, longer = "a word and " * 100_000, "another ärow " * 1_000
    assert [tokens(each) for each in (long, long, longer, long)] == [
        len(encode(each)) for each in (long, long, longer, long)
    ]
    assert tokens("") == 0
    assert tokens("\ud83d") > 0, "half of a surrogate pair, which JSON may hold"
