"""A file with 100,000 runs that wait: lists, counts and looks for what is due stay quick."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from callgate.durable.sqlite import SqliteStore
from callgate.durable.store import StateChange
from durable.stored import NOW, approval, call, started

pytestmark = [pytest.mark.anyio, pytest.mark.alone]

RUNS = 100_000
MOST_SECONDS = 0.05
TRIES = 5


def copies(path: Path) -> None:
    """Copy the one run, with its program and its question, until there are `RUNS` of 10 clients."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    for table, name in (("runs", "id"), ("programs", "run"), ("approvals", "run")):
        columns = [column for _, column, *_ in connection.execute(f"PRAGMA table_info({table})")]
        new = {name: "'a' || n", "created": "created + n", "belongs_to": "'client' || (n % 10)", "asked": "asked + n"}
        chosen = [column for column in columns if (table, column) != ("approvals", "id")]
        values = ", ".join(new.get(column, column) for column in chosen)
        connection.execute(
            f"WITH RECURSIVE numbers (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM numbers WHERE n < {RUNS - 1}) "
            f"INSERT INTO {table} ({', '.join(chosen)}) SELECT {values} FROM {table}, numbers WHERE {name} = 'a'"
        )
    connection.close()


async def seconds_of(ask: Callable[[], Awaitable[Any]]) -> tuple[float, Any]:
    best, answer = float("inf"), None
    for _ in range(TRIES):
        began = time.perf_counter()
        answer = await ask()
        best = min(best, time.perf_counter() - began)
    return best, answer


async def test_a_page_and_the_number_of_100_000_waiting_runs_take_50_ms(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    store = SqliteStore(path)
    async with store.opened():
        held = await started(store, "a", belongs_to="client0")
        waits = StateChange("waiting", wake_at=4e9, released=True, reason="pay waits for an approval")
        await store.write(held, call(1, "waiting"), approval("a"), waits)
        copies(path)

        async def page_and_count() -> tuple[int, str, int]:
            page = await store.list(status="waiting")
            return len(page), page[0].id, await store.count(status="waiting")

        async def last_page() -> int:
            return len(await store.list(status="waiting", belongs_to="client3", before="a103"))

        taken: dict[str, float] = {}
        taken["page and count"], answer = await seconds_of(page_and_count)
        assert answer == (100, f"a{RUNS - 1}", RUNS)
        taken["last page of a client"], answer = await seconds_of(last_page)
        assert answer == 10
        taken["pending"], answer = await seconds_of(store.pending)
        assert [each.run for each in answer] == ["a", *(f"a{n}" for n in range(1, 100))]
        taken["pending of a client"], answer = await seconds_of(lambda: store.pending(belongs_to="client3"))
        assert [each.run for each in answer] == [f"a{n}" for n in range(3, 1000, 10)]
        taken["due"], answer = await seconds_of(lambda: store.due(NOW))
        assert answer == []
        taken["decided"], answer = await seconds_of(store.decided)
        print({what: f"{1000 * seconds:.2f} ms" for what, seconds in taken.items()})
        assert max(taken.values()) <= MOST_SECONDS
