"""Tool calls of one run, carried out at the same time by workers that live as long as the run.

Starting a task costs ten times what waking one does, so a worker that has finished a call waits for the next. Knows
jobs and their keys; what a job is, only `work` knows.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel

__all__ = ["Workers"]

_TURN_SECONDS = 0.01
"""For which one worker does jobs that wait for nothing before others have their turn."""

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
        self._at_work: dict[Key, tuple[_Worker, Job]] = {}
        self._coming = False
        self._room = anyio.Event()
        self._done = anyio.Event()
        self._done.set()

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

    async def begun(self) -> None:
        """Return once every job that has a worker to do it has begun."""
        while self._coming:
            await anyio.lowlevel.checkpoint()

    def give_up(self, unwanted: Callable[[Job], bool]) -> None:
        """Give up jobs that have begun and are not wanted; those that wait have their turn."""
        for worker, job in list(self._at_work.values()):
            if unwanted(job):
                worker.scope.cancel()

    def give_up_begun(self, key: Key) -> bool:
        """Give the job with that key up, unless it waits. Returns whether it does not."""
        if key in self._waiting:
            return False
        self.cancel(key)
        return True

    @property
    def jobs(self) -> list[Job]:
        """What is not done yet, in the order of `submit`."""
        return [*(job for _, job in self._at_work.values()), *self._waiting.values()]

    def clear(self) -> list[Job]:
        """Give up the jobs that have not begun, and return them."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        self._make_room()
        return waiting

    async def done(self) -> None:
        """Return once there is nothing to do."""
        while self._waiting or self._at_work:
            self._call_one()
            self._done = anyio.Event()
            await self._done.wait()

    def cancel(self, key: Key) -> Job | None:
        """Give the job with that key up, if it is not done yet. Returns it when it had not begun."""
        at_work = self._at_work.get(key)
        if at_work is not None:
            at_work[0].scope.cancel()
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
        turn_ends = time.perf_counter() + _TURN_SECONDS
        while not worker.scope.cancel_called:
            if self._waiting and time.perf_counter() > turn_ends:
                await self._give_a_turn()
                turn_ends = time.perf_counter() + _TURN_SECONDS
            await anyio.lowlevel.checkpoint_if_cancelled()  # nothing is begun in a run that is over
            if (item := self._next()) is None:
                return
            self._call_one()
            key, job = item
            self._at_work[key] = worker, job
            try:
                await self._work(job)
            except anyio.get_cancelled_exc_class() as cancelled:
                # its frames hold what was being sent, and who cancelled holds them until garbage is collected
                raise cancelled.with_traceback(None) from None
            finally:
                del self._at_work[key]
                if not self._done.is_set():
                    self._done.set()

    async def _give_a_turn(self) -> None:
        """Others go on meanwhile; whoever waits for jobs to begin knows that this worker takes another one."""
        alone = not self._coming
        self._coming = True
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            if alone:
                self._coming = False

    def _next(self) -> tuple[Key, Job] | None:
        if not self._waiting:
            return None
        item = self._waiting.popitem(last=False)
        self._make_room()
        return item

    def _make_room(self) -> None:
        if not self._waiting:
            self._room.set()
