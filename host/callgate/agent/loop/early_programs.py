"""Programs and plans of a turn that the model still writes: their reads begin meanwhile. The calls of the whole turn
decide.

The arguments of an ``execute_code`` call arrive in pieces. The text of the program is taken out of this partial JSON
line by line, and goes to a `Writing` of the conversation; the JSON of a plan, to a `PlanWriting`. When the turn is
whole, its call finishes that program or plan; one whose call is not made is ended with the turn. Events wait for the
call to begin.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextvars import copy_context
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import anyio
import anyio.abc

from callgate.agent.models.model import Delta
from callgate.runtime import CodeResult, Conversation, Event
from callgate.runtime.gate.watching import Origin, origin
from callgate.runtime.streaming import own_tasks
from callgate.runtime.writing import Writing

if TYPE_CHECKING:
    from callgate.runtime.plans.writing import PlanWriting

__all__ = ["EarlyProgram", "EarlyPrograms", "early_programs"]

_CODE: Final = "execute_code"
_BEGIN_EARLY: Final = frozenset({_CODE, "execute_tool_plan"})
"""Meta-tools whose programs and plans begin while they are written."""
_MOST: Final = 4
"""Programs and plans of a turn that begin early."""
_MOST_CHARACTERS: Final = 64 * 1024
"""Characters of a program's arguments, escapes included. Of longer ones the rest waits until they are whole."""
_HEAD: Final = re.compile(r'\s*\{\s*"code"\s*:\s*"')
"""The JSON before the text of a program. Where another argument comes first, nothing begins early."""
_LONGEST_HEAD: Final = 1024
"""Characters in which the text must have begun."""
_WRITTEN: Final = re.compile(
    r"""(?:[^"\\\x00-\x1f]+|\\["\\/bfnrt]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\u[dD][89abAB]..\\u[dD][c-fC-F]..)*+""",
    re.DOTALL,
)
"""Characters and whole escapes of a JSON string; two escapes are one where they are surrogates."""
_LONGEST: Final = 12
"""Characters of the longest of them."""


class ArrivingCode:
    """The text of a program, out of the JSON of arguments that are still arriving. Reads each character once."""

    def __init__(self) -> None:
        self._has_begun = self._is_over = False
        self._rest = ""
        """Read, and not understood yet: the head, or an escape that is not whole."""
        self._line: list[str] = []
        self._size = 0

    def take(self, piece: str) -> str:
        """Take a piece of the JSON. Returns what it adds to the text, as soon as a line has ended."""
        self._size += len(piece)
        if self._is_over or self._size > _MOST_CHARACTERS:
            self._is_over, self._rest = True, ""
            return ""
        rest = self._rest + piece
        if not self._has_begun:
            head = _HEAD.match(rest)
            if head is None:
                self._rest, self._is_over = rest, len(rest) > _LONGEST_HEAD
                return ""
            self._has_begun, rest = True, rest[head.end() :]
        written = _WRITTEN.match(rest)
        assert written is not None
        self._rest = rest[written.end() :]
        self._is_over = self._rest.startswith('"') or len(self._rest) >= _LONGEST
        try:
            text = json.loads(f'"{written[0]}"')
        except ValueError:
            self._is_over, text = True, ""
        self._line.append(text)
        if "\n" not in text:
            return ""
        *lines, line = "".join(self._line).rpartition("\n")
        self._line = [line]
        return "".join(lines)


class EarlyProgram:
    """One program or plan of the turn.

    Args:
        name: the meta-tool that it is an argument of.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._text: list[str] = []
        self._read = self._reader()
        self._writing: Writing | PlanWriting | None = None
        self._begins = False
        """Whether `live` has begun: then its call waits for `_begun`."""
        self._begun, self._over, self._gone = anyio.Event(), anyio.Event(), anyio.Event()
        """The program takes text; its call has ended; nothing of it runs any more."""
        self._origin: Origin | None = None
        """Of the call, when it has begun."""
        self._kept = anyio.CancelScope()
        """Of the wait for the end of the call."""
        self._events: list[Event] = []
        self._on_event: Callable[[Event], None] = self._events.append

    def take(self, piece: str) -> None:
        """Take a piece of the arguments."""
        text = self._read(piece)
        if text and self._writing is not None:
            self._writing.receive(text)
        elif text:
            self._text.append(text)

    def _reader(self) -> Callable[[str], str]:
        return ArrivingCode().take if self.name == _CODE else str  # a plan's text is the JSON itself

    def restart(self) -> None:
        """The arguments are written from their beginning again, or not at all."""
        self._read = self._reader()
        self._text.clear()
        if self._writing is not None:
            self._writing.restart()

    @contextlib.asynccontextmanager
    async def made(self, on_event: Callable[[Event], None]) -> AsyncIterator[Writing | PlanWriting | None]:
        """The program for its call, which finishes it within the block; None if it has not begun.

        Args:
            on_event: receives the program's events, those from before included.
        """
        if not self._begins:
            self._over.set()  # it need not begin any more
            yield None
            return
        self._origin = origin.get()
        self._kept.shield = True  # what cancels this task cancels the call, and the call ends the program
        try:
            await self._begun.wait()
            for event in self._events:
                on_event(event)
            self._on_event = on_event
            yield self._writing
        finally:
            self._over.set()
            with anyio.CancelScope(shield=True):
                await self._gone.wait()

    async def live(self, conversation: Conversation, turn: int, after: Sequence[CodeResult]) -> None:
        """Keep the program until its call has ended."""
        if self._over.is_set():
            return
        self._begins = True
        origin.set(replace(origin.get() or Origin(), turn=turn))  # this task's own
        try:
            async with conversation._writing(self.name, lambda event: self._on_event(event), after) as writing:
                self._writing = writing
                self._begun.set()
                for text in self._text:
                    writing.receive(text)
                try:
                    with self._kept:
                        await self._over.wait()
                finally:
                    origin.set(self._origin or origin.get())
        finally:
            self._writing = None
            self._begun.set()
            self._gone.set()


class EarlyPrograms:
    """The programs and plans of one turn.

    Args:
        tasks: of the turn.
        conversation: has the tools.
        turn: its number.
        offered: the meta-tools whose programs and plans begin early.
        at_once: number of calls that the turn makes at the same time. A later call waits for one of them, which may
            have effects.
        after: failed programs of earlier turns: see `Repairs`.
    """

    def __init__(
        self,
        tasks: anyio.abc.TaskGroup,
        conversation: Conversation,
        turn: int,
        offered: Collection[str],
        at_once: int,
        after: Sequence[CodeResult],
    ) -> None:
        self._after = after
        self._tasks = tasks
        self._context = copy_context()
        """Of the turn: a program that begins while the model writes is not a part of the request."""
        self._turn = turn
        self._offered = offered
        self._at_once = at_once
        self._conversation = conversation
        self._programs: dict[int, EarlyProgram] = {}
        self._named: dict[int, str] = {}
        """The tools of the reply, by the positions of their calls."""

    def take(self, delta: Delta) -> None:
        """Take a piece of the reply. Does not wait."""
        if delta.restarted:
            self._named.clear()
            for each in self._programs.values():
                each.restart()
        if delta.call is None:
            return
        if delta.name:
            self._named[delta.call] = self._named.get(delta.call, "") + delta.name
        name = self._named.get(delta.call, "")
        if name not in self._offered:
            return
        if delta.call not in self._programs:
            if len(self._programs) == _MOST or delta.call >= self._at_once:
                return
            begun = self._programs[delta.call] = EarlyProgram(name)
            self._context.copy().run(self._tasks.start_soon, begun.live, self._conversation, self._turn, self._after)
        if (program := self.of(delta.call)) is not None:
            program.take(delta.arguments)

    def beside(self, listener: Callable[[Delta], None] | None) -> Callable[[Delta], None]:
        """A listener to a reply, for these programs and for another listener."""

        def report(delta: Delta) -> None:
            if listener is not None:
                listener(delta)
            self.take(delta)

        return report

    def of(self, position: int) -> EarlyProgram | None:
        """The program or plan of the call at that position of the turn; None also where, after a restart, another call
        stands in its place."""
        program = self._programs.get(position)
        return None if program is None or program.name != self._named.get(position) else program


@contextlib.asynccontextmanager
async def early_programs(
    conversation: Conversation,
    turn: int,
    offered: Collection[str],
    at_once: int = _MOST,
    after: Sequence[CodeResult] = (),
) -> AsyncIterator[EarlyPrograms | None]:
    """Begin the programs and plans of a turn while the model writes it. What is not finished within the block is ended.

    Args:
        conversation: of the task.
        turn: its number.
        offered: the tools that the model may call.
        at_once: see `EarlyPrograms`, like `after`.
    """
    early = {name for name in _BEGIN_EARLY.intersection(offered) if conversation._begins_early(name)}
    if not early:
        yield None
        return
    async with own_tasks() as tasks:
        yield EarlyPrograms(tasks, conversation, turn, early, at_once, after)
