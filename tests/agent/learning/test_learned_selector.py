"""A selector that learns: tools are left out where others do the same, get another chance, and combinations replace
others, with a reason for each."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgate.agent.learning.memory import SelectionMemory
from callgate.agent.learning.ranked import LearnedSelector, can_stand_in
from callgate.agent.learning.selections_file import SelectionsFile
from callgate.agent.planning.selection import Selection, SelectionOutcome, ToolChoice
from callgate.agent.planning.tool_plan import DecomposedQuery, SubQuery
from callgate.tools.registry import ToolInfo

pytestmark = pytest.mark.anyio

WEATHER = DecomposedQuery(query="weather in Paris", sub_queries=(SubQuery(text="weather in Paris"),))


def info(name: str, *capabilities: str, required: Sequence[str] = ("city",), optional: Sequence[str] = ()) -> ToolInfo:
    properties = {each: {"type": "string"} for each in (*required, *optional)}
    return ToolInfo(
        name=name, description="", category=None, examples=(), capabilities=capabilities, limitations=(), cost=None,
        parameters={
            "type": "object", "properties": properties, "required": list(required), "additionalProperties": False
        },
        calls=0, average_seconds=None, p95_seconds=None, failure_rate=None, read_only=True,
    )  # fmt: skip


A, B, C = info("a", "forecast"), info("b", "Forecast"), info("c", "flights")


class First:
    """Chooses the first tool that it is offered, for each word of `wanted`."""

    name = "first"

    def __init__(self, *wanted: str) -> None:
        self.wanted = wanted
        self.offered: list[tuple[str, ...]] = []

    async def select(self, query: DecomposedQuery, tools: Sequence[ToolInfo]) -> Selection:
        names = tuple(each.name for each in tools)
        self.offered.append(names)
        chosen = self.wanted or names[:1]
        return Selection(
            chain=tuple(ToolChoice(sub_query=0, tool=each, parameters={"city": "Paris"}) for each in chosen),
            reasoning="it is the first", strategy=self.name,
        )  # fmt: skip


def outcome(*tools: str, success: bool = True, failed: tuple[str, ...] = ()) -> SelectionOutcome:
    return SelectionOutcome(
        query="weather in Rome", tools=tools, strategy="first", success=success, failed_tools=failed
    )


def memory_of(*outcomes: SelectionOutcome) -> SelectionMemory:
    memory = SelectionMemory()
    for each in outcomes:
        memory.note(each)
    return memory


BAD_A = [outcome("a", success=False, failed=("a",))] * 6


async def test_a_tool_that_fails_is_left_out_where_another_does_the_same() -> None:
    first = First()
    selection = await LearnedSelector(first, memory_of(*BAD_A)).select(WEATHER, [A, B, C])
    assert first.offered == [("b", "c")]
    assert [each.tool for each in selection.chain] == ["b"]
    assert selection.strategy == "first+learned"
    assert selection.reasoning == (
        "it is the first\nLearned: a was left out because it fails often: 6 of 6 times for queries like this one, "
        "at least 79% by Wilson; b can do the same."
    )


async def test_a_tool_without_an_equal_stays_and_it_is_said_what_speaks_against_it() -> None:
    selection = await LearnedSelector(First(), memory_of(*BAD_A)).select(WEATHER, [A, C])
    assert [each.tool for each in selection.chain] == ["a"]
    assert "Learned: a was chosen although it fails often: 6 of 6 times" in selection.reasoning
    assert selection.chain[0].confidence == pytest.approx(5 / 11)


async def test_a_tool_that_is_left_out_gets_another_chance_every_so_often() -> None:
    first, memory = First(), memory_of(*BAD_A)
    selector = LearnedSelector(first, memory, explore_every=4)
    for _ in range(8):
        selection = await selector.select(WEATHER, [A, B])
        memory.note(outcome(selection.chain[0].tool))
    assert [n for n, offered in enumerate(first.offered) if "a" in offered] == [3, 7]
    assert "Learned: a was offered again, to see whether it still fails often" in selection.reasoning
    assert selection.strategy == "first+learned:again"


async def test_processes_that_select_once_each_give_another_chance_too(tmp_path: Path) -> None:
    given = []
    for _ in range(50):  # each as `callgate agent --planner tool --statistics FILE` is
        memory = SelectionMemory()
        async with SelectionsFile(tmp_path / "kept.db", memory):
            selection = await LearnedSelector(First(), memory).select(WEATHER, [A, B])
            tool = selection.chain[0].tool
            memory.note(outcome(tool, success=tool == "b", failed=("a",) if tool == "a" else ()))
        given.append(tool)
    assert [n for n, tool in enumerate(given) if tool == "a"] == [0, 1, 2, 3, 4, 24, 44]


async def test_a_tool_that_was_mended_is_found_out_within_a_hundred_queries() -> None:
    draw, memory = random.Random(2), SelectionMemory()
    selector, chosen = LearnedSelector(First(), memory), list[str]()
    for n in range(400):
        selection = await selector.select(WEATHER, [A, B])
        tool = selection.chain[0].tool
        works = tool == "b" or n >= 200 or draw.random() < 0.2
        memory.note(outcome(tool, success=works, failed=() if works else (tool,)))
        chosen.append(tool)
    assert chosen[:5] == ["a"] * 5
    assert chosen[20:200].count("a") <= 15
    assert chosen[310:] == ["a"] * 90


async def test_what_did_better_together_takes_the_places() -> None:
    pair = [outcome("b", "c")] * 20
    worse = [outcome("a", "c", success=False)] * 12 + [outcome("a", "c")] * 2
    selection = await LearnedSelector(First("a", "c"), memory_of(*pair, *worse)).select(WEATHER, [A, B, C])
    assert [each.tool for each in selection.chain] == ["b", "c"]
    assert selection.chain[0].reasoning == "(in the place of a)"
    assert selection.reasoning.endswith(
        "Learned: b + c instead of a + c: 20 of 20 like this succeeded, against 2 of 14."
    )


@pytest.mark.parametrize(
    ("other", "may"),
    [
        (info("b", "forecast"), True),
        (info("b", "forecast", optional=["units"]), True),
        (info("b", "forecast", required=["city", "key"]), False),
        (info("b", "forecast", required=["town"]), False),
        (info("b", "flights"), False),
        (info("b"), False),
        (A, False),
    ],
)
def test_equal_is_what_can_do_the_same_with_the_same_arguments(other: ToolInfo, may: bool) -> None:
    assert can_stand_in(other, A) is may


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
UNITS = {"type": "string", "enum": ["C", "F"]}


@pytest.mark.parametrize(
    ("one", "other", "may"),
    [
        (STRING, STRING, True), (STRING, INTEGER, False), (UNITS, UNITS, True), (STRING, UNITS, False),
        (True, {}, True), (True, STRING, False),
    ],
)  # fmt: skip
def test_equal_tools_take_arguments_of_the_same_types(one: Any, other: Any, may: bool) -> None:
    first, second = (
        replace(info(name, "forecast"), parameters={"properties": {"city": schema}, "required": ["city"]})
        for name, schema in (("a", one), ("b", other))
    )
    assert can_stand_in(second, first) is may


@pytest.mark.parametrize(
    ("one", "other"),
    [(A, replace(B, read_only=False)), (replace(A, read_only=False), B), (replace(A, read_only=False),) * 2],
)
async def test_statistics_never_choose_what_changes_something(one: ToolInfo, other: ToolInfo) -> None:
    other = replace(other, name="b")
    memory = SelectionMemory()
    for _ in range(30):
        memory.note(outcome("a", success=False, failed=("a",)))
        memory.note(outcome("b"))
    assert can_stand_in(B, A)
    assert not can_stand_in(other, one)
    first = First()
    selection = await LearnedSelector(first, memory).select(WEATHER, [one, other])
    assert first.offered == [("a", "b")]
    assert [choice.tool for choice in selection.chain] == ["a"]
    assert "a was chosen although it fails often" in selection.reasoning
