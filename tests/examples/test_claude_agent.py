"""The recipe for the Claude Agent SDK: its server, asked by the MCP SDK as Claude Code asks it. The example itself runs
Claude Code."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import ImageContent, TextContent

from adapters.conftest import World
from callgate import Runtime, tool

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415478da63f8cfc000000301010018dd8db000"
    "00000049454e44ae426082"
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def recipe(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    return importlib.import_module("claude_agent")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    async with Runtime(made.tools(), approve=made.approve, sandbox=None) as runtime:
        made.runtime = runtime
        yield made


async def test_it_lists_what_the_runtime_defines(recipe: Any, world: World) -> None:
    options: dict[str, Any] = {"direct": ["add_numbers"], "meta": ("execute_code",)}
    async with Client(recipe.callgate_server(world.runtime, **options)["instance"]) as client:
        listed = (await client.list_tools()).tools
        refused = await client.call_tool("search_tools", {"query": "mail"})
    assert [(each.name, each.description, each.input_schema) for each in listed] == [
        (each["name"], each["description"], each["inputSchema"])
        for each in world.runtime.tool_definitions("mcp", **options)
    ]
    assert refused.is_error


async def test_answers_are_texts_and_failures_are_errors(recipe: Any, world: World) -> None:
    async with Client(recipe.callgate_server(world.runtime, direct=["add_numbers"])["instance"]) as client:
        program = await client.call_tool("execute_code", {"code": "print(await add_numbers(a=40, b=2))"})
        direct = await client.call_tool("add_numbers", {"a": 40, "b": 2})
        failed = await client.call_tool("execute_code", {"code": "await add_number(a=40, b=2)"})
    assert (program.content, program.is_error) == ([TextContent(text="42")], False)
    assert (direct.content, direct.is_error) == ([TextContent(text="42")], False)
    (text,) = failed.content
    assert isinstance(text, TextContent)
    assert "did you mean `add_numbers`" in text.text
    assert failed.is_error


async def test_approval_is_the_runtimes(recipe: Any, world: World) -> None:
    async with Client(recipe.callgate_server(world.runtime)["instance"]) as client:
        denied = await client.call_tool("execute_code", {"code": "await send_mail(text='deny me')"})
    assert denied.is_error
    assert [each.arguments for each in world.asked] == [{"text": "deny me"}]
    assert world.sent == []


async def test_pictures_are_pictures(recipe: Any) -> None:
    @tool(read_only=True)
    async def photo() -> bytes:
        """A photo."""
        return PNG

    async with (
        Runtime([photo], sandbox=None) as runtime,
        Client(recipe.callgate_server(runtime)["instance"]) as client,
    ):
        answer = await client.call_tool("execute_code", {"code": "await photo()"})
    assert [type(each) for each in answer.content] == [TextContent, ImageContent]
