"""MCP over streamable HTTP, with uvicorn. Knows sockets, and when to stop; who is let in is the guard's.

The order of the end: runs are cancelled and open streams ended first, then connections are closed. A server that waits
for connections first waits for clients that listen for ever.
"""

from __future__ import annotations

import contextlib
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import uvicorn
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager

from callgate.errors import ConfigurationError
from callgate.mcp.messages import fault_of

from .connections import Config
from .guard import Guard, Policy
from .peers import SessionBounds

__all__ = ["bound", "check_loop", "serve_app", "url_of"]

MAX_SESSIONS = 1_000
"""Client sessions at the same time, of all peers."""
MAX_SESSIONS_OF_PEER = 100
"""Client sessions of one address at the same time."""
MAX_SESSIONS_WITH_TOKEN = 500
"""Client sessions of one address at the same time, where clients need a token: many may come through one proxy."""
_IDLE_SECONDS = 30 * 60.0
_GRACE_SECONDS = 2
_BACKLOG = 128


class _Uvicorn(uvicorn.Server):
    """Leaves signals alone: whoever runs the program decides when it ends."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def check_loop() -> None:
    """Raise `ConfigurationError` where uvicorn cannot run."""
    if _backend() != "asyncio":
        raise ConfigurationError("HTTP is served under asyncio only: uvicorn knows no other event loop")


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        ConfigurationError: it cannot.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise ConfigurationError(f"there is no address {host!r} on this machine: {error.strerror}") from None
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error.strerror}; choose another port") from None
    return listening


def url_of(listening: socket.socket, host: str, path: str) -> str:
    """Where a client finds the server."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}{path}"


async def serve_app(
    server: Server[Any], listening: socket.socket, policy: Policy, ready: Callable[[], None] | None
) -> None:
    """Serve until cancelled; then end every run, stream and connection.

    Args:
        server: the SDK's.
        listening: a socket that listens already; closed afterwards.
        policy: what is let in.
        ready: called when requests are answered.

    """
    manager = StreamableHTTPSessionManager(
        server,
        max_request_body_size=policy.max_body_bytes,
        session_idle_timeout=_IDLE_SECONDS,
        max_sessions=2 * MAX_SESSIONS,  # never reached: `SessionBounds` holds the bound
    )
    app = SessionBounds(
        StreamableHTTPASGIApp(manager),
        per_peer=MAX_SESSIONS_OF_PEER if policy.token is None else MAX_SESSIONS_WITH_TOKEN,
        in_all=MAX_SESSIONS,
        idle_seconds=_IDLE_SECONDS,
    )
    config = Config(
        Guard(app, policy, fault_of), header_seconds=policy.header_seconds, lifespan="off", ws="none", access_log=False,
        log_config=None, server_header=False, timeout_graceful_shutdown=_GRACE_SECONDS, date_header=False,
    )  # fmt: skip
    web = _Uvicorn(config)
    async with anyio.create_task_group() as tasks:
        stopping = anyio.Event()
        tasks.start_soon(_run, web, listening, stopping)
        try:
            async with manager.run():
                if ready is not None:
                    ready()
                await anyio.sleep_forever()
        finally:
            stopping.set()


async def _run(web: uvicorn.Server, listening: socket.socket, stopping: anyio.Event) -> None:
    """uvicorn, which is told to stop, never cancelled: it would leave its connections open."""

    async def stop() -> None:
        with anyio.CancelScope(shield=True):
            await stopping.wait()
        web.should_exit = True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        with anyio.CancelScope(shield=True), listening:
            await web.serve(sockets=[listening])


def _backend() -> str:
    trio = sys.modules.get("trio")
    return "trio" if trio is not None and trio.lowlevel.in_trio_run() else "asyncio"
