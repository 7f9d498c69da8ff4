"""Results that are kept, and what happens while a plan runs."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agent.orchestration.orchestrated import data, orchestrator, plan, step
from callgate import tool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("changes", [False, True])
async def test_a_tool_that_takes_anothers_place_while_that_runs_gives_its_own_results(changes: bool) -> None:
    calls: list[str] = []
    begun, go_on = anyio.Event(), anyio.Event()

    @tool(name="lookup", read_only=not changes)
    async def old(unit: str) -> str:
        """The old one; it waits."""
        calls.append("old")
        begun.set()
        await go_on.wait()
        return "old"

    @tool(name="lookup", read_only=True)
    async def new(unit: str) -> str:
        """The new one."""
        calls.append("new")
        return "new"

    results: list[Any] = []
    with anyio.fail_after(20):
        async with orchestrator([old]) as made, anyio.create_task_group() as tasks:

            async def first() -> None:
                results.append(data(await made.execute(plan(step("a", "lookup", unit="x")))))

            tasks.start_soon(first)
            await begun.wait()
            made._runtime.registry.remove("lookup")
            made._runtime.registry.add(new)
            if changes:
                await made.execute(plan(step("a", "lookup", unit="y"), id="p2"))
            go_on.set()
            while not results:
                await anyio.lowlevel.checkpoint()
            unit = "y" if changes else "x"
            results.append(data(await made.execute(plan(step("a", "lookup", unit=unit), id="p3"))))
    assert results == [{"a": "old"}, {"a": "new"}]
    assert calls == ["old", *["new"] * (1 + changes)]


@pytest.mark.parametrize("ends", ["cancelled", "given up at a timeout of its own"])
async def test_a_change_that_somebody_else_made_and_gave_up_makes_results_stale(ends: str) -> None:
    left = [2]

    @tool(read_only=True)
    async def stock() -> int:
        """How many are left."""
        return left[0]

    @tool
    async def sell() -> None:
        """Sell one; the answer never comes."""
        left[0] -= 1
        await anyio.sleep_forever()

    with anyio.fail_after(20):
        async with orchestrator([stock, sell]) as made:
            first = data(await made.execute(plan(step("a", "stock"))))
            if ends == "cancelled":
                with anyio.move_on_after(0.2):
                    await made._runtime.conversation(direct="all").answer("sell", {})
            else:
                written = {"steps": [{"id": "a", "tool": "sell", "arguments": {}, "timeout_seconds": 0.1}]}
                await made._runtime.execute_tool_plan(written)
            second = data(await made.execute(plan(step("a", "stock"), id="p2")))
    assert (first, second) == ({"a": 2}, {"a": 1})
