"""The words for what is wrong, and that they stay few."""

from __future__ import annotations

from typing import Any

import pytest

from callgate.tools.faults import Fault, described, did_you_mean, path_text, sentence


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "true (a boolean)"),
        (False, "false (a boolean)"),
        (5, "5 (a number)"),
        (0.5, "0.5 (a number)"),
        ("5", '"5" (a string)'),
        ("x" * 100, '"' + "x" * 60 + '"... (a string of 100 characters)'),
        ({"a": 1}, "an object"),
        ([1], "an array of 1 item"),
        ([1, 2], "an array of 2 items"),
        (10**100, "a number of 333 bits"),
        (b"x", "a bytes"),
    ],
)
def test_a_value_is_described_in_few_words(value: Any, words: str) -> None:
    assert described(value) == words


def test_the_nearest_name_is_suggested() -> None:
    assert did_you_mean("getWeather", ["get_weather", "send_mail"]) == "; did you mean get_weather?"
    assert did_you_mean("zzz", ["get_weather"]) == ""


def test_no_time_is_spent_on_endless_words() -> None:
    assert did_you_mean("get_weather" * 10, ["get_weather" * 10]) == ""


def test_a_path_reads_like_python() -> None:
    assert path_text(["a", 0, "b c"], "result") == 'result.a[0]["b c"]'
    assert path_text(["a", "b"]) == "a.b"


def test_only_the_first_faults_are_spelled_out() -> None:
    faults = [Fault("a", f"fault {number}") for number in range(12)]
    assert sentence(faults).endswith("fault 9; and 2 more")
