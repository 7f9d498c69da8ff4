"""A day of callgate without a sandbox, on an imitated system: every module is imported, and each part is used once.

``python -m elsewhere.day win32``, with ``tests`` in PYTHONPATH, prints a line for each part that worked. Each part
checks its own result.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import pkgutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from elsewhere.imitation import install

SYSTEM = sys.argv[1]
PLAN = {
    "steps": [
        {"id": "offset", "tool": "utc_offset", "arguments": {"city": "Tokyo"}},
        {"id": "twice", "tool": "double", "arguments": {"number": "$ref:offset"}},
    ]
}
PROGRAM = "offset = await utc_offset('Tokyo')\nawait double(offset)\n"


def imports(_: Path) -> None:
    """Every module of callgate and of the comparison, but those that run in peers' environments; the guest's four."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of other packages
        for package in ("callgate", "callgate_bench"):
            for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
                if module.name.endswith("__main__") or "contestants." in module.name:
                    continue
                try:
                    importlib.import_module(module.name)
                except ModuleNotFoundError as missing:  # an extra that is not installed here
                    if {str(missing.name).partition(".")[0]} & {*sys.stdlib_module_names, "callgate", "callgate_bench"}:
                        raise
        for name in ("wire", "frames", "records", "json_forms"):
            importlib.import_module(f"callgate_guest.{name}")


def tools() -> list[Any]:
    """The tools of the day."""
    from callgate import tool

    @tool(read_only=True)
    async def utc_offset(city: str) -> int:
        """Hours that a city is ahead of UTC."""
        return {"Tokyo": 9}.get(city, 0)

    @tool(read_only=True)
    def double(number: int) -> int:
        """Twice a number."""
        return 2 * number

    return [utc_offset, double]


def runtime(**options: Any) -> Any:
    """A runtime without a sandbox."""
    from callgate import Runtime

    return Runtime(tools(), sandbox=None, **options)


async def plans(folder: Path) -> None:
    async with runtime(statistics=str(folder / "statistics.db"), audit=str(folder / "audit.log")) as opened:
        result = await opened.execute_tool_plan(PLAN)
        assert result.ok, result
        assert (await opened.execute_tool_plan({"steps": [{"id": "a", "tool": "no_such", "arguments": {}}]})).error
    assert b"utc_offset" in (folder / "audit.log").read_bytes()


async def fast_path(_: Path) -> None:
    async with runtime() as opened:
        assert (await opened.execute_code(PROGRAM)).value == 18
        assert not opened.check(PROGRAM)
        assert opened.check("await no_such()")
        assert not (await opened.execute_code("await utc_offset('Tokyo', 1)")).ok


def without_async(_: Path) -> None:
    from callgate import SyncRuntime

    with SyncRuntime(tools(), sandbox=None) as opened:
        assert opened.execute_code(PROGRAM).value == 18


async def search(_: Path) -> None:
    async with runtime() as opened:
        assert opened.search_tools("hours ahead of UTC").found[0].tool.name == "utc_offset"


async def definitions(_: Path) -> None:
    async with runtime() as opened:
        assert opened.tool_definitions("anthropic")
        assert opened.tool_definitions("openai")
        assert "utc_offset" in opened.stubs()


async def artifacts(folder: Path) -> None:
    from callgate import Artifact

    artifact = Artifact.from_bytes(b"a", "charts/a.txt")
    paths = [artifact.save(folder / "saved") for _ in range(2)]
    assert [path.read_bytes() for path in paths] == [b"a", b"a"]
    assert [path.name for path in paths] == ["a.txt", "a-2.txt"]
    (folder / "saved" / "away").symlink_to(folder)
    with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        Artifact.from_bytes(b"b", "away/b.txt").save(folder / "saved")
    assert not (folder / "b.txt").exists()


async def durable_runs(folder: Path) -> None:
    async with runtime(durable=str(folder / "runs.db")) as opened:
        run = await opened.start(PROGRAM)
        assert (await run.wait()).value == 18


async def agent(folder: Path) -> None:
    from callgate.agent import Agent, RecordingModel, ScriptedModel
    from callgate.agent.loop.transcript import Transcript, read_transcript
    from callgate.agent.models.scripted import Calls
    from callgate.errors import ConfigurationError

    played = ScriptedModel([Calls(("execute_tool_plan", PLAN)), "18 hours"])
    model = RecordingModel(played, folder / "recording.jsonl")
    async with runtime() as opened:
        result = await Agent(model, opened, mode="plan", transcript=folder / "task.jsonl").run("Twice Tokyo's offset?")
    assert result.answer == "18 hours", result
    assert read_transcript(folder / "task.jsonl")
    first, _ = Transcript.resume(folder / "task.jsonl")
    with pytest.raises(ConfigurationError, match="another run"):
        Transcript.resume(folder / "task.jsonl")
    first.close()


async def mcp_over_stdio(_: Path) -> None:
    import anyio
    from mcp import Client
    from mcp.shared.message import SessionMessage

    from callgate.mcp import serve_stdio
    from callgate.mcp.messages import Lines, read_message
    from callgate.mcp.server import StdioWire

    ours, theirs = os.pipe(), os.pipe()
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](100)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](100)

    async def hear() -> None:
        lines = Lines(1 << 20)
        while data := await anyio.to_thread.run_sync(os.read, theirs[0], 1 << 16, abandon_on_cancel=True):
            for line in lines.feed(data):
                await to_client.send(SessionMessage(read_message(line or b"")))

    async def say() -> None:
        with os.fdopen(ours[1], "wb", buffering=0) as file:
            async for each in from_client:
                file.write(each.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")

    class Transport:
        async def __aenter__(self) -> Any:
            return from_server, to_server

        async def __aexit__(self, *_: object) -> None:
            to_server.close()  # the server's stdin ends

    async with runtime() as opened, anyio.create_task_group() as group:

        async def serve() -> None:
            await serve_stdio(opened, wire=StdioWire(ours[0], theirs[1]))
            os.close(theirs[1])

        for each in (hear, say, serve):
            group.start_soon(each)
        async with Client(Transport()) as client:
            called = await client.call_tool("execute_code", {"code": PROGRAM})
            assert "18" in str(called.content), called
    for descriptor in (ours[0], theirs[0]):
        os.close(descriptor)


async def mcp_over_http(_: Path) -> None:
    import anyio
    from mcp import Client

    from callgate.mcp import McpServers, serve_http

    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    async with runtime() as opened, anyio.create_task_group() as group:
        group.start_soon(lambda: serve_http(opened, port=0, ready=url.set_result))
        async with Client(await url) as client:
            called = await client.call_tool("execute_code", {"code": PROGRAM})
            assert "18" in str(called.content), called
        servers = McpServers.read({"mcpServers": {"own": {"url": await url}}})
        from callgate import Runtime

        async with Runtime(sources=[servers], sandbox=None) as asking:
            assert asking.search_tools("run code").found
        group.cancel_scope.cancel()


async def mcp_servers_on_stdio(folder: Path) -> None:
    """A server's process, which is started and ended; it does not imitate anything."""
    from callgate import Runtime
    from callgate.mcp import McpServers

    (folder / "served.py").write_text(
        "from mcp.server.mcpserver import MCPServer\nserver = MCPServer('offsets')\n"
        "@server.tool()\ndef offset_of(city: str) -> int:\n    return 9\nserver.run()\n",
        encoding="utf-8",
    )
    own = {"command": sys.executable, "args": [str(folder / "served.py")]}
    servers = McpServers.read({"mcpServers": {"own": own}}, ready_seconds=60)
    async with Runtime(sources=[servers], sandbox=None) as opened:
        assert opened.search_tools("offset of a city").found, servers.status()


def command_line(folder: Path) -> None:
    from callgate.cli import commands

    (folder / "mine.py").write_text("def double(number: int) -> int:\n    return 2 * number\n", encoding="utf-8")
    (folder / "plan.json").write_text('{"steps": [{"id": "a", "tool": "double", "arguments": {"number": 4}}]}')
    mine = ("--tools", f"{folder / 'mine.py'}:double")
    double = (*mine, "-c", "await double(4)")
    helps = [(name, "--help") for name in commands.COMMANDS]
    plan = ("plan", *mine, str(folder / "plan.json"))
    for arguments in (
        *helps,
        ("--help",),
        ("tools", *mine),
        ("check", *double),
        ("run", "--path", "plan", *double),
        plan,
    ):
        said = StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            status = commands._run(arguments)
        assert status == 0, (arguments, said.getvalue())


async def signals(_: Path) -> None:
    """A signal that asks a command to end; and a person who is asked."""
    from callgate import event_loop
    from callgate.cli.screen import answer_to

    assert signal.SIGINT in event_loop.ENDINGS
    assert (signal.SIGHUP in event_loop.ENDINGS) == (SYSTEM != "win32")
    with event_loop.endings() as received:
        os.kill(os.getpid(), signal.SIGTERM)
        async for each in received:
            assert each == signal.SIGTERM
            break
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if SYSTEM == "win32":  # elsewhere, a question needs a terminal
        sys.stdin = StringIO("Yes\n")
        assert await answer_to("?") == "yes"


async def sandboxes(_: Path) -> None:
    """A sandbox that does not work says why; and why a guest died is said for guests of other systems, too."""
    from callgate import Limits, Runtime, SandboxUnavailable
    from callgate.runtime.run import explain_death
    from callgate.sandbox.backend import GuestExit

    for status, name in ((-11, "SIGSEGV"), (-9, "SIGKILL"), (-7, "signal 7")):
        assert f"killed by {name}:" in explain_death(GuestExit(status, None), Limits()).message
    reasons = {"jail": "needs Linux"}
    if SYSTEM == "win32":
        reasons |= {"docker": "WSL 2", "srt": "WSL 2", "unsafe": "WSL 2", "auto": "docker: .*WSL 2"}
    for name, reason in reasons.items():
        with pytest.raises(SandboxUnavailable, match=reason):
            await Runtime(sandbox=name).__aenter__()


def report(_: Path) -> None:
    from bench.samples import sample
    from callgate_bench import machine
    from callgate_bench.report.drawn import markdown, page
    from callgate_bench.report.view import view

    assert "callgate" in markdown(view(sample()))
    assert page(view(sample())).startswith("<!")
    assert machine.describe()
    assert machine.load()


PARTS: tuple[Callable[[Path], Any], ...] = (
    imports, plans, fast_path, without_async, search, definitions, artifacts, durable_runs, agent, mcp_over_stdio,
    mcp_over_http, mcp_servers_on_stdio, command_line, signals, sandboxes, report,
)  # fmt: skip


def main() -> None:
    """Go through the day."""
    install(SYSTEM)
    from callgate import event_loop

    for part in PARTS:
        with tempfile.TemporaryDirectory() as folder:
            if inspect.iscoroutinefunction(part):
                event_loop.run(part, Path(folder))
            else:
                part(Path(folder))
        print(part.__name__.replace("_", " "), flush=True)


if __name__ == "__main__":
    main()
