"""Calls begin in the order in which the program made them, whatever their size: their effects and their records have
that order on both paths, and no call is left out of the record. Recording very many calls at once leaves others their
turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from callgate import ApprovalRequest, CodeResult, Limits, Runtime, Tool, tool
from guard.heartbeat import heartbeat
from guard.hostile_guest import attacked
from runtime.conftest import opened

pytestmark = pytest.mark.anyio

RUNS = 5
LARGE = "body = ['some text of a letter'] * 9000\n"
"""Beyond what is weighed and checked at once."""
TRIES = 3
MOST_SECONDS = 0.1


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    loop: str = request.param
    return loop


@pytest.fixture(scope="module")
def effects() -> list[str]:
    return []


def tools(effects: list[str]) -> list[Tool]:
    @tool
    async def send(to: str, body: list[str] | None = None) -> str:
        """Send a letter."""
        effects.append(to)
        await anyio.sleep(0.001)
        return to

    @tool(requires_approval=True)
    async def pay(to: str, body: list[str] | None = None) -> str:
        """Send money."""
        effects.append(to)
        await anyio.sleep(0.001)
        return to

    @tool
    async def stay(to: str, body: list[str] | None = None) -> str:
        """Begin, and never end."""
        effects.append(to)
        await anyio.sleep_forever()
        return to

    return [send, pay, stay]


def allow(request: ApprovalRequest) -> bool:
    return True


@pytest.fixture(scope="module")
async def runtime(effects: list[str], anyio_backend: str) -> AsyncIterator[Runtime]:
    async with opened(*tools(effects), pool_size=2, approve=allow) as entered:
        yield entered


def states(result: CodeResult) -> list[str]:
    return [f"{call.arguments['to']} {call.status}" for call in result.calls]


ALL_MADE = ["a succeeded", "b succeeded", "c succeeded"]
MADE: dict[str, tuple[str, str]] = {
    "a graph": ("plan", "x = send('a', body)\ny = send('b')\nz = send('c')\n[await x, await y, await z]"),
    "a gather": ("plan", "import asyncio\nawait asyncio.gather(send('a', body), send('b'), send('c'))"),
    "a gather in the sandbox": (
        "sandbox",
        "import asyncio\nawait asyncio.gather(send('a', body), send('b'), send('c'))",
    ),
    "never awaited": ("sandbox", "x = [send('a', body), send('b'), send('c')]\n1"),
    "a program that fails": ("sandbox", "x = [send('a', body), send('b'), send('c')]\nraise ValueError('no')"),
    "two large ones": ("sandbox", "x = [send('a', body), send('b', body), send('c')]\n1"),
    "approved": ("sandbox", "x = [pay('a', body), pay('b'), send('c')]\n1"),
    "approved as a graph": ("plan", "x = pay('a', body)\ny = pay('b')\nz = send('c')\n[await x, await y, await z]"),
}


@pytest.mark.parametrize("most", [1, 2, 64])
@pytest.mark.parametrize("name", MADE)
async def test_a_small_call_does_not_overtake_a_large_one(
    name: str, most: int, runtime: Runtime, effects: list[str]
) -> None:
    path: Any
    path, code = MADE[name]
    for _ in range(RUNS):
        effects.clear()
        limits = Limits(max_concurrent_calls=most)
        result = await runtime.execute_code(LARGE + code, check=False, path=path, limits=limits)
        assert effects == ["a", "b", "c"]
        assert states(result) == ALL_MADE


@pytest.mark.parametrize("most", [1, 2, 64])
async def test_a_large_call_that_left_has_begun_before_it_is_cancelled(
    most: int, runtime: Runtime, effects: list[str]
) -> None:
    code = (
        f"import asyncio\n{LARGE}t = asyncio.create_task(stay('a', body))\n"
        "await asyncio.sleep(0)\nawait asyncio.sleep(0)\nt.cancel()\nawait send('b')"
    )
    for _ in range(RUNS):
        effects.clear()
        limits = Limits(max_concurrent_calls=most)
        result = await runtime.execute_code(code, check=False, path="sandbox", limits=limits)
        assert effects == ["a", "b"]
        assert states(result) == ["a unknown_outcome", "b succeeded"]


@pytest.mark.parametrize("path", ["plan", "sandbox"])
async def test_calls_that_wait_at_the_wall_limit_are_recorded_on_both_paths(path: Any, runtime: Runtime) -> None:
    limits = Limits(wall_seconds=0.3, max_concurrent_calls=1)
    code = "import asyncio\nawait asyncio.gather(stay('a'), stay('b'), stay('c'))"
    result = await runtime.execute_code(code, path=path, limits=limits)
    assert result.error is not None
    assert result.error.limit == "wall_seconds"
    assert states(result) == ["a unknown_outcome", "b cancelled", "c cancelled"]


@pytest.mark.alone
async def test_very_many_calls_that_wait_at_a_limit_are_recorded_in_turns(runtime: Runtime) -> None:
    code = "x = [stay('a') for i in range(40000)]\nraise ValueError('no')"
    limits = Limits(wall_seconds=4, max_concurrent_calls=1)
    gaps = []
    for _ in range(TRIES):
        async with heartbeat() as heart:
            result = await runtime.execute_code(code, check=False, path="sandbox", limits=limits)
        assert [call.status for call in result.calls] == ["unknown_outcome", *["cancelled"] * 39999]
        gaps.append(heart.longest_gap_seconds)
        if gaps[-1] < MOST_SECONDS:
            break
    assert min(gaps) < MOST_SECONDS


WITHDRAWN = '{"jsonrpc":"2.0","method":"rpc.withdrawn","params":{"tool":"take","arguments":{"a":[%s]}}}\\n'
FLOODS: dict[str, tuple[str, int]] = {
    "small": (f"send('{WITHDRAWN}' % '' * 40000)", 40001),
    "large": (f"for i in range(15): send('{WITHDRAWN}' % ','.join(['[]'] * 80000))", 16),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOODS)
async def test_calls_that_were_withdrawn_behind_a_slow_one_are_recorded_in_turns(name: str) -> None:
    @tool
    async def take(a: list[list[str]]) -> int:
        """Take something, slowly."""
        await anyio.sleep(0.3)
        return len(a)

    flood, calls = FLOODS[name]
    gaps = []
    for _ in range(TRIES):
        cost = await attacked(
            f"""call('{{"a":[]}}', 2)\n{flood}\nanswer()\nend()""", [take], Limits(max_concurrent_calls=1)
        )
        assert cost.run.ok, cost.run.error
        assert len(cost.run.calls) == calls
        assert {call.status for call in cost.run.calls[1:]} == {"cancelled"}
        gaps.append(cost.gap_seconds)
        if gaps[-1] < MOST_SECONDS:
            break
    assert min(gaps) < MOST_SECONDS


@pytest.mark.slow
async def test_the_text_of_a_value_that_waits_for_its_calls_is_bounded() -> None:
    told = '{"jsonrpc":"2.0","method":"rpc.ending","params":{"value":1,"value_repr":"%s"}}\\n'
    cost = await attacked(f"send('{told}' % ('x' * 1000000))\ntime.sleep(60)", limits=Limits(wall_seconds=1))
    assert cost.run.error is not None
    assert cost.run.error.limit == "wall_seconds"
    assert (cost.run.value, cost.run.value_repr) == (1, "x" * 200_000)
