"""How many client sessions one peer may have over HTTP. Knows addresses and headers; nothing of the protocol inside.

1. A peer is an IPv4 address, or the first 64 bits of an IPv6 address: one client chooses the rest itself.
2. A peer at its bound that opens a session loses one that is idle, with no call in progress. Sessions that were opened
   and hardly used end first, then the session that was unused for the longest time. Its client receives a 404 and opens
   another session, as the protocol has it. Where no session is idle, the new session is refused with 503.
3. At the bound of all peers together, the peer with the most sessions, among those with an idle one, loses one in that
   way.
4. A session that `app` has ended, after a time without requests, does not count.
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
    calls: int = 0
    """Calls in progress."""
    streams: int = 0
    """Open streams of a client that listens."""


class SessionBounds:
    """Lets requests through to `app`, and ends sessions of `app` with the DELETE that a client would send.

    Args:
        app: serves MCP over streamable HTTP.
        per_peer: sessions of one peer.
        in_all: sessions of all peers.
        idle_seconds: `app` itself ends a session that has had no request for so long.
    """

    def __init__(self, app: ASGIApp, *, per_peer: int, in_all: int, idle_seconds: float) -> None:
        self._app = app
        self._per_peer = per_peer
        self._in_all = in_all
        self._idle_seconds = idle_seconds
        self._sessions: dict[str | _Session, _Session] = {}
        """By session id. A session that is being opened has no id yet and stands under itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        name = headers.get(_SESSION)
        session = None if name is None else self._sessions.get(name)
        opens = session is None
        if session is None:
            version = headers.get("mcp-protocol-version", "")
            if name is not None or scope["method"] != "POST" or version not in ("", *HANDSHAKE_PROTOCOL_VERSIONS):
                await self._app(scope, receive, send)  # this request opens no session
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

        works = scope["method"] != "GET"  # a client that only listens is idle
        session.requests += 1
        session.calls += works
        session.streams += not works
        try:
            if opens and not await self._make_room(scope, session):
                logger.warning("refused a new session of %s: there are too many, and all are in use", session.peer)
                why = "there are too many client sessions, and all are in use; try again later"
                await error_response(503, why, {})(scope, receive, send)
                return
            await self._app(scope, receive, sending)
        finally:
            session.calls -= works
            session.streams -= not works
            session.used = time.monotonic()
            self._sessions.pop(session, None)

    async def _make_room(self, scope: Scope, newest: _Session) -> bool:
        """End an idle session if there are too many. Returns whether the newest session may stay."""
        since = time.monotonic() - self._idle_seconds
        for name, each in list(self._sessions.items()):
            if not (each.calls or each.streams) and each.used < since:
                del self._sessions[name]  # `app` has ended it
        held = Counter(each.peer for each in self._sessions.values())
        idle = {name: each for name, each in self._sessions.items() if isinstance(name, str) and not each.calls}
        if held[newest.peer] > self._per_peer:
            loser = newest.peer
        elif held.total() > self._in_all:
            loser = max((each.peer for each in idle.values()), key=held.__getitem__, default="")
        else:
            return True
        theirs = [(each.requests > _HARDLY, each.used, name) for name, each in idle.items() if each.peer == loser]
        if not theirs:
            return False
        *_, ended = min(theirs)
        del self._sessions[ended]
        headers = [each for each in scope["headers"] if each[0] not in (b"content-length", b"content-type")]
        headers.append((_SESSION.encode(), ended.encode("latin-1")))

        async def no_body() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def drop(_: Message) -> None:
            pass

        await self._app({**scope, "method": "DELETE", "headers": headers}, no_body, drop)
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
