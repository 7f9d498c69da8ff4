"""Text into words."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.search.words import MAX_QUERY_TERMS, MAX_TEXT_CHARACTERS, pieces, query_terms, text_terms, words_of


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("getHTTPStatus", ["get", "http", "status", "gethttpstatus"]),
        ("create_pull_request", ["creat", "pull", "request"]),
        ("github.create-issue", ["github", "creat", "issu"]),
        ("OAuth2Token", ["o", "auth", "2", "token", "oauth2token"]),
        ("IPv4 addresses", ["pv", "4", "ipv4", "address"]),
        ("weather weathers WEATHER", ["weather"] * 3),
        ("the current state of it", ["current", "state"]),
        ("Café CAFE", ["cafe"] * 2),
        ("ＷＥＡＴＨＥＲ", ["weather"]),
        ("東京の天気", ["東京", "京の", "の天", "天気"]),
        ("天", ["天"]),
        ("GDP中国data", ["gdp", "中国", "data"]),
        ("날씨를", ["날씨", "씨를"]),
        ("clima en Cancún", ["clima", "en", "cancun"]),
        ("", []),
        ("--- ___ !!", []),
    ],
)
def test_text_becomes_terms(text: str, terms: list[str]) -> None:
    assert list(text_terms(text)) == terms


def test_the_whole_of_a_name_is_found_by_those_who_do_not_write_it_in_two() -> None:
    assert list(text_terms("YouTube"))[-1:] == list(text_terms("youtube"))


def test_a_query_counts_its_terms_and_knows_the_words_they_came_from() -> None:
    query = "Please convert currencies; converting Currency"
    assert query_terms(query) == {"convert": 2, "currenc": 2}
    assert words_of(query) == {"convert": "convert", "currenc": "currencies"}


def test_a_query_of_stop_words_alone_keeps_them() -> None:
    assert query_terms("what is it") == {"what": 1, "is": 1, "it": 1}
    assert words_of("What is it") == {"what": "What", "is": "is", "it": "it"}
    assert query_terms("?!") == {}


def test_long_queries_and_long_words_are_bounded() -> None:
    assert len(query_terms(" ".join(f"w{n}" for n in range(10_000)))) == MAX_QUERY_TERMS
    assert query_terms("a" * 100_000) == {}
    assert len(list(text_terms("word " * 1_000_000))) == MAX_TEXT_CHARACTERS // 5
    assert pieces("x" * 65) == ()


def test_hostile_text_takes_no_longer_than_its_bound_allows() -> None:
    for text in ("aB" * 10_000_000, "A" * 20_000_000, "天" * 5_000_000, "e\u0301" * 5_000_000):
        started = time.process_time()
        list(text_terms(text))
        query_terms(text)
        assert time.process_time() - started < 3


@given(st.text())
def test_any_text_will_do(text: str) -> None:
    terms = list(text_terms(text))
    assert all(terms)
    assert list(text_terms(text)) == terms
    assert len(query_terms(text)) <= MAX_QUERY_TERMS
