"""A thread with a connection to SQLite, which does jobs in their order. Knows no table.

1. **Grouped.** All jobs that wait, at most `_MOST_AT_ONCE`, become one transaction. A job is done when it is committed.
2. **A job refuses before it writes.** A `DurableError` that it raises is its own, and stays in it. Any other error
   undoes the transaction, and its jobs are done again, one transaction each, so that each fails by itself.
3. **A chain breaks.** Jobs with the same `chain` depend on each other: after one failed, all later ones fail.
4. **Nobody has to wait.** A job that nobody awaits costs the event loop nothing. Those who wait are woken by one call
   for each transaction.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Callable, Generator, Hashable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, Generic, TypeVar, cast

import anyio

from callgate.errors import DurableError, StoreFailed

__all__ = ["Job", "Worker"]

T = TypeVar("T")

_MOST_AT_ONCE: Final = 1_000


class Job(Generic[T]):
    """Something to do with the connection, which can be awaited in the event loop in which its worker was started, also
    more than once or never."""

    __slots__ = ("_done", "_error", "_result", "_woken", "chain", "work")

    def __init__(self, work: Callable[[sqlite3.Connection], T], chain: Hashable = None) -> None:
        self.work = work
        self.chain = chain
        self._result: T | None = None
        self._error: Exception | None = None
        self._done = False
        self._woken: anyio.Event | None = None

    def __await__(self) -> Generator[Any, Any, T]:
        if not self._done:
            if self._woken is None:
                self._woken = anyio.Event()
            if not self._done:  # asked again, since the thread looks at `_woken` after it has set `_done`
                yield from self._woken.wait().__await__()
        if self._error is not None:
            raise self._error
        return cast(T, self._result)

    def do(self, connection: sqlite3.Connection) -> None:
        """Do the job; it ends when it is committed."""
        self._error = None
        try:
            self._result = self.work(connection)
        except DurableError as refused:
            self._error = refused

    def refuse(self, error: Exception) -> None:
        """The job was not done."""
        self._error = error

    def end(self) -> anyio.Event | None:
        """The job is committed, or was refused. Returns the event of those who wait."""
        self._done = True
        return self._woken


class Worker:
    """Does jobs in a thread.

    Args:
        name: of the thread.
        connect: opens the connection, in the thread.
        said: the words of a `StoreFailed` for an error.
        begin: how a transaction begins.
        regular: a job that is done regularly.
        every_seconds: time between two of them; may be changed later.
    """

    def __init__(
        self,
        name: str,
        connect: Callable[[], sqlite3.Connection],
        said: Callable[[BaseException], str],
        *,
        begin: str = "BEGIN",
        regular: Callable[[sqlite3.Connection], None] | None = None,
        every_seconds: float = float("inf"),
    ) -> None:
        self.every_seconds = every_seconds
        self.broken: dict[Hashable, str] = {}
        """Why each broken chain is broken."""
        self._connect = connect
        self._said = said
        self._begin = begin
        self._regular = regular
        self._queue: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._post: Callable[[Callable[[], object]], object]
        self._open = False
        self._opened = Job(lambda _: None)
        self._closed = Job(lambda _: None)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    async def start(self) -> None:
        """Open the connection. Raises `StoreFailed`."""
        self._post = _poster()
        self._open = True
        self._thread.start()
        await self._opened

    async def close(self) -> None:
        """Do all jobs that wait, and close the connection."""
        if self._open:
            self._open = False
            self._queue.put(None)
            await self._closed

    def submit(self, job: Job[T]) -> Job[T]:
        """Give a job its place in the order."""
        if not self._open:
            job.refuse(StoreFailed("the store of runs is closed: open it with `async with store.opened()`"))
            job.end()
            return job
        self._queue.put(job)
        return job

    # in the thread

    def _run(self) -> None:
        try:
            connection = self._connect()
        except Exception as error:
            self._open = False
            self._over([self._opened], error)
            self._over([self._closed])
            return
        self._over([self._opened])
        try:
            with contextlib.closing(connection):
                self._work(connection)
        finally:
            self._open = False
            while not self._queue.empty():  # only after a defect of this file: nobody is to wait for ever
                self._over([job for job in [self._queue.get()] if job], StoreFailed("the store of runs has ended"))
            self._over([self._closed])

    def _work(self, connection: sqlite3.Connection) -> None:
        last, closing = time.monotonic(), False
        while not closing:
            jobs, closing = self._next(last)
            if self._regular is not None and time.monotonic() - last >= self.every_seconds:
                last = time.monotonic()
                jobs.append(Job(self._regular))
            if jobs:
                self._transact(connection, jobs)

    def _next(self, last: float) -> tuple[list[Job[Any]], bool]:
        """The jobs that wait, as soon as there is one or the regular one has its time; and whether no more come."""
        jobs: list[Job[Any]] = []
        wait = max(0.0, last + self.every_seconds - time.monotonic())
        with contextlib.suppress(Empty):
            job = self._queue.get(timeout=wait if wait < threading.TIMEOUT_MAX else None)
            while job is not None:
                jobs.append(job)
                if len(jobs) == _MOST_AT_ONCE:
                    return jobs, False
                job = self._queue.get_nowait()
            return jobs, True
        return jobs, False

    def _transact(self, connection: sqlite3.Connection, jobs: Sequence[Job[Any]]) -> bool:
        """Do jobs in a transaction. Returns whether it began: otherwise nothing else needs to be tried."""
        try:
            connection.execute(self._begin)
        except sqlite3.Error as error:
            self._over(jobs, error)
            return False
        try:
            for job in jobs:
                if (why := self.broken.get(job.chain)) is not None:
                    job.refuse(StoreFailed(why))
                else:
                    job.do(connection)
            connection.execute("COMMIT")
        except Exception as error:
            with contextlib.suppress(sqlite3.Error):
                connection.rollback()
            if len(jobs) == 1:
                self._over(jobs, error)
                return True
            for n, job in enumerate(jobs):
                if not self._transact(connection, [job]):
                    self._over(jobs[n + 1 :], error)
                    return False
            return True
        self._over(jobs)
        return True

    def _over(self, jobs: Sequence[Job[Any]], error: Exception | None = None) -> None:
        """Jobs are committed, or have failed."""
        woken: list[anyio.Event] = []
        for job in jobs:
            if error is not None:
                failure = error
                if isinstance(error, sqlite3.Error | OSError):
                    failure = StoreFailed(self._said(error))
                    failure.__cause__ = error
                job.refuse(failure)
                if job.chain is not None:
                    self.broken.setdefault(job.chain, f"an earlier change of this run was not stored: {failure}")
            if (event := job.end()) is not None:
                woken.append(event)
        if woken:
            with contextlib.suppress(RuntimeError):  # the loop has ended, so nobody waits
                self._post(partial(_wake, woken))


def _wake(events: Sequence[anyio.Event]) -> None:
    for event in events:
        event.set()


def _poster() -> Callable[[Callable[[], object]], object]:
    """What a thread calls to have a function called in this event loop, without waiting for it."""
    try:
        return asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        import trio  # not installed with callgate, but it is running

        return trio.lowlevel.current_trio_token().run_sync_soon
