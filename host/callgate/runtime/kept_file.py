"""What is kept across restarts, in an SQLite file that several processes may share: `StatisticsFile`, `LearnedFile`,
and the agent's selections and trials.

1. Read once, when it is opened. Afterwards notes are only added; each process sees the others' after its next start.
2. Written in batches, each one transaction, in a worker thread: when a batch of notes has come together, and every
   10 s. A process that is killed loses what it noted since; the file stays whole.
3. Each write cuts what it wrote to its bounds, so that the file does not grow without end.
4. What can be known beforehand is told when it is opened, as the operator's mistake. What goes wrong later is logged,
   once, and harms no run: notes wait in memory, and are written when the file can be written again. A file that was
   removed meanwhile is made anew.
5. The file is the operator's own, and may be damaged: a row that makes no sense is skipped.
6. A file of an earlier schema gets the tables that it lacks. An earlier callgate refuses it from then on.

Knows rows and transactions; not what the figures mean.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from callgate.errors import ConfigurationError

__all__ = ["KeptFile", "Notes"]

logger = logging.getLogger("callgate")

Note = TypeVar("Note")

FLUSH_SECONDS = 10.0
"""A host with few calls loses no more than that when it is killed."""
LOCK_SECONDS = 5.0
"""So long another process's transaction is waited for."""
MAX_UNWRITTEN = 65_536
"""So many notes wait for a file that cannot be written; beyond that the oldest are not kept."""

_APPLICATION_ID = 0x63616C6C  # "call", in the file's header: how a file of ours is known
_SCHEMA_VERSION = 3
_SCHEMA = (
    "TABLE IF NOT EXISTS attempts (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, seconds REAL NOT NULL, "
    "outcome TEXT NOT NULL, confidence REAL)",
    "INDEX IF NOT EXISTS attempts_by_tool ON attempts (tool, id)",
    "TABLE IF NOT EXISTS lessons (id INTEGER PRIMARY KEY, tool TEXT NOT NULL, terms TEXT NOT NULL, "
    "UNIQUE (tool, terms))",
    "INDEX IF NOT EXISTS lessons_by_tool ON lessons (tool, id)",
    "TABLE IF NOT EXISTS selections (id INTEGER PRIMARY KEY, query TEXT NOT NULL, tools TEXT NOT NULL, "
    "strategy TEXT NOT NULL, success INTEGER NOT NULL, seconds REAL NOT NULL, cost REAL, confidence REAL, "
    "failed TEXT NOT NULL, reasoning TEXT NOT NULL, error TEXT NOT NULL)",
    "TABLE IF NOT EXISTS trials (id INTEGER PRIMARY KEY, experiment TEXT NOT NULL, unit TEXT NOT NULL, "
    "arm TEXT NOT NULL, success INTEGER NOT NULL, seconds REAL, UNIQUE (experiment, unit, arm))",
    "INDEX IF NOT EXISTS trials_by_experiment ON trials (experiment, id)",
)
"""The second version brought lessons, the third selections and trials."""

_REMEDIES = {
    sqlite3.SQLITE_ERROR: "its schema is not callgate's; remove it, only statistics are lost, or name another",
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


class Notes(Protocol[Note]):
    """What is kept: `Statistics`, `Learned`."""

    def keep(self, batch: int, on_batch: Callable[[], None]) -> None:
        """From now on hold every note ready for `drain`, and call `on_batch` each time that a batch is together."""

    def keep_no_more(self) -> None:
        """End what `keep` began."""

    def load(self, earlier: Sequence[Note], /) -> None:
        """Begin with notes of earlier times, the oldest first."""

    def drain(self) -> list[Note]:
        """What was noted since the last time, the oldest first."""


class KeptFile(ABC, Generic[Note]):
    """A file that notes are read from and written to. Use as an async context manager; leaving it writes the rest.

    Args:
        path: of the file; made when it is missing, for its owner alone (mode 0600). SQLite keeps two more beside it
            while it is open, `-wal` and `-shm`.
        notes: what is kept.

    Raises (on entering):
        ConfigurationError: the file cannot be opened or written, is another program's, or was written by a newer
            callgate; or these notes are kept in a file already.
    """

    batch: ClassVar[int]
    """So many notes in one transaction."""
    select: ClassVar[str]
    """The rows that are read, the newest first, a bounded number."""
    insert: ClassVar[str]
    """Adds a row."""

    def __init__(self, path: str | os.PathLike[str], notes: Notes[Note]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.written = 0
        """Notes that are in the file for good."""
        self._notes = notes
        self._connection: sqlite3.Connection | None = None
        self._opened: tuple[int, int] | None = None  # which file that is
        self._unwritten: list[Note] = []
        self._told = False
        self._thread = 0
        self._wake: anyio.Event
        self._writing: anyio.Lock
        self._threads: anyio.CapacityLimiter
        self._tasks: anyio.abc.TaskGroup

    @abstractmethod
    def note_of(self, row: Sequence[object]) -> Note | None:
        """The note in a row that anybody may have written; None when it is none."""

    @abstractmethod
    def row_of(self, note: Note) -> Sequence[Any]:
        """The parameters of `insert`."""

    @abstractmethod
    def cuts(self, notes: Iterable[Note]) -> Iterator[tuple[str, dict[str, Any]]]:
        """What keeps the file within its bounds once these are written: statements and their parameters."""

    async def __aenter__(self) -> Self:
        self._wake, self._writing, self._thread = anyio.Event(), anyio.Lock(), threading.get_ident()
        self._threads = anyio.CapacityLimiter(1)  # of its own: not behind the application's threads
        self._notes.keep(self.batch, self._batch_is_there)
        try:
            self._notes.load(await anyio.to_thread.run_sync(self._open, limiter=self._threads))
            self._tasks = anyio.create_task_group()
            await self._tasks.__aenter__()
        except BaseException:
            self._notes.keep_no_more()
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
                self._notes.keep_no_more()
                await anyio.to_thread.run_sync(self._close, limiter=self._threads)

    async def flush(self) -> None:
        """Write what was noted and is not in the file yet. A fault is logged, not raised."""
        async with self._writing:
            self._unwritten += self._notes.drain()
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

    def _open(self) -> list[Note]:
        try:
            self._make_file()
            self._connection = connection = sqlite3.connect(
                self.path, timeout=LOCK_SECONDS, isolation_level=None, check_same_thread=False
            )
            connection.text_factory = _text
            _patiently(lambda: self._prepare(connection))
            rows = connection.execute(self.select).fetchall()
            self._opened = _identity(self.path)
        except UnicodeDecodeError:  # what SQLite says of damage has the damaged bytes in it
            raise self._refused(_REMEDIES[sqlite3.SQLITE_CORRUPT]) from None
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise self._refused(f"{reason}; make its folder and let it be written, or name another file") from None
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the higher bits say it more exactly
            raise self._refused(f"{_REMEDIES.get(code, 'name another file')} ({error})") from None
        return [note for row in reversed(rows) if (note := self.note_of(row)) is not None]

    def _make_file(self) -> None:
        # Only a file that is not there yet is opened here: closing one would drop the locks that other connections of
        # this process have on it.
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            if not stat.S_ISREG(os.stat(self.path).st_mode):
                raise self._refused("it is not a regular file; name another") from None

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")  # to see all of it at one moment: another process may be making it just now
        with _transaction(connection):
            version = self._version(connection)
        if not version:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("BEGIN IMMEDIATE")
        with _transaction(connection):
            version = self._version(connection)  # somebody else may have been quicker
            if not version:
                connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            for definition in _SCHEMA:
                connection.execute(f"CREATE {definition}")
            # Written every time, to see that it can be: a file that is read-only begins transactions all the same.
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")

    def _version(self, connection: sqlite3.Connection) -> int:
        """That of its schema, 0 when nothing is in it yet; refuses what is not ours, before anything is changed."""
        ((owner,),) = connection.execute("PRAGMA application_id")
        ((version,),) = connection.execute("PRAGMA user_version")
        ((tables,),) = connection.execute(
            "SELECT count(*) FROM sqlite_master WHERE name NOT LIKE 'sqlite|_%' ESCAPE '|'"
        )
        if (owner, version, tables) == (0, 0, 0):
            return 0
        if owner != _APPLICATION_ID:
            raise self._refused("it is another program's database; name another file")
        if version > _SCHEMA_VERSION:
            raise self._refused(
                f"a newer callgate wrote it (schema {version}, this one knows {_SCHEMA_VERSION}); "
                "upgrade, or name another file"
            )
        return int(version)

    def _write(self) -> None:
        if self._opened is None or self._opened != _identity(self.path):
            self._open_again()
        connection, batch = self._connection, self._unwritten
        assert connection is not None
        connection.execute("BEGIN IMMEDIATE")
        with _transaction(connection):
            rows = [row for row in map(self.row_of, batch) if _can_be_kept(row)]
            connection.executemany(self.insert, rows)
            for statement, values in self.cuts(batch):
                connection.execute(statement, values)
        self.written += len(batch)
        self._unwritten = []  # here, and not where it was awaited: a cancellation must not write it twice

    def _open_again(self) -> None:
        """Somebody took the file away, or put another in its place: SQLite would write on where nobody finds it."""
        before, first = self._connection, self._opened is not None
        self._opened = None
        try:
            self._open()
        finally:
            if before is not None and before is not self._connection:
                with contextlib.suppress(sqlite3.Error):
                    before.close()
        if first:
            logger.warning(
                "the statistics file %s was removed or replaced: what is noted now is in a new one", self.path
            )

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


def _can_be_kept(row: Sequence[object]) -> bool:
    """Whether SQLite takes it: halves of characters and large integers would keep all the other notes waiting."""
    for value in row:
        if isinstance(value, str) and not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                return False
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            return False
    return True


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")
