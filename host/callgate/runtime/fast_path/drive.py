"""Runs one program on the fast path: the walk follows the program, and the gate makes its calls.

1. The walk is the program. The worker that brings the awaited result resumes it.
2. Calls that the ghost offers begin early. The walk takes such a call when it comes to the same place with the same
   arguments.
3. Calls begin in the order of the requests: workers take them in that order, and the first act of a call is the gate's
   record; nothing is awaited before it. The run's own task carries a call that was requested alone: programs that make
   one call after the other need no other task.
4. A call that the program has started is made: outcomes of other calls wait until it has begun, if there is a worker.
5. When the walk ends, calls under way are cancelled before `run` returns. If the program failed, its calls with effects
   are made instead, in order, as in the sandbox; if a limit ended it, they begin and are cancelled. A program that
   ended well has no such calls: a graph awaits its calls.
6. In doubt, if the sandbox continues, the program's calls are waited for, since it needs their results. Reads that were
   not awaited yet are cancelled: the sandbox can make them again. Those that began while the program was written go on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from callgate.errors import CallgateError, LimitReached, SandboxCrashed
from callgate.runtime.gate import Gate
from callgate.runtime.run import CodeRun

from .carrying import GraphCalls
from .journal import OneCall
from .walker import GraphProgram

__all__ = ["GraphDrive"]


class GraphDrive(GraphCalls):
    """Runs one program.

    Args:
        run: the program. Its limits hold here or in the gate, except those of the kernel for a guest.
        program: the graph that was found in it.
        inputs: its inputs, JSON.
        goes_on: whether the sandbox takes over in doubt.
        early: calls that began while the program was written.

    Attributes:
        gone: set when the run has ended.
        cut_off: if `wall_seconds` ended calls of a failed program: the tool of the first call, and the number of calls.
    """

    def __init__(
        self,
        run: CodeRun,
        program: GraphProgram,
        inputs: dict[str, Any],
        *,
        goes_on: bool,
        early: Sequence[OneCall] = (),
    ) -> None:
        super().__init__(run, program, inputs, early)
        self.gone = anyio.Event()
        self.cut_off: tuple[str, int] | None = None
        self._goes_on = goes_on
        self._settling = False
        self._rest: set[OneCall] | None = None
        """After the walk has failed: its calls with effects that have not ended."""

    @property
    def gate(self) -> Gate:
        """The gate of the runtime."""
        return self._gate.gate

    async def run(self) -> None:
        """Run the program to its end. Raises only cancellation; afterwards nothing runs on."""
        await self.drive(self._to_the_end, self._limits.wall_seconds)
        if self.failure is None and self._rest and self.walker.failed is not None:
            calls = [call.site.tool for call in self.calls if call in self._rest]
            self.cut_off = calls[0], len(calls)
        elif self.failure is None and (not self._over or (self._settling and self._rest is None)):
            self.fail(LimitReached("wall_seconds", self._limits.wall_seconds))
        self.walker.close()
        if self.walker.limit is not None:
            self.fail(self.walker.limit)
        if self.failure is not None or self.walker.unsure is None:
            await self._refuse_the_rest()

    async def _to_the_end(self) -> None:
        for call in self._early:
            if not call.ended:
                self.submit(id(call), call)
        self.walker.go_on()
        own = self._hand_out(own=True)
        while not self._over:
            if own is not None:
                await self._carry(own, own=True)
                own = self._hand_out(own=True)
            elif self._is_paused:
                await self._after_a_pause()
            else:
                await self.woken()
        if self._needed:
            await self._settle()
        elif self._follows:
            await self._make_the_rest()

    def close(self) -> None:
        """End the run, since the runtime is being left."""
        self._end_early(SandboxCrashed("the runtime was closed while this ran"))
        self._hand_out()

    @property
    def _needed(self) -> bool:
        """Whether the sandbox needs the results of the program's calls."""
        return self._goes_on and self.walker.unsure is not None and self.failure is None

    @property
    def _follows(self) -> bool:
        """Whether calls with effects begin though the walk has ended."""
        return self.failure is None and (self.walker.failed is not None or self.walker.limit is not None)

    def _ended(self, *, own: bool) -> None:
        self.wake()
        left = self._follows and self._begin_the_rest()
        if not own and not self._needed and not left:
            self.stop()

    def _is_wanted(self, call: OneCall) -> bool:
        return self._rest is not None and call in self._rest

    def _carried(self, call: OneCall) -> None:
        if not self._settling:
            return
        if self._rest is not None and (call.ended or self.failure is not None):
            self._rest.discard(call)
        self.wake()

    def _end_early(self, failure: CallgateError) -> None:
        if not self._over or self._settling:
            self.fail(failure)

    def _begin_the_rest(self) -> set[OneCall]:
        """Begin the program's calls with effects, and cancel its other calls."""
        if self._rest is None:
            self._settling = True
            self._rest = set()
            asked = set(self._asked)
            for call in self.calls:
                if call.ended:
                    continue
                if call.reached is None or self._gate.only_reads(call.site.tool):
                    self.cancel(id(call))
                    continue
                self._rest.add(call)
                if call in asked:
                    self.submit(id(call), call)
            self._asked = []
        return self._rest

    async def _make_the_rest(self) -> None:
        rest = self._begin_the_rest()
        if self.walker.limit is not None:
            await self.begun()
            await self._gate.begun()
            return
        while rest and self.failure is None:
            await self.woken()

    async def _settle(self) -> None:
        """Wait for the calls that the program made and that have begun; cancel the others.

        Reads that the program has not awaited are cancelled, too: the sandbox can make them again.
        """
        self._settling = True
        for call in self.calls:
            if call.reached is not None and not call.ended and call.site.early and not call.reached.awaited:
                call.reached = None
            if not call.ended and (call.reached is None or not call.under_way):
                self.cancel(id(call))
        while self.failure is None and any(call.reached is not None and call.under_way for call in self.calls):
            await self.woken()
        self._settling = False

    async def _refuse_the_rest(self) -> None:
        """Record the calls that the program had started and that never began: they count, too."""
        for call in self.calls:
            if call.reached is not None and call.record < 0:
                try:
                    await self._gate.record_cancelled(call.site.tool, call.arguments, call.site.line)
                except LimitReached:
                    return
