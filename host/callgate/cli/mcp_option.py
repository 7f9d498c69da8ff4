"""``--mcp`` and ``--ask``: the MCP servers of a file for as long as a command runs, and which tools ask for approval.

Knows how servers are named, started and waited for on the command line; the SDK is imported where there is a file.
"""

from __future__ import annotations

import dataclasses
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, TypeVar

import click

from callgate import event_loop
from callgate.errors import ConfigurationError
from callgate.extras import how_to_install
from callgate.tools import Registry, Tool
from callgate.tools.names import python_name

from .words import Stop, one_line, say

if TYPE_CHECKING:
    from callgate.mcp import McpServers, ServerStatus

__all__ = ["Ask", "ask_option", "listed", "mcp_option", "servers_from", "with_servers"]

_Result = TypeVar("_Result")

READY_SECONDS = 30.0
"""So long a command that runs once waits for servers that are still starting."""

_DESTRUCTIVE = "destructive"

mcp_option = click.option(
    "--mcp", "mcp_file", metavar="FILE", help="MCP servers whose tools to offer: JSON with mcpServers."
)
ask_option = click.option(
    "--ask", multiple=True, metavar="WHAT",
    help="Ask for approval before calls of this tool: a name, SERVER.TOOL, a pattern, or `destructive` for what may "
    "destroy; may be repeated.",
)  # fmt: skip


class Ask:
    """Makes tools ask for approval, and remembers which of its patterns did so.

    Args:
        patterns: names, ``server.tool``, patterns of either (``*``, ``?``, ``[...]``), or ``destructive``.
        yes: whether every call is approved anyway.

    Raises:
        Stop: both are given; a usage error.
    """

    def __init__(self, patterns: Iterable[str], *, yes: bool = False) -> None:
        self._patterns = tuple(dict.fromkeys(patterns))
        self._met: set[str] = set()
        if self._patterns and yes:
            raise Stop("--yes approves what --ask wants to be asked about", "leave one of them out")

    def __call__(self, tool: Tool) -> Tool:
        """The tool, which asks where a pattern names it. Called in worker threads as well."""
        met = [pattern for pattern in self._patterns if _names(pattern, tool)]
        self._met.update(met)
        return dataclasses.replace(tool, requires_approval=True) if met else tool

    def of(self, registry: Registry) -> Registry:
        """The same for tools that are there already."""
        return Registry(self(tool) for tool in registry) if self._patterns else registry

    def tell(self) -> None:
        """Say of each pattern that named nothing that it did not."""
        for pattern in self._patterns:
            if pattern not in self._met:
                what = "is destructive" if pattern == _DESTRUCTIVE else "has that name"
                say(f"WARNING --ask {one_line(pattern)}: no tool {what}, so far; nothing asks for it", "yellow")


def _names(pattern: str, tool: Tool) -> bool:
    if pattern == _DESTRUCTIVE and tool.destructive:
        return True
    known_as = {tool.name, python_name(tool.name)}
    if tool.server:
        own = tool.server_tool or tool.name
        known_as |= {f"{tool.server}.{own}", f"{python_name(tool.server)}.{python_name(own)}"}
    return any(fnmatchcase(name, pattern) for name in known_as)


def servers_from(
    file: str | None,
    ask: Ask | None = None,
    *,
    ready_seconds: float = READY_SECONDS,
    on_status: Callable[[ServerStatus], None] = lambda status: None,
) -> McpServers | None:
    """The servers of a file; None where there is no file. Nothing is started.

    Args:
        file: JSON with ``mcpServers``.
        ask: which of their tools ask for approval.
        ready_seconds: so long entering waits for them.
        on_status: told of every change of a server.

    Raises:
        Stop: the extra is not installed, or the file cannot be used.
    """
    if file is None:
        return None
    try:
        from callgate.mcp.client.servers import McpServers
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        raise Stop(f"{package} is not installed", how_to_install("mcp")) from None
    try:
        servers = McpServers.read(file, ready_seconds=ready_seconds, adjust=ask, on_status=on_status)
    except ConfigurationError as error:
        raise Stop(str(error), 'the file holds {"mcpServers": {"NAME": {"command": ..., "args": [...]}}}') from None
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it tells of every request; what matters, callgate says
    return servers


async def with_servers(
    servers: McpServers | None,
    registry: Registry,
    work: Callable[[], Awaitable[_Result]],
    *,
    ask: Ask | None = None,
    warnings: bool = False,
) -> _Result:
    """What `work` gives, awaited while the servers are up and their tools in the registry. They are ended afterwards.

    A server that does not come up is a line on stderr, and the others are used.

    Args:
        servers: None for none.
        registry: gets their tools.
        work: the command's own.
        ask: says what it did not find.
        warnings: whether to say what was odd about a server that came up.
    """
    if servers is None:
        if ask is not None:
            ask.tell()
        return await work()
    result: _Result
    failure: Exception | None = None
    if servers.names and sys.stderr.isatty():
        say(f"starting {one_line(', '.join(servers.names))}", "dim")
    starting = logging.getLogger("callgate.mcp")
    starting.setLevel(logging.ERROR)  # what did not come up is told below, with what to do
    async with servers.serving(registry):
        starting.setLevel(logging.NOTSET)
        _tell(servers.status(), warnings)
        if ask is not None:
            ask.tell()
        try:
            result = await work()
        except Exception as error:  # by itself, not in the group that a server's task group would make of it
            failure = error
    if failure is not None:
        raise failure
    return result


def listed(
    servers: McpServers | None, registry: Registry, *, ask: Ask | None = None, warnings: bool = False
) -> Registry:
    """The tools of `registry` and of the servers, for looking at them: the servers are ended again."""

    if servers is None:
        if ask is not None:
            ask.tell()
        return registry

    async def copied() -> Registry:
        return Registry(list(registry))

    return event_loop.run(lambda: with_servers(servers, registry, copied, ask=ask, warnings=warnings))


def _tell(states: Iterable[ServerStatus], warnings: bool) -> None:
    for each in states:
        if each.state not in ("running", "disabled"):
            told = "; ".join(text for text in (each.state, each.error, each.remedy) if text)
            say(f"WARNING not up: {one_line(f'{each.name} ({told})')}", "yellow")
        for warning in each.warnings if warnings else ():
            say(f"WARNING {one_line(f'{each.name}: {warning}')}", "yellow")
