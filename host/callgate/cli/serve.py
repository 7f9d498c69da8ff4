"""``callgate serve``: an MCP server, on stdio or over HTTP, in front of other MCP servers and the operator's tools."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from typing import TYPE_CHECKING, Any

import anyio
import click

from callgate import Allow, ApprovalRequest, CallgateError, ConfigurationError, Runtime, event_loop
from callgate.extras import how_to_install

from .offer import Offer
from .options import Sandbox, encryption_key, flag, limit_options, option, options, shared
from .words import Exit, Stop, counted, log_to_stderr, one_line, say

if TYPE_CHECKING:
    from callgate.mcp import ServerStatus
    from callgate.mcp.server import Serving, StdioWire

__all__ = ["News", "command", "why"]

_ADDRESS = "127.0.0.1:8765"
_MOST_NAMED = 5
"""Tools passed through that the start-up report names; it counts the others."""


class Served:
    """What a client sees, and how the client connects."""

    ready_seconds = option(type=click.FloatRange(min=0), default=5.0, show_default=True, metavar="SECONDS")
    """Longest wait for MCP servers that are starting; the tools of slower servers come later."""
    direct = option("--pass", "-p", multiple=True, metavar="TOOL")
    """Show this tool to the client as it is, too: a name, SERVER.TOOL, or a pattern; may be repeated."""
    reveal = option(is_flag=True)
    """Show tools that search_tools found to the client as they are, too."""
    background = option(is_flag=True)
    """Clients may start programs in the background: start_code, wait_run, stop_run. --durable implies it."""
    http = option(is_flag=False, flag_value=_ADDRESS, metavar="[HOST:PORT]")
    """Serve over HTTP instead of stdio. Default 127.0.0.1:8765; port 0 takes a free one."""
    token_env = option(metavar="NAME")
    """HTTP: the environment variable that holds the bearer token."""
    allow_host = option(multiple=True, metavar="NAME")
    """HTTP: another name by which clients reach the server."""
    allow_origin = option(multiple=True, metavar="ORIGIN")
    """HTTP: web pages that may use the server."""


@click.command("serve")
@shared("mcp", "tools")
@options(Served)
@shared("durable", "encryption_key_file", "ask", "yes", "statistics", "audit", "verbose", "policy")
@options(Sandbox)
@limit_options()
def command(**options: Any) -> int:
    """Serve MCP clients. A client sees search_tools, describe_tools, execute_code and execute_tool_plan. Through these
    it uses all tools of --tools and of the MCP servers in --mcp.

    On stdio until stdin ends; over HTTP until interrupted. A line on stderr says what came up, and what did not.

    Exit codes: 0 ended by its client or by SIGTERM, 2 usage, 3 no sandbox works here, 130 interrupted.
    """
    try:
        from callgate.mcp.server import stdio_wire
    except ModuleNotFoundError as missing:
        raise Stop(f"{missing.name} is not installed", how_to_install("mcp")) from None
    http = _http_from(options)
    log_to_stderr(options["verbose"])
    for name in ("mcp", "uvicorn"):  # they log every request; callgate says what matters
        logging.getLogger(name).setLevel(logging.CRITICAL)
    logging.getLogger("callgate.mcp.servers").setLevel(logging.ERROR)  # `News` reports each change of a server, once
    news = News()
    with contextlib.ExitStack() as stack:
        # before any code of the operator runs: its prints must not mix with the protocol
        wire = stack.enter_context(stdio_wire(for_good=True)) if http is None else None
        offer = Offer(options, ready_seconds=options["ready_seconds"], on_status=news.note)
        if not len(offer.registry) and (offer.servers is None or not offer.servers.names):
            tip = "name MCP servers with --mcp FILE, or own tools with --tools FILE.py"
            raise Stop("there are no tools to serve", tip)
        return event_loop.run(_serve, offer, news, wire, http, options)


def _http_from(options: dict[str, Any]) -> dict[str, Any] | None:
    address, variable = options["http"], options["token_env"]
    if address is None:
        for name in ("token_env", "allow_host", "allow_origin"):
            if options[name]:
                raise Stop(f"{flag(name)} is for HTTP", f"add --http, or --http HOST:PORT, or leave {flag(name)} out")
        return None
    host, colon, port = address.rpartition(":")
    if not colon:
        own_host, _, own_port = _ADDRESS.partition(":")
        host, port = (own_host, address) if address.isdecimal() else (address, own_port)
    if not port.isdecimal() or len(port) > 5 or int(port) > 65535:
        fault = f"--http {address!r} is not an address: {port[:20]!r} is not a port, a number from 0 to 65535"
        raise Stop(fault, f"write HOST:PORT, for example {_ADDRESS}")
    token = os.environ.get(variable) if variable is not None else None
    if variable is not None and not token:
        tip = f"put a long random token into {variable}, and export it"
        raise Stop(f"the environment variable {variable} is not set", tip)
    host = host.removeprefix("[").removesuffix("]")
    from callgate.mcp.server.guard import Policy

    try:  # before anything is started
        Policy(bind=host, token=token)
    except ConfigurationError as error:
        raise Stop(str(error), "for example: export CALLGATE_TOKEN=$(openssl rand -hex 32)") from None
    allowed = {"allowed_hosts": options["allow_host"], "allowed_origins": options["allow_origin"]}
    return {"host": host, "port": int(port), "token": token, **allowed}


async def _serve(
    offer: Offer, news: News, wire: StdioWire | None, http: dict[str, Any] | None, options: dict[str, Any]
) -> int:
    from callgate.mcp.server import Serving, ask_client, serve_http, serve_stdio

    status = Exit.OK
    background = options["background"] or options["durable"] is not None
    serving = Serving(direct=options["direct"], reveal=options["reveal"], background=background)
    runtime = offer.runtime(
        approve=_yes if options["yes"] else ask_client, durable=options["durable"],
        encryption_key=encryption_key(options),
    )  # fmt: skip

    async def until_signal(scope: anyio.CancelScope) -> None:
        nonlocal status
        with event_loop.endings() as signals:
            async for each in signals:  # until the end: a second signal would leave MCP servers behind
                if not scope.cancel_called:
                    status = Exit.INTERRUPTED if each == signal.SIGINT else Exit.OK
                    scope.cancel()

    def report(where: str) -> None:
        states = () if offer.servers is None else offer.servers.status()
        _report(runtime, states, serving, where)
        news.begin(states)
        offer.ask.tell()

    failure: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            tasks.start_soon(until_signal, scope)
            try:
                async with runtime:
                    if http is None:
                        await serve_stdio(runtime, serving, wire=wire, ready=lambda: report("stdio"))
                    else:
                        await serve_http(runtime, serving, **http, ready=report)
            except* CallgateError as group:
                failure = group
        tasks.cancel_scope.cancel()
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if failure is not None:
        raise failure
    return status


async def _yes(_: ApprovalRequest) -> Allow:
    return Allow(by="--yes")


# words


def _report(runtime: Runtime, states: tuple[ServerStatus, ...], serving: Serving, where: str) -> None:
    """The start-up report: one line, and a line for each warning."""
    from callgate.mcp.server.listing import chosen

    parts = [counted(len(runtime.registry), "tool")]
    if up := [f"{each.name} {len(each.tools)}" for each in states if each.state == "running"]:
        parts.append(f"servers: {', '.join(up)}")
    parts += [f"not up: {each.name} ({why(each)})" for each in states if each.state != "running"]
    if serving.direct:
        passed = chosen(runtime.registry, serving.direct)
        more = f" and {len(passed) - _MOST_NAMED} more" if len(passed) > _MOST_NAMED else ""
        parts.append(f"passed through: {', '.join(passed[:_MOST_NAMED]) or 'none'}{more}")
    parts.append(f"sandbox: {runtime.backend.description}")
    if runtime._durable is not None:
        parts.append(f"runs are kept in {runtime._durable}")
    say(one_line(f"callgate serves on {where}: {'; '.join(parts)}", 4_000))
    for each in states:
        for warning in each.warnings:
            say(f"WARNING {one_line(f'{each.name}: {warning}')}", "yellow")
    for pattern in serving.direct:
        if not chosen(runtime.registry, [pattern]):
            say(f"WARNING --pass {one_line(pattern)}: no tool of that name may be called directly, so far", "yellow")


class News:
    """Reports each change of an MCP server once, as a line on stderr.

    Begins after the start-up report, which has the state of each server. A failed server that is tried again is
    reported when it is up.
    """

    def __init__(self) -> None:
        self._states: dict[str, str] | None = None

    def begin(self, states: tuple[ServerStatus, ...]) -> None:
        """Report changes from now on; `states` are known already."""
        self._states = {status.name: status.state for status in states}

    def note(self, status: ServerStatus) -> None:
        """Take in the new state of a server."""
        if self._states is None:
            return
        before, now = self._states.get(status.name), status.state
        if now == before or now not in ("running", "restarting", "failed") or (now, before) == ("restarting", "failed"):
            return
        self._states[status.name] = now
        line = f"{'went away: ' if now == 'restarting' else ''}{why(status)}"
        if now == "running":
            line = f"up{'' if before == 'starting' else ' again'}, {counted(len(status.tools), 'tool')}"
        say(f"MCP server {one_line(status.name, 100)}: {line}")


def why(status: ServerStatus) -> str:
    """Why a server does not run, what to do, and what happens next."""
    parts = [one_line(each, 300) for each in (status.error, status.remedy) if each]
    if status.next_attempt_seconds is not None:
        parts.append(f"starts again in {status.next_attempt_seconds:.1f} s")
    elif status.state == "starting":
        parts.append("its tools come when it is up")
    waits = status.state in ("starting", "restarting") and status.next_attempt_seconds is not None
    return "; ".join(parts if waits and parts else [status.state, *parts])
