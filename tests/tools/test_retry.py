"""The arithmetic of waiting."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.errors import ConfigurationError
from callgate.tools import Retry


def test_the_waits_double() -> None:
    assert [Retry(attempts=4).delay_seconds(failures, 0.5) for failures in (1, 2, 3)] == [1.0, 2.0, 4.0]


def test_no_wait_is_longer_than_the_longest() -> None:
    assert Retry(max_backoff_seconds=5).delay_seconds(4, 0.5) == 5.0
    assert Retry(max_backoff_seconds=5).delay_seconds(100_000, 0.5) == 5.0


@given(st.floats(0, 1), st.integers(1, 20))
def test_the_jitter_spreads_both_ways_by_its_share(random: float, failures: int) -> None:
    middle = Retry().delay_seconds(failures, 0.5)
    assert middle * 0.75 <= Retry(jitter=0.25).delay_seconds(failures, random) <= middle * 1.25


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("attempts", 0, "retry attempts must be a whole number of at least 1, not 0"),
        ("attempts", True, "retry attempts must be a whole number of at least 1, not True"),
        ("backoff_seconds", -1, "retry backoff_seconds must be a finite number, at least 0, not -1"),
        ("backoff_seconds", float("nan"), "retry backoff_seconds must be a finite number, at least 0, not nan"),
        ("factor", 0.5, "retry factor must be a finite number, at least 1, not 0.5"),
        ("jitter", 2, "retry jitter must be a finite number, from 0 to 1, not 2"),
        ("max_backoff_seconds", "5", "retry max_backoff_seconds must be a finite number, at least 0, not '5'"),
    ],
)
def test_an_impossible_policy_is_refused(field: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        Retry(**{field: value})
