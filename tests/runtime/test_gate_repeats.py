"""Retry, fallback and cache: when a call is made again, when another is made instead, and when none is made."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate.errors import InvalidArguments, LimitReached, ToolError, ToolTimedOut
from callgate.limits import Limits
from callgate.runtime.gate import Gate
from callgate.tools import Caller, Registry, Retry, Tool, tool
from runtime.gated import AT_ONCE, failure_of, flaky, forever, opened, run_of, spare

pytestmark = pytest.mark.anyio

TWICE = Retry(attempts=2, backoff_seconds=0)


def busy(n: int) -> ToolError:
    return ToolError(f"busy {n}", retryable=True)


async def test_retryable_errors_and_crashes_are_tried_again() -> None:
    run = run_of(flaky(busy(0), RuntimeError("boom"), retry=AT_ONCE))
    assert await run.call("flaky", {}) == "3"
    [record] = run.records
    assert (record.status, record.attempts, record.error) == ("succeeded", 3, None)


@pytest.mark.parametrize(
    ("failures", "arguments", "attempts", "error"),
    [
        ([busy(0), busy(1), busy(2)], {}, 3, "busy 2"),
        ([ToolError("no such city")], {}, 1, "no such city"),
        ([], {"n": "x"}, 0, "tool 'flaky': argument 'n' must be a valid integer, got \"x\" (a string)"),
    ],
    ids=["the last error stands", "an error that says nothing of retrying", "wrong arguments"],
)
async def test_what_cannot_pass_is_not_tried_again(
    failures: list[BaseException], arguments: dict[str, Any], attempts: int, error: str
) -> None:
    run = run_of(flaky(*failures, retry=AT_ONCE, read_only=True))
    assert (await failure_of(run, "flaky", arguments)).message == error
    assert (run.records[0].attempts, run.records[0].error) == (attempts, error)


@pytest.mark.parametrize(
    ("caller", "options", "asked", "attempts"),
    [
        ("code", {"read_only": True}, None, 1),
        ("direct", {"idempotent": True}, None, 1),
        ("plan", {"read_only": True}, None, 3),
        ("plan", {"idempotent": True}, None, 3),
        ("plan", {}, None, 1),
        ("plan", {"retry": TWICE}, None, 2),
        ("plan", {"read_only": True, "retry": Retry(attempts=1)}, None, 1),
        ("code", {}, AT_ONCE, 1),  # repeating a side effect is not the caller's to decide
        ("code", {"idempotent": True}, TWICE, 2),
        ("code", {"retry": AT_ONCE}, TWICE, 2),
    ],
)
async def test_who_may_have_a_call_repeated(
    caller: Caller, options: dict[str, Any], asked: Retry | None, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callgate.runtime.gate.attempts.PLAN_RETRY", AT_ONCE)
    run = run_of(flaky(*[RuntimeError()] * 5, **options), caller=caller)
    await failure_of(run, "flaky", retry=asked)
    assert run.records[0].attempts == attempts


@pytest.mark.parametrize(("read_only", "status", "attempts"), [(True, "timed_out", 3), (False, "unknown_outcome", 1)])
async def test_an_unknown_outcome_is_never_tried_again(read_only: bool, status: str, attempts: int) -> None:
    run = run_of(Tool.from_function(forever, read_only=read_only, timeout_seconds=0.01, retry=AT_ONCE))
    assert isinstance(await failure_of(run, "forever"), ToolTimedOut)
    assert (run.records[0].status, run.records[0].attempts) == (status, attempts)


async def test_a_call_may_bring_its_own_timeout() -> None:
    run = run_of(Tool.from_function(forever, read_only=True, timeout_seconds=1000))
    assert "within 0.01 s" in (await failure_of(run, "forever", timeout_seconds=0.01)).message


async def test_every_attempt_gets_its_own_copy_of_the_arguments() -> None:
    seen: list[list[int]] = []

    @tool(retry=AT_ONCE)
    async def take(items: list[int]) -> None:
        seen.append(list(items))
        items.clear()
        if len(seen) < 2:
            raise RuntimeError

    await run_of(take).call("take", {"items": [1, 2]})
    assert seen == [[1, 2], [1, 2]]


async def test_neither_a_retry_that_waits_nor_a_person_who_thinks_holds_a_place() -> None:
    async def approve(request: Any) -> bool:
        await anyio.sleep_forever()
        return True

    asking = Tool.from_function(forever, name="asking", requires_approval=True)
    tools = [flaky(RuntimeError(), retry=Retry(backoff_seconds=30)), asking, spare]
    run = opened(Gate(Registry(tools), approve=approve), max_concurrent_calls=1)
    async with anyio.create_task_group() as group:
        for name in ("flaky", "asking"):
            group.start_soon(run.call, name, {})
            await anyio.wait_all_tasks_blocked()
        assert [(each.status, each.attempts) for each in run.records] == [("pending", 1), ("pending", 0)]
        with anyio.fail_after(5):
            await run.call("spare", {})
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("own", "asked", "late"),
    [("spare", None, False), (None, "spare", False), ("spare", None, True)],
    ids=["the tool's", "the call's own", "of a timeout"],
)
async def test_a_fallback_answers_for_a_tool_that_failed(own: str | None, asked: str | None, late: bool) -> None:
    slow = Tool.from_function(forever, name="flaky", timeout_seconds=0.01, fallback=own)
    run = run_of(slow if late else flaky(ToolError("no"), fallback=own), spare, max_concurrent_calls=1)
    assert await run.call("flaky", {}, fallback=asked) == '"spare 0"'
    failed, instead = run.records
    assert (failed.tool, failed.fallback, failed.fallback_call) == ("flaky", "spare", 2)
    assert (failed.status, failed.error) == ("unknown_outcome" if late else "failed", failed.error if late else "no")
    assert (instead.id, instead.tool, instead.status, instead.arguments) == (2, "spare", "succeeded", {})


async def test_there_is_no_fallback_for_wrong_arguments_or_a_refusal() -> None:
    run = run_of(flaky(fallback="spare", requires_approval=True), spare)
    await failure_of(run, "flaky", {"n": "x"})
    await failure_of(run, "flaky")
    assert [(record.tool, record.status) for record in run.records] == [("flaky", "refused")] * 2


async def test_when_the_fallback_fails_as_well_both_are_told_and_no_tool_is_called_twice() -> None:
    @tool(fallback="flaky")
    async def broken(n: int = 0) -> None:
        raise ToolError(f"broken as well: {n}")

    run = run_of(flaky(ToolError("no", code=-32050, data=[1]), fallback="broken"), broken)
    error = await failure_of(run, "flaky", {"n": 7})
    assert (error.message, error.code, error.data) == ("no; and its fallback: broken as well: 7", -32050, [1])
    assert [record.error for record in run.records] == ["no", "broken as well: 7"]
    assert run.records[0].fallback is None


async def test_a_fallback_passes_the_whole_gate() -> None:
    gate = Gate(Registry([flaky(ToolError("no"), ToolError("no"), fallback="spare"), spare]))
    run = gate.open(caller="code", limits=Limits(), allowed=["flaky"])
    told = "no; and its fallback: tool 'spare' is not among the tools that this run may call"
    assert (await failure_of(run, "flaky")).message == told
    with pytest.raises(LimitReached):
        await opened(gate, max_tool_calls=1).call("flaky", {})


async def test_a_read_only_tool_that_asks_for_it_is_cached_across_runs() -> None:
    @tool(read_only=True, cache_seconds=60)
    async def add(a: int, b: int) -> str:
        return "x" * 100

    gate = Gate(Registry([add]))
    first, second = opened(gate), opened(gate)
    for run, other in ((first, 1), (second, 3)):
        for arguments in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": other, "b": 1}):
            await run.call("add", arguments)
    assert [(record.cached, record.attempts) for record in first.records] == [(False, 1), (True, 0), (False, 1)]
    assert [record.cached for record in second.records] == [True, True, False]
    with pytest.raises(InvalidArguments):
        await first.call("add", {"a": True, "b": 2})  # though it equals 1
    error = await failure_of(opened(gate, max_message_bytes=50), "add", {"a": 1, "b": 2})
    assert "the limit max_message_bytes is 50" in error.message


async def test_a_kept_result_is_for_calls_with_a_timeout_of_their_own_too_and_an_error_is_not_kept() -> None:
    run = run_of(flaky(ToolError("no"), read_only=True, cache_seconds=60))
    await failure_of(run, "flaky")
    assert [await run.call("flaky", {}, timeout_seconds=own) for own in (None, 9.0, None)] == ["2", "2", "2"]


@pytest.mark.parametrize("late", [False, True], ids=["a result", "a timeout"])
async def test_identical_calls_at_the_same_time_run_once(late: bool) -> None:
    go, calls = anyio.Event(), 0

    @tool(read_only=True, cache_seconds=60, timeout_seconds=0.02 if late else None)
    async def slow() -> None:
        nonlocal calls
        calls += 1
        await go.wait()

    run = run_of(slow, max_concurrent_calls=1)

    async def call() -> None:
        if late:
            assert isinstance(await failure_of(run, "slow"), ToolTimedOut)
        else:
            await run.call("slow", {})

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(call)
        if not late:
            await anyio.wait_all_tasks_blocked()
            go.set()
    assert calls == 1
    assert {record.status for record in run.records} == {"timed_out" if late else "succeeded"}
    assert late or sorted(record.cached for record in run.records) == [False, True, True, True, True]
