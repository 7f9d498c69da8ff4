"""Real MCP servers behind one runtime: git and time (from PyPI), files (from npm), joined by programs.

The commit messages of a repository say when meetings are, each in its own time zone. One program reads the history with
the git server, converts all times at once with the time server, and prints an agenda; another writes it with the
filesystem server and commits it. 28 tools, three processes, and the model would see two results.

The servers are installed on first use, each in a folder of its own: see installing/. Where one cannot be had, this
says so.
"""

from __future__ import annotations

import asyncio
import datetime
import subprocess
import tempfile
import zoneinfo
from pathlib import Path

from callgate import Runtime
from installing import NotHere, filesystem_server, git_server, time_server
from needs import needs

with needs("mcp"):
    import mcp  # noqa: F401  # callgate.mcp speaks through it

    from callgate.mcp import McpServers

MEETINGS = {"standup": "09:30 Asia/Kolkata", "review": "18:00 America/Bogota", "retrospective": "15:15 Asia/Tokyo"}

AGENDA = """
import asyncio, re

history = await git.git_log(repo_path=repository, max_count=20)
meetings = re.findall(r"Message: (\\w+) at (\\d\\d:\\d\\d) (\\S+)", history)
converted = await asyncio.gather(*(
    clock.convert_time(source_timezone=zone, time=time, target_timezone="UTC") for _, time, zone in meetings
))
lines = sorted(
    f"{answer['target']['datetime'][11:16]} {name}" for (name, _, _), answer in zip(meetings, converted)
)
print(len(meetings), "meetings")
lines
"""

COMMIT = """
path = f"{repository}/agenda.md"
await files.write_file(path=path, content="# Agenda\\n\\n" + "".join(f"- {line}\\n" for line in lines))
try:
    await files.read_text_file(path="/etc/passwd")
except ToolError as error:
    print("the server keeps to its folder:", str(error)[:60])
await git.git_add(repo_path=repository, files=["agenda.md"])
await git.git_commit(repo_path=repository, message="Write the agenda")
(await files.read_text_file(path=path))["content"]
"""


def run_git(repository: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True, text=True).stdout


def make_repository(repository: Path) -> None:
    run_git(repository, "init", "--quiet")
    run_git(repository, "config", "user.name", "A. Planner")
    run_git(repository, "config", "user.email", "planner@example.org")
    for name, when in MEETINGS.items():
        run_git(repository, "commit", "--quiet", "--allow-empty", "--message", f"{name} at {when}")


def expected_agenda() -> list[str]:
    """The same without any server: Python's own time zones."""
    lines = []
    for name, when in MEETINGS.items():
        clock, zone = when.split()
        today = datetime.datetime.now(zoneinfo.ZoneInfo(zone)).date()
        moment = datetime.datetime.combine(today, datetime.time.fromisoformat(clock), zoneinfo.ZoneInfo(zone))
        lines.append(f"{moment.astimezone(datetime.UTC):%H:%M} {name}")
    return sorted(lines)


def configuration(repository: Path) -> dict[str, dict[str, object]]:
    """As a client keeps it in a file: `callgate serve --mcp servers.json` and `McpServers.read` take its path, too."""
    commands = {"git": git_server(repository), "clock": time_server()}
    try:
        commands["files"] = filesystem_server(repository)
    except NotHere as reason:
        print(f"without the filesystem server: {reason}")
    return {name: {"command": command[0], "args": command[1:]} for name, command in commands.items()}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        make_repository(repository)
        try:
            servers = McpServers.read({"mcpServers": configuration(repository)}, ready_seconds=30)
        except NotHere as reason:
            print(f"not shown: {reason}")
            return
        async with Runtime(sources=[servers]) as runtime:
            for status in servers.status():
                print(status.line())
            read_only = sum(tool.read_only for tool in runtime.registry.tools())
            print(f"{len(runtime.registry.tools())} tools, {read_only} of them read-only by their own account")

            run = await runtime.execute_code(AGENDA, inputs={"repository": str(repository)})
            assert run.ok, run.for_model()
            assert run.value == expected_agenda()
            assert [call.tool for call in run.calls] == ["git_git_log", *["clock_convert_time"] * 3]
            print(run.for_model())

            if "files" not in runtime.registry.namespaces():
                return
            written = await runtime.execute_code(COMMIT, inputs={"repository": str(repository), "lines": run.value})
            assert written.ok, written.for_model()
            assert "the server keeps to its folder: Access denied" in written.logs
            print(written.for_model())
        assert run_git(repository, "log", "-1", "--format=%s") == "Write the agenda\n"
        assert run_git(repository, "show", "HEAD:agenda.md") == written.value


if __name__ == "__main__":
    asyncio.run(main())
