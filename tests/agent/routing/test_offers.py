"""What a model is offered in each mode: the definitions themselves, from a real runtime."""

from __future__ import annotations

import pytest

from callgate import ConfigurationError, Runtime, tool
from callgate.agent.routing.offers import MODES, MOST_SHOWN, mode_of, offer_of

pytestmark = pytest.mark.anyio


@tool(read_only=True)
async def list_metrics(category: str) -> list[str]:
    """The metrics of a category."""
    return [f"{category}_usage"]


@tool(read_only=True)
async def query_metric(name: str) -> dict[str, float]:
    """The current value of a metric."""
    return {"current": 72.5 + len(name)}


def names(mode: str, **options: object) -> list[str]:
    offer = offer_of(mode, **options)  # type: ignore[arg-type]
    made = Runtime([list_metrics, query_metric], sandbox=None).tool_definitions("openai", **offer)
    return [each["function"]["name"] for each in made]


TOOLS = ["list_metrics", "query_metric"]


@pytest.mark.parametrize(
    ("mode", "meta"),
    [
        ("individual", []),
        ("direct", []),
        ("declarative", ["execute_tool_plan"]),
        ("plan", ["execute_tool_plan"]),
        ("code", ["execute_code"]),
        ("auto", ["execute_code", "execute_tool_plan"]),
    ],
)
def test_declarative_mode_has_the_tools_beside_the_plan_and_so_the_model_chooses(mode: str, meta: list[str]) -> None:
    assert names(mode) == [*meta, *TOOLS]
    assert names("auto", sandbox=False) == ["execute_tool_plan", *TOOLS]


@pytest.mark.parametrize("mode", MODES)
def test_with_more_tools_than_are_shown_the_model_searches_in_every_mode(mode: str) -> None:
    few, many = names(mode, tools=MOST_SHOWN), names(mode, tools=MOST_SHOWN + 1)
    assert few == names(mode)
    assert many == ["search_tools", "describe_tools", *(each for each in names(mode) if each not in TOOLS)]


def test_search_can_be_asked_for_and_forbidden() -> None:
    assert names("direct", search=True) == ["search_tools", "describe_tools"]
    assert names("direct", tools=1000, search=False) == TOOLS


async def test_what_is_found_in_individual_mode_can_then_be_called() -> None:
    async with (
        Runtime([list_metrics, query_metric], sandbox=None) as runtime,
        runtime.conversation(**offer_of("individual", search=True)) as conversation,
    ):
        refused = await conversation.answer("query_metric", {"name": "cpu"})
        assert not refused.ok
        found = await conversation.answer("search_tools", {"query": "current value of a metric"})
        assert found.tools_changed
        assert (await conversation.answer("query_metric", {"name": "cpu"})).value == {"current": 75.5}
        refused = await conversation.answer("execute_tool_plan", {"steps": []})
        assert refused.mistake
        assert "not in your list of tools" in refused.text


async def test_a_plan_calls_tools_that_the_model_was_not_shown() -> None:
    async with (
        Runtime([list_metrics, query_metric], sandbox=None) as runtime,
        runtime.conversation(**offer_of("declarative", search=True)) as conversation,
    ):
        steps = [
            {"id": "list", "tool": "list_metrics", "arguments": {"category": "cpu"}},
            {"id": "query", "tool": "query_metric", "arguments": {"name": "$ref:list[0]"}},
        ]
        assert (await conversation.answer("execute_tool_plan", {"steps": steps})).ok


def test_a_mode_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(
        ConfigurationError, match=r"there is no mode 'declaritive'; there are: .*; did you mean declarative\?$"
    ):
        offer_of("declaritive")
    assert mode_of("individual") == "direct"
    assert mode_of("declarative") == "plan"
