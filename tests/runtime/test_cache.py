"""The result cache: bounds, age, single flight."""

from __future__ import annotations

import anyio
import pytest

from callgate.errors import ToolError, ToolTimedOut
from callgate.runtime.gate.cache import ResultCache

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
