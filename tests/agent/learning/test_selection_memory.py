"""Advice from outcomes: rates for similar queries, combinations that worked, tools to avoid, and forgiveness."""

from __future__ import annotations

import random
import time

import pytest

from callgate.agent.learning import memory as module
from callgate.agent.learning.memory import (
    FORGIVEN_AFTER,
    MAX_TEXT_CHARACTERS,
    MAX_TOOLS,
    MOST_ALIKE,
    WINDOW,
    SelectionMemory,
    wilson,
)
from callgate.agent.learning.selections_file import failures_of
from callgate.agent.planning.selection import Combination, SelectionOutcome, ToolAdvice
from callgate.tools import Registry, Tool


def outcome(query: str, *tools: str, success: bool = True, failed: tuple[str, ...] = ()) -> SelectionOutcome:
    return SelectionOutcome(query=query, tools=tools, strategy="s", success=success, failed_tools=failed)


def memory_of(*outcomes: SelectionOutcome) -> SelectionMemory:
    memory = SelectionMemory()
    for each in outcomes:
        memory.note(each)
    return memory


def avoided(memory: SelectionMemory, query: str, *tools: str) -> dict[str, str]:
    return {each.tool: each.avoid for each in memory.advice(query, tools).tools if each.avoid}


def test_success_rates_are_those_of_queries_like_this_one() -> None:
    memory = memory_of(
        outcome("weather in Paris", "forecast"),
        outcome("weather in Rome", "forecast"),
        outcome("weather in Oslo", "forecast", success=False),
        outcome("stock price of Tesla", "forecast", success=False),
    )
    assert memory.advice("weather in Madrid", ["forecast", "quotes"]).tools == (
        ToolAdvice(tool="forecast", samples=3, success_rate=2 / 3),
    )
    assert memory.advice("translate a poem", ["forecast"]).tools == ()


def test_a_fallback_that_stood_in_is_no_success_of_the_tool_that_failed() -> None:
    saved = outcome("rain in Oslo", "forecast", failed=("forecast",))
    advice = memory_of(*[saved] * 6, outcome("rain in Bergen", "atlas")).advice("rain in Rome", ["forecast", "atlas"])
    by_name = {each.tool: each for each in advice.tools}
    assert by_name["forecast"].success_rate == 0
    assert by_name["forecast"].avoid
    assert by_name["forecast"].passed == 1
    assert {each.tools: each.successes for each in advice.combinations} == {("forecast",): 0, ("atlas",): 1}


def test_combinations_that_worked_come_first_and_a_lucky_one_does_not() -> None:
    memory = memory_of(
        *[outcome("rules question on cover", "search", "validate")] * 9,
        outcome("rules question on cover", "search", "validate", success=False),
        *[outcome("rules question on range", "search", success=False)] * 4,
        outcome("rules question on speed", "guess"),
    )
    assert memory.advice("rules question on armour", ["search", "validate", "guess"]).combinations == (
        Combination(tools=("search", "validate"), tries=10, successes=9, passed=5),
        Combination(tools=("guess",), tries=1, successes=1),
        Combination(tools=("search",), tries=4, successes=0, passed=1),
    )


def test_a_tool_that_fails_often_is_to_be_avoided_and_one_that_was_unlucky_is_not() -> None:
    bad = [outcome("weather", "bad", success=False, failed=("bad",))] * 3 + [outcome("weather", "bad")] * 2
    unlucky = [outcome("weather", "unlucky")] * 4 + [outcome("weather", "unlucky", success=False, failed=("unlucky",))]
    few = [outcome("weather", "few", success=False, failed=("few",))] * 4
    found = avoided(memory_of(*bad, *unlucky, *few), "weather", "bad", "unlucky", "few")
    assert found == {"bad": "fails often: 3 of 5 times for queries like this one, at least 33% by Wilson"}


def test_a_tool_that_fails_for_other_queries_only_is_not_avoided_for_this_one() -> None:
    memory = memory_of(
        *[outcome("translate a poem", "model", success=False, failed=("model",))] * 20,
        *[outcome("weather in Rome", "model")] * 5,
        *[outcome("translate a poem", "model", success=False, failed=("model",))] * 5,
    )
    assert avoided(memory, "weather in Oslo", "model") == {}
    assert avoided(memory, "translate a novel", "model").keys() == {"model"}
    assert "of late" in avoided(memory, "book a flight", "model")["model"]


def test_a_tool_that_succeeds_again_is_forgiven() -> None:
    memory = memory_of(*[outcome("weather", "a", success=False, failed=("a",))] * WINDOW)
    for _ in range(FORGIVEN_AFTER - 1):
        memory.note(outcome("weather", "a"))
    assert avoided(memory, "weather", "a")
    memory.note(outcome("weather", "a"))
    assert not avoided(memory, "weather", "a")


def registry_with(*timed: tuple[str, float, int], capability: str = "weather") -> Registry:
    registry = Registry()
    for name, seconds, attempts in timed:
        made = Tool.from_schema(name, name, {"type": "object"}, lambda: 1, capabilities=[capability])
        registry.add(made)
        for _ in range(attempts):
            registry.statistics.note(name, seconds, "succeeded")
    return registry


def test_a_tool_is_slow_against_others_that_can_do_the_same() -> None:
    registry = registry_with(("quick", 0.2, 20), ("slow", 1.0, 20), ("new", 9.0, 3))
    registry.add(Tool.from_schema("other", "", {"type": "object"}, lambda: 1, capabilities=["flights"]))
    for _ in range(30):
        registry.statistics.note("other", 60.0, "succeeded")
    memory = SelectionMemory(registry)
    found = avoided(memory, "weather", "quick", "slow", "new", "other")
    assert found == {"slow": "slow: 1 s on average, where quick can do it in 0.2 s"}
    assert avoided(memory, "weather", "slow", "new", "other") == {}


def test_a_quick_tool_that_fails_often_makes_no_other_slow() -> None:
    memory = SelectionMemory(registry_with(("quick", 0.2, 20), ("slow", 1.0, 20)))
    for _ in range(8):
        memory.note(outcome("weather", "quick", success=False, failed=("quick",)))
    assert avoided(memory, "weather", "quick", "slow").keys() == {"quick"}


def test_the_newest_are_remembered_and_the_oldest_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OUTCOMES", 3)
    memory = SelectionMemory()
    for city in ("Paris", "Rome", "Oslo", "Bern"):
        memory.note(outcome(f"weather {city}", city.lower()))
    assert [each.tools for each in memory.outcomes] == [("rome",), ("oslo",), ("bern",)]
    assert [each.tool for each in memory.advice("weather", ["paris", "rome"]).tools] == ["rome"]


def test_what_a_model_wrote_is_bounded() -> None:
    memory = memory_of(
        SelectionOutcome(
            query="q" * 10**6, tools=("t" * 10**5,) * 10**4, strategy="s" * 10**5, success=True,
            reasoning="\ud800" * 10**5, error="\0" * 10**5,
        )
    )  # fmt: skip
    (kept,) = memory.outcomes
    assert (len(kept.query), len(kept.tools), len(kept.error)) == (MAX_TEXT_CHARACTERS, MAX_TOOLS, MAX_TEXT_CHARACTERS)
    assert kept.reasoning == "?" * MAX_TEXT_CHARACTERS


def test_outcomes_of_earlier_times_are_older_than_those_of_now() -> None:
    memory = memory_of(outcome("weather", "now"))
    memory.load([outcome("weather", "then")])
    assert [each.tools for each in memory.outcomes] == [("then",), ("now",)]
    assert len(memory.advice("weather", ["then", "now"]).tools) == 2


@pytest.mark.alone
def test_advice_among_ten_thousand_outcomes_is_quick() -> None:
    draw = random.Random(5)
    memory = SelectionMemory()
    for _ in range(10_000):
        place, kind = draw.randrange(500), draw.choice("abcdefgh")
        memory.note(outcome(f"{kind}ind of question about place{'abcde'[place % 5]}{place}", f"tool_{kind}"))
    tools = [f"tool_{kind}" for kind in "abcdefgh"]
    quickest = 1.0
    for n in range(40):
        started = time.process_time()
        advice = memory.advice(f"{'abcdefgh'[n % 8]}ind of question about placea{n}", tools)
        quickest = min(quickest, time.process_time() - started)
        assert advice.tools
    assert quickest < 0.05  # some 10 ms where nothing else runs


def test_failures_are_added_up() -> None:
    memory = memory_of(
        SelectionOutcome(
            query="weather", tools=("a", "b"), strategy="llm", success=False, failed_tools=("b",),
            reasoning="b knows best", error="b: no connection",
        ),
        outcome("weather", "a", "b"),
        outcome("weather", "a"),
    )  # fmt: skip
    found = failures_of(memory.outcomes)
    assert (found.selections, [each.reasoning for each in found.failed]) == (3, ["b knows best"])
    assert (found.tools, found.errors) == ({"b": 1}, {"b: no connection": 1})
    assert found.combinations == {("a", "b"): 1}


@pytest.mark.parametrize(
    ("query", "kept", "alike"),
    [
        ("Weather in PARIS", "what is the weather in Paris?", True),
        ("weather in Paris", "stock price of Tesla", False),
        ("pay invoice 4711", "pay the invoice 1234", True),  # numbers are values, not words
        ("4711", "4711", False),
    ],
)
def test_similar_queries_share_words(query: str, kept: str, alike: bool) -> None:
    assert bool(memory_of(outcome(kept, "a")).advice(query, ["a"]).tools) is alike


def test_a_rare_word_finds_its_query_behind_thousands_that_share_the_common_ones() -> None:
    common = [outcome("weather today", "b")] * 3000
    advice = memory_of(outcome("weather in Reykjavik", "a"), *common).advice("weather Reykjavik", ["a", "b"])
    assert [(each.tool, each.samples) for each in advice.tools] == [("a", 1), ("b", MOST_ALIKE - 1)]


@pytest.mark.parametrize(
    ("seen", "low", "high"),
    [((0, 0), 0.0, 1.0), ((81, 263), 0.2553, 0.3662), ((0, 20), 0.0, 0.1611), ((1, 29), 0.0061, 0.1718)],
)
def test_wilsons_interval_is_that_of_the_textbook(seen: tuple[int, int], low: float, high: float) -> None:
    assert wilson(*seen) == pytest.approx((low, high), abs=5e-5)
