"""The guard's own parts: which faults it puts in, which it keeps, and what it calls fallen."""

from __future__ import annotations

import ast
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import mutants
from comparison import figures
from report import report
from rooms import SAMPLE

FUNCTION = "def act(a, b):\n    {}\n"


@pytest.mark.parametrize(
    ("line", "faulty"),
    [
        ("return a < b", {"return (a <= b)", "return None"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = not a", {"x = (a)"}),
        ("x = a + b", {"x = (a - b)"}),
        ("x = a + 'text'", set()),
        ("x = 7", {"x = 8"}),
        ("x = True", {"x = False"}),
        ("if a: b = 'ü'", {"if (not (a)): b = 'ü'"}),
        ("a.b = 'ü', b", {"pass"}),
        ("a(b)", {"pass"}),
        ("'a docstring'", set()),
        ("assert a < b", set()),
        ("x = f'{a + b}'", set()),
    ],
)
def test_a_fault_changes_one_thing(line: str, faulty: set[str]) -> None:
    source = FUNCTION.format(line).encode()
    found = mutants.places("a.py", source, "room")
    assert {each.applied(source).decode() for each in found} == {FUNCTION.format(each) for each in faulty}
    assert all(list(each.lines) == [2] for each in found)
    for each in found:
        ast.parse(each.applied(source))


def test_what_is_outside_of_functions_is_left_alone() -> None:
    source = b"LIMIT = 7\nclass A:\n    x: int = 3\n    def f(self, n=5): ...\n"
    assert mutants.places("a.py", source, "room") == []


def test_a_sample_keeps_the_faults_of_the_base_and_replaces_those_that_are_gone(tmp_path: Path) -> None:
    def checkout(name: str, lines: int) -> Path:
        file = tmp_path / name / "host/callgate/plan/engine.py"
        file.parent.mkdir(parents=True)
        file.write_text("def act(a):\n" + "".join(f"    a({number})\n" for number in range(lines)))
        return tmp_path / name

    before = [each.key for each in mutants.sample(checkout("before", 300), 9, [])]
    assert len(before) == len(set(before)) == -(-mutants.SIZE // len(SAMPLE))
    after = [each.key for each in mutants.sample(checkout("after", 60), 9, before)]
    there = {each for each in before if int(each.split("a(")[1].split(")")[0]) < 60}
    assert there < set(after)
    assert len(after) == len(before)


GOOD: dict[str, Any] = {
    "coverage": {
        "commit": "1234567",
        "tests": {"passed": 9},
        "rooms": {name: {"percent": 90.0, "num_branches": 100} for name in ("plan", "callgate_bench")},
    },
    "mutation": {
        "rooms": {"engine": {"killed": 2, "tried": 3}},
        "mutants": {"engine | a": "a test", "engine | b": "a test", "engine | c": None},
    },
    "comparison": {"commit": "abc", "things": {"warm": {"base": 0.001, "now": 0.001, "ratio": 1.0, "slower": False}}},
}


@pytest.mark.parametrize(
    ("place", "value", "fallen"),
    [
        ("coverage rooms plan percent", 89.0, []),
        ("coverage rooms plan percent", 88.9, ["branch coverage of plan: 90.0 → 88.9 %"]),
        ("coverage rooms callgate_bench percent", 10.0, []),
        ("mutation rooms engine killed", 1, ["kills in engine: 2 of 3 → 1 of 3"]),
        ("mutation rooms engine tried", 2, ["kills in engine: 2 of 3 → 2 of 2"]),
        ("comparison things warm slower", True, ["slower: warm, 1.0 ×"]),
    ],
)
def test_what_has_fallen_is_told(place: str, value: Any, fallen: list[str]) -> None:
    now = deepcopy(GOOD)
    *keys, last = place.split()
    inner = now
    for key in keys:
        inner = inner[key]
    inner[last] = value
    text, found = report(GOOD, now, [], [])
    assert found == fallen
    assert all(line in text for line in fallen or ["Nothing has fallen"])


def test_where_faults_were_replaced_a_room_may_notice_a_standard_error_fewer() -> None:
    now = deepcopy(GOOD)
    now["mutation"]["mutants"] = {f"engine | {name}": None for name in "axy"}
    now["mutation"]["rooms"]["engine"]["killed"] = 1
    assert report(GOOD, now, [], [])[1] == ["kills in engine: 2 of 3 → 1 of 3"]
    now["mutation"]["mutants"] = {f"engine | {name}": None for name in "stuvwxyz"}
    assert report(GOOD, now, [], [])[1] == []


def test_a_row_of_the_table_without_a_test_is_told() -> None:
    text, fallen = report(GOOD, GOOD, [], ["a page: a promise: no test"])
    assert fallen == ["a page: a promise: no test"]
    assert fallen[0] in text


def test_durations_of_callgate_are_found_wherever_they_stand() -> None:
    rows = [{"measure": "a call", "numbers": {"ours": {"p10": 1, "p50": 2}, "peer": {"p10": 3, "p50": 4}}}]
    cells = [{"workload": "w", "contestant": "c", "rounds": [{"overhead_seconds": 5}, {"overhead_seconds": 7}]}]
    assert dict(figures({"rows": rows, "cells": cells})) == {
        "rows / a call / numbers / ours": 2,
        "cells / w / c / rounds": 6,
    }
