"""What the gate notes of its calls, and the timeouts of plans that adapt to it."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate.errors import ToolError, ToolTimedOut
from callgate.limits import Limits
from callgate.runtime.gate import Gate, RunGate
from callgate.runtime.gate.approval import Deny
from callgate.tools import Caller, Registry, Retry, Tool, tool
from callgate.tools.statistics import ToolStats

pytestmark = pytest.mark.anyio


class Clock:
    """Stands still unless a tool moves it."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def gate_of(*tools: Tool, **options: Any) -> Gate:
    return Gate(Registry(tools), **options)


def opened(gate: Gate, caller: Caller = "code", default_timeout_seconds: float | None = None, **limits: Any) -> RunGate:
    return gate.open(caller=caller, limits=Limits(**limits), default_timeout_seconds=default_timeout_seconds)


def stats_of(gate: Gate, name: str) -> ToolStats:
    stats = gate.registry.statistics.of(name)
    assert stats is not None
    return stats


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_an_attempt_is_noted_with_the_time_it_took(is_async: bool) -> None:
    clock = Clock()

    def work(seconds: float) -> float:
        clock.now += seconds
        return seconds

    async def work_async(seconds: float) -> float:
        return work(seconds)

    gate = gate_of(Tool.from_function(work_async if is_async else work, name="work"), clock=clock)
    run = opened(gate)
    await run.call("work", {"seconds": 1.0})
    await run.call("work", {"seconds": 3.0})
    stats = stats_of(gate, "work")
    assert (stats.calls, stats.failures, stats.average_seconds, stats.p95_seconds) == (2, 0, 2.0, 3.0)


async def test_waiting_for_a_place_is_no_part_of_an_attempt() -> None:
    clock = Clock()
    begun, go_on = anyio.Event(), anyio.Event()

    @tool
    async def work() -> None:
        begun.set()
        await go_on.wait()
        clock.now += 1.0

    gate = gate_of(work, clock=clock)
    run = opened(gate, max_concurrent_calls=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.call, "work", {})
        await begun.wait()
        tasks.start_soon(run.call, "work", {})
        await anyio.lowlevel.checkpoint()
        go_on.set()
    assert [record.duration_seconds for record in run.records] == [1.0, 2.0]
    assert stats_of(gate, "work").p95_seconds == 1.0


async def test_every_attempt_of_a_retried_call_is_noted() -> None:
    clock = Clock()
    outcomes = [RuntimeError("no"), ToolError("again", retryable=True)]

    @tool(retry=Retry(attempts=3, backoff_seconds=0))
    async def flaky() -> int:
        clock.now += 1.0
        if outcomes:
            raise outcomes.pop()
        return 1

    gate = gate_of(flaky, clock=clock)
    await opened(gate).call("flaky", {})
    stats = stats_of(gate, "flaky")
    assert (stats.calls, stats.failures, stats.timeouts, stats.samples) == (3, 2, 0, 1)


async def test_a_timeout_is_noted_as_a_failure_that_took_as_long_as_the_timeout() -> None:
    @tool(timeout_seconds=0.01)
    async def late() -> None:
        await anyio.sleep_forever()

    @tool(timeout_seconds=0.01)
    async def turns_it_into_an_error() -> None:
        try:
            await anyio.sleep_forever()
        except BaseException:
            raise ToolError("interrupted") from None

    gate = gate_of(late, turns_it_into_an_error, clock=Clock())
    for name in ("late", "turns_it_into_an_error"):
        with pytest.raises(ToolTimedOut):
            await opened(gate).call(name, {})
        stats = stats_of(gate, name)
        assert (stats.calls, stats.failures, stats.timeouts, stats.p95_seconds) == (1, 1, 1, 0.01)


async def test_a_fallback_is_noted_under_its_own_name() -> None:
    @tool(fallback="second")
    async def first() -> None:
        raise ToolError("no")

    @tool
    async def second() -> int:
        return 2

    gate = gate_of(first, second)
    await opened(gate).call("first", {})
    assert stats_of(gate, "first").failure_rate == 1.0
    assert stats_of(gate, "second").failure_rate == 0.0


async def test_what_is_not_an_attempt_is_not_noted() -> None:
    @tool(read_only=True, cache_seconds=60)
    async def cached(n: int) -> int:
        return n

    @tool(requires_approval=True)
    async def asked() -> None: ...

    @tool(allowed_callers=["direct"])
    async def forbidden() -> None: ...

    gate = gate_of(cached, asked, forbidden, approve=lambda request: Deny("no"))
    run = opened(gate)
    for name, arguments in (("asked", {}), ("forbidden", {}), ("unknown", {}), ("cached", {"n": "x"})):
        with pytest.raises(ToolError):
            await run.call(name, arguments)
    assert gate.registry.statistics.all() == {}
    await run.call("cached", {"n": 1})
    await run.call("cached", {"n": 1})
    assert (run.records[-1].cached, stats_of(gate, "cached").calls) == (True, 1)


async def test_a_call_that_is_cancelled_is_not_noted() -> None:
    begun = anyio.Event()

    @tool(timeout_seconds=60)
    async def hang() -> None:
        begun.set()
        await anyio.sleep_forever()

    gate = gate_of(hang)
    run = opened(gate)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.call, "hang", {})
        await begun.wait()
        tasks.cancel_scope.cancel()
    assert run.records[0].status == "unknown_outcome"
    assert gate.registry.statistics.all() == {}


async def test_a_call_for_which_there_is_no_thread_is_not_noted() -> None:
    go_on = threading.Event()

    @tool(timeout_seconds=0.5)
    def hang() -> None:
        go_on.wait(20)

    gate = gate_of(hang)
    run = opened(gate, max_concurrent_calls=1)
    try:
        with pytest.raises(ToolTimedOut):
            await run.call("hang", {})
        with pytest.raises(ToolError, match="was not called"):
            await run.call("hang", {})
    finally:
        go_on.set()
    assert stats_of(gate, "hang").calls == 1


async def test_a_result_that_breaks_the_contract_is_a_failure_of_the_tool() -> None:
    @tool
    async def liar() -> int:
        return "x"  # type: ignore[return-value]

    gate = gate_of(liar)
    with pytest.raises(ToolError):
        await opened(gate).call("liar", {})
    assert stats_of(gate, "liar").failure_rate == 1.0


async def test_a_result_may_say_how_confident_it_is() -> None:
    @tool
    async def judge(confidence: float) -> dict[str, float]:
        return {"confidence": confidence}

    gate = gate_of(judge)
    run = opened(gate)
    for confidence in (0.25, 0.75, 7.0):
        await run.call("judge", {"confidence": confidence})
    stats = stats_of(gate, "judge")
    assert (stats.calls, stats.average_confidence) == (3, 0.5)


# adaptive timeouts


def timing(read_only: bool, **options: Any) -> Tool:
    async def left() -> float:
        return anyio.current_effective_deadline() - anyio.current_time()

    return Tool.from_function(left, name="left", read_only=read_only, **options)


def with_history(read_only: bool, seconds: float, attempts: int = 20, **options: Any) -> Gate:
    gate = gate_of(timing(read_only, **options))
    for _ in range(attempts):
        gate.registry.statistics.note("left", seconds, "succeeded")
    return gate


@pytest.mark.parametrize(
    ("read_only", "seconds", "timeout"),
    [(True, 0.1, 5), (True, 3, 12), (True, 99, 120), (False, 0.1, 30), (False, 20, 80)],
)
async def test_in_a_plan_the_timeout_adapts_to_the_history(read_only: bool, seconds: float, timeout: float) -> None:
    run = opened(with_history(read_only, seconds), "plan", 30.0)
    assert timeout - 4 < float(await run.call("left", {})) <= timeout


@pytest.mark.parametrize(
    ("caller", "default", "asked", "tools_own", "attempts", "timeout"),
    [
        ("plan", 30.0, None, None, 19, 30),
        ("plan", 30.0, 7.0, None, 20, 7),
        ("plan", 30.0, None, 9.0, 20, 9),
        ("plan", 30.0, 7.0, 9.0, 20, 7),
        ("code", 30.0, None, None, 20, 30),
        ("plan", None, None, None, 20, None),
        ("code", None, None, None, 20, None),
    ],
)
async def test_only_a_plans_default_adapts(
    caller: Caller,
    default: float | None,
    asked: float | None,
    tools_own: float | None,
    attempts: int,
    timeout: float | None,
) -> None:
    @tool
    async def has_deadline() -> bool:
        return anyio.current_effective_deadline() < float("inf")

    gate = with_history(True, 20.0, attempts, timeout_seconds=tools_own)
    gate.registry.add(has_deadline)
    run = opened(gate, caller, default)
    if timeout is None:
        assert await run.call("has_deadline", {}) == "false"
    else:
        assert timeout - 4 < float(await run.call("left", {}, timeout_seconds=asked)) <= timeout
