"""How many client sessions one peer may have over HTTP, and whose session ends for a new one. Knows addresses, headers
and how many requests of a session are going on; nothing of the protocol inside.

1. A peer is an IPv4 address, or the first 64 bits of an IPv6 address: so much of it one client chooses itself.
2. A peer at its bound that opens a session loses one that is idle: no call of it is going on. Sessions that were opened
   and hardly used go first, then those on whose stream nobody listens, then the one that was not used for the longest
   time. Its client receives a 404 for it and opens another one, as the protocol has it.
3. Where all peers together have as many as there may be, the peer with the most sessions loses one in that way.
4. Where nothing is idle, the new session is refused with 503.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .guard import error_response

__all__ = ["SessionBounds"]

logger = logging.getLogger("callgate")

_SESSION = "mcp-session-id"
_VERSION = "mcp-protocol-version"
_HARDLY = 3
"""Requests of a session that was opened and never used: every client sends two or three at its beginning."""


@dataclass(slots=True, eq=False)
class _Session:
    peer: str
    used: float
    requests: int = 1
    working: int = 0
    listening: int = 0


class SessionBounds:
    """Lets requests through to `app`, and ends sessions of it with the DELETE that a client would send.

    Args:
        app: serves MCP over streamable HTTP.
        per_peer: sessions of one peer.
        in_all: sessions of all peers.
        idle_seconds: after so long without a request `app` ends a session itself.
        clock: seconds, never going back.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        per_peer: int,
        in_all: int,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._per_peer = per_peer
        self._in_all = in_all
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._sessions: dict[str, _Session] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        name, version = headers.get(_SESSION), headers.get(_VERSION)
        if name in self._sessions:
            await self._further(name, scope, receive, send)
        elif name is None and scope["method"] == "POST" and (version or "") in ("", *HANDSHAKE_PROTOCOL_VERSIONS):
            await self._first(scope, receive, send)
        else:
            await self._app(scope, receive, send)  # it stands alone, or its session is over: it opens none

    async def _further(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        """A request of a session that is there."""
        session = self._sessions[name]
        ends = scope["method"] == "DELETE"

        async def sending(message: Message) -> None:
            if message.get("status") == 404 or (ends and message.get("status") == 200):
                self._sessions.pop(name, None)
            await send(message)

        session.requests += 1
        session.used = self._clock()
        listens = scope["method"] == "GET"
        session.listening += listens
        session.working += not listens
        try:
            await self._app(scope, receive, sending)
        finally:
            session.listening -= listens
            session.working -= not listens
            session.used = self._clock()

    async def _first(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A request that may open a session."""
        session = _Session(_peer(scope), self._clock(), working=1)
        opening = f"opening {id(session)}"  # until the answer names it
        self._sessions[opening] = session

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                given = Headers(raw=list(message.get("headers", ()))).get(_SESSION)
                if given is not None:
                    self._sessions[given] = self._sessions.pop(opening)
            await send(message)

        try:
            if await self._make_room(scope, session.peer):
                await self._app(scope, receive, sending)
            else:
                logger.warning("refused a new session of %s: there are too many, and all are in use", session.peer)
                told = "there are too many client sessions, and all are in use; try again later"
                await error_response(503, told, {})(scope, receive, send)
        finally:
            session.working -= 1
            session.used = self._clock()
            self._sessions.pop(opening, None)

    async def _make_room(self, scope: Scope, peer: str) -> bool:
        """Whether that peer's newest session may stay, if need be in place of an idle one."""
        now = self._clock()
        for name, session in list(self._sessions.items()):
            if not session.working and not session.listening and now - session.used > self._idle_seconds:
                del self._sessions[name]  # the application has ended it
        held = Counter(session.peer for session in self._sessions.values())
        if held[peer] > self._per_peer:
            return await self._end_one(scope, peer)
        if held.total() > self._in_all:
            return await self._end_one(scope, held.most_common(1)[0][0])
        return True

    async def _end_one(self, scope: Scope, peer: str) -> bool:
        """End an idle session of that peer; whether there was one."""
        idle = [(name, each) for name, each in self._sessions.items() if each.peer == peer and not each.working]
        if not idle:
            return False
        name, _ = min(idle, key=lambda one: (one[1].requests > _HARDLY, one[1].listening > 0, one[1].used))
        del self._sessions[name]
        headers = [each for each in scope["headers"] if each[0] not in (b"content-length", b"content-type")]
        headers.append((_SESSION.encode(), name.encode("latin-1")))

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(_: Message) -> None:
            pass

        await self._app({**scope, "method": "DELETE", "headers": headers}, nothing, unheard)
        return True


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    text = str(client[0]) if client else ""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(IPv6Address(int(address) >> 64 << 64)) + "/64"
    return text
