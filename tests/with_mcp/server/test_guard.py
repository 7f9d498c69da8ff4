"""Who is let in over HTTP: a table of headers and answers, and what a policy refuses to be."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
from starlette.types import Message, Receive, Scope, Send

from callgate.errors import ConfigurationError
from callgate.mcp.server.guard import Guard, Policy

pytestmark = pytest.mark.anyio

TOKEN = "0123456789abcdef"
LOCAL = Policy(bind="127.0.0.1")
LOCKED = Policy(bind="127.0.0.1", token=TOKEN)
OPEN = Policy(bind="0.0.0.0", token=TOKEN)
NAMED = Policy(bind="0.0.0.0", token=TOKEN, hosts=("Gate.example",), origins=("https://app.example",))


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers with the length of the body."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(len(message.get("body", b""))).encode()})


async def ask(
    policy: Policy, *headers: tuple[str, str], method: str = "POST", path: str = "/mcp", body: list[bytes] | None = None
) -> tuple[int, str, dict[str, str]]:
    """Status, body and headers of the answer to one request."""
    parts = [PING] if body is None else body
    sent: list[Message] = []

    async def receive() -> Message:
        if not parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers]
    with anyio.fail_after(10):
        await Guard(app, policy)({"type": "http", "method": method, "path": path, "headers": raw}, receive, send)
    start, content = sent
    found: dict[str, str] = {name.decode(): value.decode() for name, value in start["headers"]}
    status: Any = start["status"]
    return status, content["body"].decode(), found


PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
HOST = ("host", "127.0.0.1:8765")
BEARER = ("authorization", f"Bearer {TOKEN}")


@pytest.mark.parametrize(
    ("policy", "headers", "status"),
    [
        (LOCAL, [HOST], 200),
        (LOCAL, [("host", "localhost:8765")], 200),
        (LOCAL, [("host", "LOCALHOST")], 200),
        (LOCAL, [("host", "[::1]:8765")], 200),
        (LOCAL, [("host", "127.0.0.1.evil.example:8765")], 421),
        (LOCAL, [("host", "evil.example")], 421),
        (LOCAL, [("host", "localhost.evil.example")], 421),
        (LOCAL, [], 421),
        (LOCAL, [("host", "")], 421),
        (LOCAL, [HOST, HOST], 421),
        (LOCAL, [("host", "evil.example"), HOST], 421),
        (LOCAL, [HOST, ("origin", "http://127.0.0.1:8765")], 200),
        (LOCAL, [HOST, ("origin", "http://evil.example")], 403),
        (LOCAL, [HOST, ("origin", "http://127.0.0.1:8765.evil.example")], 403),
        (LOCAL, [HOST, ("origin", "http://127.0.0.1:3000")], 403),
        (LOCAL, [HOST, ("origin", "null")], 403),
        (LOCAL, [HOST, ("origin", "")], 403),
        (LOCKED, [HOST], 401),
        (LOCKED, [HOST, BEARER], 200),
        (LOCKED, [HOST, ("authorization", f"bearer  {TOKEN} ")], 200),
        (LOCKED, [HOST, ("authorization", TOKEN)], 401),
        (LOCKED, [HOST, ("authorization", f"Basic {TOKEN}")], 401),
        (LOCKED, [HOST, ("authorization", f"Bearer {TOKEN}x")], 401),
        (LOCKED, [HOST, ("authorization", f"Bearer {TOKEN[:-1]}")], 401),
        (LOCKED, [HOST, ("authorization", "Bearer ")], 401),
        (LOCKED, [HOST, ("authorization", "Bearer \xff\xfe")], 401),
        (LOCKED, [HOST, BEARER, BEARER], 401),
        (OPEN, [("host", "any.example"), BEARER], 200),
        (OPEN, [("host", "any.example")], 401),
        (NAMED, [("host", "gate.example:80"), BEARER], 200),
        (NAMED, [("host", "localhost"), BEARER], 200),
        (NAMED, [("host", "other.example"), BEARER], 421),
        (NAMED, [("host", "gate.example"), BEARER, ("origin", "https://app.example")], 200),
        (NAMED, [("host", "gate.example"), BEARER, ("origin", "https://app.example.evil")], 403),
        (NAMED, [("host", "gate.example"), ("origin", "https://app.example")], 401),
    ],
)
async def test_who_is_let_in(policy: Policy, headers: list[tuple[str, str]], status: int) -> None:
    assert (await ask(policy, *headers))[0] == status


async def test_refusals_are_one_line_without_the_token(caplog: pytest.LogCaptureFixture) -> None:
    _, body, headers = await ask(LOCKED, HOST, ("authorization", "Bearer secret-but-wrong"))
    assert "\n" not in body
    assert "the token is wrong: send the header 'Authorization: Bearer TOKEN'" in body
    assert headers["www-authenticate"] == "Bearer"
    _, body, _ = await ask(LOCKED, HOST)
    assert "a token is required" in body
    _, body, _ = await ask(LOCAL, ("host", "evil\x1b[31m"))
    assert "\x1b" not in body
    assert len(caplog.records) == 3
    assert TOKEN not in caplog.text
    assert "secret-but-wrong" not in caplog.text


async def test_very_many_refusals_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None: ...

    guard = Guard(app, LOCKED)
    headers = [(HOST[0].encode(), HOST[1].encode())]
    for _ in range(500):
        await guard({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
    assert 1 <= len(caplog.records) < 20
    guard._logged_at = 0.0
    await guard({"type": "http", "method": "POST", "path": "/mcp", "headers": headers}, receive, send)
    assert re.search(r"\(and \d+ more were refused since the line before\)$", caplog.messages[-1])


async def test_a_body_may_be_so_long() -> None:
    small = Policy(bind="127.0.0.1", max_body_bytes=len(PING))
    assert (await ask(small, HOST, body=[PING[:5], PING[5:]]))[:2] == (200, str(len(PING)))
    assert (await ask(small, HOST, body=[PING, b" "]))[0] == 413
    declared = ("content-length", "1000000000000")
    assert (await ask(small, HOST, declared, body=[PING]))[0] == 413


async def test_there_is_one_place() -> None:
    status, body, _ = await ask(LOCAL, HOST, path="/")
    assert status == 404
    assert "/mcp" in body


async def test_a_page_that_is_allowed_may_read_the_answer() -> None:
    page = ("origin", "https://app.example")
    asks = ("access-control-request-method", "POST"), ("access-control-request-headers", "authorization, mcp-name")
    status, _, headers = await ask(NAMED, ("host", "gate.example"), page, *asks, method="OPTIONS")
    assert status == 200
    assert headers["access-control-allow-origin"] == "https://app.example"
    assert "authorization" in headers["access-control-allow-headers"]
    assert (await ask(NAMED, ("host", "gate.example"), page, method="OPTIONS"))[0] == 401
    _, _, headers = await ask(NAMED, ("host", "gate.example"), BEARER, page)
    assert headers["access-control-allow-origin"] == "https://app.example"
    _, _, headers = await ask(NAMED, ("host", "gate.example"), BEARER)
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.168.1.5", "gate.example", "10.0.0.1"])
def test_where_others_can_connect_a_token_is_required(bind: str) -> None:
    with pytest.raises(ConfigurationError, match="a token is required"):
        Policy(bind=bind)


@pytest.mark.parametrize("bind", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_on_this_machine_none_is(bind: str) -> None:
    assert Policy(bind=bind).token is None


def test_a_token_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the token has 5 characters; it needs 16 or more"):
        Policy(bind="127.0.0.1", token="12345")
