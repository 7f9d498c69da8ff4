"""Servers over HTTP: streamable HTTP and SSE, good ones, bad ones, and ones that are not there."""

from __future__ import annotations

import contextlib
import gc
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from callgate import ToolError, ToolTimedOut
from callgate.mcp.client import server as server_module
from callgate.mcp.client.http import shown_url
from with_mcp.client.served import SERVERS, Served, everything, lines, serving, until
from with_mcp.client.test_floods import memory

pytestmark = [
    pytest.mark.anyio,
    # On trio: the SDK leaves its loop over a stream when it has its answer, and with it the HTTP library's generators.
    pytest.mark.filterwarnings("ignore:Async generator '(httpx2|httpcore2|mcp)\\.:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What is left over is collected here, and not in another test."""
    yield
    gc.collect()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def listening_at(port: int, script: str, kind: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """The server of this script, listening."""
    command = [sys.executable, str(SERVERS / script), kind, str(port)]
    environment = {"PATH": "/usr/bin:/bin", **env}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listening\n"
            yield process
        finally:
            process.kill()


@contextlib.asynccontextmanager
async def everything_at(kind: str, path: str = "mcp", **more: Any) -> AsyncIterator[Served]:
    port = free_port()
    given = {"url": f"http://127.0.0.1:{port}/{path}", "type": "sse" if kind == "sse" else "http", **more}
    with listening_at(port, "everything.py", kind):
        async with serving({"ev": given}) as served:
            yield served


@contextlib.asynccontextmanager
async def hostile_at(kind: str, **options: Any) -> AsyncIterator[Served]:
    port = free_port()
    with listening_at(port, "hostile_http.py", kind):
        async with serving({"s": {"url": f"http://127.0.0.1:{port}/mcp"}}, **options) as served:
            yield served


@pytest.mark.parametrize(("kind", "path"), [("http", "mcp"), ("http-json", "mcp"), ("sse", "sse")])
async def test_tools_are_imported_and_called(kind: str, path: str) -> None:
    async with everything_at(kind, path) as served:
        status = served.status("ev")
        assert (status.state, status.transport, status.error) == ("running", "sse" if kind == "sse" else "http", None)
        assert await served.call("ev_add", {"a": 1, "b": 2}) == {"result": 3}
        assert await served.call("ev_echo", {"text": "ünï"}) == "ünï"
        assert await served.call("ev_big", {"bytes": 500_000}) == "x" * 500_000
        with pytest.raises(ToolError, match="out of paper"):
            await served.call("ev_fail", {"message": "out of paper"})


@pytest.mark.parametrize(("kind", "path"), [("http", "mcp"), ("sse", "sse")])
async def test_a_changed_list_of_tools_is_seen(kind: str, path: str) -> None:
    async with everything_at(kind, path) as served:
        # the stream on which changes are told is opened beside the handshake; nothing says when
        await served.call("ev_grow", {"name": "sprout"})
        with anyio.fail_after(20):
            grown = 0
            while "ev_sprout" not in served.registry:
                with anyio.move_on_after(0.5):
                    await until(lambda: "ev_sprout" in served.registry)
                    break
                grown += 1
                await served.call("ev_grow", {"name": f"other{grown}"})
        assert await served.call("ev_sprout") == "I am sprout"


async def test_a_time_limit_ends_the_call_and_the_server_is_told(tmp_path: Path) -> None:
    notes, port = tmp_path / "notes", free_port()
    with listening_at(port, "everything.py", "http", EVERYTHING_NOTES=str(notes)):
        async with serving({"ev": {"url": f"http://127.0.0.1:{port}/mcp"}}) as served:
            with anyio.fail_after(5), pytest.raises(ToolTimedOut):
                await served.call("ev_wait", {"seconds": 60}, timeout_seconds=0.5)
            await until(lambda: lines(notes) == ["wait began", "wait cancelled"])


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_headers_are_sent_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp?key=query-secret"
    good = {"url": url, "headers": {"Authorization": "Bearer right-secret"}}
    bad = {"url": url, "headers": {"Authorization": "Bearer wrong-secret"}}
    with caplog.at_level("DEBUG"), listening_at(port, "everything.py", "http", EVERYTHING_TOKEN="right-secret"):
        async with serving({"good": good, "bad": bad}, ready_seconds=10) as served:
            assert await served.call("good_echo", {"text": "x"}) == "x"
            assert served.status("bad").error is not None
            status = served.servers.status()
    assert status[1].error == "it refused the handshake: it answered HTTP 401 Unauthorized"
    assert status[1].remedy == "check the credentials in 'headers'"
    shown = repr(status) + repr(served.servers) + caplog.text
    assert not any(secret in shown for secret in ("right-secret", "wrong-secret", "query-secret"))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_is_not_there_is_one_clear_line_and_found_when_it_comes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server_module, "FIRST_DELAY_SECONDS", 0.01)
    port = free_port()
    async with serving({"ev": {"url": f"http://127.0.0.1:{port}/mcp"}}) as served:
        status = await served.until("ev", "failed")
        assert status.error is not None
        assert status.error.startswith(
            f"given up after 5 starts: it cannot be reached at http://127.0.0.1:{port}/mcp: "
        )
        assert status.remedy == "start it, or check 'url'"
        with listening_at(port, "everything.py", "http"):
            assert (await served.servers.restart("ev")).state == "running"
            assert await served.call("ev_echo", {"text": "x"}) == "x"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_goes_fails_its_calls_clearly_and_is_found_again() -> None:
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        first = stack.enter_context(listening_at(port, "everything.py", "http"))
        served = await stack.enter_async_context(serving({"ev": {"url": f"http://127.0.0.1:{port}/mcp"}}))
        messages: list[str] = []

        async def one() -> None:
            with pytest.raises(ToolError) as raised:
                await served.call("ev_wait", {"seconds": 60})
            messages.append(raised.value.message)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one)
            await anyio.sleep(0.5)
            first.kill()
        assert messages[0].startswith("server 'ev': ")
        await until(lambda: served.status("ev").state != "running")
        with listening_at(port, "everything.py", "http"):
            await served.until("ev", "running")
            assert await served.call("ev_echo", {"text": "back"}) == "back"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_session_that_the_server_forgot_is_opened_again() -> None:
    async with hostile_at("forgets") as served:
        with pytest.raises(ToolError) as raised:
            await served.call("s_echo", {"text": "x"})
        assert raised.value.message == ("server 's': its session ended, and is opened again; the call was not made")
        assert raised.value.retryable
        assert await served.call("s_echo", {"text": "x"}) == "fine"
        assert served.status("s").restarts == 1


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("status_500", "it refused the handshake: it answered HTTP 500 Internal Server Error"),
        ("not_found", "it refused the handshake: it answered HTTP 404 Not Found"),
        ("redirects", "it refused the handshake: Redirect to http://elsewhere.example/mcp not followed"),
        ("html", "it refused the handshake: Unexpected content type: text/html"),
        ("garbage", "it refused the handshake: "),
    ],
)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_no_mcp_server_is_one_clear_line(kind: str, error: str) -> None:
    async with hostile_at(kind) as served:
        status = served.status("s")
        assert status.state == "starting"
        assert (status.error or "").startswith(error)
        assert "\n" not in (status.error or "")
        assert "internal secrets" not in repr(status)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("huge", "the answer has more than 33554432 bytes: ask for less"),
        ("huge_event", "SSE stream failed: Server-sent event exceeded the 33554432 byte limit"),
        ("gzip_bomb", "it sent a compressed answer although none was asked for"),
        ("breaks", "the connection broke before it answered"),
        ("breaks_events", "SSE stream ended without a response"),
        ("refuses", "it answered HTTP 403 Forbidden"),
    ],
)
async def test_an_answer_that_is_not_to_be_borne_fails_its_call_alone(kind: str, message: str) -> None:
    async with hostile_at(kind) as served:
        before = memory()
        for _ in range(2):
            with anyio.fail_after(20), pytest.raises(ToolError, match=message):
                await served.call("s_echo", {"text": "x"})
        assert memory() - before < 250 * 1024 * 1024
        assert (served.status("s").state, served.status("s").restarts) == ("running", 0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_flood_of_events_leaves_the_others_room() -> None:
    async with hostile_at("flood") as served:
        with anyio.fail_after(15), pytest.raises(ToolTimedOut):
            await served.call("s_echo", {"text": "x"}, timeout_seconds=2)
        assert served.status("s").state == "running"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_server_that_hangs_is_left_by_the_time_limit_and_at_the_end() -> None:
    began = anyio.current_time()
    async with hostile_at("hangs") as served:
        with pytest.raises(ToolTimedOut):
            await served.call("s_echo", {"text": "x"}, timeout_seconds=0.5)
    assert anyio.current_time() - began < 15


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_address_that_does_not_answer_holds_up_nobody() -> None:
    with socket.socket() as silent:  # accepts, and never speaks
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = anyio.current_time()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"
        async with serving({"s": {"url": url}}, ready_seconds=0.5) as served:
            assert served.status("s").state == "starting"
        assert anyio.current_time() - began < 15


def test_a_url_is_shown_without_what_may_be_secret() -> None:
    assert shown_url("https://user:pass@host:8443/mcp/x?key=1#frag") == "https://host:8443/mcp/x"


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_user_and_query_of_the_url_reach_the_server() -> None:
    requests: list[str] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]

        def one() -> None:
            connection, _ = listener.accept()
            with connection:
                requests.append(connection.recv(65536).decode())
                connection.sendall(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")

        answering = threading.Thread(target=one, daemon=True)
        answering.start()
        async with serving({"s": {"url": f"http://me:pass%20word@127.0.0.1:{port}/mcp?key=k"}}, ready_seconds=0):
            await anyio.to_thread.run_sync(answering.join, 20)
    head = requests[0].lower()
    assert head.startswith("post /mcp?key=k http/1.1\r\n")
    assert "authorization: basic bwu6cgfzcyb3b3jk\r\n" in head  # me:pass word
    assert "accept-encoding: identity\r\n" in head


@pytest.mark.parametrize("status", [200, 302, 307, 401, 404, 500])
async def test_a_stream_that_does_not_open_costs_its_own_server_only(status: int) -> None:
    port = free_port()
    bad = {"url": f"http://127.0.0.1:{port}/sse", "type": "sse"}
    with listening_at(port, "hostile_http.py", f"get_{status}"):
        async with serving({"bad": bad, "good": everything()}) as served:
            assert await served.call("good_echo", {"text": "x"}) == "x"
            await until(lambda: served.status("bad").error is not None)
            error = served.status("bad").error
            assert error is not None
            assert status == 200 or f"it answered HTTP {status}" in error
            assert await served.call("good_echo", {"text": "y"}) == "y"
