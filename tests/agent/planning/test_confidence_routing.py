"""What is done about what is not to be relied upon: rule by rule, and in plans."""

from __future__ import annotations

import pytest

from agent.planning.rulebook import answer, chosen, decomposed, planner, rulebook
from callgate.agent.planning.capabilities import free_text_parameter, is_hypothetical, kind_of
from callgate.agent.planning.confidence import RULES, offered_tools
from callgate.agent.planning.settings import PlannerSettings
from callgate.tools import Registry, Tool, tool

pytestmark = pytest.mark.anyio


async def test_a_low_confidence_of_the_decomposition_makes_one_search_with_the_whole_query() -> None:
    query = decomposed("Terminator vs Dreadnought", "Terminator", "Dreadnought", confidence=0.3)
    planning, model = planner()
    plan = await planning.plan(query.query, query)
    assert len(plan.steps) == 1
    assert plan.steps[0].parameters == {"query": "Terminator vs Dreadnought"}
    assert "search" in plan.steps[0].tool
    assert plan.source == "fallback"
    assert plan.confidence < 0.3
    assert (
        "simple plan: the confidence of the decomposition is 0.3, below 0.5: one search with the whole query"
        in plan.notes
    )
    assert model.requests == []


async def test_where_there_is_no_search_the_parts_are_planned_all_the_same() -> None:
    @tool(read_only=True)
    async def unit_rules(unit: str) -> str:
        """The rules of a unit."""
        return unit

    query = decomposed("A vs B", "A", "B", confidence=0.3)
    turn = answer(chosen("unit_rules", "A", unit="A"), chosen("unit_rules", "B", unit="B"))
    planning, _ = planner(turn, runtime=rulebook(unit_rules))
    assert len((await planning.plan(query.query, query)).steps) == 2


async def test_a_model_that_could_not_take_the_query_apart_makes_a_simple_plan() -> None:
    from callgate.agent.models.scripted import ScriptedModel
    from callgate.agent.planning.decomposition import Decomposer
    from callgate.agent.planning.planner import ToolPlanner

    model = ScriptedModel(["prose", "more prose"])
    plan = await ToolPlanner(rulebook(), model, decomposer=Decomposer(model)).plan("A vs B")
    assert [step.parameters for step in plan.steps] == [{"query": "A vs B"}]
    assert len(model.requests) == 2
    assert any(note.startswith("simple plan: ") for note in plan.notes)
    assert any("prose" in note for note in plan.notes)
    assert plan.usage.output_tokens > 0


async def test_a_low_confidence_of_the_hypothetical_answer_leaves_standard_search() -> None:
    query = decomposed("How far?", "How far?", hypothetical_confidence=0.2)
    planning, model = planner(answer(chosen("vector-search", query="how far")))
    plan = await planning.plan(query.query, query)
    assert "hyde-search" not in model.requests[0].system
    assert [step.tool for step in plan.steps] == ["vector-search"]
    assert all(step.fallback is None or step.fallback.tool != "hyde-search" for step in plan.steps)
    assert any(
        note.startswith("standard search: the confidence of the hypothetical answer is 0.2") for note in plan.notes
    )


@pytest.mark.parametrize("confidence", [None, 0.8])
async def test_else_a_search_by_a_hypothetical_answer_may_be_chosen(confidence: float | None) -> None:
    query = decomposed("How far?", "How far?", hypothetical_confidence=confidence)
    planning, _ = planner(answer(chosen("hyde-search", query="how far")))
    plan = await planning.plan(query.query, query)
    assert [step.tool for step in plan.steps] == ["hyde-search"]
    assert not any(note.startswith("standard search") for note in plan.notes)


async def test_where_there_is_no_other_search_it_stays() -> None:
    registry = Registry([tool_named("hyde-search", "search")])
    query = decomposed("q", "q", hypothetical_confidence=0.1)
    offered, note = offered_tools(query, [registry.info("hyde-search")], PlannerSettings())
    assert len(offered) == 1
    assert note is not None
    assert note.endswith("there is no other search tool, so it is used all the same")


async def test_a_tool_that_fails_often_gets_a_fallback_in_the_plan() -> None:
    runtime = rulebook()
    for _ in range(5):
        runtime.registry.statistics.note("keyword-search", 0.1, "failed")
    planning, _ = planner(answer(chosen("keyword-search", query="x")), runtime=runtime)
    plan = await planning.plan("about x")
    assert plan.steps[0].fallback is not None
    assert plan.steps[0].fallback.tool == "vector-search"
    assert any(note.startswith("failing tool: ") for note in plan.notes)


async def test_a_failing_tool_gets_its_fallback_in_a_plan_of_the_cache_too() -> None:
    runtime = rulebook()
    chain = answer(chosen("keyword-search", query="x"), chosen("keyword-search", query="about x"))
    planning, _ = planner(chain, runtime=runtime)
    assert [step.fallback for step in (await planning.plan("about x")).steps] == [None, None]
    for _ in range(5):
        runtime.registry.statistics.note("keyword-search", 0.1, "failed")
    cached = await planning.plan("about x")
    assert cached.source == "cache"
    assert all(step.fallback is not None for step in cached.steps)


async def test_thresholds_are_settings() -> None:
    query = decomposed("A vs B", "A", "B", confidence=0.7)
    planning, _ = planner(settings=PlannerSettings(low_decomposition_confidence=0.8))
    assert len((await planning.plan(query.query, query)).steps) == 1


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_holds_on_one_side_of_its_threshold(rule: object) -> None:
    assert isinstance(rule, type(RULES[0]))
    settings = PlannerSettings()
    threshold = getattr(settings, rule.setting)
    at, below = rule.decide(threshold, settings), rule.decide(threshold - 0.01, settings)
    assert (at is None, below is None) == ((True, False) if rule.holds == "below" else (False, True))


def tool_named(name: str, category: str | None = None, *capabilities: str) -> Tool:
    async def function(query: str) -> str:
        """Does something."""
        return query

    return tool(name=name, category=category, capabilities=capabilities, read_only=True)(function)


@pytest.mark.parametrize(
    ("name", "category", "capabilities", "kind"),
    [
        ("x", "search", (), "search"),
        ("x", "Validation", (), "validation"),
        ("x", "synthesis", ("search",), "synthesis"),
        ("x", "external", (), "external"),
        ("x", None, ("semantic search",), "search"),
        ("hallucination-detector", None, (), "validation"),
        ("summarize_text", None, (), "synthesis"),
        ("VectorSearchTool", None, (), "search"),
        ("get_weather", "weather", (), "other"),
        ("research", None, (), "other"),
    ],
)
def test_the_kind_of_a_tool(name: str, category: str | None, capabilities: tuple[str, ...], kind: str) -> None:
    registry = Registry()
    registry.add(tool_named(name, category, *capabilities))
    assert kind_of(registry.info(name)) == kind


@pytest.mark.parametrize(
    ("name", "capabilities", "hypothetical"),
    [
        ("a", ("HyDE",), True),
        ("hyde_search", (), True),
        ("a", ("hypothetical answers",), True),
        ("a", ("hide",), False),
    ],
)
def test_which_tools_search_by_a_hypothetical_answer(
    name: str, capabilities: tuple[str, ...], hypothetical: bool
) -> None:
    registry = Registry()
    registry.add(tool_named(name, None, *capabilities))
    assert is_hypothetical(registry.info(name)) is hypothetical


TEXT = {"type": "string"}


@pytest.mark.parametrize(
    ("schema", "taken"),
    [
        ({"properties": {"query": TEXT}, "required": ["query"]}, ("query", True)),
        ({"properties": {"city": TEXT}, "required": ["city"]}, ("city", False)),
        ({"properties": {"n": {"type": "integer"}, "question": TEXT}}, ("question", True)),
        ({"properties": {"city": TEXT}}, None),
        ({"properties": {"query": TEXT, "n": {"type": "integer"}}, "required": ["query", "n"]}, None),
        ({"properties": {"query": {"type": "string", "enum": ["a"]}}, "required": ["query"]}, None),
        ({"properties": {"query": {"type": "string", "format": "uuid"}}, "required": ["query"]}, None),
        ({"properties": {"query": {"type": "integer"}}, "required": ["query"]}, None),
        ({}, None),
    ],
)
def test_which_parameter_takes_words(schema: dict[str, object], taken: tuple[str, bool] | None) -> None:
    assert free_text_parameter(schema) == taken
