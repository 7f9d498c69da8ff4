"""HTTP on loopback: the whole way with the SDK's client, the doors, and the end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import MCPError

from with_mcp.server.served import ERAS, SECONDS, Ear, Served, children, text, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_with_the_token_is_served(served: Served, era: str) -> None:
    ear = Ear()
    with served.http("--token-env", "WORD") as (url, _):
        async with served.http_client(url, era=era, token=served.environment["WORD"], ear=ear) as client:
            assert len((await client.list_tools()).tools) == 4
            result = await client.call_tool(
                "execute_code", {"code": "print('a')\nawait get_weather('Oslo')"}, progress_callback=ear.on_progress
            )
            assert text(result) == 'a\nValue: {"temp": 4}'
            assert ear.printed == "a\n"
            assert ear.progress


async def test_everybody_else_is_told_why_not_and_the_server_goes_on(served: Served) -> None:
    word = {"authorization": f"Bearer {served.environment['WORD']}"}
    accepts = {"accept": "application/json, text/event-stream"}
    with served.http("--token-env", "WORD") as (url, _):
        async with httpx2.AsyncClient(timeout=SECONDS) as http:
            for headers, body, status, told in (
                ({}, b"{}", 401, "a token is required"),
                ({"authorization": "Bearer wrong"}, b"{}", 401, "the token is wrong"),
                (word | {"origin": "http://evil.example"}, b"{}", 403, "pages of http://evil.example may not"),
                (word | {"host": "evil.example"}, b"{}", 421, "this server is not evil.example"),
                (word | accepts, b"not json", 400, "not a JSON-RPC message"),
                (word | accepts, b'{"jsonrpc": "2.0"}', 400, "not a JSON-RPC message"),
                (word | accepts, b"[" * 100_000, 400, "not a JSON-RPC message"),
            ):
                answer = await http.post(url, content=body, headers=headers | {"content-type": "application/json"})
                assert answer.status_code == status
                message = json.loads(answer.text)["error"]["message"]
                assert told in message
                assert "\n" not in message

            async def pieces() -> object:
                for _ in range(80):
                    yield b"x" * 65536

            for long in (b"x" * 5_000_000, pieces()):
                answer = await http.post(url, content=long, headers=word)  # type: ignore[arg-type]
                assert answer.status_code == 413
            assert (await http.get(url.removesuffix("/mcp"), headers=word)).status_code == 404
        async with served.http_client(url, token=served.environment["WORD"]) as client:
            assert text(await client.call_tool("execute_code", {"code": "1 + 1"})) == "Value: 2"


async def test_clients_do_not_get_each_others_notes(served: Served) -> None:
    ears = Ear(), Ear()
    with served.http() as (url, _):
        async with (
            served.http_client(url, ear=ears[0]) as one,
            served.http_client(url, ear=ears[1]) as other,
            anyio.create_task_group() as tasks,
        ):
            for client, word in ((one, "one"), (other, "other")):
                code = {"code": f"for n in range(20):\n    print({word!r})\n    await names()"}
                tasks.start_soon(client.call_tool, "execute_code", code)
    assert (ears[0].printed, ears[1].printed) == ("one\n" * 20, "other\n" * 20)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
async def test_a_signal_ends_it_with_its_runs(served: Served, era: str, number: int, status: int) -> None:
    with served.http() as (url, process):
        async with httpx2.AsyncClient(timeout=SECONDS) as http, anyio.create_task_group() as tasks:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
            headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
            if era == "legacy":
                begin = {
                    "jsonrpc": "2.0", "id": 0, "method": "initialize",
                    "params": {
                        "protocolVersion": "2025-11-25", "capabilities": {},
                        "clientInfo": {"name": "test", "version": "1"},
                    },
                }  # fmt: skip
                begun = await http.post(url, json=begin, headers=headers)
                headers["mcp-session-id"] = begun.headers["mcp-session-id"]
                await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
                tasks.start_soon(listen, http, url, headers)
                meta = {}
            else:
                headers |= {
                    "mcp-protocol-version": "2026-07-28",
                    "mcp-method": "tools/call",
                    "mcp-name": "execute_code",
                }
                meta = {
                    "_meta": {
                        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                        "io.modelcontextprotocol/clientCapabilities": {},
                    }
                }
            params = {"name": "execute_code", "arguments": {"code": "while True:\n    await hold(name='a')"}, **meta}
            tasks.start_soon(listen, http, url, headers, body | {"params": params})
            await until((served.folder / "a.begun").exists)
            below = children(process.pid)
            assert below
            process.send_signal(number)
            with anyio.fail_after(20):
                assert await anyio.to_thread.run_sync(process.wait) == status
            assert (served.folder / "a.ended").exists()
            assert not below & alive()
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def alive() -> set[int]:
    """Every process that is not a zombie."""
    return children(1)


async def listen(http: httpx2.AsyncClient, url: str, headers: dict[str, str], body: object = None) -> None:
    """Hold a stream of the server open until it ends."""
    try:
        async with http.stream("GET" if body is None else "POST", url, headers=headers, json=body) as answer:
            async for _ in answer.aiter_bytes():
                pass
    except httpx2.HTTPError:
        pass


def test_a_port_that_is_taken(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            served.line("--http", f"127.0.0.1:{port}"), cwd=served.folder, env=served.environment,
            capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    assert done.returncode == 2
    assert f"ERROR cannot listen on 127.0.0.1:{port}: Address already in use; choose another port" in done.stderr


LONG = """
from callgate import Tool

async def call(**given):
    return given

for number in range(400):
    name = f"tool{number:04}"
    globals()[name] = Tool.from_schema(name, "x" * 3_000, {"type": "object"}, call)
"""


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_list_comes_in_pages(served: Served, era: str) -> None:
    (served.folder / "tools.py").write_text(LONG)
    with served.http("--pass", "*") as (url, _):
        async with served.http_client(url, era=era) as client:
            names: list[str] = []
            cursor, pages = None, 0
            while pages == 0 or cursor is not None:
                listed = await client.list_tools(cursor=cursor)
                names += [each.name for each in listed.tools]
                cursor, pages = listed.next_cursor, pages + 1
            assert pages == 2
            assert names[4:] == [f"tool{number:04}" for number in range(400)]
            for wrong in ("0", "-1", "9999999", "x", "", "9" * 5000):
                with pytest.raises(MCPError, match=r"there is no page '.*': begin without a cursor"):
                    await client.list_tools(cursor=wrong)
