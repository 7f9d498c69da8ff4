"""Intervals and numbers of samples: against tables, against scipy, and against what really happens."""

from __future__ import annotations

import importlib
import random

import pytest

from callgate.agent.learning import tests_of_difference
from callgate.agent.learning.intervals import difference_interval, paired_interval, power_of, samples_needed, wilson

pytest.importorskip("scipy", reason="scipy is not installed")


@pytest.mark.parametrize(("successes", "samples"), [(0, 1), (1, 1), (3, 5), (0, 20), (81, 263), (1000, 1000)])
def test_wilsons_interval_is_that_of_scipy(successes: int, samples: int) -> None:
    stats = importlib.import_module("scipy.stats")  # takes a second, which collection need not wait for
    theirs = stats.binomtest(successes, samples).proportion_ci(0.95, method="wilson")
    assert wilson(successes, samples) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_without_samples_everything_is_possible() -> None:
    assert wilson(0, 0) == (0.0, 1.0)
    assert difference_interval((0, 0), (1, 1)) == (-1.0, 1.0)
    assert paired_interval(0, 0, 0) == (-1.0, 1.0)


def test_newcombes_interval_is_that_of_his_paper() -> None:
    assert difference_interval((48, 80), (56, 70)) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_the_paired_interval_holds_what_is_there() -> None:
    draw, held = random.Random(1), 0
    for _ in range(300):
        pairs = [(draw.random() < 0.6, draw.random() < 0.75) for _ in range(60)]
        only_first = sum(one and not other for one, other in pairs)
        only_second = sum(other and not one for one, other in pairs)
        low, high = paired_interval(60, only_first, only_second)
        held += low <= 0.15 <= high
    assert held >= 0.92 * 300


def test_as_many_samples_as_the_tables_of_fleiss_ask_for() -> None:
    assert samples_needed(0.6, 0.2) == 91  # Fleiss, Levin and Paik: .60 and .80, alpha .05, power .80
    assert samples_needed(0.8, 0.1) == 219
    assert samples_needed(0.9, -0.1) == 219


def test_the_power_is_that_which_was_asked_for() -> None:
    assert power_of(0.6, 0.2, samples_needed(0.6, 0.2)) == pytest.approx(0.8, abs=0.01)
    assert power_of(0.6, 0.2, 2) < 0.05
    draw, found, samples = random.Random(7), 0, samples_needed(0.6, 0.2)
    for _ in range(400):
        first = sum(draw.random() < 0.6 for _ in range(samples))
        second = sum(draw.random() < 0.8 for _ in range(samples))
        found += tests_of_difference.fisher((first, samples), (second, samples)) < 0.05
    assert 0.74 < found / 400 < 0.88
