"""Walks a program on the fast path until it waits, ends, or its turn is over. Makes no call.

Enforces the limits on prints and on the value. Prints are buffered by lines, cut and counted like a guest's output, and
leave before the next call does: so events come in the same order on both paths.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from callgate.errors import LimitReached
from callgate.limits import Limits
from callgate.plan.expressions import Budget
from callgate.program.graph.flow import Flow
from callgate.program.graph.walking.ghost import makes_iterators
from callgate.program.graph.walking.walk import Began, Done, MadeCall, ProgramFailed, Unsure, Wait, walk
from callgate.program.graph.walking.walk import Printed as WalkPrinted
from callgate.protocol.logs import Logs, printable
from callgate.protocol.run import encode, value_bytes
from callgate.runtime.driver import TURN_SECONDS
from callgate.runtime.gate.events import Event, Printed, tell
from callgate.runtime.print_marks import PrintMarks

__all__ = ["GraphProgram", "Prints", "TellOnce", "Walker"]

logger = logging.getLogger("callgate")

WALK_STEPS = 100_000
"""Steps of all expressions of one program: 25 to 50 ms of the host's event loop. Longer programs go to the sandbox."""
WALK_BYTES = 64 * 1024 * 1024
_ESCAPED = 6
"""Upper bound on the bytes of a character on the wire."""
_ERROR_ENVELOPE = 1024
_ENVELOPE = 128
"""Upper bound on the bytes around a value on the wire."""
_PRINT_ENVELOPE = len('{"jsonrpc":"2.0","method":"print","params":{"text":}}')
_HELD = 8192
"""Characters of an unfinished line that are buffered; as in the guest's `output`."""
_PIECE = 1 << 16


@dataclass(frozen=True, eq=False)
class GraphProgram:
    """A program that is a graph of tool calls."""

    source: str
    flow: Flow
    looks_ahead: bool
    """Whether a call may begin before the program comes to it."""
    answer_line: int | None = None
    """The line of the ``final_answer(value)`` with which the program ends; the flow ends with the value."""

    @cached_property
    def is_lazy(self) -> bool:
        """Result of `makes_iterators`, for the ghost."""
        return makes_iterators(self.flow)


class Walker:
    """One program.

    Args:
        program: the program to walk.
        inputs: its inputs, JSON.
        limits: of the run.
        on_event: receives its prints.
        seconds: returns the seconds from the start of the run.
        reach: receives each call that the program comes to, in order. May raise `Unsure` and `LimitReached`.
    """

    def __init__(
        self,
        program: GraphProgram,
        inputs: dict[str, Any],
        limits: Limits,
        on_event: Callable[[Event], None] | None,
        seconds: Callable[[], float],
        reach: Callable[[MadeCall], None],
    ) -> None:
        self.done: Done | None = None
        self.failed: ProgramFailed | None = None
        self.unsure: Unsure | None = None
        self.limit: LimitReached | None = None
        """The limit that ended the program."""
        self.paused = False
        """The turn is over, and the program is not."""
        self._limits = limits
        self.prints = Prints(limits, on_event, seconds)
        self._reach = reach
        self._steps = walk(program.flow, program.source, inputs, Budget(steps=WALK_STEPS, bytes=WALK_BYTES))
        self._waiting: set[int] = set()
        """Ids of the calls that the program waits for."""

    @property
    def over(self) -> bool:
        return not (self.done is None and self.failed is None and self.unsure is None and self.limit is None)

    def doubt(self, line: int, reason: str) -> None:
        """End the walk, since CPython might do something else from here on."""
        if not self.over:
            self.unsure = Unsure(line, reason)

    def ended(self, call: MadeCall) -> bool:
        """Take note that a call has its outcome. Returns whether the program can continue."""
        if id(call) not in self._waiting:
            return False
        self._waiting.discard(id(call))
        if call.error is not None:
            self._waiting.clear()
        return not self._waiting

    def go_on(self) -> None:
        """Walk the program until it waits, ends, or its turn is over."""
        began = time.perf_counter()
        self.paused = False
        try:
            while not self._waiting and not self.over:
                step = next(self._steps)
                if isinstance(step, Began):
                    self.prints.flush()
                    self._reach(step.call)
                elif isinstance(step, WalkPrinted):
                    self.prints.write(step.text, step.line)
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
        """End the walk, and send the buffered output."""
        self._steps.close()
        try:
            self.prints.flush()
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
            self.prints.flush()
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


class Prints:
    """The output of one program.

    Args:
        limits: of which those for logs and messages hold here.
        on_event: receives each piece.
        seconds: returns the seconds from the start of the run.
    """

    def __init__(self, limits: Limits, on_event: Callable[[Event], None] | None, seconds: Callable[[], float]) -> None:
        self.marks = PrintMarks(seconds)
        """When and where the program printed."""
        self._logs = Logs(limits.max_log_bytes)
        self._most = limits.max_message_bytes
        self._on_event = on_event
        self._buffered: list[str] = []
        self._size = 0
        self._line: int | None = None
        """The line that printed the first of the buffered text."""

    @property
    def logs(self) -> str:
        """Everything that has been sent."""
        return self._logs.text

    def write(self, text: str, line: int | None = None) -> None:
        """Print. Raises `LimitReached` after sending the part that fits."""
        if not self._buffered:
            self._line = line
        self._buffered.append(text)
        self._size += len(text)
        if "\n" in text or self._size > _HELD:
            self.flush()

    def flush(self) -> None:
        """Send the buffered output. Raises `LimitReached`."""
        if not self._buffered:
            return
        text = "".join(self._buffered)
        self._buffered.clear()
        self._size = 0
        for start in range(0, len(text), _PIECE):
            self._put(text[start : start + _PIECE])

    def _put(self, piece: str) -> None:
        if (
            len(piece) * 2 * _ESCAPED + _PRINT_ENVELOPE > self._most
            and len(encode(piece)) + _PRINT_ENVELOPE > self._most
        ):
            raise LimitReached("max_message_bytes", self._most)
        self.marks.add(self._logs.length, self._line)
        try:
            self._logs.write(printable(piece))
        finally:
            if self._logs.last:
                tell(self._on_event, Printed(self._logs.last))


class TellOnce:
    """A listener for a program that runs again: it skips the prints that were sent before.

    Args:
        listener: receives the events.
        sent: the text that was sent before.
    """

    def __init__(self, listener: Callable[[Event], None], sent: str) -> None:
        self._listener = listener
        self._sent = sent

    def __call__(self, event: Event) -> None:
        if self._sent and isinstance(event, Printed):
            again = min(len(self._sent), len(event.text))
            if event.text[:again] != self._sent[:again]:
                self._sent = ""  # the program prints something else now
            else:
                self._sent = self._sent[again:]
                if again == len(event.text):
                    return
                event = Printed(event.text[again:])
        self._listener(event)
