"""Directions of vectors: the same order as plain cosines, and what is no vector."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.search.directions import MAX_DIMENSIONS, Directions, direction, likeness, nearest


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / math.hypot(*one) / math.hypot(*other)


def test_the_nearest_are_those_with_the_largest_cosines() -> None:
    drawn = random.Random(7)
    vectors = [[drawn.gauss(0.1, 1) for _ in range(64)] for _ in range(300)]
    query = [drawn.gauss(0.1, 1) for _ in range(64)]
    cosines = [cosine(query, each) for each in vectors]
    found = nearest(Directions([direction(each) for each in vectors]).likes(direction(query)), 40)
    best = sorted(range(300), key=cosines.__getitem__, reverse=True)[:40]
    assert set(found[:20]) <= set(best[:22])  # rounding may swap neighbours
    assert [cosines[place] for place in found] == pytest.approx([cosines[place] for place in best], abs=1e-3)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=8), st.data())
def test_no_lane_overflows_into_the_next(vectors: list[list[float]], data: st.DataObject) -> None:
    query = direction(data.draw(st.sampled_from(vectors)))
    directions = [direction(each) for each in vectors]
    found = nearest(Directions(directions).likes(query), len(vectors))
    likes = [likeness(query, each) for each in directions]
    assert found == sorted((n for n, like in enumerate(likes) if like > 0), key=lambda n: (-likes[n], n))


def test_only_places_that_count_are_found_and_equals_in_their_order() -> None:
    vectors = ([1, 0], [1, 0], [0, 1], [2, 0.5], [-1, 0])
    likes = Directions([direction(each) for each in vectors]).likes(direction([5, 0]))
    assert nearest(likes, 10) == [0, 1, 3]  # others are not alike at all
    assert nearest(likes, 10, among=[1, 2, 3]) == [1, 3]
    assert nearest(likes, 1) == [0]
    assert nearest(likes, 10, among=[]) == []


def test_a_vector_of_zeros_is_like_nothing() -> None:
    nothing, something = direction([0, 0]), direction([1, 0])
    directions = Directions([something, nothing])
    assert nearest(directions.likes(nothing), 10) == []
    assert nearest(directions.likes(something), 10) == [0]


def test_the_length_does_not_count_however_large() -> None:
    assert direction([3, 4]) == direction([3e300, 4e300]) == direction([3e-300, 4e-300])
    assert likeness(direction([3, 4]), direction([3, 4])) == pytest.approx(1, abs=1e-4)
    assert likeness(direction([3, 4]), direction([-3, -4])) == pytest.approx(-1, abs=1e-4)


@pytest.mark.parametrize(
    ("vector", "why"),
    [
        ([], "a vector has 0 numbers, not 1 to 4,096"),
        ([1.0] * (MAX_DIMENSIONS + 1), "a vector has 4,097 numbers, not 1 to 4,096"),
        ([1.0, math.nan], "a vector has a number that is not finite"),
        ([math.inf], "a vector has a number that is not finite"),
    ],
)
def test_what_is_no_vector_is_refused(vector: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        direction(vector)


@pytest.mark.parametrize("vector", [["a"], [None], 7, [[1.0]]])
def test_what_is_not_made_of_numbers_is_refused(vector: Any) -> None:
    with pytest.raises(TypeError):
        direction(vector)
