"""Tools that come and go while a runtime is open, and what else a runtime says of its tools."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from callgate import ConfigurationError, Registry, Runtime, Tool, tool

pytestmark = pytest.mark.anyio


@tool(read_only=True, capabilities=["weather"])
async def get_weather(city: str) -> str:
    """Current weather."""
    return f"sunny in {city}"


def remote(name: str, says: str) -> Tool:
    return Tool.from_schema(
        f"far_{name}", f"Says {says}.", {"type": "object"}, lambda: says, server="far", server_tool=name, read_only=True
    )


class Far:
    """A server of tools."""

    def __init__(self, *tools: Tool, fails: bool = False) -> None:
        self.tools = tools
        self.fails = fails
        self.registry: Registry | None = None

    @contextlib.asynccontextmanager
    async def serving(self, registry: Registry) -> AsyncIterator[None]:
        if self.fails:
            raise ConfigurationError("servers.json: no such file")
        self.registry = registry
        registry.replace_server("far", self.tools)
        try:
            yield
        finally:
            registry.replace_server("far", ())
            self.registry = None


async def test_tools_of_a_source_are_there_while_the_runtime_is_open() -> None:
    far = Far(remote("ping", "pong"))
    runtime = Runtime([get_weather], sandbox=None, sources=[far])
    assert runtime.registry.names() == ("get_weather",)
    async with runtime:
        assert runtime.registry.names() == ("far_ping", "get_weather")
        for name in ("far_ping", "far.ping"):
            assert await runtime.handle(name, {}) == "pong"
        assert await runtime.handle("execute_code", {"code": "await far.ping()"}) == "Value: pong"
        assert "far_ping" in runtime.tool_definitions("openai", meta=[], direct="all")[0]["function"]["name"]
    assert "far_ping" not in runtime.registry
    assert far.registry is None


async def test_what_a_source_changes_is_seen_by_the_next_call() -> None:
    far = Far(remote("ping", "pong"))
    async with Runtime([get_weather], sandbox=None, sources=[far]) as runtime:
        conversation = runtime.conversation()
        await conversation.handle("search_tools", {"query": "ping"})
        assert conversation.found == ("far_ping",)
        assert far.registry is not None
        far.registry.replace_server("far", [remote("ping", "PONG"), remote("echo", "echo")])
        assert await conversation.handle("far_ping", {}) == "PONG"
        assert await runtime.handle("execute_code", {"code": "await far.ping()"}) == "Value: PONG"
        assert runtime.search_tools("says echo").found[0].tool.name == "far_echo"
        far.registry.replace_server("far", [])
        assert not list(conversation.found)
        assert "there is no tool 'far_ping'" in await conversation.handle("far_ping", {})


async def test_what_is_wrong_with_a_source_is_told_on_entering() -> None:
    with pytest.raises(ConfigurationError, match=r"servers\.json: no such file"):
        async with Runtime([get_weather], sandbox=None, sources=[Far(fails=True)]):
            pass
    wrong: Any = "servers.json"
    with pytest.raises(ConfigurationError, match=r"sources are things like callgate\.mcp\.McpServers"):
        Runtime(sources=[wrong])


def test_stubs_and_capabilities_are_those_of_the_runtimes_tools() -> None:
    runtime = Runtime([get_weather], sandbox=None)
    assert "async def get_weather(city: str) -> str:" in runtime.stubs(detail="signatures")
    assert "get_weather" in runtime.stubs(detail="names")
    assert runtime.find_by_capability("Weather") == (get_weather,)
    assert runtime.find_by_capability("cooking") == ()


async def test_what_searches_taught_is_kept_in_the_statistics_file(tmp_path: Any) -> None:
    for taught in (0, 1):
        async with Runtime([get_weather], sandbox=None, statistics=tmp_path / "kept.sqlite") as runtime:
            assert runtime.search.learned is not None
            assert runtime.search.learned.of("get_weather") == taught
            conversation = runtime.conversation()
            await conversation.handle("search_tools", {"query": "weather umbrella"})
            await conversation.handle("get_weather", {"city": "Rome"})
