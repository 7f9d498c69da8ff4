"""Which names are likely meant: the same that a comparison with all of them finds, in a fraction of its time."""

from __future__ import annotations

import difflib
import time

import pytest

from callgate.tools.faults import did_you_mean
from callgate.tools.nearness import likely

TOOLS = [
    f"{server}_{verb}_{noun}"
    for server in ("github", "slack", "jira")
    for verb in ("get", "list", "create", "update", "delete", "search", "send")
    for noun in ("issue", "pull_request", "repository", "message", "file", "folder", "event", "user", "team")
]
LONG = [f"server_{number % 9}_get_some_longer_name_of_a_tool_number_{number}" for number in range(10_000)]


def mistyped(name: str, place: int) -> list[str]:
    """The name with a letter too few, one too many, another one, two in the wrong order, and without its server."""
    before, here, after = name[:place], name[place], name[place + 1 :]
    swapped = before[:-1] + here + before[-1:] + after
    return [before + after, before + "x" + here + after, before + "x" + after, swapped, name.partition("_")[2]]


def test_what_is_suggested_is_what_a_comparison_with_all_names_finds() -> None:
    for number, name in enumerate(TOOLS[::7]):
        for word in mistyped(name, 1 + number % (len(name) - 1)):
            nearest = difflib.get_close_matches(word, TOOLS, n=1)
            assert did_you_mean(word, TOOLS) == (f"; did you mean {nearest[0]}?" if nearest else ""), word


@pytest.mark.parametrize(
    ("word", "known", "meant"),
    [
        ("getWeather", ["get_weather"], "get_weather"),
        ("lta", ["lat", "lon"], "lat"),
        ("github.createIssue", [*TOOLS, "other"], "github_create_issue"),
        ("GITHUB_CREATE_ISUE", TOOLS, "github_create_issue"),
        ("météo_du_jour", [*TOOLS, "meteo_du_jour"], "meteo_du_jour"),
    ],
)
def test_ways_to_write_a_name_wrong(word: str, known: list[str], meant: str) -> None:
    assert did_you_mean(word, known) == f"; did you mean {meant}?"


def test_only_names_of_the_lengths_asked_for_are_likely() -> None:
    names = ["abc", "abcd", "abcde", "abcdef", *(f"zzzz{number}" for number in range(20))]
    assert set(likely("abcde", names, 4, 5)) == {"abcd", "abcde"}
    assert set(likely("abcde", names[:4], 4, 5)) == {"abcd", "abcde"}
    assert likely("abcde", names, 100, 200) == []
    assert likely("", [], 0, 5) == []


def test_a_hundred_wrong_names_among_ten_thousand_take_no_time() -> None:
    started = time.process_time()
    for number in range(100):
        assert did_you_mean(f"server_x_get_some_longer_name_of_a_tool_numbr_{number}", LONG)
    assert time.process_time() - started < 2


def test_names_that_have_nothing_in_common_are_no_more_work() -> None:
    letters = [chr(0x4E00 + number) for number in range(20_000)]
    names = ["".join(letters[number : number + 64]) for number in range(10_000)]
    started = time.process_time()
    assert did_you_mean(names[5000][:30] + names[5000][31:], names) == f"; did you mean {names[5000]}?"
    assert did_you_mean("\ud800", names) == ""
    assert time.process_time() - started < 3
