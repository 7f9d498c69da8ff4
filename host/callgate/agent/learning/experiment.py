"""Two selection strategies on the same traffic, compared: an A/B test that is a selector itself.

1. **Arms**: a hash of the experiment's name and the query says which strategy chooses. So the same query always has the
   same arm, in every process and after every restart, and two experiments divide the traffic differently.
2. **Trials** are outcomes that a memory has noted with the strategy's name, ``NAME:control`` or ``NAME:treatment``. A
   query counts once, the first time: its repetitions tell nothing new of a strategy. The outcome of a cached plan that
   the other arm had made does not count.
3. **The end is fixed** before the first trial: `samples` in each arm. Later trials change nothing, and there is no test
   before: a p-value that is looked at again and again finds differences where there are none. A memory holds its newest
   10,000 outcomes, so read the report while the trials are among them.
4. One measure decides, named beforehand: success, or the seconds of trials that succeeded. Without significance there
   is no winner.

The one door of scipy: Wilson's intervals, Fisher's exact test, the ranks of Mann and Whitney; both tests two-sided.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from statistics import median
from typing import Literal

from callgate.agent.planning.selection import Selection, SelectionOutcome, Selector
from callgate.agent.planning.tool_plan import DecomposedQuery
from callgate.errors import ConfigurationError
from callgate.extras import how_to_install
from callgate.tools.registry import ToolInfo

from .memory import MAX_OUTCOMES, MAX_TEXT_CHARACTERS, SelectionMemory

__all__ = ["Arm", "ArmReport", "Experiment", "Report"]

Arm = Literal["control", "treatment"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmReport:
    """One arm.

    Attributes:
        strategy: the selector's name.
        trials: that count.
        successes: of them.
        rate: share of successes; 0 without trials.
        rate_interval: the shares that fit what was seen (Wilson, 95 %).
        median_seconds: of the successes; None without any.
    """

    strategy: str
    trials: int
    successes: int
    rate: float
    rate_interval: tuple[float, float]
    median_seconds: float | None

    def __str__(self) -> str:
        low, high = self.rate_interval
        seconds = "" if self.median_seconds is None else f", median {self.median_seconds:.3g} s"
        return f"{self.strategy} {self.rate:.1%} of {self.trials} ({low:.1%} to {high:.1%}{seconds})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The state of an experiment.

    Attributes:
        control: the one arm.
        treatment: the other.
        finished: whether both arms have their samples.
        p_value: how likely a difference at least so large is where there is none; None until it is finished.
        winner: None without significance.
        words: all of it in a sentence.
    """

    control: ArmReport
    treatment: ArmReport
    finished: bool
    p_value: float | None
    winner: Arm | None
    words: str


class Experiment:
    """An A/B test of two selectors; a `Selector`.

    Args:
        name: of the experiment; another name divides the traffic differently.
        control: the strategy there is.
        treatment: the new one.
        memory: where the orchestrator notes outcomes; `SelectionsFile` keeps it across restarts.
        split: share of the queries that the treatment gets, above 0 and below 1.
        metric: the measure that decides: ``"success"``, or ``"seconds"`` of what succeeded.
        samples: trials in each arm at which it ends.
        alpha: how often a winner is named where there is no difference.

    Raises:
        ConfigurationError: a value is wrong, or scipy is missing.
    """

    def __init__(
        self,
        name: str,
        control: Selector,
        treatment: Selector,
        *,
        memory: SelectionMemory,
        split: float = 0.5,
        metric: Literal["success", "seconds"] = "success",
        samples: int = 100,
        alpha: float = 0.05,
    ) -> None:
        if find_spec("scipy") is None:
            raise ConfigurationError(f"experiments need scipy, which is not installed: {how_to_install('experiments')}")
        for what, value in (("split", split), ("alpha", alpha)):
            if not 0 < value < 1:
                raise ConfigurationError(f"{what} must be above 0 and below 1, not {value}")
        if metric not in ("success", "seconds"):
            raise ConfigurationError(f"metric must be 'success' or 'seconds', not {metric!r}")
        if not 2 <= samples <= MAX_OUTCOMES * min(split, 1 - split):
            raise ConfigurationError(
                f"samples must be 2 or more, and fit into {MAX_OUTCOMES:,} outcomes, not {samples}"
            )
        self.name = name
        self._selectors: dict[Arm, Selector] = {"control": control, "treatment": treatment}
        self._memory = memory
        self._split = split
        self._metric = metric
        self._samples = samples
        self._alpha = alpha

    def arm(self, query: str) -> Arm:
        """The arm whose strategy chooses for a query."""
        unit = f"{self.name}\0{query[:MAX_TEXT_CHARACTERS]}".encode(errors="replace")
        share = int.from_bytes(hashlib.sha256(unit).digest()[:8])
        return "treatment" if share < self._split * 2**64 else "control"

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        """Choose as the query's arm does; raises what that raises."""
        arm = self.arm(query.query)
        return replace(await self._selectors[arm].select(query, tools), strategy=f"{self.name}:{arm}")

    def report(self) -> Report:
        """The state of the experiment. Look as often as you like: there is no test before the end."""
        from scipy import stats

        trials, finished = self._trials()
        control, treatment = (self._arm_report(arm, list(trials[arm].values())) for arm in ("control", "treatment"))
        if not finished:
            words = f"{self.name}: {control}, {treatment}; there is no test before {self._samples} trials in each arm"
            return Report(
                control=control, treatment=treatment, finished=False, p_value=None, winner=None, words=words
            )  # fmt: skip
        if self._metric == "success":
            table = [[each.successes, each.trials - each.successes] for each in (control, treatment)]
            p_value, gain = float(stats.fisher_exact(table).pvalue), treatment.rate - control.rate
        else:
            p_value, gain = 1.0, 0.0
            seconds = [_seconds(list(trials[arm].values())) for arm in ("control", "treatment")]
            if all(seconds) and len({*seconds[0], *seconds[1]}) > 1:  # of anything else scipy says nan
                found = stats.mannwhitneyu(*seconds)
                p_value = float(found.pvalue)
                gain = float(found.statistic) / (len(seconds[0]) * len(seconds[1])) - 0.5
        winner: Arm | None = None
        if p_value < self._alpha:
            winner = "treatment" if gain > 0 else "control"
        told = f"{winner} is better" if winner else "no difference was shown"
        words = f"{self.name}: {told} in {self._metric}, p = {p_value:.3g}: {control}, {treatment}"
        return Report(
            control=control, treatment=treatment, finished=True, p_value=p_value, winner=winner, words=words
        )  # fmt: skip

    def _trials(self) -> tuple[dict[Arm, dict[str, SelectionOutcome]], bool]:
        """The outcomes that count, by arm and query, and whether they are enough."""
        trials: dict[Arm, dict[str, SelectionOutcome]] = {"control": {}, "treatment": {}}
        for outcome in self._memory.outcomes:
            arm = self.arm(outcome.query)
            if outcome.strategy == f"{self.name}:{arm}":
                trials[arm].setdefault(outcome.query, outcome)
                if min(map(len, trials.values())) >= self._samples:
                    return trials, True
        return trials, False

    def _arm_report(self, arm: Arm, trials: Sequence[SelectionOutcome]) -> ArmReport:
        from scipy import stats

        successes, interval = sum(trial.success for trial in trials), (0.0, 1.0)
        if trials:
            found = stats.binomtest(successes, len(trials)).proportion_ci(method="wilson")
            interval = float(found.low), float(found.high)
        seconds = _seconds(trials)
        return ArmReport(
            strategy=self._selectors[arm].name, trials=len(trials), successes=successes,
            rate=successes / len(trials) if trials else 0.0, rate_interval=interval,
            median_seconds=median(seconds) if seconds else None,
        )  # fmt: skip


def _seconds(trials: Sequence[SelectionOutcome]) -> list[float]:
    return [trial.seconds for trial in trials if trial.success]
