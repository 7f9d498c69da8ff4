"""Keeps notes across restarts in an SQLite file that several processes may share: `StatisticsFile`, `LearnedFile`,
`VectorsFile`, and the agent's selections.

1. The file is read once, when it is opened. Later notes are only added; a process sees the notes of others after its
   next start.
2. Notes are written every 10 s, or sooner if there are many, in one transaction, in a worker thread. A process that is
   killed loses its newest notes; the file stays whole. The file is open only while it is read or written, so a replaced
   file is used from then on.
3. Each write deletes the oldest rows above its bounds, so the file does not grow without end.
4. If the file cannot be used when it is opened, the operator made a mistake. Later faults are logged once and harm no
   run: notes wait in memory until the file can be written again.
5. The file is the operator's own: its rows are trusted, and unknown tables are left alone.

Knows rows and transactions; not what the figures mean.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import anyio
import anyio.abc
import anyio.to_thread

from callgate.errors import ConfigurationError
from callgate.runtime.discovery.meaning import MAX_VECTORS, Vector
from callgate.search.learned import MAX_LESSONS, MAX_PER_TOOL, Lesson
from callgate.tools.statistics import WINDOW, Attempt

__all__ = ["LearnedFile", "Notes", "NotesFile", "StatisticsFile", "VectorsFile"]

logger = logging.getLogger("callgate")

Note = TypeVar("Note")

FLUSH_SECONDS = 10.0
"""A host that is killed loses the notes of that time at most."""
LOOK_SECONDS = 1.0
"""Time between looks at the number of notes: half of `MAX_UNWRITTEN` notes are written without a further wait."""
LOCK_SECONDS = 5.0
"""Wait for another process's transaction for that long."""
MAX_UNWRITTEN = 65_536
"""Notes that wait to be written; beyond that the oldest are dropped."""
_SCHEMA_VERSION = 3
_REMEDY = "make it readable and writable, or name another; a damaged one can be removed: only statistics are lost"


class Notes(Protocol[Note]):
    """The values that a file keeps: `Statistics`, `Learned`."""

    on_note: Callable[[Note], None] | None
    """Receives each new note; set by the file."""

    def load(self, earlier: Sequence[Note], /) -> None:
        """Begin with earlier notes, the oldest first, without calling `on_note`."""


class NotesFile(ABC, Generic[Note]):
    """One table of notes in a file. Use as an async context manager: entering reads the notes, leaving writes new ones.

    Args:
        path: of the file; a missing file is made for its owner alone (mode 0600).
        notes: the values to keep.

    Raises (on entering):
        ConfigurationError: the file cannot be read or written, or another file keeps these notes already.
    """

    table: ClassVar[str]
    columns: ClassVar[Mapping[str, str]]
    """SQL types of the columns by name, in the order of a row."""
    unique: ClassVar[Sequence[str]] = ()
    """Columns whose values together are unique."""
    insert: ClassVar[str] = "INSERT OR REPLACE"
    most: ClassVar[int]
    """Rows that are kept: the newest."""
    most_of_tool: ClassVar[int | None] = None
    """Rows that are kept for one ``tool``: the newest."""

    def __init__(self, path: str | os.PathLike[str], notes: Notes[Note]) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self.written = 0
        """Number of notes that are in the file."""
        self._notes = notes
        self._noted: deque[Note] = deque(maxlen=MAX_UNWRITTEN)
        self._unwritten: list[Note] = []
        self._logged = False
        self._writing: anyio.Lock
        self._threads: anyio.CapacityLimiter
        self._tasks: anyio.abc.TaskGroup | None = None

    @abstractmethod
    def note_of(self, row: Any) -> Note:
        """The note in a row."""

    @abstractmethod
    def row_of(self, note: Note) -> Sequence[Any]:
        """The row of a note."""

    async def __aenter__(self) -> Self:
        if self._notes.on_note is not None:
            raise ConfigurationError(
                f"these {self.table} are kept in a file already: keep others in the other file, or leave it out"
            )
        self._writing = anyio.Lock()
        self._threads = anyio.CapacityLimiter(1)  # its own: it does not wait for the application's threads
        self._notes.on_note = self._noted.append
        try:
            self._notes.load(await anyio.to_thread.run_sync(self._read, limiter=self._threads))
            self._tasks = await anyio.create_task_group().__aenter__()
        except BaseException:
            self._notes.on_note = None
            raise
        self._tasks.start_soon(self._flush_regularly)
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks, self._tasks = self._tasks, None
        if tasks is None:
            return
        tasks.cancel_scope.cancel()
        try:
            await tasks.__aexit__(None, None, None)
        finally:  # a cancelled `__aexit__` raises
            self._notes.on_note = None
            with anyio.CancelScope(shield=True):
                await self.flush()

    async def flush(self) -> None:
        """Write the notes that are not in the file yet. A fault is logged, not raised."""
        async with self._writing:
            while self._noted:  # other threads may add notes meanwhile
                self._unwritten.append(self._noted.popleft())
            if not self._unwritten:
                return
            try:
                await anyio.to_thread.run_sync(self._write, limiter=self._threads)
            except Exception as error:
                del self._unwritten[:-MAX_UNWRITTEN]
                if not self._logged:
                    words = "the statistics file %s cannot be written: %s; runs go on, and the newest %d notes wait"
                    logger.warning(words, self.path, error, MAX_UNWRITTEN)
                self._logged = True
            else:
                self._logged = False

    async def _flush_regularly(self) -> None:
        due = anyio.current_time() + FLUSH_SECONDS
        while True:
            await anyio.sleep(min(LOOK_SECONDS, FLUSH_SECONDS))
            if anyio.current_time() >= due or len(self._noted) >= MAX_UNWRITTEN // 2:
                await self.flush()
                due = anyio.current_time() + FLUSH_SECONDS

    # in a worker thread

    def _read(self) -> list[Note]:
        names = ", ".join(self.columns)
        try:
            with self._transaction() as connection:
                # a write, since a read-only file begins transactions all the same
                connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")
                newest = f"SELECT {names} FROM {self.table} ORDER BY id DESC LIMIT {self.most}"
                rows = connection.execute(newest).fetchall()
            return [self.note_of(row) for row in reversed(rows)]
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
        self._unwritten = []  # here, since a cancellation of `flush` must not write them twice

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction in the file, which is made with its table if it is missing."""
        # O_EXCL opens new files only: closing an existing one would drop the locks of this process's other connections
        with contextlib.suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
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
    """Replace lone surrogates in a text: JSON of a model may have them, and SQLite refuses them."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


class StatisticsFile(NotesFile[Attempt]):
    """The file of `Statistics`: attempts of tools, the newest 256 of each tool."""

    table = "attempts"
    columns: ClassVar = {
        "tool": "TEXT NOT NULL",
        "seconds": "REAL NOT NULL",
        "outcome": "TEXT NOT NULL",
        "confidence": "REAL",
    }
    most = 1024 * WINDOW  # full windows of a thousand tools: more rows would delay the start
    most_of_tool = WINDOW

    def note_of(self, row: Any) -> Attempt:
        """The attempt in a row."""
        tool, seconds, outcome, confidence = row
        return tool, float(seconds), outcome, confidence

    def row_of(self, note: Attempt) -> Sequence[Any]:
        """The row of an attempt."""
        return note


class LearnedFile(NotesFile[Lesson]):
    """The file of `Learned`: lessons of searches. A lesson that is learned again becomes the newest."""

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
        """The row of a lesson, with blanks between its terms."""
        tool, terms = note
        return tool, " ".join(terms)


class VectorsFile(NotesFile[Vector]):
    """The file of `Meaning`: vectors of tools, the newest 8,192 of all embedders. Texts are kept as hashes only."""

    table = "vectors"
    columns: ClassVar = {"embedder": "TEXT NOT NULL", "text": "TEXT NOT NULL", "direction": "BLOB NOT NULL"}
    unique = ("embedder", "text")
    most = MAX_VECTORS

    def note_of(self, row: Any) -> Vector:
        """The vector in a row."""
        embedder, text, made = row
        return embedder, text, bytes(made)

    def row_of(self, note: Vector) -> Sequence[Any]:
        """The row of a vector."""
        return note
