"""A store of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callgate.durable.memory import MemoryStore
from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import Store

KEY = bytes(range(32))


@pytest.fixture(params=["memory", "sqlite", "encrypted"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    made: Store
    if request.param == "memory":
        made = MemoryStore()
    else:
        made = SqliteStore(tmp_path / "runs.db", encryption_key=KEY if request.param == "encrypted" else None)
    async with made.opened():
        yield made


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    """A file alone, where it matters that it is one."""
    made = SqliteStore(tmp_path / "runs.db")
    async with made.opened():
        yield made
