"""What every file of notes does: statistics, lessons of searches, and selections outlive the process.

The rules are in `callgate.runtime.statistics_file`. What one kind of file does besides is tested beside that kind.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.selections_file import SelectionsFile
from callgate.agent.planning.selection import SelectionOutcome
from callgate.errors import ConfigurationError
from callgate.runtime import statistics_file
from callgate.runtime.discovery.meaning import Meaning
from callgate.runtime.statistics_file import LearnedFile, NotesFile, StatisticsFile, VectorsFile
from callgate.search.learned import Learned
from callgate.tools.statistics import Statistics
from runtime.embedded import Counted
from runtime.notes_files import database

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Kind:
    """One kind of file: what it keeps, how something is noted there, and how much is known."""

    made: Callable[[], Any]
    file: Callable[[Path, Any], NotesFile[Any]]
    note: Callable[[Any, int], object]
    known: Callable[[Any], int]
    table: str


KINDS = {
    "statistics": Kind(
        Statistics, StatisticsFile, lambda kept, n: kept.note(f"tool{n}", 1.0, "succeeded"),
        lambda kept: sum(each.calls for each in kept.all().values()), "attempts",
    ),
    "lessons": Kind(Learned, LearnedFile, lambda kept, n: kept.learn("umbrella", f"tool{n}"), len, "lessons"),
    "selections": Kind(
        SelectionMemory, SelectionsFile,
        lambda kept, n: kept.note(SelectionOutcome(query=f"q{n}", tools=("a",), strategy="llm", success=True)),
        len, "selections",
    ),
    "vectors": Kind(
        lambda: Meaning(Counted()), VectorsFile, lambda kept, n: kept._keep(f"text{n}", b"\0\1"), len, "vectors",
    ),
}  # fmt: skip


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.sqlite"


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_file, "FLUSH_SECONDS", 1e6)


async def read(kind: Kind, path: Path) -> int:
    async with kind.file(path, kept := kind.made()):
        return kind.known(kept)


async def until_written(file: NotesFile[Any], notes: int) -> None:
    with anyio.fail_after(20):
        while file.written < notes:
            await anyio.lowlevel.checkpoint()


async def test_what_was_noted_is_there_after_a_restart_and_goes_on(kind: Kind, path: Path) -> None:
    kept = kind.made()
    file = kind.file(path, kept)
    for n in (1, 2, 3):
        async with file:
            kind.note(kept, n)
        await file.__aexit__()  # twice does no harm
        assert kind.known(kept) == n
        assert await read(kind, path) == n


async def test_two_of_one_process_add_to_each_other(kind: Kind, path: Path) -> None:
    one, other = kind.made(), kind.made()
    async with kind.file(path, one), kind.file(path, other):
        kind.note(one, 1)
        kind.note(other, 2)
    assert await read(kind, path) == 2


async def test_two_files_for_one_are_refused_and_the_first_goes_on(kind: Kind, path: Path) -> None:
    async with kind.file(path, kept := kind.made()):
        with pytest.raises(ConfigurationError, match="kept in a file already"):
            async with kind.file(path.with_name("other"), kept):
                pass
        kind.note(kept, 1)
    assert await read(kind, path) == 1
    assert not path.with_name("other").exists()


async def test_the_file_is_for_its_owner_alone(kind: Kind, path: Path) -> None:
    old = os.umask(0)
    try:
        async with kind.file(path, kept := kind.made()):
            kind.note(kept, 1)
            for each in (path, *path.parent.glob("kept.sqlite-*")):
                assert stat.S_IMODE(each.stat().st_mode) == 0o600
    finally:
        os.umask(old)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


async def test_a_few_notes_are_written_after_a_while(kind: Kind, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_file, "FLUSH_SECONDS", 0.01)
    async with kind.file(path, kept := kind.made()) as file:
        for n in (1, 2):
            kind.note(kept, n)
            await until_written(file, n)


async def test_many_notes_are_written_before_the_oldest_would_be_dropped(
    kind: Kind, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_file, "LOOK_SECONDS", 0.01, raising=False)
    monkeypatch.setattr(statistics_file, "MAX_UNWRITTEN", 10)
    async with kind.file(path, kept := kind.made()) as file:
        for n in range(20):
            kind.note(kept, n)
            if n % 5 == 4:
                await until_written(file, n + 1)
    assert await read(kind, path) == 20


async def test_a_file_that_is_removed_while_it_is_open_is_made_anew(kind: Kind, path: Path) -> None:
    async with kind.file(path, kept := kind.made()) as file:
        kind.note(kept, 1)
        await file.flush()
        await anyio.Path(path).unlink()
        kind.note(kept, 2)
        kind.note(kept, 3)
    assert await read(kind, path) == 2


async def test_being_cancelled_loses_nothing_and_leaves_nothing_behind(kind: Kind, path: Path) -> None:
    kept = kind.made()
    with anyio.CancelScope() as scope:
        async with kind.file(path, kept):
            kind.note(kept, 1)
            scope.cancel()
            await anyio.sleep_forever()
    assert await read(kind, path) == 1
    with anyio.CancelScope() as scope:
        scope.cancel()
        await kind.file(path, kept).__aenter__()
    async with kind.file(path, kept):
        pass


# a file that cannot be used


def executed(*statements: str) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        with database(path) as connection:
            for statement in statements:
                connection.execute(statement)

    return change


def damaged(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))


UNUSABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (Path.mkdir, "unable to open database file"),
    "text": (lambda path: path.write_text("plain text, and long enough. " * 100), "file is not a database"),
    "another program's": (executed("CREATE TABLE attempts (x)", "CREATE TABLE lessons (x)",
                                   "CREATE TABLE selections (x)", "CREATE TABLE vectors (x)"), "no such column"),
    "damaged": (damaged, "database disk image is malformed"),
}  # fmt: skip
"""What became of the file."""


async def refusal(kind: Kind, path: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        await read(kind, path)
    start, remedy = f"the statistics file {path} cannot be used: ", "; make it readable and writable, or name another"
    assert str(caught.value).startswith(start)
    assert remedy in str(caught.value)
    return str(caught.value).removeprefix(start).partition(remedy)[0]


def content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


@pytest.mark.parametrize("what", UNUSABLE)
async def test_a_file_that_cannot_be_used_is_refused_and_left_as_it_is(kind: Kind, path: Path, what: str) -> None:
    change, words = UNUSABLE[what]
    if what == "damaged":
        async with kind.file(path, kept := kind.made()):
            for n in range(512):
                kind.note(kept, n)
    change(path)
    before = content(path)
    assert words in await refusal(kind, path)
    assert content(path) == before


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing/kept.sqlite", "No such file or directory"),
        ("file/kept.sqlite", "Not a directory"),
        ("a\0b", "embedded null byte"),
    ],
)
async def test_a_file_that_cannot_be_made_is_the_operators_mistake(
    kind: Kind, tmp_path: Path, name: str, words: str
) -> None:
    (tmp_path / "file").write_text("x")
    assert await refusal(kind, tmp_path / name) == words


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
async def test_a_file_that_may_not_be_written(kind: Kind, path: Path) -> None:
    await read(kind, path)
    await anyio.Path(path).chmod(0o400)
    assert await refusal(kind, path) == "attempt to write a readonly database"


async def test_a_locked_file_is_refused_after_a_while(kind: Kind, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_file, "LOCK_SECONDS", 0.05)
    await read(kind, path)
    with database(path) as connection:
        connection.execute("BEGIN IMMEDIATE")
        assert await refusal(kind, path) == "database is locked"


async def test_a_table_that_is_missing_is_made_and_one_that_is_not_ours_is_left_alone(kind: Kind, path: Path) -> None:
    await read(kind, path)
    executed(f"DROP TABLE {kind.table}", "CREATE TABLE more (id INTEGER PRIMARY KEY)")(path)
    async with kind.file(path, kept := kind.made()):
        kind.note(kept, 1)
    assert await read(kind, path) == 1


async def test_an_empty_file_and_one_that_sqlite_has_analysed_will_do(kind: Kind, path: Path) -> None:
    await anyio.Path(path).touch()
    assert await read(kind, path) == 0
    executed("ANALYZE")(path)
    assert await read(kind, path) == 0


# a file that fails later


async def test_a_file_that_fails_is_logged_once_and_nothing_is_lost(
    kind: Kind, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(statistics_file, "LOCK_SECONDS", 0.01)
    async with kind.file(path, kept := kind.made()) as file:
        with database(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for n in range(3):
                kind.note(kept, n)
                await file.flush()
            assert (file.written, kind.known(kept)) == (0, 3)
            connection.execute("ROLLBACK")
        kind.note(kept, 3)
        await file.flush()
        assert file.written == 4
    assert [record.getMessage() for record in caplog.records] == [
        f"the statistics file {path} cannot be written: database is locked; runs go on, and the newest 65536 notes wait"
    ]
    assert await read(kind, path) == 4


async def test_a_file_that_cannot_be_written_for_long_does_not_fill_the_host(
    kind: Kind, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics_file, "LOCK_SECONDS", 0.01)
    monkeypatch.setattr(statistics_file, "MAX_UNWRITTEN", 10)
    async with kind.file(path, kept := kind.made()) as file:
        with database(path) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for n in range(25):
                kind.note(kept, n)
            await file.flush()
    assert await read(kind, path) == 10
