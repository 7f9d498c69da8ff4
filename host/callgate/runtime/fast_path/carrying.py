"""Carries the calls of a program on the fast path: takes them from the walk and the ghost, gives them to workers, and
gives their outcomes back. `drive` has the rules, and how a run ends.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any

from callgate.errors import CallgateError, LimitReached, ToolError
from callgate.plan.sizes import json_size
from callgate.program.graph.walking.ghost import Place
from callgate.program.graph.walking.walk import MadeCall, Unsure
from callgate.protocol.run import encode, error_object
from callgate.runtime.driver import Driver
from callgate.runtime.first_step import FirstStep
from callgate.runtime.gate.journal import KeptCall
from callgate.runtime.gate.records import CallUnderWay
from callgate.runtime.gate.watching import CallPlace, place
from callgate.runtime.run import CodeRun

from .ahead import Ahead
from .journal import Elsewhere, OneCall, same_arguments
from .walker import GraphProgram, Walker

__all__ = ["EARLY", "LARGE_RESULT", "READ_AGAIN", "GraphCalls"]

EARLY = CallPlace(speculative=True)
READ_AGAIN = 8
"""Memory of a decoded result, in multiples of its length as text."""
_ESCAPED = 6
"""Upper bound on the bytes of a character on the wire."""
_ENVELOPE = 512
"""Upper bound on the bytes around arguments on the wire."""
LARGE_RESULT = 1024 * 1024
"""Characters of a result after which no call begins early, since each look would decode the result again."""


class GraphCalls(Driver[int, OneCall | None]):
    """The calls of one program.

    Args:
        run: the program.
        program: the graph that was found in it.
        inputs: its inputs, JSON.
        early: calls that began while the program was written.
    """

    def __init__(
        self, run: CodeRun, program: GraphProgram, inputs: dict[str, Any], early: Sequence[OneCall] = ()
    ) -> None:
        super().__init__(run.limits.max_concurrent_calls)
        self.code_run = run
        self.program = program
        self.walker = Walker(program, inputs, run.limits, run.on_event, run.gate.seconds, self._reach)
        self.calls: list[OneCall] = []
        """Every call, in the order of the requests."""
        self._gate = run.gate
        self._limits = run.limits
        self._inputs = inputs
        self._ahead: Ahead | None = None
        self._journal = run.gate.journal
        self._durable = run.gate.durable
        """Of a durable run. There, an outcome is used only while the walk waits: what it finds must not depend on time.
        So an early call's is used, too, and nothing begins early before the run is where it was."""
        if self._journal is not None:
            self._journal.drive = self
        self._looks_ahead = program.looks_ahead and (self._journal is None or self._journal.is_live)
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
        self._errors = 0
        self._early = [call for call in early if call.stands_in(program.flow)]
        """Those of the early calls that may still be taken."""
        self.calls += early
        for call in self._early:
            self._by_place[call.place] = call
            if call.ended:
                self._note(call)

    def _ended(self, *, own: bool) -> None:
        """Begin or cancel calls after the walk has ended; `own` if the run's own task asks."""
        raise NotImplementedError

    def _is_wanted(self, call: OneCall) -> bool:
        """Whether a call is made though the walk has ended."""
        raise NotImplementedError

    def _carried(self, call: OneCall) -> None:
        """Take note that a worker has finished a call."""
        raise NotImplementedError

    def _end_early(self, failure: CallgateError) -> None:
        """End the run, if the walk has not ended."""
        raise NotImplementedError

    @property
    def _over(self) -> bool:
        return self.failure is not None or self.walker.over

    def rests(self, parked: int) -> bool:
        """See `callgate.runtime.gate.journal.Rests`."""
        busy = self._is_paused or self._asked or (self._outcomes and not self._over) or self._under_way > parked
        return not busy and self.only_waits_for(parked)

    # calls of the walk

    def _reach(self, made: MadeCall) -> None:
        """Take a call that the walk has come to: an early one if it is the same, else a new one."""
        if self._early and not made.site.early:  # they were read before this call changes anything
            for call in self._early:
                if call.reached is None and self._is_current(call):
                    del self._by_place[call.place]
            self._early = []
        early = self._by_place.get((made.site.number, made.number))
        if early is not None:
            if early.site.tool == made.site.tool and same_arguments(early.arguments, made.arguments):
                early.reached = made
                self._unbegun += early.record < 0
                if early.elsewhere is not None:
                    early.elsewhere.take(early)
                if self._journal is None:
                    self._give(early)
                else:
                    self._name(early)
                    if early.ended and early not in self._outcomes:
                        self._outcomes.append(early)
                return
            self._stop_looking_ahead()  # the ghost was wrong once
        most = self._limits.max_message_bytes
        if json_size(made.arguments, most) * _ESCAPED + _ENVELOPE > most and (
            len(encode(made.arguments)) + _ENVELOPE > most
        ):
            raise Unsure(made.site.line, "the arguments of a call come near max_message_bytes")
        self._unbegun += 1
        call = OneCall(made.site, made.number, made.arguments, made)
        if self._durable is not None:
            self._name(call)
        self._ask(call)

    def _name(self, call: OneCall) -> None:
        """In a durable run: name a call for the journal, in the order in which the program makes its calls."""
        if self._durable is not None:
            call.stored_as = self._durable.key_of(call.site.tool, call.arguments)

    def _give(self, call: OneCall) -> None:
        """Give the walk the outcome of a call, if the walk has come to it."""
        made = call.reached
        if made is None or made.ended:
            return
        if self._journal is not None and call.stored_as is not None:
            if not call.kept:
                self._journal.adopt(call.stored_as, self._gate.chain(call.record), call.error or call.text or "")
            self._journal.consumed(call.stored_as)
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
            calls = list(filter(self._is_current, self.calls))
            early = sum(call.early for call in calls)
            self._ahead = Ahead(self.program, self._inputs, self._gate, self._by_place, early)
            for call in calls:
                if call.ended and call not in self._outcomes:
                    self._ahead.ended(call)
            self._begin_early()

    def _begin_early(self) -> None:
        """Request calls that can begin now; plan a later look if it is too soon for one."""
        if self._ahead is None or self._over:
            return
        for call in self._ahead.begin(len(self._asked)):
            self._ask(call)
        if self._ahead.stopped:
            self._stop_looking_ahead()
            return
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
            self._ended(own=own)
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
        if self._ahead is not None:
            self._ahead.forget()
        if self._is_current(call):
            del self._by_place[call.place]

    def _is_current(self, call: OneCall) -> bool:
        return self._by_place.get(call.place) is call

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
        if self._over and not self._is_wanted(call):
            return
        gate = self._gate
        if call.elsewhere is not None:
            making = self._awaited(call, call.elsewhere)
        elif call.reached is not None:
            self._unbegun -= 1
            making = self._made(call)
        elif len(gate.records) >= self._limits.max_tool_calls:
            self._forget(call)
            return
        else:
            making = self._made(call)
        call.under_way = True
        self._under_way += 1
        try:
            first = FirstStep(making)
            if first.waits and own:
                self._look_ahead()
                self._hand_out()
                if self._is_paused:  # the look goes on while this call is under way
                    self.later(0, self._after_a_pause)
            call.text = await first.rest() if first.waits else first.result
        except ToolError as error:
            call.error = error
        except LimitReached:
            self._no_room(call)
            return
        finally:
            call.under_way = False
            self._under_way -= 1
            if gate.watches is not None:
                place.set(None)  # the call has taken it from a context of its own
            self._carried(call)
        self._note(call)
        if self.wants_a_turn:
            await self.turn()  # tools that never wait would block all other tasks
        self._outcomes.append(call)
        self._use_outcomes()

    def _made(self, call: OneCall) -> Coroutine[Any, Any, str]:
        gate = self._gate
        call.record = len(gate.records)
        if gate.watches and call.reached is None:
            place.set(EARLY)
        if self._journal is not None and call.stored_as is not None:
            call.kept = True
            kept = KeptCall(self._journal, call.stored_as)
            return gate.take(CallUnderWay(call.site.tool, call.arguments, line=call.site.line, kept=kept))
        return gate.call(call.site.tool, call.arguments, line=call.site.line, early=call.reached is None)

    async def _awaited(self, call: OneCall, elsewhere: Elsewhere) -> str:
        """The result of a call that began while the program was written."""
        text = await elsewhere.outcome(call)
        if text is None:
            call.elsewhere = None
            text = await self._made(call)
        return text

    def _note(self, call: OneCall) -> None:
        """Count the outcome of a call before the program can use it."""
        if call.text is not None:
            self._held += sys.getsizeof(call.text)
        elif call.error is not None:
            self._errors += 1
            call.order = self._errors

    def _no_room(self, call: OneCall) -> None:
        most = self._limits.max_tool_calls
        if call.record >= len(self._gate.records):
            call.record = -1
        if call.reached is None:  # the limit left no room for its fallback
            self._forget(call)
        else:
            self._end_early(LimitReached("max_tool_calls", most, most))

    def _use_outcomes(self) -> None:
        """Use the outcomes of calls, unless other calls must begin first and workers are free for them."""
        while self._outcomes and not self._over:
            if self._journal is not None and self.walker.paused:
                return
            if 0 < self._unbegun < self._limits.max_concurrent_calls - self._under_way:
                return
            self._use_outcome(self._outcomes.popleft())
        self._begin_early()

    def _use_outcome(self, call: OneCall) -> None:
        if self._ahead is not None and self._is_current(call) and not call.used:
            self._ahead.ended(call)
        call.used = True
        if call.text is not None and len(call.text) > LARGE_RESULT:
            self._stop_looking_ahead()
        self._give(call)
        if self._held * READ_AGAIN > self._limits.memory_bytes // 2:
            self.walker.doubt(call.site.line, "the results take much of what memory_bytes allows")
            return
        if call.reached is not None and self.walker.ended(call.reached) and not self.walker.paused:
            self.walker.go_on()
