"""Tool calls of one run, carried out at the same time by workers that live as long as the run.

Starting a task costs ten times what waking one does, so a worker that has finished a call waits for the next. Knows
jobs and their keys; what a job is, only `work` knows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel

__all__ = ["Workers"]

Key = TypeVar("Key")
Job = TypeVar("Job")


class _Worker:
    __slots__ = ("scope", "wake")

    def __init__(self) -> None:
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
        self._waiting: OrderedDict[Key, Job] = OrderedDict()
        self._idle: list[_Worker] = []
        self._at_work: dict[Key, _Worker] = {}
        self._coming = False
        self._room = anyio.Event()

    @property
    def any(self) -> bool:
        """Whether there is a worker, idle or not, that its task group would wait for."""
        return self._count > 0

    @property
    def waiting(self) -> bool:
        """Whether any job is waiting for a worker."""
        return bool(self._waiting)

    async def wait_for_room(self) -> None:
        """Return once no job is waiting."""
        while self._waiting:
            self._room = anyio.Event()
            await self._room.wait()

    def submit(self, key: Key, job: Job) -> None:
        """Have `job` done as soon as a worker is free."""
        self._waiting[key] = job
        self._call_one()

    def _call_one(self) -> None:
        """Get one more worker going, unless one is on its way: that one takes a job and calls the next.

        Where jobs never wait for anything, the first worker has done them all before there are many of them.
        """
        if self._coming or not self._waiting:
            return
        if self._idle:
            self._coming = True
            self._idle.pop().wake.set()
        elif self._count < self._most:
            self._coming = True
            self._count += 1
            self._tasks.start_soon(self._live, _Worker())

    def cancel(self, key: Key) -> Job | None:
        """Give the job with that key up, if it is not done yet. Returns it when it had not begun."""
        worker = self._at_work.get(key)
        if worker is not None:
            worker.scope.cancel()
            return None
        job = self._waiting.pop(key, None)
        if job is not None:
            self._make_room()
        return job

    async def _live(self, worker: _Worker) -> None:
        try:
            with worker.scope:
                while not worker.scope.cancel_called:  # too late for its job, that must not hit the next one
                    self._coming = False
                    await self._work_off(worker)
                    if not worker.scope.cancel_called:
                        self._idle.append(worker)
                        await worker.wake.wait()
                        worker.wake = anyio.Event()
        finally:
            self._count -= 1
        self._call_one()  # the worker was cancelled for one job's sake

    async def _work_off(self, worker: _Worker) -> None:
        while not worker.scope.cancel_called:
            await anyio.lowlevel.checkpoint_if_cancelled()  # nothing is begun in a run that is over
            if (item := self._next()) is None:
                return
            self._call_one()
            key, job = item
            self._at_work[key] = worker
            try:
                await self._work(job)
            finally:
                del self._at_work[key]

    def _next(self) -> tuple[Key, Job] | None:
        if not self._waiting:
            return None
        item = self._waiting.popitem(last=False)
        self._make_room()
        return item

    def _make_room(self) -> None:
        if not self._waiting:
            self._room.set()
