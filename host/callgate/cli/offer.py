"""The tools that a command offers, and the one place that makes a `Runtime` of a command's options.

Reads ``--tools``, ``--mcp``, ``--allow``, ``--ask`` and ``--yes``. Imports the SDK of MCP only if servers are named.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from callgate import Runtime, event_loop
from callgate.errors import ConfigurationError
from callgate.extras import how_to_install
from callgate.tools import Registry, Tool
from callgate.tools.faults import did_you_mean
from callgate.tools.names import python_name

from .load import load_tools
from .options import limits_from, sandbox_from
from .words import Stop, one_line, say

if TYPE_CHECKING:
    from callgate.mcp import McpServers, ServerStatus

__all__ = ["Ask", "Offer"]

READY_SECONDS = 30.0
"""Longest wait of a command that runs once for its MCP servers."""

_DESTRUCTIVE = "destructive"
_SET_UP = ("opentelemetry.sdk.trace", "opentelemetry.sdk.metrics")
"""Modules of OpenTelemetry's SDK: callgate imports neither, so a process that has one has set up providers."""


class Ask:
    """Makes tools ask for approval, and remembers which patterns matched a tool.

    Args:
        patterns: names, ``server.tool``, patterns of either (``*``, ``?``, ``[...]``), or ``destructive``.
        yes: whether every call is approved (``--yes``).

    Raises:
        Stop: `patterns` and `yes` are both given; a usage error.
    """

    def __init__(self, patterns: Iterable[str] = (), *, yes: bool = False) -> None:
        self._patterns = tuple(dict.fromkeys(patterns))
        self._met: set[str] = set()
        if self._patterns and yes:
            raise Stop("--yes approves what --ask wants to be asked about", "leave one of them out")

    def __call__(self, tool: Tool) -> Tool:
        """The tool, made to ask if a pattern matches it. Called in worker threads as well."""
        met = [pattern for pattern in self._patterns if _names(pattern, tool)]
        self._met.update(met)
        return dataclasses.replace(tool, requires_approval=True) if met else tool

    def of(self, registry: Registry) -> Registry:
        """The tools of a registry, made to ask if a pattern matches them."""
        return Registry(self(tool) for tool in registry) if self._patterns else registry

    def tell(self) -> None:
        """Warn of each pattern that matched no tool."""
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


class Offer:
    """The tools of a command, and the runtime that its options describe. Nothing is started before `opened`.

    Args:
        options: the command's options; each of those in `callgate.cli.options` may be missing.
        ready_seconds: longest wait for MCP servers when the runtime opens.
        on_status: called with each change of a server.

    Raises:
        Stop: tools or servers cannot be loaded; a usage error.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        ready_seconds: float = READY_SECONDS,
        on_status: Callable[[ServerStatus], None] = lambda status: None,
    ) -> None:
        self._options = options
        self.ask = Ask(filter(None, options.get("ask", ())), yes=options.get("yes", False))
        self.registry = self.ask.of(load_tools(options.get("tools", ())))
        self.servers = _servers(options.get("mcp"), self.ask, ready_seconds, on_status)

    def runtime(self, **more: Any) -> Runtime:
        """The runtime of these tools and options; without ``--sandbox`` among them, one without a sandbox.

        Raises:
            Stop: options that do not go together.
            ConfigurationError: an option is wrong.
        """
        options = self._options
        kept = {name: options[name] for name in ("policy", "statistics", "audit") if options.get(name) is not None}
        backend = sandbox_from(options) if "sandbox" in options else None
        if options.get("sandbox") == "unsafe" and "sandbox" not in more:
            from callgate.sandbox.unsafe import UnsandboxedWarning

            warnings.simplefilter("ignore", UnsandboxedWarning)
            say("WARNING sandbox 'unsafe': nothing confines programs, they may do whatever you may do", "bold yellow")
        sources = [] if self.servers is None else [self.servers]
        given: dict[str, Any] = {"sandbox": backend, "limits": limits_from(options), "sources": sources}
        if any(each in sys.modules for each in _SET_UP):  # whoever started this command wants to see its spans
            from callgate import Telemetry

            given["telemetry"] = Telemetry()
        return Runtime(self.registry, **{**given, **kept, **more})

    @contextlib.asynccontextmanager
    async def opened(self, runtime: Runtime, *, warnings: bool = False) -> AsyncIterator[Runtime]:
        """The runtime, entered. A server that does not come up is a line on stderr; the other servers are used.

        Args:
            runtime: made by `runtime`.
            warnings: whether to show the warnings of servers that came up.
        """
        names = () if self.servers is None else self.servers.names
        if names and sys.stderr.isatty():
            say(f"starting {one_line(', '.join(names))}", "dim")
        starting = logging.getLogger("callgate.mcp")
        starting.setLevel(logging.ERROR)  # the lines below report servers that do not come up
        async with runtime:
            starting.setLevel(logging.NOTSET)
            for each in () if self.servers is None else self.servers.status():
                if each.state not in ("running", "disabled"):
                    why = "; ".join(text for text in (each.state, each.error, each.remedy) if text)
                    say(f"WARNING not up: {one_line(f'{each.name} ({why})')}", "yellow")
                for warning in each.warnings if warnings else ():
                    say(f"WARNING {one_line(f'{each.name}: {warning}')}", "yellow")
            self.ask.tell()
            yield runtime

    def look(self, *, warnings: bool = False) -> Registry:
        """All tools, for a command that calls none: servers are started for their lists of tools, and ended."""
        servers = self.servers
        if servers is None:
            self.ask.tell()
            return self.registry

        async def copied() -> Registry:
            async with self.opened(Runtime(self.registry, sandbox=None, sources=[servers]), warnings=warnings):
                return Registry(list(self.registry))

        self.registry, self.servers = event_loop.run(copied), None
        return self.registry

    def allowed(self) -> list[str] | None:
        """``--allow``: the tools to offer; None offers all. Raises `Stop` for an unknown tool."""
        given, registry = self._options["allow"], self.registry
        for name in given:
            if registry.resolve(name) is None:
                there = sorted({*registry.names(), *registry.callable_names().values()})
                tip = "there are no tools at all: name what has them with --tools FILE.py"
                if there:
                    tip = "`callgate tools`, with the same --tools and --mcp, lists what there is"
                raise Stop(f"--allow {name}: there is no such tool{did_you_mean(name, there)}", tip)
        return list(given) or None


def _servers(
    file: str | None, ask: Ask, ready_seconds: float, on_status: Callable[[ServerStatus], None]
) -> McpServers | None:
    """The servers of a file, not started; None without a file. Raises `Stop`."""
    if file is None:
        return None
    try:
        from callgate.mcp.client.servers import McpServers
    except ModuleNotFoundError as missing:
        package = (missing.name or "").partition(".")[0]
        raise Stop(f"{package} is not installed", how_to_install("mcp")) from None
    logging.getLogger("mcp").setLevel(logging.CRITICAL)  # it logs every request; callgate says what matters
    try:
        return McpServers.read(file, ready_seconds=ready_seconds, adjust=ask, on_status=on_status)
    except ConfigurationError as error:
        raise Stop(str(error), 'the file holds {"mcpServers": {"NAME": {"command": ..., "args": [...]}}}') from None
