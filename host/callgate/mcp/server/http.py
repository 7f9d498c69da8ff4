"""MCP over streamable HTTP, with uvicorn. Knows sockets, connections, and when to stop; `guard` decides who is let in.

1. The end: the server first cancels runs and ends open streams, then closes connections. A server that waited for
   connections first would wait for clients that listen forever.
2. A request, body included, must be complete within `request_seconds`, counted from the connection or from the answer
   before; single bytes that keep coming change nothing. The rest of a body whose request was already answered has the
   same time. An answer may take any time.
3. At most `MAX_HALF_OPEN` connections that never had complete headers are open at a time. A further one closes the
   oldest: a client that holds many of them harms only itself.
4. Beyond `most_connections`, requests are answered with 503.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from callgate.errors import ConfigurationError
from callgate.portable import most_files

from .guard import Guard, Policy
from .peers import SessionBounds

__all__ = ["MAX_HALF_OPEN", "most_connections", "serve_app"]

MAX_SESSIONS = 1_000
"""Client sessions at the same time, of all peers."""
MAX_SESSIONS_OF_PEER = 100
"""Client sessions of one address at the same time."""
MAX_SESSIONS_WITH_TOKEN = 500
"""Client sessions of one address at the same time, where clients need a token: many may come through one proxy."""
MAX_HALF_OPEN = 128
_MOST_CONNECTIONS = 1_024
_IDLE_SECONDS = 30 * 60.0
_GRACE_SECONDS = 2
_BACKLOG = 128


class _Uvicorn(uvicorn.Server):
    """Leaves signals alone: the program that serves decides when the server ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Config(uvicorn.Config):
    request_seconds: float


class _Connection(H11Protocol):
    """One connection. (uvicorn's own timer is for idle connections after an answer, and any byte resets it.)"""

    config: _Config
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._made = self.loop.time()
        self._watch()
        half_open = [each for each in self.connections if isinstance(each, _Connection) and each._half_open]
        # an aborted connection stays in the list until the next turn of the loop, and many may come in one turn
        half_open = [each for each in half_open if not each.transport.is_closing()]
        if len(half_open) > MAX_HALF_OPEN:
            min(half_open, key=lambda each: each._made).transport.abort()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    @property
    def _half_open(self) -> bool:
        return self._cycle() is None and self._deadline is not None

    def _cycle(self) -> RequestResponseCycle | None:
        """The newest request that had complete headers."""
        return self.cycle

    def _watch(self) -> None:
        cycle = self._cycle()
        answering = cycle is not None and not cycle.more_body and not cycle.response_complete
        if answering or self.transport.is_closing():
            self._forget()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.config.request_seconds, self.transport.abort)

    def _forget(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


def most_connections() -> int:
    """Limit of open connections: half of this process's descriptors; guests need the others."""
    files = most_files()
    return _MOST_CONNECTIONS if files is None else max(min(files // 2, _MOST_CONNECTIONS), 16)


def _bound(host: str, port: int) -> socket.socket:
    """A socket that listens on this address. Raises `ConfigurationError` if it cannot."""
    ipv6 = ":" in host
    family = socket.AF_INET6 if ipv6 else socket.AF_INET
    both = ipv6 and socket.has_dualstack_ipv6()
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        number = error.errno or 0
        if number < 0:  # of getaddrinfo, not of the system
            raise ConfigurationError(f"there is no address {host!r} on this machine") from None
        why = os.strerror(number)
        raise ConfigurationError(f"cannot listen on {host}:{port}: {why}; choose another port") from None


async def serve_app(server: Server[Any], policy: Policy, port: int, ready: Callable[[str], None] | None) -> None:
    """Serve until cancelled; then end every run, stream and connection.

    Args:
        server: the SDK's.
        policy: where to listen, and which requests are let in.
        port: 0 for a free one.
        ready: called with the URL as soon as requests are answered.

    Raises:
        ConfigurationError: the address cannot be listened on, or this is not asyncio.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigurationError("HTTP is served under asyncio only: uvicorn knows no other event loop") from None
    listening = _bound(policy.bind, port)
    shown = f"[{policy.bind}]" if ":" in policy.bind else policy.bind
    url = f"http://{shown}:{listening.getsockname()[1]}{policy.path}"
    manager = StreamableHTTPSessionManager(
        server,
        max_request_body_size=policy.max_body_bytes,
        session_idle_timeout=_IDLE_SECONDS,
        max_sessions=2 * MAX_SESSIONS,  # never reached: `SessionBounds` allows fewer
    )
    app = SessionBounds(
        StreamableHTTPASGIApp(manager),
        per_peer=MAX_SESSIONS_OF_PEER if policy.token is None else MAX_SESSIONS_WITH_TOKEN,
        in_all=MAX_SESSIONS,
        idle_seconds=_IDLE_SECONDS,
    )
    config = _Config(
        Guard(app, policy), http=_Connection, limit_concurrency=most_connections(), lifespan="off", ws="none",
        access_log=False, log_config=None, server_header=False, date_header=False,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )  # fmt: skip
    config.request_seconds = policy.request_seconds
    web = _Uvicorn(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_run, web, listening)
        try:
            async with manager.run():
                if ready is not None:
                    ready(url)
                await anyio.sleep_forever()
        finally:
            web.should_exit = True


async def _run(web: uvicorn.Server, listening: socket.socket) -> None:
    """Run uvicorn until `should_exit`. Never cancelled: a cancelled uvicorn leaves its connections open."""
    with anyio.CancelScope(shield=True), listening:
        await web.serve(sockets=[listening])
