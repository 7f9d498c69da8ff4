"""Cancelling from outside: at every moment of a run, nothing is left and the next run works."""

from __future__ import annotations

from functools import partial

import anyio
import pytest

from callgate import Limits, Runtime, SandboxBusy, SandboxError
from runtime.conftest import opened
from runtime.offered import CANCELLED, TOOLS
from sandbox.asking import SECONDS, descendants, open_files, until

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("pool_size", [0, 1])
@pytest.mark.parametrize(
    "code", ["while True: pass", "await hang()", "import time\ntime.sleep(100)", "print('x' * 10**6)\nwhile 1: pass"]
)
async def test_a_run_may_be_cancelled(code: str, pool_size: int) -> None:
    async with opened(pool_size=pool_size, max_guests=1, queue_seconds=5) as runtime:
        for seconds in (0, 0.001, 0.005, 0.02, 0.1):
            with anyio.move_on_after(seconds) as scope:
                await runtime.execute_code(code, path="sandbox")
            assert scope.cancelled_caught
        with anyio.fail_after(SECONDS):
            assert (await runtime.execute_code("await echo(1)", path="sandbox")).value == 1


async def test_a_cancelled_run_leaves_nothing_at_once() -> None:
    async with opened(pool_size=0) as runtime:
        await runtime.execute_code("1", path="sandbox")
        files, processes = len(open_files()), len(descendants())
        CANCELLED.clear()
        with anyio.move_on_after(0.2):
            await runtime.execute_code("await hang()", path="sandbox")
        assert CANCELLED == ["hang"]
        assert len(open_files()) <= files
        assert len(descendants()) <= processes


@pytest.mark.slow
async def test_startup_may_be_cancelled_at_any_moment() -> None:
    async with opened(pool_size=1):
        pass
    files, processes = len(open_files()), len(descendants())
    for seconds in (0, 0.005, 0.05, 0.2, 0.4):
        with anyio.move_on_after(seconds):
            async with Runtime(TOOLS, pool_size=2) as runtime:
                await runtime.execute_code("await hang()", path="sandbox")
    await until(lambda: len(open_files()) <= files and len(descendants()) <= processes)


async def test_leaving_by_an_error_closes_everything() -> None:
    async with opened(pool_size=1):
        pass
    files, processes = len(open_files()), len(descendants())
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        async with opened(pool_size=2) as runtime:
            await runtime.execute_code("1", path="sandbox")
            raise ZeroDivisionError
    assert len(open_files()) <= files
    await until(lambda: len(descendants()) <= processes)


async def test_leaving_while_programs_run_ends_them() -> None:
    ends: list[str] = []

    async def one(runtime: Runtime) -> None:
        try:
            run = await runtime.execute_code("await hang()", path="sandbox")
            ends.append(run.error.kind if run.error else "fine")
        except SandboxError as error:
            ends.append(type(error).__name__)

    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks, opened(pool_size=1) as runtime:
            for _ in range(3):
                tasks.start_soon(one, runtime)
            await anyio.sleep(0.1)
    assert ends == ["SandboxCrashed"] * 3


async def test_waiting_for_a_guest_is_bounded_and_may_be_cancelled() -> None:
    async with opened(pool_size=0, max_guests=1, queue_seconds=0.05) as runtime, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(runtime.execute_code, path="sandbox"), "await hang()")
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01):
            await runtime.execute_code("1", path="sandbox")
        with pytest.raises(
            SandboxBusy, match=r"^1 programs are running and none ended within 0.05 s: raise max_guests"
        ):
            await runtime.execute_code("1", path="sandbox")
        tasks.cancel_scope.cancel()


async def test_the_wall_limit_and_a_cancellation_do_not_mix(runtime: Runtime) -> None:
    with anyio.move_on_after(0.2) as scope:
        await runtime.execute_code("await hang()", path="sandbox", limits=Limits(wall_seconds=10))
    assert scope.cancelled_caught
    run = await runtime.execute_code("await hang()", path="sandbox", limits=Limits(wall_seconds=0.1))
    assert run.error is not None
    assert run.error.limit == "wall_seconds"
