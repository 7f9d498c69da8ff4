"""What the gate notes of its calls, and the timeouts of plans that adapt to it."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate.errors import ToolError
from callgate.runtime.gate import Deny, Gate
from callgate.tools import Caller, Registry, Retry, Tool, tool
from runtime.gated import Clock, failure_of, opened, spare, stats_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_an_attempt_is_noted_with_the_time_it_took(is_async: bool) -> None:
    clock = Clock()

    def work(seconds: float) -> float:
        clock.now += seconds
        return seconds

    async def work_async(seconds: float) -> float:
        return work(seconds)

    run = opened(Gate(Registry([Tool.from_function(work_async if is_async else work, name="work")]), clock=clock))
    await run.call("work", {"seconds": 1.0})
    await run.call("work", {"seconds": 3.0})
    stats = stats_of(run, "work")
    assert (stats.calls, stats.failures, stats.average_seconds, stats.p95_seconds) == (2, 0, 2.0, 3.0)


async def test_waiting_for_a_place_is_no_part_of_an_attempt() -> None:
    clock = Clock()
    begun, go_on = anyio.Event(), anyio.Event()

    @tool
    async def work() -> None:
        begun.set()
        await go_on.wait()
        clock.now += 1.0

    run = opened(Gate(Registry([work]), clock=clock), max_concurrent_calls=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run.call, "work", {})
        await begun.wait()
        tasks.start_soon(run.call, "work", {})
        await anyio.lowlevel.checkpoint()
        go_on.set()
    assert [(record.duration_seconds, record.queued_seconds) for record in run.records] == [(1.0, 0.0), (2.0, 1.0)]
    assert stats_of(run, "work").p95_seconds == 1.0


async def test_every_attempt_of_a_retried_call_is_noted_and_a_fallback_under_its_own_name() -> None:
    outcomes = [ToolError("no"), RuntimeError("no"), ToolError("again", retryable=True)]

    @tool(retry=Retry(attempts=3, backoff_seconds=0), fallback="spare")
    async def flaky() -> int:
        raise outcomes.pop()

    run = opened(Gate(Registry([flaky, spare])))
    await run.call("flaky", {})
    stats = stats_of(run, "flaky")
    assert (stats.calls, stats.failures, stats.timeouts, stats.samples) == (3, 3, 0, 0)
    assert stats_of(run, "spare").failure_rate == 0.0


async def test_what_is_not_an_attempt_is_not_noted() -> None:
    @tool(read_only=True, cache_seconds=60)
    async def cached(n: int) -> int:
        return n

    @tool(requires_approval=True)
    async def asked() -> None: ...

    @tool(allowed_callers=["direct"])
    async def forbidden() -> None: ...

    run = opened(Gate(Registry([cached, asked, forbidden]), approve=lambda request: Deny("no")))
    for name, arguments in (("asked", {}), ("forbidden", {}), ("unknown", {}), ("cached", {"n": "x"})):
        await failure_of(run, name, arguments)
    assert run.offer.registry.statistics.all() == {}
    for _ in range(2):
        await run.call("cached", {"n": 1})
    assert (run.records[-1].cached, stats_of(run, "cached").calls) == (True, 1)


async def test_a_result_may_say_how_confident_it_is() -> None:
    @tool
    async def judge(confidence: float) -> dict[str, float]:
        return {"confidence": confidence}

    run = opened(Gate(Registry([judge])))
    for confidence in (0.25, 0.75, 7.0):
        await run.call("judge", {"confidence": confidence})
    stats = stats_of(run, "judge")
    assert (stats.calls, stats.average_confidence) == (3, 0.5)


# adaptive timeouts


def with_history(read_only: bool, seconds: float, attempts: int = 20, **options: Any) -> Gate:
    async def left() -> float | None:
        until = anyio.current_effective_deadline()
        return None if until == float("inf") else until - anyio.current_time()

    gate = Gate(Registry([Tool.from_function(left, read_only=read_only, **options)]))
    for _ in range(attempts):
        gate.registry.statistics.note("left", seconds, "succeeded")
    return gate


@pytest.mark.parametrize(
    ("read_only", "seconds", "timeout"),
    [(True, 0.1, 5), (True, 3, 12), (True, 99, 120), (False, 0.1, 30), (False, 20, 80)],
)
async def test_in_a_plan_the_timeout_adapts_to_the_history(read_only: bool, seconds: float, timeout: float) -> None:
    run = opened(with_history(read_only, seconds), "plan")
    assert timeout - 4 < float(await run.call("left", {})) <= timeout


@pytest.mark.parametrize(
    ("caller", "asked", "tools_own", "attempts", "timeout"),
    [
        ("plan", None, None, 19, 30),
        ("plan", 7.0, None, 20, 7),
        ("plan", None, 9.0, 20, 9),
        ("plan", 7.0, 9.0, 20, 7),
        ("code", None, 9.0, 20, 9),
        ("code", None, None, 20, None),
    ],
)
async def test_only_a_plans_timeout_adapts(
    caller: Caller, asked: float | None, tools_own: float | None, attempts: int, timeout: float | None
) -> None:
    run = opened(with_history(True, 20.0, attempts, timeout_seconds=tools_own), caller)
    left = await run.call("left", {}, timeout_seconds=asked)
    assert left == "null" if timeout is None else timeout - 4 < float(left) <= timeout
