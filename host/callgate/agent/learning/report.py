"""What an experiment says so far: counts, rates, the difference, and whether it may be chance. Values and arithmetic.

1. There is no test before both arms have their samples. Who looks at a p-value again and again, and stops when it is
   small, finds differences where there are none; so there is none to be looked at.
2. One measure decides, and was named beforehand: success, or seconds. The other is told, without a winner.
3. Seconds are those of trials that succeeded; of pairs, where both did. A strategy that fails quickly is not quick.
4. Without significance there is no winner.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from . import tests_of_difference
from .intervals import difference_interval, paired_interval, power_of, wilson
from .trials import Arm, Trial

__all__ = ["ArmReport", "Design", "Report", "Test", "report_of"]

Metric = Literal["success", "seconds"]
_RATIO_ALPHA = 0.001
"""A share of the traffic that is so unlikely was not made by the hash: outcomes of one arm get lost. (Fabijan et al.
2019, KDD, ask for as much.)"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Design:
    """What was decided before the first trial.

    Attributes:
        name: of the experiment.
        control: name of the strategy there is.
        treatment: name of the new one.
        split: share of the traffic that the treatment gets.
        paired: whether both arms saw the same queries.
        metric: what decides.
        samples: trials in each arm that decide; pairs, where paired.
        alpha: how often a winner is told where there is no difference.
        expected_rate: of success, of the control; for the power.
        least_difference: of rates, that is worth finding.
    """

    name: str
    control: str
    treatment: str
    split: float
    paired: bool
    metric: Metric
    samples: int
    alpha: float
    expected_rate: float
    least_difference: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmReport:
    """One arm.

    Attributes:
        strategy: the selector's name.
        trials: that count.
        successes: of them.
        rate: share of successes; None without trials.
        rate_interval: that fits what was seen (Wilson).
        median_seconds: of the successes with a duration; None without.
    """

    strategy: str
    trials: int
    successes: int
    rate: float | None
    rate_interval: tuple[float, float]
    median_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Test:
    """A test of a difference.

    Attributes:
        name: of the test.
        p_value: how likely a difference at least so large is where there is none.
        samples: it rests on; pairs, where paired; else of both arms.
        gain: above 0 where the treatment did better.
    """

    __test__ = False

    name: str
    p_value: float
    samples: int
    gain: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What an experiment says so far.

    Attributes:
        design: what was decided beforehand.
        control: the one arm.
        treatment: the other.
        difference: of the success rates, the treatment's less the control's; None while an arm is empty.
        difference_interval: that fits what was seen, at 1 - alpha. It is for the end: whoever stops at the first one
            that leaves 0 out has looked too early.
        finished: whether both arms have their samples.
        test: of the measure that decides; None until it is finished.
        other_test: of the other measure, for information; None until it is finished.
        power: how often a difference of success rates of `least_difference` is found with these samples; None for
            pairs, where it depends on how often the two differ.
        winner: ``control`` or ``treatment``; None without significance.
        warnings: what a reader has to know.
        agreement: where both select, the share of queries for which they chose the same tools; else None.
        words: all of it in a sentence.
    """

    design: Design
    control: ArmReport
    treatment: ArmReport
    difference: float | None
    difference_interval: tuple[float, float]
    finished: bool
    test: Test | None
    other_test: Test | None
    power: float | None
    winner: Arm | None
    warnings: tuple[str, ...]
    agreement: float | None
    words: str


def report_of(
    design: Design,
    control: Mapping[str, Trial],
    treatment: Mapping[str, Trial],
    *,
    warnings: Sequence[str] = (),
    agreement: float | None = None,
) -> Report:
    """Work it out.

    Args:
        design: of the experiment.
        control: its trials, by unit, in order.
        treatment: the same.
        warnings: of whoever gathered the trials.
        agreement: where both select.
    """
    pairs: list[tuple[Trial, Trial]] = []
    told = list(warnings)
    if design.paired:
        pairs = [(one, treatment[unit]) for unit, one in control.items() if unit in treatment]
        ones, others = [one for one, _ in pairs], [other for _, other in pairs]
    else:
        ones, others = list(control.values()), list(treatment.values())
        told += _lost(design, len(control), len(treatment))
    first, second = _arm(design.control, ones), _arm(design.treatment, others)
    only_first = sum(one.success and not other.success for one, other in pairs)
    only_second = sum(other.success and not one.success for one, other in pairs)
    difference = None if first.rate is None or second.rate is None else second.rate - first.rate
    counts = (first.successes, first.trials), (second.successes, second.trials)
    interval = (
        paired_interval(len(pairs), only_first, only_second, 1 - design.alpha)
        if design.paired
        else difference_interval(*counts, 1 - design.alpha)
    )
    finished = min(first.trials, second.trials) >= design.samples
    tests: dict[Metric, Test] = {}
    if finished:
        tests = _paired_tests(pairs, only_first, only_second) if design.paired else _tests(ones, others)
    test = tests.get(design.metric)
    winner: Arm | None = None
    if test is not None and test.p_value < design.alpha:
        winner = "treatment" if test.gain > 0 else "control"
    other_test = tests.get("seconds" if design.metric == "success" else "success")
    if winner is not None and design.metric == "seconds" and other_test is not None and not design.paired:
        told += _quicker_but_worse(winner, other_test, design.alpha)
    power = None if design.paired else power_of(
        design.expected_rate, design.least_difference, design.samples, alpha=design.alpha
    )  # fmt: skip
    return Report(
        design=design, control=first, treatment=second, difference=difference, difference_interval=interval,
        finished=finished, test=test, other_test=other_test,
        power=power, winner=winner, warnings=tuple(told), agreement=agreement,
        words=_words(design, first, second, interval, difference, test, winner),
    )  # fmt: skip


def _arm(strategy: str, trials: Sequence[Trial]) -> ArmReport:
    successes = sum(trial.success for trial in trials)
    seconds = _seconds(trials)
    return ArmReport(
        strategy=strategy, trials=len(trials), successes=successes,
        rate=successes / len(trials) if trials else None, rate_interval=wilson(successes, len(trials)),
        median_seconds=statistics.median(seconds) if seconds else None,
    )  # fmt: skip


def _seconds(trials: Sequence[Trial]) -> list[float]:
    return [trial.seconds for trial in trials if trial.success and trial.seconds is not None]


def _slower_by(pairs: Sequence[tuple[Trial, Trial]]) -> list[float]:
    """By how much the treatment took longer, of each pair in which both succeeded."""
    return [
        other.seconds - one.seconds
        for one, other in pairs
        if one.success and other.success and one.seconds is not None and other.seconds is not None
    ]


def _tests(ones: Sequence[Trial], others: Sequence[Trial]) -> dict[Metric, Test]:
    (won, of), (won_others, of_others) = ((sum(trial.success for trial in arm), len(arm)) for arm in (ones, others))
    first, second = _seconds(ones), _seconds(others)
    quicker, by = tests_of_difference.mann_whitney(first, second)
    return {
        "success": Test(
            name="Fisher's exact", p_value=tests_of_difference.fisher((won, of), (won_others, of_others)),
            samples=of + of_others, gain=won_others / of_others - won / of,
        ),
        "seconds": Test(name="Mann-Whitney", p_value=quicker, samples=len(first) + len(second), gain=by),
    }  # fmt: skip


def _paired_tests(pairs: Sequence[tuple[Trial, Trial]], only_first: int, only_second: int) -> dict[Metric, Test]:
    slower = _slower_by(pairs)
    quicker, by = tests_of_difference.wilcoxon(slower)
    return {
        "success": Test(
            name="McNemar's exact", p_value=tests_of_difference.mcnemar(only_first, only_second), samples=len(pairs),
            gain=(only_second - only_first) / len(pairs),
        ),
        "seconds": Test(name="Wilcoxon signed-rank", p_value=quicker, samples=len(slower), gain=by),
    }  # fmt: skip


def _lost(design: Design, control: int, treatment: int) -> list[str]:
    """Whether the arms' shares of the outcomes can be those of the traffic."""
    noted = control + treatment
    if noted < 100 or tests_of_difference.binomial(treatment, noted, design.split) >= _RATIO_ALPHA:
        return []
    return [
        f"{treatment} of {noted} outcomes are the treatment's, where {design.split:.0%} of the traffic is: outcomes of "
        "one arm get lost, and the arms cannot be compared"
    ]


def _quicker_but_worse(winner: Arm, success: Test, alpha: float) -> list[str]:
    """Of an arm that fails at what takes long, quick successes are left."""
    if success.p_value >= alpha or (success.gain > 0) == (winner == "treatment"):
        return []
    return [
        f"the {winner} is quicker and succeeds less often: its seconds are those of the queries that it could do, "
        "which may be the easy ones; replay both on the same queries (paired)"
    ]


def _words(
    design: Design, first: ArmReport, second: ArmReport, interval: tuple[float, float], difference: float | None,
    test: Test | None, winner: Arm | None,
) -> str:  # fmt: skip
    if test is None:
        if design.paired:
            so_far = f"{first.trials} of {design.samples} pairs"
        else:
            so_far = f"{first.trials} and {second.trials} of {design.samples} trials in each arm"
        return f"{design.name}: {so_far}; there is no test before that, and who looks earlier may see what is not there"
    sure = f"{test.name}, p = {test.p_value:.3g}, n = {test.samples}"
    rates = f"success {_share(first.rate)} -> {_share(second.rate)}"
    if difference is not None:
        rates += f" ({difference:+.1%}, {interval[0]:+.1%} to {interval[1]:+.1%})"
    if first.median_seconds is not None and second.median_seconds is not None:
        rates += f", median {first.median_seconds:.3g} s -> {second.median_seconds:.3g} s"
    if winner is None:
        return f"{design.name}: no difference in {design.metric} was shown ({sure}): {rates}"
    ahead = design.control if winner == "control" else design.treatment
    return f"{design.name}: {ahead} ({winner}) is better in {design.metric} ({sure}): {rates}"


def _share(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1%}"
