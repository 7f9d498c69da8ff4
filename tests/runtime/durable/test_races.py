"""What is decided, wished or lost at the worst moment: nothing waits for ever, and nothing is done without a word."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import anyio
import pytest

from callgate import Runtime, Tool, ToolError, tool
from callgate.durable.memory import MemoryStore
from callgate.durable.store import (
    Approval,
    CallKey,
    Change,
    Decision,
    Held,
    Kept,
    RunHistory,
    StateChange,
    StoredRun,
)
from callgate.errors import StoreFailed
from callgate.runtime.durable.parking import Parked, Parking
from runtime.durable.waiting import asked, becomes, until

pytestmark = pytest.mark.anyio

SEND = 'await send(to="a")'


class Post:
    """A tool that needs approval, and one that waits until it may end."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.may_end = anyio.Event()
        self.at_work = anyio.Event()

    def tools(self) -> list[Tool]:
        @tool(requires_approval=True)
        async def send(to: str) -> str:
            self.sent.append(to)
            return f"sent to {to}"

        @tool(read_only=True)
        async def look() -> str:
            self.at_work.set()
            await self.may_end.wait()
            return "seen"

        return [send, look]


def opened(post: Post, store: Any, **options: Any) -> Runtime:
    return Runtime(post.tools(), sandbox=None, durable=store, **options)


def decided(store: MemoryStore, approval: Approval) -> None:
    """Somebody agrees now, in another process."""
    entry = store._entries[approval.run]
    entry.approvals[approval.call] = replace(approval, decision=Decision(granted=True, by="ada", time=1.0))
    entry.untold = True


class Slow(MemoryStore):
    """Somebody agrees as soon as he is asked. The run hears of it, and before it has looked, it is put to sleep."""

    runtime: Runtime

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = False
        self.sleeps = anyio.Event()

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        written = super().write(held, *changes)
        for change in changes:
            if isinstance(change, Approval):
                decided(self, change)
                self.is_slow = True
                self.runtime._runs_host.poke()
            elif isinstance(change, StateChange) and change.status == "waiting":
                self.sleeps.set()
        return written

    async def load(self, run: str) -> RunHistory:
        if self.is_slow:
            await self.sleeps.wait()
        return await super().load(run)


async def test_a_decision_that_comes_while_its_run_goes_to_sleep_wakes_it() -> None:
    store, post = Slow(), Post()
    async with opened(post, store) as store.runtime:
        run = await store.runtime.start(SEND)
        with anyio.fail_after(10):
            assert (await run.wait()).ok
    assert store.sleeps.is_set()
    assert post.sent == ["a"]


class InTime(MemoryStore):
    """Somebody agrees in another process, in the last moment before the question expires; the run has not heard."""

    async def expire(self, held: Held, call: CallKey, decision: Decision) -> Approval:
        decided(self, self._entries[held.run].approvals[call])
        return await super().expire(held, call, decision)


async def test_a_grant_in_the_last_moment_holds() -> None:
    store, post = InTime(), Post()
    async with opened(post, store) as runtime:
        run = await runtime.start(SEND, approval_seconds=0.05)
        with anyio.fail_after(10):
            result = await run.wait()
        assert (result.value, result.error) == ("sent to a", None)
    assert post.sent == ["a"]
    assert [call.approved_by for call in result.calls] == ["ada"]


class Faulty(MemoryStore):
    """Cannot be read for a while, or cannot store the end of a run."""

    def __init__(self) -> None:
        super().__init__()
        self.loads_to_fail = 0
        self.stores_ends = True
        self.is_awaited = anyio.Event()

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        ends = any(isinstance(change, StateChange) and change.status == "succeeded" for change in changes)
        return self._refused() if ends and not self.stores_ends else super().write(held, *changes)

    async def _refused(self) -> None:
        await self.is_awaited.wait()
        raise StoreFailed("the disk is full")

    async def load(self, run: str) -> RunHistory:
        if self.loads_to_fail:
            self.loads_to_fail -= 1
            raise StoreFailed("the disk is away")
        return await super().load(run)


async def test_nobody_is_told_a_result_that_could_not_be_stored() -> None:
    store = Faulty()
    store.stores_ends = False
    async with opened(Post(), store) as runtime:
        run = await runtime.start("1 + 1")

        async def ends() -> bool:
            live = runtime._runs_host._live[run.id]
            return live is not None and live.result is not None

        async with anyio.create_task_group() as tasks:

            async def wait() -> None:
                with anyio.fail_after(10), pytest.raises(StoreFailed, match="the disk is full"):
                    await run.wait()

            tasks.start_soon(wait)
            await until(ends)
            store.is_awaited.set()


async def test_a_run_that_cannot_be_told_of_a_decision_is_told_again() -> None:
    store, post = Faulty(), Post()
    async with opened(post, store) as runtime:
        run = await runtime.start("import asyncio\nboth = await asyncio.gather(look(), send(to='a'))\nboth")
        await asked(runtime)
        (approval,) = store._entries[run.id].approvals.values()
        store.loads_to_fail = 1
        decided(store, approval)
        runtime._runs_host.poke()

        async def is_sent() -> bool:
            return post.sent == ["a"]

        await until(is_sent, 5)
        post.may_end.set()
        assert (await run.wait()).value == ["seen", "sent to a"]


async def test_a_run_that_could_not_be_read_when_it_was_taken_can_be_resumed() -> None:
    store, post = Faulty(), Post()
    store.loads_to_fail = 1
    async with opened(post, store) as runtime:
        run = await runtime.start("1 + 1")
        with anyio.fail_after(10):
            with pytest.raises(StoreFailed, match="the disk is away"):
                await run.wait()
            resumed = await runtime.runs.resume(run.id)
            assert (await resumed.wait()).value == 2


async def test_a_run_whose_row_makes_no_sense_harms_no_other_run() -> None:
    store, post = MemoryStore(), Post()
    async with opened(post, store) as runtime:
        asleep = await runtime.start(SEND)
        await becomes(runtime, asleep, "waiting")
        store._entries[asleep.id].change(options="{}", cancelled=True)
        runtime._runs_host.poke()
        await becomes(runtime, asleep, "needs_attention")
        with anyio.fail_after(10):
            assert (await (await runtime.start("1 + 1")).wait()).value == 2


async def test_a_run_that_is_resumed_while_there_is_no_room_goes_on_later() -> None:
    store, post = MemoryStore(), Post()
    async with opened(post, store, max_guests=1) as runtime:
        asleep = await runtime.start(SEND)
        await becomes(runtime, asleep, "waiting")
        store._entries[asleep.id].change(status="needs_attention", wake_at=None)
        busy = await runtime.start("await look()")
        with anyio.fail_after(10):
            await post.at_work.wait()
            await runtime.runs.resume(asleep.id)
            post.may_end.set()
            assert (await busy.wait()).ok
            await becomes(runtime, asleep, "waiting")


class Thorough(MemoryStore):
    """Reads what is kept of a run, and then takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = anyio.Event()
        self.goes_on = anyio.Event()

    async def load(self, run: str) -> RunHistory:
        history = await super().load(run)
        self.loaded.set()
        await self.goes_on.wait()
        return history


async def test_a_run_that_is_cancelled_while_it_is_being_loaded_ends() -> None:
    store = Thorough()
    async with opened(Post(), store) as runtime:
        run = await runtime.start("await look()")
        with anyio.fail_after(10):
            await store.loaded.wait()
            await run.stop()

            async def is_heard() -> bool:
                return not store._entries[run.id].untold

            await until(is_heard)
            store.goes_on.set()
            await run.wait()
        assert run.status == "cancelled"


class Patient(MemoryStore):
    """Adds a run, and then takes its time."""

    def __init__(self) -> None:
        super().__init__()
        self.added = anyio.Event()
        self.goes_on = anyio.Event()

    async def add(self, run: StoredRun, *, takes: bool = False) -> Kept:
        kept = await super().add(run, takes=takes)
        self.added.set()
        await self.goes_on.wait()
        return kept


async def test_a_run_whose_caller_is_cancelled_while_it_is_started_runs_all_the_same() -> None:
    store = Patient()
    async with opened(Post(), store) as runtime, anyio.create_task_group() as tasks:
        caller = anyio.CancelScope()

        async def start() -> None:
            with caller:
                await runtime.start("1 + 1", key="job")

        tasks.start_soon(start)
        with anyio.fail_after(10):
            await store.added.wait()
            caller.cancel()
            store.goes_on.set()
            assert (await (await runtime.start("1 + 1", key="job")).wait()).value == 2


async def test_the_answer_to_the_question_about_one_fallback_does_not_count_for_another() -> None:
    made: list[str] = []

    @tool(fallback="pay", read_only=True)
    async def credit(euros: int) -> str:
        raise ToolError("it is down")

    @tool(requires_approval=True)
    async def pay(euros: int) -> str:
        made.append(f"paid {euros}")
        return "paid"

    store = MemoryStore()
    program = "one = await credit(euros=5)\ntwo = await credit(euros=5)\n[one, two]"
    async with Runtime([credit, pay], sandbox=None, durable=store) as runtime:
        run = await runtime.start(program)
        (call,) = await asked(runtime)
        await becomes(runtime, run, "waiting")
        await runtime.runs.approve(run.id, call.call)
        (second,) = await asked(runtime)
        assert second.call != call.call
        await becomes(runtime, run, "waiting")
    async with Runtime([credit, pay], sandbox=None, durable=store) as runtime:
        epoch = store._entries[run.id].run.epoch
        await runtime.runs.resume(run.id)

        async def rests_again() -> bool:
            return store._entries[run.id].run.epoch > epoch and not runtime._runs_host._live

        await until(rests_again)
        assert made == ["paid 5"]
        await runtime.runs.approve(run.id, second.call)
        with anyio.fail_after(10):
            assert (await (await runtime.runs.get(run.id)).wait()).value == ["paid", "paid"]
    assert made == ["paid 5", "paid 5"]


async def test_a_tool_that_failed_is_not_called_again_when_its_run_slept_until_somebody_agreed_to_the_fallback() -> (
    None
):
    made: list[str] = []

    @tool(fallback="pay")
    async def charge(euros: int) -> str:
        made.append(f"charged {euros}")
        raise ToolError("the card was declined")

    @tool(requires_approval=True)
    async def pay(euros: int) -> str:
        made.append(f"paid {euros}")
        return "paid"

    store = MemoryStore()
    async with Runtime([charge, pay], sandbox=None, durable=store) as runtime:
        run = await runtime.start("await charge(euros=5)")
        (call,) = await asked(runtime)
        await becomes(runtime, run, "waiting")
    async with Runtime([charge, pay], sandbox=None, durable=store) as runtime:
        await runtime.runs.approve(run.id, call.call)
        with anyio.fail_after(10):
            result = await (await runtime.runs.get(run.id)).wait()
    assert result.ok
    assert made == ["charged 5", "paid 5"]
    assert [(each.tool, each.status, each.error) for each in result.calls] == [
        ("charge", "failed", "the card was declined"), ("pay", "succeeded", None)
    ]  # fmt: skip


async def test_names_of_calls_are_too_long_to_seek_two_calls_of_one_name() -> None:
    async with opened(Post(), MemoryStore()) as runtime:
        await runtime.start(SEND)
        (call,) = await asked(runtime)
    assert len(bytes.fromhex(call.call.partition("-")[0])) * 8 >= 128


def test_a_run_that_is_left_before_the_turn_of_a_call_is_not_asleep() -> None:
    parking = Parking(lambda tool, given: given)
    parking.calls[CallKey(b"1" * 32, 0)] = Parked("send", {}, "approval", 5.0)
    assert parking.pause(None).status == "waiting"
    parking.calls[CallKey(b"2" * 32, 0)] = Parked("look", {}, "turn")
    assert parking.pause(None).status == "running"
