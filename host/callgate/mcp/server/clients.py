"""What the operator set for clients, and what lives as long as one client session: its log level, the tools that its
model found, its artifacts, and the sandboxes that it keeps between programs, each under a handle. Knows how the SDK
tells sessions apart.

Which session a request belongs to depends on the protocol and on the transport:

- up to 2025-11-25 a connection begins with a handshake, on stdio and over HTTP; the connection is the session;
- from 2026-07-28 on every request stands alone. On stdio the pipe is the session. Over HTTP there is no session: a
  sandbox, or an artifact, is found by its handle alone, which cannot be guessed; a sandbox ends when it is idle.

A kept sandbox ends with its client session, when it is idle for long, or when its program was killed.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import anyio
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp_types import ElicitationCapability, LoggingLevel
from mcp_types import Tool as McpTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callgate.artifacts import Artifacts, Shelf
from callgate.errors import ConfigurationError, ToolError
from callgate.mcp.client.status import one_line
from callgate.runtime import Conversation, Runtime, Session
from callgate.runtime.answers import EVERYBODY
from callgate.runtime.gate.watching import Origin, origin

__all__ = [
    "NEW",
    "Client",
    "Clients",
    "Context",
    "Sandboxes",
    "Serving",
    "asks_by_form",
    "connection_of",
    "is_modern",
    "origin_of",
]

Context = ServerRequestContext[Any, Any]

NEW = "new"
_MOST_NAME = 120
"""Characters of the name that a client gives itself, in logs."""
_STDIO = "stdio"
"""Owner of the runs of clients on a pipe: all of them are the user who starts this server, today and tomorrow."""
_SHARES = 8
"""Requests without a client session may together keep as many sandboxes as this number of client sessions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """How a runtime is served. Raises `ConfigurationError` for a number that is not above 0."""

    name: str = "callgate"
    """The server's name, as clients show it."""
    direct: tuple[str, ...] = ()
    """Tools that the client sees and calls as they are, besides the meta-tools: names, ``server.tool``, or patterns
    such as ``github.*``. Only tools that allow callers of kind ``direct`` count."""
    sessions: int = 4
    """Sandboxes that one client session may keep open at the same time (`execute_code` with `session`)."""
    session_idle_seconds: float = 600.0
    """A kept sandbox that is not used for this time is ended."""
    background: bool = False
    """Whether clients have ``start_code``, ``wait_run`` and ``stop_run``, for programs in the background. Programs and
    plans are then runs of `Runtime.start`: one that waits for an approval that this client cannot give goes on when
    somebody else gives it."""
    reveal: bool = False
    """Whether tools that `search_tools` found are listed, too, for that client session alone, and may be called
    directly."""
    approval_seconds: float = 300.0
    """How long a person may take over a question before it counts as a no. The run's `wall_seconds` keep counting."""

    def __post_init__(self) -> None:
        for field in ("sessions", "session_idle_seconds", "approval_seconds"):
            if not getattr(self, field) > 0:
                raise ConfigurationError(f"{field} must be above 0, not {getattr(self, field)!r}")


class Client:
    """One client session, or one request without a session."""

    def __init__(self, artifacts: Shelf, *, runs: str | None = None, alone: bool = False) -> None:
        self.name = f"client_{secrets.token_hex(8)}"
        """What logs call it. Not the session's id of the transport, which is a key to the session."""
        self.artifacts = artifacts
        """Files and pictures that its programs and tools produced."""
        self.owner = None if alone else self
        """Who owns the sandboxes that this client keeps; None for everybody who knows a handle."""
        self.runs = runs or self.name
        """Whose its runs in the background are."""
        self.conversation: Conversation | None = None
        """What the client's model searched for and found; made at the first use."""
        self.direct: tuple[str, ...] = ()
        """The tools passed through that the conversation knows of."""
        self.listed: tuple[list[McpTool], tuple[str, ...], list[McpTool]] | None = None
        """The server's list and the found tools, and this client's own list made of both."""
        self.level: LoggingLevel = "info"
        """The level that `logging/setLevel` chose; up to 2025-11-25."""
        self.asking = anyio.Lock()
        """Held while a person is asked: one question at a time."""


class Clients:
    """Finds the client session of a request.

    Args:
        sandboxes: those of all sessions.
        store: keeps the artifacts of all sessions.
        end_runs: ends the runs in the background that an owner leaves behind.
    """

    def __init__(self, sandboxes: Sandboxes, store: Artifacts, end_runs: Callable[[str], Awaitable[None]]) -> None:
        self.sandboxes = sandboxes
        self._end_runs = end_runs
        self._store = store
        self._connections: dict[Connection, Client] = {}
        self._pipe = Client(store.shelf(), runs=_STDIO)
        self._alone = store.shelf()
        """Of all requests without a client session: a handle cannot be guessed, and nothing lists them."""

    def of(self, context: Context) -> Client:
        """The client session that a request belongs to."""
        if is_modern(context):
            # over HTTP nothing says that two requests come from one user, so no request sees what another one found
            return self._pipe if context.request is None else Client(self._alone, runs=EVERYBODY, alone=True)
        connection = connection_of(context)
        client = self._connections.get(connection)
        if client is None:
            runs = _STDIO if context.request is None else None
            client = self._connections[connection] = Client(self._store.shelf(), runs=runs)
            connection.exit_stack.push_async_callback(self._leave, connection)
        return client

    def connections(self) -> Iterator[Connection]:
        """The connections that began with a handshake."""
        return iter(tuple(self._connections))

    async def _leave(self, connection: Connection) -> None:
        client = self._connections.pop(connection)
        await self.sandboxes.close(client)
        await self._end_runs(client.runs)
        client.artifacts.clear()


@dataclass(slots=True, eq=False)
class _Sandbox:
    owner: Client | None
    context: AbstractAsyncContextManager[Session]
    session: Session | None = None
    """None while the sandbox is being opened."""
    used: float = 0.0
    running: int = 0


class Sandboxes:
    """Sandboxes that are kept between programs. All client sessions together may keep half of the runtime's guests:
    programs that stand alone need some, too.

    Args:
        runtime: gives the guests.
        most: sandboxes of one client session at the same time.
        idle_seconds: a sandbox that is not used for this time is ended.
    """

    def __init__(self, runtime: Runtime, most: int, idle_seconds: float) -> None:
        self._runtime = runtime
        self._most = most
        self._most_in_all = max(1, runtime.max_guests // 2)
        self._idle_seconds = idle_seconds
        self._kept: dict[str, _Sandbox] = {}

    async def open(self, client: Client) -> str:
        """Open a sandbox for a client; returns its handle.

        Raises:
            ToolError: too many are open.
            SandboxError: the runtime cannot give a guest.
        """
        await self.sweep()
        owner = client.owner
        own = [handle for handle, kept in self._kept.items() if kept.owner is owner]
        most = self._most if owner is not None else self._most * _SHARES
        # handles without an owner belong to several users, who must not learn each other's
        instead = f"go on with one of {', '.join(own)}" if own and owner is not None else ""
        if len(own) >= most:
            raise ToolError(f"{most} sessions are open, which is all there may be: {instead or 'try again later'}")
        if len(self._kept) >= self._most_in_all:
            raise ToolError(
                f"{self._most_in_all} sessions of all clients are open, which is all that this server keeps: "
                f"{instead and f'{instead}, '}run the program without session, or try again later"
            )
        handle = f"s_{secrets.token_urlsafe(9)}"
        kept = self._kept[handle] = _Sandbox(owner, self._runtime._for(client.artifacts).session())
        try:
            kept.session = await kept.context.__aenter__()
        except BaseException:
            self._kept.pop(handle, None)
            raise
        kept.used = time.monotonic()
        if handle not in self._kept:
            await _leave(kept)
            raise ToolError("the client session is over")
        return handle

    @contextlib.asynccontextmanager
    async def use(self, handle: str, owner: Client | None) -> AsyncIterator[Session]:
        """The session of that handle, for one program. A session that did not survive the program is ended.

        Raises:
            ToolError: the session has ended, never was, or belongs to somebody else.
        """
        kept = self._kept.get(handle)
        if kept is None or kept.owner is not owner or kept.session is None:
            raise ToolError(
                f"there is no session {handle[:40]!r}: it has ended (sessions end with the connection, after "
                f"{self._idle_seconds:g} s without use, and when a program in them is cancelled or reaches a limit), "
                'or it never was; begin one with session="new"'
            )
        kept.running += 1
        try:
            yield kept.session
        finally:
            kept.running -= 1
            kept.used = time.monotonic()
            if not kept.session.alive:
                await self._end(handle)

    def __contains__(self, handle: object) -> bool:
        return handle in self._kept

    async def sweep(self) -> None:
        """End the sandboxes that have been idle for too long."""
        now = time.monotonic()
        for handle, kept in list(self._kept.items()):
            if kept.session is not None and not kept.running and now - kept.used > self._idle_seconds:
                await self._end(handle)

    async def close(self, *owners: Client | None) -> None:
        """End the sandboxes of these owners; without owners, all."""
        for handle in [handle for handle, kept in self._kept.items() if not owners or kept.owner in owners]:
            await self._end(handle)

    async def _end(self, handle: str) -> None:
        kept = self._kept.pop(handle, None)
        if kept is not None and kept.session is not None:
            await _leave(kept)


async def _leave(kept: _Sandbox) -> None:
    with anyio.CancelScope(shield=True):
        await kept.context.__aexit__(None, None, None)


def connection_of(context: Context) -> Connection:
    """The connection that a request came on."""
    # SDK 2.3.0 has no other way to a request's connection; tests/with_mcp/server/test_sessions.py notices a change
    return context.session._connection


def origin_of(context: Context, client: Client) -> Origin:
    """Who asks: the client session, and the name that the client gives itself, of which nothing is proven."""
    params = context.session.client_params
    info = None if params is None else params.client_info
    named = "" if info is None else f" {one_line(f'{info.name} {info.version}', _MOST_NAME)}"
    return replace(origin.get() or Origin(), client=f"{client.name}{named}")


def is_modern(context: Context) -> bool:
    """Whether the request stands alone (2026-07-28 and later)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def asks_by_form(context: Context) -> bool:
    """Whether the client can ask its user with a form."""
    capabilities = context.session.client_capabilities
    elicitation: ElicitationCapability | None = None if capabilities is None else capabilities.elicitation
    # an empty declaration stands for forms: the other mode came later
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)
