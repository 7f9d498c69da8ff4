"""The gate: who may call what, with what, how often; and what is recorded and told of it."""

from __future__ import annotations

import contextvars
import json
import logging
import sys
import threading
from types import MappingProxyType
from typing import Any

import anyio
import pytest

from callgate.errors import ConfigurationError, InvalidArguments, LimitReached, ToolError, ToolNotAllowed, ToolNotFound
from callgate.limits import Limits
from callgate.runtime.gate import Gate
from callgate.runtime.gate.arguments import weight
from callgate.runtime.gate.events import CallEnded, CallStarted, Event
from callgate.tools import Registry, Tool, tool
from runtime.gated import echo, failure_of, opened, run_of

pytestmark = pytest.mark.anyio


@tool(allowed_callers=["direct"])
async def only_direct() -> int:
    return 1


@tool(allowed_callers=[])
async def nobody() -> int:
    return 1


@tool
async def take(n: int) -> None:
    raise AssertionError("the gate let the call through")


NO_INTEGER = "tool 'take': argument 'n' must be a valid integer, got true (a boolean)"
FOREIGN = Tool.from_schema("get-it", "Gets it.", {"properties": {"a-b": {"type": "integer"}}}, lambda **given: given)


async def test_a_call_gives_json_text_and_leaves_a_record(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "callgate")
    run = run_of(echo)
    assert await run.call("echo", {"text": "é"}) == '"é"'
    [record] = run.records
    assert (record.id, record.tool, record.arguments, record.caller) == (1, "echo", {"text": "é"}, "code")
    assert (record.status, record.attempts, record.cached, record.error) == ("succeeded", 1, False, None)
    assert record.started_seconds >= 0
    assert record.duration_seconds > 0
    assert not [each for each in caplog.records if each.name.startswith("callgate")]


async def test_a_mapping_will_do_and_so_does_a_tool_from_a_schema() -> None:
    run = run_of(echo, FOREIGN)
    assert await run.call("echo", MappingProxyType({"text": "x"})) == '"x"'
    assert await run.call("get-it", {"a-b": 1}) == '{"a-b":1}'


async def test_a_sync_tool_runs_in_a_thread_with_the_context_of_the_caller() -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")

    @tool
    def where() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), variable.get()]

    @tool
    def lazily(text: str) -> Any:
        return echo(text)

    run = run_of(where, lazily)
    assert await run.call("where", {}) == '[false,"set"]'
    assert await run.call("lazily", {"text": "a coroutine is awaited"}) == '"a coroutine is awaited"'


@pytest.mark.parametrize(
    ("allowed", "name", "arguments", "kind", "message"),
    [
        (None, "ecko", {}, ToolNotFound, "there is no tool 'ecko'; did you mean echo?"),
        (None, "only_direc", {}, ToolNotFound, "there is no tool 'only_direc'"),
        (None, "x" * 1_000_000, {}, ToolNotFound, f"there is no tool '{'x' * 60}'"),
        (None, "only_direct", {}, ToolNotAllowed, "tool 'only_direct' may not be called by code; it is for: direct"),
        (None, "nobody", {}, ToolNotAllowed, "tool 'nobody' may not be called by code; nobody may"),
        (["only_direct"], "only_direct", {}, ToolNotAllowed, None),
        ([], "take", {"n": 1}, ToolNotAllowed, "tool 'take' is not among the tools that this run may call"),
        (None, "take", {"n": True}, InvalidArguments, NO_INTEGER),
        (None, "take", [1], InvalidArguments, "tool 'take': the arguments must be an object, got an array of 1 item"),
        (None, "get-it", {"a-b": "1"}, InvalidArguments, None),
    ],
)  # fmt: skip
async def test_what_may_not_be_called_so_is_refused_and_the_tool_never_called(
    allowed: Any, name: str, arguments: Any, kind: type[ToolError], message: str | None
) -> None:
    gate = Gate(Registry([echo, take, only_direct, nobody, FOREIGN]))
    run = gate.open(caller="code", limits=Limits(), allowed=allowed)
    assert [each.name for each in run.offer.tools] == (["echo", "get-it", "take"] if allowed is None else [])
    error = await failure_of(run, name, arguments)
    assert type(error) is kind
    assert message in (None, error.message)
    [record] = run.records
    assert (record.status, record.attempts, record.error, record.tool) == ("refused", 0, error.message, name[:256])


async def test_suggestions_do_not_cost_the_host_without_end() -> None:
    run = run_of(echo)
    messages = [(await failure_of(run, "ecko")).message for _ in range(101)]
    assert all("did you mean" in message for message in messages[:100])
    assert messages[100] == "there is no tool 'ecko'"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allowed": ["ecko"]}, r"allowed names the tool 'ecko', which does not exist; did you mean echo\?"),
        ({"allowed": "echo"}, "tools are named by text"),
        ({"caller": "model"}, "there is no caller 'model'; the callers are: direct, code, plan"),
        ({}, r"tool 'f' names the fallback 'ecko', which does not exist; did you mean echo\?"),
    ],
)
def test_wrong_names_are_the_operators_mistake(options: dict[str, Any], message: str) -> None:
    @tool(fallback="ecko")
    def f() -> None: ...

    with pytest.raises(ConfigurationError, match=message):
        Gate(Registry([echo] if options else [echo, f])).open(**{"caller": "code", "limits": Limits(), **options})


async def test_a_tool_that_is_added_later_is_seen_by_later_runs() -> None:
    gate = Gate(Registry([echo]))
    before = opened(gate, "direct")
    gate.registry.add(only_direct)
    assert [each.name for each in opened(gate, "direct").offer.tools] == ["echo", "only_direct"]
    assert [each.name for each in before.offer.tools] == ["echo"]


async def test_more_calls_than_allowed_end_the_run() -> None:
    run = run_of(echo, max_tool_calls=2)
    await run.call("echo", {"text": "x"})
    await failure_of(run, "unknown")
    with pytest.raises(LimitReached, match=r"^limit reached: max_tool_calls is 2, used 2$"):
        await run.call("echo", {"text": "x"})
    with pytest.raises(LimitReached):
        await run.record_cancelled("echo", None)
    assert len(run.records) == 2


async def test_no_more_calls_run_at_once_than_allowed_and_the_others_go_on_in_the_order_of_asking() -> None:
    order: list[int] = []
    go = [anyio.Event() for _ in range(8)]

    @tool
    async def note(n: int) -> None:
        order.append(n)
        await go[n].wait()

    run = run_of(note, max_concurrent_calls=3)
    async with anyio.create_task_group() as group:
        for n in range(8):
            group.start_soon(run.call, "note", {"n": n})
            await anyio.wait_all_tasks_blocked()
        for n in range(8):
            assert order == list(range(min(n + 3, 8)))
            go[n].set()
            await anyio.wait_all_tasks_blocked()
    assert [record.status for record in run.records] == ["succeeded"] * 8


@pytest.mark.parametrize("late", [False, True], ids=["while it waits", "when its turn has just come"])
async def test_the_turn_of_a_call_that_is_cancelled_is_not_lost(late: bool) -> None:
    go, waiter = anyio.Event(), anyio.CancelScope()

    @tool
    async def slow() -> None:
        await go.wait()

    run = run_of(slow, max_concurrent_calls=1)

    async def first() -> None:
        await run.call("slow", {})
        waiter.cancel()

    async def second() -> None:
        with waiter:
            await run.call("slow", {})

    async with anyio.create_task_group() as group:
        for call in (first, second):
            group.start_soon(call)
            await anyio.wait_all_tasks_blocked()
        if not late:
            waiter.cancel()
            await anyio.wait_all_tasks_blocked()
        go.set()
    with anyio.fail_after(5):
        await run.call("slow", {})
    assert [record.status for record in run.records[::2]] == ["succeeded"] * 2
    assert late or (run.records[1].status, run.records[1].attempts) == ("cancelled", 0)


async def test_a_result_that_is_too_large_is_an_error_that_says_so() -> None:
    run = run_of(echo, max_message_bytes=10)
    assert await run.call("echo", {"text": "12345678"})
    told = "tool 'echo': the result is 11 bytes, the limit max_message_bytes is 10: ask for less"
    assert (await failure_of(run, "echo", {"text": "123456789"})).message == told
    assert "the result is 12 bytes" in (await failure_of(run, "echo", {"text": "ééééé"})).message
    assert [record.status for record in run.records] == ["succeeded", "failed", "failed"]


async def test_events_come_in_pairs_and_at_once(caplog: pytest.LogCaptureFixture) -> None:
    events: list[tuple[str, str, str]] = []

    def on_event(event: Event) -> None:
        assert isinstance(event, (CallStarted, CallEnded))
        events.append((type(event).__name__, event.record.tool, event.record.status))
        raise RuntimeError("broken listener")

    run = Gate(Registry([echo])).open(caller="code", limits=Limits(), on_event=on_event)
    assert await run.call("echo", {"text": "x"}) == '"x"'
    await failure_of(run, "unknown")
    await run.record_cancelled("never", {})
    ends = {"echo": "succeeded", "unknown": "refused", "never": "cancelled"}
    assert events == [
        each for name, end in ends.items() for each in (("CallStarted", name, "pending"), ("CallEnded", name, end))
    ]
    assert run.records[-1].error == "the call was cancelled before it had begun"
    assert "the on_event callback failed" in caplog.text


def test_only_the_gate_of_a_durable_run_names_calls() -> None:
    run = run_of(echo)
    assert run.durable is None
    assert not hasattr(run, "key_of")
    assert not hasattr(run, "consumed")


async def test_recorded_arguments_do_not_fill_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgate.runtime.gate.recording.MAX_RECORDED_BYTES", 2_000)
    run = run_of(echo)
    for _ in range(2):
        await run.call("echo", {"text": "x" * 1_000})
    assert run.records[0].arguments == {"text": "x" * 1_000}
    assert run.records[1].arguments.startswith("(not kept: ")


def test_the_weight_of_a_value_is_its_memory_and_is_counted_in_bounded_time() -> None:
    assert weight(["x" * 10_000], 1_000_000) == pytest.approx(10_000, abs=200)
    assert weight(["x" * 9_999 + "😀"], 1_000_000) == pytest.approx(40_000, abs=200)
    rows = json.loads(json.dumps([{"name": number} for number in range(1000)]))
    assert weight(rows, 1_000_000) == sum(map(sys.getsizeof, [rows, *rows, *range(1000), "name"]))
    ring: list[Any] = []
    ring.append(ring)
    assert weight(ring, 1_000) > 1_000
