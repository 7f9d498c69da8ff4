"""What is kept across restarts, in an SQLite file that several processes may share: `StatisticsFile`, `LearnedFile`,
and the agent's selections.

1. Read once, when it is opened. Afterwards notes are only added; each process sees the others' after its next start.
2. Written in batches, each one transaction, in a worker thread: when a batch of notes has come together, and every
   10 s. A process that is killed loses what it noted since; the file stays whole. The file is open only while it is
   read or written, so that a file that was removed or replaced meanwhile is used as it is now.
3. Each write cuts what it wrote to its bounds, so that the file does not grow without end.
4. A file that cannot be used is the operator's mistake when it is opened. What goes wrong later is logged, once, and
   harms no run: notes wait in memory, and are written when the file can be written again.
5. The file is the operator's own: its rows are trusted, and tables that callgate does not know are left alone.

Knows rows and transactions; not what the figures mean.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from callgate.errors import ConfigurationError
from callgate.search.learned import MAX_LESSONS, MAX_PER_TOOL, Lesson
from callgate.tools.statistics import WINDOW, Attempt

__all__ = ["KeptFile", "LearnedFile", "Notes", "StatisticsFile"]

logger = logging.getLogger("callgate")

Note = TypeVar("Note")

FLUSH_SECONDS = 10.0
"""A host with few calls loses no more than that when it is killed."""
LOCK_SECONDS = 5.0
"""So long another process's transaction is waited for."""
MAX_UNWRITTEN = 65_536
"""So many notes wait for a file that cannot be written; beyond that the oldest are not kept."""
_SCHEMA_VERSION = 3
_REMEDY = "make it readable and writable, or name another; a damaged one can be removed: only statistics are lost"


class Notes(Protocol[Note]):
    """What is kept: `Statistics`, `Learned`."""

    on_note: Callable[[Note], None] | None
    """Called with each new note; set by the file that keeps them."""

    def load(self, earlier: Sequence[Note], /) -> None:
        """Begin with notes of earlier times, the oldest first. They are no new notes."""


class KeptFile(ABC, Generic[Note]):
    """A table of a file that notes are read from and written to. Use as an async context manager; leaving it writes
    the rest.

    Args:
        path: of the file; made when it is missing, for its owner alone (mode 0600).
        notes: what is kept.

    Raises (on entering):
        ConfigurationError: the file cannot be read or written, or these notes are kept in a file already.
    """

    table: ClassVar[str]
    columns: ClassVar[Mapping[str, str]]
    """Their SQL types by name, in the order of a row."""
    unique: ClassVar[Sequence[str]] = ()
    """Columns that no two rows have in common."""
    insert: ClassVar[str] = "INSERT OR REPLACE"
    most: ClassVar[int]
    """So many rows are kept, the newest."""
    most_of_tool: ClassVar[int | None] = None
    """So many rows with the same ``tool`` are kept."""
    batch: ClassVar[int] = 32
    """So many notes in one transaction."""

    def __init__(self, path: str | os.PathLike[str], notes: Notes[Note]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.written = 0
        """Notes that are in the file for good."""
        self._notes = notes
        self._noted: deque[Note] = deque(maxlen=MAX_UNWRITTEN)
        self._unwritten: list[Note] = []
        self._told = False
        self._thread = 0
        self._wake: anyio.Event
        self._writing: anyio.Lock
        self._threads: anyio.CapacityLimiter
        self._tasks: anyio.abc.TaskGroup | None = None

    @abstractmethod
    def note_of(self, row: Any) -> Note | None:
        """The note in a row; None where it is another file's."""

    @abstractmethod
    def row_of(self, note: Note) -> Sequence[Any]:
        """The row of a note."""

    async def __aenter__(self) -> Self:
        if self._notes.on_note is not None:
            raise ConfigurationError(
                f"these {self.table} are kept in a file already: keep others in the other file, or leave it out"
            )
        self._wake, self._writing, self._thread = anyio.Event(), anyio.Lock(), threading.get_ident()
        self._threads = anyio.CapacityLimiter(1)  # of its own: not behind the application's threads
        self._notes.on_note = self._take
        try:
            self._notes.load(await anyio.to_thread.run_sync(self._read, limiter=self._threads))
            self._tasks = await anyio.create_task_group().__aenter__()
        except BaseException:
            self._notes.on_note = None
            raise
        self._tasks.start_soon(self._flush_now_and_then)
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks, self._tasks = self._tasks, None
        if tasks is None:
            return
        tasks.cancel_scope.cancel()
        try:
            await tasks.__aexit__(None, None, None)
        finally:  # it raises when this is cancelled
            self._notes.on_note = None
            with anyio.CancelScope(shield=True):
                await self.flush()

    async def flush(self) -> None:
        """Write what was noted and is not in the file yet. A fault is logged, not raised."""
        async with self._writing:
            self._unwritten += self._noted
            self._noted.clear()
            if not self._unwritten:
                return
            try:
                await anyio.to_thread.run_sync(self._write, limiter=self._threads)
            except Exception as error:
                del self._unwritten[:-MAX_UNWRITTEN]
                if not self._told:
                    words = "the statistics file %s cannot be written: %s; runs go on, and the newest %d notes wait"
                    logger.warning(words, self.path, error, MAX_UNWRITTEN)
                self._told = True
            else:
                self._told = False

    def _take(self, note: Note) -> None:
        self._noted.append(note)
        # A gate in another thread may share the registry: for its notes the timer will do.
        if len(self._noted) % self.batch == 0 and threading.get_ident() == self._thread:
            self._wake.set()

    async def _flush_now_and_then(self) -> None:
        while True:
            with anyio.move_on_after(FLUSH_SECONDS):
                await self._wake.wait()
            self._wake = anyio.Event()
            await self.flush()

    # in a worker thread

    def _read(self) -> list[Note]:
        names = ", ".join(self.columns)
        try:
            with self._transaction() as connection:
                # Written every time, to see that it can be: a file that is read-only begins transactions all the same.
                connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
                newest = f"SELECT {names} FROM {self.table} ORDER BY id DESC LIMIT {self.most}"
                rows = connection.execute(newest).fetchall()
            return [note for row in reversed(rows) if (note := self.note_of(row)) is not None]
        except (OSError, sqlite3.Error, ValueError, TypeError, LookupError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigurationError(f"the statistics file {self.path} cannot be used: {why}; {_REMEDY}") from None

    def _write(self) -> None:
        batch, names = self._unwritten, ", ".join(self.columns)
        rows = [[_storable(value) for value in self.row_of(note)] for note in batch]
        places = ", ".join("?" * len(self.columns))
        older = f"DELETE FROM {self.table} WHERE id <= (SELECT id FROM {self.table} ORDER BY id DESC LIMIT 1 OFFSET ?)"
        with self._transaction() as connection:
            connection.executemany(f"{self.insert} INTO {self.table} ({names}) VALUES ({places})", rows)
            if self.most_of_tool is not None:
                of_tool = (
                    f"DELETE FROM {self.table} WHERE tool = :tool AND id <= "
                    f"(SELECT id FROM {self.table} WHERE tool = :tool ORDER BY id DESC LIMIT 1 OFFSET :most)"
                )
                tools = {row[list(self.columns).index("tool")] for row in rows}
                connection.executemany(of_tool, [{"tool": tool, "most": self.most_of_tool} for tool in tools])
            connection.execute(older, (self.most,))
        self.written += len(batch)
        self._unwritten = []  # here, and not where it was awaited: a cancellation must not write it twice

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """The file with its table, opened to be written; made where it is missing."""
        # Only a file that is not there yet is opened here: closing one would drop the locks that other connections of
        # this process have on it.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        columns = [f"{name} {kind}" for name, kind in self.columns.items()]
        unique = [f"UNIQUE ({', '.join(self.unique)})"] if self.unique else []
        defined = ", ".join(["id INTEGER PRIMARY KEY", *columns, *unique])
        opened = sqlite3.connect(self.path, timeout=LOCK_SECONDS, isolation_level=None)
        with contextlib.closing(opened) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                connection.execute(f"CREATE TABLE IF NOT EXISTS {self.table} ({defined})")
                if self.most_of_tool is not None:
                    connection.execute(f"CREATE INDEX IF NOT EXISTS {self.table}_by_tool ON {self.table} (tool, id)")
                yield connection


def _storable(value: Any) -> Any:
    """A text without halves of characters: JSON that a model wrote may hold them, and no file takes them."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


class StatisticsFile(KeptFile[Attempt]):
    """The file of `Statistics`: attempts of tools. Each tool's newest 256 are kept."""

    table = "attempts"
    columns: ClassVar = {
        "tool": "TEXT NOT NULL",
        "seconds": "REAL NOT NULL",
        "outcome": "TEXT NOT NULL",
        "confidence": "REAL",
    }
    most = 1024 * WINDOW  # full windows of a thousand tools: more would hold up the start
    most_of_tool = WINDOW
    batch = 256  # at a few milliseconds each, the disk does not hold up a host that is busy

    def note_of(self, row: Any) -> Attempt:
        """The attempt in a row."""
        tool, seconds, outcome, confidence = row
        return tool, float(seconds), outcome, confidence

    def row_of(self, note: Attempt) -> Sequence[Any]:
        """An attempt is a row."""
        return note


class LearnedFile(KeptFile[Lesson]):
    """The file of `Learned`: what searches taught. A lesson that is learned again is the newest."""

    table = "lessons"
    columns: ClassVar = {"tool": "TEXT NOT NULL", "terms": "TEXT NOT NULL"}
    unique = ("tool", "terms")
    most = MAX_LESSONS
    most_of_tool = MAX_PER_TOOL

    def note_of(self, row: Any) -> Lesson:
        """The lesson in a row."""
        tool, terms = row
        return tool, tuple(terms.split(" "))

    def row_of(self, note: Lesson) -> Sequence[Any]:
        """Its terms with blanks between them."""
        tool, terms = note
        return tool, " ".join(terms)
