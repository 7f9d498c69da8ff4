"""LangGraph and LLMCompiler's scheduler as contestants, and the references of plans that both need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bench.interpreters import python_of
from callgate.bench.contestants.plans import opened, outputs, plan_of, ran, refuse_others
from callgate.bench.contestants.references import BadReference, needed, references, replaced, resolved
from callgate.bench.contestants.seat import CannotDo, Meter
from callgate.bench.peers.process import PeerProcess
from callgate.bench.workloads import WORKLOADS

pytestmark = pytest.mark.anyio

KNOWN: Mapping[str, Any] = {
    "a": {"rows": [{"n": 1}, {"n": 2}], "name": "Oslo", "7": "seven"},
    "text": '{"n": 3}',
    "item": {"id": "x"},
    "index": 4,
}


@pytest.fixture
def anyio_backend() -> str:
    """The harness runs on asyncio, and so do the peers."""
    return "asyncio"


@asynccontextmanager
async def seat(module: str, package: str) -> AsyncIterator[PeerProcess]:
    """The contestant in a process of its own."""
    python = await python_of(package, package)
    async with PeerProcess(module, f"callgate.bench.contestants.{module}", python=python) as process:
        yield process


async def run(process: PeerProcess, *plans: Mapping[str, Any]) -> dict[str, Any]:
    """What came of a turn."""
    calls = [{"tool": "execute_tool_plan", "arguments": {"plan": each}} for each in plans]
    return await process.ask("turn", calls=calls)


async def text(process: PeerProcess, *steps: Mapping[str, Any], **fields: Any) -> str:
    """What the model is told of one plan."""
    told: str = (await run(process, {"steps": list(steps), **fields}))["texts"][0]
    return told


async def played(process: PeerProcess, workload: str) -> str:
    """How a workload ended: ``right``, what is wrong, or why it cannot."""
    plans = WORKLOADS[workload].plans
    assert plans is not None
    await process.ask("open", workload=workload, paced=0)
    script = plans()
    try:
        plan = next(script)
        while True:
            turn = await run(process, plan)
            if "cannot" in turn:
                return str(turn["cannot"])
            plan = script.send(turn["texts"][0])
    except StopIteration as ended:
        return WORKLOADS[workload].wrong(ended.value) or "right"


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("$ref:a.rows[1].n", 2),
        ("$ref:a.rows[-1]", {"n": 2}),
        ("$ref:a.rows[*].n", [1, 2]),
        ("$ref:a.rows.0.n", 1),
        ('$ref:a["7"]', "seven"),
        ("$ref:a.rows[9].n", None),
        ("$ref:text.n", 3),
        ({"$ref": "a.name"}, "Oslo"),
        ("${a.name} and ${ a.rows[0] }", 'Oslo and {"n":1}'),
        ("$item.id", "x"),
        ("$index", 4),
        ("$items of ${item.id}", "$items of x"),
        ({"$literal": "$ref:a"}, "$ref:a"),
        ("$$ref:a", "$ref:a"),
        ({"deep": ["$ref:a.name", 1, None]}, {"deep": ["Oslo", 1, None]}),
    ],
)
def test_a_reference_stands_for_its_value(template: Any, value: Any) -> None:
    assert resolved(template, KNOWN, {"a", "text"}) == value


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ({"$ref": "a.nme"}, "a: there is nothing at 'nme'"),
        ("${a.rows[9]}", "a: there is nothing at 9"),
        ("$ref:b.name", "'b.name' names no step"),
        ("$ref:a.rows[x]", "'a.rows[x]' cannot be read from '[x]' on"),
        ({"$expr": "for"}, "'for' is no expression"),
    ],
)
def test_a_bad_reference_says_what_is_bad(template: Any, told: str) -> None:
    def read() -> None:
        assert list(references(template, {"a", "text"}))
        resolved(template, KNOWN, {"a", "text"})

    with pytest.raises(BadReference) as error:
        read()
    assert str(error.value).startswith(told)


def test_an_expression_needs_someone_to_do_it() -> None:
    expression = {"$expr": "[each.n for each in a]"}
    assert [each.source for each in references(expression, {"a", "text"})] == ["a"]
    assert resolved(expression, {"a": 1}, {"a"}, lambda said, known: (said, dict(known))) == (
        "[each.n for each in a]",
        {"a": 1},
    )
    with pytest.raises(CannotDo):
        resolved(expression, {"a": 1}, {"a"})


def test_a_step_needs_what_it_names_and_what_it_refers_to() -> None:
    step = {
        "id": "d", "tool": "t", "depends_on": ["c"], "for_each": "$ref:b.rows", "when": {"$expr": "a > 1"},
        "arguments": {"x": "${item.x} of ${b.name}"},
    }  # fmt: skip
    assert needed(step, {"a", "b", "c", "d"}) == ["a", "b", "c"]
    assert needed({"id": "a", "tool": "t"}, {"a"}) == []
    with pytest.raises(BadReference, match="'e' names no step"):
        needed({"id": "a", "tool": "t", "arguments": {"x": "$ref:e"}}, {"a"})


def test_text_keeps_what_is_escaped_when_its_references_are_replaced() -> None:
    text = "$${a.name} costs ${ a.rows[0].n } of ${text}"
    assert replaced(text, {"a", "text"}, lambda each: f"<{each.source}>") == "$${a.name} costs <a> of <text>"
    with pytest.raises(BadReference, match="'b' names no step"):
        replaced("${b}", {"a"}, str)


def test_a_plan_may_be_text_or_the_arguments_themselves() -> None:
    plan: dict[str, Any] = {"steps": []}
    assert plan_of({"plan": plan}) == plan_of({"plan": '{"steps": []}'}) == plan_of(plan) == plan
    with pytest.raises(ValueError, match="Expecting"):
        plan_of({"plan": "first this"})


def test_outputs_are_those_asked_for_that_have_a_result() -> None:
    told = outputs({"a": {"n": 1}, "b": "Zürich", "c": None}, ["b", "a", "skipped"])
    assert told == 'Outputs:\nb: Zürich\na: {"n":1}'


def test_fields_that_a_contestant_cannot_take_are_named() -> None:
    refuse_others("plan", {"steps": []}, frozenset({"steps", "goal"}), "which it cannot")
    with pytest.raises(CannotDo, match=r"^step 'a' asks for after, when, which it cannot$"):
        refuse_others("step 'a'", {"when": 1, "id": "a", "after": 2}, frozenset({"id"}), "which it cannot")


async def test_the_plans_of_a_turn_run_at_the_same_time() -> None:
    meter, both = Meter(), asyncio.Barrier(2)

    async def tool() -> None:
        await both.wait()

    async def run(arguments: Mapping[str, Any]) -> str:
        await asyncio.wait_for(meter.metered(tool)(), 10)
        return str(arguments["plan"])

    turn = await ran([{"arguments": {"plan": each}} for each in "ab"], run, meter)
    assert turn["texts"] == ["a", "b"]
    assert len(turn["intervals"]) == 2
    assert opened("why")["note"] == "why"


async def test_langgraph_does_every_workload_that_a_plan_can_do() -> None:
    async with seat("langgraph_plan", "langgraph") as process:
        ends = {name: await played(process, name) for name, each in WORKLOADS.items() if each.plans is not None}
    assert ends == dict.fromkeys(ends, "right")
    assert len(ends) > 5


async def test_langgraph_takes_conditions_empty_loops_and_several_plans_in_a_turn() -> None:
    async with seat("langgraph_plan", "langgraph") as process:
        opened = await process.ask("open", workload="regions", paced=0)
        assert (opened["form"], opened["own_words"]) == ("plan", False)
        told = await text(
            process,
            {"id": "list", "tool": "list_regions"},
            {"id": "none", "tool": "get_weather", "for_each": [], "arguments": {"city": "$item"}},
            {
                "id": "yes", "tool": "query_sales", "when": {"$expr": "len(list.regions) == 5"},
                "arguments": {"region": "$ref:list.regions[0].region"},
            },
            {"id": "no", "tool": "query_sales", "when": "$ref:none", "arguments": {"region": "north"}},
            {"id": "needs", "tool": "query_sales", "depends_on": ["no", "yes"], "arguments": {"region": "north"}},
            {
                "id": "both", "tool": "query_sales", "depends_on": ["yes"], "for_each": "$ref:list.regions",
                "arguments": {"region": "$item.region"},
            },
        )  # fmt: skip
        lines = dict(line.split(": ", 1) for line in told.splitlines()[1:])
        assert list(lines) == ["list", "none", "yes", "both"]
        assert lines["none"] == "[]"
        assert lines["both"].count("revenue_euros") == 5

        step = {"id": "one", "tool": "list_regions"}
        turn = await run(process, {"steps": [step]}, {"steps": [step | {"id": "two"}]})
        assert [each.splitlines()[1][:5] for each in turn["texts"]] == ["one: ", "two: "]
        assert len(turn["intervals"]) == 2
        assert turn["seconds"] > 0


async def test_langgraph_says_what_it_cannot_and_what_went_wrong() -> None:
    async with seat("langgraph_plan", "langgraph") as process:
        await process.ask("open", workload="regions", paced=0)
        turn = await run(process, {"steps": [{"id": "a", "tool": "list_regions", "after": ["b"]}]})
        assert turn == {"cannot": "step 'a' asks for after, which the harness does not put into LangGraph's words"}
        told = await text(process, {"id": "a", "tool": "list_regions", "arguments": {"of": "nowhere"}})
        assert told.startswith("The plan failed: TypeError: list_regions() got an unexpected keyword argument 'of'")
        told = await text(
            process,
            {"id": "a", "tool": "list_regions"},
            {"id": "b", "tool": "query_sales", "arguments": {"region": {"$ref": "a.regions[9].region"}}},
        )
        assert told == "The plan failed: BadReference: a: there is nothing at 9"
        assert await text(process, {"id": "a", "tool": "list_region"}) == "The plan failed: KeyError: 'list_region'"


async def test_a_real_model_is_told_why_its_plan_cannot_be_run() -> None:
    async def run(arguments: Mapping[str, Any]) -> str:
        raise CannotDo("it has no expressions")

    turn = await ran([{"arguments": {}}], run, Meter(), scripted=False)
    assert turn["texts"] == ["The plan cannot be run: it has no expressions"]
    with pytest.raises(CannotDo, match="it has no expressions"):
        await ran([{"arguments": {}}], run, Meter())


async def test_llmcompiler_does_what_its_tasks_can_say() -> None:
    async with seat("llmcompiler_plan", "llmcompiler") as process:
        ends = {name: await played(process, name) for name, each in WORKLOADS.items() if each.plans is not None}
    assert {name for name, end in ends.items() if end == "right"} == {"weather", "judgement"}
    assert ends["monitoring"] == "its references reach one field of a result, not a path into it"
    assert ends["regions"].startswith("the tasks have to be known when the plan is written")
    assert "retry" in ends["enrich"]


async def test_llmcompiler_takes_loops_over_what_stands_in_the_plan() -> None:
    async with seat("llmcompiler_plan", "llmcompiler") as process:
        await process.ask("open", workload="weather", paced=0)
        told = await text(
            process,
            {"id": "best", "tool": "compare_weather", "arguments": {"reports": "$ref:each"}},
            {"id": "again", "tool": "get_weather", "arguments": {"city": "$ref:best.warmest"}},
            {"id": "text", "tool": "get_weather", "arguments": {"city": "${again.city}"}},
            {"id": "each", "tool": "get_weather", "for_each": ["Athens", "Lisbon"], "arguments": {"city": "$item"}},
            output_steps=["text", "each"],
        )
        assert told.count('"city":"Athens"') == 2
        assert told.count('"city":"Lisbon"') == 1

        told = await text(process, {"id": "bad", "tool": "get_weather", "arguments": {"city": 3}})
        assert "ERROR(Failed to call get_weather" in told

        circle = {"id": "x", "tool": "get_weather", "arguments": {"city": "$ref:x.city"}}
        assert await text(process, circle) == "The plan cannot be run: BadReference: step 'x' waits for itself"
