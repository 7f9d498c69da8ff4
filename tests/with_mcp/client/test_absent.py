"""Tools of servers that are expected but not there: every place in which one can be named says why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from callgate import ConfigurationError, Runtime, Tool, ToolError
from callgate.mcp import McpServers
from with_mcp.client.served import hostile, serving, until

pytestmark = pytest.mark.anyio

STARTING = "the MCP server 'files' is still starting: its tools come when it is up, try again in a moment"


log = Tool.from_schema("git_log", "What was committed.", {"type": "object"}, dict, server="git", server_tool="log")


def read(files: dict[str, Any], **options: Any) -> McpServers:
    return McpServers.read({"mcpServers": {"files": files}}, **options)


async def told_everywhere(runtime: Runtime) -> dict[str, str]:
    """What each place that a tool can be named in says of one of ``files``."""
    steps = [{"id": "a", "tool": "files.echo", "arguments": {}}]
    found = {
        "program": "await files.echo(text='x')",
        "flat": "await files_echo(text='x')",
        "module": "import tools\nawait tools.files.echo(text='x')",
        "import": "from tools.files import echo\nawait echo(text='x')",
        "by name": "await tool_call('files.echo', text='x')",
    }
    told = {place: str(runtime.check(code)[0]) for place, code in found.items()}
    told["plan"] = str(runtime.check_plan({"steps": steps})[0])
    told["search"] = (await runtime.answer("search_tools", {"query": "", "server": "Files"})).text
    told["describe"] = (await runtime.answer("describe_tools", {"names": ["files.echo"]})).text
    told["direct"] = (await runtime.answer("files_echo", {"text": "x"})).text
    return told


async def test_every_place_says_that_a_server_is_still_starting_until_it_is_up(tmp_path: Path) -> None:
    go = tmp_path / "go"
    servers = read(hostile("late", HOSTILE_GO=str(go)), ready_seconds=0)
    async with Runtime([log], sources=[servers], pool_size=0) as runtime:
        told = await told_everywhere(runtime)
        assert {place: STARTING in text for place, text in told.items()} == dict.fromkeys(told, True)
        assert "`files` is not defined" in told["program"]
        assert "there is no tool 'files.echo'" in told["describe"]
        assert not any("did you mean" in text for text in told.values())
        assert "there are: git" in told["search"]
        with pytest.raises(ConfigurationError, match=r"'files.echo', which does not exist; the MCP server 'files' is"):
            runtime.check("1", tools=["files.echo"])
        go.touch()
        await until(lambda: servers.status()[0].state == "running")
        assert runtime.check("await files.echo(text='x')") == []
        assert (await runtime.answer("files_echo", {"text": "x"})).text == "x"
        assert "did you mean `files.echo`?" in str(runtime.check("await files.ecoh(text='x')")[0])


async def test_every_place_says_why_a_server_has_failed_and_nothing_secret() -> None:
    crash = "import os, sys; sys.exit('no such key: ' + os.environ['API_TOKEN'])"
    failing = {"command": sys.executable, "args": ["-c", crash], "env": {"API_TOKEN": "hunter2-hunter2"}}
    servers = read(failing, ready_seconds=0)
    async with Runtime([log], sources=[servers], pool_size=0) as runtime:
        await until(lambda: servers.status()[0].error is not None)
        again = await told_everywhere(runtime)
        assert all("the MCP server 'files' did not start, and is tried again: " in text for text in again.values())
        assert not any("hunter2" in text for text in again.values())
    async with Runtime([log], sources=[read({"command": "no-such-command"}, ready_seconds=20)]) as runtime:
        failed = await told_everywhere(runtime)
        why = "the MCP server 'files' has failed: the command 'no-such-command' was not found: it is not on the PATH"
        assert {place: why in text for place, text in failed.items()} == dict.fromkeys(failed, True)


async def test_a_faulty_configuration_is_told_too_and_nothing_after_the_servers_end() -> None:
    async with serving({"files": {"command": "x", "env": {"A": "${NO_SUCH}"}}}, ready_seconds=0) as served:
        await until(lambda: served.status("files").state == "failed")
        with pytest.raises(ToolError, match=r"the MCP server 'files' has failed: .*'NO_SUCH' is not set"):
            served.registry.get("files_echo")
        with pytest.raises(ToolError, match="server 'files' is failed"):
            await served.servers.read_resource("files", "x:y")
    with pytest.raises(ToolError) as raised:
        served.registry.get("files_echo")
    assert str(raised.value) == "there is no tool 'files_echo'"


async def test_whoever_asks_is_told_of_each_change_of_state(tmp_path: Path) -> None:
    seen: list[str] = []
    servers = {"files": hostile("crashes_at_first_start", HOSTILE_NOTES=str(tmp_path / "notes"))}
    async with serving(servers, on_status=lambda status: seen.append(status.state)) as served:
        await served.until("files", "running")
    assert seen == ["starting", "starting", "starting", "running", "stopped"]
