"""What every contestant does alike: the base class, and what it shows and answers. The standard library alone.

The harness talks to the model, and hands what the model calls to the contestant, which does it in its own process. A
turn's seconds are measured here, within that process, so the harness's own wire is in nobody's figures.
"""

from __future__ import annotations

import asyncio
import functools
import math
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from callgate_bench.workloads import WORKLOADS, pace
from callgate_bench.workloads.workload import Call, Function, Workload

__all__ = ["CannotDo", "Contestant", "Opened", "Turn", "monty_refusal", "pydantic_ai_refusal", "smolagents_refusal"]


class CannotDo(Exception):
    """The contestant has no way to do this workload; the text says why, for its row."""


@dataclass(kw_only=True)
class Opened:
    """What a contestant shows the model for a workload.

    Attributes:
        form: what the model gives: ``direct``, ``direct-parallel``, ``plan`` or ``program``.
        tools: definitions: name, description, input_schema; empty for callgate's.
        system: its own instructions for the model; empty where it has none.
        tool: the name of the tool that takes the plan or the program.
        argument: the name of its argument.
        dialect: how programs are written for it; a name of `workloads.dialects`.
        answers: whether a plan may end the task with an answer of its own.
        streams: whether it wants to `hear` what the model writes, while it is written.
        own_words: False where the peer has no texts for models, and these are callgate's.
        first: the calls of turns that the scripted model makes before its first program, such as a search for tools.
        note: for the row.
    """

    form: str = "program"
    tools: list[dict[str, Any]] = field(default_factory=list)
    system: str = ""
    tool: str = "execute_code"
    argument: str = "code"
    dialect: str = "callgate"
    answers: bool = False
    streams: bool = False
    own_words: bool = True
    first: list[list[Call]] = field(default_factory=list)
    note: str = ""


@dataclass(kw_only=True)
class Turn:
    """What a contestant answers to the calls of one turn of the model.

    Attributes:
        texts: for the model, in the order of the calls.
        seconds: from the first call's begin to the last one's end.
        final: the last words to the user, where the program said them itself and the model is not asked again.
        tool_seconds: in which one of the workload's tools at least was at work, while the model did not write.
        calls: of the workload's tools that began in the turn, or while the model wrote it.
        concurrency: the most of them at work at the same time.
    """

    texts: list[str]
    seconds: float = 0.0
    final: str = ""
    tool_seconds: float = 0.0
    calls: int = 0
    concurrency: int = 0

    def __post_init__(self) -> None:
        if not (0 <= self.seconds < math.inf and 0 <= self.tool_seconds < math.inf):
            raise ValueError("seconds that are none")


class ToolClock:
    """Measures how long tools were at work in one turn, and how many at the same time.

    Attributes:
        seconds: in which one at least was at work.
        calls: that began.
        concurrency: the most at the same time.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = self.concurrency = self._going = 0
        self._since = 0.0

    def change(self, now: float, by: int = 0) -> None:
        """One more (1) or one less (-1) is at work from now on."""
        if self._going:
            self.seconds += now - self._since
        self._since = now
        self._going += by
        self.calls += max(0, by)
        self.concurrency = max(self.concurrency, self._going)


class Contestant:
    """The base class. The harness asks for its public coroutine functions by way of `serving`.

    A subclass says in `show` what the model sees, and does calls in `run`, or all calls of a turn in `act`. Either may
    raise `CannotDo`, which is answered as ``{"cannot": reason}``.

    Attributes:
        packages: the peer's package first; the results name the versions of all.
        scripted: a script plays the model. What the script wrote and the contestant does not support, it cannot do; a
            real model receives an error instead, and may write something else.
        workload: the one that is open.
        tools: the workload's tools; their calls are timed.
    """

    packages: Sequence[str] = ()
    scripted = True
    workload: Workload

    def __init__(self) -> None:
        self.tools: list[Function] = []
        self._clock = ToolClock()
        self._stack = AsyncExitStack()

    async def show(self) -> Opened:
        """Make ready for the workload that was opened. What is entered into `_stack` is left with it."""
        raise NotImplementedError

    async def run(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Do one call of the model; returns the text for the model."""
        raise NotImplementedError

    async def act(self, calls: Sequence[Mapping[str, Any]]) -> Turn:
        """Do the calls of a turn, at the same time."""
        return Turn(texts=await asyncio.gather(*(self.run(each["tool"], each["arguments"]) for each in calls)))

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """Leave the workload before, and make ready for this one; returns an `Opened`.

        Args:
            workload: a name of `workloads.WORKLOADS`.
            paced: what the simulated waits of its tools are multiplied by.
            scripted: whether a script plays the model.
        """
        await self.aclose()
        pace(paced)
        self.scripted, self.workload = scripted, WORKLOADS[workload]
        self.tools = [self._timed(each) for each in self.workload.tools]
        try:
            return asdict(await self.show())
        except CannotDo as reason:
            return {"cannot": str(reason)[:500]}

    async def pace(self, paced: float) -> dict[str, Any]:
        """Change what the waits of tools are multiplied by; what is open stays so."""
        pace(paced)
        return {}

    async def begin(self) -> dict[str, Any]:
        """A new conversation begins: forget what the one before has left. Not timed."""
        return {}

    async def hear(self, piece: str) -> dict[str, Any]:
        """Take a piece of the arguments of the first call that the model is writing; see `Opened.streams`."""
        return {}

    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Do what the model calls (``{"tool", "arguments"}`` each); returns a `Turn`."""
        clock = self._clock
        started = time.perf_counter()
        clock.change(started)
        earlier = clock.seconds
        try:
            turn = await self.act(calls)
        except CannotDo as reason:
            return {"cannot": str(reason)[:500]}
        finally:
            self._clock = ToolClock()
        clock.change(ended := time.perf_counter())
        turn.seconds = ended - started
        turn.tool_seconds, turn.calls, turn.concurrency = clock.seconds - earlier, clock.calls, clock.concurrency
        return asdict(turn)

    async def version(self) -> dict[str, Any]:
        """``{"version": ...}`` of the packages that do the work."""
        first, *others = self.packages
        return {"version": ", ".join([version(first), *(f"{each} {version(each)}" for each in others)])}

    async def aclose(self) -> dict[str, Any]:
        """Leave the workload that is open."""
        await self._stack.aclose()
        return {}

    def _timed(self, function: Function) -> Function:
        """The same tool, its calls noted. Its name, annotations and docstring stay."""

        @functools.wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            clock = self._clock  # one that outlives its turn does not count in the next
            clock.change(time.perf_counter(), 1)
            try:
                return await function(*args, **kwargs)
            finally:
                clock.change(time.perf_counter(), -1)

        return called


_MONTY = re.compile(r"(?:.*: )?((?:NotImplementedError|ModuleNotFoundError|SyntaxError): .*)")
_TYPES = re.compile(r"Type error in code:\s+error\[unresolved-import\]: (.*)")
_SMOLAGENTS = re.compile(
    r"InterpreterError: ((?:Import (?:of|from) \S+ is not allowed|\w+ is not supported|Unsupported )[^\n]*)"
)


def monty_refusal(text: str) -> str:
    """Monty's words, from the text of an error; empty where it is another error.

    Args:
        text: a traceback, or its last line. Nothing else: what a program gave may hold such words as data.
    """
    last = text.strip().rsplit("\n", 1)[-1]
    found = _MONTY.match(last)
    return found[1] if found else ""


def pydantic_ai_refusal(text: str) -> str:
    """Monty's words, or those of the check of types about an import; empty where it is another error."""
    found = _TYPES.match(text)
    return found[1] if found else monty_refusal(text)


def smolagents_refusal(text: str) -> str:
    """smolagents' words, from the text of an error; empty where it is another error."""
    found = _SMOLAGENTS.search(text)
    return found[1] if found else ""
