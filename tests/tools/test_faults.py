"""The words for a wrong value, which stay few, and the names that were probably meant."""

from __future__ import annotations

import time
from typing import Any

import pytest

from callgate.tools.faults import Fault, described, did_you_mean, near, path_text, sentence


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


def test_a_path_reads_like_python() -> None:
    assert path_text(["a", 0, "b c"], "result") == 'result.a[0]["b c"]'
    assert path_text(["a", "b"]) == "a.b"


def test_only_the_first_faults_are_spelled_out() -> None:
    faults = [Fault("a", f"fault {number}") for number in range(12)]
    assert sentence(faults).endswith("fault 9; and 2 more")


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


def test_a_name_that_is_not_similar_is_not_suggested_and_neither_is_one_for_an_endless_word() -> None:
    assert did_you_mean("zzz", ["get_weather"]) == ""
    assert did_you_mean("get_weather" * 10, ["get_weather" * 10]) == ""


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
