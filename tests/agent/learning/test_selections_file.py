"""The log of selections outlives the process, in a file of its own or that of the statistics.
`tests/runtime/test_notes_files.py` has what all such files do."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgate import Runtime
from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.selections_file import SelectionsFile
from callgate.agent.planning.selection import SelectionOutcome
from callgate.runtime import statistics_file

pytestmark = pytest.mark.anyio

OUTCOME = SelectionOutcome(
    query="weather in Zürich on 3 May", tools=("forecast", "units"), strategy="llm", success=False, seconds=1.5,
    cost=0.25, confidence=0.75, failed_tools=("units",), reasoning="units differ", error="units: no such unit",
)  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "selections.sqlite"


@pytest.fixture(autouse=True)
def no_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics_file, "FLUSH_SECONDS", 1e6)


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
