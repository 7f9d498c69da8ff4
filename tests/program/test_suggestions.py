"""Did you mean: near names only, in bounded time."""

from __future__ import annotations

import time

import pytest

from callgate.program.findings import nearest


@pytest.mark.parametrize(
    ("word", "known", "expected"),
    [
        ("getWeather", ["get_weather"], "get_weather"),
        ("get-weather", ["get_weather"], "get_weather"),
        ("get_wether", ["send", "get_weather"], "get_weather"),
        ("qqq", ["get_weather"], None),
        ("x", ["y"], None),
        ("", ["y"], None),
        ("word", [], None),
    ],
)
def test_the_nearest_name_or_none(word: str, known: list[str], expected: str | None) -> None:
    assert nearest(word, known) == expected


def test_the_time_is_bounded_whatever_is_known() -> None:
    known = [f"some_{number:06}_name" for number in range(200_000)]
    started = time.process_time()
    nearest("some_999999_nmae", known)
    nearest("x" * 10**6, known)
    assert time.process_time() - started < 2
