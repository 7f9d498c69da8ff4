"""The steps of a running plan: which wait for which, how each has ended, and the news of ends. No recursion."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from callgate.tools.turns import Work

from .outcomes import Outcome, StepStatus, skip_reason
from .steps import CompiledStep

__all__ = ["UNKNOWN", "Progress"]

UNKNOWN: Any = None
"""Stands for a step that arrived and cannot be run; it has ended before it began."""
_STEPS_A_TURN = 10_000
_BEGUN = -1
_SPREAD = -2


class Progress:
    """What has ended, and what may begin.

    Attributes:
        steps: all steps, by index.
        outcomes: of the steps.
        unended: how many steps have not ended.
        ready: steps that may begin; some may have ended meanwhile.
        ended: steps whose end is not spread yet.
        news: followers that have to learn of an end, each with the step that ended.
    """

    def __init__(self) -> None:
        self.steps: list[CompiledStep] = []
        self.outcomes: list[Outcome] = []
        self.unended = 0
        self.ready: deque[int] = deque()
        self.ended: deque[int] = deque()
        self.news: deque[tuple[int, int]] = deque()
        self._left: list[int] = []
        """For each step, how many others have to end first; `_BEGUN` once the step has begun, `_SPREAD` once
        its followers at that time are in `news`."""
        self.followers: list[list[int] | None] = []

    def taking(self, steps: Sequence[CompiledStep]) -> Work[None]:
        """Take the steps of a plan before it begins; many steps in turns."""
        for index, step in enumerate(steps):
            self._add(step)
            if index % _STEPS_A_TURN == 0:
                yield
        edges = 0
        for step in steps:
            self._join(step)
            edges += 1 + len(step.needs) + len(step.after)
            if edges > _STEPS_A_TURN:
                edges = 0
                yield

    def arrive(self, step: CompiledStep | None, *, held: bool) -> None:
        """Take a further step of a plan that has begun; None for one that cannot run."""
        self._add(UNKNOWN if step is None else step)
        if step is None:
            self.outcomes[-1].status = "skipped"
            self._left[-1] = _SPREAD
            self.unended -= 1
            return
        self._join(step)
        self._left[step.index] += held
        if not self._left[step.index]:
            self.ready.append(step.index)
        for earlier in (*step.needs, *step.after):
            if self._left[earlier] == _SPREAD:  # otherwise the news will come
                self.tell(step.index, earlier)

    def _add(self, step: CompiledStep) -> None:
        self.steps.append(step)
        self.outcomes.append(Outcome())
        self.unended += 1
        self._left.append(0)
        self.followers.append(None)

    def _join(self, step: CompiledStep) -> None:
        for earlier in (*step.needs, *step.after):
            followers = self.followers[earlier]
            if followers is None:
                self.followers[earlier] = [step.index]
            else:
                followers.append(step.index)
        self._left[step.index] = len(step.needs) + len(step.after)

    def begin(self) -> None:
        """The plan begins: steps that wait for nothing are ready."""
        self.ready.extend(index for index, left in enumerate(self._left) if not left)

    def begin_step(self, index: int) -> CompiledStep | None:
        """A ready step begins; returns None if it has ended meanwhile."""
        if self.outcomes[index].status != "pending":
            return None
        self._left[index] = _BEGUN
        return self.steps[index]

    def end(self, index: int, status: StepStatus) -> None:
        """A step ends."""
        self.outcomes[index].status = status
        self.unended -= 1
        self.ended.append(index)

    def skip(self, index: int, reason: str, cause: int | None) -> None:
        """A step ends before it begins."""
        outcome = self.outcomes[index]
        outcome.error, outcome.cause = reason, cause
        self.end(index, "skipped")

    def skip_the_rest(self, reason: str, cause: int) -> None:
        """Every step that has not begun ends."""
        for index, outcome in enumerate(self.outcomes):
            if outcome.status == "pending" and self._left[index] != _BEGUN:
                self.skip(index, reason, cause)

    def pending(self) -> Iterable[tuple[int, Outcome]]:
        """The steps that have not ended."""
        return ((index, outcome) for index, outcome in enumerate(self.outcomes) if outcome.status == "pending")

    def spread(self, index: int) -> None:
        """Put the followers of a step that has ended into `news`."""
        self._left[index] = _SPREAD
        self.news.extend((follower, index) for follower in self.followers[index] or ())

    def tell(self, follower: int, ended: int) -> None:
        """A follower learns of an end: it is skipped, comes a step closer to its beginning, or is ready."""
        if self.outcomes[follower].status != "pending":
            return
        outcome = self.outcomes[ended]
        if outcome.status != "succeeded" and ended in self.steps[follower].needs:
            self.skip(follower, *self._reason(ended, outcome))
            return
        self._left[follower] -= 1
        if not self._left[follower]:
            self.ready.append(follower)

    def _reason(self, ended: int, outcome: Outcome) -> tuple[str, int | None]:
        if self.steps[ended] is UNKNOWN:
            return "Skipped because it needs a step that is not known", None
        cause = outcome.cause
        root = None if cause is None else (self.steps[cause].id, self.outcomes[cause])
        return skip_reason(self.steps[ended].id, outcome, root), ended if cause is None else cause
