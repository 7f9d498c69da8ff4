"""Dynamic discovery in both patterns, and programs over what was found: the key points of tool-patterns.md."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.loop.scripted_runs import of, play, sandboxed, shown, told
from callgate import Runtime, tool
from callgate.agent.events import Resumed, ToolsFound
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.transcript import read_transcript
from callgate.agent.models.model import Request
from callgate.agent.models.scripted import Calls, ScriptedModel

pytestmark = pytest.mark.anyio

SEARCHES = ("search_tools", "describe_tools")
TOKYO = Calls(("get_weather", {"city": "Tokyo"}))
SUNNY = "Tokyo: sunny, 22 °C"


def search(query: str, **more: Any) -> Calls:
    return Calls(("search_tools", {"query": query, **more}))


@tool(read_only=True)
async def get_weather(city: str) -> str:
    """The weather of a city now."""
    return f"sunny in {city}"


@tool(read_only=True)
async def get_forecast(city: str, days: int) -> str:
    """The weather of a city in the next days."""
    return f"rain in {city}"


@tool
async def send_mail(to: str) -> str:
    """Send a mail to somebody."""
    return f"sent to {to}"


@tool(read_only=True)
async def query_sales(region: str) -> dict[str, Any]:
    """The sales of a region."""
    return {"region": region, "revenue": {"west": 150_000, "east": 220_000}[region]}


WORLD = [get_weather, get_forecast, send_mail, query_sales]


# filter


async def test_all_are_registered_the_search_is_visible_and_what_it_finds_becomes_so(tmp_path: Path) -> None:
    result, model = await play(
        WORLD, search("weather of a city"), TOKYO, SUNNY, mode="direct", direct=(), transcript=tmp_path / "t.jsonl"
    )
    assert (result.outcome, result.answer, result.turns) == ("answered", SUNNY, 3)
    first, second, third = shown(model)
    assert first == SEARCHES
    assert second[:2] == third[:2] == SEARCHES
    assert set(second[2:]) == set(third[2:]) >= {"get_weather", "get_forecast"}
    assert "send_mail" not in second
    assert told(model.requests[2]) == ["sunny in Tokyo"]
    (found,) = of(result, ToolsFound)
    assert found.turn == 1
    assert set(found.tools) == set(result.found) == set(second[2:])
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    (line,) = [each for each in lines if each["kind"] == "tools_found"]
    assert set(line["state"]["found"]) >= {"get_weather", "get_forecast"}


async def test_with_more_than_30_tools_the_model_searches_unasked() -> None:
    def thing(n: int) -> Any:
        async def do() -> int:
            return n

        do.__name__ = f"thing_{n}"
        do.__doc__ = f"Does the thing number {n}."
        return tool(read_only=True)(do)

    few, model = await play([thing(n) for n in range(30)], "done", mode="direct")
    assert len(shown(model)[0]) == 30
    many, model = await play([get_weather, *(thing(n) for n in range(30))], search("weather"), TOKYO, "done")
    assert {few.outcome, many.outcome} == {"answered"}
    assert set(shown(model)[0]) == {*SEARCHES, "execute_tool_plan"}
    assert "get_weather" in shown(model)[1]


async def test_a_search_gives_schemas_by_words_and_by_a_pattern() -> None:
    result, model = await play(
        WORLD,
        search("^get_.*", regex=True),
        search("mail"),
        Calls(("describe_tools", {"names": ["query_sales"]})),
        "done",
        mode="direct",
        direct=(),
    )
    by_pattern, by_words, described = (told(request)[0] for request in model.requests[1:])
    assert "get_weather(" in by_pattern
    assert "city: str" in by_pattern
    assert "days: int" in by_pattern
    assert "send_mail" not in by_pattern
    assert "send_mail(" in by_words
    assert "to: str" in by_words
    assert "query_sales" in described
    assert "region" in described
    assert [set(names[2:]) for names in shown(model)] == [
        set(),
        {"get_weather", "get_forecast"},
        {"get_weather", "get_forecast", "send_mail"},
        {"get_weather", "get_forecast", "send_mail", "query_sales"},
    ]
    definition = next(each["function"] for each in model.requests[1].tools if "city" in str(each))
    assert definition["parameters"]["properties"]["city"]["type"] == "string"
    assert len(of(result, ToolsFound)) == 3


async def test_the_search_and_the_first_call_in_one_turn_are_both_answered() -> None:
    """The call comes too early: it was written before anything was found."""
    both = Calls(("search_tools", {"query": "weather"}), ("get_weather", {"city": "Tokyo"}))
    result, model = await play(WORLD, both, TOKYO, SUNNY, mode="direct", direct=(), max_parallel_tool_calls=2)
    assert result.outcome == "answered"
    assert len(told(model.requests[1])) == 2
    assert told(model.requests[2]) == ["sunny in Tokyo"]


# interrupt


async def test_a_discovery_interrupts_and_an_agent_made_anew_goes_on(tmp_path: Path) -> None:
    transcript = tmp_path / "t.jsonl"
    first, model = await play(WORLD, search("weather"), mode="direct", discovery="interrupt", transcript=transcript)
    assert (first.outcome, first.turns) == ("interrupted", 1)
    assert shown(model) == [SEARCHES]  # however few tools there are
    assert "get_weather" in first.found
    assert "get_weather" in first.reason
    (found,) = of(first, ToolsFound)
    assert found.tools == first.found

    anew = ScriptedModel([TOKYO, SUNNY])
    async with Runtime(WORLD, sandbox=None) as runtime:
        second = await Agent(anew, runtime, discovery="interrupt", mode="direct").resume(transcript)
    assert (second.outcome, second.answer, second.turns) == ("answered", SUNNY, 3)
    assert set(shown(anew)[0]) == {*SEARCHES, *first.found}
    assert told(anew.requests[0])[0].endswith(
        "can also call: " + ", ".join(first.found) + "."
    )  # the conversation goes on
    assert told(anew.requests[1]) == ["sunny in Tokyo"]
    assert [each.reason for each in of(second, Resumed)] == ["interrupted"]


async def test_a_search_that_finds_nothing_new_interrupts_nothing() -> None:
    first, _ = await play(WORLD, search("weather"), mode="direct", discovery="interrupt")
    model = ScriptedModel([search("weather"), search("xyzzy"), TOKYO, SUNNY])
    async with Runtime(WORLD, sandbox=None) as runtime:
        second = await Agent(model, runtime, discovery="interrupt", mode="direct").resume(first)
    assert second.outcome == "answered"


async def test_tools_come_from_elsewhere_and_come_again_for_the_next_agent() -> None:
    asked: list[str] = []

    async def load(query: str) -> list[Any]:
        asked.append(query)
        return [get_weather] if "weather" in query else []

    async with Runtime([send_mail], sandbox=None) as runtime:
        first = await Agent(
            ScriptedModel([search("weather")]), runtime, mode="direct", discovery="interrupt", loader=load
        ).run("What is the weather in Tokyo?")
        assert (first.outcome, first.found) == ("interrupted", ("get_weather",))
        assert "get_weather" not in runtime.registry.names()
        model = ScriptedModel([TOKYO, SUNNY])
        second = await Agent(model, runtime, mode="direct", discovery="interrupt", loader=load).resume(first)
    assert second.outcome == "answered"
    assert told(model.requests[1]) == ["sunny in Tokyo"]
    assert asked == ["weather", "weather"]


async def test_a_loader_in_the_filter_pattern_interrupts_nothing() -> None:
    async def load(query: str) -> list[Any]:
        return [get_weather]

    result, model = await play([send_mail], search("weather"), TOKYO, SUNNY, mode="direct", loader=load)
    assert result.outcome == "answered"
    assert shown(model)[0] == SEARCHES
    assert "get_weather" in shown(model)[1]


async def test_loading_again_takes_no_more_time_than_there_is() -> None:
    loads = [0]

    async def load(query: str) -> list[Any]:
        loads[0] += 1
        if loads[0] > 1:
            await anyio.sleep_forever()
        return [get_weather]

    async with Runtime([send_mail], sandbox=None) as runtime:
        options: dict[str, Any] = {"mode": "direct", "discovery": "interrupt", "loader": load}
        first = await Agent(ScriptedModel([search("weather")]), runtime, **options).run("weather?")
        with anyio.fail_after(10):
            agent = Agent(ScriptedModel([]), runtime, budget=Budget(seconds=first.seconds + 0.2), **options)
            second = await agent.resume(first)
    assert (first.outcome, second.outcome, loads) == ("interrupted", "budget", [2])
    assert second.seconds < 9


async def test_a_tool_that_the_new_agent_was_not_made_with_cannot_be_called() -> None:
    first, _ = await play(WORLD, search("weather"), mode="direct", discovery="interrupt")
    assert "get_weather" in first.found
    model = ScriptedModel([TOKYO, "there is no such tool any more"])
    async with Runtime([send_mail], sandbox=None) as runtime:
        second = await Agent(model, runtime, discovery="interrupt", mode="direct").resume(first)
    assert second.outcome == "answered"
    assert "get_weather" not in shown(model)[0]
    assert "Error: there is no tool 'get_weather'" in told(model.requests[1])[0]
    assert second.found == ()


async def test_a_state_gives_no_right_to_tools_that_the_agent_does_not_have() -> None:
    first, _ = await play(WORLD, search("weather"), mode="direct", discovery="interrupt")
    model = ScriptedModel([TOKYO, "sorry"])
    async with Runtime(WORLD, sandbox=None) as runtime:
        second = await Agent(model, runtime, mode="direct", discovery="interrupt", tools=["send_mail"]).resume(first)
    assert second.outcome == "answered"
    assert "get_weather" not in shown(model)[0]
    assert told(model.requests[1])[0].startswith("Error: ")


OTHER = """
import sys
import anyio
from callgate import Runtime, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.models.scripted import Calls, ScriptedModel

@tool(read_only=True)
async def get_weather(city: str) -> str:
    "The weather of a city now."
    return f"sunny in {city}"

async def main() -> None:
    turns = [Calls(("get_weather", {"city": "Tokyo"})), lambda request: request.messages[-1].replies[0].text]
    model = ScriptedModel(turns)
    async with Runtime([get_weather], sandbox=None) as runtime:
        result = await Agent(model, runtime, discovery="interrupt").resume(sys.argv[1])
    print(result.outcome, result.answer)

anyio.run(main)
"""


def test_another_process_goes_on_with_what_was_found(tmp_path: Path) -> None:
    transcript = tmp_path / "t.jsonl"

    async def begin() -> None:
        first, _ = await play(WORLD, search("weather"), mode="direct", discovery="interrupt", transcript=transcript)
        assert first.outcome == "interrupted"

    anyio.run(begin)
    state = [line.event for line in read_transcript(transcript) if isinstance(line.event, ToolsFound)]
    assert "get_weather" in state[-1].tools
    code = textwrap.dedent(OTHER)
    done = subprocess.run(
        [sys.executable, "-c", code, str(transcript)], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout == "answered sunny in Tokyo\n", done.stderr


# programmatic


PROGRAM = """
for region in ["west", "east"]:
    sales = await query_sales(region=region)
    weather = await tool_call("get_weather", city=region)
    print(f"{region}: {sales['revenue']}, {weather}")
"""
PRINTED = "west: 150000, sunny in west\neast: 220000, sunny in east\n"


async def test_the_model_searches_and_then_writes_a_program_over_what_it_found() -> None:
    def printed(request: Request) -> str:
        assert told(request) == [PRINTED.strip()] or told(request) == [PRINTED]
        return "East is best."

    async with sandboxed(WORLD) as runtime:
        result, model = await play(
            runtime, search("sales|weather", regex=True), Calls(("execute_code", {"code": PROGRAM})), printed,
            mode="code", direct=(),
        )  # fmt: skip
    assert (result.outcome, result.answer, result.turns) == ("answered", "East is best.", 3)
    assert shown(model)[0] == (*SEARCHES, "execute_code")
    assert result.tool_calls == 4
    assert "revenue" not in str(told(model.requests[2]))  # only what it printed, no intermediate results
    (run,) = result.runs
    assert run["kind"] == "code"
    assert len(run["calls"]) == 4


async def test_search_interruption_and_a_program_go_together() -> None:
    async with sandboxed(WORLD) as runtime:
        options: dict[str, Any] = {"mode": "code", "discovery": "interrupt"}
        first, _ = await play(runtime, search("sales|weather", regex=True), **options)
        assert first.outcome == "interrupted"
        model = ScriptedModel([Calls(("execute_code", {"code": PROGRAM})), "East is best."])
        second = await Agent(model, runtime, **options).resume(first)
    assert (second.outcome, second.answer) == ("answered", "East is best.")
    assert told(model.requests[1])[0].strip() == PRINTED.strip()


async def test_programs_alone_need_no_search() -> None:
    async with sandboxed(WORLD) as runtime:
        result, model = await play(runtime, Calls(("execute_code", {"code": PROGRAM})), "East.", mode="code")
    assert (result.outcome, result.turns, result.tool_calls) == ("answered", 2, 4)
    assert set(shown(model)[0]) == {"execute_code", "get_weather", "get_forecast", "send_mail", "query_sales"}
    assert told(model.requests[1])[0].strip() == PRINTED.strip()
