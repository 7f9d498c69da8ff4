"""Failures and cancellations, told apart: what passes, what is hidden, what ends the run and what does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pydantic
import pytest
import sniffio

from callgate.errors import ToolError, ToolTimedOut
from callgate.runtime.gate import Gate
from callgate.runtime.gate.failures import MAX_ERROR_CHARACTERS, MAX_ERROR_DATA_CHARACTERS
from callgate.tools import Registry, Tool, tool
from runtime.gated import failure_of, forever, opened, run_of, stats_of

pytestmark = pytest.mark.anyio

HIDDEN = "tool 'bad' failed: an internal error; details are in the host's log"


def raising(make: Callable[[], BaseException], *, is_async: bool = True) -> Tool:
    async def bad_async() -> None:
        raise make()

    def bad_sync() -> None:
        raise make()

    return Tool.from_function(bad_async if is_async else bad_sync, name="bad")


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
@pytest.mark.parametrize(
    "make",
    [
        lambda: ValueError("/etc/secret"),
        lambda: SystemExit(3),
        lambda: StopIteration("/etc/secret"),
        lambda: StopAsyncIteration("/etc/secret"),
        lambda: TimeoutError("/etc/secret"),
        lambda: asyncio.CancelledError("/etc/secret"),
        lambda: RecursionError("/etc/secret"),
        lambda: MemoryError("/etc/secret"),
        lambda: ExceptionGroup("/etc/secret", [ValueError("/etc/secret")]),
        lambda: BaseExceptionGroup("/etc/secret", [SystemExit(1), asyncio.CancelledError()]),
        lambda: type("Odd", (BaseException,), {})("/etc/secret"),
    ],
)
async def test_what_a_tool_did_not_mean_to_say_is_hidden_and_logged(
    make: Callable[[], BaseException], is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    run = run_of(raising(make, is_async=is_async))
    error = await failure_of(run, "bad")
    assert (error.message, error.code, error.tool, error.data, error.retryable) == (HIDDEN, -32603, "bad", None, False)
    assert "tool 'bad' failed" in caplog.text
    assert "Traceback" in caplog.text
    assert (run.records[0].status, run.records[0].error) == ("failed", HIDDEN)


async def test_a_validator_that_crashes_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    class Strange(pydantic.BaseModel):
        x: int

        @pydantic.field_validator("x")
        @classmethod
        def crash(cls, value: int) -> int:
            raise RuntimeError("/etc/secret")

    @tool
    async def bad(strange: Strange) -> None: ...

    error = await failure_of(run_of(bad), "bad", {"strange": {"x": 1}})
    assert (error.message, error.code) == (HIDDEN, -32603)
    assert "/etc/secret" in caplog.text


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_what_a_tool_means_to_say_passes(is_async: bool) -> None:
    said = {"code": -32055, "data": {"a": 1}, "retryable": True}
    run = run_of(raising(lambda: ToolError("no such city", **said), is_async=is_async))  # type: ignore[arg-type]
    error = await failure_of(run, "bad")
    assert (error.message, error.tool) == ("no such city", "bad")
    assert {name: getattr(error, name) for name in said} == said
    assert run.records[0].error == "no such city"


@pytest.mark.parametrize(
    ("make", "is_async"),
    [
        (KeyboardInterrupt, True),
        (KeyboardInterrupt, False),
        (lambda: BaseExceptionGroup("", [KeyboardInterrupt()]), True),
    ],
)
async def test_a_keyboard_interrupt_goes_through(make: Callable[[], BaseException], is_async: bool) -> None:
    run = run_of(raising(make, is_async=is_async))
    with pytest.raises(type(make())):
        await run.call("bad", {})
    assert run.records[0].status == "unknown_outcome"


class Hasty(ToolError):
    """It does not call its base."""

    def __init__(self) -> None: ...


@pytest.mark.parametrize(
    ("make", "message", "logged"),
    [
        *(
            (lambda data=data: ToolError("no", data=data), "no", "raised a ToolError whose data is dropped: ")
            for data in ({1, 2}, float("nan"), [object()], "x" * MAX_ERROR_DATA_CHARACTERS)
        ),
        (lambda: ToolError("no", code="E1"), "no", "whose code is 'E1', not a whole number"),  # type: ignore[arg-type]
        (lambda: ToolError("a\ud800"), "a?", ""),
        (Hasty, "", ""),
    ],
)
async def test_what_cannot_go_out_is_left_out_with_a_line_in_the_log(
    make: Callable[[], ToolError], message: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    error = await failure_of(run_of(raising(make)), "bad")
    assert (error.message, error.code, error.tool, error.data, error.retryable) == (message, -32000, "bad", None, False)
    assert logged in caplog.text


async def test_an_endless_message_is_cut_in_the_middle() -> None:
    error = await failure_of(run_of(raising(lambda: ToolError("a" * 100_000 + "\ud800" + "b" * 100_000))), "bad")
    assert len(error.message) < MAX_ERROR_CHARACTERS + 100
    assert " characters cut ... " in error.message
    assert str(error) == error.message


async def test_a_result_that_breaks_the_contract_is_a_failure_of_the_tool() -> None:
    @tool
    async def bad() -> int:
        return "five"  # type: ignore[return-value]

    run = run_of(bad)
    told = "tool 'bad' returned what it must not: result must be a valid integer, got \"five\" (a string)"
    assert (await failure_of(run, "bad")).message == told
    assert (run.records[0].status, stats_of(run, "bad").failure_rate) == ("failed", 1.0)


async def test_awaiting_a_cancelled_task_of_ones_own_is_a_failure_and_not_the_end_of_the_run() -> None:
    if sniffio.current_async_library() != "asyncio":
        pytest.skip("a task that is awaited is asyncio's")

    @tool
    async def bad() -> None:
        task = asyncio.ensure_future(asyncio.sleep(1000))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    run = run_of(bad)
    for _ in range(2):
        assert (await failure_of(run, "bad")).message == HIDDEN


async def test_a_scope_of_the_tools_own_is_its_own_affair() -> None:
    @tool
    async def patient() -> str:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        return "done"

    assert await run_of(patient).call("patient", {}) == '"done"'


async def grouping() -> None:
    try:
        await anyio.sleep_forever()
    except BaseException as error:
        raise BaseExceptionGroup("both", [error, ValueError("cleanup")]) from None


@pytest.mark.parametrize(
    ("function", "options", "status"),
    [
        (forever, {}, "unknown_outcome"),
        (forever, {"timeout_seconds": 1000}, "unknown_outcome"),
        (forever, {"read_only": True}, "cancelled"),
        (grouping, {}, "unknown_outcome"),  # the cancellation is raised afresh, without the rest of the group
    ],
    ids=["effects", "not mistaken for a timeout", "read only", "a group"],
)
async def test_cancelling_the_run_cancels_the_tools_it_waits_for(
    function: Any, options: dict[str, Any], status: str
) -> None:
    run = run_of(Tool.from_function(function, name="wait", **options))
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(run.call, "wait", {})
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    told = "the call was cancelled"
    if status == "unknown_outcome":
        told += " while it was under way; it may have done its work all the same"
    assert [(record.status, record.error) for record in run.records] == [(status, told)] * 2
    assert run.offer.registry.statistics.all() == {}


async def test_a_task_that_asyncio_cancels_is_cancelled() -> None:
    if sniffio.current_async_library() != "asyncio":
        pytest.skip("a task that is cancelled is asyncio's")
    run = run_of(Tool.from_function(forever))
    task = asyncio.ensure_future(run.call("forever", {}))
    await anyio.wait_all_tasks_blocked()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert run.records[0].status == "unknown_outcome"


async def test_a_tool_that_fails_while_it_is_cancelled_does_not_break_the_run(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def untidy() -> None:
        async def fails_in_the_end() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                raise ValueError("untidy")

        async with anyio.create_task_group() as group:
            group.start_soon(fails_in_the_end)
            await anyio.sleep_forever()

    run = run_of(untidy)
    with anyio.CancelScope() as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(failure_of, run, "untidy")
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert "untidy" in caplog.text


async def test_a_coroutine_that_is_closed_from_outside_ends_quietly() -> None:
    run = run_of(Tool.from_function(anyio.lowlevel.checkpoint, name="wait"))
    coroutine = run.call("wait", {})
    if sniffio.current_async_library() == "asyncio":
        coroutine.send(None)
        coroutine.close()
        assert run.records[0].status == "unknown_outcome"
    else:
        coroutine.close()


async def turns_it_into_an_error() -> None:
    try:
        await anyio.sleep_forever()
    finally:
        raise ToolError("tidy up failed")


@pytest.mark.parametrize("function", [forever, turns_it_into_an_error])
@pytest.mark.parametrize(
    ("read_only", "unknown", "status"),
    [
        (True, "", "timed_out"),
        (
            False,
            "; it may have done its work all the same: the outcome is unknown, find out before you call it again",
            "unknown_outcome",
        ),
    ],
)
async def test_a_timeout_of_a_tool_with_side_effects_leaves_the_outcome_unknown(
    function: Any, read_only: bool, unknown: str, status: str
) -> None:
    run = run_of(Tool.from_function(function, name="bad", read_only=read_only, timeout_seconds=0.01))
    error = await failure_of(run, "bad")
    assert isinstance(error, ToolTimedOut)
    assert (error.message, error.code) == (f"tool 'bad' did not answer within 0.01 s{unknown}", -32001)
    assert error.retryable is read_only
    assert run.records[0].status == status
    stats = stats_of(run, "bad")
    assert (stats.calls, stats.failures, stats.timeouts, stats.p95_seconds) == (1, 1, 1, 0.01)


async def test_a_thread_that_hangs_does_not_hold_up_the_run_and_is_counted_until_it_ends() -> None:
    go, ended = threading.Event(), threading.Event()

    @tool(timeout_seconds=0.01)
    def bad() -> None:
        go.wait(10)
        ended.set()

    gate = Gate(Registry([bad]))
    run = opened(gate, max_concurrent_calls=2)
    try:
        for _ in range(2):
            assert isinstance(await failure_of(run, "bad"), ToolTimedOut)
        assert gate.threads.left_behind == 2
        error = await failure_of(run, "bad")
        assert error.message == (
            "tool 'bad' was not called: 2 earlier calls that were given up are still running on the host; "
            "try again when they have ended"
        )
        assert error.retryable
    finally:
        go.set()
    assert ended.wait(5)
    with anyio.fail_after(5):
        while gate.threads.left_behind:
            await anyio.lowlevel.checkpoint()
    assert [record.status for record in run.records] == ["unknown_outcome", "unknown_outcome", "failed"]
    assert stats_of(run, "bad").calls == 2


async def test_cancelling_the_run_does_not_wait_for_a_thread() -> None:
    go, started = threading.Event(), threading.Event()

    @tool
    def hang() -> None:
        started.set()
        go.wait(10)

    run = run_of(hang)
    try:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(run.call, "hang", {})
                assert await anyio.to_thread.run_sync(started.wait, 5)
                group.cancel_scope.cancel()
    finally:
        go.set()
    assert run.records[0].status == "unknown_outcome"


async def test_forty_sync_tools_of_a_runtime_run_at_once_beside_the_loop_and_the_others_wait() -> None:
    barrier, begun = threading.Barrier(41, timeout=10), [0]

    @tool
    def meet(last: bool) -> None:
        begun[0] += 1
        if not last:
            barrier.wait()

    gate = Gate(Registry([meet]))
    one, other = opened(gate), opened(gate)
    async with anyio.create_task_group() as group:
        for n in range(40):
            group.start_soon((one, other)[n % 2].call, "meet", {"last": False})
        with anyio.fail_after(10):
            while begun[0] < 40:  # noqa: ASYNC110 (threads count)
                await anyio.sleep(0.01)
        for _ in range(5):
            group.start_soon(other.call, "meet", {"last": True})
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(0.05)
        assert begun[0] == 40
        await anyio.to_thread.run_sync(barrier.wait)
    assert [record.status for record in (*one.records, *other.records)] == ["succeeded"] * 45
    waited = [record.queued_seconds for record in other.records]
    assert min(waited[20:]) >= 0.05 > max(waited[:20])


@pytest.mark.parametrize("where", ["in its thread", "in a coroutine that it returned"])
async def test_a_sync_tool_that_calls_a_sync_tool_does_not_wait_for_its_own_place(where: str) -> None:
    barrier, begun = threading.Barrier(40, timeout=10), 0

    @tool
    def inner() -> int:
        return 1

    async def in_a_coroutine() -> Any:
        nonlocal begun
        begun += 1
        while begun < 40:
            await anyio.lowlevel.checkpoint()
        return await run.call("inner", {})

    @tool
    def outer() -> Any:
        if where != "in its thread":
            return in_a_coroutine()
        barrier.wait()
        return int(anyio.from_thread.run(run.call, "inner", {}))

    run = run_of(inner, outer)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(40):
                group.start_soon(run.call, "outer", {})
    assert [record.status for record in run.records] == ["succeeded"] * 80
