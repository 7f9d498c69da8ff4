"""Runs workloads through contestants, in rounds and in turn. Knows neither HTTP nor any contestant.

Each contestant first does a workload once without any wait: that warms it up, and shows whether its answer is right.
Then all take turns, round by round, so that what disturbs one disturbs its neighbours; the
yardstick is done between rounds. A contestant that errs, hangs or dies is out of that workload, and back in the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields

import anyio.to_thread

from callgate.cut import cut
from callgate_bench import machine
from callgate_bench.contest.process import PeerFailed
from callgate_bench.contest.seats import Seat
from callgate_bench.contestants.contestant import CannotDo, Opened
from callgate_bench.model.conversation import Talk, round_of
from callgate_bench.results import Cell, Outcome, Results, Round, Task
from callgate_bench.workloads.workload import Workload

__all__ = ["Pace", "compare"]

_LONGEST = 600
"""Characters of an answer, a reason, a note."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pace:
    """How often workloads are run.

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
    on_progress: Callable[[str], None],
    saved: Callable[[], None],
) -> None:
    """Fill in `results.tasks` and `results.cells`, as they come.

    Args:
        results: what is measured is in it at once, so that an interruption loses nothing.
        workloads: in this order.
        seats: who takes part; those that failed already get no cells.
        talk: the conversation with the model.
        pace: how often.
        on_progress: called with what is being done.
        saved: called after each workload.
    """
    for workload in workloads:
        results.tasks.append(Task(**{each.name: getattr(workload, each.name) for each in fields(Task)}))
        taking = [_Try(workload, seat, talk, pace) for seat in seats if not seat.failure]
        results.cells += [each.cell for each in taking]
        for each in taking:
            on_progress(f"{workload.name}: {each.seat.listed.name}")
            await each.rehearse()
        for number in range(pace.rounds):
            going = [each for each in taking if each.goes_on]
            if not going:
                break
            for each in going:
                on_progress(f"{workload.name}: {each.seat.listed.name}, round {number + 1} of {pace.rounds}")
                await each.once_more()
            await anyio.to_thread.run_sync(machine.note, results.yardstick.seconds)
        saved()


class _Try:
    """A workload and a contestant during the measurement."""

    def __init__(self, workload: Workload, seat: Seat, talk: Talk, pace: Pace) -> None:
        self.seat = seat
        self.cell = Cell(workload=workload.name, contestant=seat.listed.name, outcome="not measured")
        self._workload, self._talk, self._pace = workload, talk, pace
        self._opened: Opened
        self._spent = 0.0

    @property
    def goes_on(self) -> bool:
        """Whether another round follows."""
        rounds = len(self.cell.rounds)
        in_time = not rounds or self._spent * (rounds + 1) / rounds <= self._pace.cell_seconds
        return self.cell.outcome in ("right", "not measured") and in_time

    async def rehearse(self) -> None:
        """Prepare the contestant, and run the workload once without waits."""
        mode, scripted = self.seat.listed.mode, self._pace.scripted
        no_plan = mode == "plan" and self._workload.plans is None
        if no_plan or (mode == "direct" and self._workload.calls is None and scripted):  # a real model may try
            self.cell.tried = False
            self._out("cannot", self._workload.why_no_plan if no_plan else self._workload.why_no_calls)
            return
        paced = 0.0 if scripted else self._pace.paced
        with self._failing():
            self._opened = await self.seat.open(self._workload.name, paced, scripted=scripted)
            self.cell.note = cut(self._opened.note, _LONGEST)
            if scripted:
                await self._round(waits=False)
                await self.seat.ask("pace", paced=self._pace.paced)

    async def once_more(self) -> None:
        """Run one round."""
        with self._failing():
            done = await self._round(waits=True)
            if done is not None:
                self._spent += done.wall_seconds
                self.cell.rounds.append(done)
                self.cell.outcome = "right"

    async def _round(self, *, waits: bool) -> Round | None:
        await self.seat.ask("begin")
        talked = await self._talk(self._workload, self._opened, self.seat.act, self.seat.hear, waits=waits)
        self.cell.answer = cut(talked.answer, _LONGEST)
        if talked.ended != "right":
            self._out(talked.ended, talked.reason)
            return None
        wrong = self._workload.wrong(talked.answer)
        if wrong:
            self._out("wrong", wrong)
            return None
        return round_of(talked)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Record an exception of the contestant as the cell's outcome."""
        try:
            yield
        except CannotDo as reason:
            self._out("cannot", str(reason))
        except PeerFailed as reason:
            self._out("failed", str(reason))

    def _out(self, outcome: Outcome, reason: str) -> None:
        self.cell.outcome, self.cell.reason = outcome, cut(reason, _LONGEST)
