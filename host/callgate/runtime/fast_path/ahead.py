"""Finds calls that may begin before the program comes to them: runs the ghost in turns, whenever a look can help."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Generator
from typing import Any, Final

from callgate.limits import Limits
from callgate.plan.expressions import Budget
from callgate.program.graph.walking.ghost import Ghost, Offered, Place
from callgate.program.graph.walking.walk import Worked
from callgate.runtime.driver import TURN_SECONDS

from .walker import GraphProgram

__all__ = ["MANY_CALLS", "Ahead", "Offered"]

logger = logging.getLogger("callgate")

MANY_CALLS: Final = 10_000
"""From this `max_tool_calls` on, the ghost does not count calls; early calls may use half of the limit."""
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
        limits: of the run.
        asked: the places of the calls that were requested.
    """

    def __init__(self, program: GraphProgram, inputs: dict[str, Any], limits: Limits, asked: Container[Place]) -> None:
        self.paused = False
        """The turn is over, and the look is not."""
        self._known: dict[Place, str | None] = {}
        most = limits.max_tool_calls
        self._budget = Budget(steps=_STEPS, bytes=_BYTES)
        counted = None if most >= MANY_CALLS else most
        self._ghost = Ghost(program.flow, inputs, self._budget, self._known, asked, counted, program.is_lazy)
        self._look: Generator[Offered | Worked, None, None] | None = None
        self._is_news = self._is_wanted = True
        self._took = 0.0
        self._rests_until = 0.0

    @property
    def rests(self) -> float | None:
        """Seconds until the next look is due; None if a look cannot help."""
        left = min(self._budget.steps_left, self._budget.bytes_left)
        if self._look is not None or not (self._is_news and self._is_wanted and left > 0):
            return None
        return max(0.0, self._rests_until - time.perf_counter())

    def ended(self, place: Place, text: str | None) -> None:
        """Learn the result of a call; None for an error."""
        self._known[place] = text
        self._is_news = True
        if text is None and self._look is not None:
            self._drop()  # the look may be past this call already
            self._is_wanted = True

    def go_on(self, room: int) -> list[Offered]:
        """Find calls that can begin now: at most `room`, within one turn."""
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
