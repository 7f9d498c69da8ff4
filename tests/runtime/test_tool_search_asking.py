"""Asking a tool search beside an event loop: what changes meanwhile, and patterns that take long."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import pytest

from callgate.errors import InvalidArguments
from callgate.runtime.discovery import search as snapshot_module
from callgate.runtime.discovery.found import Found
from callgate.runtime.discovery.search import ToolSearch
from callgate.search.learned import Learned
from callgate.tools import Registry
from callgate.tools.tool import DETAILS
from runtime.searched import GITHUB, get_weather, names, of_server, query_sales, send_invoice

pytestmark = pytest.mark.anyio


@pytest.fixture
def registry() -> Registry:
    return Registry([get_weather, query_sales, send_invoice, *GITHUB])


@pytest.fixture
def search(registry: Registry) -> ToolSearch:
    return ToolSearch(registry, Learned())


class Leaving(Collection[str]):
    """Names; a tool leaves the registry while they are read, in the middle of a search."""

    def __init__(self, registry: Registry, leaves: str, names: list[str]) -> None:
        self._registry, self._leaves, self._names = registry, leaves, names

    def __iter__(self) -> Iterator[str]:
        if self._leaves in self._registry:
            self._registry.remove(self._leaves)
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


@pytest.mark.parametrize(("query", "regex"), [("weather", True), ("weather", False), ("get_weather", False)])
async def test_a_tool_that_leaves_while_a_search_goes_on_is_still_found_by_it(
    search: ToolSearch, registry: Registry, query: str, regex: bool
) -> None:
    among = Leaving(registry, "get_weather", ["get_weather", "query_sales"])
    result = await search.ask(query, regex=regex, among=among)
    assert "get_weather" not in registry
    assert (names(result), result.found[0].python_name) == (["get_weather"], "get_weather")
    for detail in DETAILS:
        assert "No tool matches" not in dataclasses.replace(result, detail=detail).for_model()
    assert (await search.ask(query, regex=regex)).found == ()


async def test_asking_does_not_hold_up_the_event_loop(search: ToolSearch) -> None:
    found: list[Found] = []

    async def ask(query: str, **options: Any) -> None:
        found.extend((await search.ask(query, **options)).found)

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask, "weather")
        await ask("weather", regex=True)
        with pytest.raises(InvalidArguments):
            await ask("[", regex=True)
    assert [each.tool for each in found] == [get_weather] * 6


HARD = r"(.*w.{0,40}o.{0,40}){3}!$"


@pytest.fixture
def wordy() -> ToolSearch:
    """Tools on which a hard pattern would take 6 s."""
    words = "word and other words " * 200
    return ToolSearch(Registry([of_server("s", f"tool_{number}", words) for number in range(1200)]))


def test_a_pattern_that_takes_long_is_given_up(wordy: ToolSearch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "_PATTERN_SECONDS", 0.25)
    started = time.process_time()
    with pytest.raises(InvalidArguments, match=r"takes too long: \d+ of 1,200 tools .* in 0\.25 s; simplify it, or "):
        wordy.find(HARD, regex=True)
    assert time.process_time() - started < 2
    assert len(wordy.find("tool_11.. ", regex=True, limit=100).found) == 100


@pytest.mark.alone
async def test_a_pattern_that_nobody_waits_for_is_not_tried_any_longer(wordy: ToolSearch) -> None:
    await wordy.ask("tool_7", regex=True)
    with anyio.move_on_after(0.1) as waited:
        await wordy.ask(HARD, regex=True)
    assert waited.cancelled_caught
    with anyio.fail_after(1):
        spent = 1.0
        while spent > 0.05:
            before = time.process_time()
            await anyio.sleep(0.1)
            spent = time.process_time() - before


async def test_few_patterns_are_tried_at_a_time_and_leave_threads_to_others(wordy: ToolSearch) -> None:
    await wordy.ask("tool_7", regex=True)
    running = threading.active_count()
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(partial(wordy.ask, HARD, regex=True))
            for _ in range(5):
                await anyio.to_thread.run_sync(int)
            assert threading.active_count() - running <= 3
            tasks.cancel_scope.cancel()
