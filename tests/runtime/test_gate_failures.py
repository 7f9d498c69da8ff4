"""Failures and cancellations, told apart: what passes, what is hidden, what ends the run and what does not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
import sniffio

from callgate.errors import ToolError, ToolTimedOut
from callgate.limits import Limits
from callgate.runtime.gate import Gate, RunGate
from callgate.runtime.gate.attempt import MAX_ERROR_CHARACTERS, MAX_ERROR_DATA_CHARACTERS
from callgate.tools import Registry, Tool, tool

pytestmark = pytest.mark.anyio

HIDDEN = "tool 'bad' failed: an internal error; details are in the host's log"


def run_of(*tools: Tool, **limits: Any) -> RunGate:
    return Gate(Registry(tools)).open(caller="code", limits=Limits(**limits))


def raising(make: Callable[[], BaseException], *, is_async: bool) -> Tool:
    async def bad_async() -> None:
        raise make()

    def bad_sync() -> None:
        raise make()

    return Tool.from_function(bad_async if is_async else bad_sync, name="bad")


async def failure_of(run: RunGate, name: str = "bad") -> ToolError:
    with pytest.raises(ToolError) as caught:
        await run.call(name, {})
    return caught.value


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
    error = await failure_of(run)
    assert (error.message, error.code, error.tool, error.data, error.retryable) == (HIDDEN, -32603, "bad", None, False)
    assert "tool 'bad' failed" in caplog.text
    assert "Traceback" in caplog.text
    record = run.records[0]
    assert (record.status, record.error) == ("failed", HIDDEN)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_what_a_tool_means_to_say_passes(is_async: bool) -> None:
    run = run_of(
        raising(lambda: ToolError("no such city", code=-32055, data={"a": 1}, retryable=True), is_async=is_async)
    )
    error = await failure_of(run)
    assert (error.message, error.code, error.data, error.retryable, error.tool) == (
        "no such city",
        -32055,
        {"a": 1},
        True,
        "bad",
    )
    assert run.records[0].error == "no such city"


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_keyboard_interrupt_goes_through(is_async: bool) -> None:
    run = run_of(raising(KeyboardInterrupt, is_async=is_async))
    with pytest.raises(KeyboardInterrupt):
        await run.call("bad", {})
    assert run.records[0].status == "unknown_outcome"


async def test_a_keyboard_interrupt_in_a_group_goes_through() -> None:
    run = run_of(raising(lambda: BaseExceptionGroup("", [KeyboardInterrupt()]), is_async=True))
    with pytest.raises(BaseExceptionGroup):
        await run.call("bad", {})


@pytest.mark.parametrize("data", [{1, 2}, float("nan"), [object()], "x" * MAX_ERROR_DATA_CHARACTERS])
async def test_data_that_cannot_go_out_is_dropped_with_a_line_in_the_log(
    data: Any, caplog: pytest.LogCaptureFixture
) -> None:
    error = await failure_of(run_of(raising(lambda: ToolError("no", data=data), is_async=True)))
    assert (error.message, error.data) == ("no", None)
    assert "tool 'bad' raised a ToolError whose data is dropped: " in caplog.text


async def test_a_code_that_is_no_number_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    error = await failure_of(run_of(raising(lambda: ToolError("no", code="E1"), is_async=True)))  # type: ignore[arg-type]
    assert error.code == -32000
    assert "whose code is 'E1', not a whole number" in caplog.text


async def test_an_endless_message_is_cut_in_the_middle() -> None:
    error = await failure_of(
        run_of(raising(lambda: ToolError("a" * 100_000 + "\ud800" + "b" * 100_000), is_async=True))
    )
    assert len(error.message) < MAX_ERROR_CHARACTERS + 100
    assert " characters cut ... " in error.message
    assert str(error) == error.message


async def test_half_a_surrogate_pair_in_a_message_does_not_break_the_wire() -> None:
    error = await failure_of(run_of(raising(lambda: ToolError("a\ud800"), is_async=True)))
    assert error.message == "a?"


async def test_an_error_that_did_not_call_its_base_passes_all_the_same() -> None:
    class Hasty(ToolError):
        def __init__(self) -> None: ...

    error = await failure_of(run_of(raising(Hasty, is_async=True)))
    assert (error.code, error.tool, error.retryable) == (-32000, "bad", False)


async def test_a_result_that_breaks_the_contract_is_a_failure() -> None:
    @tool
    async def bad() -> int:
        return "five"  # type: ignore[return-value]

    run = run_of(bad)
    error = await failure_of(run)
    assert (
        error.message == "tool 'bad' returned what it must not: result must be a valid integer, got \"five\" (a string)"
    )
    assert run.records[0].status == "failed"


async def test_awaiting_a_cancelled_task_of_ones_own_is_a_failure_and_not_the_end_of_the_run() -> None:
    if sniffio.current_async_library() != "asyncio":
        pytest.skip("a task that is awaited is asyncio's")

    @tool
    async def bad() -> None:
        task = asyncio.ensure_future(asyncio.sleep(1000))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    run = run_of(bad)
    assert (await failure_of(run)).message == HIDDEN
    assert (await failure_of(run)).message == HIDDEN


async def test_a_scope_of_the_tools_own_is_its_own_affair() -> None:
    @tool
    async def patient() -> str:
        with anyio.move_on_after(0):
            await anyio.sleep_forever()
        return "done"

    assert await run_of(patient).call("patient", {}) == '"done"'


async def test_cancelling_the_run_cancels_the_tools_it_waits_for() -> None:
    ended: list[str] = []

    @tool
    async def wait(name: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(name)

    run = run_of(wait)
    async with anyio.create_task_group() as group:
        for name in "ab":
            group.start_soon(run.call, "wait", {"name": name})
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert sorted(ended) == ["a", "b"]
    told = "the call was cancelled while it was under way; it may have done its work all the same"
    assert [(record.status, record.error) for record in run.records] == [("unknown_outcome", told)] * 2


async def test_a_task_that_asyncio_cancels_is_cancelled() -> None:
    if sniffio.current_async_library() != "asyncio":
        pytest.skip("a task that is cancelled is asyncio's")

    @tool
    async def wait() -> None:
        await asyncio.sleep(1000)

    run = run_of(wait)
    task = asyncio.ensure_future(run.call("wait", {}))
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

            async def call() -> None:
                with pytest.raises(ToolError):
                    await run.call("untidy", {})

            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
    assert "untidy" in caplog.text


async def test_a_cancellation_inside_a_group_is_raised_afresh() -> None:
    @tool
    async def grouping() -> None:
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            raise BaseExceptionGroup("both", [error, ValueError("cleanup")]) from None

    run = run_of(grouping)
    async with anyio.create_task_group() as group:
        group.start_soon(run.call, "grouping", {})
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert run.records[0].status == "unknown_outcome"


async def test_a_coroutine_that_is_closed_from_outside_ends_quietly() -> None:
    @tool
    async def wait() -> None:
        await anyio.lowlevel.checkpoint()

    run = run_of(wait)
    coroutine = run.call("wait", {})
    if sniffio.current_async_library() == "asyncio":
        coroutine.send(None)
        coroutine.close()
        assert run.records[0].status == "unknown_outcome"
    else:
        coroutine.close()


async def test_a_timeout_of_a_tool_without_side_effects_says_that_it_may_be_tried_again() -> None:
    @tool(read_only=True, timeout_seconds=0.01)
    async def bad() -> None:
        await anyio.sleep_forever()

    run = run_of(bad)
    error = await failure_of(run)
    assert isinstance(error, ToolTimedOut)
    assert (error.message, error.code, error.retryable) == ("tool 'bad' did not answer within 0.01 s", -32001, True)
    assert run.records[0].status == "timed_out"


async def test_a_timeout_of_a_tool_with_side_effects_leaves_the_outcome_unknown() -> None:
    @tool(timeout_seconds=0.01)
    async def bad() -> None:
        await anyio.sleep_forever()

    run = run_of(bad)
    error = await failure_of(run)
    assert isinstance(error, ToolTimedOut)
    assert error.message == (
        "tool 'bad' did not answer within 0.01 s; it may have done its work all the same: "
        "the outcome is unknown, find out before you call it again"
    )
    assert not error.retryable
    assert run.records[0].status == "unknown_outcome"


async def test_a_tool_that_turns_its_timeout_into_an_error_has_timed_out_all_the_same() -> None:
    @tool(read_only=True, timeout_seconds=0.01)
    async def bad() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ToolError("tidy up failed")

    assert isinstance(await failure_of(run_of(bad)), ToolTimedOut)


async def test_the_end_of_the_run_is_not_mistaken_for_a_timeout() -> None:
    @tool(timeout_seconds=1000)
    async def wait() -> None:
        await anyio.sleep_forever()

    run = run_of(wait)
    async with anyio.create_task_group() as group:
        group.start_soon(run.call, "wait", {})
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert run.records[0].status == "unknown_outcome"


async def test_a_thread_that_hangs_does_not_hold_up_the_run_and_is_counted_until_it_ends() -> None:
    go, ended = threading.Event(), threading.Event()

    @tool(timeout_seconds=0.01)
    def bad() -> None:
        go.wait(10)
        ended.set()

    gate = Gate(Registry([bad]))
    run = gate.open(caller="code", limits=Limits(max_concurrent_calls=2))
    try:
        for _ in range(2):
            assert isinstance(await failure_of(run), ToolTimedOut)
        assert gate.threads.left_behind == 2
        error = await failure_of(run)
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


async def test_more_threads_run_at_once_than_anyios_default_of_forty() -> None:
    barrier = threading.Barrier(50, timeout=10)

    @tool
    def meet() -> None:
        barrier.wait()

    run = run_of(meet)
    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(run.call, "meet", {})
    assert {record.status for record in run.records} == {"succeeded"}


async def test_a_sync_tool_does_not_block_the_loop() -> None:
    go = threading.Event()

    @tool
    def wait() -> bool:
        return go.wait(10)

    run = run_of(wait)
    async with anyio.create_task_group() as group:
        group.start_soon(run.call, "wait", {})
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert run.records[0].status == "succeeded"
