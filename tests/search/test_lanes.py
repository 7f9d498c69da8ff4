"""Adding and finding the best, held against plain loops."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callgate.search.lanes import MOST, Sums, best, lanes, packed, whole

numbers = st.lists(st.integers(0, MOST), max_size=300)


@given(numbers)
def test_lanes_hold_what_was_put_in(values: list[int]) -> None:
    sums = Sums(lanes(len(values), packed(len(values), enumerate(values))))
    assert list(sums.numbers) == values
    assert whole(sums.numbers) == packed(len(values), enumerate(values))


@given(st.lists(st.lists(st.integers(0, MOST // 8), min_size=40, max_size=40), max_size=8))
def test_adding_integers_adds_every_lane(rows: list[list[int]]) -> None:
    total = sum(packed(40, enumerate(row)) for row in rows)
    assert list(Sums(lanes(40, total)).numbers) == [sum(column) for column in zip(*rows, strict=True)] or not rows


def test_numbers_at_one_place_are_added() -> None:
    assert list(Sums(lanes(3, packed(3, [(1, 5), (1, 6), (2, 1)]))).numbers) == [0, 11, 1]


@given(numbers, st.integers(1, 50))
def test_none_that_is_left_out_is_better_by_more_than_the_rounding(values: list[int], count: int) -> None:
    found = Sums(lanes(len(values), packed(len(values), enumerate(values)))).best(count)
    assert len(set(found)) == len(found) <= count
    assert all(values[place] for place in found)
    left = [value for place, value in enumerate(values) if place not in set(found)]
    if len(found) < count:
        assert all(value < max(1, max(values) // 128) or not value for value in left)
    else:
        assert max(left, default=0) <= min(values[place] for place in found)


@given(st.lists(st.integers(0, 300), min_size=60, max_size=300), st.integers(1, 40))
def test_small_numbers_are_told_apart_as_well(values: list[int], count: int) -> None:
    found = Sums(lanes(len(values), packed(len(values), enumerate(values)))).best(count)
    least = sorted(values, reverse=True)[len(found) - 1] if found else 0
    assert all(values[place] >= least - 2 for place in found)


@given(st.binary(max_size=400), st.integers(1, 30))
def test_the_best_bytes_are_the_largest_and_their_equals(plane: bytes, count: int) -> None:
    found = best(plane, count)
    ordered = sorted((byte for byte in plane if byte), reverse=True)
    least = ordered[count - 1] if len(ordered) > count else 1
    assert found == [place for place, byte in enumerate(plane) if byte >= least]


def test_nothing_is_best_of_nothing() -> None:
    assert Sums(lanes(0, 0)).best(10) == []
    assert Sums(lanes(5, 0)).best(10) == []
