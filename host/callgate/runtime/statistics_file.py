"""Statistics kept across restarts, in an SQLite file that several processes may share.

1. Read once, when it is opened. Afterwards attempts are only added; each process sees the others' after its next start.
2. Written in batches, each one transaction, in a worker thread: when 256 notes have come together, and every 10 s. A
   process that is killed loses what it noted since; the file stays whole.
3. Each write cuts the tools it wrote to their newest 256 attempts, so that the file does not grow without end.
4. What can be known beforehand is told when it is opened, as the operator's mistake. What goes wrong later is logged,
   once, and harms no run: notes wait in memory, and are written when the file can be written again.
5. The file is not trusted. Its schema has to be ours to the letter (a view of that name could be endless), and a row
   that makes no sense is skipped.

Knows rows and transactions; what the figures mean, `Statistics` knows.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator

import anyio
import anyio.abc
import anyio.to_thread

from callgate.errors import ConfigurationError
from callgate.tools.names import MAX_NAME_CHARACTERS
from callgate.tools.statistics import WINDOW, Attempt, Statistics, attempt_of

__all__ = ["StatisticsFile"]

logger = logging.getLogger("callgate")

BATCH = 256
"""Notes in one transaction: at a few milliseconds each, the disk does not hold up a host that is busy."""
FLUSH_SECONDS = 10.0
"""A host with few calls loses no more than that when it is killed."""
LOCK_SECONDS = 5.0
"""So long another process's transaction is waited for."""
MAX_ROWS = 1024 * WINDOW
"""So many rows are read, the newest: full windows of a thousand tools. More would hold up the start."""
MAX_UNWRITTEN = 65_536
"""So many notes wait for a file that cannot be written; beyond that the oldest are not kept."""

_APPLICATION_ID = 0x63616C6C  # "call", in the file's header: how a file of ours is known
_SCHEMA_VERSION = 1
_SCHEMA = {
    "attempts": "CREATE TABLE attempts (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, seconds REAL NOT NULL, "
    "outcome TEXT NOT NULL, confidence REAL)",
    "attempts_by_tool": "CREATE INDEX attempts_by_tool ON attempts (tool, id)",
}
_READ = (
    "SELECT tool, seconds, outcome, confidence FROM attempts "
    f"WHERE length(tool) <= {MAX_NAME_CHARACTERS} ORDER BY id DESC LIMIT {MAX_ROWS}"
)
_ADD = "INSERT INTO attempts (tool, seconds, outcome, confidence) VALUES (?, ?, ?, ?)"
_CUT = (
    "DELETE FROM attempts WHERE tool = :tool AND id <= "
    f"(SELECT id FROM attempts WHERE tool = :tool ORDER BY id DESC LIMIT 1 OFFSET {WINDOW})"
)

_REMEDIES = {
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database; name another file",
    sqlite3.SQLITE_CORRUPT: "it is damaged; remove it, only statistics are lost",
    sqlite3.SQLITE_BUSY: "another program has locked it; end that one, or name another file",
    sqlite3.SQLITE_LOCKED: "another program has locked it; end that one, or name another file",
    sqlite3.SQLITE_READONLY: "it cannot be written; make the file and its folder writable, or name another file",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; make the file and its folder writable, or name another file",
    sqlite3.SQLITE_PERM: "it cannot be opened; make the file and its folder writable, or name another file",
    sqlite3.SQLITE_FULL: "there is no room for it; free some disk space, or name a file on another disk",
    sqlite3.SQLITE_IOERR: "the disk does not read or write it; name a file on another disk",
}


class StatisticsFile:
    """A file that statistics are read from and written to. Use as an async context manager; leaving it writes the rest.

    Args:
        path: of the file; made when it is missing, for its owner alone (mode 0600). SQLite keeps two more beside it
            while it is open, `-wal` and `-shm`.
        statistics: what is kept.

    Raises (on entering):
        ConfigurationError: the file cannot be opened or written, is another program's, or was written by a newer
            callgate; or these statistics are kept in a file already.
    """

    def __init__(self, path: str | os.PathLike[str], statistics: Statistics) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.written = 0
        """Notes that are in the file for good."""
        self._statistics = statistics
        self._connection: sqlite3.Connection | None = None
        self._unwritten: list[Attempt] = []
        self._told = False
        self._thread = 0
        self._wake: anyio.Event
        self._writing: anyio.Lock
        self._threads: anyio.CapacityLimiter
        self._tasks: anyio.abc.TaskGroup

    async def __aenter__(self) -> StatisticsFile:
        self._wake, self._writing, self._thread = anyio.Event(), anyio.Lock(), threading.get_ident()
        self._threads = anyio.CapacityLimiter(1)  # of its own: not behind the application's threads
        self._statistics.keep(BATCH, self._batch_is_there)
        try:
            self._statistics.load(await anyio.to_thread.run_sync(self._open, limiter=self._threads))
            self._tasks = anyio.create_task_group()
            await self._tasks.__aenter__()
        except BaseException:
            self._statistics.keep_no_more()
            self._close()
            raise
        self._tasks.start_soon(self._flush_now_and_then)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is None:
            return
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)
        finally:  # it raises when this is cancelled
            with anyio.CancelScope(shield=True):
                await self.flush()
                self._statistics.keep_no_more()
                await anyio.to_thread.run_sync(self._close, limiter=self._threads)

    async def flush(self) -> None:
        """Write what was noted and is not in the file yet. A fault is logged, not raised."""
        async with self._writing:
            self._unwritten += self._statistics.drain()
            if not self._unwritten or self._connection is None:
                return
            try:
                await anyio.to_thread.run_sync(self._write, limiter=self._threads)
            except Exception as error:
                del self._unwritten[:-MAX_UNWRITTEN]
                if not self._told:
                    logger.warning(
                        "the statistics file %s cannot be written: %s; runs go on, and the newest %d notes wait for it",
                        self.path,
                        error,
                        MAX_UNWRITTEN,
                    )
                self._told = True
            else:
                self._told = False

    def _batch_is_there(self) -> None:
        if threading.get_ident() == self._thread:  # a gate in another thread shares the registry: the timer will do
            self._wake.set()

    async def _flush_now_and_then(self) -> None:
        while True:
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._wake.wait()
            self._wake = anyio.Event()
            await self.flush()

    # in a worker thread

    def _open(self) -> list[Attempt]:
        try:
            self._make_file()
            self._connection = connection = sqlite3.connect(
                self.path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.text_factory = _text
            _patiently(lambda: self._prepare(connection))
            rows = connection.execute(_READ).fetchall()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise self._refused(f"{reason}; make its folder and let it be written, or name another file") from None
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bits say it more exactly
            raise self._refused(f"{_REMEDIES.get(code, 'name another file')} ({error})") from None
        return [attempt for row in reversed(rows) if (attempt := attempt_of(row)) is not None]

    def _make_file(self) -> None:
        # Only a file that is not there yet is opened here: closing one would drop the locks that other connections of
        # this process have on it.
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise self._refused("it is not a regular file; name another") from None

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("BEGIN")  # to see all of it at one moment: another process may be making it just now
        with _transaction(connection):
            new = self._is_new(connection)
        if new:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        with _transaction(connection):
            if self._is_new(connection):  # nobody else was quicker
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                for definition in _SCHEMA.values():
                    connection.execute(definition)
            # Written every time, to see that it can be: a file that is read-only begins transactions all the same.
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    def _is_new(self, connection: sqlite3.Connection) -> bool:
        """Whether nothing is in it yet; refuses what is not ours, before anything in it is changed."""
        ((owner,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        found = dict(
            connection.execute("SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'")
        )
        if (owner, version, found) == (0, 0, {}):
            return True
        if owner != _APPLICATION_ID:
            raise self._refused("it is another program's database; name another file")
        if version > _SCHEMA_VERSION:
            raise self._refused(
                f"a newer callgate wrote it (schema {version}, this one knows {_SCHEMA_VERSION}); "
                "upgrade, or name another file"
            )
        if (version, found) != (_SCHEMA_VERSION, _SCHEMA):
            raise self._refused("its schema is not callgate's; remove it, only statistics are lost, or name another")
        return False

    def _write(self) -> None:
        connection, batch = self._connection, self._unwritten
        assert connection is not None
        connection.execute("BEGIN IMMEDIATE")
        with _transaction(connection):
            connection.executemany(_ADD, batch)
            for tool in {attempt[0] for attempt in batch}:
                connection.execute(_CUT, {"tool": tool})
        self.written += len(batch)
        self._unwritten = []  # here, and not where it was awaited: a cancellation must not write it twice

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _refused(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"the statistics file {self.path} cannot be used: {why}")


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise


def _patiently(step: Callable[[], None]) -> None:
    """SQLite's own patience does not cover the change to WAL, when two processes make the file at the same time."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            return step()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
