"""Workloads through contestants: who does what, how often, in which order. Knows neither HTTP nor any contestant.

Each contestant first does a workload once without any wait: that warms it up, shows whether its answer is right, and is
when its memory is watched. Then all take turns, round by round, so that what disturbs one disturbs its neighbours; the
yardstick is done between rounds. A contestant that errs, hangs or dies is out of that workload, and back in the next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import anyio
import anyio.to_thread

from callgate.bench import yardstick
from callgate.bench.contest.memory_peak import watched
from callgate.bench.contest.seats import Seat
from callgate.bench.contestants.callgate_words import words
from callgate.bench.contestants.seat import CannotDo, Opened, Turn
from callgate.bench.model.conversation import Ended, Talk, round_of
from callgate.bench.peers.process import PeerFailed
from callgate.bench.results import Cell, Results, Round, Task
from callgate.bench.workloads.workload import Call, Workload

__all__ = ["Pace", "compare"]

_LONGEST = 600
"""Characters of an answer, a reason, a note."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often.

    Attributes:
        rounds: of each cell, at most.
        cell_seconds: no further round of a cell begins that would take it beyond this.
        scripted: the model is a script: there is a first round without waits. A real one wants to be paid.
        paced: what the simulated waits of tools are multiplied by.
    """

    rounds: int
    cell_seconds: float
    scripted: bool = True
    paced: float = 1.0


async def compare(
    results: Results,
    workloads: Sequence[Workload],
    seats: Sequence[Seat],
    talk: Talk,
    pace: Pace,
    told: Callable[[str], None],
    saved: Callable[[], None],
) -> None:
    """Fill in `results.tasks` and `results.cells`, as they come.

    Args:
        results: what is measured is in it at once, so that whoever interrupts loses nothing.
        workloads: in this order.
        seats: who takes part; those that failed already get no cells.
        talk: the conversation with the model.
        pace: how often.
        told: called with what is being done.
        saved: called after each workload.
    """
    for workload in workloads:
        results.tasks.append(
            Task(
                name=workload.name, title=workload.title, about=workload.about, data=workload.data, task=workload.task,
                note=workload.note,
            )
        )  # fmt: skip
        taking = [_Try(workload, seat, talk, pace) for seat in seats if not seat.failure]
        results.cells += [each.cell for each in taking]
        for each in taking:
            told(f"{workload.name}: {each.seat.listed.name}")
            await each.rehearse()
        for number in range(pace.rounds):
            going = [each for each in taking if each.goes_on]
            if not going:
                break
            for each in going:
                told(f"{workload.name}: {each.seat.listed.name}, round {number + 1} of {pace.rounds}")
                await each.once_more()
            await anyio.to_thread.run_sync(yardstick.note, results.yardstick.seconds)
        saved()


class _Try:
    """A workload and a contestant, while it is measured."""

    def __init__(self, workload: Workload, seat: Seat, talk: Talk, pace: Pace) -> None:
        self.seat = seat
        self.cell = Cell(workload=workload.name, contestant=seat.listed.name, outcome="not measured")
        self._workload = workload
        self._talk = talk
        self._pace = pace
        self._opened: Opened | None = None
        self._spent = 0.0

    @property
    def goes_on(self) -> bool:
        """Whether there is to be another round."""
        if self._opened is None or self.cell.outcome not in ("right", "not measured"):
            return False
        rounds = len(self.cell.rounds)
        return not rounds or self._spent * (rounds + 1) / rounds <= self._pace.cell_seconds

    async def rehearse(self) -> None:
        """Make it ready, and have it do the workload without waits."""
        if reason := self._no_way():
            self.cell.tried = False
            self._out("cannot", reason)
            return
        try:
            self._opened = await self._open(0.0 if self._pace.scripted else self._pace.paced)
            if self._pace.scripted:
                await self._watched()
                if self.cell.outcome == "not measured":
                    await self.seat.pace(self._pace.paced)
        except CannotDo as reason:
            self._out("cannot", str(reason))
        except PeerFailed as reason:
            self._out("failed", str(reason))

    def _no_way(self) -> str:
        """Why nobody could do it in this mode; empty where somebody could. A real model may try direct calls."""
        if self.seat.listed.mode == "plan" and self._workload.plans is None:
            return self._workload.why_no_plan
        if self.seat.listed.mode == "direct" and self._workload.calls is None and self._pace.scripted:
            return self._workload.why_no_calls
        return ""

    async def _open(self, paced: float) -> Opened:
        opened = await self.seat.open(self._workload.name, paced, scripted=self._pace.scripted)
        if not opened.tools:
            tools, opened.system = words(self._workload.tools, opened.tool)
            opened.tools = tools
        self.cell.note = opened.note[:_LONGEST]
        return opened

    async def _watched(self) -> None:
        pid = self.seat.pid
        if pid is None:
            return
        guest = 0

        async def act(calls: Sequence[Call]) -> Turn:
            nonlocal guest
            turn = await self.seat.act(calls)
            guest = max(guest, turn.guest_bytes)
            return turn

        with watched(pid) as peak:
            await self._round(act, waits=False)
        self.cell.peak_bytes = peak.bytes + guest if peak.bytes else 0
        if self.cell.peak_bytes and self.cell.outcome == "not measured":
            standing, note = await self.seat.weigh()
            self.cell.peak_bytes += standing
            self.cell.note = "; ".join(filter(None, (self.cell.note, note)))[:_LONGEST]

    async def once_more(self) -> None:
        """Another round."""
        done = await self._round(self.seat.act, waits=True)
        if done is not None:
            self._spent += done.wall_seconds
            self.cell.rounds.append(done)
            self.cell.outcome = "right"

    async def _round(self, act: Callable[[Sequence[Call]], Awaitable[Turn]], *, waits: bool) -> Round | None:
        assert self._opened is not None
        try:
            await self.seat.begin()
            talked = await self._talk(self._workload, self._opened, act, waits=waits)
        except CannotDo as reason:
            self._out("cannot", str(reason))
            return None
        except PeerFailed as reason:
            self._out("failed", str(reason))
            return None
        self.cell.answer = talked.answer[:_LONGEST]
        if talked.ended is not Ended.ANSWERED:
            self._out("cannot" if talked.ended is Ended.TOO_LONG else "failed", talked.reason)
            return None
        wrong = self._workload.wrong(talked.answer)
        if wrong:
            self._out("wrong", wrong)
            return None
        return round_of(talked)

    def _out(self, outcome: str, reason: str) -> None:
        self.cell.outcome = outcome  # type: ignore[assignment]
        self.cell.reason = reason[:_LONGEST]
