"""Tools with very many parameters, very large results, and the memory that results of a plan take: none of them keeps
the event loop from its next turn for longer than 100 ms of the process's processor time, or fills the host.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from callgate import Limits, Runtime, Tool, ToolError, tool
from guard.heartbeat import heartbeat

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

MOST_SECONDS = 0.1
TRIES = 3
COUNT = 28_000
NAMES = [f"p{number}" for number in range(COUNT)]


async def _taken(**given: Any) -> int:
    return len(given)


def _by_schema(name: str, **more: Any) -> Tool:
    schema = {"type": "object", "properties": {each: {"type": "integer"} for each in NAMES}, **more}
    return Tool.from_schema(name, "Takes numbers.", schema, _taken, read_only=True)


LARGE: dict[str, Callable[[], Any]] = {
    "long integers": lambda: [10**3999 + number for number in range(1000)],
    "rows": lambda: [{"id": number, "price": 1.5e-300} for number in range(60_000)],
    "long texts": lambda: ["a" * 200_000] * 20,
    "a tuple": lambda: tuple(range(300_000)),
    "keys that are numbers": lambda: {number: [number] for number in range(60_000)},
}


@tool(read_only=True)
async def give(kind: str):  # type: ignore[no-untyped-def]
    """Give a large value."""
    return LARGE[kind]()


@tool(read_only=True)
async def emoji(length: int = 5_000_000) -> str:
    """Give a text that takes four bytes for each character."""
    return "x" * length + "😀"


@tool(read_only=True, cache_seconds=60)
async def kept(items: Any) -> int:
    """Count."""
    kept_calls.append(1)
    return len(items)


kept_calls: list[int] = []


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what is measured is the work between two turns; which loop has them is the same


@pytest.fixture
async def runtime(anyio_backend: str) -> AsyncIterator[Runtime]:
    tools = [_by_schema("take"), _by_schema("take_only", additionalProperties=False), give, emoji, kept]
    async with Runtime(tools, sandbox=None) as entered:
        yield entered


async def called(runtime: Runtime, name: str, arguments: dict[str, Any]) -> str:
    """What a call through the gate gives, or its error; soon in one of several tries."""
    seconds = 0.0
    for _ in range(TRIES):
        gate = runtime.gate.open(caller="direct", limits=Limits())
        with anyio.fail_after(120):
            async with heartbeat() as heart:
                try:
                    text = await gate.call(name, arguments)
                except ToolError as error:
                    text = error.message
        seconds = heart.longest_gap_seconds
        if seconds < MOST_SECONDS:
            return text
    pytest.fail(f"the event loop was kept from its next turn for {seconds:.3f} s")


@pytest.mark.parametrize("name", ["take", "take_only"])
async def test_very_many_arguments_are_checked_soon(runtime: Runtime, name: str) -> None:
    given: dict[str, Any] = dict.fromkeys(NAMES, 1)
    assert await called(runtime, name, given) == str(COUNT)
    assert "'zz'" in await called(runtime, name, {**given, "zz": 1})
    wrong = await called(runtime, name, {f"q{number}": 1 for number in range(COUNT)})
    assert "unknown argument 'q0'" in wrong
    assert len(wrong) < 20_000


@pytest.mark.parametrize("kind", ["long integers", "rows", "long texts", "a tuple", "keys that are numbers"])
async def test_large_results_are_written_in_turns(runtime: Runtime, kind: str) -> None:
    text = await called(runtime, "give", {"kind": kind})
    assert len(text) > 300_000
    assert text[0] in "[{"
    assert text[-1] in "]}"


async def test_large_arguments_are_found_again_whatever_the_order_of_their_keys(runtime: Runtime) -> None:
    kept_calls.clear()
    rows = {str(number): [number, "a" * 20] for number in range(15_000)}
    assert await called(runtime, "kept", {"items": rows}) == "15000"
    assert await called(runtime, "kept", {"items": dict(reversed(rows.items()))}) == "15000"
    assert len(kept_calls) == 1


async def test_the_results_of_a_plan_are_weighed_by_their_memory(runtime: Runtime) -> None:
    steps = [{"id": f"s{number}", "tool": "emoji"} for number in range(3)]  # 20 MB each, of 5 million characters
    result = await runtime.execute_tool_plan({"steps": steps}, limits=Limits(memory_bytes=32 << 20))
    assert not result.ok
    assert "memory_bytes" in result.for_model()
