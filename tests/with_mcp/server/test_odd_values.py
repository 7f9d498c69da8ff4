"""What programs, tools and their errors give, however odd: every answer arrives, says what to do, and the server goes
on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import CallToolResult

from callgate import Runtime, Tool
from callgate.mcp.server import Serving
from callgate.mcp.server.gateway import Gateway
from callgate.mcp.server.results import MAX_HTTP_BYTES, MAX_LEVELS, too_deep
from callgate.runtime import Conversation
from with_mcp.server.served import ERAS, Served, text

pytestmark = pytest.mark.anyio

ODD = """
from callgate import ToolError, tool


@tool
async def nested(levels: int) -> list:
    "An array in an array."
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


@tool
async def odd(what: str):
    "Something odd."
    values = {
        "nan": float("nan"), "infinite": float("-inf"), "large": 10**4000, "larger": 10**5000, "lone": "a\\ud800",
        "lone key": {"\\ud800": 1}, "megabyte": "\\x01" * 1_000_000, "nul": "\\0", "tiny": 5e-324, "none": None,
    }
    return values[what]


@tool
async def fails(what: str) -> str:
    "Fail."
    raise ToolError({"lone": "a\\ud800", "megabyte": "x" * 1_000_000, "bidi": "\\u202e\\x1b[31m"}[what])
"""
WALK = "while True:\n    break\n"
"""So that it is no plan."""


@asynccontextmanager
async def client_of(served: Served, transport: str, era: str) -> AsyncIterator[Client]:
    (served.folder / "odd.py").write_text(ODD)
    options = ("--tools", "odd.py", "--pass", "*")
    if transport == "stdio":
        async with served.client(*options, era=era) as client:
            yield client
    else:
        with served.http(*options) as (url, _):
            async with served.http_client(url, era=era) as client:
                yield client


async def sound(client: Client, name: str, arguments: dict[str, Any]) -> CallToolResult:
    """The result of a call: one that came, and that has no exception of the host's or the SDK's in it."""
    result = await client.call_tool(name, arguments)
    told = text(result)
    assert told
    for word in ("pydantic", "ValidationError", "Circular reference", "recursion limit", "callgate failed"):
        assert word not in told
    json.dumps(result.structured_content).encode()
    return result


@pytest.mark.parametrize(("transport", "era"), [("stdio", "legacy"), ("http", "auto")])
async def test_every_answer_arrives(served: Served, transport: str, era: str) -> None:
    async with client_of(served, transport, era) as client:
        for levels in (MAX_LEVELS - 3, MAX_LEVELS, 190, 400):
            direct = await sound(client, "nested", {"levels": levels})
            assert direct.is_error == (levels >= MAX_LEVELS)
            if direct.is_error:
                assert "nested more than 60 levels deep" in text(direct)
                assert "in a program (execute_code), and return the part that you need" in text(direct)
            program = await sound(client, "execute_code", {"code": f"{WALK}await nested({levels})"})
            steps = [{"id": "a", "tool": "nested", "arguments": {"levels": levels}}]
            plan = await sound(client, "execute_tool_plan", {"steps": steps})
            assert not program.is_error
            assert not plan.is_error
            fits = levels <= MAX_LEVELS - 3
            for got, truncated in (
                (program.structured_content["value"], program.structured_content["truncated"]),
                (plan.structured_content["outputs"]["a"], plan.structured_content["truncated"]),
            ):
                assert isinstance(got, list) == fits
                assert bool(truncated) != fits
                assert fits or got.count("[") == levels
        for what in ("nan", "infinite", "larger", "lone", "lone key"):
            assert (await sound(client, "odd", {"what": what})).is_error
            assert (await sound(client, "execute_code", {"code": f"{WALK}await odd({what!r})"})).is_error
        for what in ("large", "nul", "tiny", "none"):
            assert not (await sound(client, "odd", {"what": what})).is_error
            assert not (await sound(client, "execute_code", {"code": f"{WALK}await odd({what!r})"})).is_error
        for what in ("lone", "megabyte", "bidi"):
            assert (await sound(client, "fails", {"what": what})).is_error
            assert (await sound(client, "execute_code", {"code": f"{WALK}await fails({what!r})"})).is_error
        for code in (
            "print('\\ud800' * 3)", "raise ValueError('\\udfff' * 3)", "{'\\ud800': '\\udfff'}", "float('nan')",
            "10**5000", "raise ValueError('x' * 1_000_000)", "print('x' * 1_000_000)", "'x' * 3_000_000",
            "{'x' * 100_000: 1}", "raise SystemExit('\\ud800')", "import os\nos.write(1, b'\\xff\\xfe')",
        ):  # fmt: skip
            await sound(client, "execute_code", {"code": code})
        long = await sound(client, "odd", {"what": "megabyte"})
        assert long.is_error == (transport == "http")
        if long.is_error:
            assert f"clients read {MAX_HTTP_BYTES} over HTTP" in text(long)
        await sound(client, "search_tools", {"query": "x" * 100_000})
        await sound(client, "describe_tools", {"names": ["x" * 100_000]})
        assert (await client.call_tool("execute_code", {"code": "1 + 1"})).structured_content["value"] == 2


def deep(levels: int) -> dict[str, Any]:
    """A schema that is nested so deeply."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


async def call(**arguments: Any) -> Any:
    return arguments


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("reveal", [False, True])
async def test_a_tool_whose_schema_nobody_can_read_does_not_cost_the_others(
    era: str, reveal: bool, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [
        Tool.from_schema("good", "Good.", deep(2), call),
        Tool.from_schema("odd_schema", "Odd.", deep(45), call),
    ]
    async with Runtime(tools, sandbox=None) as runtime:
        server = Gateway(runtime, Serving(direct=("*",), reveal=reveal)).server
        async with Client(server, mode=era) as client:
            listed = [each.name for each in (await client.list_tools()).tools]
            assert "good" in listed
            assert "execute_code" in listed
            assert "odd_schema" not in listed
            described = await sound(client, "describe_tools", {"names": ["odd_schema"]})
            assert not described.is_error
            await sound(client, "search_tools", {"query": "odd", "detail": "full"})
            await client.list_tools(cache_mode="bypass")
    told = "the tool odd_schema is not listed: its schemas are nested more than 60 levels deep"
    assert caplog.text.count(told) == 1


class Broken(Runtime):
    """Fails in two places while it is told to."""

    broken = False

    def tool_definitions(self, *given: Any, **options: Any) -> list[dict[str, Any]]:
        if self.broken:
            raise RuntimeError("a secret of the host")
        return super().tool_definitions(*given, **options)

    def conversation(self, **options: Any) -> Conversation:
        if self.broken:
            raise RuntimeError("a secret of the host")
        return super().conversation(**options)


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("era", ERAS)
async def test_what_goes_wrong_on_the_host_is_one_line_here_and_a_traceback_there(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = Broken(sandbox=None)
    async with runtime, Client(Gateway(runtime, Serving(reveal=True)).server, mode=era) as client:
        runtime.broken = True
        with pytest.raises(MCPError, match=r"^callgate failed at this request; its log says why$"):
            await client.list_tools()
        result = await client.call_tool("execute_code", {"code": "1"})
        assert text(result) == "Error: callgate failed at this call; its log says why"
        assert result.is_error
        runtime.broken = False
        assert not (await client.call_tool("execute_code", {"code": "1"})).is_error
    assert "RuntimeError: a secret of the host" in caplog.text


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("era", ERAS)
async def test_a_list_that_cannot_be_made_leaves_the_one_before(era: str, caplog: pytest.LogCaptureFixture) -> None:
    runtime = Broken(sandbox=None)
    async with runtime, Client(Gateway(runtime, Serving(direct=("*",))).server, mode=era) as client:
        before = (await client.list_tools()).tools
        runtime.broken = True
        runtime.registry.add(Tool.from_schema("one", "One.", {"type": "object"}, call))
        assert (await client.list_tools(cache_mode="bypass")).tools == before
        runtime.broken = False
        runtime.registry.add(Tool.from_schema("two", "Two.", {"type": "object"}, call))
        assert len((await client.list_tools(cache_mode="bypass")).tools) == len(before) + 2
    assert "clients see the one before" in caplog.text


def test_levels_are_counted_without_recursion() -> None:
    value: list[Any] = []
    for _ in range(MAX_LEVELS - 1):
        value = [{}, value, 1]
    assert not too_deep(value)
    assert too_deep({"a": value})
    for _ in range(100_000):
        value = [value]
    assert too_deep(value)
