"""Tasks that stopped and go on: what was spent counts, the conversation is as it was, and nothing is done twice."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.loop.resuming import TASK, World, begun, file_of, lines_of
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    ModelAsked,
    Planned,
    Resumed,
    TaskBegan,
)
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.resume import OUTCOME_UNKNOWN, seconds_of
from callgate.agent.loop.transcript import Line, read_transcript
from callgate.agent.models.model import ToolCall, ToolReplies, Usage, User
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.errors import ConfigurationError, ModelUnavailable

pytestmark = pytest.mark.anyio

# the conversation


async def test_it_goes_on_with_a_model_of_another_provider_and_the_same_conversation(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    native = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    first = ScriptedModel(
        [
            Say("I look.", [ToolCall(id="a", name="look", arguments={"at": "ü\u2028"})], native=native),
            [Calls(("look", {"at": "2"}), ("fail", {"why": "x"}), ("nothing", {}))],
            ModelUnavailable("down"),
        ],
        provider="anthropic",
    )
    async with world.runtime() as runtime:
        plan = {"phases": [1]}
        agent = Agent(first, runtime, mode="direct", transcript=file, system="Be brief.", strategic_plan=plan)
        stopped = await agent.run(TASK)
    assert stopped.outcome == "unavailable"
    second = ScriptedModel(["done"], provider="openai", name="other")
    result = await world.resume(file, model=second)
    assert (result.outcome, result.answer, result.transcript) == ("answered", "done", file)
    assert second.requests[0].messages == first.requests[2].messages
    assert second.requests[0].system == first.requests[2].system
    assert "Be brief." in second.requests[0].system
    assert "type" in second.requests[0].tools[0]
    assert result.messages[:-1] == stopped.messages
    assert world.calls == ["look ü\u2028", "look 2", "fail x"]
    assert [line["kind"] for line in lines_of(file)][-4:] == ["resumed", "model_asked", "model_replied", "finished"]
    assert [line.event for line in read_transcript(file)] == list(result.events)


_OTHER_PROCESS = """
import sys, anyio
from callgate import Runtime, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.models.scripted import ScriptedModel

@tool(read_only=True)
async def look(at: str = "") -> str:
    "Look."
    return "seen"

async def main():
    def answers(request):
        return " ".join(type(message).__name__ for message in request.messages)
    async with Runtime([look], sandbox=None) as runtime:
        result = await Agent(ScriptedModel([answers]), runtime).resume(sys.argv[1])
    print(result.outcome, result.answer, result.turns)

anyio.run(main)
"""


async def test_it_goes_on_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    stopped = await World().run(Calls(("look", {"at": "1"})), ModelUnavailable("down"), transcript=file)
    assert stopped.outcome == "unavailable"
    done = await anyio.run_process([sys.executable, "-c", _OTHER_PROCESS, str(file)])
    assert done.stdout.decode() == "answered User Assistant ToolReplies 2\n"


async def test_a_result_is_resumed_without_a_file(tmp_path: Path) -> None:
    world = World()
    stopped = await world.run(Calls(("look", {"at": "1"})), ModelUnavailable("down"))
    kept = tmp_path / "kept.jsonl"
    result = await world.resume(stopped, "done", transcript=kept)
    assert (result.outcome, result.turns, result.transcript) == ("answered", 2, kept)
    assert result.seconds >= stopped.seconds
    assert [line.event for line in read_transcript(kept)] == list(result.events)
    assert (await world.resume(result)).answer == "done"


# the budget


async def test_what_was_spent_counts(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    usage = Usage(input_tokens=1_000, output_tokens=100, cached_input_tokens=10)
    calls = [ToolCall(id="a", name="look", arguments={})]
    price = (10.0, 100.0)
    world = World()
    looks = Say(calls=calls, usage=usage)
    stopped = await world.run(looks, looks, ModelUnavailable("down"), transcript=file, price=price)
    assert (stopped.turns, stopped.usage.input_tokens) == (2, 2_000)
    assert stopped.cost == pytest.approx(0.04)
    for budget, reason in [
        (Budget(turns=2), "2 of 2 turns"),
        (Budget(tokens=2_200), "2200 of 2200 tokens"),
        (Budget(cost=0.03), "0.04 of 0.03 dollars"),
        (Budget(seconds=stopped.seconds / 2), "seconds"),
    ]:
        result = await world.resume(file, budget=budget, price=price)
        assert (result.outcome, result.turns) == ("budget", 2)
        assert reason in result.reason
        assert result.seconds >= stopped.seconds
    result = await world.resume(file, Say("done", usage=usage), budget=Budget(turns=3, tokens=10_000), price=price)
    assert (result.outcome, result.turns, result.usage) == ("answered", 3, usage + usage + usage)
    assert result.cost == pytest.approx(0.06)
    assert world.calls == ["look ", "look "]


async def test_a_budget_in_dollars_is_refused_where_what_was_spent_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    await world.run(Calls(("look", {})), ModelUnavailable("down"), transcript=file)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match="what this task has cost so far is not known"):
        await world.resume(file, budget=Budget(cost=1), price=(1.0, 1.0))
    assert file.read_bytes() == before
    assert (await world.resume(file, "done")).outcome == "answered"


async def test_only_the_time_of_the_runs_counts() -> None:
    start = datetime(2026, 1, 31, tzinfo=UTC)
    resumed = Resumed(turns=0, model="m")
    asked = ModelAsked(turn=1, messages=1, tools=())
    began = TaskBegan(task=TASK, mode="direct", model="m", system="", tools=())
    at: list[tuple[int, AgentEvent]] = [
        (0, began),
        (3, asked),
        (5, asked),
        (5_000, resumed),
        (5_001, asked),
        (9_000, resumed),
        (8_000, asked),
    ]
    lines = [Line(place, start + timedelta(seconds=second), event) for place, (second, event) in enumerate(at)]
    assert seconds_of(lines) == 6
    assert seconds_of(lines[:1]) == 0
    assert seconds_of([]) == 0


# calls that had begun


async def test_calls_that_can_do_no_harm_are_made_again_and_others_never(tmp_path: Path) -> None:
    world = World()
    calls = [
        ToolCall(id="a", name="look", arguments={"at": "1"}),
        ToolCall(id="b", name="put", arguments={"at": "2"}),
        ToolCall(id="c", name="send", arguments={"to": "3"}),
        ToolCall(id="d", name="gone", arguments={}),
        ToolCall(id="e", name="search_tools", arguments={"query": "look"}),
        ToolCall(id="f", name="send", arguments={}, written="{", fault="half a JSON"),
    ]
    file = file_of(tmp_path / "t.jsonl", *begun(*calls))
    model = ScriptedModel(["done"])
    result = await world.resume(file, model=model)
    assert result.outcome == "answered"
    assert sorted(world.calls) == ["look 1", "put 2"]
    told = model.requests[0].messages[-1]
    assert isinstance(told, ToolReplies)
    texts = {reply.id: reply.text for reply in told.replies}
    assert [texts[id] for id in "cd"] == [OUTCOME_UNKNOWN] * 2
    assert "unknown: it may have happened" in OUTCOME_UNKNOWN
    assert texts["a"] == "seen 1"
    assert "cannot be used: half a JSON" in texts["f"]


async def test_calls_that_had_not_begun_are_made(tmp_path: Path) -> None:
    world = World()
    calls = [ToolCall(id=id, name="send", arguments={"to": id}) for id in "abc"]
    events = begun(*calls, begin=False)
    events += [
        CallBegan(turn=1, id="a", name="send", arguments={"to": "a"}),
        CallEnded(turn=1, id="a", name="send", ok=True, text="sent", seconds=0),
        CallBegan(turn=1, id="b", name="send", arguments={"to": "b"}),
    ]
    result = await world.resume(file_of(tmp_path / "t.jsonl", *events), "done")
    assert world.calls == ["send c"]
    replies = result.messages[-2]
    assert isinstance(replies, ToolReplies)
    assert [reply.text for reply in replies.replies] == ["sent", OUTCOME_UNKNOWN, "sent"]


PLAN = {"steps": [{"id": "a", "tool": "look", "arguments": {"at": "1"}}]}


@pytest.mark.parametrize(
    ("names", "loads", "made"),
    [
        (["look", "fail"], False, True),
        (["look", "put"], False, False),
        (["look", "send"], False, False),
        (["look"], True, False),
    ],
    ids=["read-only", "idempotent", "side effects", "loader"],
)
async def test_a_plan_is_made_again_only_where_all_it_can_call_is_read_only(
    tmp_path: Path, names: list[str], loads: bool, made: bool
) -> None:
    async def load(query: str) -> list[Any]:
        return []

    options: dict[str, Any] = {"loader": load} if loads else {}
    world = World()
    call = ToolCall(id="p", name="execute_tool_plan", arguments=PLAN)
    file = file_of(tmp_path / "t.jsonl", *begun(call, mode="plan"))
    async with world.runtime() as runtime:
        result = await Agent(ScriptedModel(["done"]), runtime, tools=names, **options).resume(file)
    assert world.calls == (["look 1"] if made else [])
    replies = result.messages[-2]
    assert isinstance(replies, ToolReplies)
    assert (replies.replies[0].text == OUTCOME_UNKNOWN) is not made


async def test_a_program_counts_as_all_that_it_can_call(tmp_path: Path) -> None:
    world = World()
    call = ToolCall(id="p", name="execute_code", arguments={"code": "return await look(at='1')"})
    file = file_of(tmp_path / "t.jsonl", *begun(call, mode="code"))
    result = await world.resume(file, "done", mode="code")
    replies = result.messages[-2]
    assert isinstance(replies, ToolReplies)
    assert (world.calls, replies.replies[0].text) == ([], OUTCOME_UNKNOWN)


async def test_a_plan_made_beforehand_that_had_begun_is_not_made_again(tmp_path: Path) -> None:
    class Answerer:
        async def answer(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("it was asked")

    planned = Planned(
        plan_id="p", plan={}, reasoning="", confidence=1, source="model", stages=(), estimated_seconds=1,
        estimated_cost=None, seconds=0,
    )  # fmt: skip
    file = file_of(tmp_path / "t.jsonl", begun()[0], planned)
    model = ScriptedModel([ModelUnavailable("down")])
    await World().resume(file, model=model, answerer=Answerer())
    (task, words) = model.requests[0].messages
    assert task == User(text=TASK)
    assert isinstance(words, User)
    assert "What its steps did is unknown: they may have happened" in words.text
    again = ScriptedModel(["done"])
    await World().resume(file, model=again, answerer=Answerer())
    assert again.requests[0].messages == model.requests[0].messages


# what is restored


async def test_a_transcript_of_an_earlier_callgate_goes_on_and_nothing_is_done_twice(tmp_path: Path) -> None:
    """Results were ``told`` there, and a form that was only recommended was ``routed`` with another rule."""
    file = tmp_path / "t.jsonl"
    world = World()
    call = ToolCall(id="a", name="send", arguments={"to": "1"})
    stopped = await world.run(call, ModelUnavailable("down"), transcript=file, mode="auto")
    lines = file.read_bytes().replace(b'"kind":"message_added"', b'"kind":"told"').splitlines(keepends=True)
    routed = {**lines_of(file)[0], "kind": "routed", "mode": "direct", "reason": "one call is enough"}
    lines.insert(1, json.dumps({**routed, "rule": "one call"}).encode() + b"\n")
    file.write_bytes(b"".join(lines))
    model = ScriptedModel(["done"])
    result = await world.resume(file, model=model, mode="auto")
    assert (result.outcome, world.calls, result.routes) == ("answered", ["send 1"], ())
    assert model.requests[0].messages == stopped.messages
    assert "execute_tool_plan" in {definition["function"]["name"] for definition in model.requests[0].tools}


async def test_what_was_found_is_found(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    search = Calls(("search_tools", {"query": "send"}))
    stopped = await world.run(search, ModelUnavailable("down"), transcript=file, direct=[])
    model = ScriptedModel([Calls(("send", {"to": "1"})), "done"])
    result = await world.resume(file, model=model, direct=[])
    assert "send" in stopped.found
    assert result.found == stopped.found
    assert {definition["function"]["name"] for definition in model.requests[0].tools} >= {"send", "search_tools"}
    assert world.calls == ["send 1"]


async def test_an_interruption_goes_on_with_an_agent_made_anew(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    options: dict[str, Any] = {"discovery": "interrupt"}
    stopped = await world.run(Calls(("search_tools", {"query": "send"})), transcript=file, **options)
    assert stopped.outcome == "interrupted"
    result = await world.resume(file, Calls(("send", {"to": "1"})), "done", **options)
    assert (result.outcome, world.calls) == ("answered", ["send 1"])
