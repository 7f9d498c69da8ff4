"""Programs that begin while they are written, where the sandbox takes over: their calls count as those of the text."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import anyio
import pytest

from callgate import CodeResult, Event, Limits, Printed, tool
from runtime.conftest import opened
from runtime.graphed import known
from runtime.test_fast_path import SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.sampled]

LARGE = "k = await read(300_000)\nx = sum([i * 2 for i in range(k)])"
"""More than the host does for a program; nobody knows before `k` is there."""
REQUESTED = f"import asyncio\nt = asyncio.create_task(read(1))\n{LARGE}\nprint('go')\na = await t\n[a, await read(2)]"
NOT_REACHED = f"{LARGE}\nprint('go')\na = await read(1)\n[a, await read(2)]"


@pytest.mark.parametrize("code", [REQUESTED, NOT_REACHED], ids=["requested", "not reached"])
async def test_a_read_that_is_under_way_in_doubt_is_made_and_counted_once(code: str) -> None:
    text, _ = await played(code, whole=True)
    assert (text.ok, text.value, text.path) == (True, [1, 2], "sandbox")
    written, begun = await played(code, whole=False)
    assert in_any_order(written) == in_any_order(text)
    assert [call.early for call in written.calls][:2] == [True, True]
    assert written.speculative == []
    assert written.usage.tool_calls == 3
    assert sorted(begun) == [1, 2, 300_000]


def in_any_order(result: CodeResult) -> Mapping[str, Any]:
    """What is known of a result, whatever the order in which reads began."""
    return {**known(result), "calls": sorted(map(str, known(result)["calls"]))}


async def played(code: str, *, whole: bool) -> tuple[CodeResult, list[int]]:
    """Run the program, whose first read does not come back before it has printed."""
    printed, begins = anyio.Event(), anyio.Event()
    begun: list[int] = []

    @tool(read_only=True)
    async def read(n: int) -> int:
        """Reads."""
        begun.append(n)
        if n == 1:
            begins.set()
            await printed.wait()
        return n

    def hear(event: Event) -> None:
        if isinstance(event, Printed):
            printed.set()

    async def chunks() -> AsyncIterator[str]:
        yield f"{code}\n"
        await begins.wait()
        yield "# the end"

    with anyio.fail_after(SECONDS):
        async with opened(read, pool_size=0) as runtime:
            limits = Limits(max_tool_calls=3)
            if whole:
                return await runtime.execute_code(code, limits=limits, on_event=hear), begun
            async with runtime.stream_code(chunks(), limits=limits) as stream:
                async for event in stream:
                    hear(event)
            assert stream.result is not None
            return stream.result, begun
