"""Tools chosen by rules: only what changes nothing, arguments that are certain, confidences that are honest."""

from __future__ import annotations

import pytest

from agent.planning.rulebook import RULEBOOK, decomposed, keyword_search, rulebook, vector_search
from callgate.agent.planning.fallback_plan import RuleSelector
from callgate.agent.planning.selection import Selection
from callgate.agent.planning.tool_plan import DecomposedQuery, as_one_part
from callgate.runtime import Runtime
from callgate.tools import Tool, tool

pytestmark = pytest.mark.anyio


async def select(query: DecomposedQuery | str, runtime: Runtime) -> Selection:
    whole = as_one_part(query) if isinstance(query, str) else query
    return await RuleSelector(runtime).select(whole, [runtime.registry.info(name) for name in runtime.registry.names()])


async def test_a_search_gets_the_words_of_the_sub_query() -> None:
    query = decomposed("q", "How far do they move?", "How many wounds?")
    selection = await select(query, rulebook(keyword_search))
    assert [dict(choice.parameters) for choice in selection.chain] == [
        {"query": "How far do they move?"},
        {"query": "How many wounds?"},
    ]
    assert [choice.sub_query for choice in selection.chain] == [0, 1]
    assert (selection.source, selection.strategy) == ("fallback", "rules")
    assert all(0 < choice.confidence <= 0.6 for choice in selection.chain)
    assert selection.reasoning.startswith("chosen by rules: ")


async def test_the_same_search_is_made_once() -> None:
    selection = await select(decomposed("q", "the same", "the same"), rulebook())
    assert len(selection.chain) == 1


async def test_nothing_that_changes_something_is_chosen() -> None:
    @tool
    async def delete_all(query: str) -> str:
        """Delete everything that a query finds."""
        return query

    @tool(read_only=True, requires_approval=True)
    async def read_secrets(query: str) -> str:
        """Look for secrets with a query."""
        return query

    @tool(idempotent=True)
    async def set_query(query: str) -> str:
        """Set the query of everybody."""
        return query

    selection = await select(
        "delete everything, the secrets of everybody", rulebook(delete_all, read_secrets, set_query)
    )
    assert selection.chain == ()
    assert "no read-only tool is certain to fit" in selection.faults[0]


async def test_a_tool_that_needs_more_than_words_is_not_chosen() -> None:
    runtime = rulebook(*[each for each in RULEBOOK if each.name in ("roster", "synthesize", "validate-answer")])
    assert (await select("a roster of Orks for 500 points, validate the answer", runtime)).chain == ()


async def test_a_parameter_that_may_want_something_else_makes_an_unsure_choice() -> None:
    @tool(read_only=True)
    async def get_weather(city: str) -> str:
        """The weather of a city."""
        return city

    selection = await select("the weather in Oslo", rulebook(get_weather))
    assert [choice.confidence for choice in selection.chain] == [0.2]
    both = await select("the weather in Oslo", rulebook(get_weather, vector_search))
    assert [choice.tool for choice in both.chain] == ["vector-search"]
    assert (await select("a poem about spring", rulebook(get_weather))).chain == ()


@pytest.mark.parametrize("name", ["why", "confidence", "parameters"])
async def test_a_parameter_may_have_any_name(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    rain = Tool.from_schema("rain", "Explains rain.", schema, dict, read_only=True)
    selection = await select("explain rain", Runtime([rain], sandbox=None))
    assert [choice.parameters for choice in selection.chain] == [{name: "explain rain"}]


async def test_a_tool_without_arguments_is_chosen_for_its_words() -> None:
    @tool(read_only=True)
    async def list_factions() -> list[str]:
        """All factions of the game."""
        return []

    selection = await select("list all factions", rulebook(list_factions))
    assert [(choice.tool, choice.parameters) for choice in selection.chain] == [("list_factions", {})]
    assert (await select("what is a bolter", rulebook(list_factions))).chain == ()


async def test_of_searches_that_are_alike_the_more_reliable_comes_first() -> None:
    @tool(read_only=True, category="search")
    async def alpha(query: str) -> str:
        """One."""
        return query

    @tool(read_only=True, category="search")
    async def beta(query: str) -> str:
        """Two."""
        return query

    runtime = rulebook(alpha, beta)
    assert (await select("jump packs", runtime)).chain[0].tool == "alpha"
    runtime.registry.statistics.note("alpha", 1.0, "failed")
    assert (await select("jump packs", runtime)).chain[0].tool == "beta"


@pytest.mark.parametrize("query", ["?", "...", "the", "\ud800", "x" * 90_000])
async def test_any_words_are_words(query: str) -> None:
    selection = await select(query, rulebook(keyword_search))
    assert len(selection.chain) <= 1


def test_one_search_is_no_search_by_a_hypothetical_answer() -> None:
    runtime = rulebook(*[each for each in RULEBOOK if each.name == "hyde-search"])
    assert RuleSelector(runtime).one_search("q", [runtime.registry.info("hyde-search")]) is None
    assert RuleSelector(rulebook()).one_search("q", []) is None
