"""What one client of `callgate serve --http` can do to the others: nothing. Sessions are bounded for each peer, the
oldest idle one ends for a new one, and whatever is sent is answered.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from with_mcp.server.served import SECONDS, TOOLS, Served, text

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SESSIONS_OF_PEER = 100
"""As docs/mcp.md has it, for clients without a token."""
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "one", "version": "1"},
    },
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # HTTP is served under nothing else, by a process of its own


@pytest.fixture
def served(tmp_path: Path) -> Served:
    (tmp_path / "tools.py").write_text(TOOLS)
    names = ("PATH", "HOME", "LANG", "TMPDIR", "PYTHONPATH")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    return Served(tmp_path, kept | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"})


class Raw:
    """A client that sends what it likes."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self.http = http
        self.url = url

    async def post(self, body: bytes | dict[str, Any], session: str | None = None) -> httpx2.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = HEADERS if session is None else {**HEADERS, "mcp-session-id": session}
        return await self.http.post(self.url, content=content, headers=headers)

    async def opened(self) -> str:
        """The name of a session that was opened as a client opens one."""
        answer = await self.post(HELLO)
        assert answer.status_code == 200, answer.text
        session = str(answer.headers["mcp-session-id"])
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session)
        return session

    async def ping(self, session: str) -> int:
        return (await self.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}, session)).status_code


@asynccontextmanager
async def raw(url: str, token: str | None = None) -> AsyncIterator[Raw]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(timeout=SECONDS, headers=headers) as http:
        yield Raw(http, url)


async def test_a_flood_of_sessions_ends_its_own_and_nobody_is_shut_out(served: Served) -> None:
    with served.http() as (url, _):
        async with served.http_client(url) as busy, raw(url) as flood:
            assert text(await busy.call_tool("execute_code", {"code": "1 + 1"})) == "Value: 2"
            for _ in range(3):  # a session that is used
                await busy.list_tools()
            names = [await flood.opened() for _ in range(SESSIONS_OF_PEER + 60)]
            alive = [await flood.ping(name) for name in (*names[:5], *names[-5:])]
            assert alive == [404] * 5 + [200] * 5  # the oldest went
            assert text(await busy.call_tool("execute_code", {"code": "2 + 2"})) == "Value: 4"
            async with served.http_client(url) as late:
                assert text(await late.call_tool("execute_code", {"code": "3 + 3"})) == "Value: 6"


async def test_the_sessions_of_another_address_are_not_touched(served: Served) -> None:
    with served.http() as (url, _):
        transport = httpx2.AsyncHTTPTransport(local_address="127.0.0.2")
        async with httpx2.AsyncClient(timeout=SECONDS, transport=transport) as http, raw(url) as flood:
            other = Raw(http, url)
            quiet = await other.opened()
            for _ in range(SESSIONS_OF_PEER + 10):
                await flood.opened()
            assert await other.ping(quiet) == 200


async def test_openings_that_fail_and_many_at_once_leave_the_bound_where_it_is(served: Served) -> None:
    with served.http() as (url, _):
        async with raw(url) as flood:
            kept = await flood.opened()
            for _ in range(4):
                assert await flood.ping(kept) == 200
            for _ in range(SESSIONS_OF_PEER + 20):
                assert (await flood.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})).status_code == 400
            names: list[str] = []

            async def some() -> None:
                names.extend([await flood.opened() for _ in range(15)])

            async with anyio.create_task_group() as tasks:
                for _ in range(10):
                    tasks.start_soon(some)
            alive = [await flood.ping(name) == 200 for name in names]
            assert sum(alive) == SESSIONS_OF_PEER - 1
            assert await flood.ping(kept) == 200


async def test_a_session_whose_call_is_going_on_is_not_ended_for_a_new_one(served: Served) -> None:
    with served.http() as (url, _):
        async with raw(url) as client, raw(url) as flood:
            session = await client.opened()
            answers: list[httpx2.Response] = []

            async def run() -> None:
                code = {"code": "import time\ntime.sleep(2)\nprint('done')"}
                params = {"name": "execute_code", "arguments": code}
                body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
                answers.append(await client.post(body, session))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await anyio.sleep(0.2)
                for _ in range(SESSIONS_OF_PEER + 10):
                    await flood.opened()
            assert "done" in answers[0].text


@pytest.mark.parametrize("id", ["NaN", "Infinity", "-Infinity", "1.5", "true", "[]", "{}", "1e400"])
async def test_an_id_that_is_none_is_refused_and_not_taken_for_a_notification(served: Served, id: str) -> None:
    with served.http() as (url, _):
        async with raw(url) as client:
            session = await client.opened()
            for method in ("ping", "tools/list", "notifications/initialized"):
                body = f'{{"jsonrpc": "2.0", "id": {id}, "method": "{method}"}}'.encode()
                for answer in (await client.post(body, session), await client.post(body)):
                    assert answer.status_code == 400, (method, answer.status_code, answer.text)
                    assert "not a JSON-RPC message" in json.loads(answer.text)["error"]["message"]
            assert (await client.post(f'{{"id": {id}, "method": "ping"}}'.encode(), session)).status_code == 400
            assert await client.ping(session) == 200


async def test_numbers_that_are_no_json_are_refused_wherever_they_stand(served: Served) -> None:
    with served.http() as (url, _):
        async with raw(url) as client:
            session = await client.opened()
            for number in ("NaN", "Infinity", "-Infinity"):
                params = f'{{"name": "execute_code", "arguments": {{"code": "1", "n": [{number}]}}}}'
                body = f'{{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {params}}}'
                assert (await client.post(body.encode(), session)).status_code == 400
            params = '{"name": "execute_code", "arguments": {"code": "\'NaN Infinity\'"}}'
            answer = await client.post(
                f'{{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {params}}}'.encode(), session
            )
            assert "NaN Infinity" in answer.text


async def test_a_body_that_comes_byte_by_byte_takes_its_bytes_and_no_more(served: Served) -> None:
    with served.http() as (url, process):
        port = int(url.split(":")[2].split("/")[0])

        def held() -> int:
            line = next(
                each for each in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmRSS" in each
            )
            return int(line.split()[1]) * 1024

        async with raw(url) as client:
            await client.opened()
        before = held()
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        head = (
            "POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
        )
        writer.write(f"{head}accept: application/json, text/event-stream\r\n\r\n".encode())
        for _ in range(400):
            writer.write(b"2\r\nxx\r\n" * 1000)
            await writer.drain()
        async with raw(url) as client:
            await client.opened()  # the others are served meanwhile
        grown = held() - before
        writer.close()
        assert grown < 10 << 20, f"{grown >> 20} MiB for 0.8 MB"
