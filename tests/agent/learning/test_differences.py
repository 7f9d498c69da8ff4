"""The tests of differences against textbook figures, and where there is nothing to test."""

from __future__ import annotations

import pytest

from callgate.agent.learning.tests_of_difference import binomial, fisher, mann_whitney, mcnemar, wilcoxon

pytest.importorskip("scipy", reason="scipy is not installed")


def test_fishers_lady_who_tasted_tea() -> None:
    assert fisher((4, 4), (0, 4)) == pytest.approx(2 / 70)
    assert fisher((3, 4), (1, 4)) == pytest.approx(34 / 70)


def test_mcnemars_is_a_coin() -> None:
    assert mcnemar(0, 6) == pytest.approx(2 / 64)
    assert mcnemar(0, 0) == 1.0
    assert binomial(0, 0, 0.5) == 1.0


def test_the_ranks_say_how_likely_and_in_which_direction() -> None:
    p_value, gain = mann_whitney([3.0, 4.0, 5.0], [0.5, 1.0, 2.0])
    assert [p_value, gain] == pytest.approx([2 / 20, 0.5])
    p_value, gain = wilcoxon([-1.0, -2.0, -3.0, -4.0, 0.0])
    assert [p_value, gain] == pytest.approx([2 / 16, 0.5])
    assert wilcoxon([1.0, 2.0, 3.0])[1] == -0.5


def test_where_there_is_nothing_to_test_nothing_is_shown() -> None:
    assert mann_whitney([], [1.0]) == (1.0, 0.0)
    assert mann_whitney([1.0] * 9, [1.0] * 9) == (1.0, 0.0)
    assert wilcoxon([0.0, 0.0]) == (1.0, 0.0)
