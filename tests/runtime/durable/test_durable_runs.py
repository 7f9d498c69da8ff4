"""Runs in the background: their keys, their ends, and what becomes of calls that were under way."""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import ConfigurationError, Runtime, Tool, ToolError, tool
from callgate.durable.memory import MemoryStore
from callgate.durable.store import Change, Held, StateChange, StoredCall
from callgate.errors import AlreadyDecided, RunNotFound, StoreFailed
from callgate.runtime.durable.host import RunsHost
from callgate.runtime.durable.runs import Runs
from callgate.runtime.gate.journal import CurrentCall, current_call
from runtime.durable.crashed import Diary, as_it_was
from runtime.durable.waiting import becomes, until

pytestmark = pytest.mark.anyio


class Desk:
    """Tools that wait until they may end, and what was called."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.keys: list[CurrentCall] = []
        self.may_end = anyio.Event()
        self.at_work = anyio.Event()

    def tools(self) -> list[Tool]:
        @tool
        async def send(to: str) -> str:
            self.made.append(to)
            self.keys.append(current_call())
            self.at_work.set()
            await self.may_end.wait()
            return f"sent to {to}"

        @tool(idempotent=True)
        async def put(to: str) -> str:
            self.made.append(to)
            self.keys.append(current_call())
            self.at_work.set()
            await self.may_end.wait()
            return f"put to {to}"

        @tool(read_only=True)
        async def get(name: str) -> str:
            self.made.append(name)
            return name

        return [send, put, get]


def opened(desk: Desk, store: Any = None, **options: Any) -> Runtime:
    return Runtime(desk.tools(), sandbox=None, durable=store, **options)


async def crashed(code: str, **options: Any) -> tuple[MemoryStore, str, Desk]:
    """A store whose run was cut off while a tool was at work."""
    diary, desk = Diary(), Desk()
    async with opened(desk, diary) as runtime:
        run = await runtime.start(code, **options)
        with anyio.fail_after(10):
            await desk.at_work.wait()
        store = await as_it_was(diary, len(diary.writes))
        await run.stop()
    return store, run.id, desk


async def test_a_run_in_the_background_needs_no_database() -> None:
    desk = Desk()
    desk.may_end.set()
    async with opened(desk) as runtime:
        run = await runtime.start('done = await send(to="a")\ndone', inputs={"n": 1})
        assert run.status == "running"
        assert run.id.startswith("run_")
        assert run.kind == "code"
        result = await run.wait()
        assert (result.value, run.status) == ("sent to a", "succeeded")
        assert (await (await runtime.runs.get(run.id)).wait()).value == "sent to a"


async def test_a_key_stands_for_one_job() -> None:
    desk = Desk()
    desk.may_end.set()
    async with opened(desk) as runtime:
        first = await runtime.start('await send(to="a")', key="order-17", inputs={"n": 1})
        again = await runtime.start('await send(to="a")', key="order-17", inputs={"n": 1})
        assert first.id == again.id
        assert (await again.wait()).ok
        assert desk.made == ["a"]
        with pytest.raises(ConfigurationError, match="another text: a key stands for one job"):
            await runtime.start('await send(to="b")', key="order-17", inputs={"n": 1})
        with pytest.raises(ConfigurationError, match="which has other inputs"):
            await runtime.start('await send(to="a")', key="order-17", inputs={"n": 2})
        other = await runtime.start('await send(to="c")', key="order-17", belongs_to="bob")
        assert other.id != first.id
        assert (await other.wait()).ok


async def test_who_uses_a_runtime_that_was_left_opens_no_store_and_takes_no_run() -> None:
    store, run, desk = await crashed('await put(to="a")')
    runtime = opened(desk, MemoryStore())
    async with runtime:
        runs, ended = runtime.runs, await runtime.start("1 + 1")
        await ended.wait()
    runtime._runs_host.store = store
    before = await store.find(run)
    for use in (ended.stop, runs.list, runs.pending):
        with pytest.raises(ConfigurationError, match="this runtime was left already"):
            await use()
    assert runtime._runs_host._contexts.loop is None
    assert await store.find(run) == before


async def test_a_command_that_is_refused_for_its_key_does_not_go_on_with_the_run_of_that_key() -> None:
    store, run, desk = await crashed('await put(to="a")', key="order-17")
    before = (await store.find(run)).epoch
    async with opened(desk) as runtime:
        host = RunsHost(runtime, store, serves=False)
        await host.open()
        with pytest.raises(ConfigurationError, match="another text"):
            await Runs(host).start("1 + 1", key="order-17")
        assert (await (await Runs(host).start("1 + 1")).wait()).value == 2
        await host.close()
    assert (await store.find(run)).epoch == before
    assert desk.made == ["a"]


async def test_what_was_at_work_when_the_process_ended_needs_attention_until_it_is_settled() -> None:
    store, run, _ = await crashed('done = await send(to="a")\ndone')
    desk = Desk()
    async with opened(desk, store) as runtime:
        now = await becomes(runtime, await runtime.runs.get(run), "needs_attention")
        assert now.reason == (
            'the process ended while send({"to":"a"}) was at work, and nobody knows whether it was done: '
            "find out, then settle the call"
        )
        (call,) = await runtime.runs.unsettled(run)
        assert (call.tool, call.arguments) == ("send", {"to": "a"})
        with pytest.raises(ConfigurationError, match="takes one of"):
            await runtime.runs.settle(run, call.call)
        await runtime.runs.settle(run, call.call, happened="it was sent")
        result = await now.wait()
        assert result.value == "it was sent"
        assert desk.made == []
        with pytest.raises(AlreadyDecided):
            await runtime.runs.settle(run, call.call, again=True)


async def test_a_settled_call_may_be_made_again_or_fail() -> None:
    for how, value in (({"again": True}, "sent to a"), ({"fail": "it was lost"}, None)):
        store, run, _ = await crashed('done = await send(to="a")\ndone')
        desk = Desk()
        desk.may_end.set()
        async with opened(desk, store) as runtime:
            now = await becomes(runtime, await runtime.runs.get(run), "needs_attention")
            (call,) = await runtime.runs.unsettled(run)
            await runtime.runs.settle(run, call.call, **how)
            result = await now.wait()
        assert result.value == value
        assert desk.made == (["a"] if value else [])
        assert value or (result.error is not None and result.error.message == "it was lost")


async def test_the_program_may_hear_of_an_unknown_outcome_instead() -> None:
    store, run, _ = await crashed('done = await send(to="a")\ndone', on_unknown="raise")
    desk = Desk()
    async with opened(desk, store) as runtime:
        result = await (await runtime.runs.get(run)).wait()
    assert result.error is not None
    assert "the outcome is unknown, find out before you call it again" in str(result.error)
    assert (desk.made, result.calls[0].status) == ([], "unknown_outcome")


async def test_an_idempotent_call_is_made_again_with_the_same_key() -> None:
    store, run, before = await crashed('done = await put(to="a")\ndone')
    desk = Desk()
    desk.may_end.set()
    async with opened(desk, store) as runtime:
        result = await (await runtime.runs.get(run)).wait()
    assert result.value == "put to a"
    assert before.keys == desk.keys == [CurrentCall("put", before.keys[0].idempotency_key, run)]


async def test_a_retry_has_the_same_key_and_another_call_has_another() -> None:
    keys: list[str] = []

    @tool(idempotent=True)
    async def put(n: int) -> int:
        keys.append(current_call().idempotency_key)
        if len(keys) == 1:
            raise ToolError("not yet", retryable=True)
        return n

    @tool(read_only=True)
    def in_a_thread() -> str:
        assert threading.current_thread() is not threading.main_thread()
        assert current_call().run_id is None
        return current_call().idempotency_key

    async with Runtime([put, in_a_thread], sandbox=None) as runtime:
        plan = {"steps": [{"id": n, "tool": "put", "arguments": {"n": 1}} for n in ("a", "b")], "output_steps": ["a"]}
        with anyio.fail_after(10):
            assert (await runtime.execute_tool_plan(plan)).ok
        result = await runtime.execute_code("[await in_a_thread(), await in_a_thread()]")
    assert len(keys) == 3
    assert len(set(keys)) == 2
    assert len(set(result.value)) == 2
    with pytest.raises(ConfigurationError, match="is for a tool's function"):
        current_call()


async def test_a_run_that_is_cancelled_keeps_what_it_did() -> None:
    desk, store = Desk(), MemoryStore()
    async with opened(desk, store) as runtime:
        run = await runtime.start('import asyncio\na = await get(name="a")\nawait send(to="b")')
        with anyio.fail_after(10):
            await desk.at_work.wait()
            await run.stop()
            result = await run.wait()
        assert run.status == "cancelled"
        assert result.error is not None
        assert result.error.kind == "Cancelled"
        assert [(call.tool, call.status) for call in result.calls] == [
            ("get", "succeeded"),
            ("send", "unknown_outcome"),
        ]
        await run.stop()
        with pytest.raises(AlreadyDecided):
            await runtime.runs.cancel(run.id)


async def test_a_run_that_sleeps_can_be_cancelled() -> None:
    @tool(requires_approval=True)
    async def pay(n: int) -> int:
        return n

    async with Runtime([pay], sandbox=None) as runtime:
        run = await runtime.start("await pay(n=1)")
        await becomes(runtime, run, "waiting")
        await runtime.runs.cancel(run.id)
        with anyio.fail_after(10):
            result = await run.wait()
        assert (result.ok, run.status) == (False, "cancelled")
        assert not await runtime.runs.pending()


async def test_a_tool_that_is_gone_needs_attention_and_the_run_goes_on_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callgate.runtime.durable.others.LEAVES_SECONDS", 0.1)
    store, run, _ = await crashed('done = await put(to="a")\ndone')
    desk = Desk()
    desk.may_end.set()
    async with Runtime([desk.tools()[0]], sandbox=None, durable=store) as runtime:
        now = await becomes(runtime, await runtime.runs.get(run), "needs_attention")
        assert now.reason == "the tool 'put' does not exist any more: register it again; then resume the run"
        runtime.registry.add(desk.tools()[1])
        await runtime.runs.resume(run)
        assert (await now.wait()).value == "put to a"


async def test_what_is_kept_is_valid_when_a_schema_has_changed() -> None:
    store, run, _ = await crashed('first = await get(name="a")\ndone = await put(to="a")\n[first, done]')

    @tool(read_only=True)
    async def get(name: str, more: str = "") -> str:
        raise AssertionError

    @tool(idempotent=True)
    async def put(to: str) -> str:
        return "put"

    async with Runtime([get, put], sandbox=None, durable=store) as runtime:
        assert (await (await runtime.runs.get(run)).wait()).value == ["a", "put"]


async def test_another_program_in_the_place_of_a_run_is_told_and_calls_nothing() -> None:
    store, run, _ = await crashed('first = await get(name="a")\ndone = await put(to="a")\n[first, done]')
    row = store._entries[run]
    row.run = replace(row.run, text='first = await get(name="b")\ndone = await put(to="c")\n[first, done]')
    desk = Desk()
    async with opened(desk, store) as runtime:
        with anyio.fail_after(10):
            result = await (await runtime.runs.get(run)).wait()
    assert result.error is not None
    assert result.error.kind == "ReplayDiverged"
    assert desk.made == []
    assert 'had the outcome of get({"name":"a"}) as its event 1, and this run has get({"name":"b"})' in str(
        result.error
    )


class Full(MemoryStore):
    """A store whose disk fills up before a change of that status: by default, before a call with effects."""

    def __init__(self, before: str = "started") -> None:
        super().__init__()
        self._before = before

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        if any(getattr(change, "status", None) == self._before for change in changes):

            async def fails() -> None:
                raise StoreFailed("the disk is full")

            return fails()
        return super().write(held, *changes)


async def test_what_cannot_be_stored_is_not_done() -> None:
    desk = Desk()
    async with opened(desk, Full()) as runtime:
        run = await runtime.start('first = await get(name="a")\nawait send(to="b")')
        with anyio.fail_after(10), pytest.raises(StoreFailed, match="the disk is full"):
            await run.wait()
    assert desk.made == ["a"]


async def test_an_end_that_cannot_be_stored_is_not_told() -> None:
    desk = Desk()
    async with opened(desk, Full("succeeded")) as runtime, anyio.create_task_group() as tasks:
        run = await runtime.start('await send(to="a")')

        async def waits() -> None:
            with anyio.fail_after(10), pytest.raises(StoreFailed, match="the disk is full"):
                await run.wait()

        tasks.start_soon(waits)
        await desk.at_work.wait()
        desk.may_end.set()


async def test_a_run_that_another_process_has_taken_writes_and_calls_nothing_more() -> None:
    desk, store = Desk(), MemoryStore()
    async with opened(desk, store) as runtime:
        run = await runtime.start('a = await put(to="a")\nb = await send(to="b")')
        with anyio.fail_after(10):
            await desk.at_work.wait()
            store._entries[run.id].change(owner="another", epoch=7)
            desk.may_end.set()

            async def let_go() -> bool:
                return not runtime._runs_host._live

            await until(let_go)
    assert desk.made == ["a"]
    assert [call.status for call in store._entries[run.id].calls.values()] == ["started"]


async def test_only_one_of_two_runtimes_runs_a_run() -> None:
    store, desks = MemoryStore(), [Desk(), Desk()]
    for desk in desks:
        desk.may_end.set()
    async with opened(desks[0], store) as one, opened(desks[1], store) as two:
        runs = [await one.start(f'await send(to="{n}")') for n in range(20)]
        with anyio.fail_after(20):
            for run in runs:
                assert (await (await two.runs.get(run.id)).wait()).ok
    assert sorted([*desks[0].made, *desks[1].made], key=int) == [str(n) for n in range(20)]


async def test_arguments_of_start_that_cannot_work_say_what_to_write() -> None:
    async with opened(Desk()) as runtime:
        wrong: list[tuple[str, dict[str, Any]]] = [
            ('on_unknown is "attention" or "raise"', {"on_unknown": "ignore"}),
            ("approval_seconds must be above 0", {"approval_seconds": 0}),
            ("key is a text of 1 to 200 characters", {"key": ""}),
            ("inputs must be JSON", {"inputs": {"x": object()}}),
        ]
        for words, options in wrong:
            with pytest.raises(ConfigurationError, match=words):
                await runtime.start("1", **options)
        with pytest.raises(ConfigurationError, match="a plan has its values in its text"):
            await runtime.start({"steps": []}, inputs={"x": 1})


async def test_a_result_is_the_same_from_the_store() -> None:
    desk, store = Desk(), MemoryStore()
    desk.may_end.set()
    async with opened(desk, store) as runtime:
        run = await runtime.start('print("hello")\ndone = await send(to="a")\n{"done": done}')
        result = await run.wait()
    async with opened(desk, store) as runtime:
        kept = await (await runtime.runs.get(run.id)).wait()
    assert json.dumps(kept.to_dict()) == json.dumps(result.to_dict())
    assert kept.for_model() == result.for_model()


async def test_a_call_that_is_not_made_again_is_not_audited_again(tmp_path: Path) -> None:
    store, run, _ = await crashed('first = await get(name="a")\ndone = await put(to="a")\n[first, done]')
    desk = Desk()
    desk.may_end.set()
    async with opened(desk, store, audit=tmp_path / "audit.jsonl") as runtime:
        assert (await (await runtime.runs.get(run)).wait()).ok
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert {line["tool"] for line in lines if "tool" in line} == {"put"}


async def test_a_runtime_that_is_left_waits_for_calls_with_effects_that_are_at_work() -> None:
    store, desk = MemoryStore(), Desk()
    async with anyio.create_task_group() as tasks, opened(desk, store) as runtime:
        run = await runtime.start('done = await send(to="a")\nmore = await send(to="b")\n[done, more]')
        with anyio.fail_after(10):
            await desk.at_work.wait()
        tasks.start_soon(_later, desk.may_end)
    assert desk.made == ["a"]
    assert store._entries[run.id].run.status == "running"
    async with opened(desk, store) as runtime:
        with anyio.fail_after(10):
            assert (await (await runtime.runs.get(run.id)).wait()).value == ["sent to a", "sent to b"]
    assert desk.made == ["a", "b"]


async def _later(event: anyio.Event) -> None:
    for _ in range(50):
        await anyio.lowlevel.checkpoint()
    event.set()


async def test_a_program_that_corrects_a_run_reuses_its_calls_by_the_id() -> None:
    desk, store = Desk(), MemoryStore()
    desk.may_end.set()
    async with opened(desk, store) as runtime:
        with pytest.raises(RunNotFound):
            await runtime.execute_code("1", after="run_x")
        failed = await runtime.start('done = await send(to="a")\n[][0]')
        assert not (await failed.wait()).ok
    async with opened(desk, store) as runtime:
        mended = await runtime.execute_code('await send(to="a")', after=failed.id)
        assert mended.value == "sent to a"
        assert mended.calls[0].reused
        waiting = await runtime.start('await get(name="x")\nawait send(to="b")', key="x")
        assert desk.made == ["a"]
        await waiting.wait()


class Hasty(MemoryStore):
    """Somebody settles the call in doubt just before its run is put to sleep."""

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        if any(isinstance(change, StateChange) and change.status == "needs_attention" for change in changes):
            entry = self._entries[held.run]
            for key, call in entry.calls.items():
                entry.calls[key] = replace(call, status="waiting")
        return super().write(held, *changes)


async def test_a_call_that_is_settled_while_its_run_goes_to_sleep_is_not_forgotten() -> None:
    store, run, _ = await crashed('done = await send(to="a")\ndone')
    hasty, desk = Hasty(), Desk()
    hasty._entries = store._entries
    desk.may_end.set()
    async with opened(desk, hasty) as runtime:
        with anyio.fail_after(10):
            assert (await (await runtime.runs.get(run)).wait()).value == "sent to a"


async def test_a_fallback_is_part_of_its_call() -> None:
    made: list[str] = []

    @tool(fallback="second")
    async def first(n: int) -> int:
        made.append("first")
        raise ToolError("it is down")

    @tool
    async def second(n: int) -> int:
        made.append("second")
        return n

    @tool(idempotent=True)
    async def last(n: int) -> int:
        made.append("last")
        if made.count("last") == 1:
            await anyio.sleep_forever()
        return n

    diary = Diary()
    tools = [first, second, last]
    async with Runtime(tools, sandbox=None, durable=diary) as runtime:
        run = await runtime.start("a = await first(n=1)\nb = await last(n=2)\n[a, b]")

        async def is_at_work() -> bool:
            return "last" in made

        await until(is_at_work)
        store = await as_it_was(diary, len(diary.writes))
        await run.stop()
    async with Runtime(tools, sandbox=None, durable=store) as runtime:
        with anyio.fail_after(10):
            result = await (await runtime.runs.get(run.id)).wait()
    assert result.value == [1, 2]
    assert made == ["first", "second", "last", "last"]
    assert [(call.tool, call.status, call.fallback_call) for call in result.calls] == [
        ("first", "failed", 2), ("second", "succeeded", None), ("last", "succeeded", None)
    ]  # fmt: skip
    assert result.calls[0].fallback == "second"


class Waited:
    """A write that tells its store when somebody waits for it."""

    def __init__(self, store: WaitedFor, written: Awaitable[None]) -> None:
        self._store = store
        self._written = written

    def __await__(self) -> Any:
        self._store.given = 0
        return self._written.__await__()


class WaitedFor(MemoryStore):
    """A store that counts what it was given since somebody has waited for it."""

    given = most = 0

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        self.given += sum(len(each.outcome or "") for each in changes if isinstance(each, StoredCall))
        self.most = max(self.most, self.given)
        return Waited(self, super().write(held, *changes))


@pytest.mark.parametrize("wait", ["", "await asyncio.sleep(0)"])
async def test_results_that_come_faster_than_they_are_stored_do_not_fill_the_memory(wait: str) -> None:
    @tool(read_only=True)
    async def page(n: int) -> str:
        return "x" * 1_000_000

    store = WaitedFor()
    code = f"import asyncio\nsize = 0\nfor n in range(60):\n    size += len(await page(n))\n    {wait}\nsize"
    async with Runtime([page], durable=store, pool_size=1) as runtime:
        run = await runtime.start(code)
        with anyio.fail_after(60):
            assert (await run.wait()).value == 60_000_000
    assert store.most < 30_000_000  # the fast path has some reads ahead


def test_a_key_that_encrypts_needs_a_file() -> None:
    with pytest.raises(ConfigurationError, match="encryption_key is for durable=FILE: name that file"):
        Runtime([], encryption_key=bytes(32))
