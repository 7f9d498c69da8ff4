"""Every snippet for a client starts a server that answers; Claude Code itself writes and reads the one for it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import claude_agent_sdk
import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, SystemMessage, query
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import TextContent

from callgate_bench.model.stand_in import AnthropicMessages, Call, Script, serving
from callgate_bench.model.stand_in.server import KEY
from docs.pages import blocks

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

KEYS = {
    "Claude Desktop": "mcpServers",
    "Claude Code": "mcpServers",
    "Cursor": "mcpServers",
    "VS Code": "servers",
    "Zed": "context_servers",
}
SERVER = """
from mcp.server import MCPServer
shop = MCPServer("shop")
@shop.tool()
def count_orders(customer: str) -> int:
    "How many orders a customer placed."
    return len(customer)
shop.run()
"""
PROGRAM = "print((await shop.count_orders(customer='Ada')).result * 2)"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
CLAUDE = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Stands for `/home/me` and for the workspace: has the user's servers."""
    (tmp_path / "shop.py").write_text(SERVER)
    servers = {"mcpServers": {"shop": {"command": sys.executable, "args": [str(tmp_path / "shop.py")]}}}
    (tmp_path / "servers.json").write_text(json.dumps(servers))
    return tmp_path


def snippet(client: str, home: Path) -> dict[str, Any]:
    """The file of a client, with the user's folder."""
    (text,) = blocks("clients", "json", heading=client)
    return dict(json.loads(re.sub(r"/home/me|\$\{workspaceFolder\}", str(home), text)))


def claude_environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a Claude Code that knows nothing of this machine's user."""
    return {
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "HOME": str(home),
        "PATH": PATH,
        **more,
    }


@pytest.mark.parametrize("client", KEYS)
async def test_a_snippet_starts_a_server_that_answers(client: str, home: Path) -> None:
    file = snippet(client, home)
    assert list(file) == [KEYS[client]]
    ((name, server),) = file[KEYS[client]].items()
    assert (name, server.pop("type", "stdio")) == ("callgate", "stdio")
    assert server.keys() <= {"command", "args", "env"}
    parameters = StdioServerParameters(
        command=server["command"], args=server["args"], env={"PATH": PATH, **server.get("env", {})}, cwd=home
    )
    async with Client(stdio_client(parameters), read_timeout_seconds=60) as connected:
        tools = [each.name for each in (await connected.list_tools()).tools]
        answer = await connected.call_tool("execute_code", {"code": PROGRAM})
    assert sorted(tools) == ["describe_tools", "execute_code", "execute_tool_plan", "search_tools"]
    assert (answer.content, answer.is_error) == ([TextContent(text="6")], False)


def test_claude_code_writes_its_snippet_by_the_command_of_the_page(home: Path) -> None:
    (block,) = blocks("clients", "console", heading="Claude Code")
    words = shlex.split(block.removeprefix("$ ").replace("/home/me", str(home)))
    assert words[0] == "claude"
    done = subprocess.run(
        [str(CLAUDE), *words[1:]], cwd=home, env=claude_environment(home), capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((home / ".mcp.json").read_text()) == snippet("Claude Code", home)


async def test_claude_code_calls_tools_through_its_snippet(home: Path) -> None:
    (home / ".mcp.json").write_text(json.dumps(snippet("Claude Code", home)))
    name = "mcp__callgate__execute_code"
    api = AnthropicMessages(Script(lambda _: Call(name, {"code": PROGRAM}), lambda turn: f"It is {turn.answer}"))
    with serving(api) as url:
        options = ClaudeAgentOptions(
            mcp_servers=home / ".mcp.json",
            allowed_tools=[name],
            setting_sources=[],
            tools=[],
            model="claude-opus-5-5",
            cwd=home,
            env=claude_environment(home, ANTHROPIC_BASE_URL=url, ANTHROPIC_API_KEY=KEY),
        )
        said = [each async for each in query(prompt="How many are twice Ada's orders?", options=options)]
    (begun,) = [each.data for each in said if isinstance(each, SystemMessage) and each.subtype == "init"]
    assert [(each["name"], each["status"]) for each in begun["mcp_servers"]] == [("callgate", "connected")]
    (ended,) = [each for each in said if isinstance(each, ResultMessage)]
    assert ended.result is not None
    shown = json.loads(ended.result.removeprefix("It is "))
    assert (shown["logs"], shown["ok"]) == ("6\n", True), "the structured result, as the page says"
