"""The harness's side of a contestant: its process, begun again where it died, and what its row says of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from callgate.bench.contestants.listed import Listed
from callgate.bench.contestants.seat import CannotDo, Opened, Turn
from callgate.bench.peers.process import PeerFailed, PeerProcess, plain
from callgate.bench.results import Entry
from callgate.bench.workloads.workload import Call

__all__ = ["Seat"]

_LONGEST = 500
"""Characters of what a contestant says of itself."""


class Seat:
    """One contestant for the whole run.

    Args:
        listed: who it is.
        python: the interpreter of its environment.
        ours: one of callgate's modes.
        answer_seconds: how long a turn may take; then it is given up, and its process is ended.
        failure: why it takes no part; empty where it does.
    """

    def __init__(self, listed: Listed, python: str, *, ours: bool, answer_seconds: float, failure: str = "") -> None:
        self.listed = listed
        self.failure = failure or listed.cannot
        self.version = ""
        self.sandbox = ""
        self._own_words = True
        self._python = python
        self._ours = ours
        self._answer_seconds = answer_seconds
        self._process: PeerProcess | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.__aexit__(None, None, None)

    @property
    def pid(self) -> int | None:
        """Of its process."""
        return None if self._process is None else self._process.pid

    async def open(self, workload: str, paced: float = 1.0, *, scripted: bool = True) -> Opened:
        """Make it ready for a workload; a process that has died is begun again.

        Args:
            workload: its name.
            paced: what the simulated waits of tools are multiplied by.
            scripted: whether a script plays the model.

        Raises:
            CannotDo: it has no way to do this workload.
            PeerFailed: it failed.
        """
        if self._process is not None and (self._process.failure or self._process.ended):
            await self._leave()
        if self._process is None:
            module = self.listed.module
            self._process = await PeerProcess(
                self.listed.title,
                module if "." in module else f"callgate.bench.contestants.{module}",
                answer_seconds=self._answer_seconds,
                python=self._python,
                arguments=self.listed.arguments,
            ).__aenter__()
        asked = await self._process.ask("open", workload=workload, paced=paced, scripted=scripted)
        opened = _opened(_able(asked))
        self._own_words = opened.own_words
        if not self.version:
            told = await self._process.ask("version")
            self.version = plain(str(told.get("version", "")), _LONGEST)
            self.sandbox = plain(str(told.get("sandbox", "")), _LONGEST)
        return opened

    async def pace(self, paced: float) -> None:
        """Change what the waits of tools are multiplied by; what is open stays so. Raises `PeerFailed`."""
        if self._process is not None:
            await self._process.ask("pace", paced=paced)

    async def weigh(self) -> tuple[int, str]:
        """Bytes of guests that stand ready elsewhere than below its process, and what is to be said of them.

        Raises `PeerFailed`.
        """
        told = {} if self._process is None else await self._process.ask("weigh")
        taken = told.get("guest_bytes", 0)
        if not isinstance(taken, int):
            raise PeerFailed(f"what its guests weigh is no number: {taken!r}"[:_LONGEST])
        return taken, str(told.get("note", ""))[:_LONGEST]

    async def begin(self) -> None:
        """A conversation begins. Raises `PeerFailed`."""
        if self._process is not None:
            await self._process.ask("begin")

    async def act(self, calls: Sequence[Call]) -> Turn:
        """Have it do what the model called. Raises as `open` does."""
        if self._process is None:
            raise PeerFailed("it was not opened")
        asked = [{"tool": each.tool, "arguments": dict(each.arguments)} for each in calls]
        return _turn(_able(await self._process.ask("turn", calls=asked)))

    def entry(self) -> Entry:
        """What the results say of it."""
        return Entry(
            name=self.listed.name, title=self.listed.title, mode=self.listed.mode, ours=self._ours,
            about=self.listed.about, version=self.version, failure=self.failure, confined=self.listed.confined,
            own_words=self._own_words,
        )  # fmt: skip


def _able(answer: dict[str, Any]) -> dict[str, Any]:
    if "cannot" in answer:
        raise CannotDo(plain(str(answer["cannot"]), _LONGEST))
    return answer


def _opened(answer: dict[str, Any]) -> Opened:
    """Raises `PeerFailed` where it is none: what it shows goes to the model as it is."""
    try:
        opened = Opened(**answer)
        for tool in opened.tools:
            _must_be(str, tool["name"], tool.get("description", ""))
            _must_be(dict, tool["input_schema"])
        _must_be(str, opened.form, opened.system, opened.tool, opened.argument, opened.dialect, opened.note)
        _must_be(bool, opened.own_words)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise PeerFailed(f"what it opened with is nothing for a model: {error!r}"[:_LONGEST]) from None
    return opened


def _turn(answer: dict[str, Any]) -> Turn:
    """Raises `PeerFailed` where it is none: all of it is counted or goes to the model."""
    try:
        turn = Turn(**{**answer, "intervals": [(float(begin), float(end)) for begin, end in answer["intervals"]]})
        _must_be(list, turn.texts)
        _must_be(str, turn.final, *turn.texts)
        _must_be(int, turn.guest_bytes)
        turn.seconds = float(turn.seconds)
        if not all(map(math.isfinite, (turn.seconds, *itertools.chain(*turn.intervals)))) or turn.seconds < 0:
            raise ValueError("seconds that are none")
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise PeerFailed(f"what it answered is no result of a turn: {error!r}"[:_LONGEST]) from None
    return turn


def _must_be(kind: type, *values: object) -> None:
    for value in values:
        if not isinstance(value, kind):
            raise TypeError(f"{type(value).__name__} instead of {kind.__name__}")
