"""Tools that are passed through: with their schemas and hints, and told of when they change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import Tool as McpTool
from mcp_types import ToolListChangedNotification

from callgate import Runtime, Tool, tool
from callgate.mcp.server import Serving, ask_client
from callgate.mcp.server.gateway import Gateway
from with_mcp.server.served import ERAS, SECONDS, Ear, Served, text, until

pytestmark = pytest.mark.anyio
eras = pytest.mark.parametrize("era", ERAS)
both_loops = pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])


@tool(read_only=True)
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: one.
        b: the other.
    """
    return a + b


@tool(destructive=True)
def delete(name: str) -> dict[str, str]:
    """Delete it."""
    return {"deleted": name}


def imported(server: str, name: str) -> Tool:
    """A tool as if it came from a server."""

    async def call(**arguments: Any) -> Any:
        return {"server": server, **arguments}

    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    return Tool.from_schema(f"{server}_{name}", f"{name} on {server}", schema, call, server=server, server_tool=name)


@asynccontextmanager
async def serving(
    era: str, *direct: str, ear: Ear | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Runtime]]:
    """A client in this process, and the runtime that it is served."""
    ear = ear or Ear()
    async with Runtime([add, delete], sandbox=None, approve=ask_client) as runtime:
        server = Gateway(runtime, Serving(direct=direct, **options)).server
        with anyio.fail_after(SECONDS):
            async with Client(server, mode=era, message_handler=ear.message) as client:
                yield client, runtime


async def listed(client: Client) -> dict[str, McpTool]:
    return {each.name: each for each in (await client.list_tools(cache_mode="bypass")).tools}


@eras
@both_loops
async def test_schemas_and_hints_are_passed_on(era: str) -> None:
    async with serving(era, "add", "del*") as (client, _):
        tools = await listed(client)
        assert list(tools)[4:] == ["add", "delete"]
        assert set(tools["add"].input_schema["properties"]) == {"a", "b"}
        assert tools["add"].input_schema["properties"]["a"]["description"] == "one."
        hints = tools["add"].annotations, tools["delete"].annotations
        assert hints[0] is not None
        assert hints[1] is not None
        assert (hints[0].read_only_hint, hints[1].read_only_hint, hints[1].destructive_hint) == (True, False, True)
        added = await client.call_tool("add", {"a": 1, "b": 2})
        assert (text(added), added.structured_content) == ("3", {"result": 3})
        deleted = await client.call_tool("delete", {"name": "x"})
        assert deleted.structured_content == {"deleted": "x"}


@eras
@both_loops
async def test_wrong_arguments_and_names_are_answered_in_words(era: str) -> None:
    async with serving(era, "add") as (client, _):
        wrong = await client.call_tool("add", {"a": "one", "b": 2})
        assert wrong.is_error
        assert "a" in text(wrong)
        assert "execute_code" in text(await client.call_tool("delete", {"name": "x"}))
        assert "did you mean add?" in text(await client.call_tool("ad", {}))


@eras
@both_loops
async def test_a_tool_that_allows_no_direct_calls_is_not_passed_through(era: str) -> None:
    async with serving(era, "*") as (client, runtime):
        runtime.registry.add(tool(allowed_callers=("code",), name="for_programs")(lambda: 1))
        assert "for_programs" not in await listed(client)
        assert "execute_code" in text(await client.call_tool("for_programs", {}))


@eras
@both_loops
async def test_patterns_name_tools_of_servers(era: str) -> None:
    async with serving(era, "github.*") as (client, runtime):
        runtime.registry.replace_server("github", [imported("github", "create_issue"), imported("github", "close")])
        runtime.registry.replace_server("git", [imported("git", "log")])
        assert list(await listed(client))[4:] == ["github_close", "github_create_issue"]
        made = await client.call_tool("github_create_issue", {"title": "t"})
        assert '"server":"github"' in text(made)


@eras
async def test_what_was_found_is_revealed_to_who_found_it(era: str) -> None:
    async with serving(era, reveal=True) as (client, _):
        assert len(await listed(client)) == 4
        assert "not called by itself" in text(await client.call_tool("add", {"a": 1, "b": 2}))
        found = await client.call_tool("search_tools", {"query": "add two numbers", "limit": 1})
        assert "Your list of tools has changed" in text(found)
        assert list(await listed(client))[4:] == ["add"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}


@eras
async def test_what_was_found_is_not_revealed_to_others(served: Served, era: str) -> None:
    ears = Ear(), Ear()
    with served.http("--reveal") as (url, _):
        async with (
            served.http_client(url, ear=ears[0], era=era) as one,
            served.http_client(url, ear=ears[1], era=era) as other,
        ):
            await one.call_tool("search_tools", {"query": "current weather", "limit": 1})
            if era == "legacy":
                await until(lambda: any(isinstance(each, ToolListChangedNotification) for each in ears[0].messages))
                assert list(await listed(one))[4:] == ["get_weather"]
            assert len(await listed(other)) == 4
            assert not any(isinstance(each, ToolListChangedNotification) for each in ears[1].messages)


async def test_clients_with_a_handshake_hear_of_changes() -> None:
    ear = Ear()
    async with serving("legacy", "github.*", ear=ear) as (client, runtime):
        await client.list_tools()
        runtime.registry.replace_server("github", [imported("github", "close")])
        await until(lambda: any(isinstance(each, ToolListChangedNotification) for each in ear.messages))
        assert "github_close" in await listed(client)
        ear.messages.clear()
        runtime.registry.replace_server("github", [])
        await until(lambda: any(isinstance(each, ToolListChangedNotification) for each in ear.messages))
        assert "github_close" not in await listed(client)


async def test_clients_that_listen_hear_of_changes() -> None:
    """From 2026-07-28 on they have to."""
    async with serving("2026-07-28", "github.*") as (client, runtime), client.listen(tools_list_changed=True) as news:
        await client.list_tools()
        runtime.registry.replace_server("github", [imported("github", "close")])
        async for _ in news:
            break
        assert "github_close" in await listed(client)


@eras
async def test_through_the_command(served: Served, era: str) -> None:
    async with served.client("--pass", "get_*", "--pass", "nothing", era=era) as client:
        assert list(await listed(client))[4:] == ["get_weather"]
        result = await client.call_tool("get_weather", {"city": "Oslo"})
        assert result.structured_content == {"temp": 4}
    assert "passed through: get_weather" in served.log
    assert "WARNING --pass nothing: no tool of that name may be called directly, so far" in served.log
