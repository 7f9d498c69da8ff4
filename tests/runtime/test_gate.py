"""The gate: who may call what, with what, how often; and what is recorded and told of it."""

from __future__ import annotations

import contextvars
import json
import logging
import sys
import threading
from typing import Any

import anyio
import pytest

from callgate.errors import ConfigurationError, InvalidArguments, LimitReached, ToolError, ToolNotAllowed, ToolNotFound
from callgate.limits import Limits
from callgate.runtime.gate import Gate, RunGate
from callgate.runtime.gate.calls import CallRecord, weight
from callgate.runtime.gate.events import CallEnded, CallStarted, Event
from callgate.tools import Registry, Tool, tool

pytestmark = pytest.mark.anyio


@tool
async def echo(text: str) -> str:
    return text


@tool(allowed_callers=["direct"])
async def only_direct() -> int:
    return 1


@tool(allowed_callers=[])
async def nobody() -> int:
    return 1


def run_of(*tools: Any, limits: Limits | None = None, **options: Any) -> RunGate:
    return Gate(Registry(tools or [echo])).open(caller="code", limits=limits or Limits(), **options)


def only(run: RunGate) -> CallRecord:
    assert len(run.records) == 1
    return run.records[0]


async def test_a_call_gives_json_text_and_leaves_a_record() -> None:
    run = run_of()
    assert await run.call("echo", {"text": "é"}) == '"é"'
    record = only(run)
    assert (record.id, record.tool, record.arguments, record.caller) == (1, "echo", {"text": "é"}, "code")
    assert (record.status, record.attempts, record.cached, record.error) == ("succeeded", 1, False, None)
    assert record.started_seconds >= 0
    assert record.duration_seconds > 0


async def test_a_sync_tool_runs_in_a_thread_with_the_context_of_the_caller() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    @tool
    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), variable.get()]

    assert await run_of(where).call("where", {}) == '[false,"set"]'


async def test_a_sync_function_that_returns_a_coroutine_is_awaited() -> None:
    @tool
    def lazily(text: str) -> Any:
        return echo(text)

    assert await run_of(lazily).call("lazily", {"text": "x"}) == '"x"'


async def test_an_unknown_tool_is_answered_with_the_nearest_that_may_be_called() -> None:
    run = run_of(echo, only_direct)
    with pytest.raises(ToolNotFound, match=r"^there is no tool 'ecko'; did you mean echo\?$"):
        await run.call("ecko", {})
    with pytest.raises(ToolNotFound, match=r"^there is no tool 'only_direc'$"):
        await run.call("only_direc", {})
    assert [record.status for record in run.records] == ["refused", "refused"]
    assert run.records[0].error == "there is no tool 'ecko'; did you mean echo?"


async def test_suggestions_do_not_cost_the_host_without_end() -> None:
    run = run_of()
    for _ in range(100):
        with pytest.raises(ToolNotFound, match="did you mean"):
            await run.call("ecko", {})
    with pytest.raises(ToolNotFound, match=r"^there is no tool 'ecko'$"):
        await run.call("ecko", {})


async def test_an_endless_name_is_cut_everywhere() -> None:
    run = run_of()
    with pytest.raises(ToolNotFound) as caught:
        await run.call("x" * 1_000_000, {})
    assert len(caught.value.message) < 100
    assert len(only(run).tool) == 256


async def test_a_tool_that_is_not_for_this_caller_is_refused() -> None:
    run = run_of(echo, only_direct, nobody)
    assert [each.name for each in run.tools] == ["echo"]
    with pytest.raises(ToolNotAllowed, match=r"^tool 'only_direct' may not be called by code; it is for: direct$"):
        await run.call("only_direct", {})
    with pytest.raises(ToolNotAllowed, match=r"^tool 'nobody' may not be called by code; nobody may$"):
        await run.call("nobody", {})
    assert {record.status for record in run.records} == {"refused"}


async def test_an_empty_allow_list_means_nothing() -> None:
    run = run_of(allowed=[])
    assert run.tools == []
    with pytest.raises(ToolNotAllowed, match=r"^tool 'echo' is not among the tools that this run may call$"):
        await run.call("echo", {"text": "x"})


async def test_the_allow_list_does_not_open_what_the_tool_forbids() -> None:
    run = run_of(echo, only_direct, allowed=["only_direct"])
    assert run.tools == []
    with pytest.raises(ToolNotAllowed):
        await run.call("only_direct", {})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allowed": ["ecko"]}, r"allowed names the tool 'ecko', which does not exist; did you mean echo\?"),
        ({"allowed": "echo"}, "allowed must be a list of tool names, not the string 'echo'"),
        ({"caller": "model"}, "there is no caller 'model'; the callers are: direct, code, plan"),
    ],
)
def test_a_wrong_allow_list_is_the_operators_mistake(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Gate(Registry([echo])).open(**{"caller": "code", "limits": Limits(), **options})


def test_a_fallback_that_does_not_exist_is_the_operators_mistake() -> None:
    @tool(fallback="ecko")
    def f() -> None: ...

    with pytest.raises(
        ConfigurationError, match=r"tool 'f' names the fallback 'ecko', which does not exist; did you mean echo\?"
    ):
        run_of(echo, f)


async def test_a_tool_that_is_added_later_is_seen_by_later_runs() -> None:
    gate = Gate(Registry([echo]))
    before = gate.open(caller="direct", limits=Limits())
    gate.registry.add(only_direct)
    assert [each.name for each in gate.open(caller="direct", limits=Limits()).tools] == ["echo", "only_direct"]
    assert [each.name for each in before.tools] == ["echo"]


async def test_wrong_arguments_do_not_reach_the_tool() -> None:
    called = False

    @tool
    async def take(n: int) -> None:
        nonlocal called
        called = True

    run = run_of(take)
    with pytest.raises(InvalidArguments, match="tool 'take': argument 'n' must be a valid integer"):
        await run.call("take", {"n": "1"})
    with pytest.raises(
        InvalidArguments, match=r"^tool 'take': the arguments must be an object, got an array of 1 item$"
    ):
        await run.call("take", [1])  # type: ignore[arg-type]
    assert not called
    assert [record.status for record in run.records] == ["refused", "refused"]
    assert [record.attempts for record in run.records] == [0, 0]


async def test_a_validator_that_crashes_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    import pydantic

    class Strange(pydantic.BaseModel):
        x: int

        @pydantic.field_validator("x")
        @classmethod
        def crash(cls, value: int) -> int:
            raise RuntimeError("/etc/secret")

    @tool
    async def take(strange: Strange) -> None: ...

    run = run_of(take)
    with pytest.raises(ToolError) as caught:
        await run.call("take", {"strange": {"x": 1}})
    assert caught.value.message == "tool 'take' failed: an internal error; details are in the host's log"
    assert caught.value.code == -32603
    assert "/etc/secret" in caplog.text


async def test_more_calls_than_allowed_end_the_run() -> None:
    run = run_of(limits=Limits(max_tool_calls=2))
    await run.call("echo", {"text": "x"})
    with pytest.raises(ToolNotFound):
        await run.call("unknown", {})
    with pytest.raises(LimitReached, match=r"^limit reached: max_tool_calls is 2, used 2$"):
        await run.call("echo", {"text": "x"})
    with pytest.raises(LimitReached):
        await run.refuse("echo", None, ToolError("no"))
    assert len(run.records) == 2


async def test_no_more_calls_run_at_once_than_allowed() -> None:
    running, most = 0, 0
    go = anyio.Event()

    @tool
    async def slow(n: int) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go.wait()
        running -= 1

    run = run_of(slow, limits=Limits(max_concurrent_calls=3))
    async with anyio.create_task_group() as group:
        for n in range(10):
            group.start_soon(run.call, "slow", {"n": n})
            await anyio.wait_all_tasks_blocked()
        assert running == 3
        go.set()
    assert most == 3
    assert [record.status for record in run.records] == ["succeeded"] * 10


async def test_calls_that_wait_are_served_in_the_order_of_asking() -> None:
    order: list[int] = []

    @tool
    async def note(n: int) -> None:
        order.append(n)

        await go[n].wait()

    go = [anyio.Event() for _ in range(5)]
    run = run_of(note, limits=Limits(max_concurrent_calls=1))
    async with anyio.create_task_group() as group:
        for n in range(5):
            group.start_soon(run.call, "note", {"n": n})
            await anyio.wait_all_tasks_blocked()
        for n in range(5):
            assert order == list(range(n + 1))
            go[n].set()
            await anyio.wait_all_tasks_blocked()
    assert order == list(range(5))


async def test_a_call_that_is_cancelled_while_it_waits_gives_its_turn_on() -> None:
    go = anyio.Event()
    done: list[int] = []

    @tool
    async def slow(n: int) -> None:
        await go.wait()
        done.append(n)

    run = run_of(slow, limits=Limits(max_concurrent_calls=1))

    async def call(n: int, scope: anyio.CancelScope) -> None:
        with scope:
            await run.call("slow", {"n": n})

    scopes = [anyio.CancelScope() for _ in range(3)]
    async with anyio.create_task_group() as group:
        for n, scope in enumerate(scopes):
            group.start_soon(call, n, scope)
            await anyio.wait_all_tasks_blocked()
        scopes[1].cancel()
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert done == [0, 2]
    assert [record.status for record in run.records] == ["succeeded", "cancelled", "succeeded"]
    assert run.records[1].attempts == 0


async def test_a_turn_that_comes_together_with_the_cancellation_is_not_lost() -> None:
    go = anyio.Event()

    @tool
    async def slow() -> None:
        await go.wait()

    run = run_of(slow, limits=Limits(max_concurrent_calls=1))
    waiter = anyio.CancelScope()

    async def first() -> None:
        await run.call("slow", {})
        waiter.cancel()  # its place has just been handed to the waiter

    async def second() -> None:
        with waiter:
            await run.call("slow", {})

    async with anyio.create_task_group() as group:
        group.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        group.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        go.set()
    with anyio.fail_after(5):
        await run.call("slow", {})


async def test_a_result_that_is_too_large_is_an_error_that_says_so() -> None:
    run = run_of(limits=Limits(max_message_bytes=10))
    assert await run.call("echo", {"text": "12345678"})
    with pytest.raises(
        ToolError, match=r"^tool 'echo': the result is 11 bytes, the limit max_message_bytes is 10: ask for less$"
    ):
        await run.call("echo", {"text": "123456789"})
    with pytest.raises(ToolError, match="the result is 12 bytes"):
        await run.call("echo", {"text": "ééééé"})
    assert [record.status for record in run.records] == ["succeeded", "failed", "failed"]


async def test_events_come_in_pairs_and_at_once() -> None:
    events: list[tuple[str, str, str]] = []

    def on_event(event: Event) -> None:
        assert isinstance(event, (CallStarted, CallEnded))
        events.append((type(event).__name__, event.record.tool, event.record.status))

    run = run_of(on_event=on_event)
    await run.call("echo", {"text": "x"})
    with pytest.raises(ToolNotFound):
        await run.call("unknown", {})
    await run.refuse("late", [], ToolError("not now"))
    assert events == [
        ("CallStarted", "echo", "pending"),
        ("CallEnded", "echo", "succeeded"),
        ("CallStarted", "unknown", "pending"),
        ("CallEnded", "unknown", "refused"),
        ("CallStarted", "late", "pending"),
        ("CallEnded", "late", "refused"),
    ]
    assert run.records[2].error == "not now"


async def test_a_listener_that_raises_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    def on_event(event: Event) -> None:
        raise RuntimeError("broken listener")

    assert await run_of(on_event=on_event).call("echo", {"text": "x"}) == '"x"'
    assert "the on_event callback failed" in caplog.text


async def test_recorded_arguments_do_not_fill_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgate.runtime.gate.run_gate.MAX_RECORDED_BYTES", 2_000)
    run = run_of()
    await run.call("echo", {"text": "x" * 1_000})
    await run.call("echo", {"text": "x" * 1_000})
    assert run.records[0].arguments == {"text": "x" * 1_000}
    assert run.records[1].arguments.startswith("(not kept: ")


def test_the_weight_of_endless_arguments_is_counted_in_bounded_time() -> None:
    ring: list[Any] = []
    ring.append(ring)
    assert weight(ring, 1_000) > 1_000


def test_the_weight_of_a_value_is_its_memory() -> None:
    assert weight(["x" * 10_000], 1_000_000) == pytest.approx(10_000, abs=200)
    assert weight(["x" * 9_999 + "😀"], 1_000_000) == pytest.approx(40_000, abs=200)
    rows = json.loads(json.dumps([{"name": number} for number in range(1000)]))
    assert weight(rows, 1_000_000) == sum(map(sys.getsizeof, [rows, *rows, *range(1000), "name"]))


async def test_the_default_timeout_of_the_run_holds_for_tools_without_one() -> None:
    @tool(read_only=True)
    async def forever() -> None:
        await anyio.sleep_forever()

    run = Gate(Registry([forever])).open(caller="code", limits=Limits(), default_timeout_seconds=0.01)
    with pytest.raises(ToolError, match=r"^tool 'forever' did not answer within 0.01 s$"):
        await run.call("forever", {})


async def test_a_mapping_that_is_no_dict_will_do() -> None:
    from types import MappingProxyType

    assert await run_of().call("echo", MappingProxyType({"text": "x"})) == '"x"'


async def test_a_tool_from_a_schema_passes_the_same_gate() -> None:
    def take(**arguments: Any) -> Any:
        return arguments

    foreign = Tool.from_schema("get-it", "Gets it.", {"properties": {"a-b": {"type": "integer"}}}, take)
    run = run_of(foreign)
    assert await run.call("get-it", {"a-b": 1}) == '{"a-b":1}'
    with pytest.raises(InvalidArguments):
        await run.call("get-it", {"a-b": "1"})


async def test_nothing_is_logged_for_a_call_that_succeeds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "callgate")
    await run_of().call("echo", {"text": "x"})
    assert not [record for record in caplog.records if record.name.startswith("callgate")]
