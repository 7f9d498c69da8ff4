"""Runs `callgate serve` as a process, and talks to it with the SDK's client: over stdio, and over HTTP on loopback."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.context import ClientRequestContext
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    LoggingMessageNotificationParams,
    TextContent,
)

__all__ = ["ERAS", "SECONDS", "TOOLS", "Ear", "Served", "children", "text", "until"]

SECONDS = 60.0
"""No wait is longer: what hangs fails."""
ERAS = ("legacy", "auto")
"""How clients begin: with a handshake (2025-11-25), or not (2026-07-28)."""

TOOLS = '''
"""Tools for the tests. Loading them prints, and so do their calls."""
import os
import sys

import anyio

from callgate import Registry, Tool, ToolError, tool

FOLDER = os.path.dirname(__file__)
print("printed while loading")
os.write(1, b"written while loading")


@tool(read_only=True)
async def get_weather(city: str) -> dict[str, int]:
    """Current weather.

    Args:
        city: its name.
    """
    print("printed by a tool")
    os.write(1, b"written by a tool")
    os.system("echo echoed by a tool")
    if city == "nowhere":
        raise ToolError("there is no city 'nowhere'")
    if city == "crash":
        raise ValueError("a secret of the host")
    return {"temp": len(city)}


@tool(read_only=True)
async def names() -> list[str]:
    """Names of cities."""
    return ["Oslo", "Rome"]


@tool
def wait_for_go() -> str:
    """Wait until somebody writes to the pipe."""
    with open(os.path.join(FOLDER, "go")) as pipe:
        return pipe.read()


@tool
async def hold(name: str) -> str:
    """Hold on for ever; files tell that it began, and that it was cancelled.

    Args:
        name: of the files.
    """
    path = os.path.join(FOLDER, name)
    open(path + ".begun", "w").close()
    try:
        await anyio.sleep_forever()
    finally:
        open(path + ".ended", "w").close()


@tool(destructive=True, requires_approval=True)
def wipe(table: str) -> str:
    """Delete a table.

    Args:
        table: its name.
    """
    with open(os.path.join(FOLDER, "wiped"), "a") as file:
        file.write(table)
    return f"wiped {table}"


@tool(allowed_callers=("code",))
def hidden() -> int:
    """For programs alone."""
    return 1
'''


class Ear:
    """Keeps what the server tells."""

    def __init__(self) -> None:
        self.logs: list[LoggingMessageNotificationParams] = []
        self.progress: list[tuple[float, str | None]] = []
        self.asked: list[str] = []
        self.messages: list[Any] = []
        self.answer: Callable[[ElicitRequestParams], ElicitResult] = lambda _: ElicitResult(action="accept", content={})

    @property
    def printed(self) -> str:
        """What the programs printed."""
        return "".join(each.data for each in self.logs if each.logger == "callgate.program")

    @property
    def told(self) -> list[str]:
        """What was told of calls."""
        return [each.data for each in self.logs if each.logger == "callgate.calls"]

    async def log(self, params: LoggingMessageNotificationParams) -> None:
        self.logs.append(params)

    async def message(self, message: Any) -> None:
        self.messages.append(message)

    async def on_progress(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, message))

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return self.answer(params)


@dataclass
class Served:
    """`callgate serve`, with its tools."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def log(self) -> str:
        """What the process on stdio wrote on stderr."""
        return (self.folder / "stderr").read_text()

    def line(self, *arguments: str) -> list[str]:
        """The command line."""
        tools = () if "--mcp" in arguments else ("--tools", "tools.py")
        return [sys.executable, "-W", "error", "-m", "callgate", "serve", *tools, *arguments]

    @contextlib.asynccontextmanager
    async def client(
        self, *arguments: str, ear: Ear | None = None, era: str = "legacy", elicits: bool = True, level: Any = "debug"
    ) -> AsyncIterator[Client]:
        """A client over stdio, with a server of its own."""
        ear = ear or Ear()
        command, *rest = self.line(*arguments)
        parameters = StdioServerParameters(command=command, args=rest, env=self.environment, cwd=self.folder)
        with open(self.folder / "stderr", "w") as log:  # noqa: ASYNC230 (the client wants a file)
            async with self._client(stdio_client(parameters, errlog=log), ear, era, elicits, level) as client:
                yield client

    @contextlib.asynccontextmanager
    async def http_client(
        self,
        url: str,
        *,
        ear: Ear | None = None,
        era: str = "legacy",
        token: str | None = None,
        elicits: bool = True,
        level: Any = "debug",
    ) -> AsyncIterator[Client]:
        """A client of a server that listens there."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(headers=headers, timeout=SECONDS) as http:
            transport = streamable_http_client(url, http_client=http)
            async with self._client(transport, ear or Ear(), era, elicits, level) as client:
                yield client

    @contextlib.contextmanager
    def http(self, *arguments: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
        """A server on a free port of loopback: its URL, and its process. It is gone afterwards."""
        process = subprocess.Popen(
            self.line("--http", "127.0.0.1:0", *arguments), cwd=self.folder, env=self.environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            assert process.stderr is not None
            try:
                seen = ""
                for line in process.stderr:
                    seen += line
                    if found := re.search(r"http://\S+/mcp", line):
                        yield found[0], process
                        break
                else:
                    raise AssertionError(f"no server came up: {seen}")
            finally:
                process.kill()

    @contextlib.asynccontextmanager
    async def _client(self, transport: Any, ear: Ear, era: str, elicits: bool, level: Any) -> AsyncIterator[Client]:
        client = Client(
            transport, mode=era, logging_callback=ear.log, log_level=level, message_handler=ear.message,
            elicitation_callback=ear.elicit if elicits else None, read_timeout_seconds=SECONDS,
        )  # fmt: skip
        with anyio.fail_after(SECONDS):
            async with client:
                yield client


def text(result: CallToolResult) -> str:
    """What a model reads."""
    return "\n".join(each.text for each in result.content if isinstance(each, TextContent))


async def until(holds: Callable[[], bool]) -> None:
    """Return once it holds; fails when it never does."""
    with anyio.fail_after(SECONDS):
        while not holds():  # noqa: ASYNC110 (another process brings it about)
            await anyio.sleep(0.01)


def children(process: int) -> set[int]:
    """The processes below one, at any depth, that are not zombies."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                state, parent = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()[:2]
                if state != "Z":
                    parents[int(entry)] = int(parent)
    below: set[int] = set()
    while more := {each for each, parent in parents.items() if parent in below | {process}} - below:
        below |= more
    return below
