"""Opens the SQLite file of a store: its modes, its tables, and whose file it is. Knows no run.

1. The file is made for its owner alone (mode 0600), and SQLite gives its ``-wal`` and ``-shm`` files the same mode. A
   file of ours that others may read is mended; another user's is refused. Windows has no modes: there, the file has
   the rights of its folder.
2. A file that is not a store of runs, has newer tables, or another encryption key is refused and stays as it is.
3. WAL with ``synchronous=FULL``: what is committed survives a power cut, and readers never wait for the writer.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import Final

from callgate.errors import StoreFailed
from callgate.portable import sync_folder

from .sealing import Plain, Sealing

__all__ = ["LOCK_SECONDS", "Database"]

logger = logging.getLogger("callgate")

LOCK_SECONDS: Final = 5.0
"""Wait for another process's transaction for that long."""
_APPLICATION_ID: Final = 0x43475255
_VERSION: Final = 1
_MAX_WAL_BYTES: Final = 16 * 1024 * 1024
"""The ``-wal`` file shrinks to that size after a larger transaction."""
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_SAID: Final = {
    sqlite3.SQLITE_FULL: "the disk is full: make room; what was stored before is safe",
    sqlite3.SQLITE_BUSY: f"another process has locked it for more than {LOCK_SECONDS:.0f} s: find out which (`fuser`)",
    sqlite3.SQLITE_LOCKED: "another connection has locked it: find out which process has it open (`fuser`)",
    sqlite3.SQLITE_CORRUPT: "it is damaged: restore a copy, or move it away to begin anew",
    sqlite3.SQLITE_NOTADB: "it is not an SQLite database: name another file",
    sqlite3.SQLITE_READONLY: "it is read-only: make the file and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: its directory has to exist and to be writable",
    sqlite3.SQLITE_PERM: "it may not be opened: make the file and its directory writable",
    sqlite3.SQLITE_IOERR: "the disk failed: look at the system's log; what was stored before is safe",
}

_TABLES: Final = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE owners (
    id TEXT PRIMARY KEY, beat INTEGER NOT NULL, lease_seconds DOUBLE PRECISION NOT NULL, seen DOUBLE PRECISION NOT NULL
);
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    key TEXT,
    belongs_to TEXT NOT NULL,
    kind TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    changed DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION,
    status TEXT NOT NULL,
    wake_at DOUBLE PRECISION,
    due_at DOUBLE PRECISION,
    cancelled INTEGER NOT NULL,
    decisions INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    reason BLOB,
    result BLOB,
    UNIQUE (belongs_to, key)
);
CREATE TABLE programs (
    run TEXT PRIMARY KEY, text BLOB NOT NULL, options BLOB NOT NULL, environment BLOB NOT NULL, seed BLOB NOT NULL
);
CREATE TABLE calls (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    digest BLOB NOT NULL,
    occurrence INTEGER NOT NULL,
    number INTEGER,
    tool TEXT NOT NULL,
    status TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    arguments BLOB NOT NULL,
    outcome BLOB,
    record BLOB NOT NULL,
    UNIQUE (run, digest, occurrence)
);
CREATE TABLE events (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    digest BLOB,
    occurrence INTEGER,
    PRIMARY KEY (run, number)
);
CREATE TABLE approvals (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    belongs_to TEXT NOT NULL,
    digest BLOB NOT NULL,
    occurrence INTEGER NOT NULL,
    tool TEXT NOT NULL,
    schema_digest BLOB NOT NULL,
    asked DOUBLE PRECISION NOT NULL,
    expires DOUBLE PRECISION NOT NULL,
    granted INTEGER,
    decided DOUBLE PRECISION,
    arguments BLOB NOT NULL,
    decided_by BLOB,
    decided_arguments BLOB,
    decided_reason BLOB,
    UNIQUE (run, digest, occurrence)
);
CREATE INDEX runs_newest ON runs (created, id);
CREATE INDEX runs_of_status ON runs (status, created, id);
CREATE INDEX runs_of_one ON runs (belongs_to, created, id);
CREATE INDEX runs_of_one_status ON runs (belongs_to, status, created, id);
CREATE INDEX runs_due ON runs (owner, due_at);
CREATE INDEX runs_decided ON runs (owner) WHERE decisions > 0;
CREATE INDEX runs_ended ON runs (ended) WHERE ended IS NOT NULL;
CREATE INDEX approvals_open ON approvals (asked) WHERE granted IS NULL;
CREATE INDEX approvals_open_of_one ON approvals (belongs_to, asked) WHERE granted IS NULL;
"""


class Database:
    """The file of a store.

    Args:
        path: of the file; a missing one is made.
        sealing: how the store's values are kept.
    """

    def __init__(self, path: str | os.PathLike[str], sealing: Sealing, *, _synchronous: str = "FULL") -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._sealing = sealing
        self._synchronous = _synchronous  # tests break this promise to see that they would notice

    def said(self, error: BaseException) -> str:
        """An error of SQLite, or of the file system, in words that say what to do."""
        code = getattr(error, "sqlite_errorcode", None)
        words = str(getattr(error, "strerror", None) or error)
        if code is not None and (known := _SAID.get(code & 0xFF)):
            words = f"{known} ({error})"
        return f"the store of runs {self.path} cannot be used: {words}"

    def write_connection(self) -> sqlite3.Connection:
        """Make or check the file, and open it.

        Raises:
            StoreFailed: the file is another program's, newer, or of another key; or it can be read by others.
            sqlite3.Error, OSError: see `said`.
        """
        self._make()
        connection = self.connection()
        with _closed_if_refused(connection):
            self._check(connection)
            self._close_to_others()
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            if mode != "wal":
                raise StoreFailed(f"{self.path} is on a file system without shared memory: name a file on a local disk")
        return connection

    def connection(self) -> sqlite3.Connection:
        """Open the file, for one thread."""
        connection = sqlite3.connect(self.path, timeout=LOCK_SECONDS, isolation_level=None)
        with _closed_if_refused(connection):
            connection.execute(f"PRAGMA synchronous = {self._synchronous}")
            connection.execute(f"PRAGMA journal_size_limit = {_MAX_WAL_BYTES}")
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
        return connection

    def shrink(self, connection: sqlite3.Connection, most_pages: int) -> int:
        """Give at most `most_pages` free pages back to the file system. Returns how many."""
        (before,) = connection.execute("PRAGMA freelist_count").fetchone()
        connection.execute(f"PRAGMA incremental_vacuum({most_pages})").fetchall()
        (after,) = connection.execute("PRAGMA freelist_count").fetchone()
        return int(before - after)

    def _make(self) -> None:
        # O_EXCL opens new files only: closing an existing one would drop the locks of this process's other connections
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            sync_folder(os.path.dirname(self.path))
        for path in self._files():
            with suppress(FileNotFoundError):
                _is_open_to_others(path)

    def _close_to_others(self) -> None:
        """Take the rights of others away, once the file is known to be ours: SQLite gives them to new files, too."""
        mended = []
        for path in self._files():
            with suppress(FileNotFoundError):
                if _is_open_to_others(path):
                    os.chmod(path, 0o600)
                    mended.append(path)
        if mended:
            logger.warning("%s could be read by others; its mode is 0600 now", mended[0])

    def _files(self) -> tuple[str, str, str]:
        """The file, and those that SQLite makes beside it."""
        return self.path, f"{self.path}-wal", f"{self.path}-shm"

    def _check(self, connection: sqlite3.Connection) -> None:
        """Make the tables of an empty file; refuse a file that is not ours."""
        if not os.path.getsize(self.path):
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # later it has no effect
        with closing(connection.cursor()) as cursor:
            cursor.execute("BEGIN IMMEDIATE")
            (application,) = cursor.execute("PRAGMA application_id").fetchone()
            (version,) = cursor.execute("PRAGMA user_version").fetchone()
            (tables,) = cursor.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if not tables and not application:
                for statement in _TABLES.split(";")[:-1]:
                    cursor.execute(statement)
                how = self._sealing.seal(_CHECK, "", "settings.sealing")
                cursor.execute("INSERT INTO settings (name, value) VALUES ('sealing', ?)", (how,))
                cursor.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
                cursor.execute(f"PRAGMA user_version = {_VERSION}")
            elif application != _APPLICATION_ID:
                raise StoreFailed(f"{self.path} is another program's database: name another file for the store of runs")
            elif version != _VERSION:
                raise StoreFailed(
                    f"{self.path} has tables of version {version}, and this callgate knows version {_VERSION}: use the "
                    "callgate that wrote it, or name another file"
                )
            else:
                self._check_key(cursor.execute("SELECT value FROM settings WHERE name = 'sealing'").fetchone()[0])
            cursor.execute("COMMIT")

    def _check_key(self, sealed: bytes) -> None:
        if isinstance(self._sealing, Plain):
            if sealed != _CHECK:
                raise StoreFailed(f"{self.path} is encrypted: give its encryption_key")
            return
        if sealed == _CHECK:
            raise StoreFailed(f"{self.path} is not encrypted: leave encryption_key out, or name a new file")
        try:
            self._sealing.open(sealed, "", "settings.sealing")
        except StoreFailed:
            raise StoreFailed(f"{self.path} is encrypted with another encryption_key than the given one") from None


def _is_open_to_others(path: str) -> bool:
    """Whether others may read or write a file of ours. Raises `StoreFailed` if it is another user's, or no file."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        raise StoreFailed(f"{path} is not a file: name a file for the store of runs")
    if not found.st_mode & _OTHERS:
        return False
    if sys.platform == "win32":
        return False
    elif found.st_uid != os.geteuid():
        raise StoreFailed(f"{path} can be read by others, and belongs to another user, who must run chmod 600 {path}")
    else:
        return True


@contextmanager
def _closed_if_refused(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


_CHECK: Final = b"callgate runs"
