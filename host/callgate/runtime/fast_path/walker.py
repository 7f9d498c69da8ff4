"""The program's side of a run on the fast path: walked until it waits, ends, or has had its turn. Makes no call.

Holds the limits that a program reaches by itself: on what it prints, and on its value.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from callgate.errors import LimitReached
from callgate.limits import Limits
from callgate.plan.expressions import Budget
from callgate.program.graph.walking.walk import Began, Done, MadeCall, Printed, ProgramFailed, Unsure, Wait, walk
from callgate.protocol.run import value_bytes
from callgate.runtime.driver import TURN_SECONDS

from .looking import GraphProgram
from .prints import Prints

__all__ = ["Walker"]

logger = logging.getLogger("callgate")

WALK_STEPS = 100_000
"""Steps of all expressions of one program, 25 ms of the host's event loop or, where that is slow, 50; beyond, the
sandbox."""
WALK_BYTES = 64 * 1024 * 1024
_ESCAPED = 6
"""Bytes that a character takes on the wire, at most."""
_ERROR_ENVELOPE = 1024
_ENVELOPE = 128
"""More than what stands around a value on the wire."""


class Walker:
    """One program.

    Args:
        program: what to follow.
        inputs: its inputs, JSON.
        limits: of the run.
        prints: what it prints.
        reach: told of each call that the program comes to, in order. May raise `Unsure` and `LimitReached`.
    """

    def __init__(
        self,
        program: GraphProgram,
        inputs: dict[str, Any],
        limits: Limits,
        prints: Prints,
        reach: Callable[[MadeCall], None],
    ) -> None:
        self.done: Done | None = None
        self.failed: ProgramFailed | None = None
        self.unsure: Unsure | None = None
        self.limit: LimitReached | None = None
        """It ended by that limit."""
        self.paused = False
        """It would go on, and has had its turn."""
        self._limits = limits
        self._prints = prints
        self._reach = reach
        self._steps = walk(program.flow, program.source, inputs, Budget(steps=WALK_STEPS, bytes=WALK_BYTES))
        self._waiting: set[int] = set()
        """What it waits for, by the identity of the calls."""

    @property
    def over(self) -> bool:
        return not (self.done is None and self.failed is None and self.unsure is None and self.limit is None)

    def doubt(self, line: int, reason: str) -> None:
        """It is not certain what CPython would do from here on."""
        if not self.over:
            self.unsure = Unsure(line, reason)

    def ended(self, call: MadeCall) -> bool:
        """A call has what came of it. Returns whether the program waited for just that."""
        if id(call) not in self._waiting:
            return False
        self._waiting.discard(id(call))
        if call.error is not None:
            self._waiting.clear()
        return not self._waiting

    def go_on(self) -> None:
        """Follow the program until it waits, ends, or has had its turn."""
        began = time.perf_counter()
        self.paused = False
        try:
            while not self._waiting and not self.over:
                step = next(self._steps)
                if isinstance(step, Began):
                    self._prints.flush()
                    self._reach(step.call)
                elif isinstance(step, Printed):
                    self._prints.write(step.text)
                elif isinstance(step, Wait):
                    self._wait_for(step.calls)
                if time.perf_counter() - began > TURN_SECONDS:
                    self.paused = True
                    return
        except StopIteration as end:
            self._take_value(end.value)
        except ProgramFailed as failed:
            size = 2 * len(failed.message) + len(failed.traceback)
            if _ESCAPED * size + _ERROR_ENVELOPE > self._limits.max_message_bytes:
                self.doubt(failed.line, "the error comes near max_message_bytes")
            else:
                self.failed = failed
        except Unsure as unsure:
            self.unsure = unsure
        except LimitReached as reached:
            self.limit = reached
        except Exception:
            logger.exception("the fast path failed; the sandbox decides")
            self.doubt(1, "an error of callgate's own; its log has the details")

    def close(self) -> None:
        """Let go what is held of the output; the program is not followed any more."""
        self._steps.close()
        try:
            self._prints.flush()
        except LimitReached as reached:
            self.limit = self.limit or reached

    def _wait_for(self, calls: Iterable[MadeCall]) -> None:
        waiting = set()
        for call in calls:
            if call.error is not None:
                return
            if not call.ended:
                waiting.add(id(call))
        self._waiting = waiting

    def _take_value(self, done: Done) -> None:
        most = self._limits.max_value_bytes
        try:
            self._prints.flush()
            size = done.size or value_bytes(done.value, done.value_repr, most)
            if size > most:
                raise LimitReached("max_value_bytes", most, size)
        except LimitReached as reached:
            self.limit = reached
            return
        if size + _ENVELOPE > self._limits.max_message_bytes:
            self.doubt(1, "the value comes near max_message_bytes")
        else:
            self.done = done
