"""Queries that are like a new one: by shared words, in bounded time, the newest of equals first."""

from __future__ import annotations

import random
import time

from callgate.agent.learning.similar import MAX_CANDIDATES, MOST_ALIKE, Similar, terms_of


def of(*queries: str) -> Similar:
    similar = Similar()
    for number, query in enumerate(queries):
        similar.add(number, terms_of(query))
    return similar


def test_the_most_similar_comes_first_and_of_equals_the_newest() -> None:
    similar = of("weather in Paris", "stock price of Tesla", "weather in Rome", "what is the weather in Paris?")
    assert similar.like(terms_of("Weather in PARIS")) == [3, 0, 2]


def test_numbers_are_values_and_no_words() -> None:
    assert of("pay invoice 4711").like(terms_of("pay the invoice 1234")) == [0]
    assert of("4711").like(terms_of("4711")) == []


def test_what_is_forgotten_is_not_found_and_leaves_nothing_behind() -> None:
    similar = of("weather in Paris", "weather in Rome")
    similar.forget(0)
    assert similar.like(terms_of("weather in Paris")) == [1]
    similar.forget(1)
    assert (len(similar), similar.like(terms_of("weather")), similar._said) == (0, [], {})


def test_a_rare_word_finds_its_query_behind_thousands_that_share_the_common_ones() -> None:
    similar = of("weather in Reykjavik", *["weather today"] * (4 * MAX_CANDIDATES))
    found = similar.like(terms_of("weather Reykjavik"))
    assert found[0] == 0
    assert len(found) == MOST_ALIKE


def test_a_search_among_ten_thousand_is_quick() -> None:
    draw = random.Random(3)
    words = [f"w{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]}x" for n in range(100)]
    similar = of(*(" ".join(draw.choices(words, k=8)) for _ in range(10_000)))
    queries = [terms_of(" ".join(draw.choices(words, k=8))) for _ in range(50)]
    quickest = 1.0
    for query in queries:
        started = time.process_time()
        similar.like(query)
        quickest = min(quickest, time.process_time() - started)
    assert quickest < 0.005  # some 0.4 ms where nothing else runs
