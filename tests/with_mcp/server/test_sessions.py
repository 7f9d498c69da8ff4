"""Variables that live on between programs: tied to the client session, found by a handle."""

from __future__ import annotations

import os
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult

from callgate import Runtime, ToolError, tool
from callgate.mcp.server import Serving
from callgate.mcp.server.clients import Client as McpClient
from callgate.mcp.server.clients import Sandboxes
from callgate.mcp.server.gateway import Gateway
from with_mcp.server.served import ERAS, Served, children, text, until

pytestmark = pytest.mark.anyio


async def run(client: Client, code: str, session: str | None = "new") -> CallToolResult:
    arguments = {"code": code} if session is None else {"code": code, "session": session}
    return await client.call_tool("execute_code", arguments)


def handle(result: CallToolResult) -> str:
    found: Any = result.structured_content["session"]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize("era", ERAS)
async def test_variables_live_on(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        first = await run(client, "import math\nrows = await names()\ndef double(x):\n    return 2 * x")
        assert f'"{handle(first)}"' in text(first)
        second = await run(client, "double(len(rows)) + math.floor(0.5)", handle(first))
        assert second.structured_content["value"] == 4
        alone = await run(client, "try:\n    rows\nexcept NameError:\n    print('no rows')", None)
        assert alone.structured_content["session"] is None
        assert "rows" in text(alone)


@pytest.mark.parametrize("era", ERAS)
async def test_a_failed_program_leaves_the_session(served: Served, era: str) -> None:
    async with served.client(era=era) as client:
        first = await run(client, "a = 1")
        failed = await run(client, "b = 2\n1 / 0", handle(first))
        assert failed.is_error
        assert handle(failed) == handle(first)
        assert (await run(client, "a + b", handle(first))).structured_content["value"] == 3


async def test_a_limit_ends_the_session(served: Served) -> None:
    async with served.client("--wall-seconds", "1") as client:
        first = await run(client, "a = 1")
        over = await run(client, "while True:\n    pass", handle(first))
        assert over.structured_content["session"] is None
        assert "The session has ended" in text(over)
        gone = await run(client, "a", handle(first))
        assert gone.is_error
        assert f"there is no session '{handle(first)}'" in text(gone)


async def test_a_program_that_is_given_up_ends_the_session(served: Served) -> None:
    async with served.client() as client:
        first = await run(client, "a = 1")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, client, "await hold(name='a')\nwhile True: pass", handle(first))
            await until((served.folder / "a.begun").exists)
            tasks.cancel_scope.cancel()
        await until((served.folder / "a.ended").exists)
        assert (await run(client, "a", handle(first))).is_error


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_second_call_waits_for_the_first_and_does_not_end_it(anyio_backend: str, era: str) -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    @tool
    async def hold() -> None:
        begun.set()
        await go_on.wait()

    values: list[Any] = []
    async with Runtime([hold], pool_size=0) as runtime, Client(Gateway(runtime, Serving()).server, mode=era) as client:
        with anyio.fail_after(30):
            session = handle(await run(client, "x = [1]"))

            async def one(code: str) -> None:
                values.append((await run(client, code, session)).structured_content["value"])

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, "await hold()\nx.append(2)\nx")
                await begun.wait()
                tasks.start_soon(one, "x.append(3)\nx")
                with anyio.move_on_after(0.05):
                    await run(client, "x.append(4)", session)
                bad = await client.call_tool("execute_code", {"code": 5, "session": session})
                assert bad.is_error
                go_on.set()
            assert values == [[1, 2], [1, 2, 3]]
            assert (await run(client, "x", session)).structured_content["session"] == session


async def test_there_may_be_four(served: Served) -> None:
    async with served.client() as client:
        handles = [handle(await run(client, f"a = {n}")) for n in range(4)]
        fifth = await run(client, "a = 5")
        assert fifth.is_error
        assert handles[0] in text(fifth)
        assert (await run(client, "a", handles[3])).structured_content["value"] == 3


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_handles_of_others_are_not_told(anyio_backend: str) -> None:
    async with Runtime(pool_size=0) as runtime:
        shelf = runtime.artifacts.shelf()
        for alone, most in ((False, 1), (True, 8)):  # its own; and everybody's, who knows a handle
            client = McpClient(shelf, alone=alone)
            kept = Sandboxes(runtime, 1, 60)
            handle, *_ = [await kept.open(client) for _ in range(most)]
            with pytest.raises(ToolError, match=f"{most} sessions are open") as refused:
                await kept.open(client)
            assert (handle in str(refused.value)) == (not alone)
            with pytest.raises(ToolError, match="there is no session"):
                async with kept.use(handle, McpClient(shelf)):
                    pass
            await kept.close()
            with pytest.raises(ToolError, match="there is no session"):
                async with kept.use(handle, client.owner):
                    pass


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_all_client_sessions_together_leave_half_of_the_guests(anyio_backend: str) -> None:
    async with Runtime(pool_size=0, max_guests=4, queue_seconds=0.1) as runtime:
        kept = Sandboxes(runtime, 2, 60)
        one, other, third = (McpClient(runtime.artifacts.shelf()) for _ in range(3))
        first = await kept.open(one)
        await kept.open(other)
        text = "2 sessions of all clients are open, which is all that this server keeps: {}run the program without"
        with pytest.raises(ToolError, match=text.format(f"go on with one of {first}, ")):
            await kept.open(one)
        with pytest.raises(ToolError, match=text.format("")):
            await kept.open(third)
        assert (await runtime.execute_code("1", path="sandbox")).value == 1
        await kept.close(one)
        async with kept.use(await kept.open(third), third) as session:
            assert (await session.execute_code("1")).value == 1
        await kept.close()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_clients_of_one_gateway_share_its_room(anyio_backend: str) -> None:
    async with Runtime(pool_size=0, max_guests=2) as runtime:
        gateway = Gateway(runtime, Serving())
        async with Client(gateway.server) as client:
            assert not (await run(client, "a = 1")).is_error
            assert "run the program without session" in text(await run(client, "a = 2"))
            assert (await run(client, "3", None)).structured_content["value"] == 3


async def test_no_other_client_session_can_use_it(served: Served) -> None:
    with served.http() as (url, _):
        async with served.http_client(url) as one, served.http_client(url) as other:
            first = await run(one, "secret = 1")
            assert (await run(other, "secret", handle(first))).is_error
            assert (await run(one, "secret", handle(first))).structured_content["value"] == 1


async def test_it_ends_with_the_client_session(served: Served) -> None:
    with served.http() as (url, process):
        async with served.http_client(url) as client:
            await run(client, "1", None)
            idle = len(children(process.pid))
            for n in range(3):
                await run(client, f"a = {n}")
            assert len(children(process.pid)) >= idle + 3 - 1
        async with served.http_client(url) as client:
            await run(client, "1", None)
            await until(lambda: len(children(process.pid)) <= idle)


async def test_requests_that_stand_alone_share_it_by_its_handle(served: Served) -> None:
    """Over HTTP, from 2026-07-28 on, there is no client session: the handle is all that is needed."""
    with served.http() as (url, _):
        async with served.http_client(url, era="auto") as client:
            first = await run(client, "a = 1")
        async with served.http_client(url, era="auto") as client:
            assert (await run(client, "a", handle(first))).structured_content["value"] == 1
            assert (await run(client, "a", handle(first)[:-1] + "~")).is_error


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("era", ERAS)
async def test_one_that_nobody_uses_ends(anyio_backend: str, era: str) -> None:
    async with Runtime(pool_size=0) as runtime:
        gateway = Gateway(runtime, Serving(session_idle_seconds=0.5))
        async with Client(gateway.server, mode=era) as client:
            with anyio.fail_after(30):
                idle = len(children(os.getpid()))
                first = await run(client, "a = 1")
                assert (await run(client, "a", handle(first))).structured_content["value"] == 1
                await until(lambda: len(children(os.getpid())) <= idle)
                assert (await run(client, "a", handle(first))).is_error
