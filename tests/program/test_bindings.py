"""What a program leaves behind for the next one of its session."""

from __future__ import annotations

import pytest

from callgate.program import ToolShape, bound_names, check_program


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("rows = await query('west')", {"rows"}),
        ("def f(a):\n    b = 1\nclass A:\n    c = 1", {"f", "A"}),
        ("def f():\n    global made\n    made = 1", {"f", "made"}),
        ("import os.path, json as j\nfrom math import pi", {"os", "j", "pi"}),
        ("from tools import query\nimport tools", set()),
        ("from tools import query as q\nquery = 1\nfrom tools import query", {"q", "query"}),
        ("for i, (a, *b) in []: pass\nif (n := 1): pass", {"i", "a", "b", "n"}),
        ("from math import *", set()),
        ("x = (", set()),
        ("x" * 10**6, set()),
    ],
)
def test_these_names_are_left_behind(source: str, names: set[str]) -> None:
    assert bound_names(source) == names


def test_the_next_program_knows_them_and_leaves_a_rebound_tool_alone() -> None:
    tools = [ToolShape("query", ("region",), frozenset({"region"}))]
    earlier = bound_names("def query(*regions): return list(regions)\nrows = query(1, 2)")
    assert check_program("print(rows, query(1, 2)[0])", tools, known_names=earlier) == []
