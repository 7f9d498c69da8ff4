"""Queries that look like an earlier one and are not: words that are the matter itself, values in other forms or that a
tool was chosen by, times that pass, other words in a caller's own parts."""

from __future__ import annotations

from typing import Any

import pytest

from agent.planning.rulebook import answer, chosen, decomposed, planner, rulebook
from callgate.agent.planning.decomposition import as_one_part
from callgate.agent.planning.plan_cache import PlanCache, fingerprint
from callgate.agent.planning.query_tokens import tokens_of
from callgate.agent.planning.tool_plan import DecomposedQuery, Selection, ToolChoice
from callgate.tools import tool

pytestmark = pytest.mark.anyio


@tool(read_only=True)
async def translate(text: str, language: str = "English", unit: str = "") -> str:
    """Say it in another language."""
    return text


@tool(read_only=True, capabilities=["GitHub"])
async def issues(query: str) -> str:
    """Search what was reported."""
    return query


@tool(read_only=True)
async def jira_tickets(query: str) -> str:
    """Search what is planned."""
    return query


RUNTIME = rulebook(translate, issues, jira_tickets)
TOOLS = [RUNTIME.registry.info(name) for name in RUNTIME.registry.names()]
CATALOGUE = fingerprint(TOOLS)


def reused(
    query: str | DecomposedQuery, given: dict[str, Any], other: str | DecomposedQuery, name: str = "translate"
) -> dict[str, Any] | None:
    """The parameters for another query, where the selection of the first one is used for it."""
    cache = PlanCache()
    selection = Selection(chain=(ToolChoice(sub_query=0, tool=name, parameters=given),), strategy="model")
    own = isinstance(query, DecomposedQuery)
    whole = query if isinstance(query, DecomposedQuery) else as_one_part(query)
    cache.keep(whole, selection, TOOLS, CATALOGUE, given=own)
    parts = other if isinstance(other, DecomposedQuery) else None
    found = cache.find(parts.query if parts else str(other), parts, CATALOGUE, "model")
    return None if found is None else dict(found.selection.chain[0].parameters)


@pytest.mark.parametrize(
    ("query", "text", "other"),
    [
        ("translate hello to French", "hello", "translate hi to French"),
        ("translate hello", "hello", "translate hi"),
        ("Translate into French: thanks", "thanks", "Translate into French: please"),
        ("What does please mean in Danish", "please", "What does kindly mean in Danish"),
        ("Hello Kitty in Japanese", "Hello Kitty", "Hi Kitty in Japanese"),
        ("What does ? mean in Perl", "?", "What does . mean in Perl"),
        ("What does ; do in C", ";", "What does : do in C"),
        ("what comes first, the or an", "the", "what comes first, an or the"),
        ("explain `Map`", "Map", "explain `map`"),
        ("population of 'US'", "US", "population of 'us'"),
        ("iPhone prices", "iPhone", "iphone prices"),
    ],
)
def test_a_word_or_a_sign_that_is_asked_about_is_no_courtesy_and_no_punctuation(
    query: str, text: str, other: str
) -> None:
    assert reused(query, {"text": text}, other) is None


@pytest.mark.parametrize(
    "other",
    [
        "Please tell me about Oslo", "Hi, please tell me about Oslo", "Hello! Tell me about Oslo, please",
        "tell me about Oslo. Thanks!", "Tell me about Oslo, thanks", "tell me about the Oslo?",
    ],
)  # fmt: skip
def test_what_can_be_nothing_but_a_courtesy_makes_no_other_query(other: str) -> None:
    assert reused("Tell me about Oslo", {"text": "Oslo"}, other) == {"text": "Oslo"}
    assert reused("Could you tell me about Oslo", {"text": "Oslo"}, "could you please tell me about Oslo") is not None


@pytest.mark.parametrize(
    ("query", "value", "other", "used"),
    [
        ("Sales on 12.03.2024", "12.03.2024", "Sales on 2024", None),
        ("Sales on 12.03.2024", "12.03.2024", "Sales on 2024.03.12", None),
        ("Sales on 12.03.2024", "12.03.2024", "Sales on 1.4.2025", "1.4.2025"),
        ("Sales on 2024-03-12", "2024-03-12", "Sales on 3/12/24", None),
        ("Sales on 2024-03-12", "2024-03-12", "Sales on 12-03-2024", None),
        ("Sales on 2024-03-12", "2024-03-12", "Sales on 2025-01-02", "2025-01-02"),
        ("Sales on 2024-03-12", "2024-03-12", "Sales on bob@x.com", None),
        ("Orders above 100", "100", "Orders above 1,000", None),
        ("Orders above 100", "100", "Orders above -100", None),
        ("Orders above 100", "100", "Orders above 2500", "2500"),
        ("Orders above 2.5", "2.5", "Orders above 2,5", None),
        ("Sites within 5km", "5km", "Sites within 7mi", None),
        ("Sites within 5km", "5km", "Sites within 12km", "12km"),
        ("Prices of $20", "$20", "Prices of €20", None),
        ("Open at 9am", "9am", "Open at 9pm", None),
        ("The part AB-12", "AB-12", "The part XYZ-9", "XYZ-9"),
    ],
)
def test_a_value_stands_in_anothers_place_only_in_the_same_form(
    query: str, value: str, other: str, used: str | None
) -> None:
    assert reused(query, {"text": value}, other) == (None if used is None else {"text": used})


@pytest.mark.parametrize(
    ("query", "other"),
    [
        ("flights to Paris except Lufthansa", "flights to Paris without Lufthansa"),
        ("flights to Paris with Lufthansa", "flights to Paris except Lufthansa"),
        ("sold by Bob", "not sold by Bob"),
        ("sold by Bob", "sold by nobody but Bob"),
        ("is Bob's father Tom", "is Bob Tom's father"),
        ("12 km from Oslo", "12 miles from Oslo"),
    ],
)
def test_a_negation_a_unit_and_another_order_make_another_question(query: str, other: str) -> None:
    assert reused(query, {"text": query}, other) is None
    assert reused(other, {"text": other}, query) is None


@pytest.mark.parametrize("name", ["issues", "jira_tickets"])
@pytest.mark.parametrize("product", ["GitHub", "Jira"])
def test_a_value_that_tools_speak_of_may_be_what_the_tool_was_chosen_by(name: str, product: str) -> None:
    query = f"Search {product} for Callgate"
    other = f"Search {'Jira' if product == 'GitHub' else 'GitHub'} for Callgate"
    assert reused(query, {"query": query}, other, name) is None
    assert reused("Search Lemon for Callgate", {"query": "Search Lemon for Callgate"}, query, name) is None
    another = f"Search {product} for Lemon"
    assert reused(query, {"query": query}, another, name) == {"query": another}


@pytest.mark.parametrize(
    ("query", "other"),
    [
        ("CANCEL ORDERS OF BOB", "LIST ORDERS OF BOB"),
        ("CANCEL order 12345", "LIST order 12345"),
        ("Can You Cancel Orders Of Bob", "Can You List Orders Of Bob"),
        ("do NOT book Oslo", "do ALSO book Oslo"),
        ("My name is Bob; Cancel it", "My name is Bob; List it"),
        ("Hi Bob, Cancel Foo", "Hi Bob, List Foo"),
        ("- Cancel Foo", "- List Foo"),
        ('"Cancel" Foo', '"List" Foo'),
        ("(Cancel) Foo", "(List) Foo"),
    ],
)
def test_a_verb_that_looks_like_a_name_is_not_a_value(query: str, other: str) -> None:
    """A tool that takes the whole query was chosen by the verb; another verb wants another tool."""
    assert reused(query, {"text": query}, other) is None
    assert reused(query, {"text": query}, query) == {"text": query}


@pytest.mark.parametrize("query", ["Trains in 30 minutes", "Sales of the past quarter", "What is on this evening"])
def test_a_time_that_was_worked_out_from_the_clock_is_not_used_again(query: str) -> None:
    assert reused(query, {"text": "2026-11-23T20:30"}, query) is None
    assert reused("Sales in spring", {"text": "2026-03-01"}, "Sales in spring") is not None


def test_a_part_that_looks_like_a_reference_is_not_slipped_into_a_plan() -> None:
    first = decomposed("two things", 'Look up "Lamp"')
    slipped = decomposed("two things", 'Look up "$ref:c0.secret"')
    assert reused(first, {"text": "Lamp"}, slipped) is None
    assert reused(first, {"text": "Lamp"}, decomposed("two things", 'Look up "Desk"')) == {"text": "Desk"}


def test_a_value_of_the_query_that_no_tool_gets_has_to_be_the_same_where_a_tool_gets_a_part() -> None:
    first = decomposed("Compare Foo for Bar", "facts about Foo")
    used = reused(first, {"text": "facts about Foo"}, decomposed("Compare Baz for Bar", "facts about Baz"))
    assert used == {"text": "facts about Baz"}
    assert reused(first, {"text": "facts about Foo"}, decomposed("Compare Foo for Baz", "facts about Foo")) is None


def test_signs_alone_say_nothing() -> None:
    assert tokens_of("?! ...") is None
    assert tokens_of("hi, please") is None


async def test_what_is_looked_up_is_what_the_selector_was_told() -> None:
    turns = [answer(chosen("vector-search", query=words)) for words in ("first", "second")]
    planning, model = planner(*turns)
    parts = ("their profile",)
    await planning.plan("rules for Orks", decomposed("units of Orks", *parts))
    plan = await planning.plan("units of Orks", decomposed("enemies of Orks", *parts))
    assert plan.source == "model"
    assert "enemies of Orks" in str(model.requests[1].messages[0])
    assert (await planning.plan("anything", decomposed("units of Orks", *parts))).source == "cache"
