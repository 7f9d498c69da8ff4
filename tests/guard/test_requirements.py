"""The table of what a user can see names a test for every behaviour, and the tests are there."""

from __future__ import annotations

from pathlib import Path

from requirements import Requirement, faults, read

HERE = f"tests/guard/{Path(__file__).name}"


def test_every_behaviour_has_tests_and_they_are_there() -> None:
    table = read()
    assert len(table) > 300
    assert faults(table) == []


def test_a_row_without_a_test_and_a_test_that_is_gone_are_told() -> None:
    rows = [
        Requirement("A page", "nothing holds this", ()),
        Requirement("A page", "a file is gone", ("tests/guard/test_gone.py::test_a",)),
        Requirement("A page", "a test is gone", (f"{HERE}::test_gone",)),
        Requirement("A page", "all is there", (HERE, f"{HERE}::test_every_behaviour_has_tests_and_they_are_there")),
    ]
    assert faults(rows) == [
        "A page: nothing holds this: no test",
        "A page: a file is gone: there is no tests/guard/test_gone.py::test_a",
        f"A page: a test is gone: there is no {HERE}::test_gone",
    ]
