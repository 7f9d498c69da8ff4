"""BM25 in lanes, held against BM25 in floats."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callgate.search import postings as module
from callgate.search.lanes import MOST, STEP
from callgate.search.postings import Postings, Profile

WORDS = [f"w{n}" for n in range(12)]
documents = st.lists(st.lists(st.sampled_from(WORDS), max_size=30), min_size=1, max_size=120)
queries = st.dictionaries(st.sampled_from([*WORDS, "unknown"]), st.integers(1, 9), max_size=12)


def profiles(texts: list[list[str]]) -> list[Profile]:
    return [Profile(Counter(text), len(text)) for text in texts]


def plain(texts: list[list[str]], query: dict[str, int]) -> list[float]:
    """BM25 as its authors write it."""
    mean = sum(map(len, texts)) / len(texts) or 1.0
    scores = [0.0] * len(texts)
    for word, times in query.items():
        having = sum(word in text for text in texts)
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for place, text in enumerate(texts):
            if n := text.count(word):
                norm = 2.0 * (0.25 + 0.75 * len(text) / mean)
                scores[place] += round(2 * min(times, 6) ** 0.5) / 2 * rarity * n * 3.0 / (n + norm)
    return scores


@given(documents, queries)
def test_the_sums_are_those_of_the_formula(texts: list[list[str]], query: dict[str, int]) -> None:
    found = Postings(profiles(texts)).sums(query).numbers
    for number, score in zip(found, plain(texts, query), strict=True):
        # each word is rounded to half a step, twice that is added, times 2.5 for a word that is repeated
        assert abs(number * STEP - score) <= STEP * 2.5 * max(1, len(query))


@given(documents, queries, st.data())
def test_a_mask_leaves_the_others_out(texts: list[list[str]], query: dict[str, int], data: st.DataObject) -> None:
    postings = Postings(profiles(texts))
    among = data.draw(st.sets(st.integers(0, len(texts) - 1)))
    everything = postings.sums(query).numbers
    some = postings.sums(query, postings.mask(among)).numbers
    assert list(some) == [number if place in among else 0 for place, number in enumerate(everything)]


def test_a_sum_that_would_overflow_leaves_words_out_and_spoils_no_neighbour() -> None:
    words = [f"only{n}" for n in range(2_000)]
    postings = Postings([Profile(dict.fromkeys(words, 1_000), 10), *[Profile({"x": 1}, 1_000)] * 3_000])
    numbers = postings.sums(dict.fromkeys(words, 6)).numbers
    assert MOST * 0.85 < numbers[0] <= MOST
    assert not any(numbers[1:])


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [[word for word in WORDS if place % 2 or word != "w0"] for place in range(100)]
    postings = Postings(profiles(texts))
    expected = list(postings.sums({"w0": 1, "w1": 2}).numbers)
    monkeypatch.setattr(module, "_MAX_LANES_BYTES", 500)
    for word in WORDS:
        postings.sums({word: 1})
        assert postings._kept_bytes <= 500
    assert list(postings.sums({"w0": 1, "w1": 2}).numbers) == expected


def test_words_that_nothing_has_are_not_kept() -> None:
    postings = Postings(profiles([["a"]]))
    postings.sums({f"unknown{n}": 1 for n in range(100)})
    assert not postings._postings


def test_no_documents() -> None:
    assert list(Postings(()).sums({"a": 1}).numbers) == []


def test_it_knows_who_has_a_word() -> None:
    postings = Postings(profiles([["a"], ["b"]]))
    assert [postings.has("a", place) for place in (0, 1)] == [True, False]
    assert not postings.has("c", 0)


def test_the_share_of_a_query_that_a_document_has_goes_by_the_rarity_of_words() -> None:
    postings = Postings(profiles([["rare", "often"], ["often"], ["often"]]))
    assert postings.share(["often", "rare"], 0) == 1
    assert 0 < postings.share(["often", "rare"], 1) < 0.3
    assert postings.share(["often", "unknown"], 0) < postings.share(["often", "rare"], 1)
    assert postings.share(["unknown"], 0) == 0
