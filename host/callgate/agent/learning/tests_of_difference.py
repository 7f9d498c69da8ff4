"""How likely a difference as large as the one that was seen is, where there is none: exact and rank tests. The one door
of scipy.

Success: Fisher's exact test for two groups, McNemar's (the binomial one) for pairs. Durations, which are skewed: the
ranks of Mann and Whitney for two groups, Wilcoxon's signed ranks for pairs. All two-sided.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from callgate.errors import ConfigurationError
from callgate.extras import how_to_install

__all__ = ["binomial", "fisher", "mann_whitney", "mcnemar", "must_be_there", "wilcoxon"]


def must_be_there() -> None:
    """Raises `ConfigurationError` where scipy is not installed."""
    if find_spec("scipy") is None:
        raise ConfigurationError(f"experiments need scipy, which is not installed: {how_to_install('experiments')}")


def fisher(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Of two groups, each as successes and samples."""
    table = [[successes, samples - successes] for successes, samples in (first, second)]
    return float(_stats().fisher_exact(table).pvalue)


def mcnemar(only_first: int, only_second: int) -> float:
    """Of the pairs in which one alone succeeded; the others say nothing of a difference."""
    return binomial(only_first, only_first + only_second, 0.5)


def binomial(successes: int, samples: int, share: float) -> float:
    """Of one group, whose share should be that; 1 without samples."""
    return float(_stats().binomtest(successes, samples, share).pvalue) if samples else 1.0


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Of two groups of numbers: also how often a number of the second is the smaller one (ties count half), less 1/2.
    1 and 0 where a group is empty, or all numbers are one: of these scipy 1.18 says nan."""
    if not first or not second or len({*first, *second}) == 1:
        return 1.0, 0.0
    found = _stats().mannwhitneyu(first, second)
    return float(found.pvalue), float(found.statistic) / (len(first) * len(second)) - 0.5


def wilcoxon(differences: Sequence[float]) -> tuple[float, float]:
    """Of pairs, each as the second number less the first: also by how much the ranks of those below 0 outweigh the
    others, from -1/2 to 1/2. 1 and 0 where all are 0."""
    differing = [each for each in differences if each]
    if not differing:
        return 1.0, 0.0
    ranks = _stats().rankdata([abs(each) for each in differing])
    below = sum(float(rank) for rank, each in zip(ranks, differing, strict=True) if each < 0)
    return float(_stats().wilcoxon(differing).pvalue), below / float(sum(ranks)) - 0.5


def _stats() -> Any:
    must_be_there()
    return import_module("scipy.stats")
