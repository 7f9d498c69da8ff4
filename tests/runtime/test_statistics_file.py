"""Statistics, and what searches taught, outlive the process in one file. `test_notes_files` has what all do."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

from callgate.limits import Limits
from callgate.runtime import statistics_file
from callgate.runtime.context_task import ContextTask
from callgate.runtime.gate import Gate
from callgate.runtime.statistics_file import LearnedFile, StatisticsFile
from callgate.search.learned import MAX_LESSONS, MAX_PER_TOOL, Learned
from callgate.tools import Registry, tool
from callgate.tools.statistics import WINDOW, Statistics, ToolStats
from runtime.notes_files import database

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "statistics.sqlite"


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_file, "FLUSH_SECONDS", 1e6)


@contextlib.asynccontextmanager
async def kept(path: Path) -> AsyncIterator[Statistics]:
    statistics = Statistics()
    async with StatisticsFile(path, statistics):
        yield statistics


async def read(path: Path) -> dict[str, ToolStats]:
    async with kept(path) as statistics:
        return statistics.all()


async def test_what_was_noted_is_there_after_a_restart(path: Path) -> None:
    async with kept(path) as statistics:
        assert statistics.all() == {}
        statistics.note("a", 1.0, "succeeded", 0.5)
        statistics.note("a", 3.0, "timed_out")
        statistics.note("b é", 2.0, "failed")
        before = statistics.all()
    assert await read(path) == before
    assert before["a"].calls == 2


async def test_a_tool_keeps_its_newest_attempts_and_the_file_does_not_grow(path: Path) -> None:
    for start in range(0, 4 * WINDOW, WINDOW):
        async with kept(path) as statistics:
            for n in range(start, start + WINDOW):
                statistics.note("busy", float(n), "succeeded")
            statistics.note("rare", 1.0, "succeeded")
    with database(path) as connection:
        rows = connection.execute("SELECT tool, count(*), min(seconds) FROM attempts GROUP BY tool ORDER BY tool")
        assert rows.fetchall() == [("busy", WINDOW, 3.0 * WINDOW), ("rare", 4, 1.0)]


async def test_tools_that_are_called_otherwise_at_each_start_do_not_make_the_file_grow(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StatisticsFile, "most", 300)
    for start in range(5):
        async with kept(path) as statistics:
            for n in range(100):
                statistics.note(f"tool {start} {n}", 1.0, "succeeded")
    with database(path) as connection:
        rows = connection.execute("SELECT count(*), min(tool), max(tool) FROM attempts").fetchall()
    assert rows == [(300, "tool 2 0", "tool 4 99")]


async def test_a_file_may_be_kept_open_by_another_task(path: Path) -> None:
    @tool
    async def work() -> int:
        return 1

    registry = Registry([work])
    contexts = ContextTask(lambda: [StatisticsFile(path, registry.statistics)])
    await contexts.open()
    run = Gate(registry).open(caller="code", limits=Limits())
    for _ in range(3):
        await run.call("work", {})
    await contexts.close()
    assert (await read(path))["work"].calls == 3


async def test_a_note_from_another_thread_is_written(path: Path) -> None:
    statistics = Statistics()
    async with StatisticsFile(path, statistics) as file:
        await anyio.to_thread.run_sync(statistics.note, "a", 1.0, "succeeded")
        assert file.written == 0
    assert file.written == 1


# what searches taught


async def lessons(path: Path) -> Learned:
    learned = Learned()
    async with LearnedFile(path, learned):
        return learned


def rows(path: Path) -> list[tuple[Any, ...]]:
    with database(path) as connection:
        return connection.execute("SELECT tool, terms FROM lessons ORDER BY id").fetchall()


async def test_what_was_learned_is_there_after_a_restart(path: Path) -> None:
    learned = Learned()
    async with LearnedFile(path, learned):
        learned.learn("do I need an umbrella", "get_weather")
    found = await lessons(path)
    assert list(found.scores({"umbrella": 1})) == ["get_weather"]
    assert rows(path) == [("get_weather", "umbrella")]


async def test_statistics_and_lessons_share_a_file(path: Path) -> None:
    statistics, learned = Statistics(), Learned()
    async with StatisticsFile(path, statistics), LearnedFile(path, learned):
        statistics.note("get_weather", 1.0, "succeeded")
        learned.learn("umbrella", "get_weather")
    again = Statistics()
    async with StatisticsFile(path, again):
        assert again.all()["get_weather"].calls == 1
    assert (await lessons(path)).of("get_weather") == 1


async def test_the_file_keeps_the_newest_of_each_tool(path: Path) -> None:
    for start in range(0, 3 * MAX_PER_TOOL, 40):
        learned = Learned()
        async with LearnedFile(path, learned):
            for n in range(start, start + 40):
                learned.learn("word" + "abcdefghij"[n // 10 % 10] + "abcdefghij"[n % 10] * (1 + n // 100), "busy")
            learned.learn("first", "rare")
    kept = rows(path)
    assert [terms for tool, terms in kept if tool == "rare"] == ["first"]
    assert [terms for tool, terms in kept if tool == "busy"][-1] == "wordbjj"
    assert len(kept) == MAX_PER_TOOL + 1


async def test_the_file_is_bounded_as_a_whole(path: Path) -> None:
    await lessons(path)
    with database(path) as connection:
        connection.execute("BEGIN")
        many = [(f"tool{n}", "rain") for n in range(MAX_LESSONS + 500)]
        connection.executemany("INSERT INTO lessons (tool, terms) VALUES (?, ?)", many)
        connection.execute("COMMIT")
    learned = Learned()
    async with LearnedFile(path, learned):
        assert (len(learned), learned.of("tool0"), learned.of(f"tool{MAX_LESSONS + 499}")) == (MAX_LESSONS, 0, 1)
        learned.learn("umbrella", "get_weather")
    assert len(rows(path)) == MAX_LESSONS
    assert rows(path)[-1] == ("get_weather", "umbrella")
