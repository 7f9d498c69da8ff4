"""Choices into steps: stages, dependencies, circles, timeouts, fallbacks."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.planning.rulebook import RULEBOOK, decomposed, rulebook
from callgate.agent.planning.builder import Built, build_steps
from callgate.agent.planning.chain import positions_in, renumbered
from callgate.agent.planning.selection import ToolChoice
from callgate.agent.planning.settings import PlannerSettings
from callgate.agent.planning.tool_plan import DecomposedQuery, StepFallback, SubQuery, ToolPlan, ToolStep, as_one_part
from callgate.runtime import Runtime
from callgate.tools import tool

WHOLE = as_one_part("a question")


def choice(
    tool_name: str, part: int = 0, *, confidence: float = 0.9, needs: tuple[int, ...] = (), **parameters: Any
) -> ToolChoice:
    return ToolChoice(sub_query=part, tool=tool_name, parameters=parameters, confidence=confidence, depends_on=needs)


def build(
    *chain: ToolChoice,
    query: DecomposedQuery = WHOLE,
    runtime: Runtime | None = None,
    settings: PlannerSettings | None = None,
) -> Built:
    runtime = runtime or rulebook()
    tools = [runtime.registry.info(name) for name in runtime.registry.names()]
    built = build_steps(runtime, settings or PlannerSettings(), query, chain, tools)
    if built.steps:
        plan = ToolPlan(id="p", query=query.query, steps=built.steps, stages=built.stages)
        assert [fault for fault in runtime.check_plan(plan.to_plan()) if fault.severity == "error"] == []
    return built


def step(built: Built, name: str) -> ToolStep:
    return next(each for each in built.steps if each.id == name)


def test_stages_go_by_references() -> None:
    built = build(
        choice("vector-search", query="a"),
        choice("keyword-search", query="b"),
        choice("vector-search", query="${c0.hits.0} and more"),
        choice("synthesize", findings=["$ref:c2.hits", {"$ref": "c1.hits"}]),
    )
    assert built.stages == (("c0", "c1"), ("c2",), ("c3",))
    assert step(built, "c2").dependencies == ("c0",)
    assert step(built, "c3").dependencies == ("c1", "c2")
    assert step(built, "c3").after == ("c0",)


def test_references_by_position_stay_right_when_steps_are_put_in_order() -> None:
    written = {"a": "$ref:steps[0].result.x", "b": [{"$ref": "steps[1]"}], "c": "steps[0]"}
    assert positions_in(written) == {0, 1}
    assert renumbered(written, {}) == {
        "a": "$ref:c0.x",
        "b": [{"$ref": "c1"}],
        "c": "steps[0]",
    }


def test_references_are_found_in_all_their_forms_and_nowhere_else() -> None:
    parameters = {
        "a": "$ref:c1.x",
        "b": ["${c2.y} and ${ c3 }", {"$ref": "c4[0]"}],
        "c": {"$expr": "c5.n + c6 * 2"},
        "d": {"$literal": "$ref:c7"},
        "e": "c8",
        "f": "$$ref:c9",
        "g": "about c10 and $ref:c11",
    }
    assert positions_in(parameters) == {1, 2, 3, 4, 5, 6}
    new = renumbered(parameters, {1: 0, 2: 10, 5: 6, 6: 5})
    assert positions_in(new) == {0, 3, 4, 5, 6, 10}
    assert new["c"] == {"$expr": "c6.n + c5 * 2"}
    assert new["g"] == parameters["g"]


def test_what_a_choice_says_that_it_needs_is_heeded() -> None:
    built = build(choice("vector-search", query="a"), choice("keyword-search", query="b", needs=(0,)))
    assert built.stages == (("c0",), ("c1",))
    assert step(built, "c1").dependencies == ("c0",)


def test_dependencies_of_sub_queries_are_respected_through_those_without_a_choice() -> None:
    query = decomposed("q", "one", SubQuery(text="two", depends_on=(0,)), SubQuery(text="three", depends_on=(1,)))
    built = build(choice("vector-search", 2, query="c"), choice("vector-search", 0, query="a"), query=query)
    assert built.stages == (("c1",), ("c0",))
    assert step(built, "c0").dependencies == ("c1",)


def test_many_ways_between_sub_queries_are_gone_once() -> None:
    """Twelve parts that need all before them have 1,024 ways from the last to the first: that took seconds."""
    parts = tuple(SubQuery(text=f"part {n}", depends_on=tuple(range(n))) for n in range(12))
    query = DecomposedQuery(query="all", sub_queries=parts)
    last = [choice("keyword-search", 11, query=f"x{n}") for n in range(31)]
    started = time.process_time()
    built = build(choice("vector-search", 0, query="x"), *last, query=query)
    assert time.process_time() - started < 1.5
    assert built.stages == (("c0",), tuple(f"c{n}" for n in range(1, 32)))
    assert step(built, "c31").dependencies == ("c0",)


def test_of_several_steps_for_a_sub_query_no_single_one_is_needed() -> None:
    query = decomposed("q", "one", SubQuery(text="two", depends_on=(0,)))
    built = build(
        choice("vector-search", 0, query="a"),
        choice("keyword-search", 0, query="a"),
        choice("hybrid-search", 1, query="b"),
        query=query,
    )
    assert step(built, "c2").dependencies == ()
    assert step(built, "c2").after == ("c0", "c1")
    assert built.stages == (("c0", "c1"), ("c2",))


def test_validation_comes_after_synthesis_and_synthesis_after_searches() -> None:
    built = build(
        choice("validate-answer", answer="x"),
        choice("synthesize", findings=[]),
        choice("vector-search", query="a"),
        choice("roster", faction="Orks", points=1),
    )
    assert built.stages == (("c2", "c3"), ("c1",), ("c0",))
    assert step(built, "c1").after == ("c2", "c3")
    assert step(built, "c0").after == ("c1", "c2", "c3")
    assert step(built, "c0").dependencies == ()


def test_a_search_for_what_a_synthesis_says_comes_after_it() -> None:
    built = build(choice("synthesize", findings=[1]), choice("vector-search", query="$ref:c0"))
    assert built.stages == (("c0",), ("c1",))


def test_choices_that_refer_to_each_other_in_a_circle_are_left_out() -> None:
    built = build(
        choice("vector-search", query="$ref:c1.hits"),
        choice("vector-search", query="$ref:c0.hits"),
        choice("keyword-search", query="$ref:c1.hits"),
        choice("keyword-search", query="fine"),
        choice("vector-search", query="$ref:c4"),
    )
    assert [each.id for each in built.steps] == ["c3"]
    assert any("c0 (vector-search) is left out: it refers to c1 in a circle" in note for note in built.left_out)
    assert any("c4 (vector-search) is left out: it refers to itself in a circle" in note for note in built.left_out)


def test_an_order_that_would_make_a_circle_is_not_heeded() -> None:
    built = build(
        choice("vector-search", query="a", needs=(1,)),
        choice("keyword-search", query="$ref:c0.hits.0"),
    )
    assert built.stages == (("c0",), ("c1",))
    assert "c0 (vector-search) does not wait for c1 (keyword-search): that is a circle" in built.notes


def test_a_sub_query_order_against_the_references_is_not_heeded() -> None:
    query = decomposed("q", "one", SubQuery(text="two", depends_on=(0,)))
    built = build(
        choice("vector-search", 0, query="$ref:c1.hits.0"), choice("keyword-search", 1, query="b"), query=query
    )
    assert built.stages == (("c1",), ("c0",))
    assert any("does not wait for" in note for note in built.notes)


def test_a_step_that_everything_else_needs_is_critical() -> None:
    built = build(
        choice("vector-search", query="a"),
        choice("keyword-search", query="$ref:c0.hits.0"),
        choice("hybrid-search", query="$ref:c0.hits.0"),
    )
    assert [each.id for each in built.steps if each.critical] == ["c0"]
    assert not any(each.critical for each in build(choice("vector-search", query="a")).steps)


# timeouts


def test_timeouts_go_by_the_kind_of_tool() -> None:
    @tool(read_only=True, category="external")
    async def service(query: str) -> str:
        """Ask somebody else."""
        return query

    built = build(
        choice("vector-search", query="a"),
        choice("synthesize", findings=[]),
        choice("validate-answer", answer="a"),
        choice("roster", faction="a", points=1),
        choice("service", query="a"),
        runtime=rulebook(*RULEBOOK, service),
    )
    seconds = {each.tool: each.timeout_seconds for each in built.steps}
    assert seconds == {
        "vector-search": 15, "synthesize": 60, "validate-answer": None, "roster": None, "service": 45,
    }  # fmt: skip


def test_the_settings_say_other_timeouts() -> None:
    chain = (choice("vector-search", query="a"), choice("validate-answer", answer="a"))
    built = build(
        *chain, settings=PlannerSettings(timeout_seconds_by_category={"Validation": 7}, default_timeout_seconds=20)
    )
    assert {each.tool: each.timeout_seconds for each in built.steps} == {"vector-search": 10, "validate-answer": 7}
    built = build(*chain, settings=PlannerSettings(default_timeout_seconds=60))
    assert {each.tool: each.timeout_seconds for each in built.steps} == {"vector-search": 30, "validate-answer": 60}


def test_a_timeout_adapts_to_the_tools_history() -> None:
    runtime = rulebook()
    for _ in range(20):
        runtime.registry.statistics.note("vector-search", 2.0, "succeeded")
        runtime.registry.statistics.note("synthesize", 30.0, "succeeded")
    built = build(choice("vector-search", query="a"), choice("synthesize", findings=[]), runtime=runtime)
    assert {each.tool: each.timeout_seconds for each in built.steps} == {"vector-search": 8, "synthesize": 120}


def test_a_tools_own_timeout_is_left_to_it_and_side_effects_get_no_less_time() -> None:
    @tool(category="search", timeout_seconds=3)
    async def patient(query: str) -> str:
        """Search."""
        return query

    @tool(category="search")
    async def crawl(query: str) -> str:
        """Search, and write down what was found."""
        return query

    built = build(choice("patient", query="a"), choice("crawl", query="a"), runtime=rulebook(patient, crawl))
    assert {each.tool: each.timeout_seconds for each in built.steps} == {"patient": None, "crawl": None}  # 30 s, not 15


# fallbacks


def failing(runtime: Runtime, name: str, calls: int = 10) -> Runtime:
    for _ in range(calls):
        runtime.registry.statistics.note(name, 0.1, "failed")
    return runtime


A, B = choice("vector-search", query="a"), choice("vector-search", query="b")
FAILS = "failing tool: the failure rate of 'vector-search' is 1, not below 0.2: it gets a fallback"


@pytest.mark.parametrize(
    ("failures", "chain", "fallback", "note"),
    [
        pytest.param({}, (A, B), None, "", id="nothing speaks for one"),
        pytest.param({"vector-search": 10}, (A, B), "hyde-search", FAILS, id="the tool fails often"),
        pytest.param({"vector-search": 4}, (A, B), None, "", id="few calls say nothing"),
        pytest.param(
            {"vector-search": 10}, (replace(A, parameters={"query": "a", "limit": 3}), B), "keyword-search", FAILS,
            id="it has to take the same arguments",
        ),
        pytest.param(
            {"vector-search": 10, "hyde-search": 10}, (A,), "keyword-search", FAILS, id="it must not fail often itself"
        ),
        pytest.param(
            {"roster": 10}, (choice("roster", faction="a", points=1),), None, "no other tool can stand in",
            id="no other tool can stand in",
        ),
        pytest.param(
            {}, (replace(A, confidence=0.3),),
            StepFallback(tool="hyde-search", condition="on_low_confidence", threshold=0.5), "unsure choice",
            id="an unsure choice",
        ),
    ],
)  # fmt: skip
def test_a_step_gets_a_fallback_where_its_tool_or_its_choice_is_not_reliable(
    failures: dict[str, int], chain: tuple[ToolChoice, ...], fallback: StepFallback | str | None, note: str
) -> None:
    runtime = rulebook()
    for name, calls in failures.items():
        failing(runtime, name, calls)
    built = build(*chain, runtime=runtime)
    assert built.steps[0].fallback == (StepFallback(tool=fallback) if isinstance(fallback, str) else fallback)
    assert any(note in each for each in built.notes) if note else not built.notes


def test_where_results_have_no_confidence_an_unsure_choice_gets_a_fallback_on_errors() -> None:
    @tool(read_only=True, capabilities=["names"])
    async def name_of(unit: str) -> list[str]:
        """The names of a unit."""
        return [unit]

    @tool(read_only=True, capabilities=["names"])
    async def other_name_of(unit: str) -> list[str]:
        """The names of a unit, from elsewhere."""
        return [unit]

    built = build(choice("name_of", unit="a", confidence=0.3), runtime=rulebook(name_of, other_name_of))
    assert built.steps[0].fallback == StepFallback(tool="other_name_of")
    assert any("its results have no confidence, so it is called on an error" in note for note in built.notes)


def test_a_step_that_is_needed_or_alone_gets_a_fallback() -> None:
    built = build(choice("vector-search", query="a"), choice("hybrid-search", query="$ref:c0.hits.0"))
    assert step(built, "c0").fallback == StepFallback(tool="hyde-search")
    assert step(built, "c1").fallback is None
    assert "'vector-search' is needed, and has the fallback 'hyde-search'" in built.notes


def test_a_tools_own_fallback_comes_first() -> None:
    @tool(read_only=True, fallback="keyword-search", capabilities=["semantic search"])
    async def own(query: str) -> str:
        """Search."""
        return query

    built = build(choice("own", query="a"), runtime=rulebook(*RULEBOOK, own))
    assert built.steps[0].fallback == StepFallback(tool="keyword-search")


def test_nothing_that_changes_something_stands_in_nor_is_stood_in_for() -> None:
    @tool(capabilities=["posting"])
    async def post(text: str) -> str:
        """Post it."""
        return text

    @tool(capabilities=["posting"])
    async def shout(text: str) -> str:
        """Post it louder."""
        return text

    @tool(read_only=True, capabilities=["posting"])
    async def preview(text: str) -> str:
        """Look at the post."""
        return text

    @tool(read_only=True, requires_approval=True, capabilities=["posting"])
    async def ask_first(text: str) -> str:
        """Look at it, if somebody agrees."""
        return text

    runtime = failing(failing(rulebook(post, shout, preview, ask_first), "post"), "preview")
    assert build(choice("post", text="a"), runtime=runtime).steps[0].fallback is None
    assert build(choice("preview", text="a"), runtime=runtime).steps[0].fallback is None


# properties

names = st.sampled_from([each.name for each in RULEBOOK])


@st.composite
def chains(draw: st.DrawFn) -> tuple[DecomposedQuery, list[ToolChoice]]:
    parts = draw(st.integers(1, 4))
    query = DecomposedQuery(
        query="q",
        sub_queries=tuple(
            SubQuery(text=f"part {n}", depends_on=tuple(draw(st.sets(st.integers(0, n - 1))) if n else ()))
            for n in range(parts)
        ),
    )
    count = draw(st.integers(1, 7))
    positions = st.integers(0, count - 1)

    def reference() -> str:
        return f"$ref:c{draw(positions)}" if draw(st.booleans()) else "words"

    def arguments(name: str) -> dict[str, Any]:
        match name:
            case "synthesize":
                return {"findings": [reference() for _ in range(draw(st.integers(0, 2)))]}
            case "validate-answer":
                return {"answer": reference()}
            case "roster":
                return {"faction": reference(), "points": 1}
            case _:
                return {"query": reference()}

    chain = [
        ToolChoice(
            sub_query=draw(st.integers(0, parts - 1)),
            tool=(name := draw(names)),
            parameters=arguments(name),
            depends_on=tuple(draw(st.sets(positions, max_size=2))),
            confidence=draw(st.floats(0, 1)),
        )
        for _ in range(count)
    ]
    return query, chain


@given(chains())
def test_every_step_waits_for_steps_of_earlier_stages_only(made: tuple[DecomposedQuery, list[ToolChoice]]) -> None:
    query, chain = made
    runtime = rulebook()
    tools = [runtime.registry.info(name) for name in runtime.registry.names()]
    built = build_steps(runtime, PlannerSettings(), query, chain, tools)
    stage_of = {name: number for number, stage in enumerate(built.stages) for name in stage}
    assert [each.id for each in built.steps] == [name for stage in built.stages for name in stage]
    assert len(stage_of) == len(built.steps)
    for each in built.steps:
        waits = {*each.dependencies, *each.after}
        assert all(stage_of[other] < stage_of[each.id] for other in waits)
        assert {f"c{n}" for n in positions_in(dict(each.parameters))} <= set(each.dependencies)
        if stage_of[each.id]:
            assert any(stage_of[other] == stage_of[each.id] - 1 for other in waits)
    left_out = {f"c{n}" for n in range(len(chain))} - stage_of.keys()
    assert all(any(note.startswith(f"{name} ") for note in built.left_out) for name in left_out)
    assert len(built.left_out) == len(left_out)
