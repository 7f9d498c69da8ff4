"""`callgate serve`: an MCP client that is configured with two servers sees four tools instead of all of theirs.

The configuration is the `mcpServers` file that clients have anyway. The client here is the MCP SDK's: it asks what
there is, searches, and has one program run that calls both servers; prints and tool calls come as notifications while
it runs.

The servers are installed on first use: see installing/. Where one cannot be had, this says so and ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from installing import NotHere, git_server, time_server
from mcp_servers import make_repository
from needs import needs

with needs("mcp"):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.types import CallToolResult, LoggingMessageNotificationParams

PROGRAM = """
history = await git.git_log(repo_path={repository!r}, max_count=20)
for line in history.splitlines():
    if line.startswith("Message: "):
        name, _, time, zone = line.removeprefix("Message: ").split()
        answer = await clock.convert_time(source_timezone=zone, time=time, target_timezone="Europe/Lisbon")
        print(name, answer["target"]["datetime"][11:16])
history.count("Commit: ")
"""


def text_of(result: CallToolResult) -> str:
    return "".join(part.text for part in result.content if part.type == "text")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        make_repository(repository)
        try:
            commands = {"git": git_server(repository), "clock": time_server()}
        except NotHere as reason:
            print(f"not shown: {reason}")
            return
        file = repository / "servers.json"
        entries = {name: {"command": command[0], "args": command[1:]} for name, command in commands.items()}
        file.write_text(json.dumps({"mcpServers": entries}))
        line = ["-m", "callgate", "serve", "--mcp", str(file)]
        await use(StdioServerParameters(command=sys.executable, args=line), repository)


async def use(gateway: StdioServerParameters, repository: Path) -> None:
    logged: list[Any] = []
    progressed: list[str] = []

    async def on_log(params: LoggingMessageNotificationParams) -> None:
        logged.append(params.data)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        progressed.append(message or "")
        print(f"  progress {progress:g}: {message}")

    async with (
        stdio_client(gateway, errlog=sys.stdout) as streams,  # what it says on stderr: what came up, and what did not
        ClientSession(*streams, logging_callback=on_log) as session,
    ):
        await session.initialize()
        tools = (await session.list_tools()).tools
        print("the client sees:", ", ".join(tool.name for tool in tools))
        assert [tool.name for tool in tools] == ["search_tools", "describe_tools", "execute_code", "execute_tool_plan"]

        found = await session.call_tool("search_tools", {"query": "commit history"})
        assert "git_log" in text_of(found)
        print(text_of(found).splitlines()[0])

        program = PROGRAM.format(repository=str(repository))
        ran = await session.call_tool("execute_code", {"code": program}, progress_callback=on_progress)
        assert not ran.is_error, text_of(ran)
        assert ran.structured_content is not None
        assert ran.structured_content["value"] == 3
        assert len(ran.structured_content["logs"].splitlines()) == 3
        print(text_of(ran))

        wrong = await session.call_tool("execute_code", {"code": "await clock.convert_time(zone='UTC')"})
        assert wrong.is_error
        assert "source_timezone" in text_of(wrong)
        print(text_of(wrong).splitlines()[0])
    assert any("git_git_log" in message for message in progressed)
    assert any("standup 04:00" in str(data) or "standup 05:00" in str(data) for data in logged)
    print(len(logged), "log notifications came while programs ran")


if __name__ == "__main__":
    asyncio.run(main())
