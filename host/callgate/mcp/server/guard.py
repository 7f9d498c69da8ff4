"""Who may talk to the HTTP server, checked before a byte of the body is read. Knows headers, not the protocol.

1. **Host**: a page that has its own name resolved to this machine (DNS rebinding) sends that name, and is refused.
2. **Origin**: browsers send this header; only the server's own origin and those that the operator allowed get in.
3. **Token**: compared in constant time; required wherever others than this machine can connect.
4. **Body**: bounded by the SDK's `RequestBodyLimitMiddleware`, and one message of bounded size. `http` bounds the time
   that a body may take.

Every refusal of headers is one line of JSON that says what to do, and a line on the log, without the token: one line a
second, which counts the other refusals. (The SDK's own checks of headers know no token, no CORS and no wildcard
address.)
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callgate.errors import ConfigurationError
from callgate.mcp.messages import NotAMessage, read_message
from callgate.tools.faults import printable

__all__ = ["Guard", "Policy", "error_response"]

logger = logging.getLogger("callgate")

LEAST_TOKEN: Final = 16
"""Fewest characters of a token; a shorter token can be guessed."""
_ALLOWED_HEADERS: Final = (
    *("authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id", "mcp-method"),
    "mcp-name",
)
_LOG_SECONDS: Final = 1.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Which requests are let in.

    Raises:
        ConfigurationError: others can connect and there is no token, or the token can be guessed.
    """

    bind: str
    """The address that the server listens on."""
    token: str | None = None
    hosts: tuple[str, ...] = ()
    """Names, besides the address, under which clients reach the server; with or without a port."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may talk to the server, e.g. ``https://app.example.com``."""
    max_body_bytes: int = 4 * 1024 * 1024
    path: str = "/mcp"
    request_seconds: float = 30.0
    """How long a connection may take over the headers and the body of a request."""

    def __post_init__(self) -> None:
        if self.token is None and not self._is_loopback:
            raise ConfigurationError(
                f"others than this machine can connect to {self.bind}: a token is required; put a long random one into "
                "an environment variable and name that with --token-env"
            )
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise ConfigurationError(f"the token has {len(self.token)} characters; it needs {LEAST_TOKEN} or more")

    @property
    def _address(self) -> IPv4Address | IPv6Address | None:
        try:
            return ip_address("127.0.0.1" if self.bind.lower() == "localhost" else self.bind)
        except ValueError:  # a name
            return None

    @property
    def _is_loopback(self) -> bool:
        """Whether only this machine can connect to the server."""
        return self._address is not None and self._address.is_loopback

    def host_allowed(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = _without_port(host)
        named = {_without_port(each.lower()) for each in self.hosts}
        if name in named:
            return True
        if self._address is not None and self._address.is_unspecified:  # a page cannot know the token
            return not named or name in _LOOPBACK
        own = f"[{self.bind}]" if ":" in self.bind else self.bind.lower()
        return name == own or (self._is_loopback and name in _LOOPBACK)

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Whether a page of this origin may talk to the server."""
        return origin in self.origins or origin in (f"http://{host}", f"https://{host}")


class Guard:
    """Lets requests through to `app` that `policy` lets in. A browser shows an answer to a page only if the answer says
    so: starlette's CORS middleware says so to the origins of the policy, and answers the browser's question beforehand.

    Args:
        app: receives the requests that pass.
        policy: which requests pass.
    """

    def __init__(self, app: ASGIApp, policy: Policy) -> None:
        self._app = CORSMiddleware(
            RequestBodyLimitMiddleware(_OneMessage(app), policy.max_body_bytes), allow_origins=policy.origins,
            allow_methods=("GET", "POST", "DELETE"), allow_headers=_ALLOWED_HEADERS,
            expose_headers=("mcp-session-id", "mcp-protocol-version"),
        )  # fmt: skip
        self._policy = policy
        self._logged_at = 0.0
        self._unlogged = 0
        # digests have one length: comparing them does not reveal the length of the token
        self._digest = None if policy.token is None else hashlib.sha256(policy.token.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            self._check(scope)
        except HTTPException as refused:
            self._log(f"refused {scope['method']} {printable(str(scope['path'])[:100])}: {refused.detail}")
            headers = {"connection": "close", **(refused.headers or {})}
            await error_response(refused.status_code, refused.detail, headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _log(self, line: str) -> None:
        """Write a line on the log, at most one a second; the next line counts those that were left out."""
        now = time.monotonic()
        if now - self._logged_at < _LOG_SECONDS:
            self._unlogged += 1
            return
        more = f" (and {self._unlogged} more were refused since the line before)" if self._unlogged else ""
        self._logged_at, self._unlogged = now, 0
        logger.warning("%s%s", line, more)

    def _check(self, scope: Scope) -> None:
        """Raise `HTTPException` for a request that does not get in."""
        policy, headers = self._policy, Headers(scope=scope)
        host = ", ".join(headers.getlist("host")).lower()  # a header that comes twice fits nothing
        if not policy.host_allowed(host):
            shown = _shown(host)
            raise HTTPException(421, f"this server is not {shown}; the operator can allow the name with --allow-host")
        origin = headers.get("origin")
        if origin is not None and not policy.origin_allowed(origin, host):
            raise HTTPException(403, f"pages of {_shown(origin)} may not use this server; see --allow-origin")
        if scope["path"] != policy.path:
            raise HTTPException(404, f"there is nothing here; the server is at {policy.path}")
        if scope["method"] == "OPTIONS" and origin is not None and "access-control-request-method" in headers:
            return  # a browser asks first, and sends no token with that
        given = ", ".join(headers.getlist("authorization"))
        if not self._authorised(given):
            why = "the token is wrong" if given else "a token is required"
            text = f"{why}: send the header 'Authorization: Bearer TOKEN'"
            raise HTTPException(401, text, {"www-authenticate": "Bearer"})

    def _authorised(self, header: str) -> bool:
        if self._digest is None:
            return True
        scheme, _, given = header.partition(" ")
        digest = hashlib.sha256(given.strip().encode("utf-8", "replace")).digest()
        return hmac.compare_digest(digest, self._digest) and scheme.lower() == "bearer"


class _OneMessage:
    """Lets a request through whose body is one JSON-RPC message of bounded size. The whole body was received before."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first = [await receive()]
        try:
            read_message(first[0].get("body", b""))
        except NotAMessage as error:
            await error_response(400, f"the body is {error}", {})(scope, receive, send)
            return

        async def again() -> Message:
            return first.pop() if first else await receive()

        await self._app(scope, again, send)


def error_response(status: int, message: str, headers: dict[str, str]) -> JSONResponse:
    """An error of the transport: a JSON-RPC error without an id, and one line that says what to do."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
    return JSONResponse(error, status, headers)


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _shown(text: str) -> str:
    return printable(text[:100]) or "(nothing)"
