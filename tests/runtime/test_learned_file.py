"""What searches taught outlives the process, in the file of the statistics. `test_kept_files` has what all do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callgate.runtime import kept_file
from callgate.runtime.learned_file import LearnedFile
from callgate.runtime.statistics_file import StatisticsFile
from callgate.search.learned import MAX_LESSONS, MAX_PER_TOOL, Learned
from callgate.tools.statistics import Statistics
from runtime.kept_files import database

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "statistics.sqlite"


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "FLUSH_SECONDS", 1e6)


async def read(path: Path) -> Learned:
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
    found = await read(path)
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
    assert (await read(path)).of("get_weather") == 1


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
    await read(path)
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


async def test_rows_that_make_no_sense_are_skipped(path: Path) -> None:
    await read(path)
    with database(path) as connection:
        connection.executemany(
            "INSERT INTO lessons (tool, terms) VALUES (?, ?)",
            [("a", "rain"), ("", "rain"), ("b", ""), ("c", "x" * 5_000), ("d" * 300, "rain"), (b"e", "rain"), ("f", 7)],
        )
    assert [(await read(path)).of(tool) for tool in "abcdef"] == [1, 0, 0, 0, 0, 0]


async def test_a_file_of_the_first_schema_gets_the_table_that_it_lacks(path: Path) -> None:
    statistics = Statistics()
    async with StatisticsFile(path, statistics):
        statistics.note("a", 1.0, "succeeded")
    with database(path) as connection:
        for name in ("lessons", "selections", "trials"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("PRAGMA user_version = 1")
    learned = Learned()
    async with LearnedFile(path, learned):
        learned.learn("umbrella", "get_weather")
    again = Statistics()
    async with StatisticsFile(path, again):
        assert again.all()["a"].calls == 1
    assert rows(path) == [("get_weather", "umbrella")]
