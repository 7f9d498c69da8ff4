"""Connections whose requests never become complete: they keep nobody from working, and are closed."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import httpx2
import pytest

from callgate import ConfigurationError, Runtime
from callgate.mcp.messages import MAX_VALUES
from callgate.mcp.server import Serving, serve_http
from callgate.mcp.server.gateway import Gateway
from callgate.mcp.server.guard import Policy
from callgate.mcp.server.http import MAX_HALF_OPEN, most_connections, serve_app
from with_mcp.server.served import SECONDS

pytestmark = pytest.mark.anyio

TOKEN = "0123456789abcdef"
HEAD = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\nAuthorization: Bearer {TOKEN}"
HALVES = {
    "nothing": b"",
    "half a header": b"POST /mcp HTTP/1.1\r\nHost: 127",
    "no token and no body": b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n",
    "a token and no body": HEAD.encode() + b"\r\n\r\n{",
    "nonsense": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
DISCOVER = {
    "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}  # fmt: skip
HEADERS = {
    "authorization": f"Bearer {TOKEN}", "accept": "application/json, text/event-stream",
    "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list",
}  # fmt: skip


@asynccontextmanager
async def listening(request_seconds: float) -> AsyncIterator[int]:
    """A server in this process; its port."""
    policy = Policy(bind="127.0.0.1", token=TOKEN, request_seconds=request_seconds)
    urls: list[str] = []
    async with Runtime(sandbox=None) as runtime, anyio.create_task_group() as tasks:
        ready = anyio.Event()

        def up(url: str) -> None:
            urls.append(url)
            ready.set()

        with anyio.fail_after(SECONDS):
            tasks.start_soon(serve_app, Gateway(runtime, Serving()).server, policy, 0, up)
            await ready.wait()
            yield int(urls[0].split(":")[2].split("/")[0])
            tasks.cancel_scope.cancel()


async def works(port: int) -> None:
    """A good client's request is answered."""
    async with httpx2.AsyncClient(timeout=SECONDS) as http:
        answer = await http.post(f"http://127.0.0.1:{port}/mcp", json=DISCOVER, headers=HEADERS)
        assert answer.status_code == 200
        assert "execute_code" in answer.text


async def closed(stream: anyio.abc.ByteStream) -> bytes:
    """What the other end sends until it closes the connection."""
    seen = b""
    try:
        while True:
            seen += await stream.receive()
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return seen


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert "Traceback" not in caplog.text


async def test_two_hundred_are_in_nobodys_way_and_are_closed(quiet: None) -> None:
    async with listening(0.5) as port:
        streams = []
        for n in range(200):
            stream = await anyio.connect_tcp("127.0.0.1", port)
            await stream.send(list(HALVES.values())[n % len(HALVES)] or b"P")
            streams.append(stream)
        await works(port)
        for stream in streams:
            async with stream:
                await closed(stream)
        await works(port)


@pytest.mark.parametrize("half", HALVES)
async def test_each_kind_is_closed_though_single_bytes_keep_coming(quiet: None, half: str) -> None:
    async with listening(0.2) as port, await anyio.connect_tcp("127.0.0.1", port) as stream:
        if HALVES[half]:
            await stream.send(HALVES[half])
        seen = b""

        async def drip() -> None:
            try:
                while True:
                    await stream.send(b"x")
                    await anyio.sleep(0.02)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(drip)
            seen = await closed(stream)
            tasks.cancel_scope.cancel()
    told = {"no token and no body": b" 401 ", "nonsense": b" 400 "}
    assert told.get(half, b"") in seen


async def test_of_those_that_never_sent_headers_the_oldest_go_first(quiet: None) -> None:
    async with listening(SECONDS) as port:
        streams = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(MAX_HALF_OPEN + 5)]
        for stream in streams[:5]:
            await closed(stream)
        await works(port)
        youngest = streams[-1]
        await youngest.send(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b" 404 " in await youngest.receive()
        for stream in streams:
            await stream.aclose()


async def test_many_that_come_in_one_turn_of_the_loop_are_no_more(quiet: None) -> None:
    async with listening(SECONDS) as port:
        burst = []
        try:
            for _ in range(3 * MAX_HALF_OPEN):
                each = socket.socket()
                burst.append(each)
                each.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    each.connect(("127.0.0.1", port))
            await works(port)
            gone = 0
            for each in burst:
                with contextlib.suppress(BlockingIOError):
                    try:
                        gone += each.recv(1) == b""
                    except ConnectionResetError:
                        gone += 1
            assert gone >= 2 * MAX_HALF_OPEN
        finally:
            for each in burst:
                each.close()


async def test_who_was_refused_is_not_kept(quiet: None) -> None:
    async with listening(SECONDS) as port:
        for head in (b"GET /elsewhere HTTP/1.1\r\nHost: 127.0.0.1", b"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1"):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(head + b"\r\n\r\n")
                assert b"connection: close" in (await closed(stream)).lower()


async def test_a_message_of_very_many_values_is_refused_before_it_is_read(quiet: None) -> None:
    many = b'{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"v":[%s0]}}' % (b"[]," * MAX_VALUES)
    async with listening(SECONDS) as port:
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            answer = await http.post(f"http://127.0.0.1:{port}/mcp", content=many, headers=HEADERS)
        assert answer.status_code == 400
        assert f"more than {MAX_VALUES} values" in answer.text
        await works(port)


async def test_a_request_that_takes_long_is_not_cut_off(quiet: None) -> None:
    """A stream that the server writes to has no end of its own."""
    async with listening(0.1) as port, httpx2.AsyncClient(timeout=SECONDS) as http:
        body = DISCOVER | {"method": "subscriptions/listen"}
        params = {**DISCOVER["params"], "notifications": {"toolsListChanged": True}}  # type: ignore[dict-item]
        headers = HEADERS | {"mcp-method": "subscriptions/listen"}
        url = f"http://127.0.0.1:{port}/mcp"
        async with http.stream("POST", url, json=body | {"params": params}, headers=headers) as answer:
            assert answer.status_code == 200
            with anyio.move_on_after(0.5) as open_:
                async for _ in answer.aiter_bytes():
                    pass
            assert open_.cancelled_caught


def test_there_are_descriptors_left_for_guests() -> None:
    assert 16 <= most_connections() <= 1024


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_another_event_loop_is_refused_before_the_port_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        async with Runtime(sandbox=None) as runtime:
            with pytest.raises(ConfigurationError, match="HTTP is served under asyncio only"):
                await serve_http(runtime, port=taken.getsockname()[1])
