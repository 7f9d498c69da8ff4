"""Files that keep what was noted, looked into and tampered with by SQLite itself."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

__all__ = ["database"]


@contextlib.contextmanager
def database(path: Path) -> Iterator[sqlite3.Connection]:
    """The file, each statement a transaction of its own."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()
