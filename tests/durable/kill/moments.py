"""Checks that several files of single moments have in common."""

from __future__ import annotations

from pathlib import Path

from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import StoredRun
from durable.kill.judging import faults
from durable.kill.lives import Lives
from durable.kill.trials import Expected
from durable.kill.world import entries

__all__ = ["check", "row"]


def check(lives: Lives, expected: Expected) -> None:
    """The run has ended, and nothing is wrong with it."""
    assert lives.faults == []
    assert lives.told is not None
    assert faults(lives.told, expected.told, entries(lives.folder), lives.kept) == []


async def row(folder: Path) -> StoredRun:
    """The only run of the database in the folder."""
    store = SqliteStore(folder / "runs.db")
    async with store.opened():
        (run,) = await store.list()
        return await store.find(run.id)
