"""The worker threads that sync tools run in.

A thread cannot be killed: if its call is cancelled, the thread is left behind until it ends by itself. A tool with
effects whose call is cancelled before its thread has begun gets a thread all the same: the record of such a call does
not depend on the speed of threads. A run that has left behind as many threads as it may run at once starts no further
ones, so their number stays bounded.

At most `MAX_THREADS` calls of sync tools run at a time, and the others wait. A sync tool that calls another, through
the event loop or in a coroutine that it returned, holds its place meanwhile: what it calls does not wait for a place.
"""

from __future__ import annotations

import contextvars
import inspect
import math
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.to_thread

from callgate.errors import ToolError
from callgate.runtime.context_task import event_loop
from callgate.tools import Tool

__all__ = ["Threads"]

MAX_THREADS = 40
"""Calls that run in threads at the same time, over all runs of a runtime. The number is anyio's default."""
MAX_LEFT_BEHIND = 1000
"""Threads of cancelled calls of one tool, over all runs, before every run is refused the tool."""

_has_place: ContextVar[bool] = ContextVar("_has_place", default=False)


class Threads:
    """The worker threads of a runtime's gates, or of one run: a run that leaves threads behind shuts out only itself.

    Args:
        gate: for a run: the threads of its gate.
        most: threads that a run may leave behind before it gets no more.
        ended_late: for a gate: called with the tool when a thread that was left behind ends; in that thread.
    """

    def __init__(
        self,
        gate: Threads | None = None,
        most: float = math.inf,
        *,
        ended_late: Callable[[Tool], None] | None = None,
    ) -> None:
        self.left_behind = 0
        """Threads that still run although nobody waits for them."""
        self._gate = gate
        self._most = most
        self._ended_late: Callable[[Tool], None] | None = ended_late if gate is None else gate._ended_late
        self._by_tool: dict[str, int] = {}
        self._loop: object = None
        self._places: anyio.Semaphore
        self._lock: threading.Lock = threading.Lock() if gate is None else gate._lock

    def have_room(self, tool: Tool) -> bool:
        """Whether one more thread of this tool may be started."""
        shared = self if self._gate is None else self._gate
        return self.left_behind < self._most and shared._by_tool.get(tool.name, 0) < MAX_LEFT_BEHIND

    def places(self) -> anyio.Semaphore | None:
        """What a call takes a place of before it runs in a thread; None for what a call with a place calls."""
        if _has_place.get():
            return None
        if (loop := event_loop()) is not self._loop:  # a semaphore belongs to one event loop
            self._loop, self._places = loop, anyio.Semaphore(MAX_THREADS, fast_acquire=True)
        return self._places

    async def run(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """Call a sync function in a thread, with the caller's context variables."""
        if not self.have_room(tool):
            left = self.left_behind if self.left_behind >= self._most else MAX_LEFT_BEHIND
            raise ToolError(
                f"tool {tool.name!r} was not called: {left} earlier calls that were given up are still "
                "running on the host; try again when they have ended",
                retryable=True,
                tool=tool.name,
            )
        job = _Job(tool, arguments, self)
        # places are counted before the attempt begins; anyio's own limit would count in its timeout
        unlimited = anyio.CapacityLimiter(math.inf)
        try:
            await anyio.to_thread.run_sync(job.run, abandon_on_cancel=True, limiter=unlimited)
        except BaseException:
            self._leave(job)
            raise
        if job.error is not None:
            error, job.error = job.error, None
            raise error
        if not inspect.isawaitable(job.result):
            return job.result
        # a sync function may return a coroutine, which belongs to the event loop
        before = _has_place.get()
        _has_place.set(True)
        try:
            return await job.result
        finally:
            _has_place.set(before)  # `reset` would fail if the call is cancelled in another context

    def _leave(self, job: _Job) -> None:
        late = False
        with self._lock:
            job.left = True
            if job.state == "waiting" and not job.tool.read_only:
                job.state, late = "running", True
            if job.state == "running":
                self._count(job.tool, 1)
        if late:
            threading.Thread(target=contextvars.copy_context().run, args=(job.work,), daemon=True).start()

    def _begin(self, job: _Job) -> bool:
        with self._lock:
            if job.left:
                return False
            job.state = "running"
            return True

    def _end(self, job: _Job) -> None:
        with self._lock:
            job.state = "ended"
            if job.left:
                self._count(job.tool, -1)
                if self._ended_late is not None:
                    self._ended_late(job.tool)

    def _count(self, tool: Tool, change: int) -> None:
        self.left_behind += change
        if self._gate is not None:
            self._gate._count(tool, change)
        else:
            self._by_tool[tool.name] = self._by_tool.get(tool.name, 0) + change


class _Job:
    """One call in a thread. No exception leaves `run`: a StopIteration or a SystemExit would harm the thread pool."""

    __slots__ = ("arguments", "error", "left", "result", "state", "threads", "tool")

    def __init__(self, tool: Tool, arguments: dict[str, Any], threads: Threads) -> None:
        self.tool = tool
        self.arguments = arguments
        self.threads = threads
        self.state = "waiting"
        self.left = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        _has_place.set(True)  # in the copy of the caller's context that this thread has
        if self.threads._begin(self):
            self.work()

    def work(self) -> None:
        try:
            self.result = self.tool.invoke(self.arguments)
        except BaseException as error:
            self.error = error
        finally:
            self.threads._end(self)
