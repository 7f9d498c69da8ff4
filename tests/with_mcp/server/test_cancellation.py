"""A call that is given up: the run is killed, its calls are cancelled, nothing of the guest is left."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import anyio
import pytest
from mcp import Client

from with_mcp.server.served import ERAS, Ear, Served, children, until

pytestmark = pytest.mark.anyio

HOLDS = {"code": "import asyncio\nwhile True:\n    await asyncio.gather(hold(name='a'), hold(name='b'))"}
BUSY = {"code": "while True:\n    await hold(name='a')", "session": "new"}
SPINS = {"code": "print('spinning')\nwhile True:\n    pass"}


async def given_up(client: Client, folder: Path, arguments: dict[str, str]) -> None:
    """Make a call, and give it up when its tool call has begun."""
    async with anyio.create_task_group() as tasks:

        async def call() -> None:
            await client.call_tool("execute_code", arguments)

        tasks.start_soon(call)
        await until((folder / "a.begun").exists)
        tasks.cancel_scope.cancel()


async def running(client: Client) -> None:
    """The server answers."""
    assert (await client.call_tool("execute_code", {"code": "1 + 1"})).structured_content["value"] == 2


async def settled(server: int, most: int) -> None:
    """Wait until no more processes are below the server than when nothing ran."""
    await until(lambda: len(children(server)) <= most)


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("arguments", [HOLDS, BUSY], ids=["alone", "session"])
async def test_nothing_is_left_over_stdio(served: Served, era: str, arguments: dict[str, str]) -> None:
    before = children(os.getpid())
    async with served.client(era=era) as client:
        await running(client)
        (server,) = {each for each in children(os.getpid()) - before if b"serve" in cmdline(each)}
        idle = len(children(server))
        await given_up(client, served.folder, arguments)
        await until((served.folder / "a.ended").exists)
        if arguments is HOLDS:
            await until((served.folder / "b.ended").exists)
        await settled(server, idle)
        await running(client)


def cmdline(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("era", ERAS)
async def test_nothing_is_left_over_http(served: Served, era: str) -> None:
    with served.http() as (url, process):
        async with served.http_client(url, era=era) as client:
            await running(client)
            idle = len(children(process.pid))
            await given_up(client, served.folder, HOLDS)
            await until((served.folder / "a.ended").exists)
            await settled(process.pid, idle)
            await running(client)


@pytest.mark.parametrize("era", ERAS)
async def test_a_program_that_spins_is_killed_with_its_client(served: Served, era: str) -> None:
    """The end of stdin ends the run, and the server with everything that it started."""
    before = children(os.getpid())
    ear = Ear()
    async with served.client(era=era, ear=ear) as client:
        (server,) = {each for each in children(os.getpid()) - before if b"serve" in cmdline(each)}
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                await client.call_tool("execute_code", SPINS)

            tasks.start_soon(call)
            await until(lambda: "spinning" in ear.printed)
            below = children(server)
            assert below
            tasks.cancel_scope.cancel()
    await until(lambda: not any(Path(f"/proc/{each}").exists() and cmdline(each) for each in below | {server}))


async def test_a_client_that_dies_takes_its_runs_along(served: Served) -> None:
    """Over stdio, the client's death is the end of stdin."""
    line = served.line()
    process = subprocess.Popen(  # noqa: ASYNC220
        line, cwd=served.folder, env=served.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        begin = (
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
            b'"clientInfo":{"name":"t","version":"1"}}}\n{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
            b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"execute_code","arguments":'
            b'{"code":"while True:\\n  await hold(name=\'a\')"}}}\n'
        )
        process.stdin.write(begin)
        process.stdin.flush()
        await until((served.folder / "a.begun").exists)
        below = children(process.pid)
        process.stdin.close()
        assert process.wait(30) == 0
    assert (served.folder / "a.ended").exists()
    await until(lambda: not any(cmdline(each) for each in below))
