"""``callgate serve``: an MCP server, on stdio or over HTTP, in front of other MCP servers and of own tools."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import warnings
from typing import TYPE_CHECKING, Any

import anyio
import click

from callgate import Allow, ApprovalRequest, ConfigurationError, Runtime, SandboxError, event_loop
from callgate.extras import how_to_install
from callgate.sandbox.unsafe import UnsandboxedWarning
from callgate.tools import Registry

from .live import log_to_stderr
from .load import load_tools
from .mcp_option import Ask, ask_option, servers_from
from .news import News, why
from .options import limit_options, limits_from, policy_option, sandbox_from, sandbox_options, tools_option
from .words import INTERRUPTED, NO_SANDBOX, OK, Stop, one_line, say

if TYPE_CHECKING:
    from callgate.mcp import McpServers
    from callgate.mcp.server import Serving, StdioWire

__all__ = ["command"]

_ADDRESS = "127.0.0.1:8765"
_MOST_NAMED = 5
"""Tools passed through that the start-up report names; of more it tells the number."""


@click.command("serve", short_help="Serve tools, and what runs them, to MCP clients.")
@click.option("--mcp", "mcp_file", metavar="FILE", help="MCP servers to stand in front of: JSON with mcpServers.")
@click.option(
    "--ready-seconds", type=click.FloatRange(min=0), default=5.0, show_default=True, metavar="SECONDS",
    help="Wait so long for MCP servers that are still starting; the tools of slower ones come later.",
)  # fmt: skip
@tools_option
@click.option(
    "--pass", "-p", "direct", multiple=True, metavar="TOOL",
    help="Show this tool to the client as it is, too: a name, SERVER.TOOL, or a pattern; may be repeated.",
)  # fmt: skip
@click.option("--reveal", is_flag=True, help="Show tools that search_tools found to the client as they are, too.")
@click.option(
    "--http", "address", is_flag=False, flag_value=_ADDRESS, metavar="[HOST:PORT]",
    help=f"Serve over HTTP instead of stdio. Default {_ADDRESS}; port 0 takes a free one.",
)  # fmt: skip
@click.option("--token-env", metavar="NAME", help="HTTP: the environment variable that holds the bearer token.")
@click.option(
    "--allow-host", "hosts", multiple=True, metavar="NAME", help="HTTP: another name the server is reached by."
)
@click.option("--allow-origin", "origins", multiple=True, metavar="ORIGIN", help="HTTP: web pages that may use it.")
@ask_option
@click.option("-y", "--yes", is_flag=True, help="Approve every call of a tool that asks for approval; ask nobody.")
@click.option("--statistics", metavar="FILE", help="Keep how tools do, and which ones searches led to, in this file.")
@click.option("-v", "--verbose", is_flag=True, help="Show where the tools' own failures came from, on stderr.")
@sandbox_options
@policy_option
@limit_options
def command(**options: Any) -> int:
    """Serve an MCP client: it sees search_tools, describe_tools, execute_code and execute_tool_plan, and behind them
    all tools of the MCP servers in --mcp and of --tools.

    On stdio until stdin ends; over HTTP until interrupted. A line on stderr says what came up, and what did not.

    Exit codes: 0 ended by its client or by SIGTERM, 2 usage, 3 no sandbox works here, 130 interrupted.
    """
    try:
        from callgate.mcp.server import stdio_wire
    except ModuleNotFoundError as missing:
        raise Stop(f"{missing.name} is not installed", how_to_install("mcp")) from None
    limits = limits_from(options)
    sandbox = sandbox_from(options)
    http = _http_from(options)
    ask = options["ask"] = Ask(options["ask"], yes=options["yes"])
    log_to_stderr(options.pop("verbose"))
    for name in ("mcp", "uvicorn"):  # they tell of every request's fate; what matters, callgate says itself
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("callgate.mcp.servers").setLevel(logging.ERROR)  # `News` tells of each change of theirs, once
    news = News()
    with contextlib.ExitStack() as stack:
        # before any code of the operator's runs: what it prints must not be taken for the protocol
        wire = stack.enter_context(stdio_wire(for_good=True)) if http is None else None
        registry = ask.of(load_tools(options.pop("tool_files")))
        ready_seconds = options.pop("ready_seconds")
        servers = servers_from(options.pop("mcp_file"), ask, ready_seconds=ready_seconds, on_status=news.note)
        if not len(registry) and (servers is None or not servers.status()):
            raise Stop(
                "there are no tools to serve", "name MCP servers with --mcp FILE, or own tools with --tools FILE.py"
            )
        kept = {name: options.pop(name) for name in ("statistics", "policy")}
        runtime_options = {**sandbox, "limits": limits, **kept}
        return event_loop.run(_serve, registry, servers, news, runtime_options, wire, http, options)


def _http_from(options: dict[str, Any]) -> dict[str, Any] | None:
    address, name = options.pop("address"), options.pop("token_env")
    hosts, origins = options.pop("hosts"), options.pop("origins")
    if address is None:
        for flag, given in (("--token-env", name), ("--allow-host", hosts), ("--allow-origin", origins)):
            if given:
                raise Stop(f"{flag} is for HTTP", f"add --http, or --http HOST:PORT, or leave {flag} out")
        return None
    host, colon, port = address.rpartition(":")
    if not colon:
        host, port = (_ADDRESS.rpartition(":")[0], address) if address.isdecimal() else (address, "8765")
    if not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        raise Stop(
            f"--http {address!r} is no address: {port[:20]!r} is no port, which is a number from 0 to 65535",
            f"write HOST:PORT, for example {_ADDRESS}",
        )
    token = None
    if name is not None:
        token = os.environ.get(name)
        if not token:
            raise Stop(
                f"the environment variable {name} is not set", f"put a long random token into {name}, and export it"
            )
    host = host.removeprefix("[").removesuffix("]")
    _check_policy(host, int(port), token)
    return {"host": host, "port": int(port), "token": token, "allowed_hosts": hosts, "allowed_origins": origins}


def _check_policy(host: str, port: int, token: str | None) -> None:
    """Refuse what may not be served, before anything is started."""
    from callgate.mcp.server.guard import Policy

    try:
        Policy(bind=host, port=port, token=token)
    except ConfigurationError as error:
        raise Stop(str(error), "for example: export CALLGATE_TOKEN=$(openssl rand -hex 32)") from None


async def _serve(
    registry: Registry,
    servers: McpServers | None,
    news: News,
    runtime_options: dict[str, Any],
    wire: StdioWire | None,
    http: dict[str, Any] | None,
    options: dict[str, Any],
) -> int:
    status = OK

    async def until_signal(scope: anyio.CancelScope) -> None:
        nonlocal status
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
            async for each in signals:  # until all has ended: a second one would leave MCP servers behind
                if not scope.cancel_called:
                    status = INTERRUPTED if each == signal.SIGINT else OK
                    scope.cancel()

    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            tasks.start_soon(until_signal, scope)
            try:
                await _served(registry, servers, news, runtime_options, wire, http, options)
            except* (ConfigurationError, SandboxError) as group:
                failure = _first(group)
        tasks.cancel_scope.cancel()
    if isinstance(failure, SandboxError):
        tip = "`callgate doctor` says what works on this machine and what to do"
        raise Stop(str(failure), tip, NO_SANDBOX)
    if failure is not None:
        raise Stop(str(failure), "callgate serve --help shows what each option takes")
    return status


def _first(group: BaseExceptionGroup[Any]) -> Any:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _served(
    registry: Registry,
    servers: McpServers | None,
    news: News,
    runtime_options: dict[str, Any],
    wire: StdioWire | None,
    http: dict[str, Any] | None,
    options: dict[str, Any],
) -> None:
    from callgate.mcp.server import Serving, ask_client, serve_http, serve_stdio

    serving = Serving(direct=options["direct"], reveal=options["reveal"])
    approve = _yes if options["yes"] else ask_client
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnsandboxedWarning)
        if runtime_options["sandbox"] == "unsafe":
            say("WARNING sandbox 'unsafe': nothing confines programs, they may do whatever you may do", "bold yellow")
        async with Runtime(
            registry, **runtime_options, approve=approve, sources=[] if servers is None else [servers]
        ) as runtime:

            def report(where: str) -> None:
                _report(runtime, servers, serving, where)
                news.begin([] if servers is None else servers.status())
                options["ask"].tell()

            if http is None:
                await serve_stdio(runtime, serving, wire=wire, ready=lambda: report("stdio"))
            else:
                await serve_http(runtime, serving, **http, ready=report)


async def _yes(_: ApprovalRequest) -> Allow:
    return Allow()


def _report(runtime: Runtime, servers: McpServers | None, serving: Serving, where: str) -> None:
    """The start-up report: one line. What is merely odd has lines of its own."""
    from callgate.mcp.server.listing import chosen

    tools = len(runtime.registry)
    parts = [f"{tools} tool{'' if tools == 1 else 's'}"]
    states = [] if servers is None else servers.status()
    if up := [f"{each.name} {len(each.tools)}" for each in states if each.state == "running"]:
        parts.append(f"servers: {', '.join(up)}")
    parts += [f"not up: {each.name} ({why(each)})" for each in states if each.state != "running"]
    passed = chosen(runtime.registry, serving.direct)
    if serving.direct:
        parts.append(f"passed through: {_some(passed)}")
    parts.append(f"sandbox: {runtime.backend.description}")
    say(one_line(f"callgate serves on {where}: {'; '.join(parts)}", 4_000))
    for each in states:
        for warning in each.warnings:
            say(f"WARNING {one_line(f'{each.name}: {warning}')}", "yellow")
    for pattern in serving.direct:
        if not chosen(runtime.registry, [pattern]):
            say(f"WARNING --pass {one_line(pattern)}: no tool of that name may be called directly, so far", "yellow")


def _some(names: tuple[str, ...]) -> str:
    """Names, where they are few; else some of them, and how many others there are."""
    if len(names) <= _MOST_NAMED:
        return ", ".join(names) or "none"
    return f"{', '.join(names[:_MOST_NAMED])} and {len(names) - _MOST_NAMED} more"
