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
   not awaited yet are cancelled: the sandbox can make them again.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import Any

import anyio

from callgate.errors import CallgateError, LimitReached, SandboxCrashed, ToolError
from callgate.plan.sizes import json_size
from callgate.program.graph.walking.walk import MadeCall, Unsure
from callgate.protocol.run import encode, error_object
from callgate.runtime.driver import Driver, FirstStep
from callgate.runtime.gate import Gate
from callgate.runtime.run import CodeRun
from callgate.tools.encoding import NotJson, compact_json

from .ahead import MANY_CALLS, Ahead
from .journal import OneCall, Place, same_arguments
from .walker import GraphProgram, Walker

__all__ = ["GraphDrive"]

_READ_AGAIN = 8
"""Memory of a decoded result, in multiples of its length as text."""
_ESCAPED = 6
"""Upper bound on the bytes of a character on the wire."""
_ENVELOPE = 512
"""Upper bound on the bytes around arguments on the wire."""
_LARGE_RESULT = 1024 * 1024
"""Characters of a result after which no call begins early, since each look would decode the result again."""
_EARLY_BYTES = 16 * 1024 * 1024
"""Bytes of the arguments of all early calls; they stay in memory as long as the run."""


class GraphDrive(Driver[int, OneCall | None]):
    """Runs one program.

    Args:
        run: the program. Its limits hold here or in the gate, except those of the kernel for a guest.
        program: the graph that was found in it.
        inputs: its inputs, JSON.
        goes_on: whether the sandbox takes over in doubt.

    Attributes:
        gone: set when the run has ended.
    """

    def __init__(self, run: CodeRun, program: GraphProgram, inputs: dict[str, Any], *, goes_on: bool) -> None:
        super().__init__(run.limits.max_concurrent_calls)
        self.code_run = run
        self.program = program
        self.gone = anyio.Event()
        self.walker = Walker(program, inputs, run.limits, run.on_event, self._reach)
        self.calls: list[OneCall] = []
        """Every call, in the order of the requests."""
        self._gate = run.gate
        self._limits = run.limits
        self._goes_on = goes_on
        self._inputs = inputs
        self._ahead: Ahead | None = None
        self._looks_ahead = program.looks_ahead
        self._ahead_open = 0
        """Number of early calls that have not ended."""
        self._will_look = False
        self._by_place: dict[Place, OneCall] = {}
        self._asked: list[OneCall] = []
        """Calls that were requested since the walk was resumed, and that no worker has yet."""
        self._unbegun = 0
        """Number of the program's calls that have not begun."""
        self._under_way = 0
        self._outcomes: deque[OneCall] = deque()
        """Calls that have ended, and whose outcomes nobody has used yet."""
        self._will_use = False
        self._outcome_jobs = 0
        self._held = 0
        self._early_bytes = 0
        self._errors = 0
        self._settling = False
        self._rest: set[OneCall] | None = None
        """After the walk has failed: its calls with effects that have not ended."""
        self.cut_off: tuple[str, int] | None = None
        """If `wall_seconds` ended the calls in `_rest`: the tool of the first call, and the number of calls."""

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
        self._end(SandboxCrashed("the runtime was closed while this ran"))
        self._hand_out()

    @property
    def _over(self) -> bool:
        return self.failure is not None or self.walker.over

    @property
    def _needed(self) -> bool:
        """Whether the sandbox needs the results of the program's calls."""
        return self._goes_on and self.walker.unsure is not None and self.failure is None

    @property
    def _follows(self) -> bool:
        """Whether calls with effects begin though the walk has ended."""
        return self.failure is None and (self.walker.failed is not None or self.walker.limit is not None)

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

    def _end(self, failure: CallgateError) -> None:
        if not self._over or self._settling:
            self.fail(failure)

    async def _refuse_the_rest(self) -> None:
        """Record the calls that the program had started and that never began: they count, too."""
        for call in self.calls:
            if call.reached is not None and call.record < 0:
                try:
                    await self._gate.record_cancelled(call.site.tool, call.arguments)
                except LimitReached:
                    return

    # calls of the walk

    def _reach(self, made: MadeCall) -> None:
        """Take a call that the walk has come to: an early one if it is the same, else a new one."""
        early = self._by_place.get((made.site.number, made.number))
        if early is not None:
            if same_arguments(early.arguments, made.arguments):
                early.reached = made
                self._unbegun += early.record < 0
                self._give(early)
                return
            self._stop_looking_ahead()  # the ghost was wrong once
        most = self._limits.max_message_bytes
        if json_size(made.arguments, most) * _ESCAPED + _ENVELOPE > most and (
            len(encode(made.arguments)) + _ENVELOPE > most
        ):
            raise Unsure(made.site.line, "the arguments of a call come near max_message_bytes")
        self._unbegun += 1
        self._ask(OneCall(made.site, made.number, made.arguments, made))

    def _give(self, call: OneCall) -> None:
        """Give the walk the outcome of a call, if the walk has come to it."""
        made = call.reached
        if made is None or made.ended:
            return
        if call.text is not None:
            made.result = call.text
        elif call.error is not None:
            made.order = call.order
            made.error = error_object(call.error)

    async def _after_a_pause(self) -> None:
        """Give the event loop turns and go on, as long as the walk or the ghost is paused."""
        while not self._over and self._is_paused:
            await self.turn()
            if self.walker.paused:
                self.walker.go_on()
            else:
                self._begin_early()
            self._hand_out()

    @property
    def _is_paused(self) -> bool:
        return self.walker.paused or (self._ahead is not None and self._ahead.paused)

    # early calls

    def _look_ahead(self) -> None:
        """Start to begin calls early, since the program waits for something."""
        if self._ahead is None and self._looks_ahead and not self._over:
            self._ahead = Ahead(self.program, self._inputs, self._limits, self._by_place)
            for call in self.calls:
                if call.ended and call not in self._outcomes:
                    self._ahead.ended(call.place, call.text)
            self._begin_early()

    def _begin_early(self) -> None:
        """Request calls that can begin now; plan a later look if it is too soon for one."""
        if self._ahead is None or self._over:
            return
        most = self._limits.max_tool_calls
        for offered in self._ahead.go_on(self._limits.max_concurrent_calls - self._ahead_open):
            try:
                self._early_bytes += len(compact_json(offered.arguments))
            except NotJson:  # a lone surrogate: the gate refuses it when the program comes to this call
                continue
            is_half = most >= MANY_CALLS and 2 * (len(self._gate.records) + len(self._asked)) >= most
            if is_half or self._early_bytes > _EARLY_BYTES:
                self._stop_looking_ahead()
                return
            self._ahead_open += 1
            self._ask(OneCall(offered.site, offered.number, offered.arguments, None, early=True))
        rests = self._ahead.rests
        if rests is not None and not self._will_look:
            self._will_look = True
            self.later(rests, self._look_later)

    async def _look_later(self) -> None:
        self._will_look = False
        self._begin_early()
        self._hand_out()
        await self._after_a_pause()

    def _stop_looking_ahead(self) -> None:
        self._ahead, self._looks_ahead = None, False

    def _ask(self, call: OneCall) -> None:
        self._by_place[call.place] = call
        self.calls.append(call)
        self._asked.append(call)

    def _hand_out(self, *, own: bool = False) -> OneCall | None:
        """Hand the requested calls to workers; nothing is awaited between a request and this.

        Args:
            own: whether the run's own task asks, which can carry a call itself.

        Returns:
            The call that the run's own task must carry at once.
        """
        if self._over:
            self.wake()
            left = self._follows and self._begin_the_rest()
            if not own and not self._needed and not left:
                self.stop()
            return None
        alone = len(self._asked) == 1 and self._asked[0].reached is not None
        if own and alone and not (self.walker.paused or self.waiting or self._outcomes):
            return self._asked.pop()
        if self._asked:
            self._look_ahead()
            calls, self._asked = self._asked, []
            for call in calls:
                self.submit(id(call), call)
        if self._outcomes and not self._will_use:
            self._will_use = True
            self._outcome_jobs += 1
            self.submit(-self._outcome_jobs, None)  # behind those that have not begun
        return None

    def _forget(self, call: OneCall) -> None:
        """Forget an early call that cannot be made: the walk makes the call if it comes to it."""
        self._ahead_open -= 1
        if self._by_place.get(call.place) is call:
            del self._by_place[call.place]

    # how calls are carried

    async def _serve(self, call: OneCall | None) -> None:
        """Do a worker's job: carry a call, or use the outcomes of ended calls (None)."""
        if call is None:
            self._will_use = False
            self._use_outcomes()
        else:
            await self._carry(call)
        self._hand_out()
        await self._after_a_pause()

    async def _carry(self, call: OneCall, *, own: bool = False) -> None:
        """Make a call and use its outcome. Nothing is awaited before the gate has recorded the call."""
        if self._over and (self._rest is None or call not in self._rest):
            return
        gate = self._gate
        if call.reached is not None:
            self._unbegun -= 1
        elif len(gate.records) >= self._limits.max_tool_calls:
            self._forget(call)
            return
        call.record = len(gate.records)
        call.under_way = True
        self._under_way += 1
        try:
            first = FirstStep(gate.call(call.site.tool, call.arguments))
            if first.waits and own:
                self._look_ahead()
                self._hand_out()
            call.text = await first.rest() if first.waits else first.result
        except ToolError as error:
            call.error = error
            self._errors += 1
            call.order = self._errors
        except LimitReached:
            self._no_room(call)
            return
        finally:
            call.under_way = False
            self._under_way -= 1
            if self._settling:
                if self._rest is not None and (call.ended or self.failure is not None):
                    self._rest.discard(call)
                self.wake()
        if call.text is not None:  # counted before the program can use the result
            self._held += sys.getsizeof(call.text)
        if self.wants_a_turn:
            await self.turn()  # tools that never wait would block all other tasks
        self._outcomes.append(call)
        self._use_outcomes()

    def _no_room(self, call: OneCall) -> None:
        most = self._limits.max_tool_calls
        if call.record >= len(self._gate.records):
            call.record = -1
        if call.reached is None:  # the limit left no room for its fallback
            self._forget(call)
        else:
            self._end(LimitReached("max_tool_calls", most, most))

    def _use_outcomes(self) -> None:
        """Use the outcomes of calls, unless other calls must begin first and workers are free for them."""
        while self._outcomes and not self._over:
            if 0 < self._unbegun < self._limits.max_concurrent_calls - self._under_way:
                return
            self._use_outcome(self._outcomes.popleft())
        self._begin_early()

    def _use_outcome(self, call: OneCall) -> None:
        self._ahead_open -= call.early
        if self._ahead is not None:
            self._ahead.ended(call.place, call.text)
        if call.text is not None and len(call.text) > _LARGE_RESULT:
            self._stop_looking_ahead()
        self._give(call)
        if self._held * _READ_AGAIN > self._limits.memory_bytes // 2:
            self.walker.doubt(call.site.line, "the results take much of what memory_bytes allows")
            return
        if call.reached is not None and self.walker.ended(call.reached) and not self.walker.paused:
            self.walker.go_on()

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
