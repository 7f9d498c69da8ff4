"""One scope for many attempts times out as a scope for each would."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import anyio
import pytest

from callgate import Retry, Runtime, tool
from callgate.runtime.gate.deadline import Deadline

pytestmark = pytest.mark.anyio

After = Callable[[float], AbstractContextManager[anyio.CancelScope]]


@pytest.fixture(params=["a scope each", "one scope"])
def after(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[After]]:
    """Open attempts of one task: with a scope for each, as a model, and with one scope for all."""

    @contextlib.contextmanager
    def opened() -> Iterator[After]:
        if request.param == "a scope each":
            yield anyio.move_on_after
            return
        deadline = Deadline()
        try:
            yield deadline.after
        finally:
            deadline.close()

    return opened


Opened = Callable[[], AbstractContextManager[After]]


async def test_every_attempt_has_its_own_time(after: Opened) -> None:
    with after() as attempt:
        for seconds in (1000, 0.001, 1000, 0, 0.001, 1000):
            with attempt(seconds) as scope:
                await (anyio.sleep_forever() if seconds < 1 else anyio.lowlevel.checkpoint())
            assert scope.cancelled_caught == (seconds < 1)
            assert anyio.current_effective_deadline() == math.inf
    await anyio.lowlevel.checkpoint()


async def test_an_attempt_sees_its_deadline_and_may_fail(after: Opened) -> None:
    with anyio.CancelScope(deadline=anyio.current_time() + 2000), after() as attempt:
        left = 0.0
        with contextlib.suppress(ZeroDivisionError), attempt(1000):
            left = anyio.current_effective_deadline() - anyio.current_time()
            raise ZeroDivisionError
        assert 990 < left <= 1000
        assert 1990 < anyio.current_effective_deadline() - anyio.current_time() <= 2000
        await anyio.lowlevel.checkpoint()


async def test_a_result_that_comes_after_the_cancellation_counts(after: Opened) -> None:
    with after() as attempt:
        for _ in range(2):
            with attempt(0.001) as scope:
                with contextlib.suppress(anyio.get_cancelled_exc_class()):
                    await anyio.sleep_forever()
                done = True
            assert (done, scope.cancel_called, scope.cancelled_caught) == (True, True, False)
            await anyio.lowlevel.checkpoint()


async def test_a_cancellation_from_outside_is_nobodys_timeout(after: Opened) -> None:
    with anyio.CancelScope() as outer, after() as attempt:
        for seconds in (1000, 0.001):
            with attempt(seconds):
                if seconds > 1:
                    continue
                outer.cancel()
                await anyio.sleep_forever()
            raise AssertionError("the outer cancellation was swallowed")
    assert outer.cancelled_caught
    await anyio.lowlevel.checkpoint()


async def test_an_error_that_the_cancellation_caused_leaves_a_sound_task(after: Opened) -> None:
    with after() as attempt:
        with pytest.raises(BaseExceptionGroup):  # noqa: PT012, SIM117 -- the scope is inside
            with attempt(0.001):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(anyio.sleep_forever)
                    try:
                        await anyio.sleep_forever()
                    finally:
                        raise ZeroDivisionError
        with attempt(1000):
            await anyio.lowlevel.checkpoint()


async def test_a_task_that_was_asked_to_cancel_and_went_on_still_times_out(after: Opened, anyio_backend: str) -> None:
    if anyio_backend != "asyncio":
        pytest.skip("a task that is cancelled is asyncio's")
    task = asyncio.current_task()
    assert task is not None
    with after() as attempt:
        with attempt(1000):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(1000)
        with attempt(0.001) as scope:
            await anyio.sleep_forever()
        assert scope.cancelled_caught
    task.uncancel()


async def test_calls_of_a_plan_time_out_are_tried_again_and_let_others_run() -> None:
    tried: list[int] = []

    @tool(read_only=True, timeout_seconds=0.02, retry=Retry(attempts=2, backoff_seconds=0))
    async def slow_at_first(n: int) -> int:
        tried.append(n)
        if (n % 2 and tried.count(n) == 1) or n == 8:
            await anyio.sleep_forever()
        return n

    steps = [{"id": f"s{n}", "tool": "slow_at_first", "arguments": {"n": n}} for n in range(10)]
    async with Runtime([slow_at_first], sandbox=None) as runtime:
        result = await runtime.execute_tool_plan({"steps": steps})
    assert [step.status for step in result.steps] == ["succeeded"] * 8 + ["failed", "succeeded"]
    assert [(call.attempts, call.timeouts) for call in result.calls if call.arguments == {"n": 8}] == [(2, 2)]
    assert {call.attempts for call in result.calls if call.arguments["n"] % 2} == {2}
