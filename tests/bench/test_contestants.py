"""The peers, each in its own process, as the harness asks them.

Those that are not installed beside the tests run in the environment that the harness makes for them: in CI always,
elsewhere they are skipped.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from bench.interpreters import packages_of
from callgate_bench.contest.process import PeerFailed
from callgate_bench.contest.seats import Seat
from callgate_bench.contestants.contestant import (
    CannotDo,
    Opened,
    Turn,
    monty_refusal,
    pydantic_ai_refusal,
    smolagents_refusal,
)
from callgate_bench.contestants.listed import PEERS
from callgate_bench.workloads import WORKLOADS
from callgate_bench.workloads.dialects import rewrite
from callgate_bench.workloads.workload import Call

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="the harness needs Linux"),
]

_PACKAGES = {
    "monty": ["pydantic_monty"],
    "pydantic-ai": ["pydantic_ai_harness"],
    "fastmcp": ["fastmcp", "pydantic_monty"],
    "smolagents": ["smolagents"],
}
_LISTED = {each.name: each for each in PEERS if each.name in _PACKAGES}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """The wire is tested on both loops elsewhere; here it is the peers that count, one process of each."""
    return "asyncio"


@pytest.fixture(scope="module", params=_PACKAGES)
async def seat(request: pytest.FixtureRequest) -> AsyncIterator[Seat]:
    listed = _LISTED[request.param]
    packages = await packages_of(listed.name, *_PACKAGES[listed.name])
    async with Seat(listed, packages) as seat:
        yield seat


@dataclass
class Ended:
    """How a workload went.

    Attributes:
        answer: the model's last words.
        calls: of the workload's tools.
        opened: what the model was shown.
        turns: those of programs.
    """

    answer: str
    calls: int
    opened: Opened
    turns: list[Turn]


async def play(seat: Seat, workload: str) -> Ended:
    """Do a workload as the scripted model does it, in a conversation of its own."""
    chosen = WORKLOADS[workload]
    opened = await seat.open(workload, 0.0)
    await seat.ask("begin")
    for calls in opened.first:
        await seat.act(calls)
    script, turns = chosen.programs(), []
    said = next(script)
    while True:
        program = rewrite(said, opened.dialect, [each.__name__ for each in chosen.tools])
        turns.append(await seat.act([Call(opened.tool, {opened.argument: program})]))
        answer = turns[-1].final
        if not answer:
            try:
                said = script.send(turns[-1].texts[0])
                continue
            except StopIteration as ended:
                answer = ended.value
        return Ended(answer, sum(each.calls for each in turns), opened, turns)


async def run(seat: Seat, opened: Opened, program: str) -> str:
    """The text that came of a program in the peer's own dialect."""
    turn = await seat.act([Call(opened.tool, {opened.argument: program})])
    return turn.texts[0]


async def test_each_does_the_workloads_that_it_can(seat: Seat) -> None:
    chain = await play(seat, "monitoring")
    assert WORKLOADS["monitoring"].wrong(chain.answer) == ""
    assert chain.calls == 3
    assert all(turn.seconds > 0 for turn in chain.turns)
    assert seat.version[0].isdigit()
    fan = await play(seat, "fan-out")
    assert WORKLOADS["fan-out"].wrong(fan.answer) == ""
    assert fan.calls == 202
    retried = await play(seat, "enrich")
    assert WORKLOADS["enrich"].wrong(retried.answer) == ""


async def test_each_says_itself_what_it_does_not_support(seat: Seat) -> None:
    with pytest.raises(CannotDo, match=r"statistics|dataclasses"):
        await play(seat, "aggregation")
    again = await play(seat, "monitoring")
    assert WORKLOADS["monitoring"].wrong(again.answer) == ""


async def test_a_program_that_fails_is_told_to_the_model_and_no_reason_to_give_up(seat: Seat) -> None:
    opened = await seat.open("monitoring", 0.0)
    await seat.ask("begin")
    assert "division by zero" in await run(seat, opened, "print('so far')\n1 / 0")
    assert "3" in await run(seat, opened, "1 + 2")
    data = "'NotImplementedError: no such thing. Import of json is not allowed'"
    assert "no such thing" in await run(seat, opened, data)


async def test_conversations_do_not_see_each_other(seat: Seat) -> None:
    opened = await seat.open("monitoring", 0.0)
    await seat.ask("begin")
    await run(seat, opened, "left = 123456")
    await seat.ask("begin")
    assert "123456" not in await run(seat, opened, "left")


async def test_what_a_program_prints_does_not_disturb_the_wire(seat: Seat) -> None:
    opened = await seat.open("monitoring", 0.0)
    await seat.ask("begin")
    assert "kept" in await run(seat, opened, "print('{\"not\": \"the answer\"}')\n'kept'")


async def test_each_shows_the_model_what_it_shows_its_own(seat: Seat) -> None:
    opened = await seat.open("fan-out", 0.0)
    _SHOWN[seat.listed.name](opened)


async def test_the_first_turn_of_fastmcp_finds_all_tools_with_their_schemas(seat: Seat) -> None:
    for name, workload in WORKLOADS.items():
        opened = await seat.open(name, 0.0)
        assert len(opened.first) == (1 if seat.listed.name == "fastmcp" else 0)
        for calls in opened.first:
            ((found,),) = [(await seat.act(calls)).texts]
            for function in workload.tools:
                assert f"### {function.__name__}\n" in found
            assert "search" in opened.note


async def test_a_real_model_is_told_what_is_not_supported_and_may_go_on(seat: Seat) -> None:
    if seat.listed.name == "smolagents":
        with pytest.raises(CannotDo, match="between <code> tags"):
            await seat.open("monitoring", 0.0, scripted=False)
        return
    opened = await seat.open("monitoring", 0.0, scripted=False)
    await seat.ask("begin")
    for _ in range(2):
        assert "statistics" in await run(seat, opened, "import statistics\nstatistics.mean([1, 2])")
    assert "3" in await run(seat, opened, "1 + 2")
    again = await seat.open("monitoring", 0.0)
    await seat.ask("begin")
    with pytest.raises(CannotDo, match="statistics"):
        await run(seat, again, "import statistics\nstatistics.mean([1, 2])")


async def test_the_pace_changes_and_what_is_open_stays_so(seat: Seat) -> None:
    opened = await seat.open("monitoring", 0.0)
    await seat.ask("pace", paced=1.0)
    await seat.ask("begin")
    program = rewrite('(await query_metric(name="cpu_usage"))["current"]\n', opened.dialect, ["query_metric"])
    turn = await seat.act([Call(opened.tool, {opened.argument: program})])
    assert turn.calls == 1
    assert turn.seconds >= turn.tool_seconds >= 0.14
    assert "72.5" in turn.texts[0]


def _monty(opened: Opened) -> None:
    assert [each["name"] for each in opened.tools] == ["execute_code"]
    assert not opened.own_words


def _pydantic_ai(opened: Opened) -> None:
    (tool,) = opened.tools
    assert tool["name"] == opened.tool == "run_code"
    assert "async def get_stock(*, sku: str) -> dict[str, Any]:" in tool["description"]
    assert opened.argument in tool["input_schema"]["properties"]
    assert opened.note == "max_tool_calls raised to 300; its default is 100"


def _fastmcp(opened: Opened) -> None:
    assert {each["name"] for each in opened.tools} == {"search", "get_schema", "execute"}
    assert all(each["description"] and each["input_schema"]["properties"] for each in opened.tools)
    assert opened.note.endswith("; max_tool_calls raised to 300, its default is 50")


def _smolagents(opened: Opened) -> None:
    assert "You are an expert assistant who can solve any task using code blobs." in opened.system
    assert "def get_stock(sku: string) -> object:" in opened.system
    assert [each["name"] for each in opened.tools] == [opened.tool]


_SHOWN: Mapping[str, Callable[[Opened], None]] = {
    "monty": _monty,
    "pydantic-ai": _pydantic_ai,
    "fastmcp": _fastmcp,
    "smolagents": _smolagents,
}


async def test_smolagents_programs_give_the_final_answer_themselves(seat: Seat) -> None:
    chain = await play(seat, "monitoring")
    ends_itself = seat.listed.name == "smolagents"
    assert bool(chain.turns[-1].final) is ends_itself
    if ends_itself:
        with pytest.raises(PeerFailed, match="begin a new conversation"):
            await run(seat, chain.opened, "1")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (
            "Traceback (most recent call last):\n  File \"a\", line 1\nModuleNotFoundError: No module named 'x'",
            "ModuleNotFoundError: No module named 'x'",
        ),
        (
            "Error calling tool 'execute': NotImplementedError: The monty syntax parser does not yet support yield",
            "NotImplementedError: The monty syntax parser does not yet support yield",
        ),
        ("Traceback (most recent call last):\nValueError: ModuleNotFoundErrors", ""),
        ("NotImplementedError: in data\nZeroDivisionError: division by zero", ""),
        ("", ""),
    ],
)
def test_montys_refusals_are_its_own_last_words(text: str, refusal: str) -> None:
    assert monty_refusal(text) == refusal


def test_a_check_of_types_refuses_imports_only() -> None:
    unknown = "Type error in code:\nerror[unresolved-import]: Cannot resolve imported module `x`\n --> main.py:1:8\n"
    assert pydantic_ai_refusal(unknown) == "Cannot resolve imported module `x`"
    assert pydantic_ai_refusal("Type error in code:\nerror[no-matching-overload]: No overload matches\n") == ""
    assert pydantic_ai_refusal("Runtime error:\nModuleNotFoundError: No module named 'x'").startswith("ModuleNotFound")


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("… due to: InterpreterError: Import of json is not allowed. Authorized: ['re']\nNow", "Import of json is not"),
        ("… due to: InterpreterError: Import from a.b is not allowed.", "Import from a.b is not allowed."),
        ("… due to: InterpreterError: Match is not supported.", "Match is not supported."),
        ("… due to: InterpreterError: The variable `y` is not defined.", ""),
        ("… due to: ValueError: 'x is not supported'", ""),
    ],
)
def test_smolagents_refusals_are_its_interpreters(text: str, refusal: str) -> None:
    assert bool(smolagents_refusal(text)) == bool(refusal)
    assert smolagents_refusal(text).startswith(refusal)


@pytest.fixture(scope="module")
async def langgraph(anyio_backend: str) -> AsyncIterator[Seat]:
    (listed,) = (each for each in PEERS if each.name == "langgraph")
    async with Seat(listed, await packages_of("langgraph", "langgraph")) as seat:
        yield seat


async def told(seat: Seat, *steps: Mapping[str, Any], **fields: Any) -> str:
    """What the model is told of one plan."""
    plan = {"steps": list(steps), **fields}
    return (await seat.act([Call("execute_tool_plan", {"plan": plan})])).texts[0]


@pytest.mark.parametrize("name", [name for name, each in WORKLOADS.items() if each.plans is not None])
async def test_langgraph_does_every_workload_that_a_plan_can_do(langgraph: Seat, name: str) -> None:
    plans = WORKLOADS[name].plans
    assert plans is not None
    opened = await langgraph.open(name, 0.0)
    assert (opened.form, opened.own_words) == ("plan", False)
    script, answer = plans(), ""
    plan = next(script)
    while not answer:
        turn = await langgraph.act([Call(opened.tool, {"plan": plan})])
        try:
            plan = script.send(turn.texts[0])
        except StopIteration as ended:
            answer = ended.value
    assert WORKLOADS[name].wrong(answer) == ""


async def test_langgraph_takes_references_expressions_and_empty_loops(langgraph: Seat) -> None:
    await langgraph.open("regions", 0.0)
    text = await told(
        langgraph,
        {"id": "list", "tool": "list_regions"},
        {"id": "none", "tool": "get_weather", "for_each": [], "arguments": {"city": "$item"}},
        {"id": "one", "tool": "query_sales", "arguments": {"region": {"$ref": "list.regions[-1].region"}}},
        {"id": "two", "tool": "query_sales", "arguments": {"region": {"$expr": "[r.region for r in list.regions][1]"}}},
        {"id": "late", "tool": "query_sales", "depends_on": ["one", "two"], "arguments": {"region": "north"}},
        {"id": "all", "tool": "query_sales", "depends_on": ["one", "none"], "for_each": "$ref:list.regions",
         "arguments": {"region": "$item.region"}},
    )  # fmt: skip
    lines = dict(line.split(": ", 1) for line in text.splitlines()[1:])
    assert set(lines) == {"list", "none", "one", "two", "late", "all"}
    assert lines["none"] == "[]"
    assert '"region":"centre"' in lines["one"]
    assert '"region":"south"' in lines["two"]
    assert lines["all"].count("revenue_euros") == 5


async def test_langgraph_says_what_it_cannot_and_what_went_wrong(langgraph: Seat) -> None:
    await langgraph.open("regions", 0.0)
    for field, value in (("after", ["b"]), ("when", "$ref:b"), ("arguments", {"region": "${b.x}"})):
        with pytest.raises(CannotDo, match="which the harness does not put into LangGraph's words"):
            await told(langgraph, {"id": "a", "tool": "list_regions", field: value})
    text = await told(langgraph, {"id": "a", "tool": "list_regions", "arguments": {"of": "nowhere"}})
    assert text.startswith("The plan failed: TypeError: list_regions() got an unexpected keyword argument 'of'")
    reference = {"region": "$ref:a.regions[9].region"}
    steps = ({"id": "a", "tool": "list_regions"}, {"id": "b", "tool": "query_sales", "arguments": reference})
    assert (await told(langgraph, *steps)).startswith("The plan failed: IndexError: ")
    assert await told(langgraph, {"id": "a", "tool": "list_region"}) == "The plan failed: KeyError: 'list_region'"
    await langgraph.open("regions", 0.0, scripted=False)
    text = await told(langgraph, {"id": "a", "tool": "list_regions", "after": ["b"]})
    assert text.startswith("The plan cannot be run: step 'a' asks for after")


def test_those_without_tools_keep_a_row_that_says_why() -> None:
    reasons = {each.name: each.cannot for each in PEERS if not each.module}
    assert set(reasons) == {"bubblewrap", "docker"}
    assert all("has no tools" in each for each in reasons.values())
