"""Files that an earlier callgate wrote, word for word as it wrote them; files that are damaged; processes that write
the same one."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.selections_file import SelectionsFile
from callgate.agent.planning.outcome import SelectionOutcome
from callgate.errors import ConfigurationError
from callgate.runtime.statistics_file import LearnedFile, StatisticsFile
from callgate.search.learned import Learned
from callgate.tools.statistics import Statistics
from runtime.kept_files import database

pytestmark = pytest.mark.anyio

OUTCOME = SelectionOutcome(query="weather", tools=("forecast",), strategy="llm", success=True, seconds=1.0)
FIRST = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA application_id = 1667329132",
    "CREATE TABLE attempts (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, seconds REAL NOT NULL, "
    "outcome TEXT NOT NULL, confidence REAL)",
    "CREATE INDEX attempts_by_tool ON attempts (tool, id)",
    "PRAGMA user_version = 1",
    "INSERT INTO attempts (tool, seconds, outcome, confidence) VALUES ('forecast', 1.5, 'succeeded', NULL)",
)
SECOND = (
    *FIRST,
    "CREATE TABLE lessons (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, terms TEXT NOT NULL, UNIQUE (tool, terms))",
    "CREATE INDEX lessons_by_tool ON lessons (tool, id)",
    "PRAGMA user_version = 2",
    "INSERT INTO lessons (tool, terms) VALUES ('forecast', 'rain')",
)
"""As commits of these versions have them. They never change: whoever has such a file has it."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "kept.sqlite"


def write(path: Path, statements: tuple[str, ...]) -> None:
    with database(path) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(("statements", "lessons"), [(FIRST, 0), (SECOND, 1)], ids=["first", "second"])
async def test_a_file_of_an_earlier_callgate_is_taken_over_with_what_is_in_it(
    path: Path, statements: tuple[str, ...], lessons: int
) -> None:
    write(path, statements)
    for _ in range(2):
        memory, statistics, learned = SelectionMemory(), Statistics(), Learned()
        async with SelectionsFile(path, memory), StatisticsFile(path, statistics), LearnedFile(path, learned):
            before = len(memory)
            memory.note(OUTCOME)
        assert statistics.all()["forecast"].calls == 1
        assert learned.of("forecast") == lessons
    assert before == 1
    with database(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


OPENER = """
import sys, anyio
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.selections_file import SelectionsFile
from callgate.agent.planning.outcome import SelectionOutcome

async def main():
    memory = SelectionMemory()
    sys.stdin.readline()
    async with SelectionsFile(sys.argv[1], memory) as file:
        for n in range(100):
            memory.note(SelectionOutcome(query=f"{sys.argv[2]} {n}", tools=(), strategy="", success=True))
            if n % 10 == 0:
                await file.flush()
anyio.run(main)
"""


@pytest.mark.slow
def test_processes_take_an_old_file_over_at_the_same_time_and_lose_nothing(path: Path) -> None:
    write(path, SECOND)
    processes = [
        subprocess.Popen([sys.executable, "-c", OPENER, str(path), name], stdin=subprocess.PIPE, text=True)
        for name in ("one", "two")
    ]
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in processes:
        each.communicate(timeout=60)
        assert each.returncode == 0
    with database(path) as connection:
        told = {query for (query,) in connection.execute("SELECT query FROM selections")}
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert told == {f"{name} {n}" for name in ("one", "two") for n in range(100)}


async def test_a_damaged_file_is_read_or_refused_in_clear_words_and_nothing_else(path: Path) -> None:
    async with SelectionsFile(path, memory := SelectionMemory()):
        for _ in range(40):
            memory.note(OUTCOME)
    whole, draw, refusals = await anyio.Path(path).read_bytes(), random.Random(5), []
    for turn in range(60):
        data = bytearray(whole)
        for _ in range(draw.choice((1, 20, 200))):
            data[draw.randrange(8192 if turn % 2 else len(data))] = draw.randrange(256)
        damaged = path.with_name(f"damaged{turn}")
        await anyio.Path(damaged).write_bytes(bytes(data[: draw.randrange(len(data))] if turn % 5 == 0 else data))
        try:
            async with SelectionsFile(damaged, SelectionMemory()):
                pass
        except ConfigurationError as error:
            refusals.append(str(error))
    assert 10 < len(refusals) < 60
    assert all("a damaged one can be removed: only statistics are lost" in each for each in refusals), refusals


def remove(path: Path) -> None:
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


async def test_a_file_that_is_removed_while_it_is_kept_is_made_anew(path: Path) -> None:
    memory = SelectionMemory()
    async with SelectionsFile(path, memory) as file:
        memory.note(OUTCOME)
        await file.flush()
        remove(path)
        memory.note(OUTCOME)
        memory.note(OUTCOME)
    async with SelectionsFile(path, again := SelectionMemory()):
        assert len(again) == 2
