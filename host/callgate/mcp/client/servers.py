"""`McpServers`: the servers of one configuration as a source of tools."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypedDict, Unpack

import anyio

from callgate.artifacts import MAX_BYTES, Artifacts
from callgate.errors import ConfigurationError
from callgate.mcp.config import ServerConfig, read_config
from callgate.tools import Registry
from callgate.tools.faults import did_you_mean

from .imports import Adjust
from .server import Server
from .status import ServerStatus

__all__ = ["McpServers"]


class Options(TypedDict, total=False):
    """See `McpServers`."""

    ready_seconds: float
    start_seconds: float
    adjust: Adjust | None
    max_artifact_bytes: int
    on_status: Callable[[ServerStatus], None]


class McpServers:
    """MCP servers whose tools a runtime offers: ``Runtime(sources=[McpServers.read("servers.json")])``.

    Entering the runtime starts all servers together; leaving it ends them and everything that they started.

    Args:
        servers: from `read_config`.
        ready_seconds: how long entering waits for servers that are still starting; the tools of slower servers come
            later. 0 waits for none.
        start_seconds: from the start of one server to its tools; a server that takes longer is ended and started again.
        adjust: called with each tool, in a worker thread; returns the tool, changed with `dataclasses.replace` if need
            be, or None to leave it out.
        max_artifact_bytes: bytes of `artifacts` that are kept, the newest first.
        on_status: called with a server's status after each change of its state, in the event loop; must not raise.

    Raises:
        ConfigurationError: two servers have one name, or a number makes no sense.
    """

    def __init__(
        self,
        servers: Iterable[ServerConfig],
        *,
        ready_seconds: float = 5.0,
        start_seconds: float = 60.0,
        adjust: Adjust | None = None,
        max_artifact_bytes: int = MAX_BYTES,
        on_status: Callable[[ServerStatus], None] = lambda _: None,
    ) -> None:
        if ready_seconds < 0 or start_seconds <= 0 or max_artifact_bytes < 0:
            raise ConfigurationError("start_seconds must be above 0, ready_seconds and max_artifact_bytes 0 or more")
        self.artifacts = Artifacts(max_artifact_bytes)
        """Images, audio and files that `read_resource` read outside of any call. What a tool returns belongs to
        its caller: see `Runtime.artifacts`."""
        self._shelf = self.artifacts.shelf()
        self._ready_seconds = ready_seconds
        self._serving = False
        self._server = partial(
            Server, artifacts=self._shelf, start_seconds=start_seconds, adjust=adjust, on_status=on_status
        )
        self._servers: dict[str, Server] = {}
        for config in servers:
            if config.name in self._servers:
                raise ConfigurationError(f"there are two MCP servers called {config.name!r}; rename one")
            self._servers[config.name] = self._server(config, Registry())

    @classmethod
    def read(cls, source: str | os.PathLike[str] | Mapping[str, Any], **options: Unpack[Options]) -> McpServers:
        """The servers of a configuration of Claude Desktop, Cursor or VS Code.

        Args:
            source: the path of a JSON file, or its content: ``{"mcpServers": {"name": {"command": ...}}}``.
            options: see `McpServers`.

        Raises:
            ConfigurationError: the file cannot be read, or does not hold such a configuration. The fault of a single
                server is in its `status`; the others work.
        """
        return cls(read_config(source), **options)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the servers in the configuration."""
        return tuple(self._servers)

    @asynccontextmanager
    async def serving(self, registry: Registry) -> AsyncIterator[McpServers]:
        """Start the servers, and keep their tools in the registry; see `Source`.

        Raises:
            ConfigurationError: the servers already serve another runtime.
        """
        if self._serving:
            raise ConfigurationError("these McpServers serve a runtime already; read the configuration once for each")
        self._serving = True
        self._servers = {name: self._server(each.config, registry) for name, each in self._servers.items()}
        try:
            async with anyio.create_task_group() as tasks:
                for server in self._servers.values():
                    server.begin()
                    tasks.start_soon(server.serve)
                try:
                    with anyio.move_on_after(self._ready_seconds):
                        for server in self._servers.values():
                            await server.settled.wait()
                    yield self
                finally:
                    for server in self._servers.values():
                        server.stopping()
                    tasks.cancel_scope.cancel()
        finally:
            self._serving = False
            for name in self._servers:
                registry.expect_server(name, None)

    def status(self) -> tuple[ServerStatus, ...]:
        """How each server is doing, in the order of the configuration."""
        return tuple(server.status() for server in self._servers.values())

    async def restart(self, name: str) -> ServerStatus:
        """End a server and start it again; returns when the server runs or has failed.

        Raises:
            ConfigurationError: there is no such server, or the runtime is not entered.
        """
        server = self._known(name)
        if not self._serving:
            raise ConfigurationError("the servers run while the runtime is entered: enter it first")
        server.restart()
        await server.restarted()
        return server.status()

    async def read_resource(self, server: str, uri: str) -> list[dict[str, Any]]:
        """Read a resource of a server into `artifacts`, or within a tool's call for the caller; returns the handles.

        Raises:
            ToolError: the server cannot read it, or does not run.
            ConfigurationError: there is no such server.
        """
        return await self._known(server).read_resource(uri)

    def _known(self, name: str) -> Server:
        try:
            return self._servers[name]
        except KeyError:
            raise ConfigurationError(f"there is no MCP server {name!r}{did_you_mean(name, self._servers)}") from None
