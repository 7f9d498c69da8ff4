"""Tool calls of one run, carried out at the same time by workers that live as long as the run.

Starting a task costs ten times what waking one does, so a worker that has finished a call waits for the next. Knows
jobs and their keys; what a job is, only `work` knows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import anyio.abc

__all__ = ["Workers"]

_WAITING_AT_MOST = 1024
"""Jobs that may wait for a worker before whoever brings them is made to wait."""

Key = TypeVar("Key")
Job = TypeVar("Job")


class _Worker(Generic[Job]):
    __slots__ = ("job", "scope", "wake")

    def __init__(self, job: Job) -> None:
        self.job: Job | None = job
        self.scope = anyio.CancelScope()
        self.wake = anyio.Event()


class Workers(Generic[Key, Job]):
    """Runs `work(job)` for every job.

    Args:
        tasks: the run's task group; cancelling it cancels every job.
        work: carries one job out; raises nothing but cancellation.
        most: jobs at the same time.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup, work: Callable[[Job], Awaitable[None]], most: int) -> None:
        self._tasks = tasks
        self._work = work
        self._most = most
        self._count = 0
        self._waiting: deque[tuple[Key, Job]] = deque()
        self._idle: list[_Worker[tuple[Key, Job]]] = []
        self._at_work: dict[Key, _Worker[tuple[Key, Job]]] = {}
        self._room = anyio.Event()

    @property
    def any(self) -> bool:
        """Whether there is a worker, idle or not, that its task group would wait for."""
        return self._count > 0

    @property
    def full(self) -> bool:
        return len(self._waiting) >= _WAITING_AT_MOST

    async def wait_for_room(self) -> None:
        """Return once no more jobs are waiting than may."""
        while self.full:
            self._room = anyio.Event()
            await self._room.wait()

    def submit(self, key: Key, job: Job) -> None:
        """Have `job` done as soon as a worker is free."""
        if self._idle:
            worker = self._idle.pop()
            worker.job = (key, job)
            worker.wake.set()
        elif self._count < self._most:
            self._count += 1
            self._tasks.start_soon(self._live, _Worker((key, job)))
        else:
            self._waiting.append((key, job))

    def cancel(self, key: Key) -> Job | None:
        """Give the job with that key up, if it is not done yet. Returns it when it had not begun."""
        worker = self._at_work.get(key)
        if worker is not None:
            worker.scope.cancel()
            return None
        for place, (each, job) in enumerate(self._waiting):
            if each == key:
                del self._waiting[place]
                self._make_room()
                return job
        return None

    async def _live(self, worker: _Worker[tuple[Key, Job]]) -> None:
        try:
            with worker.scope:
                while True:
                    if worker.job is None:
                        self._idle.append(worker)
                        await worker.wake.wait()
                        worker.wake = anyio.Event()
                        assert worker.job is not None
                    key, job = worker.job
                    self._at_work[key] = worker
                    try:
                        await self._work(job)
                    finally:
                        del self._at_work[key]
                    worker.job = None
                    if worker.scope.cancel_called:  # too late for that job; it must not hit the next one
                        break
                    worker.job = self._next()
        finally:
            self._count -= 1
        follower = self._next()  # the worker was cancelled for one job's sake
        if follower is not None:
            self._count += 1
            self._tasks.start_soon(self._live, _Worker(follower))

    def _next(self) -> tuple[Key, Job] | None:
        if not self._waiting:
            return None
        item = self._waiting.popleft()
        self._make_room()
        return item

    def _make_room(self) -> None:
        if not self.full:
            self._room.set()
