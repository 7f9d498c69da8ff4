"""Two selection strategies on the same traffic, compared: an A/B test that is a selector itself.

1. **Arms**: a hash of the experiment's name and the query says which strategy chooses. So the same query always has the
   same arm, in every process and after every restart, and two experiments divide the traffic differently.
2. **Outcomes** come as those of any selection do (`note`): an experiment is a `Memory` that hands everything on to the
   one it was given. An outcome whose plan was another arm's (a cached plan of a similar query) does not count.
3. **A query counts once**, the first time: its repetitions tell nothing new of a strategy, and a test would take them
   for independent.
4. **The end is fixed** before the first trial: `samples` in each arm. Then there is a test, and later trials change
   nothing. See `report`.
5. **Shadow** (`paired`): both strategies choose for every query, the control's choice is used, and it is counted how
   often they agree. What would have come of the other is not known; so either a `judge` says of each choice whether it
   is right, or whoever replays the queries with both notes what came of both (`note_pair`).

Knows trials and selectors; what is done with a choice is the planner's.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import anyio

from callgate.agent.planning.outcome import Advice, Memory, SelectionOutcome
from callgate.agent.planning.tool_plan import DecomposedQuery, Selection, Selector
from callgate.errors import ConfigurationError
from callgate.tools.registry import ToolInfo

from . import tests_of_difference
from .intervals import samples_needed
from .report import Design, Report, report_of
from .trials import MAX_NAME_CHARACTERS, Arm, Trial, Trials, TrialsFile

__all__ = ["Experiment"]

logger = logging.getLogger("callgate")

Judge = Callable[[DecomposedQuery, Selection], bool | None]
"""Whether a choice is right; None where it cannot say."""

MAX_SAMPLES = 10_000
"""In each arm: enough to find a difference of 1.7 points around 80 %."""
SHADOW_SECONDS = 2.0
"""As long as the tool planning engine lets planning take."""


class Experiment:
    """An A/B test of two selectors; a `Selector` and a `Memory`. With a `file`, use it as an async context manager.

    Args:
        name: of the experiment; another name divides the traffic differently.
        control: the strategy there is.
        treatment: the new one.
        split: share of the queries that the treatment gets, above 0 and below 1.
        paired: shadow mode: both choose, the control's choice is used.
        metric: what decides: ``"success"``, or ``"seconds"`` of what succeeded.
        samples: trials in each arm (pairs, where paired) at which it ends; None for as many as find
            `least_difference` 4 times in 5.
        alpha: how often a winner is told where there is no difference.
        expected_rate: success rate of the control, as far as one knows.
        least_difference: of success rates, that is worth finding.
        judge: in shadow mode, says whether a choice is right.
        shadow_seconds: so long the treatment may choose in shadow mode; it is waited for.
        memory: where outcomes go besides, and who gives advice.
        file: an SQLite file that keeps the trials across restarts; that of the statistics will do.

    Raises:
        ConfigurationError: a value is wrong, or scipy is missing.
    """

    def __init__(
        self,
        name: str,
        control: Selector,
        treatment: Selector,
        *,
        split: float = 0.5,
        paired: bool = False,
        metric: Literal["success", "seconds"] = "success",
        samples: int | None = None,
        alpha: float = 0.05,
        expected_rate: float = 0.8,
        least_difference: float = 0.1,
        judge: Judge | None = None,
        shadow_seconds: float = SHADOW_SECONDS,
        memory: Memory | None = None,
        file: str | os.PathLike[str] | None = None,
    ) -> None:
        tests_of_difference.must_be_there()
        if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
            raise ConfigurationError(f"an experiment's name is 1 to {MAX_NAME_CHARACTERS} printable characters")
        for what, value in (("split", split), ("alpha", alpha), ("expected_rate", expected_rate)):
            if not 0 < value < 1:
                raise ConfigurationError(f"{what} must be above 0 and below 1, and is {value}")
        if not least_difference or not 0 < expected_rate + least_difference < 1:
            raise ConfigurationError("expected_rate + least_difference must be another rate, above 0 and below 1")
        if metric not in ("success", "seconds"):
            raise ConfigurationError(f"there is no metric {metric!r}; there are: success, seconds")
        if judge is not None and not paired:
            raise ConfigurationError("a judge needs paired=True: else one strategy chooses, and its outcome counts")
        needed = samples_needed(expected_rate, least_difference, alpha=alpha) if samples is None else samples
        if not 2 <= needed <= MAX_SAMPLES:
            raise ConfigurationError(f"samples must be from 2 to {MAX_SAMPLES:,}, and would be {needed:,}")
        self._design = Design(
            name=name, control=control.name, treatment=treatment.name, split=split, paired=paired, metric=metric,
            samples=needed, alpha=alpha, expected_rate=expected_rate, least_difference=least_difference,
        )  # fmt: skip
        self._selectors: dict[Arm, Selector] = {"control": control, "treatment": treatment}
        self._judge = judge
        self._shadow_seconds = shadow_seconds
        self._memory = memory
        self._trials = Trials(needed)
        self._file = None if file is None else TrialsFile(file, self._trials, name)
        self._crossed = self._alike = self._compared = self._shadow_failures = 0

    async def __aenter__(self) -> Self:
        if self._file is not None:
            await self._file.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        if self._file is not None:
            await self._file.__aexit__(*error)

    @property
    def name(self) -> str:
        """The experiment's."""
        return self._design.name

    def arm(self, query: str) -> Arm:
        """Which strategy chooses for a query; in shadow mode the control, always."""
        if self._design.paired:
            return "control"
        share = int.from_bytes(hashlib.sha256(f"{self.name}\0{query}".encode(errors="replace")).digest()[:8])
        return "treatment" if share < self._design.split * 2**64 else "control"

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose as the query's arm does; raises what that raises."""
        arm = self.arm(query.query)
        chosen = await (self._both(query, tools) if self._design.paired else self._selectors[arm].select(query, tools))
        return replace(chosen, strategy=self._strategy(arm))

    async def _both(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        shadows: list[Selection] = []
        chosen: list[Selection] = []
        failures: list[Exception] = []

        async def shadow() -> None:
            with anyio.move_on_after(self._shadow_seconds):
                try:
                    shadows.append(await self._selectors["treatment"].select(query, tools))
                except Exception as error:  # whatever it is: nobody is to notice that there is a shadow
                    logger.warning("experiment %s: the treatment failed: %s", self.name, type(error).__name__)

        async with anyio.create_task_group() as group:
            group.start_soon(shadow)
            try:
                chosen.append(await self._selectors["control"].select(query, tools))
            except Exception as error:  # outside of the group it is itself again
                failures.append(error)
                group.cancel_scope.cancel()
        if failures:
            raise failures[0]
        self._compare(query, chosen[0], shadows[0] if shadows else None)
        return chosen[0]

    def _compare(self, query: DecomposedQuery, chosen: Selection, shadow: Selection | None) -> None:
        self._compared += 1
        if shadow is None:
            self._shadow_failures += 1
        else:
            self._alike += [each.tool for each in chosen.chain] == [each.tool for each in shadow.chain]
        if self._judge is None:
            return
        right = self._judge(query, chosen)
        shadow_right = False if shadow is None else self._judge(query, shadow)
        if right is not None and shadow_right is not None:
            self.note_pair(query.query, control=(right, None), treatment=(shadow_right, None))

    def note(self, outcome: SelectionOutcome) -> None:
        """Take note of an outcome; one that is no selection of this experiment only goes to the memory."""
        if self._memory is not None:
            self._memory.note(outcome)
        if self._design.paired:
            return
        arm = self.arm(outcome.query)
        if outcome.strategy == self._strategy(arm):
            self._take(outcome.query, arm, outcome.success, outcome.seconds)
        elif outcome.strategy in (self._strategy("control"), self._strategy("treatment")):
            self._crossed += 1

    def note_pair(
        self, query: str, *, control: tuple[bool, float | None], treatment: tuple[bool, float | None]
    ) -> None:  # fmt: skip
        """Take note of what came of both strategies for a query that was replayed.

        Args:
            query: which.
            control: whether it succeeded, and the seconds it took, where known.
            treatment: the same.

        Raises:
            ConfigurationError: the experiment is not `paired`.
        """
        if not self._design.paired:
            raise ConfigurationError("pairs are noted where paired=True; else note() takes the outcome of one arm")
        self._take(query, "control", *control)
        self._take(query, "treatment", *treatment)

    def advice(self, query: str, tools: Sequence[str]) -> Advice:
        """That of the memory."""
        return Advice() if self._memory is None else self._memory.advice(query, tools)

    def report(self) -> Report:
        """What it says so far. As often as one likes: there is no test before the end."""
        ignored = self._trials.ignored
        warnings = []
        if self._crossed:
            warnings.append(f"{self._crossed} outcomes were of plans that the other arm had made; they do not count")
        if ignored["repeated"]:
            warnings.append(f"{ignored['repeated']} outcomes were of queries that were asked before; they do not count")
        if self._shadow_failures:
            warnings.append(f"the treatment gave no choice for {self._shadow_failures} of {self._compared} queries")
        if self._design.paired and self._compared and self._judge is None:
            warnings.append("nobody says how the treatment's choices would have done: give a judge, or replay both")
        return report_of(
            self._design, self._trials.of("control"), self._trials.of("treatment"), warnings=warnings,
            agreement=self._alike / self._compared if self._compared else None,
        )  # fmt: skip

    def _take(self, query: str, arm: Arm, success: bool, seconds: float | None) -> None:
        unit = hashlib.sha256(query.encode(errors="replace")).hexdigest()[:32]
        known = seconds is not None and math.isfinite(seconds) and seconds >= 0
        self._trials.take(Trial(unit, arm, bool(success), seconds if known else None))

    def _strategy(self, arm: Arm) -> str:
        return f"{self.name}:{arm}"
