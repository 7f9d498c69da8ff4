"""An A/B test of two selection strategies on the same traffic; the test is a selector itself.

1. **Arms**: a hash of the experiment's name and the query picks the strategy. So a query always has the same arm, in
   every process and after every restart, and two experiments divide the traffic differently.
2. **Trials** are outcomes in a memory with the strategy ``NAME:control`` or ``NAME:treatment``. A query counts once,
   the first time: repetitions teach nothing new about a strategy. An outcome of the other arm's cached plan does not
   count.
3. **The end is fixed** before the first trial: `samples` in each arm. Later trials change nothing, and nothing is
   tested before: repeated looks at a p-value find differences that do not exist. A memory holds its newest 10,000
   outcomes, so read the report while the trials are among them.
4. One measure decides, named beforehand: success, or the seconds of successful trials. Without significance, the report
   names no winner.

The one door of scipy: Fisher's exact test, and the ranks of Mann and Whitney; both two-sided.
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

from .memory import MAX_OUTCOMES, MAX_TEXT_CHARACTERS, SelectionMemory, wilson

__all__ = ["Arm", "ArmReport", "Experiment", "Report"]

Arm = Literal["control", "treatment"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmReport:
    """One arm.

    Attributes:
        strategy: the selector's name.
        trials: number of trials that count.
        successes: number of successful trials.
        rate: share of successes; 0 without trials.
        rate_interval: Wilson's 95 % interval of the rate.
        median_seconds: of the successes; None without a success.
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
        control: the arm of the existing strategy.
        treatment: the arm of the new strategy.
        finished: whether both arms have their samples.
        p_value: the probability of such a difference, or a larger one, between equal strategies; None until finished.
        winner: None without significance.
        words: the report in a sentence.
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
        control: the existing strategy.
        treatment: the new strategy.
        memory: the orchestrator's memory; `SelectionsFile` keeps it across restarts.
        split: share of the queries for the treatment, above 0 and below 1.
        metric: the measure that decides: ``"success"``, or ``"seconds"`` of successful trials.
        samples: trials in each arm at which the experiment ends.
        alpha: how often equal strategies may have a winner.

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
        """Choose as the query's arm does."""
        arm = self.arm(query.query)
        return replace(await self._selectors[arm].select(query, tools), strategy=f"{self.name}:{arm}")

    def report(self) -> Report:
        """The state of the experiment. May be called at any time: nothing is tested before the end."""
        trials, finished = self._trials()
        control, treatment = (self._arm_report(arm, trials[arm]) for arm in ("control", "treatment"))
        p_value: float | None = None
        winner: Arm | None = None
        if finished:
            p_value, gain = self._test(control, treatment, *map(_seconds, trials.values()))
            if p_value < self._alpha:
                winner = "treatment" if gain > 0 else "control"
            found = f"{winner} is better" if winner else "no difference was shown"
            words = f"{self.name}: {found} in {self._metric}, p = {p_value:.3g}: {control}, {treatment}"
        else:
            words = f"{self.name}: {control}, {treatment}; nothing is tested before {self._samples} trials in each arm"
        return Report(
            control=control, treatment=treatment, finished=finished, p_value=p_value, winner=winner, words=words
        )  # fmt: skip

    def _test(
        self, control: ArmReport, treatment: ArmReport, control_seconds: list[float], treatment_seconds: list[float]
    ) -> tuple[float, float]:
        """The p-value, and a number above 0 where the treatment is better."""
        from scipy import stats

        if self._metric == "success":
            table = [[each.successes, each.trials - each.successes] for each in (control, treatment)]
            return float(stats.fisher_exact(table).pvalue), treatment.rate - control.rate
        if not (control_seconds and treatment_seconds) or len({*control_seconds, *treatment_seconds}) == 1:
            return 1.0, 0.0  # scipy gives nan
        ranks = stats.mannwhitneyu(control_seconds, treatment_seconds)
        return float(ranks.pvalue), float(ranks.statistic) / (len(control_seconds) * len(treatment_seconds)) - 0.5

    def _trials(self) -> tuple[dict[Arm, list[SelectionOutcome]], bool]:
        """The outcomes that count, by arm, and whether they are enough."""
        trials: dict[Arm, dict[str, SelectionOutcome]] = {"control": {}, "treatment": {}}
        finished = False
        for outcome in self._memory.outcomes:
            arm = self.arm(outcome.query)
            if outcome.strategy == f"{self.name}:{arm}":
                trials[arm].setdefault(outcome.query, outcome)
                finished = min(map(len, trials.values())) >= self._samples
            if finished:
                break
        return {arm: list(outcomes.values()) for arm, outcomes in trials.items()}, finished

    def _arm_report(self, arm: Arm, trials: Sequence[SelectionOutcome]) -> ArmReport:
        successes, seconds = sum(trial.success for trial in trials), _seconds(trials)
        return ArmReport(
            strategy=self._selectors[arm].name, trials=len(trials), successes=successes,
            rate=successes / len(trials) if trials else 0.0, rate_interval=wilson(successes, len(trials)),
            median_seconds=median(seconds) if seconds else None,
        )  # fmt: skip


def _seconds(trials: Sequence[SelectionOutcome]) -> list[float]:
    return [trial.seconds for trial in trials if trial.success]
