"""Places of faults become lines and columns, of whatever text there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.cli.plan_places import line_and_column

PLAN = """{
  "steps": [
    {"id": "a", "tool": "t", "args": {"city": [1, {"x y": true}]}},
    {"id": "b",
     "arguments": "{\\"city\\": 1}", "timeout": 3}
  ]
}"""


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("steps", (2, 12)),
        ("steps[0]", (3, 5)),
        ("steps[0].tool", (3, 25)),
        ("steps[0].arguments", (3, 38)),
        ("steps[0].arguments.city", (3, 47)),
        ('steps[0].arguments.city[1]["x y"]', (3, 59)),
        ("steps[0].arguments.missing", (3, 38)),
        ("steps[1].arguments.city", (5, 19)),
        ("steps[9]", (2, 12)),
        ("nowhere", None),
    ],
)
def test_a_place_is_that_of_its_value_or_of_the_nearest_one_around_it(
    place: str, expected: tuple[int, int] | None
) -> None:
    assert line_and_column(PLAN, place) == expected


def test_a_plan_under_the_key_plan_is_found_too() -> None:
    assert line_and_column('{"plan": {"steps": [1]}}', "steps[0]") == (1, 21)


def test_of_what_is_no_json_the_place_is_where_that_shows() -> None:
    assert line_and_column('{"a": 1,\n "b" 2}', "") == (2, 6)
    assert line_and_column('{"a": 1}', "") is None


@given(st.text(alphabet='{}[]":, \nsteps0plan\\') | st.just("[" * 100_000), st.sampled_from(["", "steps[0].a", "a"]))
def test_no_text_is_too_odd(text: str, place: str) -> None:
    found = line_and_column(text, place)
    assert found is None or (found[0] >= 1 and found[1] >= 1)
