"""The result cache: bounds, age, single flight; what ends results that were read."""

from __future__ import annotations

import threading
from typing import Any

import anyio
import anyio.to_thread
import pytest

from callgate import Runtime, Tool, tool
from callgate.errors import ToolError, ToolTimedOut
from callgate.runtime.gate.cache import ResultCache, depends_on_the_caller, keeping_reads

pytestmark = pytest.mark.anyio


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Counter:
    """Makes a new text each time."""

    def __init__(self, text: str = "") -> None:
        self.runs = 0
        self.text = text

    async def __call__(self) -> str:
        self.runs += 1
        return self.text or str(self.runs)


async def test_a_text_is_made_once_and_then_kept() -> None:
    cache, make = ResultCache(), Counter()
    assert await cache.get_or_run("a", 5, make) == ("1", False)
    assert await cache.get_or_run("a", 5, make) == ("1", True)
    assert await cache.get_or_run("b", 5, make) == ("2", False)


async def test_a_text_grows_old() -> None:
    clock, make = Clock(), Counter()
    cache = ResultCache(clock=clock)
    await cache.get_or_run("a", 5, make)
    clock.now = 4.9
    assert (await cache.get_or_run("a", 5, make))[1]
    clock.now = 5.0
    assert await cache.get_or_run("a", 5, make) == ("2", False)
    assert len(cache.kept) == 1


async def test_the_least_recently_used_goes_first() -> None:
    cache, make = ResultCache(max_entries=2), Counter()
    for key in "ab":
        await cache.get_or_run(key, 5, make)
    await cache.get_or_run("a", 5, make)
    await cache.get_or_run("c", 5, make)
    assert (await cache.get_or_run("a", 5, make))[1]
    assert not (await cache.get_or_run("b", 5, make))[1]


async def test_bytes_are_bounded_and_counted() -> None:
    cache = ResultCache(max_bytes=10)
    await cache.get_or_run("a", 5, Counter("x" * 6))
    assert cache.kept.bytes == 7
    await cache.get_or_run("b", 5, Counter("1234"))
    assert (cache.kept.bytes, len(cache.kept)) == (5, 1)
    await cache.get_or_run("c", 5, Counter("x" * 10))
    assert (cache.kept.bytes, len(cache.kept)) == (5, 1)
    wide = ResultCache(max_bytes=100_000)
    await wide.get_or_run("a", 5, Counter("x" * 50_000 + "😀"))  # four bytes a character
    assert len(wide.kept) == 0


async def test_identical_calls_at_the_same_time_run_once() -> None:
    cache, started, go = ResultCache(), anyio.Event(), anyio.Event()
    results: list[tuple[str, bool]] = []
    runs = 0

    async def slow() -> str:
        nonlocal runs
        runs += 1
        started.set()
        await go.wait()
        return "text"

    async def fetch() -> None:
        results.append(await cache.get_or_run("a", 5, slow))

    async with anyio.create_task_group() as group:
        group.start_soon(fetch)
        await started.wait()
        for _ in range(3):
            group.start_soon(fetch)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert runs == 1
    assert sorted(results) == [("text", False)] + [("text", True)] * 3


async def test_an_error_goes_to_all_who_wait_and_is_not_kept() -> None:
    cache, go = ResultCache(), anyio.Event()
    errors: list[ToolError] = []

    async def failing() -> str:
        await go.wait()
        raise ToolTimedOut("too late", data=[1], retryable=True, tool="t")

    async def fetch() -> None:
        with pytest.raises(ToolTimedOut) as caught:
            await cache.get_or_run("a", 5, failing)
        errors.append(caught.value)

    async with anyio.create_task_group() as group:
        group.start_soon(fetch)
        group.start_soon(fetch)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert {(error.message, error.code, error.retryable, error.tool) for error in errors} == {
        ("too late", -32001, True, "t")
    }
    assert errors[0] is not errors[1]
    assert (await cache.get_or_run("a", 5, Counter())) == ("1", False)


async def test_an_error_with_a_constructor_of_its_own_reaches_the_followers_too() -> None:
    class Picky(ToolError):
        def __init__(self, place: int, *, reason: str) -> None:
            super().__init__(f"{place}: {reason}", code=-32050)

    cache, go = ResultCache(), anyio.Event()
    errors: list[ToolError] = []

    async def failing() -> str:
        await go.wait()
        raise Picky(1, reason="no")

    async def fetch() -> None:
        with pytest.raises(ToolError) as caught:
            await cache.get_or_run("a", 5, failing)
        errors.append(caught.value)

    async with anyio.create_task_group() as group:
        group.start_soon(fetch)
        group.start_soon(fetch)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert [(error.message, error.code) for error in errors] == [("1: no", -32050)] * 2


async def test_a_cancelled_leader_hands_over_to_a_follower() -> None:
    cache, go = ResultCache(), anyio.Event()
    runs = 0
    results: list[tuple[str, bool]] = []

    async def slow() -> str:
        nonlocal runs
        runs += 1
        await go.wait()
        return str(runs)

    async def fetch(scope: anyio.CancelScope) -> None:
        with scope:
            results.append(await cache.get_or_run("a", 5, slow))

    leader = anyio.CancelScope()
    async with anyio.create_task_group() as group:
        group.start_soon(fetch, leader)
        await anyio.wait_all_tasks_blocked()
        for _ in range(2):
            group.start_soon(fetch, anyio.CancelScope())
        await anyio.wait_all_tasks_blocked()
        leader.cancel()
        await anyio.wait_all_tasks_blocked()
        assert runs == 2
        go.set()
    assert sorted(results) == [("2", False), ("2", True)]


async def test_a_kept_text_is_for_every_call_and_a_text_under_way_for_calls_of_the_same_terms() -> None:
    cache, make = ResultCache(), Counter()
    assert await cache.get_or_run("a", 5, make, terms=1) == ("1", False)
    assert await cache.get_or_run("a", 5, make, terms=2) == ("1", True)


async def test_a_text_that_depends_on_its_caller_is_neither_kept_nor_shared() -> None:
    cache, go, results = ResultCache(), anyio.Event(), list[tuple[str, bool]]()
    make = Counter()

    async def dependent() -> str:
        depends_on_the_caller()
        await go.wait()
        return await make()

    async def fetch() -> None:
        results.append(await cache.get_or_run("a", 5, dependent))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(fetch)
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert sorted(results) == [("1", False), ("2", False), ("3", False)]
    assert len(cache.kept) == 0


async def test_an_error_that_depends_on_its_caller_is_that_callers_alone() -> None:
    cache, go, outcomes = ResultCache(), anyio.Event(), list[str]()

    async def fetch(user: str) -> None:
        async def run() -> str:
            depends_on_the_caller()
            await go.wait()
            if user == "bob":
                raise ToolError("bob may not")
            return user

        try:
            outcomes.append((await cache.get_or_run("a", 5, run))[0])
        except ToolError as error:
            outcomes.append(error.message)

    async with anyio.create_task_group() as group:
        group.start_soon(fetch, "bob")
        await anyio.wait_all_tasks_blocked()
        group.start_soon(fetch, "alice")
        await anyio.wait_all_tasks_blocked()
        go.set()
    assert outcomes == ["bob may not", "alice"]


async def test_a_text_made_of_one_that_depends_on_its_caller_depends_on_it_too() -> None:
    cache, make = ResultCache(), Counter()

    async def inner() -> str:
        depends_on_the_caller()
        return await make()

    async def outer() -> str:
        return (await cache.get_or_run("inner", 5, inner))[0]

    assert [await cache.get_or_run("outer", 5, outer) for _ in range(2)] == [("1", False), ("2", False)]


class World:
    """A stock that is read and changed."""

    def __init__(self) -> None:
        self.left = 9
        self.reads = 0

    def tools(self, **options: Any) -> list[Tool]:
        @tool(read_only=True, **options)
        async def stock() -> int:
            """How many are left."""
            self.reads += 1
            return self.left

        @tool
        async def sell(hang: bool = False) -> None:
            """Sell one."""
            self.left -= 1
            if hang:
                await anyio.sleep_forever()

        return [stock, sell]

    @staticmethod
    def plan(name: str, **arguments: Any) -> dict[str, Any]:
        return {"steps": [{"id": "a", "tool": name, "arguments": arguments}]}

    async def read(self, runtime: Runtime, seconds: float | None = 300) -> int:
        with keeping_reads(seconds):
            result = await runtime.execute_tool_plan(self.plan("stock"))
        found = result.steps[0].result
        assert isinstance(found, int)
        return found


async def test_a_plan_keeps_what_it_reads_where_that_is_asked_for() -> None:
    world = World()
    async with Runtime(world.tools(), sandbox=None) as runtime:
        assert [await world.read(runtime, None) for _ in range(2)] == [9, 9]
        assert world.reads == 2
        assert [await world.read(runtime) for _ in range(2)] == [9, 9]
        assert world.reads == 3
        with keeping_reads(300):
            await runtime.conversation(direct="all").answer("stock", {})
        assert world.reads == 4  # what a model calls is made again


@pytest.mark.parametrize("how", ["a plan", "a model", "a model that cancels", "a timeout"])
async def test_a_tool_with_effects_ends_what_was_read_whoever_calls_it(how: str) -> None:
    world = World()
    async with Runtime(world.tools(), sandbox=None) as runtime:
        assert await world.read(runtime) == 9
        match how:
            case "a plan":
                await runtime.execute_tool_plan(world.plan("sell"))
            case "a model":
                await runtime.conversation(direct="all").answer("sell", {})
            case "a model that cancels":
                with anyio.move_on_after(0.2):
                    await runtime.conversation(direct="all").answer("sell", {"hang": True})
            case _:
                hanging = world.plan("sell", hang=True)
                hanging["steps"][0]["timeout_seconds"] = 0.1
                await runtime.execute_tool_plan(hanging)
        assert await world.read(runtime) == 8


async def test_what_was_read_while_something_changed_is_not_kept() -> None:
    begun, changed, reads = anyio.Event(), anyio.Event(), list[int]()

    @tool(read_only=True)
    async def stock() -> int:
        """Read, slowly the first time."""
        reads.append(1)
        if len(reads) == 1:
            begun.set()
            await changed.wait()
        return len(reads)

    world = World()
    async with Runtime([stock, world.tools()[1]], sandbox=None) as runtime:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.read, runtime)
            await begun.wait()
            await runtime.execute_tool_plan(world.plan("sell"))
            assert await world.read(runtime) == 2  # nor does it wait for what began before the change
            changed.set()
        assert await world.read(runtime) == 2


@pytest.mark.parametrize("until_write", [False, True])
async def test_results_of_tools_with_a_time_of_their_own_end_at_a_write_where_the_runtime_says_so(
    until_write: bool,
) -> None:
    world = World()
    async with Runtime(world.tools(cache_seconds=60), sandbox=None, cache_reads_until_write=until_write) as runtime:
        assert await world.read(runtime, None) == 9
        await runtime.execute_tool_plan(world.plan("sell"))
        assert await world.read(runtime, None) == (8 if until_write else 9)


async def test_an_effect_that_comes_after_its_call_was_given_up_ends_what_was_read_before() -> None:
    """A thread cannot be killed: the sync tool that timed out does its work all the same."""
    world, may_sell, sold = World(), threading.Event(), threading.Event()

    @tool(timeout_seconds=0.05)
    def sell_slowly() -> None:
        """Sell one, late."""
        may_sell.wait(20)
        world.left -= 1
        sold.set()

    async with Runtime(
        [*world.tools(cache_seconds=60), sell_slowly], sandbox=None, cache_reads_until_write=True
    ) as runtime:
        await runtime.answer("sell_slowly", {})
        assert await world.read(runtime, None) == 9
        may_sell.set()
        await anyio.to_thread.run_sync(sold.wait)
        for _ in range(500):  # the thread ends a moment later
            if runtime.gate.threads.left_behind:
                await anyio.sleep(0.01)
        assert await world.read(runtime, None) == 8


async def test_a_tool_that_took_the_place_of_another_gives_its_own_results() -> None:
    first, second = World(), World()
    second.left = 5
    async with Runtime(first.tools(), sandbox=None) as runtime:
        assert await first.read(runtime) == 9
        runtime.registry.remove("stock")
        runtime.registry.add(second.tools()[0])
        assert await first.read(runtime) == 5
