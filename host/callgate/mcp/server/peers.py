"""How many client sessions one peer may have over HTTP. Knows addresses and headers; nothing of the protocol inside.

1. A peer is an IPv4 address, or the first 64 bits of an IPv6 address: so much of it one client chooses itself.
2. A peer at its bound that opens a session loses one that is idle: no call of it is going on. Sessions that were opened
   and hardly used go first, then the one that was unused for the longest time. Its client receives a 404 and opens
   another session, as the protocol has it. Where nothing is idle, the new session is refused with 503.
3. Where all peers together have as many as there may be, the peer with the most sessions loses one in that way.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass
from ipaddress import IPv6Address, IPv6Network, ip_address

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .guard import error_response

__all__ = ["SessionBounds"]

logger = logging.getLogger("callgate")

_SESSION = "mcp-session-id"
_HARDLY = 3
"""Requests of a session that was opened and never used: every client sends two or three at its beginning."""


@dataclass(slots=True, eq=False)
class _Session:
    peer: str
    used: float
    requests: int = 0
    working: int = 0
    listening: int = 0


class SessionBounds:
    """Lets requests through to `app`, and ends sessions of it with the DELETE that a client would send.

    Args:
        app: serves MCP over streamable HTTP.
        per_peer: sessions of one peer.
        in_all: sessions of all peers.
        idle_seconds: after so long without a request `app` ends a session itself.
    """

    def __init__(self, app: ASGIApp, *, per_peer: int, in_all: int, idle_seconds: float) -> None:
        self._app = app
        self._per_peer = per_peer
        self._in_all = in_all
        self._idle_seconds = idle_seconds
        self._sessions: dict[str | _Session, _Session] = {}
        """By id; by themselves while no answer has named them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        name = headers.get(_SESSION)
        session = None if name is None else self._sessions.get(name)
        opens = session is None
        if session is None:
            version = headers.get("mcp-protocol-version", "")
            if name is not None or scope["method"] != "POST" or version not in ("", *HANDSHAKE_PROTOCOL_VERSIONS):
                await self._app(scope, receive, send)  # it stands alone, or its session is over: it opens none
                return
            session = _Session(_peer(scope), time.monotonic())
            self._sessions[session] = session
        known: str | _Session = name or session

        async def sending(message: Message) -> None:
            nonlocal known
            if message["type"] == "http.response.start":
                given = Headers(raw=list(message.get("headers", ()))).get(_SESSION)
                if known is session and given is not None and message["status"] < 400:
                    self._sessions[given] = self._sessions.pop(session)
                    known = given
                elif message["status"] == 404 or (scope["method"] == "DELETE" and message["status"] == 200):
                    self._sessions.pop(known, None)
            await send(message)

        works = scope["method"] != "GET"
        session.requests += 1
        session.working += works
        session.listening += not works
        try:
            if opens and not await self._make_room(scope, session):
                logger.warning("refused a new session of %s: there are too many, and all are in use", session.peer)
                told = "there are too many client sessions, and all are in use; try again later"
                await error_response(503, told, {})(scope, receive, send)
                return
            await self._app(scope, receive, sending)
        finally:
            session.working -= works
            session.listening -= not works
            session.used = time.monotonic()
            self._sessions.pop(session, None)

    async def _make_room(self, scope: Scope, newest: _Session) -> bool:
        """Whether that session may stay, if need be in place of an idle one."""
        now = time.monotonic()
        for name, each in list(self._sessions.items()):
            busy = each.working or each.listening or each is newest
            if not busy and now - each.used > self._idle_seconds:
                del self._sessions[name]  # the application has ended it
        held = Counter(each.peer for each in self._sessions.values())
        if held[newest.peer] > self._per_peer:
            loser = newest.peer
        elif held.total() > self._in_all:
            loser = held.most_common(1)[0][0]
        else:
            return True
        idle = [
            (each.requests > _HARDLY, each.used, name)
            for name, each in self._sessions.items()
            if each.peer == loser and not each.working and isinstance(name, str)
        ]
        if not idle:
            return False
        *_, ended = min(idle)
        del self._sessions[ended]
        headers = [each for each in scope["headers"] if each[0] not in (b"content-length", b"content-type")]
        headers.append((_SESSION.encode(), ended.encode("latin-1")))

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(_: Message) -> None:
            pass

        await self._app({**scope, "method": "DELETE", "headers": headers}, nothing, unheard)
        return True


def _peer(scope: Scope) -> str:
    text = str(scope["client"][0]) if scope.get("client") else ""
    try:
        address = ip_address(text)
    except ValueError:
        return text
    if isinstance(address, IPv6Address) and address.ipv4_mapped is None:
        return str(IPv6Network((int(address), 64), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)
