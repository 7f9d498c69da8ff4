"""Percentiles, spread and ratios."""

from __future__ import annotations

import pytest

from callgate_bench.figures import Figure, percentile, ratio, seconds, timed


def test_percentiles_are_values_that_were_measured() -> None:
    values = [float(n) for n in range(1, 101)]
    assert (percentile(values, 0.1), percentile(values, 0.99), percentile(values, 1.0)) == (11.0, 100.0, 100.0)


def test_a_single_value_is_all_of_its_percentiles() -> None:
    figure = Figure.of([2.0])
    assert (figure.p10, figure.p50, figure.p90, figure.p99, figure.count) == (2.0, 2.0, 2.0, 2.0, 1)


def test_no_values_are_refused() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
    with pytest.raises(ValueError, match="no pairs"):
        ratio([1.0], [])


def test_a_ratio_compares_neighbours_so_a_slow_moment_of_both_does_not_show() -> None:
    assert ratio([1.0, 10.0, 1.0], [2.0, 20.0, 2.0]) == 0.5


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0 s"), (0.0000001, "100 ns"), (0.0000421, "42.1 µs"), (0.0042, "4.2 ms"), (123.4, "123 s")],
)
def test_a_duration_is_written_in_a_unit_that_suits_it(value: float, text: str) -> None:
    assert seconds(value) == text


def test_a_row_is_met_at_the_target_and_missed_above_it() -> None:
    assert timed("k", "m", [1.0], peer="P", theirs=[2.0], most=0.5).verdict == "met"
    assert timed("k", "m", [1.1], peer="P", theirs=[2.0], most=0.5).verdict == "missed"


def test_a_row_whose_peer_failed_is_not_judged_and_says_why() -> None:
    row = timed("k", "m", [1.0], peer="P", theirs=[], most=0.5, failed="not installed")
    assert (row.verdict, row.peer, row.ratio) == ("open", "P: not installed", None)


def test_what_a_peer_measured_before_it_failed_is_kept() -> None:
    row = timed("k", "m", [1.0, 1.0], peer="P", theirs=[4.0], most=0.5, failed="it died")
    assert row.verdict == "met"
    assert row.peer.endswith("it stopped: it died")


def test_a_row_with_a_target_in_seconds_is_judged_without_its_peer() -> None:
    assert timed("k", "m", [0.004], within=0.005).target == "≤ 5 ms"
    assert timed("k", "m", [0.004], within=0.005).verdict == "met"
    assert timed("k", "m", [0.006], peer="P", theirs=[9.0], within=0.005).verdict == "missed"
