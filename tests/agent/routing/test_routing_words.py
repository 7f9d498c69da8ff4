"""The word rules: each matches what it says that it matches; hostile words take no longer than others."""

from __future__ import annotations

import time

import pytest

from callgate.agent.routing.words import SIGNS, WORD_RULES, WordRule, acts_in, items_in, plain, signs_in


def signs(task: str) -> set[str]:
    return {rule.sign for rule in signs_in(task)}


@pytest.mark.parametrize("rule", WORD_RULES, ids=lambda rule: rule.name)
def test_every_rule_matches_its_own_words(rule: WordRule) -> None:
    assert rule in signs_in(rule.like)


def test_rules_have_names_of_their_own_and_every_sign_has_a_rule() -> None:
    assert len({rule.name for rule in WORD_RULES}) == len(WORD_RULES)
    assert {rule.sign for rule in WORD_RULES} == set(SIGNS)


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("What's the weather in Tokyo?", set()),
        ("List compute metrics, query CPU usage, and check if it's above 80%", {"dependent"}),
        ("If the error rate is high, check logs; if low, check latency", {"judgement"}),
        ("Find out why checkout is slow", {"judgement"}),
        ("List all files in the folder", set()),
        ("Send the text 'and then investigate why each of them fails' to Ana", set()),
        ("Calculate the age, then run it with the calculated age as its argument", {"dependent"}),
        ("Sum the orders of every customer", {"repetition"}),
        ("How many orders did every customer place? Add up the sums of each of them", {"repetition", "arithmetic"}),
        ("", set()),
    ],
)
def test_words_are_signs(task: str, expected: set[str]) -> None:
    assert signs(task) == expected


@pytest.mark.parametrize(
    ("task", "acts"),
    [
        ("Convert 100 USD to EUR", 1),
        ("Convert 100 USD to EUR and translate 'and book' to French", 2),
        ("Find a hotel, then book a room, and finally send me the address.", 3),
        ("What is the capital of Australia, what is the population of Canada, and who rules Brazil?", 3),
        ("Hello", 0),
    ],
)
def test_acts_are_counted_by_their_verbs(task: str, acts: int) -> None:
    assert acts_in(task) == acts


@pytest.mark.parametrize(
    ("task", "items"),
    [
        ("Which of Stockholm, Athens and Lisbon is the warmest?", 3),
        ("The factorial of 5, 7 and 9", 3),
        ("Compare Tokyo and London", 2),
        ("compare this and that", 0),
        ("Weather in Tokyo", 0),
    ],
)
def test_an_enumeration_is_counted(task: str, items: int) -> None:
    assert items_in(task) == items


@pytest.mark.parametrize(
    "text",
    [
        "A, " * 100_000, "A and " * 100_000, "find " * 100_000, "a" * 1_000_000, "'" * 1_000_000, "[" * 1_000_000,
        "if " * 100_000, "if find book and then please also " * 10_000, "which a a employee " * 10_000,
        "\x00ſİ\ud800" * 9_000,
    ],
)  # fmt: skip
def test_hostile_words_are_read_in_linear_time(text: str) -> None:
    began = time.process_time()
    signs_in(text), acts_in(text), items_in(text)
    assert time.process_time() - began < 2.0  # about 0.05; a pattern that went quadratic would take minutes


def test_only_so_much_of_a_task_is_read() -> None:
    assert len(plain("word " * 1_000_000)) <= 8_000
    assert len(plain("w" * 1_000_000)) <= 8_000


@pytest.mark.parametrize("material", ["lorem ipsum " * 700, "lorem ipsum " * 100_000, "lorem\n\n\n\n" * 2_000])
def test_what_is_to_be_done_is_read_before_and_behind_long_material(material: str) -> None:
    asked = "For each of the customers get the orders, and add up Paris, Rome and Oslo."
    for task in (f"{asked}\n{material}", f"{material}\n{asked}"):
        assert {rule.sign for rule in signs_in(task)} >= {"repetition", "arithmetic"}
        assert (acts_in(task) > 0, items_in(task)) == (True, 3)


def test_a_program_that_must_not_be_written_is_no_sign() -> None:
    for words in ("Do not write a program.", "Don't run some code.", "Never write a script."):
        assert "program" not in {rule.name for rule in signs_in(words)}
    assert "program" in {rule.name for rule in signs_in("Please write a script.")}
