"""What becomes of the servers behind `callgate serve`: one line on stderr for each change."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from with_mcp.server.served import Served, text, until

pytestmark = pytest.mark.anyio
SERVERS = Path(__file__).parent.parent / "servers"


async def test_what_becomes_of_servers_is_told_once(served: Served) -> None:
    go = served.folder / "late-go"
    env = {"PYTHONPATH": str(SERVERS.parents[1]), "HOSTILE_GO": str(go)}
    late = {"command": sys.executable, "args": [str(SERVERS / "hostile.py"), "late"], "env": env}
    servers = {"mcpServers": {"late": late, "gone": {"command": "no-such-command-anywhere"}}}
    (served.folder / "servers.json").write_text(json.dumps(servers))
    async with served.client("--mcp", "servers.json", "--pass", "late.*", "--ready-seconds", "0") as client:
        early = await client.call_tool("late_echo", {"text": "x"})
        assert text(early).startswith("Error: there is no tool 'late_echo'; the MCP server 'late' is still starting: ")
        go.touch()
        await until(lambda: "MCP server late: up, 1 tool\n" in served.log)
        assert text(await client.call_tool("late_echo", {"text": "x"})) == "x"
    assert "late (starting; its tools come when it is up)" in served.log
    assert served.log.count("MCP server late: ") == 1
    assert served.log.count("'no-such-command-anywhere' was not found") == 1
