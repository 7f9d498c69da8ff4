"""Who may talk to the HTTP server: checked before a byte of the body is read. Knows headers, not the protocol.

1. **Host**: a page that has its own name resolved to this machine (DNS rebinding) sends that name, and is refused.
2. **Origin**: browsers send it; only the server's own origin and those that the operator allowed get in.
3. **Token**: compared in constant time; required wherever others than this machine can connect.
4. **Size**: of the body, announced or sent.

Every refusal is one line of JSON that says what to do, and one line on the log, without the token; of very many, some
lines and their number.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

import anyio

from callgate.errors import ConfigurationError
from callgate.tools.faults import printable

from .listing import Pace

__all__ = [
    "LEAST_TOKEN", "App", "Guard", "Message", "Policy", "Receive", "Scope", "Send", "answer", "is_loopback",
    "is_wildcard",
]  # fmt: skip

logger = logging.getLogger("callgate")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LEAST_TOKEN: Final = 16
"""Characters of a token; what is shorter can be guessed."""
_ALLOWED_HEADERS: Final = (
    b"authorization, content-type, mcp-session-id, mcp-protocol-version, last-event-id, mcp-method, mcp-name"
)
_THROWN_AWAY: Final = 64 * 1024 * 1024
_CLOSE: Final = [(b"connection", b"close")]
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """What is let in.

    Raises:
        ConfigurationError: others can connect, and there is no token; or the token can be guessed.
    """

    bind: str
    """The address that is listened on."""
    port: int
    token: str | None = None
    hosts: tuple[str, ...] = ()
    """Names, besides the address, that the server is reached by; with or without a port."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may talk to it, e.g. ``https://app.example.com``."""
    max_body_bytes: int = 4 * 1024 * 1024
    path: str = "/mcp"
    header_seconds: float = 10.0
    """How long a connection may take over the headers of a request."""
    body_seconds: float = 30.0
    """How long the body of a request may take."""

    def __post_init__(self) -> None:
        if self.token is None and not is_loopback(self.bind):
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
        if is_wildcard(self.bind):  # it has a token, which a page cannot know
            return not named or name in _LOOPBACK
        own = f"[{self.bind}]" if ":" in self.bind else self.bind.lower()
        return name == own or (is_loopback(self.bind) and name in _LOOPBACK)

    def origin_allowed(self, origin: str, host: str) -> bool:
        """Whether a page of that origin may talk to the server."""
        return origin in self.origins or origin in (f"http://{host}", f"https://{host}")


class Guard:
    """Lets requests through to `app` that `policy` lets in.

    Args:
        app: what they are for.
        policy: see there.
        fault_of: what is wrong with a body, if anything.
    """

    def __init__(self, app: App, policy: Policy, fault_of: Callable[[bytes], str | None] = lambda _: None) -> None:
        self._app = app
        self._policy = policy
        self._fault_of = fault_of
        self._pace = Pace()
        self._untold = 0
        # digests have one length: comparing them tells nothing of the token's
        self._digest = None if policy.token is None else hashlib.sha256(policy.token.encode()).digest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = _headers(scope)
        refused = self._refusal(scope, headers)
        if refused is None:
            send = self._with_origin(headers, send)
            if scope["method"] == "OPTIONS":
                await _preflight(send)
                return
            try:
                body = await _body(receive, self._policy) if scope["method"] == "POST" else None
                if body is not None and (fault := self._fault_of(body)) is not None:
                    raise _Refused(400, fault)
            except _Refused as refusal:
                refused = refusal.status, str(refusal), [] if refusal.status == 400 else _CLOSE
            else:
                await self._app(scope, receive if body is None else _again(body, receive), send)
                return
        status, message, extra = refused
        self._tell(f"refused {scope['method']} {printable(str(scope['path'])[:100])}: {message}")
        await answer(send, status, message, extra)

    def _tell(self, line: str) -> None:
        """One line on the log; of very many, some."""
        now = time.monotonic()
        if self._pace.wait(now):
            self._untold += 1
            return
        self._pace.done(now)
        more = f" (and {self._untold} more were refused since the line before)" if self._untold else ""
        self._untold = 0
        logger.warning("%s%s", line, more)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str, list[tuple[bytes, bytes]]] | None:
        policy = self._policy
        host = headers.get("host", "").lower()
        if not policy.host_allowed(host):
            return 421, f"this server is not {_shown(host)}; the operator can allow the name with --allow-host", _CLOSE
        origin = headers.get("origin")
        if origin is not None and not policy.origin_allowed(origin, host):
            return 403, f"pages of {_shown(origin)} may not use this server; see --allow-origin", _CLOSE
        if scope["path"] != policy.path:
            return 404, f"there is nothing here; the server is at {policy.path}", _CLOSE
        if origin is not None and scope["method"] == "OPTIONS":  # a browser asks first, and sends no token with that
            return None
        if self._digest is not None and not self._authorised(headers.get("authorization", "")):
            told = "the token is wrong" if "authorization" in headers else "a token is required"
            return (
                401,
                f"{told}: send the header 'Authorization: Bearer TOKEN'",
                [(b"www-authenticate", b"Bearer"), *_CLOSE],
            )
        return None

    def _authorised(self, header: str) -> bool:
        scheme, _, given = header.partition(" ")
        digest = hashlib.sha256(given.strip().encode("utf-8", "replace")).digest()
        assert self._digest is not None
        return hmac.compare_digest(digest, self._digest) and scheme.lower() == "bearer"

    def _with_origin(self, headers: dict[str, str], send: Send) -> Send:
        """A page may read the answer only where the answer says so."""
        origin = headers.get("origin")
        if origin is None:
            return send

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"access-control-allow-origin", origin.encode("latin-1")),
                    (b"access-control-expose-headers", b"mcp-session-id, mcp-protocol-version"),
                    (b"vary", b"origin"),
                ]
            await send(message)

        return sending


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def _body(receive: Receive, policy: Policy) -> bytes | None:
    """The whole body; None where the client has gone.

    One that is too long is read on for a while and thrown away: most clients read no answer while they write.
    """
    most = policy.max_body_bytes
    body = bytearray()
    size = 0
    message: Message = {"more_body": True}
    with anyio.move_on_after(policy.body_seconds):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            data: bytes = message.get("body", b"")
            size += len(data)
            if size <= most:
                body += data
            else:
                body.clear()
            if not message.get("more_body", False) or size > most + _THROWN_AWAY:
                break
    if size > most:
        raise _Refused(413, f"the request is longer than {most} bytes")
    if message.get("more_body", False):
        raise _Refused(408, f"the request did not come within {policy.body_seconds:g} s")
    return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    given = False

    async def receiving() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


async def _preflight(send: Send) -> None:
    """What a browser asks before a page's request."""
    await send(
        {
            "type": "http.response.start",
            "status": 204,
            "headers": [
                (b"access-control-allow-methods", b"GET, POST, DELETE"),
                (b"access-control-allow-headers", _ALLOWED_HEADERS),
                (b"access-control-max-age", b"600"),
            ],
        }
    )
    await send({"type": "http.response.body", "body": b""})


def is_loopback(address: str) -> bool:
    """Whether only this machine can connect to it."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address.lower() == "localhost"


def is_wildcard(address: str) -> bool:
    """Whether it stands for every address of this machine."""
    try:
        return ip_address(address).is_unspecified
    except ValueError:
        return False


def _headers(scope: Scope) -> dict[str, str]:
    """By lower-case name; one that comes twice is joined, and so fits nothing."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _without_port(host: str) -> str:
    name, colon, port = host.rpartition(":")
    return name if colon and port.isdecimal() else host


def _shown(text: str) -> str:
    return printable(text[:100]) or "(nothing)"


async def answer(send: Send, status: int, message: str, extra: list[tuple[bytes, bytes]]) -> None:
    """An error of the transport: JSON-RPC without an id, and one line that says what to do."""
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": message}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
