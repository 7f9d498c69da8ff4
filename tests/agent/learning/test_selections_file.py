"""The log of selections outlives the process, in a file of its own or that of the statistics.
`tests/runtime/test_kept_files.py` has what all such files do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callgate import Runtime
from callgate.agent.learning import selections_file
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.selections_file import BATCH, SelectionsFile
from callgate.agent.planning.outcome import SelectionOutcome
from callgate.runtime import kept_file
from runtime.kept_files import database

pytestmark = pytest.mark.anyio

OUTCOME = SelectionOutcome(
    query="weather in Zürich on 3 May", tools=("forecast", "units"), strategy="llm", success=False, seconds=1.5,
    cost=0.25, confidence=0.75, failed_tools=("units",), reasoning="units differ", error="units: no such unit",
)  # fmt: skip
COLUMNS = "query, tools, strategy, success, seconds, cost, confidence, failed, reasoning, error"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "selections.sqlite"


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_file, "FLUSH_SECONDS", 1e6)


async def read(path: Path) -> tuple[SelectionOutcome, ...]:
    memory = SelectionMemory()
    async with SelectionsFile(path, memory):
        return memory.outcomes


async def test_selections_are_there_after_a_restart_with_their_reasoning(path: Path) -> None:
    memory = SelectionMemory()
    async with SelectionsFile(path, memory):
        memory.note(OUTCOME)
        memory.note(SelectionOutcome(query="q", tools=(), strategy="", success=True))
    assert await read(path) == memory.outcomes
    assert (await read(path))[0] == OUTCOME


async def test_the_file_of_a_runtimes_statistics_will_do(path: Path) -> None:
    memory = SelectionMemory()
    async with Runtime([], sandbox=None, statistics=path) as runtime, SelectionsFile(path, memory):
        runtime.registry.statistics.note("forecast", 1.0, "succeeded")
        memory.note(OUTCOME)
    async with Runtime([], sandbox=None, statistics=path) as runtime:
        assert runtime.registry.statistics.all()["forecast"].calls == 1
    assert await read(path) == (OUTCOME,)


async def test_without_words_only_terms_are_kept(path: Path) -> None:
    memory = SelectionMemory()
    async with SelectionsFile(path, memory, words=False):
        memory.note(OUTCOME)
    (kept,) = await read(path)
    assert (kept.query, kept.reasoning, kept.error, kept.tools) == ("weather zurich", "", "", OUTCOME.tools)


async def test_the_file_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections_file, "_CUT", selections_file._CUT.replace("10000", "5"))
    memory = SelectionMemory()
    async with SelectionsFile(path, memory) as file:
        for n in range(BATCH + 3):
            memory.note(SelectionOutcome(query=f"q{n}", tools=(), strategy="", success=True))
        await file.flush()
    assert [each.query for each in await read(path)] == [f"q{n}" for n in range(BATCH - 2, BATCH + 3)]


async def test_rows_that_make_no_sense_are_skipped(path: Path) -> None:
    await read(path)
    sound: tuple[Any, ...] = ("q", '["a"]', "s", 1, 1.0, None, None, "[]", "", "")
    hostile: dict[int, list[Any]] = {
        0: [b"\xff"],
        1: ["[", "{}", '["a"', "[1]", '[""]', "[" * 100_000, '["a"' + ', "a"' * 100 + "]", 7, b"[]"],
        2: [b"s"],
        3: [2, "yes", -1],
        4: [-1.0, float("inf"), "soon"],
        7: ["x", '{"a": 1}'],
        8: [b"r"],
        9: [b"e"],
    }
    with database(path) as connection:
        for place, values in hostile.items():
            for value in values:
                row = (*sound[:place], value, *sound[place + 1 :])
                connection.execute(f"INSERT INTO selections ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        odd = ("odd", '["a", "\\ud800"]', "s", 1, 1.0, -3.0, 17.0, "[]", "", "")
        connection.execute(f"INSERT INTO selections ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", odd)
    assert await read(path) == (
        SelectionOutcome(query="odd", tools=("a", "?"), strategy="s", success=True, seconds=1.0),
    )


async def test_half_characters_of_a_model_do_not_keep_the_rest_from_being_written(path: Path) -> None:
    memory = SelectionMemory()
    async with SelectionsFile(path, memory):
        memory.note(
            SelectionOutcome(query="\ud83d", tools=("\udc00",), strategy="", success=True, reasoning="\0\ud800")
        )
        memory.note(OUTCOME)
    assert [each.query for each in await read(path)] == ["?", OUTCOME.query]


async def test_a_file_of_the_second_schema_gets_the_tables_that_it_lacks(path: Path) -> None:
    await read(path)
    with database(path) as connection:
        connection.execute("INSERT INTO lessons (tool, terms) VALUES ('forecast', 'rain')")
        for name in ("selections", "trials"):
            connection.execute(f"DROP TABLE {name}")
        connection.execute("PRAGMA user_version = 2")
    memory = SelectionMemory()
    async with SelectionsFile(path, memory):
        memory.note(OUTCOME)
    assert await read(path) == (OUTCOME,)
    with database(path) as connection:
        assert connection.execute("SELECT tool, terms FROM lessons").fetchall() == [("forecast", "rain")]
        assert connection.execute("PRAGMA user_version").fetchone() == (3,)
