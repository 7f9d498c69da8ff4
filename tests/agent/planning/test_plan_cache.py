"""Selections used again: for which queries, for which not, and never with another query's values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.planning.rulebook import decomposed, rulebook
from callgate.agent.planning.decomposition import as_one_part
from callgate.agent.planning.plan_cache import Kept, PlanCache, fingerprint
from callgate.agent.planning.query_tokens import MAX_QUERY_CHARACTERS, tokens_of
from callgate.agent.planning.tool_plan import DecomposedQuery, Selection, SubQuery, ToolChoice
from callgate.tools import tool


@tool(read_only=True)
async def weather(city: str, days: int = 1, unit: str = "celsius") -> str:
    """The weather."""
    return city


@tool(read_only=True)
async def convert(
    amount: float, source: str, target: str, exact: bool = False, tags: dict[str, str] | None = None
) -> str:
    """Convert."""
    return source


RUNTIME = rulebook(weather, convert)
TOOLS = [RUNTIME.registry.info(name) for name in RUNTIME.registry.names()]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def selected(tool_name: str, /, **parameters: Any) -> Selection:
    choice = ToolChoice(sub_query=0, tool=tool_name, parameters=parameters, reasoning="for this one")
    return Selection(chain=(choice,), reasoning="because of Oslo", strategy="model")


def kept(cache: PlanCache, query: str | DecomposedQuery, selection: Selection) -> int | None:
    given = isinstance(query, DecomposedQuery)
    whole = query if isinstance(query, DecomposedQuery) else as_one_part(query)
    return cache.keep(whole, selection, TOOLS, "tools", given=given)


def found(cache: PlanCache, query: str | DecomposedQuery) -> Kept | None:
    given = query if isinstance(query, DecomposedQuery) else None
    return cache.find(given.query if given else str(query), given, "tools", "model")


def parameters(cache: PlanCache, query: str | DecomposedQuery) -> dict[str, Any] | None:
    one = found(cache, query)
    return None if one is None else dict(one.selection.chain[0].parameters)


def reused(query: str, selection: Selection, other: str) -> dict[str, Any] | None:
    """What the tool is called with for another query, where the selection of the first one is used."""
    cache = PlanCache()
    kept(cache, query, selection)
    return parameters(cache, other)


SAME = [
    ("What is the weather in Oslo?", "what is the weather in Oslo"),
    ("What is the weather in Oslo?", "Please, what is  weather in Oslo!"),
    ("Compare the weather in Oslo", "Comparing weather in Oslo."),
    ("weather in Oslo", "Weather in Oslo"),
]


@pytest.mark.parametrize(("query", "other"), SAME)
def test_case_punctuation_courtesies_and_endings_make_no_other_query(query: str, other: str) -> None:
    assert reused(query, selected("weather", city="Oslo"), other) == {"city": "Oslo"}


@pytest.mark.parametrize(
    ("query", "given", "other", "expected"),
    [
        ("Weather in Oslo", {"city": "Oslo"}, "Weather in Rome", {"city": "Rome"}),
        ("Weather in Oslo", {"city": "Oslo"}, "Weather in New York", {"city": "New York"}),
        ("Weather in Oslo", {"city": "oslo"}, "Weather in Rome", {"city": "rome"}),
        ("Oslo for 14 days", {"city": "Oslo", "days": 14}, "Oslo for 30 days", {"city": "Oslo", "days": 30}),
        ("Weather in Oslo", {"city": "Weather in Oslo"}, "Weather in Rome", {"city": "Weather in Rome"}),
        ('Weather in "San Jose"', {"city": "San Jose"}, 'Weather in "the big city"', {"city": "the big city"}),
        ("books on C++", {"city": "C++"}, "books on C#", {"city": "C#"}),
        ("Weather at OSL-1", {"city": "OSL-1"}, "Weather at JFK-22", {"city": "JFK-22"}),
        ("now in Oslo", {"city": "Oslo", "days": 1}, "now in Rome", {"city": "Rome", "days": 1}),
        ("Weather in Oslo", {"city": "$ref:c1.name"}, "Weather in Oslo", {"city": "$ref:c1.name"}),
    ],
)  # fmt: skip
def test_other_values_are_put_in(query: str, given: dict[str, Any], other: str, expected: dict[str, Any]) -> None:
    assert reused(query, selected("weather", **given), other) == expected


NOT_THE_SAME = [
    pytest.param("Weather in Oslo", {"city": "Oslo"}, "Weather not in Oslo", id="a negation"),
    pytest.param("trains from Oslo to Rome", {"city": "Oslo"}, "trains to Oslo from Rome", id="another order"),
    pytest.param("lights on", {"city": "lights"}, "lights off", id="a small word"),
    pytest.param("Weather in Oslo", {"city": "Oslo"}, "Weather in oslo fjord", id="more words"),
    pytest.param("Weather in Oslo", {"city": "Norway"}, "Weather in Rome", id="a value worked out"),
    pytest.param("Weather in Oslo", {"city": "Oslo, Norway"}, "Weather in Rome", id="a value half worked out"),
    pytest.param("Weather in Oslo", {"city": "Oslo", "days": 7}, "Weather in Rome", id="a number from nowhere"),
    pytest.param("Weather in Oslo", {"city": "Oslo", "unit": "kelvin"}, "Weather in Rome", id="a text from nowhere"),
    pytest.param("Weather of Oslo by Ibsen", {"city": "Oslo"}, "Weather of Oslo by Hamsun", id="a value no tool gets"),
    pytest.param("in Oslo on 5 days", {"city": "Oslo", "days": 5}, "in Oslo on 6 days", id="a small number"),
    pytest.param("in Oslo for 14 days", {"city": "Oslo", "days": 14}, "in Oslo for 14.5 days", id="no whole number"),
    pytest.param("Weather in Oslo or Oslo", {"city": "Oslo"}, "Weather in Rome or Bern", id="one value for two"),
    pytest.param("New York or New York", {"city": "New York"}, "New York or Oslo", id="a value in two places"),
    pytest.param("What is 5!", {"city": "5!"}, "What is 5?", id="a factorial"),
    pytest.param("books on c++", {"city": "c++"}, "books on c#", id="signs"),
    pytest.param("parents of Bob", {"city": "Bob"}, "parents of Bob's", id="a possessive"),
    pytest.param("vitamin a deficiency", {"city": "vitamin a"}, "vitamin deficiency", id="a letter that is no article"),
    pytest.param("about hoping", {"city": "wishing"}, "about hope", id="one stem, two words"),
    pytest.param("polish tables", {"city": "tables"}, "Show Polish tables", id="a name and a word"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "given", "other"), NOT_THE_SAME)
def test_what_is_not_the_same_is_not_used(query: str, given: dict[str, Any], other: str) -> None:
    assert reused(query, selected("weather", **given), other) is None


def test_words_of_one_stem_are_put_in_as_the_query_has_them() -> None:
    assert reused("about hoping", selected("weather", city="hoping"), "about hope") == {"city": "hope"}


def test_flags_and_keys_that_nothing_explains_are_for_the_same_words_alone() -> None:
    flag = selected("convert", amount=50, source="EUR", target="USD", exact=True)
    assert reused("Convert 50 EUR to USD", flag, "Convert 60 EUR to USD") is None
    assert reused("Convert 50 EUR to USD", flag, "convert 50 EUR to USD!") is not None
    keys = selected("convert", amount=50, source="EUR", target="USD", tags={"EUR": "USD"})
    assert reused("Convert 50 EUR to USD", keys, "Convert 50 GBP to USD") is None
    plain = selected("convert", amount=50, source="EUR", target="USD", exact=False)
    assert reused("Convert 50 EUR to USD", plain, "Convert 60 CHF to GBP") == {
        "amount": 60, "source": "CHF", "target": "GBP", "exact": False,
    }  # fmt: skip


def test_what_was_worked_out_from_the_day_is_not_kept() -> None:
    cache = PlanCache()
    assert kept(cache, "Weather in Oslo tomorrow", selected("weather", city="2026-11-23")) is None
    assert kept(cache, "Weather in Oslo tomorrow", selected("weather", city="Oslo, tomorrow")) is not None
    assert parameters(cache, "Weather in Rome tomorrow") == {"city": "Rome, tomorrow"}


def test_the_reasoning_of_another_query_is_not_told() -> None:
    cache = PlanCache()
    kept(cache, "Weather in Oslo", selected("weather", city="Oslo"))
    other, same = found(cache, "Weather in Rome"), found(cache, "Weather in Oslo")
    assert other is not None
    assert same is not None
    assert "Oslo" not in other.selection.reasoning + other.selection.chain[0].reasoning
    assert same.selection.reasoning == "because of Oslo"


def test_a_decomposition_is_kept_with_its_values() -> None:
    cache = PlanCache()
    query = DecomposedQuery(query="Oslo vs Rome", sub_queries=(SubQuery(text="Oslo"), SubQuery(text="Rome")))
    choices = tuple(
        ToolChoice(sub_query=place, tool="weather", parameters={"city": part.text})
        for place, part in enumerate(query.sub_queries)
    )
    cache.keep(query, Selection(chain=choices, strategy="model"), TOOLS, "tools", given=False)
    assert found(cache, "Bern vs Paris") is None  # the first word of a sentence may be a word
    one = found(cache, "Oslo vs Paris")
    assert one is not None
    assert [part.text for part in one.query.sub_queries] == ["Oslo", "Paris"]
    assert [choice.parameters for choice in one.selection.chain] == [{"city": "Oslo"}, {"city": "Paris"}]


def test_a_decomposition_in_other_words_is_for_the_same_query_alone() -> None:
    cache = PlanCache()
    query = DecomposedQuery(query="Is it cold in Oslo", sub_queries=(SubQuery(text="temperature of Oslo"),))
    cache.keep(query, selected("weather", city="Oslo"), TOOLS, "tools", given=False)
    assert found(cache, "Is it cold in Rome") is None
    assert found(cache, "is it cold in Oslo?") is not None


def test_a_callers_own_decomposition_is_part_of_the_question() -> None:
    cache = PlanCache()
    first = decomposed("Oslo or Rome", "weather in Oslo", "weather in Rome")
    kept(cache, first, selected("weather", city="weather in Oslo"))
    assert found(cache, "Oslo or Rome") is None
    assert found(cache, decomposed("Oslo or Rome", "weather in Oslo", "humidity of Rome")) is None
    needing = SubQuery(text="weather in Rome", depends_on=(0,))
    assert found(cache, decomposed("Oslo or Rome", "weather in Oslo", needing)) is None
    other = decomposed("Oslo or Bern", "weather in Oslo", "weather in Bern", confidence=0.7)
    one = found(cache, other)
    assert one is None or one.query is other
    again = found(cache, first)
    assert again is not None
    assert again.query is first


def test_another_catalogue_or_strategy_is_another_question() -> None:
    cache = PlanCache()
    kept(cache, "Weather in Oslo", selected("weather", city="Oslo"))
    assert cache.find("Weather in Oslo", None, "other tools", "model") is None
    assert cache.find("Weather in Oslo", None, "tools", "another") is None
    assert cache.find("Weather in Oslo", None, "tools", "model") is not None


def test_a_catalogue_is_the_same_for_the_same_tools_in_any_order() -> None:
    assert fingerprint(TOOLS) == fingerprint(TOOLS[::-1])
    assert fingerprint(TOOLS) == fingerprint([replace(TOOLS[0], calls=9, failure_rate=0.5), TOOLS[1]])
    changed = [
        replace(TOOLS[0], description="x"), replace(TOOLS[0], parameters={}), replace(TOOLS[0], capabilities=("x",)),
    ]  # fmt: skip
    assert len({fingerprint([each, TOOLS[1]]) for each in changed} | {fingerprint(TOOLS), fingerprint(TOOLS[:1])}) == 5


def test_it_counts_hits_and_misses() -> None:
    cache = PlanCache()
    assert cache.hit_rate is None
    found(cache, "Weather in Oslo")
    kept(cache, "Weather in Oslo", selected("weather", city="Oslo"))
    found(cache, "Weather in Oslo")
    found(cache, "Weather in Rome")
    assert (cache.hits, cache.misses) == (2, 1)
    assert cache.hit_rate == pytest.approx(2 / 3)


def test_what_is_too_old_is_not_used() -> None:
    clock = Clock()
    cache = PlanCache(seconds=60, clock=clock)
    kept(cache, "Weather in Oslo", selected("weather", city="Oslo"))
    clock.now = 59.9
    assert found(cache, "Weather in Oslo") is not None
    clock.now = 60
    assert found(cache, "Weather in Oslo") is None
    assert len(cache) == 0


def test_of_too_many_the_one_goes_that_was_not_used_longest() -> None:
    cache = PlanCache(2)
    for word in ("snow", "rain"):
        kept(cache, f"{word} in Oslo", selected("weather", city="Oslo"))
    assert found(cache, "snow in Oslo") is not None
    kept(cache, "wind in Oslo", selected("weather", city="Oslo"))
    assert found(cache, "rain in Oslo") is None
    assert found(cache, "snow in Oslo") is not None
    assert len(cache) == 2
    nothing = PlanCache(0)
    assert kept(nothing, "snow in Oslo", selected("weather", city="Oslo")) is None


def test_many_selections_of_one_shape_do_not_fill_it() -> None:
    cache = PlanCache(1000)
    for number in range(50):
        kept(cache, f"Weather in City{number}", selected("weather", city="somewhere"))
    assert len(cache) == 8
    kept(cache, "Weather in City49", selected("weather", city="elsewhere"))
    assert len(cache) == 8
    assert parameters(cache, "Weather in City49") == {"city": "elsewhere"}


def test_what_failed_is_dropped() -> None:
    cache = PlanCache()
    key = kept(cache, "Weather in Oslo", selected("weather", city="Oslo"))
    assert key is not None
    cache.note_plan("p1", key)
    assert cache.failed("p1")
    assert not cache.failed("p1")
    assert not cache.failed("p2")
    assert found(cache, "Weather in Oslo") is None


@pytest.mark.parametrize("query", ["", "?!", "x" * (MAX_QUERY_CHARACTERS + 1), "word " * 300])
def test_what_is_no_question_is_not_kept(query: str) -> None:
    cache = PlanCache()
    assert kept(cache, query, selected("weather", city="Oslo")) is None
    assert found(cache, query) is None


def test_long_parameters_are_not_kept() -> None:
    cache = PlanCache()
    assert kept(cache, "Weather in Oslo", selected("weather", city="x" * 20_000)) is None


def test_tokens_tell_values_from_words() -> None:
    tokens = tokens_of(
        'Please show the flights, from New York to "Los Angeles" on 2026-01-05 for 20 people, Bob\'s too'
    )
    assert tokens is not None
    assert [(token.text, token.kind) for token in tokens] == [
        ("show", "word"), ("flights", "word"), ("from", "word"), ("New York", "name"), ("to", "word"),
        ("Los Angeles", "quoted"), ("on", "word"), ("2026-01-05", "code"), ("for", "word"), ("20", "number"),
        ("people", "word"), ("Bob", "name"), ("too", "word"),
    ]  # fmt: skip
    assert tokens[-2].ending == "'s"


def as_said(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.casefold() if isinstance(value, str) else value for name, value in values.items()}


NAMES = st.sampled_from(["Oslo", "Rome", "New York", "Bern", "Oslo East", "Xi"])
NUMBERS = st.integers(0, 3000).map(str)
VALUES = st.one_of(NAMES, NUMBERS, st.sampled_from(['"a b"', '"Oslo"', "AB-12", "X9", "b@c.de"]))
FORMS = [
    "weather in {0} for {1} days",
    "trains from {0} to {1}",
    "is {0} like {1}",
    "{0} and {1}",
    "how far is {1} from {0}",
]
MAKERS = [
    lambda a, b: {"city": a},
    lambda a, b: {"city": f"{b}, {a}"},
    lambda a, b: {"city": a.upper()},
    lambda a, b: {"city": a, "days": int(b) if b.isdecimal() else 1},
    lambda a, b: {"city": "far away"},
    lambda a, b: {"city": f"{a} " + ("big" if len(a) > 4 else "small")},
    lambda a, b: {"city": a, "unit": "miles" if a == "Rome" else "kelvin"},
]


@given(st.sampled_from(FORMS), st.sampled_from(MAKERS), st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=5))
def test_a_plan_of_the_cache_never_has_another_querys_values(
    form: str, make: Any, values: list[tuple[str, str]]
) -> None:
    """A planner that works parameters out of the values: the cache gives what it would, or nothing."""
    cache = PlanCache()
    for one, two in values:
        query = form.format(one, two)
        fresh = make(one.strip('"'), two.strip('"'))
        used = parameters(cache, query)
        assert used is None or as_said(used) == as_said(fresh)  # of what is all capitals nobody can know the case
        kept(cache, query, selected("weather", **fresh))


@given(st.lists(st.text(max_size=40), min_size=2, max_size=4))
def test_any_text_is_a_query_with_its_own_values(texts: list[str]) -> None:
    cache = PlanCache()
    for text in texts:
        used = parameters(cache, text)
        assert used is None or used == {"city": text}
        kept(cache, text, selected("weather", city=text))
