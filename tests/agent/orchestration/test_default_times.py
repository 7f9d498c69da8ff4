"""The times of the tool planning engine as they pass, on a clock that jumps: retries after 1, 2 and 4 s, 30 s for a
call, 2 s for planning, five calls at a time. trio alone has such a clock."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio
import pytest
import trio
from trio.testing import MockClock

from agent.orchestration.orchestrated import data, errors, orchestrator, plan, step
from agent.planning.rulebook import planner, rulebook
from callgate import Limits, ToolError, tool
from callgate.agent.models.model import Request
from callgate.agent.planning.settings import PlannerSettings

Value = TypeVar("Value")

AS_THEY_ARE = PlannerSettings()


def on_a_clock_that_jumps(test: Callable[[], Awaitable[Value]]) -> Value:
    async def main() -> Value:
        return await test()

    return trio.run(main, clock=MockClock(autojump_threshold=0))


def test_retries_wait_one_two_and_four_seconds_each_spread_by_a_quarter() -> None:
    began: list[float] = []

    @tool(read_only=True)
    async def busy(q: str) -> str:
        """Never ready."""
        began.append(trio.current_time())
        raise ToolError("busy", retryable=True)

    async def main() -> None:
        async with orchestrator([busy], AS_THEY_ARE) as made:
            execution = await made.execute(plan(step("a", "busy", q="x")))
        assert errors(execution) == {"a": "busy"}
        assert execution.results[0].retries == 3

    on_a_clock_that_jumps(main)
    waits = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert waits == [pytest.approx(wait, rel=0.26) for wait in (1, 2, 4)]


@pytest.mark.parametrize(("read_only", "seconds", "attempts"), [(False, [30], 1), (True, [30, 30, 30, 30], 4)])
def test_a_call_that_hangs_is_given_up_after_thirty_seconds(
    read_only: bool, seconds: list[float], attempts: int
) -> None:
    given_up: list[float] = []

    @tool(read_only=read_only)
    async def hang(q: str) -> str:
        """Never answers."""
        began = trio.current_time()
        try:
            await anyio.sleep_forever()
        finally:
            given_up.append(trio.current_time() - began)
        return q

    async def main() -> None:
        async with orchestrator([hang], AS_THEY_ARE, limits=Limits(wall_seconds=600)) as made:
            execution = await made.execute(plan(step("a", "hang", q="x")))
        assert "did not answer within 30 s" in errors(execution)["a"]
        assert execution.plan_result is not None
        assert [call.attempts for call in execution.plan_result.calls] == [attempts]

    on_a_clock_that_jumps(main)
    assert given_up == [pytest.approx(each) for each in seconds]


def test_of_a_dozen_calls_five_run_at_a_time() -> None:
    running: list[int] = [0]

    @tool(read_only=True)
    async def work(n: int) -> int:
        """Take a second."""
        running.append(running[-1] + 1)
        await anyio.sleep(1)
        running.append(running[-1] - 1)
        return n

    async def main() -> float:
        async with orchestrator([work], AS_THEY_ARE) as made:
            began = trio.current_time()
            execution = await made.execute(plan(*[step(f"s{n}", "work", parameters={"n": n}) for n in range(12)]))
            assert len(data(execution)) == 12
            return trio.current_time() - began

    assert on_a_clock_that_jumps(main) == pytest.approx(3)  # 5, 5 and 2
    assert max(running) == 5


def test_planning_has_two_seconds() -> None:
    async def never(request: Request) -> str:
        await anyio.sleep_forever()
        return ""

    async def main() -> tuple[float, str, bool]:
        planning, _ = planner(never, runtime=rulebook())
        began = trio.current_time()
        made = await planning.plan("how far do jump packs move")
        return trio.current_time() - began, made.source, made.timed_out

    seconds, source, timed_out = on_a_clock_that_jumps(main)
    assert seconds == pytest.approx(2)
    assert (source, timed_out) == ("fallback", True)
