"""Programs and plans that call the tools of servers: the whole way, from the sandbox to the server and back."""

from __future__ import annotations

import json
import sys

import anyio
import pytest

from callgate import Limits
from callgate.mcp import McpServers
from callgate.runtime.gate.events import CallProgressed, Event
from runtime.conftest import opened
from with_mcp.client.served import everything, hostile, until

pytestmark = pytest.mark.anyio

TOKEN = "sk-live-0123456789"


def own() -> str:
    """A tool of the host's own."""
    return "own"


def servers(**more: object) -> McpServers:
    return McpServers.read({"mcpServers": {"ev": everything(SERVICE_TOKEN=TOKEN), **more}}, ready_seconds=30)


async def test_a_program_calls_them_by_both_names_and_never_sees_credentials() -> None:
    code = """
import os
first = await ev_add(a=1, b=2)
second = await ev.add(a=first["result"], b=10)
value = await ev.get_value("PATH")
try:
    await ev.fail(message="no")
except ToolError as error:
    caught = str(error)
picture = await ev.image()
[second["result"], caught, picture["media_type"], str(dict(os.environ)), str(globals())]
"""
    async with opened(own, sources=[servers()], pool_size=1) as runtime:
        run = await runtime.execute_code(code, path="sandbox")
        assert run.ok, run.error
        total, caught, kind, environment, names = run.value
    assert (total, kind) == (13, "image/png")
    assert "no" in caught
    assert TOKEN not in environment + names


async def test_a_graph_of_calls_takes_the_fast_path() -> None:
    async with opened(own, sources=[servers()], pool_size=1) as runtime:
        run = await runtime.execute_code('a = await ev.echo(text="x")\nb = await ev.echo(text="y")\na + b')
        assert (run.value, run.path) == ("xy", "plan"), run.error


async def test_a_plan_calls_them() -> None:
    plan = {
        "steps": [
            {"id": "w", "tool": "ev.weather", "arguments": {"city": "Oslo"}},
            {"id": "e", "tool": "ev_echo", "arguments": {"text": "${w.city} ${w.celsius}"}},
        ],
        "output_steps": ["e"],
    }
    async with opened(own, sources=[servers()], pool_size=1) as runtime:
        run = await runtime.execute_tool_plan(plan)
        assert run.outputs == {"e": "Oslo 21.5"}, run.for_model()


async def test_a_server_that_dies_in_a_program_is_an_error_that_it_can_catch() -> None:
    code = """
try:
    await s.echo(text="die")
except ToolError as error:
    print(error)
await s.echo(text="again")
"""
    async with opened(own, sources=[servers(s=hostile("dies_in_call"))], pool_size=1) as runtime:
        run = await runtime.execute_code(code, path="sandbox")
        assert run.value == "alive", run.error
        assert "it ended in the middle of the call: exit code 11" in run.logs


async def test_progress_of_a_server_is_an_event_of_the_run() -> None:
    heard: list[Event] = []
    async with opened(own, sources=[servers()], pool_size=1) as runtime:
        run = await runtime.execute_code("await ev.count(to=3)", path="sandbox", on_event=heard.append)
        assert run.value == "done"
        await until(lambda: len([each for each in heard if isinstance(each, CallProgressed)]) == 3)
    told = [each for each in heard if isinstance(each, CallProgressed)]
    assert sorted((each.progress, each.total, each.message) for each in told) == [
        (1.0, 3.0, "number 1"),
        (2.0, 3.0, "number 2"),
        (3.0, 3.0, "number 3"),
    ]
    assert {each.record.tool for each in told} == {"ev_count"}


async def test_the_end_of_a_run_ends_its_calls() -> None:
    async with opened(own, sources=[servers()], pool_size=1) as runtime:
        with anyio.fail_after(20):
            run = await runtime.execute_code("await ev.wait(seconds=60)", path="sandbox", limits=Limits(wall_seconds=1))
        assert run.error is not None
        assert run.error.kind == "LimitReached"
        assert json.loads(await runtime.handle("ev_echo", {"text": "[1]"})) == [1]


async def test_a_runtime_may_have_servers_alone_and_leaves_nothing_of_them() -> None:
    source = McpServers.read(
        {"mcpServers": {"s": {"command": sys.executable, "args": ["-c", "input()"]}}}, ready_seconds=0
    )
    async with opened(own, sources=[source], sandbox=None) as runtime:
        assert source.status()[0].state == "starting"
        assert await runtime.handle("no_such", {}) != ""
    await until(lambda: source.status()[0].state == "stopped")
