"""Carries the calls of one run, from any caller: a plan, a program on the fast path, or a guest. Has the workers, the
wall clock, turns for other tasks, and the reason for the end.

Starting a task costs ten times as much as waking one, so a worker that has finished a call waits for the next. Knows
jobs and their keys; only `_serve` knows what a job is.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import anyio
import anyio.abc
import anyio.lowlevel

from callgate.errors import CallgateError

from .first_step import FirstStep, asyncio_task, in_the_name_of

__all__ = ["TURN_SECONDS", "Driver", "Worker"]

TURN_SECONDS = 0.005
"""After this time the event loop gets a turn, since tools that never wait would block all other tasks."""

Key = TypeVar("Key")
Job = TypeVar("Job")


class Worker:
    """A task that does jobs, one after the other."""

    __slots__ = ("begun", "scope", "task", "wake")

    def __init__(self) -> None:
        self.task: asyncio.Task[Any] | None = None
        """The worker's task, under asyncio: jobs may begin in its name."""
        self.begun: tuple[Any, FirstStep[None] | BaseException] | None = None
        """Key of a job that was begun in the worker's name, and its first step or error."""
        self.scope = anyio.CancelScope()
        self.wake = anyio.Event()


class Driver(Generic[Key, Job]):
    """Runs `_serve(job)` for every job. Holds no bound method of its own, so that a finished run is freed without a
    collection of garbage.

    Args:
        most: jobs at the same time.
        tasks: the task group of the jobs. None: `drive` makes one.

    Attributes:
        failure: the reason why the host ended the run.
    """

    def __init__(self, most: int, tasks: anyio.abc.TaskGroup | None = None) -> None:
        self.failure: CallgateError | None = None
        self._tasks = tasks
        self._reader: asyncio.Task[Any] | None = None
        """Under asyncio, the task of `main`, if it only waits for a guest: a cancellation of the run shows there."""
        self._opened: anyio.abc.TaskGroup | None = None
        self._scope: anyio.CancelScope | None = None
        self._turn_began = time.perf_counter()
        self._next_turn: anyio.Event | None = None
        self._most = most
        self._count = 0
        self._others = 0
        """Number of delayed tasks, which the run does not wait for."""
        self._waiting: OrderedDict[Key, Job] = OrderedDict()
        self._idle: list[Worker] = []
        self._at_work: dict[Key, tuple[Worker, Job]] = {}
        self._coming = self._finished = False
        self._room: anyio.Event | None = None
        self._done: anyio.Event | None = None

    async def _serve(self, job: Job) -> None:
        """Carry out one job. Raises only cancellation."""
        raise NotImplementedError

    # the run

    async def drive(
        self, main: Callable[[], Awaitable[None]], wall_seconds: float, *, opens_tasks: bool = True
    ) -> bool:
        """Run `main`, and end all jobs when `main` or the time has ended. Returns whether the time was over.

        Args:
            main: submits the jobs.
            wall_seconds: for `main` and all jobs.
            opens_tasks: make the task group now. False: `main` calls `open_tasks` before it submits the first job.
        """
        with anyio.move_on_after(wall_seconds) as self._scope:
            if opens_tasks:
                await self.open_tasks()
            try:
                await main()
            except BaseException as error:
                if self._opened is None or not await self._opened.__aexit__(type(error), error, error.__traceback__):
                    raise
            else:
                self._finished = True
                for worker in self._idle:  # a cancellation would leave a traceback, which holds the run in memory
                    worker.wake.set()
                if self._opened is not None:
                    if self._at_work or self._others:
                        self._opened.cancel_scope.cancel()
                    await self._opened.__aexit__(None, None, None)
        return self._scope.cancelled_caught and self.failure is None

    async def open_tasks(self) -> None:
        """Make the task group of the jobs, if there is none yet."""
        if self._tasks is None:
            self._tasks = self._opened = await anyio.create_task_group().__aenter__()

    def hire(self) -> None:
        """Start a worker that waits for the first job."""
        if not (self._coming or self._count):
            self._start_one()

    def fail(self, failure: CallgateError) -> None:
        """Record the reason for the end; the first one counts."""
        self.failure = self.failure or failure

    def end(self, failure: CallgateError) -> None:
        """Record the reason for the end, and end the run at once."""
        self.fail(failure)
        self.stop()

    def stop(self) -> None:
        """Cancel everything that runs."""
        if self._scope is not None:
            self._scope.cancel()

    @property
    def stopped(self) -> bool:
        """Whether the run was cancelled or its time is over."""
        return self._scope is not None and self._scope.cancel_called

    @cached_property
    def _wakeup(self) -> anyio.Event:
        return anyio.Event()

    def wake(self) -> None:
        """Wake `main`."""
        self._wakeup.set()

    async def woken(self) -> None:
        """Wait until `wake` is called."""
        await self._wakeup.wait()
        self._wakeup = anyio.Event()

    def later(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` after `seconds`, if the run has not ended."""
        assert self._tasks is not None
        self._others += 1
        self._tasks.start_soon(self._wait_and_do, seconds, work)

    async def _wait_and_do(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await anyio.sleep(seconds)
            await work()
        finally:
            self._others -= 1

    @property
    def wants_a_turn(self) -> bool:
        """Whether it is time for a turn of other tasks."""
        return time.perf_counter() - self._turn_began > TURN_SECONDS

    def turn_began(self) -> None:
        """Note that other tasks have just had a turn."""
        self._turn_began = time.perf_counter()

    async def turn(self) -> None:
        """Let the event loop run other tasks; callers that come meanwhile share this turn."""
        if self._next_turn is not None:
            await self._next_turn.wait()
            return
        self._next_turn = anyio.Event()
        try:
            await anyio.lowlevel.checkpoint()
        finally:
            self.turn_began()
            self._next_turn.set()
            self._next_turn = None

    # its jobs

    @property
    def waiting(self) -> bool:
        """Whether any job is waiting for a worker."""
        return bool(self._waiting)

    async def wait_for_room(self) -> None:
        """Return when no job is waiting."""
        while self._waiting:
            self._room = anyio.Event()
            await self._room.wait()

    def submit(self, key: Key, job: Job) -> None:
        """Queue a job for the next free worker."""
        self._waiting[key] = job
        self._call_one()

    def _call_one(self) -> None:
        """Start or wake one worker, unless one is starting: that worker takes a job and calls the next worker.

        If jobs never wait for anything, the first worker does them all, and no further ones are started.
        """
        if self._coming or not self._waiting:
            return
        if self._idle:
            self._coming = True
            self._idle.pop().wake.set()
        elif self._count < self._most:
            self._start_one()

    def _start_one(self) -> None:
        assert self._tasks is not None
        self._coming = True
        self._count += 1
        self._tasks.start_soon(self._live, Worker())

    def begin(self, key: Key, job: Job) -> None:
        """Like `submit`, but an idle worker does the job at once, up to its first wait.

        Only under asyncio, `in_the_name_of` a task and in a callback that called `turn_began` first.
        """
        if self._may_have_ended or not self._idle or self._waiting or self._coming or self.wants_a_turn:
            self.submit(key, job)
            return
        worker = self._idle.pop()
        assert worker.task is not None
        in_the_name_of(worker.task, partial(self._begin, worker, key, job))

    @property
    def _may_have_ended(self) -> bool:
        """Whether the run may have been cancelled; cheaper than to ask all cancel scopes."""
        return self._reader is None or self._reader.cancelling() > 0 or self.stopped

    def _begin(self, worker: Worker, key: Key, job: Job) -> None:
        self._at_work[key] = worker, job
        try:
            step = FirstStep(self._serve(job))
        except BaseException as error:  # the worker raises it
            worker.begun = key, error
            worker.wake.set()
            return
        if step.waits:
            worker.begun = key, step
            worker.wake.set()
        else:
            self._is_done(key)
            if self._keeps_working(worker):
                self._idle.append(worker)

    async def begun(self) -> None:
        """Return when every job that has a worker has begun."""
        while self._coming:
            await anyio.lowlevel.checkpoint()

    def cancel_begun(self, unwanted: Callable[[Job], bool]) -> None:
        """Cancel unwanted jobs that have begun; waiting jobs stay."""
        for worker, job in list(self._at_work.values()):
            if unwanted(job):
                worker.scope.cancel()

    def cancel_unless_waiting(self, key: Key) -> bool:
        """Cancel the job with that key, unless it is waiting. Returns whether the job is not waiting."""
        if key in self._waiting:
            return False
        self.cancel(key)
        return True

    def only_waits_for(self, parked: int) -> bool:
        """Whether nothing goes on but this number of jobs, and no other job can begin."""
        return len(self._at_work) <= parked and not self._coming and not (self._waiting and self._count < self._most)

    @property
    def jobs(self) -> list[Job]:
        """The jobs that are not done, in the order of `submit`."""
        return [*(job for _, job in self._at_work.values()), *self._waiting.values()]

    def clear(self) -> list[Job]:
        """Remove the waiting jobs, and return them."""
        waiting = list(self._waiting.values())
        self._waiting.clear()
        self._make_room()
        return waiting

    async def done(self) -> None:
        """Return when all jobs are done."""
        while self._waiting or self._at_work:
            self._call_one()
            self._done = anyio.Event()
            await self._done.wait()

    def cancel(self, key: Key) -> Job | None:
        """Cancel the job with that key. Returns the job if it was still waiting."""
        at_work = self._at_work.get(key)
        if at_work is not None:
            at_work[0].scope.cancel()
            return None
        job = self._waiting.pop(key, None)
        if job is not None:
            self._make_room()
        return job

    async def _live(self, worker: Worker) -> None:
        worker.task = asyncio_task()
        self._coming = False
        try:
            with worker.scope:
                while self._keeps_working(worker):  # a late cancellation must not hit the next job
                    await self._work_off(worker)
                    if self._keeps_working(worker):
                        self._idle.append(worker)
                        await self._woken_up(worker)
        finally:
            self._count -= 1
        if not self._finished:
            self._call_one()  # the worker was cancelled because of one job

    async def _woken_up(self, worker: Worker) -> None:
        """Wait for a call to work, or for a job that was begun in the worker's name; complete that job."""
        thrown: BaseException | None = None
        try:
            await worker.wake.wait()
        except BaseException as error:
            if worker.begun is None:
                raise
            thrown = error
        worker.wake = anyio.Event()
        if worker.begun is None:
            self._coming = False
            return
        (key, step), worker.begun = worker.begun, None
        if isinstance(step, BaseException):
            self._is_done(key)
            raise step
        await self._carried_out(key, step.rest(thrown))

    def _keeps_working(self, worker: Worker) -> bool:
        return not (worker.scope.cancel_called or self._finished)

    async def _work_off(self, worker: Worker) -> None:
        while self._keeps_working(worker):
            if self._waiting and self.wants_a_turn:
                await self._give_a_turn()
            if self._may_have_ended:  # an ended run begins nothing
                await anyio.lowlevel.checkpoint_if_cancelled()
            if (item := self._next()) is None:
                return
            self._call_one()
            key, job = item
            self._at_work[key] = worker, job
            await self._carried_out(key, self._serve(job))

    async def _carried_out(self, key: Key, job: Awaitable[None]) -> None:
        try:
            await job
        except anyio.get_cancelled_exc_class() as cancelled:
            # its frames hold the data that was being sent, until garbage is collected
            raise cancelled.with_traceback(None) from None
        finally:
            self._is_done(key)

    def _is_done(self, key: Key) -> None:
        del self._at_work[key]
        if self._done is not None:
            self._done.set()

    async def _give_a_turn(self) -> None:
        """Let other tasks run. `begun` waits meanwhile, since this worker takes another job afterwards."""
        alone = not self._coming
        self._coming = True
        try:
            await self.turn()
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
        if self._room is not None and not self._waiting:
            self._room.set()
