"""Tools of servers that are passed through: a client sees and gets what it would from the server itself."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, ImageContent, ResourceLink, TextContent
from mcp_types import Tool as McpTool

from callgate import Limits, Runtime, Tool
from callgate.mcp import McpServers
from callgate.mcp.server import Serving
from callgate.mcp.server.gateway import Gateway
from with_mcp.client.served import everything
from with_mcp.server.served import SECONDS, text
from with_mcp.servers.everything import PIXEL, server

pytestmark = pytest.mark.anyio

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("echo", {"text": "Commit history:\nCommit: 'a1'"}),
    ("echo", {"text": '{"a":  1}'}),
    ("echo", {"text": ""}),
    ("add", {"a": 1, "b": 2}),
    ("weather", {"city": "Oslo"}),
    ("get-value", {"name": "NOTHING"}),
    ("texts", {"parts": ["one", "[2]", "three"]}),
    ("image", {}),
    ("mixed", {}),
    ("fail", {"message": "no such city"}),
]


@asynccontextmanager
async def passing(
    *direct: str, adjust: Callable[[Tool], Tool | None] | None = None, **options: Any
) -> AsyncIterator[Client]:
    """A client to whom these tools of the server are passed through."""
    servers = McpServers.read({"mcpServers": {"ev": everything()}}, adjust=adjust, ready_seconds=30)
    with anyio.fail_after(SECONDS):
        async with (
            Runtime(sources=[servers], sandbox=None, **options) as runtime,
            Client(Gateway(runtime, Serving(direct=direct)).server) as client,
        ):
            yield client


async def listed(client: Client) -> dict[str, McpTool]:
    return {
        each.name.removeprefix("ev_").replace("_value", "-value"): each for each in (await client.list_tools()).tools
    }


async def test_answers_are_those_of_the_server() -> None:
    async with passing("ev.*") as client, Client(server) as straight:
        for name, arguments in CALLS:
            passed = await client.call_tool(f"ev_{name.replace('-', '_')}", arguments)
            own = await straight.call_tool(name, arguments)
            assert passed.content == own.content, name
            assert passed.structured_content == own.structured_content, name
            assert passed.is_error is own.is_error, name


async def test_titles_and_hints_are_those_of_the_server() -> None:
    async with passing("ev.*") as client, Client(server) as straight:
        passed, own = await listed(client), await listed(straight)
        for name in ("read", "weather", "get-value", "echo", "fail"):
            assert passed[name].title == own[name].title, name
            said = own[name].annotations
            kept = passed[name].annotations
            assert kept is not None
            for hint, value in ({} if said is None else said.model_dump(exclude_none=True)).items():
                assert getattr(kept, hint) == value, (name, hint)
        assert passed["read"].title == "Read a page"
        assert passed["read"].annotations == own["read"].annotations


async def test_a_tool_whose_name_models_cannot_write_keeps_its_title() -> None:
    def adjust(tool: Tool) -> Tool:
        return dataclasses.replace(tool, name=f"read a page {'x' * 80}")

    async with passing("ev.read", adjust=adjust) as client:
        named = [each for each in (await client.list_tools()).tools if each.title == "Read a page"]
        assert len(named) == 1
        assert len(named[0].name) <= 64
        assert text(await client.call_tool(named[0].name, {"text": "x"})) == "x"


async def test_what_the_operator_says_of_a_tool_stands_above_what_its_server_says() -> None:
    def adjust(tool: Tool) -> Tool:
        return dataclasses.replace(tool, read_only=False, destructive=True, idempotent=False)

    async with passing("ev.read", adjust=adjust) as client:
        hints = (await listed(client))["read"].annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == (False, True, False)
        assert (hints.title, hints.open_world_hint) == ("Reader", False)


async def test_what_the_operator_makes_of_an_answer_is_what_is_passed_on() -> None:
    def adjust(tool: Tool) -> Tool:
        async def hidden(**arguments: Any) -> Any:
            return (await tool.function(**arguments)).replace("secret", "***")

        return dataclasses.replace(tool, function=hidden)

    async with passing("ev.echo", adjust=adjust) as client:
        assert text(await client.call_tool("ev_echo", {"text": "a secret"})) == "a ***"
        assert text(await client.call_tool("ev_echo", {"text": "nothing"})) == "nothing"


async def test_an_answer_that_is_too_long_has_handles() -> None:
    async with passing("ev.*", limits=Limits(max_message_bytes=400)) as client:
        image = await client.call_tool("ev_image", {})
        assert image.content == [ImageContent(data=PIXEL, mime_type="image/png")]
        mixed = await client.call_tool("ev_mixed", {})
        assert [type(each) for each in mixed.content] == [TextContent]


async def test_programs_see_handles() -> None:
    async with passing("ev.*") as client:
        result = await client.call_tool("execute_code", {"code": "await ev_image()"})
        assert isinstance(result, CallToolResult)
        assert '"artifact": "art_' in text(result)
        assert "artifact.png is not shown to you: only PNG" in text(result)
        assert [type(each) for each in result.content] == [TextContent, ResourceLink]
