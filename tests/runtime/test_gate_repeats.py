"""Retry, fallback and cache: when a call is made again, when another is made instead, and when none is made."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from callgate.errors import InvalidArguments, LimitReached, ToolError, ToolNotAllowed, ToolTimedOut
from callgate.limits import Limits
from callgate.runtime.gate import Gate, RunGate
from callgate.tools import Caller, Registry, Retry, Tool, tool

pytestmark = pytest.mark.anyio

AT_ONCE = Retry(attempts=3, backoff_seconds=0)


class Flaky:
    """A tool that fails a few times, then works."""

    def __init__(self, *failures: BaseException) -> None:
        self.failures = list(failures)
        self.calls = 0

    async def __call__(self, n: int = 0) -> int:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return self.calls


def run_of(*tools: Tool, caller: Caller = "code", **limits: Any) -> RunGate:
    return Gate(Registry(tools)).open(caller=caller, limits=Limits(**limits))


def flaky(*failures: BaseException, **options: Any) -> Tool:
    return Tool.from_function(Flaky(*failures), name="flaky", **options)


async def test_retryable_errors_and_crashes_are_tried_again() -> None:
    run = run_of(flaky(ToolError("busy", retryable=True), RuntimeError("boom"), retry=AT_ONCE))
    assert await run.call("flaky", {}) == "3"
    record = run.records[0]
    assert (record.status, record.attempts, record.error) == ("succeeded", 3, None)
    assert len(run.records) == 1


async def test_after_the_last_attempt_the_last_error_stands() -> None:
    run = run_of(flaky(*[ToolError(f"busy {n}", retryable=True) for n in range(3)], retry=AT_ONCE))
    with pytest.raises(ToolError, match=r"^busy 2$"):
        await run.call("flaky", {})
    assert (run.records[0].status, run.records[0].attempts, run.records[0].error) == ("failed", 3, "busy 2")


async def test_an_error_that_says_nothing_of_retrying_is_not_tried_again() -> None:
    run = run_of(flaky(ToolError("no such city"), retry=AT_ONCE, read_only=True))
    with pytest.raises(ToolError, match="no such city"):
        await run.call("flaky", {})
    assert run.records[0].attempts == 1


async def test_wrong_arguments_are_not_tried_again() -> None:
    run = run_of(flaky(retry=AT_ONCE, read_only=True))
    with pytest.raises(InvalidArguments):
        await run.call("flaky", {"n": "x"})
    assert run.records[0].attempts == 0


async def test_a_timeout_of_a_tool_without_side_effects_is_tried_again() -> None:
    calls = 0

    @tool(read_only=True, timeout_seconds=0.01, retry=AT_ONCE)
    async def slow() -> int:
        nonlocal calls
        calls += 1
        if calls < 3:
            await anyio.sleep_forever()
        return calls

    assert await run_of(slow).call("slow", {}) == "3"


async def test_an_unknown_outcome_is_never_tried_again() -> None:
    @tool(timeout_seconds=0.01, retry=AT_ONCE)
    async def slow() -> None:
        await anyio.sleep_forever()

    run = run_of(slow)
    with pytest.raises(ToolTimedOut):
        await run.call("slow", {})
    assert (run.records[0].status, run.records[0].attempts) == ("unknown_outcome", 1)


@pytest.mark.parametrize(
    ("caller", "options", "attempts"),
    [
        ("code", {"read_only": True}, 1),
        ("direct", {"idempotent": True}, 1),
        ("plan", {"read_only": True}, 3),
        ("plan", {"idempotent": True}, 3),
        ("plan", {}, 1),
        ("plan", {"retry": Retry(attempts=2, backoff_seconds=0)}, 2),
        ("plan", {"read_only": True, "retry": Retry(attempts=1)}, 1),
    ],
)
async def test_only_a_plan_retries_what_was_given_no_retry(
    caller: Caller, options: dict[str, Any], attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callgate.runtime.gate.attempt.PLAN_RETRY", AT_ONCE)
    run = run_of(flaky(*[RuntimeError()] * 5, **options), caller=caller)
    with pytest.raises(ToolError):
        await run.call("flaky", {})
    assert run.records[0].attempts == attempts


async def test_a_caller_may_not_repeat_side_effects_on_its_own() -> None:
    run = run_of(flaky(*[RuntimeError()] * 5))
    with pytest.raises(ToolError):
        await run.call("flaky", {}, retry=AT_ONCE)
    assert run.records[0].attempts == 1
    run = run_of(flaky(*[RuntimeError()] * 5, idempotent=True))
    with pytest.raises(ToolError):
        await run.call("flaky", {}, retry=Retry(attempts=2, backoff_seconds=0))
    assert run.records[0].attempts == 2


async def test_a_call_may_bring_its_own_timeout() -> None:
    @tool(read_only=True, timeout_seconds=1000)
    async def slow() -> None:
        await anyio.sleep_forever()

    with pytest.raises(ToolTimedOut, match=r"within 0.01 s"):
        await run_of(slow).call("slow", {}, timeout_seconds=0.01)


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


async def test_a_retry_that_waits_holds_no_place() -> None:
    waiting = anyio.Event()

    def draw() -> float:
        waiting.set()
        return 0.5

    @tool
    async def free() -> int:
        return 1

    flaky_tool = flaky(RuntimeError(), retry=Retry(backoff_seconds=30))
    gate = Gate(Registry([flaky_tool, free]), draw=draw)
    run = gate.open(caller="code", limits=Limits(max_concurrent_calls=1))
    async with anyio.create_task_group() as group:
        group.start_soon(run.call, "flaky", {})
        await waiting.wait()
        with anyio.fail_after(5):
            assert await run.call("free", {}) == "1"
        group.cancel_scope.cancel()


@tool
async def spare(n: int = 0) -> str:
    return f"spare {n}"


async def test_a_fallback_answers_for_a_tool_that_failed() -> None:
    run = run_of(flaky(ToolError("no"), fallback="spare"), spare)
    assert await run.call("flaky", {"n": 7}) == '"spare 7"'
    first, second = run.records
    assert (first.tool, first.status, first.error, first.fallback) == ("flaky", "failed", "no", "spare")
    assert (second.tool, second.status, second.arguments) == ("spare", "succeeded", {"n": 7})


async def test_a_fallback_answers_for_a_timeout() -> None:
    @tool(timeout_seconds=0.01, fallback="spare")
    async def slow() -> None:
        await anyio.sleep_forever()

    run = run_of(slow, spare)
    assert await run.call("slow", {}) == '"spare 0"'
    assert run.records[0].status == "unknown_outcome"


async def test_a_call_may_name_its_own_fallback() -> None:
    assert await run_of(flaky(ToolError("no")), spare).call("flaky", {}, fallback="spare") == '"spare 0"'


async def test_there_is_no_fallback_for_wrong_arguments_or_a_refusal() -> None:
    run = run_of(flaky(fallback="spare", requires_approval=True), spare)
    with pytest.raises(InvalidArguments):
        await run.call("flaky", {"n": "x"})
    with pytest.raises(ToolNotAllowed):
        await run.call("flaky", {})
    assert [record.tool for record in run.records] == ["flaky", "flaky"]


async def test_when_the_fallback_fails_as_well_both_are_told() -> None:
    @tool
    async def broken(n: int = 0) -> None:
        raise ToolError("broken as well")

    run = run_of(flaky(ToolError("no", code=-32050, data=[1]), fallback="broken"), broken)
    with pytest.raises(ToolError) as caught:
        await run.call("flaky", {})
    error = caught.value
    assert (error.message, error.code, error.data) == ("no; and its fallback: broken as well", -32050, [1])
    assert [record.error for record in run.records] == ["no", "broken as well"]
    assert run.records[0].fallback is None


async def test_a_fallback_passes_the_whole_gate() -> None:
    gate = Gate(Registry([flaky(ToolError("no"), fallback="spare"), spare]))
    run = gate.open(caller="code", limits=Limits(), allowed=["flaky"])
    with pytest.raises(
        ToolError, match=r"^no; and its fallback: tool 'spare' is not among the tools that this run may call$"
    ):
        await run.call("flaky", {})
    run = run_of(flaky(ToolError("no"), fallback="spare"), spare, max_tool_calls=1)
    with pytest.raises(LimitReached):
        await run.call("flaky", {})


async def test_fallbacks_do_not_run_in_circles() -> None:
    @tool(fallback="b")
    async def a() -> None:
        raise ToolError("a failed")

    @tool(fallback="a")
    async def b() -> None:
        raise ToolError("b failed")

    run = run_of(a, b, max_concurrent_calls=1)
    with pytest.raises(ToolError, match=r"^a failed; and its fallback: b failed$"):
        await run.call("a", {})
    assert len(run.records) == 2


async def test_a_read_only_tool_that_asks_for_it_is_cached_across_runs() -> None:
    counting = flaky(read_only=True, cache_seconds=60)
    gate = Gate(Registry([counting]))
    first, second = (gate.open(caller="code", limits=Limits()) for _ in range(2))
    assert [await run.call("flaky", {"n": 1}) for run in (first, second, first)] == ["1", "1", "1"]
    assert await first.call("flaky", {"n": 2}) == "2"
    assert [(r.cached, r.attempts) for r in first.records] == [(False, 1), (True, 0), (False, 1)]
    assert second.records[0].cached


async def test_the_order_of_arguments_does_not_matter_to_the_cache() -> None:
    @tool(read_only=True, cache_seconds=60)
    async def add(a: int, b: int) -> int:
        return a + b

    run = run_of(add)
    await run.call("add", {"a": 1, "b": 2})
    await run.call("add", {"b": 2, "a": 1})
    await run.call("add", {"a": 2, "b": 1})
    assert [record.cached for record in run.records] == [False, True, False]


async def test_wrong_arguments_are_refused_whatever_the_cache_holds() -> None:
    run = run_of(flaky(read_only=True, cache_seconds=60))
    await run.call("flaky", {"n": 1})
    with pytest.raises(InvalidArguments):
        await run.call("flaky", {"n": True})


async def test_an_error_is_not_cached() -> None:
    run = run_of(flaky(ToolError("no"), read_only=True, cache_seconds=60))
    with pytest.raises(ToolError):
        await run.call("flaky", {})
    assert await run.call("flaky", {}) == "2"


async def test_identical_calls_at_the_same_time_run_once() -> None:
    go, calls = anyio.Event(), 0

    @tool(read_only=True, cache_seconds=60)
    async def slow() -> int:
        nonlocal calls
        calls += 1
        await go.wait()
        return calls

    run = run_of(slow, max_concurrent_calls=1)
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(run.call, "slow", {})
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert calls == 1
    assert sorted(record.cached for record in run.records) == [False, True, True, True, True]


async def test_a_timeout_is_a_timeout_for_the_followers_too() -> None:
    @tool(read_only=True, cache_seconds=60, timeout_seconds=0.01)
    async def slow() -> None:
        await anyio.sleep_forever()

    run = run_of(slow)

    async def call() -> None:
        with pytest.raises(ToolTimedOut):
            await run.call("slow", {})

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        group.start_soon(call)
    assert [record.status for record in run.records] == ["timed_out", "timed_out"]


async def test_a_result_from_the_cache_is_measured_by_the_limits_of_the_run() -> None:
    @tool(read_only=True, cache_seconds=60)
    async def text() -> str:
        return "x" * 100

    gate = Gate(Registry([text]))
    await gate.open(caller="code", limits=Limits()).call("text", {})
    with pytest.raises(ToolError, match="the limit max_message_bytes is 50"):
        await gate.open(caller="code", limits=Limits(max_message_bytes=50)).call("text", {})
