"""A driver: every job is done once, or given up; giving one up never hits another."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate import Runtime, tool
from callgate.runtime.driver import Driver
from callgate.runtime.gate.run_gate import RunGate

pytestmark = pytest.mark.anyio


class Working(Driver[Any, Any]):
    """Does its jobs by a function."""

    def __init__(
        self, work: Callable[[Any], Awaitable[None]], most: int, tasks: anyio.abc.TaskGroup | None = None
    ) -> None:
        super().__init__(most, tasks)
        self._work = work

    async def _serve(self, job: Any) -> None:
        await self._work(job)


@tool
async def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


@pytest.mark.filterwarnings("ignore:sandbox='unsafe'")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_a_run_recorded_is_freed_with_its_result(monkeypatch: pytest.MonkeyPatch) -> None:
    gates: list[weakref.ref[RunGate]] = []
    made = RunGate.__init__

    def init(gate: RunGate, *given: Any, **more: Any) -> None:
        made(gate, *given, **more)
        gates.append(weakref.ref(gate))

    monkeypatch.setattr(RunGate, "__init__", init)
    async with Runtime([add], sandbox="unsafe") as runtime:
        gc.collect()
        gc.disable()
        try:
            result = await runtime.execute_code("import os\nawait add(1, 2)", path="sandbox")
            assert result.value == 3
            del result
            await anyio.sleep(0.1)  # what sees to the end of the guest
            assert [gate() for gate in gates] == [None]
        finally:
            gc.enable()


async def test_jobs_are_done_at_most_so_many_at_once() -> None:
    now, most, done = 0, 0, 0

    async def work(job: int) -> None:
        nonlocal now, most, done
        now += 1
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        now -= 1
        done += 1

    async with anyio.create_task_group() as tasks:
        workers: Driver[int, int] = Working(work, 3, tasks)
        for number in range(50):
            workers.submit(number, number)
        with anyio.fail_after(20):
            while done < 50:
                await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert most == 3


async def test_a_cancellation_that_comes_as_the_job_ends_does_not_hit_the_next() -> None:
    gates = [anyio.Event() for _ in range(2)]
    done: list[int] = []

    async def work(job: int) -> None:
        with anyio.CancelScope(shield=True):
            await gates[job].wait()
        done.append(job)

    async with anyio.create_task_group() as tasks:
        workers: Driver[int, int] = Working(work, 1, tasks)
        workers.submit(0, 0)
        workers.submit(1, 1)
        await anyio.wait_all_tasks_blocked()
        workers.cancel(0)
        gates[0].set()
        await anyio.wait_all_tasks_blocked()
        gates[1].set()
        await anyio.wait_all_tasks_blocked()
        workers.submit(0, 0)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert done == [0, 1, 0]


async def test_a_job_that_has_not_begun_is_given_back() -> None:
    async def work(job: str) -> None:
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        workers: Driver[int, str] = Working(work, 1, tasks)
        workers.submit(1, "one")
        workers.submit(2, "two")
        await anyio.wait_all_tasks_blocked()
        assert workers.cancel(2) == "two"
        assert workers.cancel(2) is None
        assert workers.cancel(1) is None
        tasks.cancel_scope.cancel()


@given(st.lists(st.tuples(st.sampled_from("sec"), st.integers(0, 9)), max_size=40), st.integers(1, 4))
async def test_every_job_ends_in_exactly_one_way(steps: list[tuple[str, int]], most: int) -> None:
    """s: submit the next job. e: let the n-th job that goes on end. c: cancel the n-th submitted."""
    going: dict[int, anyio.Event] = {}
    ends: list[tuple[int, str]] = []

    async def work(job: int) -> None:
        going[job] = anyio.Event()
        try:
            await going[job].wait()
            ends.append((job, "done"))
        except BaseException:
            ends.append((job, "cancelled"))
            raise
        finally:
            del going[job]

    count = 0
    async with anyio.create_task_group() as tasks:
        workers: Driver[int, int] = Working(work, most, tasks)
        for what, number in steps:
            if what == "s":
                workers.submit(count, count)
                count += 1
            elif what == "e" and going:
                going[sorted(going)[number % len(going)]].set()
            elif what == "c" and count and workers.cancel(number % count) is not None:
                ends.append((number % count, "given back"))
            if number % 2:
                await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(20):
            while len(ends) < count:
                await anyio.wait_all_tasks_blocked()
                for event in list(going.values()):
                    event.set()
        tasks.cancel_scope.cancel()
    assert sorted(job for job, _ in ends) == list(range(count))


async def test_what_is_done_later_takes_no_worker_and_is_not_waited_for() -> None:
    done: list[str] = []

    async def work(job: str) -> None:
        done.append(job)

    async def later() -> None:
        done.append("later")

    driver: Driver[str, str] = Working(work, 1)

    async def main() -> None:
        driver.later(0.05, later)
        driver.submit("a", "a")
        await driver.done()
        assert done == ["a"]
        await anyio.sleep(0.1)
        driver.later(60, later)

    with anyio.fail_after(20):
        assert not await driver.drive(main, 60)
    assert done == ["a", "later"]
