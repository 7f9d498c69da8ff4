"""Statistics that outlive the process. `test_kept_files` has what all kept files do."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from callgate.limits import Limits
from callgate.runtime import kept_file, statistics_file
from callgate.runtime.gate import Gate
from callgate.runtime.keeper import Keeper
from callgate.runtime.statistics_file import BATCH, StatisticsFile
from callgate.tools import Registry, tool
from callgate.tools.statistics import WINDOW, Statistics, ToolStats
from runtime.kept_files import database

pytestmark = pytest.mark.anyio


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "statistics.sqlite"


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "FLUSH_SECONDS", 1e6)


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
    monkeypatch.setattr(statistics_file, "MAX_ROWS", 300)
    for start in range(5):
        async with kept(path) as statistics:
            for n in range(100):
                statistics.note(f"tool {start} {n}", 1.0, "succeeded")
    with database(path) as connection:
        rows = connection.execute("SELECT count(*), min(tool), max(tool) FROM attempts").fetchall()
    assert rows == [(300, "tool 2 0", "tool 4 99")]


async def test_a_keeper_keeps_it(path: Path) -> None:
    @tool
    async def work() -> int:
        return 1

    registry = Registry([work])
    keeper = Keeper([StatisticsFile(path, registry.statistics)])
    await keeper.open()
    run = Gate(registry).open(caller="code", limits=Limits())
    for _ in range(3):
        await run.call("work", {})
    await keeper.close()
    assert (await read(path))["work"].calls == 3


async def test_a_note_from_another_thread_does_not_touch_the_loop(path: Path) -> None:
    statistics = Statistics()

    def note() -> None:
        for _ in range(BATCH):
            statistics.note("a", 1.0, "succeeded")

    async with StatisticsFile(path, statistics) as file:
        thread = threading.Thread(target=note)
        thread.start()
        await anyio.to_thread.run_sync(thread.join)
        assert file.written == 0
    assert file.written == BATCH


async def test_rows_that_make_no_sense_are_skipped(path: Path) -> None:
    async with kept(path) as statistics:
        statistics.note("a", 1.0, "succeeded")
    rows: list[tuple[Any, ...]] = [
        ("a", -1.0, "succeeded", None),
        ("a", 1e300, "succeeded", None),
        ("a", float("inf"), "succeeded", None),
        ("a", "nan", "succeeded", None),
        ("a", b"\xff", "succeeded", None),
        ("a", 1.0, "splendid", None),
        ("a", 1.0, b"\xff", None),
        (b"\xff", 1.0, "succeeded", None),
        ("", 1.0, "succeeded", None),
        ("a", 3.0, "succeeded", 17.0),
    ]
    with database(path) as connection:
        connection.executemany("INSERT INTO attempts (tool, seconds, outcome, confidence) VALUES (?, ?, ?, ?)", rows)
        connection.execute(
            "INSERT INTO attempts (tool, seconds, outcome) VALUES (CAST(x'61ff' AS TEXT), 1.0, 'succeeded')"
        )
    found = await read(path)
    assert (found["a"].calls, found["a"].p95_seconds, found["a"].average_confidence) == (2, 3.0, None)
    assert sorted(found) == ["a", "a\ufffd"]


async def test_a_file_that_cannot_be_written_for_long_does_not_fill_the_host(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_file, "LOCK_SECONDS", 0.01)
    monkeypatch.setattr(kept_file, "MAX_UNWRITTEN", 10)
    statistics = Statistics()
    async with StatisticsFile(path, statistics) as file:
        with database(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for n in range(25):
                statistics.note("a", float(n), "succeeded")
            await file.flush()
    assert (await read(path))["a"].average_seconds == sum(range(15, 25)) / 10
