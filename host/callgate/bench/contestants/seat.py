"""What a contestant is asked, and how it counts: the same for callgate and for every peer. The standard library alone.

The harness talks to the model, and hands what the model calls to the contestant, which does it in its own process. The
seconds of a turn are measured here, within that process, so what the harness's own wire takes is in nobody's figures.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from callgate.bench.workloads.pacing import pace
from callgate.bench.workloads.workload import Function

__all__ = ["CannotDo", "Contestant", "Interval", "Meter", "Opened", "Steered", "Turn", "answered", "cannot_or"]

_Action = Callable[..., Awaitable[dict[str, Any]]]

Interval = tuple[float, float]
"""Begin and end of a tool call, by `time.perf_counter`."""


class CannotDo(Exception):
    """The contestant has no way to do this workload; the text says why, for its row."""


@dataclass(kw_only=True)
class Opened:
    """What a contestant shows the model for a workload.

    Attributes:
        tools: definitions: name, description, input_schema.
        system: its own instructions for the model; empty where it has none.
        form: what the model gives: calls, one or several at a time; a plan; a program.
        tool: the name of the tool that takes the plan or the program.
        argument: the name of its argument.
        dialect: how programs are written for it; a name of `workloads.dialects`.
        own_words: False where the peer has no texts for models, and these are callgate's.
        first: turns that the scripted model makes before its first plan or program, where the peer's way needs them:
            the calls of each (``{"tool", "arguments"}``), such as a search for tools.
        note: for the row.
    """

    tools: list[dict[str, Any]]
    form: str
    system: str = ""
    tool: str = ""
    argument: str = ""
    dialect: str = "callgate"
    own_words: bool = True
    first: list[list[dict[str, Any]]] = field(default_factory=list)
    note: str = ""


@dataclass(kw_only=True)
class Turn:
    """What came of a turn's calls.

    Attributes:
        texts: for the model, in the order of the calls.
        seconds: from the first call's begin to the last one's end.
        final: the last words to the user, where the peer lets a program say them itself, so that the model is not asked
            once more; else empty.
        intervals: of the workload's tool calls within it.
        guest_bytes: the most memory that a guest outside this process's children took, such as a container;
            0 where there is none.
    """

    texts: list[str]
    seconds: float
    final: str = ""
    intervals: list[Interval] = field(default_factory=list)
    guest_bytes: int = 0


class Contestant(Protocol):
    """The functions that the harness may ask for, by way of `serving`; they return JSON objects.

    Where it cannot do a workload at all, `open` or `turn` answers ``{"cannot": reason}`` (see `cannot_or`).
    """

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """Make ready for a workload, and leave the one before; returns an `Opened`.

        Args:
            workload: a name of `workloads.WORKLOADS`.
            paced: what the simulated waits of its tools are multiplied by (`workloads.pace`).
            scripted: whether a script plays the model. What a script wrote and the contestant does not support,
                it `cannot` do; a real model is told so instead, and may write something else.
        """

    async def pace(self, paced: float) -> dict[str, Any]:
        """From now on, this is what the waits are multiplied by. See `Steered`; may be missing."""

    async def begin(self) -> dict[str, Any]:
        """A new conversation begins: forget what the one before has left. Not timed; may be missing."""

    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Do what the model calls (``{"tool", "arguments"}`` each) at the same time; returns a `Turn`."""

    async def weigh(self) -> dict[str, Any]:
        """``{"guest_bytes": ...}``: memory of guests that stand ready outside this process's children, and the like.

        Asked after the round in which memory is watched, and added to what a turn's own guest took. May be missing, and
        may give a ``note`` for the row.
        """

    async def version(self) -> dict[str, Any]:
        """``{"version": ...}`` of the package that does the work."""


class Steered:
    """What the harness sets, for a contestant to derive from.

    Attributes:
        scripted: as `Contestant.open` was told.
    """

    scripted = True

    def steer(self, paced: float, scripted: bool) -> None:
        """Heed what `Contestant.open` was told."""
        pace(paced)
        self.scripted = scripted

    async def pace(self, paced: float) -> dict[str, Any]:
        """Change the pace of the tools; what is open stays so."""
        pace(paced)
        return {}


class Meter:
    """Notes when tools were at work."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []

    def metered(self, function: Function) -> Function:
        """The same tool, its calls noted. Its name, annotations and docstring stay."""

        @functools.wraps(function)
        async def called(*args: Any, **kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return await function(*args, **kwargs)
            finally:
                self.intervals.append((started, time.perf_counter()))

        return called

    def taken(self) -> list[Interval]:
        """Those since this was asked last."""
        intervals, self.intervals = self.intervals, []
        return intervals


def cannot_or(action: _Action) -> _Action:
    """A function that answers ``{"cannot": reason}`` where it raises `CannotDo`."""

    @functools.wraps(action)
    async def done(*args: Any, **kwargs: Any) -> dict[str, Any]:
        try:
            return await action(*args, **kwargs)
        except CannotDo as reason:
            return {"cannot": str(reason)[:500]}

    return done


def answered(result: Opened | Turn) -> dict[str, Any]:
    """As JSON values."""
    return asdict(result)
