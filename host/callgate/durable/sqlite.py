"""Keeps runs in an SQLite file, which several processes of one machine may share.

One thread writes and one reads, each with its own connection, so that a slow disk or a long list never holds the event
loop. How changes are grouped: `worker`. What is done to the file: `tables`. Which file is taken: `database`.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from sqlite3 import Connection
from typing import Concatenate, Final, ParamSpec, TypeVar

import anyio

from callgate.errors import StoreFailed

from .database import Database
from .ownership import Owner
from .refusals import check_names, check_sizes, no_run, texts_of
from .rows import Rows
from .sealing import sealing_of
from .store import (
    LEASE_SECONDS,
    Approval,
    CallKey,
    Change,
    Decision,
    Held,
    Kept,
    RunHistory,
    RunStatus,
    StoredCall,
    StoredRun,
)
from .tables import Tables
from .worker import Job, Worker

__all__ = ["SqliteStore"]

P = ParamSpec("P")
T = TypeVar("T")

_MOST_LISTED: Final = 1_000
"""Rows of a page, whatever was asked for."""
_ROWS_AT_ONCE: Final = 2_000
"""Rows that are deleted, or pages that are given back, in one transaction; other changes are stored in between."""


class SqliteStore:
    """A `Store` in a file: whatever was awaited survives the process and the machine.

    Args:
        path: of the file; a missing one is made, with mode 0600.
        encryption_key: 32 random bytes. Programs, options, arguments, results and reasons are encrypted with the key.
            None keeps them readable.

    Raises:
        ConfigurationError: the key is not 32 bytes, or `cryptography` is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        encryption_key: bytes | None = None,
        _clock: Callable[[], float] = time.time,
        _monotonic: Callable[[], float] = time.monotonic,
        _synchronous: str = "FULL",
    ) -> None:
        self._sealing = sealing_of(encryption_key)
        self.digest_key = self._sealing.digest_key
        self._database = Database(path, self._sealing, _synchronous=_synchronous)
        self._clock = _clock
        self._monotonic = _monotonic
        self._is_open = False
        self._reader: Worker
        self._writer: Worker
        self._tables: Tables

    def opened(self) -> AbstractAsyncContextManager[None]:
        """See `Store.opened`."""
        return self._opened()

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[None]:
        if self._is_open:
            raise StoreFailed(f"the store of runs {self._database.path} is open already: make a second SqliteStore")
        database = self._database
        owner = Owner(_monotonic=self._monotonic)
        self._writer = Worker(
            "callgate-writes",
            database.write_connection,
            database.said,
            begin="BEGIN IMMEDIATE",
            regular=self._beat,
            every_seconds=LEASE_SECONDS / 3,
        )
        self._reader = Worker("callgate-reads", database.connection, database.said)
        self._tables = Tables(Rows(self._sealing), owner, self._clock, self._writer.broken.keys())
        self._is_open = True
        try:
            await self._writer.start()
            await self._reader.start()
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._reader.close()
                self._writer.submit(Job(self._tables.leave))
                await self._writer.close()
            owner.close()
            self._is_open = False

    def _beat(self, db: Connection) -> None:
        if self._tables.told:
            self._tables.beat(db)

    async def _write(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _done(self._writer.submit(Job(lambda db: work(db, *args, **kwargs))))

    async def _read(self, work: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _done(self._reader.submit(Job(lambda db: work(db, *args, **kwargs))))

    async def add(self, run: StoredRun, *, takes: bool = False) -> Kept:
        """See `Store.add`."""
        check_names(run)
        check_sizes(texts_of(run))
        return await self._write(self._tables.add, run, takes)

    async def take(self, run: str, *, lease_seconds: float = LEASE_SECONDS) -> Held | None:
        """See `Store.take`."""
        self._writer.every_seconds = min(self._writer.every_seconds, lease_seconds / 3)
        return await self._write(self._tables.take, run, lease_seconds)

    def write(self, held: Held, *changes: Change) -> Awaitable[None]:
        """See `Store.write`."""
        for change in changes:
            check_sizes(texts_of(change))
        told = self._tables.told.get(held.run, 0)
        return self._writer.submit(Job(lambda db: self._tables.write(db, held, changes, told), chain=held))

    async def expire(self, held: Held, call: CallKey, decision: Decision) -> Approval:
        """See `Store.expire`."""
        check_sizes(texts_of(decision))
        return await self._writer.submit(Job(lambda db: self._tables.expire(db, held, call, decision), chain=held))

    async def load(self, run: str) -> RunHistory:
        """See `Store.load`."""
        return await self._read(self._tables.load, run)

    async def find(self, run: str) -> StoredRun:
        """See `Store.find`."""
        return await self._read(self._tables.find, run)

    async def find_key(self, key: str, belongs_to: str = "") -> StoredRun | None:
        """See `Store.find_key`."""
        return await self._read(self._tables.find_key, key, belongs_to)

    async def count(self, *, status: RunStatus | None = None, belongs_to: str | None = None) -> int:
        """See `Store.count`."""
        return await self._read(self._tables.count, status, belongs_to)

    async def pending(self, *, belongs_to: str | None = None, most: int = 100) -> Sequence[Approval]:
        """See `Store.pending`."""
        return await self._read(self._tables.pending, belongs_to, _page(most))

    async def due(self, now: float, *, most: int = 100) -> Sequence[str]:
        """See `Store.due`."""
        return await self._read(self._tables.due, now, max(0, most))

    async def decided(self) -> Sequence[str]:
        """See `Store.decided`."""
        told = self._tables.told
        news = {run: n for run, n in await self._read(self._tables.decided) if n > told.get(run, n)}
        told.update(news)
        return [*news]

    async def decide(self, run: str, call: CallKey, decision: Decision) -> Approval:
        """See `Store.decide`."""
        check_sizes(texts_of(decision))
        return await self._write(self._tables.decide, run, call, decision)

    async def settle(self, run: str, call: StoredCall) -> None:
        """See `Store.settle`."""
        check_sizes(texts_of(call))
        await self._write(self._tables.settle, run, call)

    async def cancel(self, run: str) -> None:
        """See `Store.cancel`."""
        await self._write(self._tables.cancel, run)

    async def prune(self, *, ended_before: float) -> int:
        """See `Store.prune`. The file shrinks."""
        runs = 0
        while deleted := await self._write(self._tables.prune, ended_before, _ROWS_AT_ONCE):
            runs += deleted
        while await self._write(self._database.shrink, _ROWS_AT_ONCE):
            pass
        return runs

    async def list(
        self,
        *,
        status: RunStatus | None = None,
        belongs_to: str | None = None,
        most: int = 100,
        before: str | None = None,
    ) -> Sequence[StoredRun]:
        """See `Store.list`; a page has at most 1,000 runs."""
        return await self._read(self._tables.list, status, belongs_to, _page(most), before)


async def _done(job: Job[T]) -> T:
    try:
        return await job
    except UnicodeEncodeError as error:  # a name that cannot be stored is the name of nothing that is
        raise no_run(str(error.object)) from None


def _page(most: int) -> int:
    return max(0, min(most, _MOST_LISTED))
