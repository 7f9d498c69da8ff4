"""What earlier queries teach."""

from __future__ import annotations

import pytest

from callgate.search import learned as module
from callgate.search.learned import MAX_PER_TOOL, Learned, Lesson
from callgate.search.words import query_terms


def scores(learned: Learned, query: str) -> dict[str, float]:
    return learned.scores(query_terms(query))


def test_a_similar_query_points_to_the_tool_that_answered() -> None:
    learned = Learned()
    assert scores(learned, "umbrella") == {}
    learned.learn("Do I need an umbrella tomorrow?", "get_weather")
    learned.learn("what did we sell in spring", "query_sales")
    found = scores(learned, "umbrellas today")
    assert list(found) == ["get_weather"]
    assert found["get_weather"] > 0
    assert learned.words("get_weather", ["umbrella", "sell"]) == ["umbrella"]
    assert learned.words("unknown", ["umbrella"]) == []


def test_a_query_that_is_repeated_counts_once() -> None:
    learned = Learned()
    for query in ("Rain in Oslo", "rain in Oslo?", "oslo rains"):
        learned.learn(query, "get_weather")
    assert (len(learned), learned.of("get_weather"), learned.of("other")) == (1, 1, 0)


def test_numbers_and_long_words_are_not_kept_nor_the_order() -> None:
    learned = Learned()
    noted: list[Lesson] = []
    learned.on_note = noted.append
    learned.learn(f"pay invoice 4711 for Ada with key {'k' * 40}", "pay")
    assert noted == [("pay", ("ada", "invoic", "key", "pay"))]


@pytest.mark.parametrize(("query", "tool"), [("4711", "pay"), ("?!", "pay"), ("pay", ""), ("pay", "x" * 257)])
def test_what_teaches_nothing_is_passed_over(query: str, tool: str) -> None:
    learned = Learned()
    learned.learn(query, tool)
    assert len(learned) == 0


def test_each_tool_keeps_its_newest_lessons() -> None:
    learned = Learned()
    learned.learn("early bird", "a")
    learned.learn("other early bird", "b")
    for n in range(MAX_PER_TOOL):
        learned.learn(f"word{n}x", "a")
    assert learned.of("a") == MAX_PER_TOOL
    assert set(scores(learned, "early bird")) == {"b"}


def test_all_tools_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LESSONS", 50)
    learned = Learned()
    for n in range(200):
        learned.learn("the same words", f"tool{n}")
    assert len(learned) == 50
    assert learned.of("tool0") == 0
    assert set(scores(learned, "same words")) <= {f"tool{n}" for n in range(150, 200)}


def test_a_lesson_that_is_learned_again_is_the_newest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LESSONS", 2)
    learned = Learned()
    for query, tool in (("rain", "a"), ("snow", "b"), ("rain", "a"), ("hail", "c")):
        learned.learn(query, tool)
    assert [learned.of(tool) for tool in "abc"] == [1, 0, 1]


def test_few_lessons_count_at_once_and_many_when_2_of_100_are_new() -> None:
    learned = Learned()
    for n in range(1_000):
        learned.learn(f"word{n} thing", f"tool{n % 100}")
    assert scores(learned, "word7")
    learned.learn("umbrella", "tool1")
    assert scores(learned, "umbrella") == {}
    for n in range(20):
        learned.learn(f"more{n} thing", "tool2")
    assert list(scores(learned, "umbrella")) == ["tool1"]


def test_what_is_loaded_is_older_than_what_is_there() -> None:
    learned = Learned()
    learned.learn("new", "a")
    learned.load([("a", (f"old{n}",)) for n in range(MAX_PER_TOOL)])
    assert learned.of("a") == MAX_PER_TOOL
    assert "a" in scores(learned, "new")
    assert scores(learned, "old0") == {}
