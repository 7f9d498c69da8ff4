"""The thread that does jobs: how they are grouped, and what happens to those of a transaction that fails."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from callgate.durable.worker import Job, Worker
from callgate.errors import OwnershipLost, StoreFailed

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def working(path: Path, **options: Any) -> AsyncIterator[tuple[Worker, list[str]]]:
    """A worker, and the statements that its connection was given."""
    statements: list[str] = []

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(path, isolation_level=None)
        connection.execute("CREATE TABLE IF NOT EXISTS notes (note UNIQUE)")
        connection.set_trace_callback(statements.append)
        return connection

    worker = Worker("test", connect, lambda error: f"said: {error}", **options)
    await worker.start()
    try:
        yield worker, statements
    finally:
        await worker.close()


def note(text: str) -> Callable[[sqlite3.Connection], str]:
    def work(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO notes VALUES (?)", (text,))
        return text

    return work


def notes(connection: sqlite3.Connection) -> list[str]:
    return [text for (text,) in connection.execute("SELECT note FROM notes ORDER BY rowid")]


class Gate:
    """A job that holds the thread until it is opened, so that others wait together."""

    def __init__(self, worker: Worker) -> None:
        self._opened = threading.Event()
        self.job = worker.submit(Job(lambda _: self._opened.wait(60)))

    def open(self) -> None:
        self._opened.set()


async def test_jobs_that_wait_together_are_one_transaction(tmp_path: Path) -> None:
    async with working(tmp_path / "db") as (worker, statements):
        gate = Gate(worker)
        jobs = [worker.submit(Job(note(f"{n}"))) for n in range(100)]
        gate.open()
        await gate.job
        assert [await job for job in jobs] == [f"{n}" for n in range(100)]
        assert statements.count("COMMIT") <= 2 + 1  # the gate's, unless jobs came while it was taken
        assert await worker.submit(Job(notes)) == [f"{n}" for n in range(100)]


async def test_a_job_that_fails_takes_no_other_with_it(tmp_path: Path) -> None:
    async with working(tmp_path / "db") as (worker, _):
        gate = Gate(worker)
        jobs = [worker.submit(Job(note(text), chain=text)) for text in ("a", "b", "a", "c")]
        defect = worker.submit(Job(lambda _: 1 / 0))
        after = worker.submit(Job(note("d"), chain="a"))
        other = worker.submit(Job(note("e"), chain="b"))
        gate.open()
        assert [await jobs[0], await jobs[1], await jobs[3], await other] == ["a", "b", "c", "e"]
        with pytest.raises(StoreFailed, match="said: UNIQUE constraint failed"):
            await jobs[2]
        with pytest.raises(ZeroDivisionError):
            await defect
        for chained in (after, worker.submit(Job(note("f"), chain="a"))):
            with pytest.raises(StoreFailed, match="an earlier change of this run was not stored: said: UNIQUE"):
                await chained
        assert await worker.submit(Job(notes)) == ["a", "b", "c", "e"]


async def test_a_refusal_belongs_to_its_job_and_breaks_nothing(tmp_path: Path) -> None:
    def refuse(_: sqlite3.Connection) -> None:
        raise OwnershipLost("no")

    async with working(tmp_path / "db") as (worker, statements):
        gate = Gate(worker)
        worker.submit(Job(note("a"), chain="x"))
        refused = worker.submit(Job(refuse, chain="x"))
        later = worker.submit(Job(note("b"), chain="x"))
        gate.open()
        assert await later == "b"
        for _ in range(2):
            with pytest.raises(OwnershipLost):
                await refused
        assert "ROLLBACK" not in statements


async def test_a_failure_that_nobody_awaits_is_quiet_and_the_thread_goes_on(tmp_path: Path) -> None:
    async with working(tmp_path / "db") as (worker, _):
        await worker.submit(Job(note("a")))
        worker.submit(Job(note("a")))
        assert await worker.submit(Job(note("b"))) == "b"


async def test_a_transaction_that_cannot_begin_fails_all_at_once(tmp_path: Path) -> None:
    async with working(tmp_path / "db", begin="BEGIN IMMEDIATE") as (worker, statements):
        await worker.submit(Job(lambda connection: connection.execute("PRAGMA busy_timeout = 1").fetchall()))
        other = sqlite3.connect(tmp_path / "db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        before = len(statements)
        jobs = [worker.submit(Job(note(f"{n}"), chain=n)) for n in range(50)]
        for job in jobs:
            with pytest.raises(StoreFailed, match="said: database is locked"):
                await job
        assert len(statements) - before < 50
        other.close()
        assert await worker.submit(Job(notes)) == []


async def test_a_connection_that_does_not_open_is_told_and_closing_waits_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(StoreFailed, match="said: unable to open database file"):
        async with working(tmp_path / "missing" / "db"):
            pass
    worker = Worker("test", lambda: sqlite3.connect(tmp_path / "missing" / "db"), str)
    with pytest.raises(StoreFailed):
        await worker.start()
    await worker.close()
    with pytest.raises(StoreFailed, match="closed"):
        await worker.submit(Job(notes))


async def test_no_thread_is_left(tmp_path: Path) -> None:
    async with working(tmp_path / "db") as (worker, _):
        await worker.submit(Job(note("a")))
    left = [thread for thread in threading.enumerate() if thread.name == "test"]
    for thread in left:
        thread.join(30)
        assert not thread.is_alive()
