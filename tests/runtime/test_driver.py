"""A driver: every job is done once, or given up; giving one up never hits another."""

from __future__ import annotations

import asyncio
import contextvars
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
from callgate.runtime.first_step import in_the_name_of
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

    ended = anyio.Event()

    async def later() -> None:
        done.append("later")
        ended.set()

    driver: Driver[str, str] = Working(work, 1)

    async def main() -> None:
        driver.later(0.05, later)
        driver.submit("a", "a")
        await driver.done()
        assert done == ["a"]
        await ended.wait()
        driver.later(60, later)

    with anyio.fail_after(20):
        assert not await driver.drive(main, 60)
    assert done == ["a", "later"]


async def begun_in_a_callback(driver: Driver[Any, Any], *jobs: Any) -> None:
    """Begin jobs in one callback of the event loop, when a worker is idle."""
    driver.submit("first", None)
    await driver.done()
    await anyio.lowlevel.checkpoint()
    called = anyio.Event()

    def callback() -> None:
        driver.turn_began()
        for job in jobs:
            driver.begin(job, job)
        called.set()

    task = driver._reader = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().call_soon(in_the_name_of, task, callback)
    await called.wait()


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_job_that_never_waits_is_done_in_the_callback_that_begins_it() -> None:
    done: list[tuple[Any, asyncio.Task[Any] | None]] = []

    async def work(job: Any) -> None:
        done.append((job, asyncio.current_task()))

    driver: Driver[Any, Any] = Working(work, 2)

    async def main() -> None:
        await begun_in_a_callback(driver, 1, 2)
        assert [job for job, _ in done] == [None, 1, 2]
        assert len({task for _, task in done}) == 1, "each ran in the name of the one worker"
        assert not driver.jobs

    with anyio.fail_after(20):
        assert not await driver.drive(main, 60)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_job_that_waits_goes_on_in_the_task_and_the_scopes_in_which_it_began() -> None:
    variable = contextvars.ContextVar("variable", default=0)
    seen: list[tuple[int, bool]] = []

    async def work(job: Any) -> None:
        if job is None:
            return
        assert variable.get() == 0, "jobs share no context"
        variable.set(job)
        task = asyncio.current_task()
        assert anyio.current_effective_deadline() < anyio.current_time() + 60
        with anyio.move_on_after(0.01) as scope:
            await anyio.sleep_forever()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.lowlevel.checkpoint)
        assert task is asyncio.current_task()
        assert variable.get() == job
        seen.append((job, scope.cancelled_caught))

    driver: Driver[Any, Any] = Working(work, 2)

    async def main() -> None:
        await begun_in_a_callback(driver, 1, 2)
        await driver.done()

    with anyio.fail_after(20):
        assert not await driver.drive(main, 60)
    assert sorted(seen) == [(1, True), (2, True)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("how", ["job", "native", "run"])
async def test_a_cancellation_right_after_the_first_step_reaches_what_the_job_awaits(how: str) -> None:
    ends: list[str] = []

    async def awaited() -> None:
        try:
            await anyio.sleep_forever()
        except asyncio.CancelledError:
            ends.append("awaited")
            raise

    async def work(job: Any) -> None:
        if job is None:
            return
        task = asyncio.current_task()
        assert task is not None
        waits = asyncio.create_task(awaited())
        loop = asyncio.get_running_loop()
        if how == "native":
            loop.call_soon(task.cancel)
        elif how == "job":
            loop.call_soon(driver.cancel, job)
        else:
            loop.call_soon(driver.stop)
        try:
            await waits
        except asyncio.CancelledError:
            ends.append("job")
            if how == "native":
                task.uncancel()
                return
            raise

    driver: Driver[Any, Any] = Working(work, 2)

    async def main() -> None:
        await begun_in_a_callback(driver, 1)
        await driver.done()

    with anyio.fail_after(20):
        assert await driver.drive(main, 60) is (how == "run")
    assert ends == ["awaited", "job"]
    assert not driver.jobs


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_ended_run_begins_nothing_in_a_callback() -> None:
    done: list[Any] = []

    async def work(job: Any) -> None:
        done.append(job)
        if job == 1:
            driver.stop()

    driver: Driver[Any, Any] = Working(work, 2)

    async def main() -> None:
        await begun_in_a_callback(driver, 1, 2)

    with anyio.fail_after(20):
        await driver.drive(main, 60)
    assert done == [None, 1]
    assert driver.clear() == [2]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_error_of_a_first_step_is_raised_by_the_worker() -> None:
    async def work(job: Any) -> None:
        if job == 1:
            raise RuntimeError("one")

    driver: Driver[Any, Any] = Working(work, 2)

    async def main() -> None:
        await begun_in_a_callback(driver, 1)
        await anyio.sleep_forever()

    with anyio.fail_after(20), pytest.raises(ExceptionGroup) as caught:
        await driver.drive(main, 60)
    assert "one" in str(caught.value.exceptions[0])
    assert not driver.jobs


@pytest.mark.filterwarnings("ignore:sandbox='unsafe'")
def test_calls_begin_in_callbacks_also_where_asyncio_runs_without_anyio() -> None:
    """anyio's own runner says in a context variable which event loop runs; `asyncio.run` says it by its tasks."""

    async def main() -> None:
        printed: list[asyncio.Task[Any] | None] = []
        async with Runtime([add], sandbox="unsafe", path="sandbox") as runtime:
            code = "import asyncio\nx = 0\nfor i in range(20):\n    x = await add(x, i)\n    print(x)\n"
            code += "sum(await asyncio.gather(*[add(x, i) for i in range(200)]))"
            result = await runtime.execute_code(code, on_event=lambda event: printed.append(asyncio.current_task()))
            assert result.value == 190 * 200 + 199 * 100, result
        assert None not in printed

    asyncio.run(main())


async def test_a_task_group_is_opened_when_main_asks_for_it_and_a_worker_that_is_hired_takes_the_first_job() -> None:
    done: list[Any] = []

    async def work(job: Any) -> None:
        done.append(job)

    driver: Driver[Any, Any] = Working(work, 2)

    async def main() -> None:
        await driver.open_tasks()
        driver.hire()
        driver.hire()
        await anyio.wait_all_tasks_blocked()
        driver.submit(1, 1)
        await driver.done()

    with anyio.fail_after(20):
        assert not await driver.drive(main, 60, opens_tasks=False)
    assert done == [1]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("natively", [True, False])
async def test_nothing_begins_in_a_callback_after_the_caller_of_the_run_was_cancelled(natively: bool) -> None:
    done: list[Any] = []
    task = asyncio.current_task()
    assert task is not None

    async def work(job: Any) -> None:
        done.append(job)
        if job == 1 and natively:
            task.cancel()
        elif job == 1:
            scope.cancel()

    driver: Driver[Any, Any] = Working(work, 2)

    async def main() -> None:
        await begun_in_a_callback(driver, 1, 2)
        await anyio.sleep_forever()

    scope = anyio.CancelScope()
    if natively:
        with pytest.raises(asyncio.CancelledError):
            await driver.drive(main, 60)
        task.uncancel()
    else:
        with scope:
            await driver.drive(main, 60)
    assert done == [None, 1]
    assert driver.clear() == [2]
