"""Calls that wait for a person for longer than their process lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from callgate import Allow, Runtime, Tool, tool
from callgate.durable.memory import MemoryStore
from callgate.errors import AlreadyDecided, InvalidArguments, RunNotFound
from callgate.runtime.durable.host import RunsHost
from callgate.runtime.durable.pending import PendingCall, call_name
from callgate.runtime.durable.runs import Runs
from durable.stored import run as stored_run
from runtime.durable.waiting import asked, becomes, until

pytestmark = pytest.mark.anyio

REFUND = "paid = await refund(order=17, euros=20)\npaid"


class Till:
    """A tool that needs approval, and one that does not."""

    def __init__(self, description: str = "Pay money back.") -> None:
        self.paid: list[tuple[int, int]] = []
        self.read = 0
        self.description = description

    def tools(self) -> list[Tool]:
        @tool(requires_approval=True, description=self.description)
        async def refund(order: int, euros: int) -> str:
            self.paid.append((order, euros))
            return f"{euros} for {order}"

        @tool(read_only=True)
        async def look(order: int) -> int:
            self.read += 1
            return order

        return [refund, look]


def opened(till: Till, store: Any = None, **options: Any) -> Runtime:
    return Runtime(till.tools(), sandbox=None, durable=store or MemoryStore(), **options)


async def test_a_run_that_waits_for_an_approval_is_nowhere_in_its_process_and_goes_on_in_another() -> None:
    store, till = MemoryStore(), Till()
    async with opened(till, store) as runtime:
        run = await runtime.start(f"seen = await look(order=17)\n{REFUND}")
        sleeping = await becomes(runtime, run, "waiting")
        assert sleeping.reason == 'waits for the approval of refund({"euros":20,"order":17})'
        assert runtime._runs_host._live == {}
        (call,) = await runtime.runs.pending()
        assert (call.tool, call.arguments, call.run) == ("refund", {"order": 17, "euros": 20}, run.id)
        assert call.asked is not None
        assert call.expires == pytest.approx(call.asked + 7 * 24 * 3600)
    async with opened(till, store) as runtime:
        await runtime.runs.approve(run.id, call.call, by="ada")
        result = await (await runtime.runs.get(run.id)).wait()
    assert result.ok
    assert result.value == "20 for 17"
    assert (till.paid, till.read) == ([(17, 20)], 1)
    assert [(each.tool, each.replayed, each.approved_by) for each in result.calls] == [
        ("look", True, ""), ("refund", False, "ada")
    ]  # fmt: skip


async def test_a_denial_reaches_the_program_and_says_why() -> None:
    till = Till()
    async with opened(till) as runtime:
        run = await runtime.start(REFUND)
        (call,) = await asked(runtime)
        await runtime.runs.deny(run.id, call.call, by="ada", reason="too much")
        result = await run.wait()
    assert result.error is not None
    assert till.paid == []
    assert result.error.message == "the call of tool 'refund' was denied: too much"
    assert (result.calls[0].status, result.calls[0].approved_by) == ("denied", "ada")


async def test_a_process_that_serves_no_others_goes_on_with_its_run_among_many_that_nobody_takes() -> None:
    store, till = MemoryStore(), Till()
    for n in range(1_001):
        await store.add(stored_run(f"r{n}"))
    async with opened(till) as runtime:
        host = RunsHost(runtime, store, serves=False)
        await host.open()
        run = await Runs(host).start(REFUND)
        assert await run.rest() is None
        (call,) = await Runs(host).pending(run=run.id)
        await Runs(host).approve(run.id, call.call, by="ada")
        with anyio.fail_after(10):
            assert (await run.wait()).ok
        await host.close()
    assert till.paid == [(17, 20)]


async def test_a_question_that_nobody_answers_in_time_is_a_denial() -> None:
    till = Till()
    async with opened(till) as runtime:
        run = await runtime.start(REFUND, approval_seconds=0.05)
        with anyio.fail_after(10):
            result = await run.wait()
        assert result.error is not None
        assert "nobody answered before the question expired" in result.error.message
        assert till.paid == []
        assert not await runtime.runs.pending()
        (asked_before,) = (await runtime._runs_host.store.load(run.id)).approvals
        with pytest.raises(AlreadyDecided, match=r"the approval of refund expired at .* UTC; nothing was decided"):
            await runtime.runs.approve(run.id, call_name(asked_before.call), by="ada")


async def test_a_question_expires_while_another_call_is_at_work() -> None:
    till, may_end = Till(), anyio.Event()

    @tool
    async def hold() -> str:
        await may_end.wait()
        return "held"

    async with Runtime([*till.tools(), hold], sandbox=None, durable=MemoryStore()) as runtime:
        plan = {
            "steps": [
                {"id": "paid", "tool": "refund", "arguments": {"order": 17, "euros": 20}},
                {"id": "held", "tool": "hold"},
            ]
        }
        run = await runtime.start(plan, approval_seconds=0.3)

        async def has_expired() -> bool:
            questions = (await runtime._runs_host.store.load(run.id)).approvals
            return any(question.decision is not None for question in questions)

        await until(has_expired)
        assert (await runtime.runs.get(run.id)).status == "running"
        may_end.set()
        with anyio.fail_after(10):
            result = await run.wait()
    assert till.paid == []
    assert {call.tool: call.status for call in result.calls} == {"refund": "denied", "hold": "succeeded"}


async def test_an_edited_approval_is_validated_at_once_and_again_when_the_run_goes_on() -> None:
    till, store = Till(), MemoryStore()
    async with opened(till, store) as runtime:
        run = await runtime.start(f"{REFUND}\nmore = await refund(order=18, euros=1)\n[paid, more]")
        (call,) = await asked(runtime)
        with pytest.raises(InvalidArguments):
            await runtime.runs.approve(run.id, call.call, arguments={"order": "seventeen"})
        await runtime.runs.approve(run.id, call.call, by="ada", arguments={"order": 17, "euros": 5})

        async def another() -> PendingCall | None:
            return next((each for each in await runtime.runs.pending() if each.call != call.call), None)

        second = await until(another)
        assert second is not None
        await becomes(runtime, run, "waiting")
        await runtime.runs.approve(run.id, second.call)
        result = await run.wait()
    assert result.value == ["5 for 17", "1 for 18"]
    assert till.paid == [(17, 5), (18, 1)]
    first = result.calls[0]
    assert first.replayed
    assert first.arguments == {"order": 17, "euros": 20}
    assert (first.changed_arguments, first.approval, first.approved_by) == ({"order": 17, "euros": 5}, "changed", "ada")


async def test_several_calls_of_one_run_wait_together() -> None:
    till = Till()
    code = "import asyncio\nawait asyncio.gather(*[refund(order=n, euros=1) for n in range(3)])"
    async with opened(till) as runtime:
        run = await runtime.start(code)
        calls = await asked(runtime, 3)
        now = await becomes(runtime, run, "waiting")
        assert now.reason is not None
        assert now.reason.endswith("and 2 more")
        for call in calls:
            await runtime.runs.approve(run.id, call.call)
        result = await run.wait()
    assert result.value == ["1 for 0", "1 for 1", "1 for 2"]
    assert sorted(till.paid) == [(0, 1), (1, 1), (2, 1)]


async def test_two_who_decide_at_once_are_told_what_holds() -> None:
    till = Till()
    async with opened(till) as runtime:
        run = await runtime.start(REFUND)
        (call,) = await asked(runtime)
        await runtime.runs.approve(run.id, call.call, by="ada")
        with pytest.raises(AlreadyDecided, match="granted by ada"):
            await runtime.runs.deny(run.id, call.call, by="bob")
        assert (await run.wait()).ok


async def test_a_tool_whose_description_has_changed_is_asked_about_again() -> None:
    store = MemoryStore()
    async with opened(Till(), store) as runtime:
        run = await runtime.start(REFUND)
        (call,) = await asked(runtime)
        await becomes(runtime, run, "waiting")
    till = Till("Pay ten times as much back.")
    await store.decide(run.id, next(iter(store._entries[run.id].approvals)), _yes())
    async with opened(till, store) as runtime:
        (again,) = await asked(runtime)
        assert again.call == call.call
        assert till.paid == []
        await becomes(runtime, run, "waiting")
        await runtime.runs.approve(run.id, again.call)
        assert (await (await runtime.runs.get(run.id)).wait()).ok
    assert till.paid == [(17, 20)]


def _yes() -> Any:
    import time

    from callgate.durable.store import Decision

    return Decision(granted=True, by="ada", time=time.time())


async def test_a_function_that_approves_is_asked_instead_of_the_list() -> None:
    till = Till()
    async with opened(till, approve=lambda request: Allow(by="policy")) as runtime:
        result = await (await runtime.start(REFUND)).wait()
        assert result.ok
        assert result.calls[0].approved_by == "policy"


async def test_a_step_of_a_plan_waits_while_the_others_go_on() -> None:
    till = Till()
    plan = {
        "steps": [
            {"id": "pay", "tool": "refund", "arguments": {"order": 1, "euros": 2}},
            {"id": "look", "tool": "look", "arguments": {"order": 1}},
            {"id": "again", "tool": "look", "arguments": {"order": "$ref:look"}, "after": ["pay"]},
        ],
        "output_steps": ["pay", "again"],
    }
    async with opened(till) as runtime:
        run = await runtime.start(plan)
        (call,) = await asked(runtime)
        await becomes(runtime, run, "waiting")
        assert till.read == 1
        await runtime.runs.approve(run.id, call.call)
        result: Any = await run.wait()
    assert result.ok
    assert result.outputs == {"pay": "2 for 1", "again": 1}
    assert till.read == 2


async def test_a_client_sees_its_own_runs_alone() -> None:
    async with opened(Till()) as runtime:
        run = await runtime.start(REFUND, belongs_to="ada")
        (call,) = await asked(runtime)
        mine, other = runtime.runs.of("ada"), runtime.runs.of("bob")
        assert [each.id for each in await mine.list()] == [run.id]
        assert not await other.list()
        assert len(await mine.pending()) == 1
        assert not await other.pending()
        acts: list[Callable[[], Any]] = [
            lambda: other.get(run.id), lambda: other.cancel(run.id), lambda: other.resume(run.id),
            lambda: other.approve(run.id, call.call), lambda: other.unsettled(run.id),
        ]  # fmt: skip
        for act in acts:
            with pytest.raises(RunNotFound, match="there is no run"):
                await act()
        await mine.approve(run.id, call.call)
        assert (await run.wait()).ok


IN_GUEST = """
import asyncio
print("before")
class Paid(Exception):
    pass
try:
    paid = await refund(order=17, euros=20)
except ToolError as error:
    paid = error.message
await asyncio.sleep(3600 if paid == "wait" else 0)
paid
"""


@pytest.mark.slow
async def test_a_program_that_waits_for_an_approval_has_no_process() -> None:
    till = Till()
    async with Runtime(till.tools(), pool_size=0) as runtime:
        run = await runtime.start(IN_GUEST)
        (call,) = await asked(runtime)
        await becomes(runtime, run, "waiting")
        assert (runtime._runs_host._live, runtime._pool.in_use) == ({}, 0)
        await runtime.runs.deny(run.id, call.call, reason="no")
        with anyio.fail_after(20):
            result = await run.wait()
    assert result.value == "the call of tool 'refund' was denied: no"
    assert result.logs == "before\n"


WAITS = "import asyncio, time\nbegan = time.time()\nawait asyncio.sleep({seconds})\nround(time.time() - began, 1)"


@pytest.mark.slow
async def test_a_program_that_waits_for_a_far_time_sleeps_until_then() -> None:
    store = MemoryStore()
    async with Runtime([], pool_size=0, durable=store) as runtime:
        run = await runtime.start(WAITS.format(seconds=7200))
        now = await becomes(runtime, run, "waiting")
        row = await store.find(run.id)
        assert now.reason == "waits for a time"
        assert row.wake_at == pytest.approx(row.created + 7200, abs=20)
        assert runtime._runs_host._live == {}


@pytest.mark.slow
async def test_a_program_that_has_slept_goes_on_when_its_time_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgate.runtime.durable.guest.FAR_SECONDS", 0.1)
    async with Runtime([], pool_size=0) as runtime:
        run = await runtime.start(WAITS.format(seconds=1.5))
        await becomes(runtime, run, "waiting")
        with anyio.fail_after(30):
            result = await run.wait()
    assert result.value >= 1.5
    assert result.usage.wall_seconds < 1.5


async def test_a_reason_shows_no_secret() -> None:
    @tool(requires_approval=True)
    async def login(user: str, password: str) -> str:
        return user

    async with Runtime([login], sandbox=None) as runtime:
        run = await runtime.start('await login(user="ada", password="hunter2")')
        now = await becomes(runtime, run, "waiting")
        assert now.reason is not None
        assert "ada" in now.reason
        assert "hunter2" not in now.reason
        await run.stop()
