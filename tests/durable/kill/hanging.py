"""Processes that hang: stopped where they hold no lock, or inside a transaction. Starts none.

SIGSTOP hits a process anywhere. One that is stopped inside a transaction of SQLite keeps the lock on the file, so that
nobody else can write: another case than a process that hangs and holds its lease alone.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from itertools import count
from pathlib import Path
from sqlite3 import Connection

import anyio

from callgate.durable.store import Change, Held
from callgate.durable.tables import Tables
from durable.kill.warm import Life

__all__ = ["is_stopped", "is_stopped_without_a_lock", "stops_in_a_transaction"]


def stops_in_a_transaction(number: int) -> None:
    """Let this process stop itself, once, after the write of a run with this number, from 1, and inside its
    transaction: the lock is held, and the change is neither committed nor undone."""
    write, numbers = Tables.write, count(1)

    def stops(self: Tables, db: Connection, held: Held, changes: Sequence[Change], told: int) -> None:
        write(self, db, held, changes, told)
        if next(numbers) == number:
            # to this thread: it would run on for a moment, and commit, if another thread took the signal
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)

    Tables.write = stops  # type: ignore[method-assign]


def _is_locked(database: Path) -> bool:
    """Whether some process is inside a transaction that writes."""
    with closing(sqlite3.connect(database, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            return True
        connection.execute("ROLLBACK")
        return False


async def is_stopped_without_a_lock(process: Life, database: Path) -> None:
    """Return when the process has stopped itself, and holds no lock on the database. One that does goes on for a
    moment, again and again."""
    with anyio.fail_after(60):
        await is_stopped(process)
        while _is_locked(database):
            process.send_signal(signal.SIGCONT)
            await anyio.sleep(0.001)
            process.send_signal(signal.SIGSTOP)
            await is_stopped(process)


async def is_stopped(process: Life) -> None:
    """Return when every thread of the process is stopped. Raises `AssertionError` if it ends first."""
    with anyio.fail_after(60):
        while _states(process.pid) != {"T"}:
            assert process.poll() is None, "it has ended"
            await anyio.sleep(0.001)


def _states(pid: int) -> set[str]:
    """States of the threads of a process."""
    return {stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")}
