"""callgate as an MCP server, on stdio or over HTTP: search, describe, run a program, run a plan; and tools passed
through."""

from __future__ import annotations

from collections.abc import Callable

from callgate.errors import ConfigurationError
from callgate.runtime import Runtime

from .asking import ask_client
from .clients import Serving
from .gateway import Gateway
from .stdio import StdioWire, stdio_wire, streams

__all__ = ["Serving", "StdioWire", "ask_client", "serve_http", "serve_stdio", "stdio_wire"]


async def serve_stdio(
    runtime: Runtime,
    serving: Serving | None = None,
    *,
    wire: StdioWire | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Serve the client on this process's stdin and stdout, until stdin ends. Works under asyncio and trio.

    Meanwhile descriptor 1 leads to stderr: only the protocol is on stdout.

    Args:
        runtime: an open runtime. Make it with ``approve=ask_client`` to have the client's user asked.
        serving: the settings.
        wire: descriptors that `stdio_wire` took before; otherwise they are taken now.
        ready: called as soon as requests are answered.
    """
    if wire is None:
        with stdio_wire() as taken:
            await serve_stdio(runtime, serving, wire=taken, ready=ready)
        return
    server = Gateway(runtime, serving or Serving()).server
    async with streams(wire) as (incoming, outgoing):
        if ready is not None:
            ready()
        await server.run(incoming, outgoing, server.create_initialization_options())


async def serve_http(
    runtime: Runtime,
    serving: Serving | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 8765,
    token: str | None = None,
    allowed_hosts: tuple[str, ...] = (),
    allowed_origins: tuple[str, ...] = (),
    max_body_bytes: int = 4 * 1024 * 1024,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve clients over streamable HTTP, until cancelled. Works under asyncio only.

    Args:
        runtime: an open runtime. All clients share it and count as one tenant.
        serving: the settings.
        host: the address to listen on.
        port: 0 for a free one.
        token: clients send it as ``Authorization: Bearer TOKEN``; required unless `host` is a loopback address.
        allowed_hosts: names, besides `host`, under which clients reach the server.
        allowed_origins: origins of web pages that may use the server.
        max_body_bytes: of one request.
        ready: called with the URL as soon as requests are answered.

    Raises:
        ConfigurationError: the address cannot be listened on, others could connect without a token, or this is not
            asyncio.
    """
    from .guard import Policy
    from .http import serve_app

    policy = Policy(bind=host, token=token, hosts=allowed_hosts, origins=allowed_origins, max_body_bytes=max_body_bytes)
    if not 0 <= port <= 65535:
        raise ConfigurationError(f"there is no port {port}")
    await serve_app(Gateway(runtime, serving or Serving()).server, policy, port, ready)
