"""What endpoints do wrong ends a conversation with the reason; real ones need a key, and get it."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from bench.erring_endpoint import WIRES, Body, Doing, Erring, opened, refuses, said, talk
from callgate.bench.model.conversation import Ended, converse
from callgate.bench.model.endpoint import Endpoint, EndpointMissing
from callgate.bench.model.model_client import Wire
from callgate.bench.model.stand_in.server import serving

pytestmark = pytest.mark.anyio

UNUSABLE = [
    ("openai", said("openai"), "the model's reply is empty"),
    ("anthropic", said("anthropic"), "the model's reply is empty"),
    ("openai", said("openai", " \n"), "the model's reply is empty"),
    ("openai", said("openai", refusal="I will not"), "the model refused: I will not"),
    ("openai", said("openai", "so", finish="content_filter"), "the model refused: by the content filter"),
    ("anthropic", said("anthropic", "I will not", finish="refusal"), "the model refused: I will not"),
    ("anthropic", said("anthropic", finish="refusal"), "the model refused: without a word"),
    ("openai", said("openai", "half an ans", finish="length"), "the model's reply was cut at 10 tokens"),
    ("anthropic", said("anthropic", "half an ans", finish="max_tokens"), "the model's reply was cut at 10 tokens"),
    ("openai", {**said("openai", "20"), "usage": None}, "the model's endpoint gave a reply without its usage"),
    ("anthropic", {**said("anthropic", "20"), "usage": None}, "the model's endpoint gave a reply without its usage"),
    ("openai", {"error": "none"}, "the model's endpoint gave no reply: it is an error: none"),
    ("anthropic", {"error": "none"}, "the model's endpoint gave no reply: it is an error: "),
    ("openai", refuses(429), "the model's endpoint answered 429: RateLimitError: "),
    ("anthropic", refuses(429, "rate_limit_error"), "the model's endpoint answered 429: RateLimitError: "),
    ("openai", refuses(503), "the model's endpoint answered 503: InternalServerError: "),
    ("anthropic", refuses(529, "overloaded_error"), "the model's endpoint answered 529: "),
    ("openai", refuses(401), "the model's endpoint answered 401: AuthenticationError: "),
    ("anthropic", refuses(400), "the model's endpoint answered 400: BadRequestError: "),
]


@pytest.mark.parametrize(("wire", "answer", "reason"), UNUSABLE)
async def test_what_nobody_can_go_on_with_ends_it_with_the_reason(wire: Wire, answer: Any, reason: str) -> None:
    talked = await talk(Erring(wire, answer), wire)
    assert (talked.ended, talked.turns) == (Ended.FAILED, 1)
    assert talked.reason.startswith(reason)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_sdk_tries_again_where_it_may(wire: Wire) -> None:
    talked = await talk(Erring(wire, refuses(503), said(wire, "20")), wire, retries=1)
    assert (talked.ended, talked.turns) == (Ended.ANSWERED, 1)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_model_that_does_not_answer_in_time(wire: Wire) -> None:
    done = threading.Event()

    def waits() -> Body:
        done.wait(60)
        return said(wire, "20")

    with contextlib.suppress(OSError):  # the endpoint's, whose caller is gone
        try:
            talked = await talk(Erring(wire, waits), wire, timeout_seconds=0.2)
        finally:
            done.set()
    assert talked.ended is Ended.FAILED
    assert re.fullmatch("no (whole )?reply of the model within 0.2 s", talked.reason), "whichever is first"


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "no connection to the model: RemoteProtocolError"),
        (b"Content-Length: 99\r\n\r\n{", "the model's reply broke off, once: RemoteProtocolError"),
        (
            b"Content-Type: text/html\r\nContent-Length: 2\r\n\r\nhi",
            "the model's endpoint gave no reply: it is no JSON",
        ),
        (
            b"Content-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
            "the model's endpoint gave no reply: it is no JSON",
        ),
    ],
)
async def test_an_endpoint_that_speaks_no_http_or_no_json(wire: Wire, sent: bytes, words: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(b"HTTP/1.1 200 OK\r\n" + sent if sent else b"")
            self.close_connection = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        async with Endpoint(wire, base_url=url, key="any", retries=0) as endpoint:
            talked = await converse(endpoint.model("m"), task="?", opened=opened(), act=Doing(), most_turns=1)
        thread.join()
    assert talked.ended is Ended.FAILED
    assert talked.reason.startswith(words)


@pytest.mark.parametrize("wire", WIRES)
async def test_an_endpoint_that_dribbles_is_given_up(wire: Wire) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n")
            with contextlib.suppress(OSError):
                while not gone.wait(0.02):
                    self.wfile.write(b" ")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    gone = threading.Event()
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            async with Endpoint(wire, base_url=url, key="any", retries=0, timeout_seconds=0.3) as endpoint:
                talked = await converse(endpoint.model("m"), task="?", opened=opened(), act=Doing(), most_turns=1)
        finally:
            gone.set()
            thread.join()
    assert talked.ended is Ended.FAILED
    assert re.fullmatch("no (whole )?reply of the model within 0.3 s", talked.reason), "and not never"


async def test_nobody_listens() -> None:
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        gone = f"http://127.0.0.1:{server.server_address[1]}"
    async with Endpoint.scripted("openai", gone) as endpoint:
        talked = await converse(endpoint.model("m"), task="?", opened=opened(), act=Doing(), most_turns=1)
    assert talked.reason.startswith("no connection to the model: ConnectError")


async def test_a_real_endpoint_needs_a_key_and_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EndpointMissing, match="set OPENAI_API_KEY"):
        Endpoint.real("openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from the environment")
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(EndpointMissing, match=r"anthropic is not installed: pip install callgate\[bench\]"):
        async with Endpoint.real("anthropic"):
            pass


@pytest.mark.parametrize("wire", WIRES)
async def test_a_real_endpoint_gets_the_key_and_the_models_name(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from the environment")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "from the environment")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    seen: list[str] = []

    class Noting(Erring):
        def reply(self, headers: Mapping[str, str], body: Body) -> Body:
            seen.append(headers.get("authorization", ""))
            return super().reply(headers, body)

    api = Noting(wire, said(wire, "20"))
    with serving(api) as address:
        url = f"{address}/v1" if wire == "openai" else address
        async with Endpoint.real(wire, base_url=url) as endpoint:
            await converse(endpoint.model("big-1"), task="?", opened=opened(), act=Doing(), most_turns=1)
    assert seen == ["Bearer from the environment"]
    assert api.requests[0]["model"] == "big-1"
