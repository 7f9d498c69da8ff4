"""A plan that a model still writes: its reads begin meanwhile, and the finished plan runs like any other."""

from __future__ import annotations

import time
from collections.abc import Mapping
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any

import anyio
import anyio.abc
import anyio.lowlevel

from callgate.limits import Limits
from callgate.plan.arriving import ArrivingPlan
from callgate.runtime.gate.watches import Ended

from .early import EarlyCalls
from .result import PlanResult

if TYPE_CHECKING:
    from .run import PlanRun

__all__ = ["PlanWriting"]


class PlanWriting:
    """A plan that is being written. With `approve_plan`, nothing begins before the answer.

    Args:
        tasks: the task group of the early calls; cancelling it cancels them.
        run: the plan, without its text.
        ended: receives the result or the error.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup, run: PlanRun, ended: Ended = lambda *_: None) -> None:
        self._run = run
        self._early = EarlyCalls(tasks, run)
        self._arriving = ArrivingPlan(run.offering, run.limits)
        self._unread: list[str] = []
        self._room = run.limits.max_message_bytes
        """Characters that the plan may still have."""
        self._news = anyio.Event()
        self._over = run.approve_plan is not None
        self._started = time.perf_counter()
        self._ended = ended
        tasks.start_soon(self._read_on)

    def receive(self, text: str) -> None:
        """Take the next piece of the text. Does not wait."""
        self._room -= len(text)
        self._over = self._over or self._room < 0  # the whole plan is refused
        if not self._over:
            self._unread.append(text)
            self._news.set()

    def restart(self) -> None:
        """The plan is written from its beginning again, or complete: nothing more begins early. A step of the complete
        plan still takes an equal call."""
        self._over = True
        self._unread.clear()
        self._early.complete()
        self._news.set()

    async def _read_on(self) -> None:
        """Begin the steps of what has been written, as often as there is more."""
        while not self._over:
            await self._news.wait()
            self._news = anyio.Event()
            texts, self._unread = self._unread, []
            steps = chain.from_iterable(map(self._arriving.receive, texts))
            for step in takewhile(lambda _: not self._over, steps):
                self._early.arrive(step)
                await anyio.lowlevel.checkpoint()

    async def finish(self, plan: Mapping[str, Any] | str, limits: Limits | None = None) -> PlanResult:
        """Run the finished plan, once. It decides; it need not be what was received.

        Args:
            plan: as for `Runtime.execute_tool_plan`.
            limits: their `wall_seconds` replaces that of the run.
        """
        run = self._run
        self.restart()
        if limits is not None:
            run.limits = run.limits.replace(wall_seconds=limits.wall_seconds)
        try:
            try:
                reading = await run.read_aside(plan)
                if reading.plan is None:
                    await self._early.cancel_all()
                else:
                    await self._early.decide(reading.plan)
                result = await run.run_if_allowed(reading, self._started, self._early)
            finally:
                with anyio.CancelScope(shield=True):
                    await self._early.cancel_all()
        except BaseException as error:
            self._ended(None, error)
            raise
        self._ended(result)
        return result
