"""Who may talk to the HTTP server: checked before a byte of the body is read. Knows headers, not the protocol.

1. **Host**: a page that has its own name resolved to this machine (DNS rebinding) sends that name, and is refused.
2. **Origin**: browsers send it; only the server's own origin and those that the operator allowed get in.
3. **Token**: compared in constant time; required wherever others than this machine can connect.
4. **Body**: bounded by the SDK's `RequestBodyLimitMiddleware`, and one message of bounded size. How long it may take is
   bounded where the connection is (`http`).

Every refusal of headers is one line of JSON that says what to do, and a line on the log, without the token: one a
second, which counts the others. (The SDK's own checks of headers know no token, no CORS and no wildcard address.)
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from callgate.errors import ConfigurationError
from callgate.mcp.messages import NoMessage, read_message
from callgate.tools.faults import printable

__all__ = ["Guard", "Policy", "error_response"]

logger = logging.getLogger("callgate")

LEAST_TOKEN: Final = 16
"""Characters of a token; what is shorter can be guessed."""
_ALLOWED_HEADERS: Final = (
    *("authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id", "mcp-method"),
    "mcp-name",
)
_LOG_SECONDS: Final = 1.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What is let in.

    Raises:
        ConfigurationError: others can connect, and there is no token; or the token can be guessed.
    """

    bind: str
    """The address that is listened on."""
    token: str | None = None
    hosts: tuple[str, ...] = ()
    """Names, besides the address, that the server is reached by; with or without a port."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may talk to it, e.g. ``https://app.example.com``."""
    max_body_bytes: int = 4 * 1024 * 1024
    path: str = "/mcp"
    request_seconds: float = 30.0
    """How long a connection may take over the headers and the body of a request."""

    def __post_init__(self) -> None:
        if self.token is None and not _is_loopback(self.bind):
            raise ConfigurationError(
                f"others than this machine can connect to {self.bind}: a token is required; put a long random one into "
                "an environment variable and name that with --token-env"
            )
        if self.token is not None and len(self.token) < LEAST_TOKEN:
            raise ConfigurationError(f"the token has {len(self.token)} characters; it needs {LEAST_TOKEN} or more")

    def host_allowed(self, host: str) -> bool:
        """Whether a Host header names this server."""
        name = _without_port(host)
        named = {_without_port(each.lower()) for each in self.hosts}
        if name in named:
            return True
        if _is_wildcard(self.bind):  # it has a token, which a page cannot know
            return not named or name in _LOOPBACK
        own = f"[{self.bind}]" if ":" in self.bind else self.bind.lower()
        return name == own or (_is_loopback(self.bind) and name in _LOOPBACK)

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Whether a page of that origin may talk to the server."""
        return origin in self.origins or origin in (f"http://{host}", f"https://{host}")


class Guard:
    """Lets requests through to `app` that `policy` lets in. A page may read an answer only where the answer says so:
    starlette's CORS middleware says it to the origins of the policy, and answers what a browser asks before.

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
        self._told = 0.0
        self._untold = 0
        # digests have one length: comparing them tells nothing of the token's
        self._digest = None if policy.token is None else hashlib.sha256(policy.token.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            self._check(scope)
        except _Refused as refused:
            self._tell(f"refused {scope['method']} {printable(str(scope['path'])[:100])}: {refused}")
            await error_response(refused.status, str(refused), refused.headers)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _tell(self, line: str) -> None:
        """A line on the log, one a second."""
        now = time.monotonic()
        if now - self._told < _LOG_SECONDS:
            self._untold += 1
            return
        more = f" (and {self._untold} more were refused since the line before)" if self._untold else ""
        self._told, self._untold = now, 0
        logger.warning("%s%s", line, more)

    def _check(self, scope: Scope) -> None:
        """Raise `_Refused` for what does not get in."""
        policy, headers = self._policy, Headers(scope=scope)
        host = ", ".join(headers.getlist("host")).lower()  # what comes twice fits nothing
        if not policy.host_allowed(host):
            raise _Refused(421, f"this server is not {_shown(host)}; the operator can allow the name with --allow-host")
        origin = headers.get("origin")
        if origin is not None and not policy.origin_allowed(origin, host):
            raise _Refused(403, f"pages of {_shown(origin)} may not use this server; see --allow-origin")
        if scope["path"] != policy.path:
            raise _Refused(404, f"there is nothing here; the server is at {policy.path}")
        if scope["method"] == "OPTIONS" and origin is not None and "access-control-request-method" in headers:
            return  # a browser asks first, and sends no token with that
        given = ", ".join(headers.getlist("authorization"))
        if not self._authorised(given):
            told = "the token is wrong" if given else "a token is required"
            raise _Refused(
                401, f"{told}: send the header 'Authorization: Bearer TOKEN'", {"www-authenticate": "Bearer"}
            )

    def _authorised(self, header: str) -> bool:
        if self._digest is None:
            return True
        scheme, _, given = header.partition(" ")
        digest = hashlib.sha256(given.strip().encode("utf-8", "replace")).digest()
        return hmac.compare_digest(digest, self._digest) and scheme.lower() == "bearer"


class _Refused(Exception):
    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.headers = {"connection": "close", **(headers or {})}


class _OneMessage:
    """Lets a request through whose body is one JSON-RPC message of bounded size. The whole body is there already."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        first = [await receive()]
        try:
            read_message(first[0].get("body", b""))
        except NoMessage as error:
            await error_response(400, f"the body is {error}", {})(scope, receive, send)
            return

        async def again() -> Message:
            return first.pop() if first else await receive()

        await self._app(scope, again, send)


def error_response(status: int, message: str, headers: dict[str, str]) -> JSONResponse:
    """An error of the transport: JSON-RPC without an id, and one line that says what to do."""
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}
    return JSONResponse(error, status, headers)


def _is_loopback(address: str) -> bool:
    """Whether only this machine can connect to it."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def _is_wildcard(address: str) -> bool:
    """Whether it stands for every address of this machine."""
    try:
        return ip_address(address).is_unspecified
    except ValueError:
        return False


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _shown(text: str) -> str:
    return printable(text[:100]) or "(nothing)"
