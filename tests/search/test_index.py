"""What adds up to a tool's score."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from callgate.search.index import Index, Ranked
from callgate.search.lanes import STEP
from callgate.search.postings import Profile
from callgate.search.words import text_terms


def index(*tools: tuple[str, str | None]) -> Index:
    counted = [Counter(text_terms(text)) for text, _ in tools]
    return Index([Profile(counts, counts.total()) for counts in counted], [server for _, server in tools])


def places(found: list[Ranked]) -> list[int]:
    return [each.place for each in found]


def terms(query: str) -> dict[str, int]:
    return Counter(text_terms(query))


def test_the_tool_that_says_it_is_the_best() -> None:
    tools = index(("send an email", None), ("current weather", None), ("weather forecast", None))
    assert places(tools.rank(terms("weather forecast"), 10)) == [2, 1]


def test_a_tool_whose_server_says_it_goes_before_one_whose_server_does_not() -> None:
    tools = index(
        ("list entries", "files"), ("copy things", "files"),
        ("list entries", "weather"), ("weather forecast", "weather"), ("weather history", "weather"),
    )  # fmt: skip
    ranked = {each.place: each.score for each in tools.rank(terms("list weather"), 5)}
    assert ranked[2] > ranked[0]


def test_a_tool_without_a_server_loses_nothing_by_it() -> None:
    alone = index(("weather forecast", None), ("send mail", "mail"), ("read mail", "mail"), ("send files", "files"))
    (found,) = alone.rank(terms("weather forecast"), 1)
    assert found.server == found.own / 2


def test_one_server_tells_nothing() -> None:
    tools = index(("weather forecast", "all"), ("weather weather weather", "all"), ("mail", "all"))
    assert all(each.server == each.own / 2 for each in tools.rank(terms("weather"), 5))


def test_what_was_learned_is_added_and_brings_up_what_has_no_word_of_the_query() -> None:
    tools = index(("send an email", None), ("current weather", None))
    found = tools.rank(terms("is it raining"), 5, learned={1: 8.0})
    assert [(each.place, each.own, each.learned) for each in found] == [(1, 0.0, 4.0)]


def test_only_what_counts_is_found() -> None:
    tools = index(("weather one", None), ("weather two", None), ("weather three", None))
    assert places(tools.rank(terms("weather"), 5, among=tools.tools.mask([2]))) == [2]
    assert tools.rank(terms("weather"), 5, among=0) == []


def test_equals_stand_in_order_of_place_and_the_limit_holds() -> None:
    tools = index(*[("weather", None)] * 500)
    assert places(tools.rank(terms("weather"), 7)) == list(range(7))
    assert len(tools.rank(terms("weather"), 100)) == 100


def test_no_tools_and_no_words() -> None:
    assert Index([], []).rank({"a": 1}, 10) == []
    assert index(("a b", None)).rank({}, 10) == []


WORDS = [f"w{n}" for n in range(8)]


@given(
    st.lists(st.tuples(st.lists(st.sampled_from(WORDS), max_size=8), st.sampled_from([None, "a", "b"])), max_size=60),
    st.dictionaries(st.sampled_from(WORDS), st.integers(1, 3), max_size=5),
    st.integers(1, 20),
)
def test_the_order_is_that_of_the_scores_of_all(
    tools: list[tuple[list[str], str | None]], query: dict[str, int], limit: int
) -> None:
    ranked = index(*[(" ".join(words), server) for words, server in tools])
    everything = {each.place: each.score for each in ranked.rank(query, len(tools) + 1)}
    found = ranked.rank(query, limit)
    assert len(found) == min(limit, len(everything))
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    numbers = ranked.tools.sums(query).numbers
    most = max(numbers, default=0)
    assert {place for place, number in enumerate(numbers) if number > most // 128} <= set(everything)
    assert all(numbers[place] for place in everything)
    assert all(each.own == numbers[each.place] * STEP for each in found)
