"""Which names are likely meant."""

from __future__ import annotations

import time

import pytest

from callgate.tools.faults import did_you_mean, near

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


def test_a_mistyped_name_is_near_to_itself() -> None:
    for number, name in enumerate(TOOLS):
        for word in mistyped(name, 1 + number % (len(name) - 1)):
            suggested = did_you_mean(word, TOOLS)
            assert suggested == f"; did you mean {name}?" or word == name.partition("_")[2], (word, suggested)


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


def test_near_names_are_the_nearest_first_and_none_below_the_share() -> None:
    names = ["zz", "abcdxx", "abcd", "abcde"]
    assert near("ABCDE", names, 0.6, limit=9) == ["abcde", "abcd", "abcdxx"]
    assert near("abcde", names, 0.6, limit=2) == ["abcde", "abcd"]
    assert near("abcde", names, 1, limit=9) == ["abcde"]
    assert near("abcde", ["abcdx", "abcdy"], 0.6) == ["abcdx"]
    assert near("", names, 0.6) == near("abc", [], 0.6) == []


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
