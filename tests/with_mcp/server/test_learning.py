"""What searches learn from, over HTTP of 2026-07-28, where nothing says that two requests come from one user."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate import Runtime, tool
from callgate.mcp.server import serve_http
from with_mcp.server.served import SECONDS, Served

pytestmark = pytest.mark.anyio


@tool(read_only=True)
async def set_lamp_level(percent: int) -> int:
    """How much light a lamp gives."""
    return percent


@tool(read_only=True)
async def close_door() -> bool:
    """Close it."""
    return True


async def learned(served: Served, era: str, *calls: tuple[str, dict[str, Any]], sandbox: str | None = None) -> str:
    """Why the lamp is found, after these calls of a client."""
    runtime = Runtime([set_lamp_level, close_door], sandbox=sandbox, pool_size=0)
    ready = anyio.Event()
    urls: list[str] = []

    def up(url: str) -> None:
        urls.append(url)
        ready.set()

    async with runtime, anyio.create_task_group() as tasks:
        with anyio.fail_after(SECONDS):
            tasks.start_soon(lambda: serve_http(runtime, port=0, ready=up))
            await ready.wait()
            async with served.http_client(urls[0], era=era) as client:
                for name, arguments in calls:
                    result = await client.call_tool(name, arguments)
                    assert not result.is_error
            tasks.cancel_scope.cancel()
    found = runtime.search_tools("lamp brighter").found
    assert found[0].tool.name == "set_lamp_level"
    return str(found[0].why)


SEARCH = ("search_tools", {"query": "make the lamp brighter"})
CALL = ("execute_code", {"code": "await set_lamp_level(percent=5)"})


async def test_a_client_session_joins_them(served: Served) -> None:
    assert "brighter" in await learned(served, "legacy", SEARCH, CALL)


async def test_requests_that_stand_alone_are_not_joined(served: Served) -> None:
    assert "brighter" not in await learned(served, "auto", SEARCH, CALL)


async def test_what_one_program_searches_for_and_calls_is_joined(served: Served) -> None:
    program = "hits = await tools.search('make the lamp brighter')\nawait tool_call(hits.found[0].name, percent=5)"
    assert "brighter" in await learned(served, "auto", ("execute_code", {"code": program}), sandbox="auto")
