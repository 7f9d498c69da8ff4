"""Finds calls that may begin before the program comes to them: runs the ghost in turns, whenever a look can help."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Generator
from typing import Any, Final

from callgate.plan.expressions import Budget
from callgate.program.graph.walking.ghost import Ghost, Offered, Place
from callgate.program.graph.walking.walk import Worked
from callgate.runtime.driver import TURN_SECONDS
from callgate.runtime.gate import RunGate
from callgate.tools.encoding import NotJson, compact_json

from .journal import OneCall
from .walker import GraphProgram

__all__ = ["Ahead"]

logger = logging.getLogger("callgate")

_MANY_CALLS: Final = 10_000
"""From this `max_tool_calls` on, the ghost does not count calls; early calls may use half of the limit."""
_ARGUMENT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of the arguments of all early calls; they stay in memory as long as the run."""
_STEPS: Final = 200_000
_BYTES: Final = 64 * 1024 * 1024  # created, not held: a look holds a quarter at most
"""Budget of all looks of a run; the walk begins the calls that the looks do not find."""
_RESTS: Final = 4
"""Rest after a look, in multiples of the look's duration."""


class Ahead:
    """Looks ahead in one run.

    Args:
        program: the program.
        inputs: its inputs, JSON.
        gate: has the records and the limits of the run.
        asked: the places of the calls that were requested.
        early: number of early calls that were made already; `ended` is called for each.

    Attributes:
        paused: the turn is over, and the look is not.
        stopped: no further call may begin early.
    """

    def __init__(
        self, program: GraphProgram, inputs: dict[str, Any], gate: RunGate, asked: Container[Place], early: int = 0
    ) -> None:
        self.paused = self.stopped = False
        self._inputs = inputs
        self._gate = gate
        self._asked = asked
        self._open = early
        """Number of early calls that have not ended."""
        self._argument_bytes = 0
        self._known: dict[Place, str | None] = {}
        self._budget = Budget(steps=_STEPS, bytes=_BYTES)
        self._ghost = self._ghost_of(program)
        self._look: Generator[Offered | Worked, None, None] | None = None
        self._is_news = self._is_wanted = True
        self._took = 0.0
        self._rests_until = 0.0

    def follow(self, program: GraphProgram) -> None:
        """Look through a longer beginning of the same program from now on."""
        self._drop()
        self._ghost = self._ghost_of(program)
        self._is_news = self._is_wanted = True

    def _ghost_of(self, program: GraphProgram) -> Ghost:
        most = self._gate.limits.max_tool_calls
        counted = None if most >= _MANY_CALLS else most
        return Ghost(program.flow, self._inputs, self._budget, self._known, self._asked, counted, program.is_lazy)

    @property
    def rests(self) -> float | None:
        """Seconds until the next look is due; None if a look cannot help."""
        left = min(self._budget.steps_left, self._budget.bytes_left)
        if self._look is not None or not (self._is_news and self._is_wanted and left > 0):
            return None
        return max(0.0, self._rests_until - time.perf_counter())

    def ended(self, call: OneCall) -> None:
        """Learn the outcome of a call."""
        self._open -= call.early
        self._known[call.place] = call.text
        self._is_news = True
        if call.text is None and self._look is not None:
            self._drop()  # the look may be past this call already
            self._is_wanted = True

    def forget(self) -> None:
        """Take note that an early call cannot be made."""
        self._open -= 1

    def begin(self, asked: int) -> list[OneCall]:
        """Find calls that can begin now, within one turn.

        Args:
            asked: number of calls that were requested and have no record yet.
        """
        limits = self._gate.limits
        calls: list[OneCall] = []
        repair = self._gate.repair
        for offered in self._offers(limits.max_concurrent_calls - self._open):
            if repair is not None and repair.may_answer(offered.site.tool, offered.arguments):
                continue
            try:
                self._argument_bytes += len(compact_json(offered.arguments))
            except NotJson:  # a lone surrogate: the gate refuses it when the program comes to this call
                continue
            many = 2 * (len(self._gate.records) + asked + len(calls)) >= limits.max_tool_calls >= _MANY_CALLS
            if many or self._argument_bytes > _ARGUMENT_BYTES:
                self.stopped = True
                break
            self._open += 1
            calls.append(OneCall(offered.site, offered.number, offered.arguments, None, early=True))
        return calls

    def _offers(self, room: int) -> list[Offered]:
        """Run the ghost for one turn, or until it has offered `room` calls."""
        self.paused = False
        offered: list[Offered] = []
        began = time.perf_counter()
        if self._look is None and self.rests == 0:
            self._look, self._is_news, self._took = self._ghost.look(), False, 0.0
        if self._look is None:
            return offered
        ended = False
        try:
            while len(offered) < room and not (ended or self.paused):
                step = next(self._look, None)
                ended = step is None
                if isinstance(step, Offered):
                    offered.append(step)
                self.paused = not ended and time.perf_counter() - began > TURN_SECONDS
        except Exception:
            logger.exception("looking ahead failed; the program continues without it")
            self._budget.steps_left, ended = -1, True
        self._took += time.perf_counter() - began
        if ended:
            self._drop()
            self._is_wanted = self._ghost.blocked  # an unblocked look has offered everything
            self._rests_until = time.perf_counter() + _RESTS * self._took
        return offered

    def _drop(self) -> None:
        if self._look is not None:
            self._look.close()
            self._look = None
