"""Serving a runtime to MCP clients, on stdio or over HTTP. The doors of this room."""

from __future__ import annotations

from collections.abc import Callable

from callgate.errors import ConfigurationError
from callgate.runtime import Runtime

from .clients import Serving
from .gateway import Gateway
from .stdio import StdioWire, stdio_wire, streams

__all__ = ["serve_http", "serve_stdio"]


async def serve_stdio(
    runtime: Runtime,
    serving: Serving | None = None,
    *,
    wire: StdioWire | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Serve the client on this process's stdin and stdout, until stdin ends. Under asyncio or trio.

    While it serves, descriptor 1 leads to stderr: nothing but the protocol is on stdout.

    Args:
        runtime: an open runtime. Make it with ``approve=ask_client`` to have the client's user asked.
        serving: how.
        wire: descriptors that were taken with `stdio_wire` before; otherwise they are taken now.
        ready: called when requests are answered.
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
    """Serve clients over streamable HTTP, until cancelled. Under asyncio.

    Args:
        runtime: an open runtime; all clients share it: they are one tenant.
        serving: how.
        host: the address to listen on.
        port: 0 for one that is free.
        token: what clients send as ``Authorization: Bearer TOKEN``; required unless `host` is a loopback address.
        allowed_hosts: names, besides `host`, that the server is reached by.
        allowed_origins: origins of web pages that may use it.
        max_body_bytes: of one request.
        ready: called with the URL when requests are answered.

    Raises:
        ConfigurationError: the address cannot be listened on, others could connect without a token, or this is not
            asyncio.
    """
    from .guard import Policy
    from .http import bound, check_loop, serve_app, url_of

    check_loop()
    policy = Policy(
        bind=host, port=port, token=token, hosts=allowed_hosts, origins=allowed_origins, max_body_bytes=max_body_bytes
    )
    if not 0 <= port <= 65535:
        raise ConfigurationError(f"there is no port {port}")
    server = Gateway(runtime, serving or Serving()).server
    listening = bound(host, port)
    url = url_of(listening, host, policy.path)
    await serve_app(server, listening, policy, (lambda: ready(url)) if ready is not None else None)
