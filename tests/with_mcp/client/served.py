"""Servers for a test: their configuration, a registry that they serve, calls through a gate, what is left of them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio

from callgate import Limits, Registry
from callgate.mcp import McpServers, ServerStatus
from callgate.runtime.gate import Gate
from with_mcp.server.served import children

SERVERS = Path(__file__).parent.parent / "servers"
SECONDS = 60.0
"""No wait is longer: what hangs fails."""


def everything(**env: str) -> dict[str, Any]:
    """The SDK's server on stdio."""
    return {"command": sys.executable, "args": [str(SERVERS / "everything.py")], "env": env}


def hostile(kind: str, **env: str) -> dict[str, Any]:
    """A server that goes wrong in this way."""
    env = {"PYTHONPATH": str(SERVERS.parents[1]), **env}
    return {"command": sys.executable, "args": [str(SERVERS / "hostile.py"), kind], "env": env}


class Served:
    """Servers, and the registry that they serve."""

    def __init__(self, servers: McpServers, registry: Registry) -> None:
        self.servers = servers
        self.registry = registry
        self.gate = Gate(registry)
        self.shelf = servers.artifacts.shelf()
        """Of the caller."""

    async def call(self, tool: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Any:
        """Call through the gate, as a model would."""
        run = self.gate.open(caller="direct", limits=Limits(), shelf=self.shelf)
        return json.loads(await run.call(tool, arguments or {}, **options))

    def status(self, name: str) -> ServerStatus:
        return next(each for each in self.servers.status() if each.name == name)

    async def until(self, name: str, state: str) -> ServerStatus:
        """Wait for a server to come to this state."""
        await until(lambda: self.status(name).state == state)
        return self.status(name)


@contextlib.asynccontextmanager
async def serving(servers: Mapping[str, Any], **options: Any) -> AsyncIterator[Served]:
    """These servers, started; `ready_seconds` is patient unless it is given."""
    options.setdefault("ready_seconds", 30)
    read = McpServers.read({"mcpServers": servers}, **options)
    registry = Registry()
    with anyio.fail_after(SECONDS):
        async with read.serving(registry):
            yield Served(read, registry)


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something outside this process to become true."""
    with anyio.fail_after(seconds):
        while not condition():  # noqa: ASYNC110 -- it is another process that changes it
            await anyio.sleep(0.01)


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is not only waiting to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def descendants() -> set[int]:
    """The live processes that this one started, directly or not."""
    return children(os.getpid())


def lines(path: Path) -> list[str]:
    """What a server noted so far."""
    return path.read_text().splitlines() if path.exists() else []
