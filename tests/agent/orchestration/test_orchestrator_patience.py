"""Retries, their waits, timeouts: whose word counts, and what is left of a call that was given up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from agent.orchestration.orchestrated import QUICK, data, errors, orchestrator, plan, step
from callgate import Limits, Retry, ToolError, tool
from callgate.agent.planning.settings import PlannerSettings
from callgate.runtime import CallEnded, Event

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
async def _in_time() -> AsyncIterator[None]:
    with anyio.fail_after(20):
        yield


class Flaky:
    """Fails so many times, then answers."""

    def __init__(self, failures: int) -> None:
        self.calls = 0
        self._failures = failures

    async def flaky(self, q: str) -> str:
        """Answer, after a while."""
        self.calls += 1
        if self.calls <= self._failures:
            raise ToolError("not ready", retryable=True)
        return q


async def test_a_tool_that_fails_twice_succeeds_on_the_third_attempt() -> None:
    flaky = Flaky(2)
    async with orchestrator([tool(read_only=True)(flaky.flaky)]) as made:
        execution = await made.execute(plan(step("a", "flaky", q="x")))
    assert data(execution) == {"a": "x"}
    assert execution.results[0].retries == 2
    assert flaky.calls == 3


async def test_a_failing_tool_is_retried_as_often_as_the_settings_say_and_then_fails() -> None:
    for retries in (3, 1, 0):
        flaky = Flaky(99)
        async with orchestrator(
            [tool(idempotent=True)(flaky.flaky)], PlannerSettings(max_retries=retries, retry_backoff="none")
        ) as made:
            execution = await made.execute(plan(step("a", "flaky", q="x")))
        assert errors(execution) == {"a": "not ready"}
        assert flaky.calls == retries + 1
        assert execution.results[0].retries == retries


async def test_the_backoff_of_the_settings_reaches_the_plan() -> None:
    flaky = Flaky(0)
    for backoff, wait, factor in (("exponential", 1, 2), ("constant", 1, 1), ("none", 0, 1)):
        settings = PlannerSettings(retry_backoff=backoff)  # type: ignore[arg-type]
        async with orchestrator([tool(read_only=True)(flaky.flaky)], settings) as made:
            execution = await made.execute(plan(step("a", "flaky", q="x")))
        assert execution.plan_result is not None
        assert execution.plan_result.plan is not None
        told = {"attempts": 3, "backoff_seconds": 1.0, "factor": 2.0}  # what is at its default is not told
        told.update(execution.plan_result.plan["steps"][0]["retry"])
        assert told == {"attempts": 4, "backoff_seconds": wait, "factor": factor}


async def test_what_the_tool_says_of_retries_counts_before_the_settings() -> None:
    flaky = Flaky(99)
    async with orchestrator([tool(read_only=True, retry=Retry(attempts=2, backoff_seconds=0))(flaky.flaky)]) as made:
        await made.execute(plan(step("a", "flaky", q="x")))
    assert flaky.calls == 2


async def test_a_tool_with_side_effects_is_called_once() -> None:
    flaky = Flaky(99)
    async with orchestrator([tool(flaky.flaky)]) as made:
        execution = await made.execute(plan(step("a", "flaky", q="x")))
    assert flaky.calls == 1
    assert execution.results[0].retries == 0
    assert execution.plan_result is not None
    assert execution.plan_result.faults == []


@pytest.mark.parametrize("where", ["step", "tool", "settings", "category"])
async def test_a_call_that_takes_too_long_is_cancelled_and_marked_failed(where: str) -> None:
    given_up: list[str] = []

    @tool(timeout_seconds=0.02 if where == "tool" else None, category="search")
    async def sleepy(q: str) -> str:
        """Never answers."""
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            given_up.append(q)
            raise
        return q

    settings = {
        "settings": PlannerSettings(default_timeout_seconds=0.02),
        "category": PlannerSettings(timeout_seconds_by_category={"search": 0.02}),
    }.get(where, QUICK)
    async with orchestrator([sleepy], settings) as made:
        execution = await made.execute(
            plan(step("a", "sleepy", q="x", timeout_seconds=0.02 if where == "step" else None))
        )
        assert given_up == ["x"]
        stats = made._runtime.registry.statistics.of("sleepy")
    assert stats is not None
    assert (stats.calls, stats.timeouts) == (1, 1)  # once, whoever chose the timeout
    assert not execution.success
    assert execution.failed_steps == ("a",)
    assert "did not answer within 0.02 s" in errors(execution)["a"]


async def test_attempts_that_took_too_long_count_though_a_later_one_succeeded() -> None:
    begun: list[str] = []

    @tool(read_only=True)
    async def slow_at_first(q: str) -> str:
        """Answers the third time."""
        begun.append(q)
        if len(begun) < 3:
            await anyio.sleep_forever()
        return q

    settings = PlannerSettings(default_timeout_seconds=0.2, retry_backoff="none")
    async with orchestrator([slow_at_first], settings) as made:
        execution = await made.execute(plan(step("a", "slow_at_first", q="x")))
        stats = made._runtime.registry.statistics.of("slow_at_first")
    assert execution.success
    assert stats is not None
    assert (stats.calls, stats.timeouts) == (3, 2)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        pytest.param(PlannerSettings(), None, id="the gate's own default, which adapts"),
        pytest.param(PlannerSettings(default_timeout_seconds=60), 200, id="four times the 95th percentile"),
        pytest.param(PlannerSettings(timeout_seconds_by_category={"Search": 60}), 200, id="by category, in any case"),
    ],
)
async def test_without_a_word_of_anybody_a_call_has_thirty_seconds_that_adapt(
    settings: PlannerSettings, told: float | None
) -> None:
    flaky = Flaky(0)
    async with orchestrator([tool(read_only=True, category="search")(flaky.flaky)], settings) as made:
        for _ in range(20):
            made._runtime.registry.statistics.note("flaky", 50.0, "succeeded")
        execution = await made.execute(plan(step("a", "flaky", q="x")))
    assert execution.plan_result is not None
    assert execution.plan_result.plan is not None
    assert execution.plan_result.plan["steps"][0].get("timeout_seconds") == told


async def test_a_plan_that_runs_into_the_wall_limit_keeps_what_it_has() -> None:
    @tool(read_only=True)
    async def sleepy(q: str) -> str:
        """Answers at once, or never."""
        if q == "never":
            await anyio.sleep_forever()
        return q

    async with orchestrator([sleepy], limits=Limits(wall_seconds=0.2)) as made:
        events: list[Event] = []
        execution = await made.execute(
            plan(step("a", "sleepy", q="now"), step("b", "sleepy", q="never")), on_event=events.append
        )
    assert data(execution) == {"a": "now"}
    assert "wall_seconds" in errors(execution)["b"]
    assert [event.record.status for event in events if isinstance(event, CallEnded)] == ["succeeded", "cancelled"]
    assert not execution.cancelled


async def test_retries_halve_the_failures_of_a_tool_that_fails_every_third_time() -> None:
    async def failures(retries: int) -> int:
        state: dict[str, Any] = {"calls": 0}

        @tool(read_only=True)
        async def third(q: int) -> int:
            """Fails every third time."""
            state["calls"] += 1
            if state["calls"] % 3 == 0:
                raise ToolError("busy", retryable=True)
            return q

        async with orchestrator([third], PlannerSettings(max_retries=retries, retry_backoff="none")) as made:
            execution = await made.execute(plan(*[step(f"s{n}", "third", parameters={"q": n}) for n in range(30)]))
        return len(execution.failed_steps)

    assert await failures(0) == 10
    assert await failures(3) == 0
