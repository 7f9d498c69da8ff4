"""Sessions: state lives on, failures keep it, limits and cancellation end it, and it says so."""

from __future__ import annotations

import anyio
import pytest

from callgate import CodeResult, ConfigurationError, Event, Limits, Runtime, SandboxBusy, SandboxError, tool
from runtime.conftest import opened
from runtime.offered import CANCELLED

pytestmark = pytest.mark.anyio


async def test_names_live_on(runtime: Runtime) -> None:
    async with runtime.session() as session:
        await session.execute_code("rows = [1, 2]\nimport math\ndef f():\n    return rows")
        await session.execute_code("rows.append(await echo(3))")
        run = await session.execute_code("print(len(rows))\nf() + [math.floor(2.5)]")
        assert (run.value, run.logs) == ([1, 2, 3, 2], "3\n")
        assert len(run.calls) == 0, "each run has its own record"


async def test_two_sessions_share_nothing(runtime: Runtime) -> None:
    async with runtime.session() as one, runtime.session() as other:
        await one.execute_code("x = 1")
        run = await other.execute_code("'x' in globals()")
        assert run.value is False


async def test_failures_keep_it(runtime: Runtime) -> None:
    async with runtime.session() as session:
        await session.execute_code("x = 1")
        for code in ("1 / 0", "await refuse('no')", "x = (", "import sys\nsys.exit(4)", "raise KeyboardInterrupt"):
            assert not (await session.execute_code(code, check=False)).ok
            assert session.alive
        run = await session.execute_code("undefined_name_of_nothing", check=False)
        assert run.error is not None
        assert run.error.kind == "NameError"
        assert (await session.execute_code("x")).value == 1


async def test_a_program_that_check_stops_keeps_it(runtime: Runtime) -> None:
    async with runtime.session() as session:
        run = await session.execute_code("x = (")
        assert run.error is not None
        assert run.error.kind == "CheckFailed"
        assert (await session.execute_code("1")).value == 1


async def test_mistakes_of_the_operator_keep_it(runtime: Runtime) -> None:
    async with runtime.session() as session:
        await session.execute_code("x = 1")
        with pytest.raises(ConfigurationError):
            await session.execute_code("1", inputs={"a": {1}})
        with pytest.raises(ConfigurationError):
            await session.execute_code("1", tools=["nix"])
        assert (await session.execute_code("x")).value == 1


@pytest.mark.parametrize(
    ("code", "limit"),
    [
        ("while True: pass", "wall_seconds"),
        ("await hang()", "wall_seconds"),
        ("while True:\n    print('x' * 99)", "max_log_bytes"),
        ("bytearray(10 ** 10)", "memory_bytes"),
        ("'x' * 2000", "max_value_bytes"),
    ],
)
async def test_a_limit_ends_it_and_it_says_which(runtime: Runtime, code: str, limit: str) -> None:
    limits = Limits(wall_seconds=0.5, max_log_bytes=1000, max_value_bytes=1000)
    async with runtime.session(limits=limits) as session:
        run = await session.execute_code(code)
        assert run.error is not None
        assert run.error.limit == limit
        assert not session.alive
        with pytest.raises(SandboxError, match=rf"^this session is over: limit reached: {limit} is .*; open a new one"):
            await session.execute_code("1")


async def test_a_program_that_ends_its_process_ends_it(runtime: Runtime) -> None:
    async with runtime.session() as session:
        run = await session.execute_code("import os\nos._exit(2)")
        assert run.error is not None
        assert run.error.kind == "GuestDied"
        with pytest.raises(
            SandboxError, match=r"^this session is over: the program ended its own process with status 2"
        ):
            await session.execute_code("1")


async def test_programs_at_the_same_time_run_one_after_the_other(runtime: Runtime) -> None:
    results: list[CodeResult] = []
    async with runtime.session() as session:
        await session.execute_code("n = 0")

        async def one() -> None:
            results.append(await session.execute_code("before = n\nawait echo(1)\nn = before + 1\nn"))

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(one)
    assert [run.value for run in results] == list(range(1, 11))


async def test_a_cancelled_program_ends_it(runtime: Runtime) -> None:
    CANCELLED.clear()
    async with runtime.session() as session:
        with anyio.CancelScope() as scope:

            def soon(event: Event) -> None:
                scope.deadline = anyio.current_time() + 0.05

            await session.execute_code("await hang()", on_event=soon)
        assert CANCELLED == ["hang"]
        assert not session.alive
        with pytest.raises(SandboxError, match=r"^this session is over: a program in it was cancelled; open a new one"):
            await session.execute_code("1")


async def test_waiting_for_ones_turn_may_be_cancelled(runtime: Runtime) -> None:
    async with runtime.session() as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.execute_code, "import time\ntime.sleep(0.2)\nx = 1")
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.01):
            await session.execute_code("1")
        assert (await session.execute_code("x", check=False)).value == 1


async def test_it_is_alive_while_a_program_runs_whatever_becomes_of_a_second(anyio_backend: str) -> None:
    begun, go_on = anyio.Event(), anyio.Event()

    @tool
    async def hold() -> None:
        begun.set()
        await go_on.wait()

    results: list[CodeResult] = []
    async with opened(hold, pool_size=0) as runtime, runtime.session() as session:

        async def first() -> None:
            results.append(await session.execute_code("await hold()\nx = 1"))

        async def mistaken() -> None:
            with pytest.raises(ConfigurationError):
                await session.execute_code("1", tools=["nix"])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first)
            await begun.wait()
            assert session.alive
            with anyio.move_on_after(0.01):
                await session.execute_code("1")
            tasks.start_soon(mistaken)
            await anyio.wait_all_tasks_blocked()
            assert session.alive
            go_on.set()
        assert results[0].ok, results[0].error
        assert (await session.execute_code("x", check=False)).value == 1


async def test_leaving_the_block_ends_the_program_in_it(runtime: Runtime) -> None:
    results: list[CodeResult] = []
    async with anyio.create_task_group() as tasks:
        async with runtime.session() as session:

            async def one() -> None:
                results.append(await session.execute_code("await hang()"))

            tasks.start_soon(one)
            await anyio.wait_all_tasks_blocked()
            await anyio.sleep(0.05)
        assert not session.alive
    error = results[0].error
    assert error is not None
    assert (error.kind, error.message) == ("SandboxCrashed", "the session was closed while this ran")
    with pytest.raises(SandboxError, match=r"^this session is over: "):
        await session.execute_code("1")


async def test_a_session_that_was_left_is_over(runtime: Runtime) -> None:
    async with runtime.session() as session:
        pass
    with pytest.raises(SandboxError, match=r"^this session is over: its block was left; open a new one"):
        await session.execute_code("1")


async def test_a_call_of_an_earlier_program_that_failed_ended_with_it(runtime: Runtime) -> None:
    async with runtime.session(limits=Limits(wall_seconds=1)) as session:
        failed = await session.execute_code("call = hang()\n1 / 0", check=False)
        assert failed.error is not None
        assert (failed.error.kind, [call.status for call in failed.calls]) == ("ZeroDivisionError", ["unknown_outcome"])
        run = await session.execute_code("await call", check=False)
        assert run.error is not None
        assert (run.error.kind, run.error.message) == ("ToolError", "the program that made this call has ended")
        assert (await session.execute_code("2")).value == 2


async def test_a_long_result_that_a_failed_program_had_not_read_does_not_harm_the_next_program() -> None:
    @tool(read_only=True)
    async def long() -> str:
        return "x" * (1 << 22)

    code = "import asyncio, time\nresult = long()\nawait asyncio.sleep(0.002)\ntime.sleep(0.5)\n1 / 0"
    async with opened(long, pool_size=0) as runtime, runtime.session() as session:
        for _ in range(3):
            run = await session.execute_code(code, check=False)
            assert run.error is not None
            assert run.error.kind == "ZeroDivisionError"
            assert run.calls[0].status == "succeeded"
            assert (await session.execute_code("len(await long())")).value == 1 << 22


async def test_limits_hold_for_each_program(runtime: Runtime) -> None:
    async with runtime.session(limits=Limits(max_tool_calls=2, max_log_bytes=10)) as session:
        for _ in range(3):
            run = await session.execute_code("print('12345678')\nawait echo(1)\nawait echo(2)")
            assert run.ok, run.error


async def test_sessions_count_as_guests() -> None:
    async with opened(pool_size=0, max_guests=1, queue_seconds=0.05) as runtime:
        async with runtime.session():
            with pytest.raises(SandboxBusy):
                await runtime.execute_code("1", path="sandbox")
        assert (await runtime.execute_code("1", path="sandbox")).value == 1
