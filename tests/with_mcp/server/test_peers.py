"""How many sessions one peer may have: those that the application still has are counted."""

from __future__ import annotations

from itertools import count
from types import SimpleNamespace

import anyio
import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from callgate.mcp.server import peers
from callgate.mcp.server.peers import SessionBounds

pytestmark = pytest.mark.anyio


async def nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


class Application:
    """Opens a session for each POST without one. A POST to ``/busy`` and a GET are answered when the test ends."""

    def __init__(self) -> None:
        self.open_ones: set[str] = set()
        self.statuses: list[int] = []
        self._names = count(1)
        self.bounds = SessionBounds(self, per_peer=2, in_all=3, idle_seconds=100.0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        name = Headers(scope=scope).get("mcp-session-id") or f"s{next(self._names)}"
        self.open_ones.add(name)
        if scope["method"] == "DELETE":
            self.open_ones.discard(name)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"mcp-session-id", name.encode())]})
        if scope["path"] == "/busy" or scope["method"] == "GET":
            await anyio.sleep_forever()

    async def ask(self, peer: str, method: str = "POST", path: str = "/", session: str = "") -> None:
        async def heard(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.statuses.append(message["status"])

        headers = [(b"mcp-session-id", session.encode())] if session else []
        scope = {"type": "http", "method": method, "path": path, "client": (peer, 5), "headers": headers}
        await self.bounds(scope, nothing, heard)


async def test_a_client_that_still_listens_loses_its_session_after_those_that_were_hardly_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, now = Application(), 0.0
    monkeypatch.setattr(peers, "time", SimpleNamespace(monotonic=lambda: now))
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for session in ("", "s1", "s1", "s1", "s1"):
                await app.ask("10.0.0.1", session=session)
            tasks.start_soon(app.ask, "10.0.0.1", "GET", "/", "s1")
            await anyio.wait_all_tasks_blocked()
            now = 200.0  # longer than the application keeps a session that does not listen
            for _ in range(5):
                await app.ask("10.0.0.1")
            tasks.cancel_scope.cancel()
    assert app.open_ones == {"s1", "s6"}


async def test_where_the_busiest_peer_has_no_idle_session_another_loses_one() -> None:
    app = Application()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(app.ask, "10.0.0.1", "POST", "/busy")
            await anyio.wait_all_tasks_blocked()
            for peer in ("10.0.0.2", "10.0.0.3"):
                await app.ask(peer)
            tasks.cancel_scope.cancel()
    assert app.statuses == [200] * 4
    assert app.open_ones == {"s1", "s2", "s4"}


async def test_sessions_that_the_application_has_ended_take_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    app, now = Application(), 0.0
    monkeypatch.setattr(peers, "time", SimpleNamespace(monotonic=lambda: now))
    for peer in ("10.0.0.1", "10.0.0.2"):
        await app.ask(peer)
    app.open_ones.clear()
    now = 200.0
    for peer in ("10.0.0.3", "10.0.0.3", "10.0.0.4"):
        await app.ask(peer)
    assert app.open_ones == {"s3", "s4", "s5"}


async def test_a_session_whose_client_only_listens_is_counted_however_long_it_does() -> None:
    names, open_ones = count(1), set[str]()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        name = Headers(scope=scope).get("mcp-session-id") or f"s{next(names)}"
        open_ones.add(name)
        if scope["method"] == "DELETE":
            open_ones.discard(name)
        if scope["method"] == "GET":
            await anyio.sleep_forever()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"mcp-session-id", name.encode())]})

    async def ask(method: str, *headers: tuple[bytes, bytes]) -> None:
        async def unheard(_: Message) -> None:
            pass

        scope = {"type": "http", "method": method, "client": ("10.0.0.1", 5), "headers": list(headers)}
        await bounds(scope, nothing, unheard)

    bounds = SessionBounds(app, per_peer=2, in_all=10, idle_seconds=0.0)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for name in (b"s1", b"s2", b"s3", b"s4"):
                await ask("POST")
                tasks.start_soon(ask, "GET", (b"mcp-session-id", name))
                await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
    assert len(open_ones) == 2
