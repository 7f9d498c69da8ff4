"""Regular expressions from a model: linear in time, bounded in size, refused in words."""

from __future__ import annotations

import time

import pytest

from callgate.errors import InvalidArguments
from callgate.search.patterns import MAX_PATTERN_CHARACTERS, Pattern


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("weather|sales", "get_weather", True),
        ("^get_", "forget_it", False),
        ("GET", "get_weather", True),
        ("météo", "La Météo", True),
        (r"\bsales\b", "query_sales now", False),
        (r"sales_\d+$", "sales_12", True),
    ],
)
def test_it_finds(pattern: str, text: str, found: bool) -> None:
    assert Pattern(pattern).found_in(text.encode()) is found


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("", "the regular expression is empty; write e.g. 'weather|forecast'"),
        ("[", "the regular expression cannot be used: missing ]: [ (re2's syntax, "),
        ("(?=a)", "the regular expression cannot be used: invalid perl operator: (?= (re2's syntax, without look-"),
        (r"(a)\1", r"the regular expression cannot be used: invalid escape sequence: \1 (re2's syntax, without "),
        ("\ud800", "the regular expression is not valid text"),
        ("x" * 201, "the regular expression has 201 characters, at most 200 are allowed; shorten it, or search with"),
        (r"((\pL{30}){30}){30}", "the regular expression cannot be used: "),
    ],
)
def test_what_cannot_be_used_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(InvalidArguments) as refusal:
        Pattern(pattern)
    assert refusal.value.message.startswith(why)
    assert len(refusal.value.message) < 500


def test_patterns_that_take_others_for_ever_take_no_time() -> None:
    started = time.process_time()
    for pattern in ("(a+)+$", "(a|aa)*c$", "(.*)*x(.*)*y", "(a?){90}a{90}"):
        assert len(pattern) <= MAX_PATTERN_CHARACTERS
        assert not Pattern(pattern).found_in(b"a" * 60 + b"!" * 4_000)
    assert time.process_time() - started < 3
