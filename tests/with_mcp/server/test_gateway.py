"""In front of real MCP servers: the whole way from a client's call to another server, and back."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification

from with_mcp.server.served import ERAS, SECONDS, Ear, Served, text, until

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("era", ERAS)]

SERVERS = Path(__file__).parent.parent / "servers"


def configured(served: Served, **servers: Any) -> str:
    """A file that names them."""
    (served.folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    return "servers.json"


async def listed(client: Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools}


async def up(client: Client, *servers: str) -> None:
    """Return once the tools of these servers are here: on a busy machine a server may start later than callgate."""
    with anyio.fail_after(SECONDS):
        for server in servers:
            question = {"query": "add numbers", "server": server}
            while (await client.call_tool("search_tools", question)).is_error:  # noqa: ASYNC110 (it is the other server)
                await anyio.sleep(0.05)


EVERYTHING = {"command": sys.executable, "args": [str(SERVERS / "everything.py")]}
GONE = {"command": "no-such-command-anywhere"}


async def test_a_program_calls_other_servers(served: Served, era: str) -> None:
    file = configured(served, one=EVERYTHING, two=EVERYTHING, gone=GONE)
    async with served.client("--mcp", file, era=era) as client:
        await up(client, "one", "two")
        found = await client.call_tool("search_tools", {"query": "add numbers", "server": "one"})
        assert "one_add" in text(found)
        assert "two_add" not in text(found)
        code = "a = await one.add(a=1, b=2)\nb = await two_add(a=a['result'], b=3)\n[a.result, b.result]"
        ran = await client.call_tool("execute_code", {"code": code})
        assert ran.structured_content["value"] == [3, 6]
        steps = [{"id": "a", "tool": "one.add", "arguments": {"a": 1, "b": 2}}]
        planned = await client.call_tool("execute_tool_plan", {"steps": steps})
        assert planned.structured_content["outputs"] == {"a": {"result": 3}}
    assert "not up: gone (failed; " in served.log


async def test_a_server_that_dies_fails_its_call_alone(served: Served, era: str) -> None:
    file = configured(served, one=EVERYTHING, two=EVERYTHING)
    async with served.client("--mcp", file, "--pass", "*.die", era=era) as client:
        await up(client, "one", "two")
        died = await client.call_tool("one_die", {})
        assert died.is_error
        ran = await client.call_tool("execute_code", {"code": "(await two_add(a=1, b=1)).result"})
        assert ran.structured_content["value"] == 2


async def test_what_changes_at_a_server_changes_here(served: Served, era: str) -> None:
    ear = Ear()
    file = configured(served, one=EVERYTHING)
    async with served.client("--mcp", file, "--pass", "one.*", era=era, ear=ear) as client:
        await up(client, "one")
        before = await listed(client)
        await client.call_tool("one_grow", {"name": "grown"})
        with anyio.fail_after(SECONDS):
            while not (now := await listed(client)) > before:  # noqa: ASYNC110 (the other server tells callgate)
                await anyio.sleep(0.05)
        assert now - before == {"one_grown"}
        if era == "legacy":
            await until(lambda: any(isinstance(each, ToolListChangedNotification) for each in ear.messages))


async def test_giving_up_reaches_the_other_server(served: Served, era: str) -> None:
    notes = served.folder / "notes"
    notes.touch()
    file = configured(served, one=EVERYTHING | {"env": {"EVERYTHING_NOTES": str(notes)}})
    async with served.client("--mcp", file, era=era) as client:
        await up(client, "one")
        async with anyio.create_task_group() as tasks:
            code = {"code": "while True:\n    await one_wait(seconds=1000)"}
            tasks.start_soon(client.call_tool, "execute_code", code)
            await until(lambda: notes.read_text() == "wait began\n")
            tasks.cancel_scope.cancel()
        await until(lambda: notes.read_text() == "wait began\nwait cancelled\n")


async def test_the_other_servers_progress_is_passed_on(served: Served, era: str) -> None:
    ear = Ear()
    file = configured(served, one=EVERYTHING)
    async with served.client("--mcp", file, "--pass", "one.count", era=era, ear=ear) as client:
        await up(client, "one")
        if era == "legacy":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                await client.set_logging_level("debug")
        result = await client.call_tool("one_count", {"to": 3}, progress_callback=ear.on_progress)
        assert not result.is_error
    assert "one_count: 3 of 3: number 3" in ear.told
    assert ear.progress
