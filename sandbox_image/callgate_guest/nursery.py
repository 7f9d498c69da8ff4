"""The end of a program: it waits for what the program began, and knows which calls and errors were never awaited.

1. **The end.** After its top level a program's event loop runs on until no call is in flight and nothing is ready. A
   timer alone does not keep it alive: tasks that are left then are cancelled, and counted. `asyncio.run` in a program
   ends in the same way. Threads that are not daemons, and the work of thread pools, are waited for.
2. **A failure.** When a program fails, its tasks are cancelled at once, so that none of them makes another call. That
   does not cancel their calls: the host makes the calls with effects, and cancels those that only read.
3. **A cancellation.** A call that the program itself cancels is cancelled on the host, too.
4. A call is **awaited** once the program has awaited it, or a task has run it. A call that never was is *dropped* at
   the end of the program; in a session only when no variable holds it any more. A dropped call that failed, and a task
   or future that ended with an error that nobody took, fails the program: of several, the one that was made first.
5. A sync program turns no loop unless there is something to wait for: what it costs is a look at three containers.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from .link import Link
from .tool_calls import ToolCall

_FEW = 64
_NO_CALL = 1 << 62
"""Sorts behind every call."""


class Nursery:
    """Calls and tasks that the programs of a session have begun.

    Attributes:
        dropped: calls of the last program that were never awaited.
        failed: of the calls that a session's variables hold, those that failed and were not awaited yet.
        waiting: tasks of the last program that still waited for a timer when it ended, and were cancelled.
    """

    def __init__(self, link: Link) -> None:
        self.dropped = self.failed = self.waiting = 0
        self._link = link
        self._tasks: list[tuple[int, weakref.ref[asyncio.Task[Any]]]] = []
        self._most = _FEW
        self.knows_all = True
        """The nursery makes all tasks: no program has a task factory of its own."""
        self._lost: list[tuple[int, BaseException]] = []

    def adopt(self, loop: asyncio.AbstractEventLoop) -> None:
        """Record the tasks of `loop`, unless the program has its own task factory."""
        if loop.get_task_factory() is None:
            loop.set_task_factory(self._make_task)
        if loop.get_exception_handler() is None:
            loop.set_exception_handler(self._hear)

    def makes(self, factory: Any) -> bool:
        """Whether a task factory is this nursery's."""
        return bool(factory == self._make_task)

    def _make_task(self, loop: asyncio.AbstractEventLoop, main: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(main, loop=loop, **options)
        if len(self._tasks) >= self._most:
            self._tasks = [each for each in self._tasks if _matters(each[1]())]
            self._most = max(_FEW, 2 * len(self._tasks))
        self._tasks.append((self._link.last_id, weakref.ref(task)))
        return task

    def _hear(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Exception handler of a loop: keeps errors of lost futures that the program never retrieved."""
        error = context.get("exception")
        if error is None or not str(context.get("message")).endswith("was never retrieved"):
            loop.default_exception_handler(context)
        elif not self._lost or isinstance(error, Exception):
            self._lost.append((_made(error, _NO_CALL), error))

    def begin(self) -> None:
        """A program begins."""
        self.dropped = self.failed = self.waiting = 0

    # the end

    def busy(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """Whether the end of a program has anything to wait for, or to cancel; `loop` is the session's, if any."""
        return self._calls() or (loop is not None and (_ready(loop) or bool(asyncio.all_tasks(loop))))

    def _calls(self, loop: asyncio.AbstractEventLoop | None = None) -> bool:
        """Whether a call is in flight that async code has made, in `loop` if one is given."""
        return any(
            isinstance(call, ToolCall) and not call.blocks and (loop is None or call.home is loop)
            for call in list(self._link.pending.values())
        )

    def _waits(self, loop: asyncio.AbstractEventLoop, home: asyncio.AbstractEventLoop | None) -> bool:
        return self._calls(home) or getattr(loop, "working", 0) > 0

    async def quiet(self, waits: Callable[[], None] | None = None) -> None:
        """Return when no call is in flight, nothing is ready, and no thread works for the loop.

        Args:
            waits: called before this waits for the first call; then the calls of all loops count, not only of this one.
        """
        loop = asyncio.get_running_loop()
        home = loop if waits is None else None
        while True:
            await asyncio.sleep(0)
            if _ready(loop):
                continue
            if not self._waits(loop, home):
                return
            news = self._link.news(loop)
            if not self._waits(loop, home):
                return
            if waits is not None:
                waits()
                waits = _nothing
            await news

    async def end(self, waits: Callable[[], None]) -> None:
        """The top level has ended without an error."""
        await self.quiet(waits)
        self.waiting += await self.stop()

    async def leave(self, waits: Callable[[], None]) -> None:
        """The program has ended by ``sys.exit()``: its tasks stop, its calls go on."""
        await self.stop()
        await self.quiet(waits)

    async def stop(self) -> int:
        """Cancel the tasks that are left, without their calls, and close the asynchronous generators. Returns how many
        tasks there were.
        """
        loop = asyncio._get_running_loop()
        if loop in self._link.ending:  # somebody is at it, and has cancelled this task, too
            return 0
        self._link.ending.add(loop)
        try:
            left = asyncio.all_tasks() - {asyncio.current_task()}
            for task in left:
                task.cancel()
            if left:
                await asyncio.gather(*left, return_exceptions=True)
            generators = list(getattr(loop, "_asyncgens", ()))
            await asyncio.gather(*(generator.aclose() for generator in generators), return_exceptions=True)
            return len(left)
        finally:
            self._link.ending.discard(loop)

    async def hold(self, main: Coroutine[Any, Any, Any]) -> Any:
        """`main`, as the whole of an ``asyncio.run``: it ends when what it began has ended."""
        loop = asyncio.get_running_loop()
        self.adopt(loop)
        try:
            value = await main
            await self.quiet()
        except BaseException:
            await self.stop()
            raise
        self.waiting += await self.stop()
        return value

    # calls and errors that the program never awaited

    def unseen(self, *, keeps: bool) -> BaseException | None:
        """Count what was dropped, and return the error that nobody took, if there is one.

        Args:
            keeps: what the program's variables hold can still be awaited, by the next program.
        """
        calls = self._link.unawaited
        held = _references(calls) if keeps else [0 for _ in calls]  # a program may have replaced `len`
        found, self._lost = self._lost, []
        for (number, call), references in zip(list(calls.items()), held, strict=True):
            kept = keeps and (references > _ONE or not call.done)
            self.failed += kept and call.failed
            if not kept:
                self.dropped += 1
                del calls[number]
                if call.failed:
                    found.append((number, call.error()))
        if not keeps:
            found += self._untaken()
        return min(found, key=lambda each: each[0])[1] if found else None

    def _untaken(self) -> list[tuple[int, BaseException]]:
        """Errors of tasks and futures that still exist."""
        found: list[tuple[int, BaseException]] = []
        anything = not self.knows_all
        for number, reference in self._tasks:
            task = reference()
            if task is not None and task.done() and not task.cancelled():
                anything = anything or task._exception is not None
                if task._log_traceback:
                    error = task.exception()
                    assert error is not None
                    found.append((_made(error, number + 1), error))
        if anything and not found:  # a `gather` that was never awaited has taken the error over
            for each in gc.get_objects():
                if isinstance(each, asyncio.Future) and each._log_traceback:
                    error = each.exception()
                    if error is not None:
                        found.append((_made(error, _NO_CALL), error))
        return found

    def forget(self) -> None:
        """The program has failed, or its end is known: report no further errors of its calls and tasks."""
        self._lost.clear()
        self._link.unawaited.clear()
        for _, reference in self._tasks:
            task = reference()
            if task is not None and task.done():
                task._log_traceback = False
        self._tasks.clear()


class _Meeting:
    """A work item for each thread of a pool. It ends when all living threads have reached it: then all other work is
    done."""

    def __init__(self) -> None:
        self._come = threading.Semaphore(0)
        self._over = threading.Event()

    def run(self, *_: Any) -> None:
        """Called by a thread of the pool; since Python 3.14 with a context."""
        self._come.release()
        self._over.wait()

    def hold(self, queue: Any, threads: list[threading.Thread]) -> None:
        """Wait until all threads have come. Threads of a pool that was shut down end instead."""
        for _ in threads:
            queue.put(self)
        missing = len(threads)
        while missing > sum(not thread.is_alive() for thread in threads):
            missing -= self._come.acquire(timeout=0.01)
        self._over.set()


def join_threads() -> None:
    """Wait for the program's threads and for the work of its thread pools, as CPython does at the end of a program."""
    module = sys.modules.get("concurrent.futures.thread")
    pooled: dict[threading.Thread, Any] = dict(getattr(module, "_threads_queues", {}))
    here = threading.current_thread()
    for thread in threading.enumerate():
        if thread is not here and not thread.daemon and thread not in pooled:
            thread.join()
    pools: dict[int, tuple[Any, list[threading.Thread]]] = {}
    for thread, queue in pooled.items():
        pools.setdefault(id(queue), (queue, []))[1].append(thread)
    for queue, threads in pools.values():
        _Meeting().hold(queue, threads)


def _ready(loop: asyncio.AbstractEventLoop) -> bool:
    return bool(getattr(loop, "_ready", ()))


def _matters(task: asyncio.Task[Any] | None) -> bool:
    return task is not None and (not task.done() or (not task.cancelled() and task._exception is not None))


def _made(error: BaseException, otherwise: int) -> int:
    """The number of the call that failed with this error."""
    number = getattr(error, "_number", None)
    return number if type(number) is int else otherwise


def _nothing() -> None:
    return


def _references(calls: dict[int, Any]) -> list[int]:
    """Reference counts of the values."""
    return [sys.getrefcount(call) for call in calls.values()]


_ONE = _references({0: object()})[0]
"""Count of `_references` for a value that only the dict holds; it depends on the version of Python."""
