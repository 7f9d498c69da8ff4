"""MCP over HTTP: streamable HTTP, and the SSE transport of 2024 for servers that still have it. The door to `httpx2`.

The SDK speaks the protocol; between it and the network stands `_Guarded`:

1. Headers, and the query and user of the URL, are added there and nowhere else: what holds credentials is in no object
   that is logged or told of.
2. A request that fails fails alone. The SDK would end the whole connection; here it becomes the answer to that request.
   Where nobody listens any more, or the session is gone, the connection is over, and is made again.
3. A body is at most `MAX_BODY_BYTES` and `bounds.MAX_VALUES`, one event of a stream too, and compressed bodies are
   refused: a few bytes may stand for gigabytes. Events on one stream are read at `EVENTS_PER_SECOND` at most.
4. HTTP errors are told in words, with what to do.
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

from callgate.mcp.bounds import MAX_VALUES, EventLines, marks_in
from callgate.mcp.config import ServerConfig

from .faults import CannotStart, one_line
from .streams import BROKEN, NOT_SENT, Fate, Pace, Streams

__all__ = ["http_streams", "shown_url"]

MAX_BODY_BYTES = 32 * 1024 * 1024
CONNECT_SECONDS = 10.0
SEND_SECONDS = 30.0
GOODBYE_SECONDS = 2.0
EVENTS_AT_ONCE = 5000
EVENTS_PER_SECOND = 1000
EVENT_BYTES = 32 * 1024
"""A larger event counts for several."""
MAX_CONNECTIONS = 1000
"""A cancelled call keeps its connection until the server answers."""
_TOO_MANY = f"more than {MAX_VALUES} values: ask for less"
_SESSION = "mcp-session-id"
_OURS = frozenset(
    {"accept", "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding"}
    | {_SESSION, "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"}
)
"""Headers that are the protocol's business."""

_REMEDIES = {
    401: "check the credentials in 'headers'",
    403: "the credentials in 'headers' do not allow it, or the server refuses this host",
    404: 'check the path in \'url\'; an older server may need "type": "sse"',
    405: 'check the path in \'url\'; an older server may need "type": "sse"',
    407: "check the proxy in the environment",
}


@asynccontextmanager
async def http_streams(config: ServerConfig, fate: Fate) -> AsyncIterator[Streams]:
    """The two streams of a session with an HTTP server; raises `CannotStart`."""
    url = shown_url(config.url)
    guarded = _Guarded(config, fate)
    client = httpx2.AsyncClient(
        transport=guarded,
        timeout=httpx2.Timeout(CONNECT_SECONDS, read=None, write=SEND_SECONDS, pool=SEND_SECONDS),
        headers={"accept-encoding": "identity"},
        trust_env=False,
    )
    if config.transport == "sse":

        def lent(
            headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: Any = None
        ) -> httpx2.AsyncClient:
            return client

        async with sse_client(url, httpx_client_factory=lent) as streams:
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
                    await guarded.say_goodbye(url)


def shown_url(url: str) -> str:
    """The URL without what may be secret in it: user, password, query, fragment."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


class _Guarded(httpx2.AsyncBaseTransport):
    """Dresses requests, bounds answers, and turns failures into answers."""

    def __init__(self, config: ServerConfig, fate: Fate) -> None:
        parts = urlsplit(config.url)
        self._query = parts.query.encode()
        self._user = (unquote(parts.username or ""), unquote(parts.password or "")) if "@" in parts.netloc else None
        self._headers = {name: value for name, value in config.headers.items() if name.lower() not in _OURS}
        self._whole_connection = config.transport == "sse"  # there, an answer does not come with its request
        self._fate = fate
        self._session: str | None = None
        self._version: str | None = None
        try:
            self._inner = httpx2.AsyncHTTPTransport(
                proxy=_proxy(config.url), limits=httpx2.Limits(max_connections=MAX_CONNECTIONS)
            )
        except (ImportError, ValueError) as error:
            raise CannotStart(f"it cannot be connected to: {one_line(str(error))}") from None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            answer = await self._inner.handle_async_request(self._dressed(request))
        except httpx2.TransportError as error:
            return self._failed(request, error)
        self._session = answer.headers.get(_SESSION) or self._session
        self._version = request.headers.get("mcp-protocol-version") or self._version
        if answer.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            await answer.aclose()
            return _error(502, BROKEN, "it sent a compressed answer although none was asked for")
        if answer.headers.get("content-type", "").lower().startswith("text/event-stream") and answer.is_success:
            assert isinstance(answer.stream, httpx2.AsyncByteStream)
            answer.stream = _Events(answer.stream)
            answer.headers["content-type"] = "text/event-stream"  # UTF-8, whatever it says: values are counted in that
            return answer
        try:
            body = await _read(answer)
        except httpx2.TransportError as error:
            return self._failed(request, error)
        if body is None:
            return _error(502, INTERNAL_ERROR, f"the answer has more than {MAX_BODY_BYTES} bytes: ask for less")
        too_many = marks_in(body) > MAX_VALUES
        if answer.status_code >= (300 if self._whole_connection else 400):
            return self._refused(request, answer, b"" if too_many else body)
        if too_many:
            return _error(502, INTERNAL_ERROR, f"the answer has {_TOO_MANY}")
        return httpx2.Response(answer.status_code, headers=answer.headers, content=body)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def say_goodbye(self, url: str) -> None:
        """Tell the server that the session is not needed any more."""
        if self._session is None or self._fate.over.is_set():
            return
        headers = {_SESSION: self._session} | ({"mcp-protocol-version": self._version} if self._version else {})
        with contextlib.suppress(httpx2.TransportError):
            answer = await self._inner.handle_async_request(
                self._dressed(httpx2.Request("DELETE", url, headers=headers))
            )
            await answer.aclose()

    def _dressed(self, request: httpx2.Request) -> httpx2.Request:
        """A copy with what the SDK is not told of."""
        url = request.url
        if self._query and not url.query:
            url = url.copy_with(query=self._query)
        headers = request.headers.copy()
        headers.update(self._headers)
        if self._user is not None and "authorization" not in headers:
            given = next(iter(httpx2.BasicAuth(*self._user).auth_flow(httpx2.Request("GET", url))))
            headers["authorization"] = given.headers["authorization"]
        return httpx2.Request(
            request.method, url, headers=headers, stream=request.stream, extensions=request.extensions
        )

    def _failed(self, request: httpx2.Request, error: httpx2.TransportError) -> httpx2.Response:
        unreachable = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError))
        why = one_line(str(error), 120) or type(error).__name__
        if unreachable:
            text = f"it cannot be reached at {shown_url(str(request.url))}: {why}"
            self._fate.remedy = self._fate.remedy or "start it, or check 'url'"
            self._fate.seal(text)
            return _error(502, NOT_SENT, text)
        text = f"the connection broke before it answered: {why}"
        if self._whole_connection or request.method == "GET":
            self._fate.seal(text)
        return _error(502, NOT_SENT if isinstance(error, httpx2.PoolTimeout) else BROKEN, text)

    def _refused(self, request: httpx2.Request, answer: httpx2.Response, body: bytes) -> httpx2.Response:
        status = answer.status_code
        if status == 404 and _SESSION in request.headers:
            self._fate.seal("its session ended")
            return _error(502, NOT_SENT, "its session ended, and is opened again")
        with contextlib.suppress(ValueError, RecursionError):
            said = json.loads(body)
            if isinstance(said, dict) and isinstance(said.get("error"), dict) and "jsonrpc" in said:  # its own words
                return httpx2.Response(status, headers=answer.headers, content=body)
        words = f"HTTP {status}"
        with contextlib.suppress(ValueError):
            words += f" {HTTPStatus(status).phrase}"
        if request.method == "POST" or self._whole_connection:
            self._fate.remedy = _REMEDIES.get(status, "")
        if self._whole_connection:
            self._fate.seal(f"it answered {words}")
        return _error(status if status >= 400 else 502, INTERNAL_ERROR, f"it answered {words}")


class _Events(httpx2.AsyncByteStream):
    """A stream of events, read no faster than is bearable, and passed on in whole lines."""

    def __init__(self, inner: httpx2.AsyncByteStream) -> None:
        self._inner = inner
        self._chunks: Any = aiter(inner)
        self._lines = EventLines()
        self._pace = Pace(EVENTS_AT_ONCE, EVENTS_PER_SECOND)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            lines = self._lines.whole(await anext(self._chunks))
            if len(self._lines.held) > MAX_BODY_BYTES:
                raise httpx2.SSEError(f"the answer has more than {MAX_BODY_BYTES} bytes: ask for less")
            if self._lines.too_many:
                raise httpx2.SSEError(f"the answer has {_TOO_MANY}")
            if lines:
                await self._pace.keep(max(lines.count(b"\n") / 2, len(lines) / EVENT_BYTES))  # an event has two lines
                return lines

    async def aclose(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is just being read
            await self._chunks.aclose()
        await self._inner.aclose()


async def _read(answer: httpx2.Response) -> bytes | None:
    """The body, or None where it is too large."""
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
    """What the SDK takes for the server's own answer to a request."""
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
