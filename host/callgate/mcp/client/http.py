"""MCP over HTTP: streamable HTTP, and the SSE transport of 2024 for servers that still have it. The door to `httpx2`.

The SDK speaks the protocol; `_Guarded` stands between the SDK and the network:

1. `_Guarded` alone adds the query of the URL: the query may hold credentials, and the SDK logs URLs.
2. A failed request fails alone. The SDK would end the whole connection; here the failure becomes the answer to that
   request. If nobody listens any more, or the session is gone, the connection ends and is opened again.
3. A body, and an event of a stream, has at most `MAX_BODY_BYTES`. Compressed bodies are refused: a few bytes may stand
   for gigabytes.
4. Errors say in words what HTTP answered, and what to do.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

import anyio
import httpx2
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import INTERNAL_ERROR

from callgate.mcp.config import ServerConfig

from .status import CannotStart, Fate, one_line

__all__ = ["BROKEN", "NOT_SENT", "http_streams", "shown_url"]

NOT_SENT = -32950
"""Our own error code: the request did not reach the server."""
BROKEN = -32951
"""Our own error code: the request was sent, and no answer came."""
MAX_BODY_BYTES = 32 * 1024 * 1024
CONNECT_SECONDS = 10.0
SEND_SECONDS = 30.0
GOODBYE_SECONDS = 2.0
MAX_CONNECTIONS = 1000
"""A cancelled call keeps its connection until the server answers."""
_SESSION = "mcp-session-id"

_REMEDIES = {
    401: "check the credentials in 'headers'",
    403: "the credentials in 'headers' do not allow it, or the server refuses this host",
    404: 'check the path in \'url\'; an older server may need "type": "sse"',
    405: 'check the path in \'url\'; an older server may need "type": "sse"',
    407: "check the proxy in the environment",
}


@asynccontextmanager
async def http_streams(config: ServerConfig, fate: Fate) -> AsyncIterator[tuple[Any, Any]]:
    """The two streams of a session with an HTTP server; raises `CannotStart`."""
    url, parts = shown_url(config.url), urlsplit(config.url)
    guarded = _Guarded(config, fate)
    headers = httpx2.Headers(dict(config.headers))
    headers["accept-encoding"] = "identity"
    user = None if "@" not in parts.netloc or "authorization" in headers else unquote(parts.username or "")
    client = httpx2.AsyncClient(
        transport=guarded,
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None, write=SEND_SECONDS, pool=SEND_SECONDS),
        headers=headers,
        auth=None if user is None else (user, unquote(parts.password or "")),
        trust_env=False,
    )
    if config.transport == "sse":
        async with sse_client(
            url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: client
        ) as streams:
            yield streams
        return
    async with client:
        opened = streamable_http_client(
            url, http_client=client, terminate_on_close=False, max_sse_event_size=MAX_BODY_BYTES
        )
        async with opened as streams:
            try:
                yield streams
            finally:
                with anyio.move_on_after(GOODBYE_SECONDS, shield=True):
                    if _SESSION in guarded.session and not fate.over.is_set():  # the server need not keep it
                        await client.delete(url, headers=guarded.session)


def shown_url(url: str) -> str:
    """The URL without the parts that may be secret: user, password, query, fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class _Guarded(httpx2.AsyncHTTPTransport):
    """Adds the query, bounds answers, and turns failures into answers."""

    def __init__(self, config: ServerConfig, fate: Fate) -> None:
        self.session: dict[str, str] = {}
        """The headers by which the server knows its session."""
        self._query = urlsplit(config.url).query.encode()
        self._whole_connection = config.transport == "sse"  # there, an answer does not come with its request
        self._fate = fate
        try:
            super().__init__(proxy=_proxy(config.url), limits=httpx2.Limits(max_connections=MAX_CONNECTIONS))
        except (ImportError, ValueError) as error:
            raise CannotStart(f"it cannot be connected to: {one_line(str(error))}") from None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            return await self._answer(request)
        except httpx2.TransportError as error:
            return self._failed(request, error)

    async def _answer(self, request: httpx2.Request) -> httpx2.Response:
        if self._query and not request.url.query:
            request = httpx2.Request(
                request.method, request.url.copy_with(query=self._query), headers=request.headers,
                stream=request.stream, extensions=request.extensions,
            )  # fmt: skip
        answer = await super().handle_async_request(request)
        known = {**request.headers, **answer.headers}
        self.session |= {name: known[name] for name in (_SESSION, "mcp-protocol-version") if name in known}
        if answer.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            await answer.aclose()
            return _error(502, BROKEN, "it sent a compressed answer although none was asked for")
        if answer.headers.get("content-type", "").lower().startswith("text/event-stream") and answer.is_success:
            return answer
        body = await _read(answer)
        if body is None:
            return _error(502, INTERNAL_ERROR, f"the answer has more than {MAX_BODY_BYTES} bytes: ask for less")
        if answer.status_code >= (300 if self._whole_connection else 400):
            return self._refused(request, answer, body)
        return httpx2.Response(answer.status_code, headers=answer.headers, content=body)

    def _failed(self, request: httpx2.Request, error: httpx2.TransportError) -> httpx2.Response:
        unreachable = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError))
        why = one_line(str(error), 120) or type(error).__name__
        if unreachable:
            text = f"it cannot be reached at {shown_url(str(request.url))}: {why}"
            self._fate.remedy = self._fate.remedy or "start it, or check 'url'"
        else:
            text = f"the connection broke before it answered: {why}"
        if unreachable or self._whole_connection or request.method == "GET":
            self._fate.seal(text)
        return _error(502, NOT_SENT if unreachable or isinstance(error, httpx2.PoolTimeout) else BROKEN, text)

    def _refused(self, request: httpx2.Request, answer: httpx2.Response, body: bytes) -> httpx2.Response:
        status = answer.status_code
        if status == 404 and _SESSION in request.headers:
            self._fate.seal("its session ended")
            return _error(502, NOT_SENT, "its session ended, and is opened again")
        with contextlib.suppress(ValueError, RecursionError):
            read = json.loads(body)
            if isinstance(read, dict) and isinstance(read.get("error"), dict) and "jsonrpc" in read:  # its own words
                return httpx2.Response(status, headers=answer.headers, content=body)
        words = f"HTTP {status}"
        with contextlib.suppress(ValueError):
            words += f" {HTTPStatus(status).phrase}"
        if request.method == "POST" or self._whole_connection:
            self._fate.remedy = _REMEDIES.get(status, "")
        if self._whole_connection:
            self._fate.seal(f"it answered {words}")
        return _error(status if status >= 400 else 502, INTERNAL_ERROR, f"it answered {words}")


async def _read(answer: httpx2.Response) -> bytes | None:
    """The body, or None if it is too large."""
    body = bytearray()
    assert isinstance(answer.stream, httpx2.AsyncByteStream)
    try:
        async with contextlib.aclosing(aiter(answer.stream)) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    return None
    finally:
        await answer.aclose()
    return bytes(body)


def _error(status: int, code: int, message: str) -> httpx2.Response:
    """A response that the SDK takes for the server's own answer to a request."""
    text = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})
    return httpx2.Response(status, headers={"content-type": "application/json"}, content=text.encode())


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in ("localhost", "127.0.0.1", "::1") or urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    return proxies.get(parts.scheme) or proxies.get("all")
