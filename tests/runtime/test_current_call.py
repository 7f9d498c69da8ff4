"""`current_call`: the call that a function carries out. One context variable has it, with its artifacts."""

from __future__ import annotations

import threading

import anyio
import anyio.to_thread
import pytest

from callgate import Allow, ApprovalRequest, ConfigurationError, Runtime, current_call, tool

pytestmark = pytest.mark.anyio


async def test_a_tool_that_runs_a_plan_has_its_own_call_again_afterwards() -> None:
    seen: list[str] = []

    @tool
    async def inner() -> None:
        seen.append(current_call().tool)

    @tool
    async def outer() -> None:
        before = current_call()
        assert (await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "inner"}]})).ok
        assert current_call() == before
        seen.append(before.tool)

    async with Runtime([inner, outer], sandbox=None) as runtime:
        with anyio.fail_after(10):
            assert (await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "outer"}]})).ok
    assert seen == ["inner", "outer"]


async def test_who_is_asked_about_a_call_is_in_no_call_yet_also_within_another_call() -> None:
    asked: list[str] = []

    def approve(request: ApprovalRequest) -> Allow:
        with pytest.raises(ConfigurationError, match="is for a tool's function"):
            current_call()
        asked.append(request.tool.name)
        return Allow()

    @tool(requires_approval=True)
    async def inner() -> None:
        assert current_call().tool == "inner"

    @tool
    async def outer() -> None:
        assert (await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "inner"}]})).ok

    async with Runtime([inner, outer], sandbox=None, approve=approve) as runtime:
        with anyio.fail_after(10):
            assert (await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "outer"}]})).ok
    assert asked == ["inner"]


async def test_a_thread_that_is_left_behind_still_knows_its_call() -> None:
    keys: list[str] = []
    left, over = threading.Event(), threading.Event()

    @tool(timeout_seconds=0.05)
    def slow() -> None:
        assert left.wait(10)
        keys.append(current_call().idempotency_key)
        over.set()

    async with Runtime([slow], sandbox=None) as runtime:
        with anyio.fail_after(10):
            result = await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "slow"}]})
            assert not result.ok
            left.set()
            await anyio.to_thread.run_sync(over.wait, 10)
    assert keys[0].startswith("call_")
