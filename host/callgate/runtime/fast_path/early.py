"""Makes read-only calls of a program while a model still writes it; the finished program then takes their outcomes.

1. The ghost of the fast path finds the calls, in ever longer beginnings of the program: see `ArrivingProgram`. So only
   reads begin, and none behind a call with effects.
2. The finished program decides. The walk takes a call at the same place, of the same tool with the same arguments; a
   program that runs in the sandbox gets the outcomes from the `Journal`. All others stay in the records as speculative.
3. A call may still be under way when the program is finished. It goes on here; what takes it waits for it.
4. Text that is written anew discards its calls. After `_MOST_WASTED` such calls nothing begins early any more.
5. `wall_seconds` begins with the finished program. Everything here ends with the caller's task group, or with `close`.
"""

from __future__ import annotations

import json
import logging
import sys
from functools import partial
from typing import Final

import anyio
import anyio.abc

from callgate.errors import LimitReached, ToolError
from callgate.program.graph.arriving import ArrivingProgram
from callgate.program.graph.walking.ghost import Place
from callgate.runtime.driver import Driver
from callgate.runtime.gate.failures import copied
from callgate.runtime.gate.watching import place
from callgate.runtime.run import CodeRun, Looks

from .ahead import Ahead
from .carrying import EARLY, LARGE_RESULT, READ_AGAIN
from .journal import OneCall
from .walker import GraphProgram

__all__ = ["EarlyReads"]

logger = logging.getLogger("callgate")

_MOST_WASTED: Final = 8
"""Calls of a program that were made for text which was written anew, before nothing more begins early."""


class EarlyReads(Driver[int, OneCall]):
    """The early calls of one program.

    Args:
        tasks: the task group of the calls; cancelling it cancels them.
        run: the program. Its `code` is not known yet.
        looks: where programs take turns to be looked at.
    """

    def __init__(self, tasks: anyio.abc.TaskGroup, run: CodeRun, looks: Looks) -> None:
        super().__init__(run.limits.max_concurrent_calls, tasks)
        self._run, self._gate, self._looks = run, run.gate, looks
        self._inputs = json.loads(run.inputs)
        self._over = False
        self._wasted = 0
        self._held = 0
        self._begun: dict[OneCall, anyio.Event] = {}
        """Every call that has begun; its event is set when it has ended."""
        self._counted = 0
        """Records that were there when the program was finished."""
        self._taken: set[OneCall] = set()
        """Calls that the finished program has made."""
        self._news = anyio.Event()
        self._start_over()
        tasks.start_soon(self._read_on)

    def _start_over(self) -> None:
        self._text: list[str] = []
        self._size = 0
        self._arriving = ArrivingProgram(self._run.offer.graph_tools, self._run.names)
        self._read = ""
        """The text that the calls were found in."""
        self._forget_calls()

    def _forget_calls(self) -> None:
        self._ahead: Ahead | None = None
        self._will_look = False
        self._by_place: dict[Place, OneCall] = {}
        self._waits = 0
        """Number of these calls that have not begun."""

    # the text

    def receive(self, text: str) -> None:
        """Take the next piece of the program. Does not wait."""
        if self._over:
            return
        self._text.append(text)
        self._size += len(text)
        if self._size > self._run.limits.max_source_bytes:
            self._end()
        elif "\n" in text and not self._arriving.over:
            self._news.set()

    def restart(self) -> None:
        """The program is written from its beginning again."""
        self._discard()
        self._start_over()

    def finish(self, code: str) -> list[OneCall]:
        """Begin nothing more, since the program is finished. Returns the calls that it may take."""
        self._end()
        self.clear()
        if not code.removeprefix("\ufeff").startswith(self._read):
            self._discard()
        self._counted = len(self._gate.records)
        self._gate.leave_out(self._counted)
        return [call for call in self._begun if not self._is_lost(call)]

    @property
    def lost(self) -> list[OneCall]:
        """Calls that have begun and that no program may take."""
        return list(filter(self._is_lost, self._begun))

    def _is_lost(self, call: OneCall) -> bool:
        return self._by_place.get(call.place) is not call

    def _end(self) -> None:
        self._over, self._ahead = True, None
        self._news.set()

    def _discard(self) -> None:
        self.clear()
        self._wasted += len(self._by_place)
        for call in self._by_place.values():
            self.cancel(id(call))
        self._forget_calls()
        if self._wasted >= _MOST_WASTED:
            self._end()

    async def _read_on(self) -> None:
        """Read what has been written, and look for calls in it, as often as there is more."""
        while not self._over:
            await self._news.wait()
            self._news = anyio.Event()
            arriving, text = self._arriving, "".join(self._text).removeprefix("\ufeff")
            self._text = [text]
            try:
                flow = await self._looks.look(text, partial(arriving.read, text))
                if flow is not None and arriving is self._arriving and not self._over:
                    self._follow(GraphProgram(text, flow, looks_ahead=True), text)
            except Exception:
                logger.exception("looking at an unfinished program failed; it runs when it is finished")
                self._end()

    def _follow(self, program: GraphProgram, text: str) -> None:
        if not all(call.stands_in(program.flow) for call in self._by_place.values()):
            self._discard()  # a function is not called where its text was read
            if self._over:
                return
        if self._ahead is None:
            self._ahead = Ahead(program, self._inputs, self._gate, self._by_place)
        else:
            self._ahead.follow(program)
        self._read = text
        self._look()

    def _look(self) -> None:
        """Request the calls that can begin now; plan a later look where it is too soon, or where a look is paused."""
        ahead = self._ahead
        if ahead is None or self._over:
            return
        for call in ahead.begin(self._waits):
            call.elsewhere = self
            self._by_place[call.place] = call
            self._waits += 1
            self.submit(id(call), call)
        if ahead.stopped:
            self._end()
            return
        seconds = 0.0 if ahead.paused else ahead.rests
        if seconds is not None and not self._will_look:
            self._will_look = True
            self.later(seconds, partial(self._look_later, ahead))

    async def _look_later(self, ahead: Ahead) -> None:
        if ahead is self._ahead:
            self._will_look = False
            self._look()

    # the calls

    async def _serve(self, call: OneCall) -> None:
        if self._over or self._by_place.get(call.place) is not call:
            return
        self._waits -= 1
        gate, ended = self._gate, anyio.Event()
        ahead = self._ahead
        call.record, call.under_way = len(gate.records), True
        self._begun[call] = ended
        if gate.watches is not None:
            place.set(EARLY)
        try:
            call.text = await gate.call(call.site.tool, call.arguments, line=call.site.line, early=True)
        except ToolError as error:
            call.error = error
        except LimitReached:  # the finished program finds out for itself
            self._end()
            if call.record >= len(gate.records):  # there was no room for the call itself
                del self._begun[call], self._by_place[call.place]
        finally:
            call.under_way = False
            ended.set()
        if call.text is not None:
            self._held += sys.getsizeof(call.text)
            if len(call.text) > LARGE_RESULT or self._held * READ_AGAIN > self._run.limits.memory_bytes // 2:
                self._end()
        if ahead is not None and ahead is self._ahead:  # else the call was discarded
            ahead.ended(call)
            self._look()

    async def outcome(self, call: OneCall) -> str | None:
        """See `Elsewhere`."""
        await self._begun[call].wait()
        if call.error is not None:
            raise copied(call.error)
        return call.text

    def take(self, call: OneCall) -> None:
        """See `Elsewhere`."""
        if call in self._taken:
            return
        self._taken.add(call)
        made = sum(record.id <= self._counted for record in self._gate.chain(call.record))
        self._gate.leave_out(-made)

    def cancel_call(self, call: OneCall) -> None:
        """See `Elsewhere`."""
        self.cancel(id(call))

    async def close(self) -> None:
        """Cancel the calls that are still under way, and wait for their end."""
        self._end()
        for call, ended in self._begun.items():
            if not ended.is_set():
                self.cancel(id(call))
        for ended in self._begun.values():
            await ended.wait()
