"""Statistics that outlive the process: read at the start, written in batches, and never in a run's way."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from callgate.errors import ConfigurationError
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


async def refusal(path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await read(path)
    start = f"the statistics file {path} cannot be used: "
    assert str(caught.value).startswith(start)
    return str(caught.value).removeprefix(start)


async def until_written(file: StatisticsFile, notes: int) -> None:
    with anyio.fail_after(20):
        while file.written < notes:
            await anyio.lowlevel.checkpoint()


async def test_what_was_noted_is_there_after_a_restart(path: Path) -> None:
    async with kept(path) as statistics:
        assert statistics.all() == {}
        statistics.note("a", 1.0, "succeeded", 0.5)
        statistics.note("a", 3.0, "timed_out")
        statistics.note("b é", 2.0, "failed")
        before = statistics.all()
    assert await read(path) == before
    assert before["a"].calls == 2


async def test_the_file_is_for_its_owner_alone(path: Path) -> None:
    old = os.umask(0)
    try:
        async with kept(path) as statistics:
            statistics.note("a", 1.0, "succeeded")
            for each in (path, *path.parent.glob("statistics.sqlite-*")):
                assert stat.S_IMODE(each.stat().st_mode) == 0o600
    finally:
        os.umask(old)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_a_full_batch_is_written_at_once(path: Path) -> None:
    statistics = Statistics()
    async with StatisticsFile(path, statistics) as file:
        for _ in range(BATCH - 1):
            statistics.note("a", 1.0, "succeeded")
        assert file.written == 0
        statistics.note("a", 1.0, "succeeded")
        await until_written(file, BATCH)
        with database(path) as connection:
            assert connection.execute("SELECT count(*) FROM attempts").fetchone() == (BATCH,)


async def test_a_few_notes_are_written_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "FLUSH_SECONDS", 0.01)
    statistics = Statistics()
    async with StatisticsFile(path, statistics) as file:
        statistics.note("a", 1.0, "succeeded")
        await until_written(file, 1)
        statistics.note("a", 1.0, "succeeded")
        await until_written(file, 2)


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


async def test_leaving_twice_and_entering_again_do_no_harm(path: Path) -> None:
    statistics = Statistics()
    file = StatisticsFile(path, statistics)
    for calls in (1, 2):
        async with file:
            statistics.note("a", 1.0, "succeeded")
        await file.__aexit__()
        assert statistics.all()["a"].calls == calls
    assert (await read(path))["a"].calls == 2


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


async def test_being_cancelled_loses_nothing(path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with kept(path) as statistics:
            statistics.note("a", 1.0, "succeeded")
            scope.cancel()
            await anyio.sleep_forever()
    assert (await read(path))["a"].calls == 1


async def test_entering_that_is_cancelled_leaves_nothing_behind(path: Path) -> None:
    statistics = Statistics()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await StatisticsFile(path, statistics).__aenter__()
    async with StatisticsFile(path, statistics):
        pass


async def test_two_files_for_one_registry_are_refused_and_the_first_goes_on(path: Path, tmp_path: Path) -> None:
    async with kept(path) as statistics:
        with pytest.raises(ConfigurationError, match="these statistics are kept in a file already"):
            async with StatisticsFile(tmp_path / "other", statistics):
                pass
        statistics.note("a", 1.0, "succeeded")
    assert (await read(path))["a"].calls == 1
    assert not (tmp_path / "other").exists()


async def test_two_runtimes_of_one_process_share_a_file(path: Path) -> None:
    async with kept(path) as one, kept(path) as other:
        one.note("a", 1.0, "succeeded")
        other.note("a", 2.0, "succeeded")
    assert (await read(path))["a"].calls == 2


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


# a file that cannot be used


@pytest.mark.parametrize("name", ["missing/statistics.sqlite", "file/statistics.sqlite"])
async def test_a_file_that_cannot_be_made_is_the_operators_mistake(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("x")
    assert (await refusal(tmp_path / name)).endswith(
        " directory; make its folder and let it be written, or name another file"
    )


async def test_a_path_that_is_no_path(tmp_path: Path) -> None:
    assert "embedded null" in await refusal(tmp_path / "a\0b")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_file_that_may_not_be_written(path: Path) -> None:
    await read(path)
    await anyio.Path(path).chmod(0o400)
    assert (await refusal(path)).startswith(
        "it cannot be written; make the file and its folder writable, or name another file"
    )


async def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/null")):
        assert await refusal(path) == "it is not a regular file; name another"


async def test_what_is_no_database(path: Path) -> None:
    await anyio.Path(path).write_text("plain text, and long enough to be looked at. " * 100)
    assert await refusal(path) == "it is not an SQLite database; name another file (file is not a database)"
    assert (await anyio.Path(path).read_text()).startswith("plain text")


async def test_an_empty_file_will_do(path: Path) -> None:
    await anyio.Path(path).touch()
    assert await read(path) == {}


async def test_another_programs_database_is_left_as_it_is(path: Path) -> None:
    with database(path) as connection:
        connection.execute("CREATE TABLE attempts (id INTEGER PRIMARY KEY, name TEXT)")
    before = await anyio.Path(path).read_bytes()
    assert await refusal(path) == "it is another program's database; name another file"
    assert await anyio.Path(path).read_bytes() == before


async def test_a_newer_schema_is_left_as_it_is(path: Path) -> None:
    await read(path)
    with database(path) as connection:
        connection.execute("PRAGMA user_version = 4")
    assert await refusal(path) == (
        "a newer callgate wrote it (schema 4, this one knows 3); upgrade, or name another file"
    )


@pytest.mark.parametrize(
    "change",
    [
        "DROP TABLE attempts",
        "CREATE TABLE more (id INTEGER PRIMARY KEY)",
        "CREATE TRIGGER slow AFTER INSERT ON attempts BEGIN DELETE FROM attempts; END",
        "PRAGMA user_version = 0",
    ],
)
async def test_a_schema_that_was_tampered_with_is_refused(path: Path, change: str) -> None:
    await read(path)
    with database(path) as connection:
        connection.execute(change)
    assert await refusal(path) == ("its schema is not callgate's; remove it, only statistics are lost, or name another")


async def test_an_endless_view_is_not_read(path: Path) -> None:
    await read(path)
    with database(path) as connection:
        connection.execute("DROP TABLE attempts")
        connection.execute(
            "CREATE VIEW attempts AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) "
            "SELECT id, '' AS tool, 1.0 AS seconds, 'failed' AS outcome, NULL AS confidence FROM n"
        )
    assert (await refusal(path)).startswith("its schema is not callgate's")


async def test_statistics_that_sqlite_gathers_of_a_file_do_no_harm(path: Path) -> None:
    async with kept(path) as statistics:
        statistics.note("a", 1.0, "succeeded")
    with database(path) as connection:
        connection.execute("ANALYZE")
    assert (await read(path))["a"].calls == 1


async def test_a_locked_file_is_refused_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "LOCK_SECONDS", 0.05)
    await read(path)
    with database(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert await refusal(path) == (
            "another program has locked it; end that one, or name another file (database is locked)"
        )


async def test_damaged_pages_are_refused(path: Path) -> None:
    async with kept(path) as statistics:
        for n in range(BATCH):
            statistics.note("a" * 200, float(n), "succeeded")
    whole = await anyio.Path(path).read_bytes()
    await anyio.Path(path).write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    assert (await refusal(path)).startswith("it is damaged; remove it, only statistics are lost (")


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
        ("x" * 10_000, 1.0, "succeeded", None),
        ("", 1.0, "succeeded", None),
        ("a\0" + "x" * 1_000_000, 1.0, "succeeded", None),
        ("a", "1" * 1_000_000, "succeeded", None),
        ("a", 1.0, "succeeded\0" + "x" * 1_000_000, None),
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


# a file that fails later


async def test_a_file_that_fails_is_logged_once_and_nothing_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kept_file, "LOCK_SECONDS", 0.01)
    statistics = Statistics()
    async with StatisticsFile(path, statistics) as file:
        with database(path) as connection:
            for n in range(3):
                if n == 0:
                    connection.execute("BEGIN IMMEDIATE")
                statistics.note("a", float(n), "succeeded")
                await file.flush()
            assert (file.written, statistics.all()["a"].calls) == (0, 3)
            connection.execute("ROLLBACK")
        statistics.note("a", 3.0, "succeeded")
        await file.flush()
        assert file.written == 4
    assert [record.getMessage() for record in caplog.records] == [
        f"the statistics file {path} cannot be written: database is locked; "
        "runs go on, and the newest 65536 notes wait for it"
    ]
    assert (await read(path))["a"].calls == 4


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
