"""Several orders become one."""

from __future__ import annotations

from callgate.search.orders import fused, spread


def order(names: str) -> dict[str, str]:
    return {name: name for name in names}


def test_each_query_in_turn_takes_its_best_that_is_not_taken() -> None:
    assert "".join(spread([order("abc"), order("xyz")])) == "axbycz"
    assert "".join(spread([order("abc"), order("bad")])) == "abcd"


def test_a_query_that_finds_little_leaves_its_places_to_the_others() -> None:
    assert "".join(spread([order("a"), order(""), order("uvwx")])) == "auvwx"
    assert "".join(spread([])) == ""


def test_what_two_queries_found_is_the_first_ones() -> None:
    assert list(spread([{"a": 1}, {"a": 2, "b": 3}])) == [1, 3]


def test_two_orders_are_fused_by_rank_and_weight() -> None:
    scores = fused("abc", "cxa", 0.5)
    assert scores == {"a": 1 + 0.5 / 3, "b": 1 / 2, "c": 1 / 3 + 0.5, "x": 0.5 / 2}
    assert "".join(scores) == "acbx"
    assert "".join(fused("abc", "cxa", 0.0)) == "abcx", "without weight the second order comes last"
    assert "".join(fused("", "xy", 1.0)) == "xy"
    assert "".join(fused("ab", "ba", 1.0)) == "ab", "equals as the first order has them"
