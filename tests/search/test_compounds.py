"""Words that were written together, taken apart by what tools say."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.search.compounds import begins_of, split, split_all
from callgate.search.words import stem, text_terms, words_of

SAID = frozenset(text_terms("get weather city send email mail currency converter stock price create calendar event"))
BEGINS = begins_of(SAID)


def parts(word: str) -> tuple[str, ...]:
    return split(word, SAID.__contains__, BEGINS)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("weatherbycity", ("weather", "city")),
        ("getweatherofthecity", ("get", "weather", "city")),
        ("sendemail", ("send", "email")),
        ("stockprices", ("stock", "prices")),
        ("currencyconverter", ("currency", "converter")),
        ("createcalendarevent", ("create", "calendar", "event")),
        ("citiesweather", ("cities", "weather")),
        ("weather", ()),
        ("weatherabc", ()),
        ("understand", ()),
        ("byofthe", ()),
        ("xqzjkvbw", ()),
        ("getgetgetgetgetgetget", ()),
        ("", ()),
    ],
)
def test_a_word_is_cut_into_what_tools_say(word: str, found: tuple[str, ...]) -> None:
    assert parts(word) == found


def taken_apart(query: str) -> dict[str, str]:
    return split_all(words_of(query), SAID.__contains__, lambda: BEGINS)


def test_only_words_that_no_tool_says_are_taken_apart_and_two_of_them_at_most() -> None:
    assert taken_apart("WeatherbyCity weather") == {"weather": "weather", "citi": "city"}
    assert taken_apart("send email weather") == {}
    assert taken_apart("4711 wetter-stadt weatherbycitÿ") == {}
    assert taken_apart("sendemail stockprice weatherbycity") == {
        "send": "send", "email": "email", "stock": "stock", "price": "price",
    }  # fmt: skip
    assert taken_apart("weathercity" * 3) == {}


@given(st.text(alphabet="getwharcisnd", min_size=1, max_size=32))
def test_the_parts_stand_in_the_word_in_order_and_are_said(word: str) -> None:
    found = parts(word)
    at = 0
    for part in found:
        at = word.index(part, at) + len(part)
        assert stem(part) in SAID
    assert len(found) != 1


def test_hostile_words_take_no_longer_than_their_bound_allows() -> None:
    everything = begins_of([a + b + c for a in "abcdef" for b in "abcdef" for c in "abcdef"])
    asked: list[str] = []

    def known(term: str) -> bool:
        asked.append(term)
        return True

    started = time.process_time()
    split_all({"x": "abcdef" * 5 + "ab", "y": "fedcba" * 10_000}, lambda _: False, lambda: everything)
    split("abcdef" * 5 + "ab", known, everything)
    assert time.process_time() - started < 3
    assert len(asked) < 32 * 32
