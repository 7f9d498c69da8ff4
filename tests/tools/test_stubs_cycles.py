"""Nodes that lead back to each other, against looking for every way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callgate.tools.stubs.cycles import components

GRAPHS = st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=4), max_size=10).map(
    lambda graph: {node: [each for each in below if each in graph] for node, below in graph.items()}
)


def reached(graph: dict[int, list[int]], start: int) -> set[int]:
    found: set[int] = set()
    todo = [start]
    while todo:
        new = [each for each in graph[todo.pop()] if each not in found]
        found.update(new)
        todo.extend(new)
    return found


@given(GRAPHS)
def test_two_nodes_are_in_one_circle_where_each_leads_to_the_other(graph: dict[int, list[int]]) -> None:
    circles = components(graph)
    assert circles.keys() == graph.keys()
    ways = {node: reached(graph, node) for node in graph}
    for one in graph:
        for other in graph:
            together = one == other or (other in ways[one] and one in ways[other])
            assert (circles[one] == circles[other]) is together


def test_a_long_way_round_needs_no_deep_stack() -> None:
    size = 100_000
    assert len(set(components({node: [(node + 1) % size] for node in range(size)}).values())) == 1
    assert len(set(components({node: [node + 1] if node + 1 < size else [] for node in range(size)}).values())) == size
