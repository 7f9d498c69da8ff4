"""How many sessions one peer may have: those that the application still has are counted."""

from __future__ import annotations

from itertools import count

import anyio
import pytest
from starlette.datastructures import Headers
from starlette.types import Message, Receive, Scope, Send

from callgate.mcp.server.peers import SessionBounds

pytestmark = pytest.mark.anyio


async def nothing() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


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
