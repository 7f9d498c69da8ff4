"""Calls that pause to ask (from 2026-07-28 on): what is left of them, how many may wait, and whose answers count."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import (
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
    InputResponse,
)

from callgate import Runtime, tool
from callgate.mcp.server import Serving, ask_client
from callgate.mcp.server.gateway import Gateway
from callgate.mcp.server.paused import MAX_PAUSED
from with_mcp.server.served import SECONDS, Ear, children, text, until

pytestmark = pytest.mark.anyio

YES = ElicitResult(action="accept", content={})


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    backend: str = request.param
    return backend


@tool(requires_approval=True, destructive=True)
async def wipe(table: str) -> str:
    """Delete a table."""
    return f"wiped {table}"


@asynccontextmanager
async def serving(sandbox: str | None = None, **options: Any) -> AsyncIterator[Client]:
    """A client in this process whose calls pause."""
    async with Runtime([wipe], sandbox=sandbox, pool_size=0, approve=ask_client) as runtime:
        server = Gateway(runtime, Serving(direct=("wipe",), **options)).server
        with anyio.fail_after(SECONDS):
            async with Client(server, mode="auto", elicitation_callback=Ear().elicit) as client:
                yield client


async def call(
    client: Client, name: str, arguments: dict[str, Any], state: str | None = None, **answers: InputResponse
) -> CallToolResult | InputRequiredResult:
    return await client.session.call_tool(
        name, arguments, input_responses=answers, request_state=state, allow_input_required=True
    )


async def paused(client: Client, name: str = "wipe", arguments: dict[str, Any] | None = None) -> InputRequiredResult:
    """A call that waits for an answer."""
    result = await call(client, name, arguments or {"table": "t"})
    assert isinstance(result, InputRequiredResult)
    return result


async def test_no_task_is_left_of_calls_that_were_answered() -> None:
    async with serving() as client:
        await client.list_tools()
        before = len(anyio.get_running_tasks())
        for _ in range(5):
            waiting = await paused(client)
            answered = await call(client, "wipe", {"table": "t"}, waiting.request_state, approval_1=YES)
            assert isinstance(answered, CallToolResult)
            assert text(answered) == "wiped t"
        await until(lambda: len(anyio.get_running_tasks()) <= before)


async def test_nothing_is_left_of_a_call_that_nobody_comes_back_to() -> None:
    async with serving("auto", approval_seconds=0.3) as client:
        await client.list_tools()
        tasks, guests = len(anyio.get_running_tasks()), len(children(os.getpid()))
        code = {"code": "while True:\n    try:\n        await wipe(table='t')\n    except ToolError:\n        pass"}
        waiting = await paused(client, "execute_code", code)
        assert len(children(os.getpid())) > guests
        await until(lambda: len(anyio.get_running_tasks()) <= tasks and len(children(os.getpid())) <= guests)
        with pytest.raises(MCPError, match="no call waits for these answers"):
            await call(client, "execute_code", code, waiting.request_state, approval_1=YES)


async def test_so_many_wait_at_a_time_and_further_questions_are_a_no() -> None:
    async with serving() as client:
        waiting = [await paused(client) for _ in range(MAX_PAUSED)]
        refused = await call(client, "wipe", {"table": "t"})
        assert isinstance(refused, CallToolResult)
        assert refused.is_error
        assert "too many calls wait for answers here already; try again later" in text(refused)
        await call(client, "wipe", {"table": "t"}, waiting[0].request_state, approval_1=YES)
        await paused(client)


async def test_an_answer_to_what_was_never_asked_is_refused_and_the_call_waits_on() -> None:
    async with serving() as client:
        waiting = await paused(client)
        assert list(waiting.input_requests or {}) == ["approval_1"]
        for key in ("approval_2", "approval_01", "approval_0", "approval_", "other", "approval_" + "9" * 5000):
            with pytest.raises(MCPError, match="there was no question"):
                await call(client, "wipe", {"table": "t"}, waiting.request_state, **{"approval_1": YES, key: YES})
        answered = await call(client, "wipe", {"table": "t"}, waiting.request_state, approval_1=YES)
        assert isinstance(answered, CallToolResult)
        assert text(answered) == "wiped t"


async def test_what_is_no_answer_has_the_question_asked_again() -> None:
    async with serving() as client:
        waiting = await paused(client)
        again = await call(client, "wipe", {"table": "t"}, waiting.request_state)
        assert isinstance(again, InputRequiredResult)
        assert again.input_requests == waiting.input_requests
