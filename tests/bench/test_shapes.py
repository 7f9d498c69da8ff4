"""The graphs that every contestant runs."""

from __future__ import annotations

import random

import pytest

from callgate.bench.singles.measures.makespan import _critical_path
from callgate.bench.singles.shapes import SHAPES, Shape, depth, layers, shape


@pytest.mark.parametrize("name", SHAPES)
def test_every_step_needs_only_steps_before_it(name: Shape) -> None:
    needs = shape(name, 300)
    assert len(needs) == 300
    assert all(need < step for step, needed in enumerate(needs) for need in needed)


def test_a_graph_is_the_same_in_every_process() -> None:
    assert shape("layered", 200) == shape("layered", 200)


def test_a_chain_is_as_deep_as_it_is_long_and_a_wide_graph_is_flat() -> None:
    assert (depth(shape("chain", 2000)), depth(shape("wide", 2000))) == (2000, 1)


def test_steps_below_the_first_layer_need_two_or_three_of_the_layer_before() -> None:
    needs = shape("layered", 1000)
    assert {len(needed) for needed in needs} == {0, 2, 3}
    assert 1000 / 50 <= depth(needs) <= 1000 / 10


def test_the_critical_path_is_the_dearest_way_through_the_graph() -> None:
    assert _critical_path([(), (), (0, 1), (1,)], [1.0, 5.0, 2.0, 4.0]) == 9.0
    needs = layers(500, random.Random(3), least_needs=1)
    assert _critical_path(needs, [1.0] * 500) == depth(needs)
