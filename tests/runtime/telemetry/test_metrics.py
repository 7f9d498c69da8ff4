"""Every metric by its value, as the collector gets it; and how many series a hostile model or client can make."""

from __future__ import annotations

import gc
from typing import Any

import anyio
import pytest

from callgate import Limits, ToolError, tool
from callgate.runtime.gate.watching import Origin, origin
from otlp_collector import Collector, Providers
from runtime.telemetry.conftest import Reporting

pytestmark = pytest.mark.anyio

SLEEP = 0.05


@tool(read_only=True, cache_seconds=60)
async def kept(n: int) -> int:
    return n


@tool
async def sleeps() -> None:
    await anyio.sleep(SLEEP)


@tool
async def fails() -> None:
    raise ToolError("no")


@tool(timeout_seconds=SLEEP)
async def hangs() -> None:
    await anyio.sleep_forever()


@tool
async def echo(value: Any) -> Any:
    return value


def calls(collector: Collector, **attributes: Any) -> int:
    """The number of calls with these attributes."""
    return sum(collector.metric("callgate.call.duration", **attributes))


async def test_calls_failures_durations_and_runs_are_counted_by_tool_caller_and_outcome(
    reporting: Reporting, providers: Providers
) -> None:
    async with reporting(kept, sleeps, fails, hangs, sandbox="jail") as runtime:
        for _ in range(3):
            await runtime.handle("kept", {"n": 1})
        await runtime.handle("kept", {"m": 1})
        await runtime.handle("nothing", {})
        await runtime.handle("hangs", {})
        await runtime.execute_code("await sleeps()\nawait sleeps()")
        await runtime.execute_code("import math\nawait fails()")
        await runtime.execute_tool_plan({"steps": [{"id": "a", "tool": "sleeps"}, {"id": "b", "tool": "fails"}]})
    collector = providers.flush()
    assert calls(collector) == 11
    assert calls(collector, gen_ai__tool__name="kept", callgate__cached=False, callgate__caller="direct") == 2
    assert calls(collector, gen_ai__tool__name="kept", callgate__cached=True) == 2
    assert calls(collector, error__type="refused") == 2
    assert calls(collector, gen_ai__tool__name="kept", error__type="refused") == 1
    assert calls(collector, gen_ai__tool__name="hangs", error__type="unknown_outcome") == 1
    assert calls(collector, gen_ai__tool__name="fails", error__type="failed", callgate__caller="code") == 1
    assert calls(collector, gen_ai__tool__name="fails", error__type="failed", callgate__caller="plan") == 1
    assert calls(collector, gen_ai__tool__name="sleeps", callgate__caller="code") == 2
    slept = collector.total("callgate.call.duration", gen_ai__tool__name="sleeps")
    assert 3 * SLEEP * 0.9 <= slept < 60
    assert sum(collector.metric("callgate.run.duration")) == 3
    assert collector.metric("callgate.run.duration", callgate__path="plan", callgate__caller="code") == [1]
    assert collector.metric("callgate.run.duration", callgate__path="sandbox", error__type="ToolError") == [1]
    assert collector.metric("callgate.run.duration", callgate__caller="plan", error__type="StepFailed") == [1]
    assert collector.total("callgate.run.duration", callgate__path="plan", callgate__caller="code") >= 2 * SLEEP * 0.9


async def test_the_queue_is_measured_for_calls_that_waited(reporting: Reporting, providers: Providers) -> None:
    async with reporting(sleeps) as runtime:
        steps = [{"id": f"s{n}", "tool": "sleeps"} for n in range(4)]
        await runtime.execute_tool_plan({"steps": steps}, limits=Limits(max_concurrent_calls=1))
        await runtime.handle("sleeps", {})
    collector = providers.flush()
    assert collector.metric("callgate.call.queued") == collector.metric("callgate.call.queued", callgate__caller="plan")
    (waited,) = collector.metric("callgate.call.queued")
    assert waited == 3
    assert (1 + 2 + 3) * SLEEP * 0.9 <= collector.total("callgate.call.queued") < 60


async def test_guests_and_pool_misses_are_counted(reporting: Reporting, providers: Providers) -> None:
    program = "import math\nmath.sqrt(4)"

    def guests() -> tuple[int, int, int]:
        collector = providers.flush()
        (used,), (idle,) = (collector.metric("callgate.guests", callgate__state=each) for each in ("in_use", "idle"))
        (misses,) = collector.metric("callgate.guests.misses")
        return used, idle, misses

    async with reporting(sandbox="jail", pool_size=0, max_guests=5) as runtime:
        assert guests() == (0, 0, 0)
        for _ in range(2):
            await runtime.execute_code(program)
        async with runtime.session(), runtime.session():
            assert guests() == (2, 0, 4)
        assert guests() == (0, 0, 4)
        async with reporting(sandbox="jail", pool_size=1) as other:  # both report to one provider, and add up
            with anyio.fail_after(60):
                while guests() != (0, 1, 4):  # noqa: ASYNC110 (the pool fills by itself)
                    await anyio.sleep(0.05)
            async with other.session():
                assert guests()[::2] == (1, 4)
    assert guests() == (0, 0, 4)


async def test_a_miss_counts_when_its_runtime_is_gone_before_the_first_export(
    reporting: Reporting, providers: Providers
) -> None:
    async with reporting(sandbox="jail", pool_size=0) as runtime:
        await runtime.execute_code("import math")
    del runtime
    gc.collect()
    assert providers.flush().metric("callgate.guests.misses") == [1]


@pytest.mark.slow
async def test_ten_thousand_made_up_names_make_no_series(reporting: Reporting, providers: Providers) -> None:
    async with reporting(echo) as runtime:
        for n in range(7_000):
            before = origin.set(Origin(client=f"client {n}", task=f"t{n}", call=f"c{n}"))
            await runtime.handle(f"invented_{n}", {"value": n})
            origin.reset(before)
        steps = [{"id": f"s{n}", "tool": "echo", "arguments": {"value": n}} for n in range(300)]
        for n in range(10):
            plan = {"steps": [{**step, "id": f"{step['id']}_{n}"} for step in steps]}
            before = origin.set(Origin(client=f"client {n}"))
            assert (await runtime.execute_tool_plan(plan)).ok
            origin.reset(before)
    collector = providers.flush()
    assert calls(collector) == 10_000
    series = {(name, tuple(sorted(attributes.items()))) for name, attributes, _ in collector.points}
    assert len(series) <= 10
    assert "invented" not in repr(series)
    assert "client" not in repr(series)
