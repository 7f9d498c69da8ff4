"""Plans that begin while the model writes them. The calls of the whole turn decide."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.loop.early import LOG, TOKENS, TOOLS, made, play
from agent.loop.scripted_runs import of
from agent.models.wires import WIRES, talking
from callgate import CallStarted, Deny, Runtime, tool
from callgate.agent.events import CallBegan, CallEnded, CallProgress
from callgate.agent.loop.agent import Agent
from callgate.agent.models.model import ModelProvider, ToolCall
from callgate.agent.models.recording import RecordingModel, ReplayModel
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate_bench.model.stand_in import Call
from callgate_bench.model.stand_in.checks import Turn
from callgate_bench.model.stand_in.faults import edited

pytestmark = pytest.mark.anyio


def step(id: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"id": id, "tool": tool, "arguments": arguments}


LATER = {"id": "last", "tool": "note", "arguments": {"text": "what the model still writes " * 20}}
PLAN = {"steps": [step("a", "look", n=1), step("b", "look", n={"$expr": "a + 1"}), LATER], "output_steps": ["b"]}


def calls(*plans: Any) -> Calls:
    return Calls(*(("execute_tool_plan", plan) for plan in plans))


@asynccontextmanager
async def plans(**options: Any) -> AsyncIterator[Runtime]:
    async with Runtime(TOOLS, sandbox=None, **options) as runtime:
        yield runtime


@pytest.mark.parametrize("arguments", [PLAN, {"plan": PLAN}], ids=["its members", "a member of its own"])
async def test_a_plan_begins_while_the_model_writes_it(arguments: Any) -> None:
    async with plans() as runtime:
        result, model = await play(runtime, "plan", calls(arguments), "done")
        assert made(result) == [[True, True, False]]
        assert LOG[:2] == ["look 1", "look 2"]
        late, other = await play(runtime, "plan", calls(arguments), "done", stream=False)
        assert made(late) == [[False, False, False]]
    for each in (model, other):
        assert "b: 2" in each.requests[1].messages[-1].replies[0].text  # type: ignore[union-attr]


async def test_events_of_a_plan_follow_the_beginning_of_its_call() -> None:
    events: list[Any] = []
    async with plans() as runtime:
        await play(runtime, "plan", calls(PLAN), "done", on_event=events.append)
    began = next(index for index, event in enumerate(events) if isinstance(event, CallBegan))
    progress = [(index, event) for index, event in enumerate(events) if isinstance(event, CallProgress)]
    assert len([each for _, each in progress if isinstance(each.event, CallStarted)]) == 3
    assert all(index > began and event.id == events[began].id for index, event in progress)


async def test_after_a_stream_that_breaks_off_no_equal_call_is_made_twice() -> None:
    async with plans() as runtime:
        result, _ = await play(runtime, "plan", Say(calls=calls(PLAN), restarts=1), "done")
    assert made(result) == [[True, True, False]]
    assert [each[:6] for each in LOG] == ["look 1", "look 2", "note w"]


async def test_a_plan_whose_call_is_not_made_leaves_nothing() -> None:
    plan = {"steps": [step("a", "hang", n=1), LATER]}
    async with plans() as runtime:
        result, _ = await play(runtime, "plan", Say(calls=calls(plan), cut=True), "done")
        assert of(result, CallEnded) == []
        assert LOG == ["given up 1"]
        broken = ToolCall(id="", name="execute_tool_plan", fault="not JSON", written=json.dumps(plan)[:-1])
        result, _ = await play(runtime, "plan", broken, "done")
        assert [each.ok for each in of(result, CallEnded)] == [False]
        assert LOG == ["given up 1"]


async def test_a_refused_plan_gives_up_its_reads_and_says_what_was_called() -> None:
    plan = {"steps": [step("a", "hang", n=1), LATER, step("c", "no_such_tool")]}
    async with plans() as runtime:
        result, _ = await play(runtime, "plan", calls(plan), "done")
    (ended,) = of(result, CallEnded)
    assert LOG == ["given up 1"]
    assert ended.run is not None
    assert (ended.run["error"]["kind"], [call["status"] for call in ended.run["calls"]]) == (
        "PlanRefused", ["cancelled"],
    )  # fmt: skip


async def test_a_cancelled_task_leaves_nothing() -> None:
    async with plans() as runtime:
        model = ScriptedModel([calls({"steps": [step("a", "hang", n=1), *[LATER] * 20]})], tokens_per_second=TOKENS)
        LOG.clear()
        with anyio.move_on_after(1):
            await Agent(model, runtime, mode="plan").run("Look.")
        assert LOG == ["given up 1"]


@pytest.mark.parametrize("mode", ["plan", "code"])
async def test_nothing_begins_before_a_call_that_its_own_call_waits_for(mode: str) -> None:
    code = "a = await look(1)\n" + "# what the model still writes\n" * 30 + "a"
    begun = ("execute_tool_plan", PLAN) if mode == "plan" else ("execute_code", {"code": code})
    async with plans() as runtime:
        LOG.clear()
        model = ScriptedModel([Calls(("note", {"text": "first"}), begun), "done"], tokens_per_second=TOKENS)
        agent = Agent(model, runtime, mode=mode, max_parallel_tool_calls=1)
        with anyio.fail_after(20):
            result = await agent.run("Look.")
    assert LOG[:2] == ["note first", "look 1"]
    assert not any(call for each in made(result) for call in each)


async def test_where_plans_are_approved_nothing_begins_before_the_answer() -> None:
    def deny(_: Any) -> Deny:
        assert LOG == []
        return Deny("not now")

    async with plans(approve_plan=deny) as runtime:
        result, _ = await play(runtime, "plan", calls(PLAN), "done")
    assert (LOG, made(result)) == ([], [[]])


async def test_a_replayed_task_begins_nothing_early(tmp_path: Path) -> None:
    recorded = RecordingModel(ScriptedModel([calls(PLAN), "done"], tokens_per_second=TOKENS), tmp_path / "r.jsonl")
    async with plans() as runtime:
        first = await Agent(recorded, runtime, mode="plan").run("Look.")
        again = await Agent(ReplayModel(tmp_path / "r.jsonl"), runtime, mode="plan").run("Look.")
    assert (made(first), made(again)) == ([[True, True, False]], [[False, False, False]])
    assert again.answer == first.answer


async def test_an_answer_in_one_turn_begins_early_too() -> None:
    async with plans() as runtime:
        plan = {"steps": PLAN["steps"], "answer": {"$ref": "b"}}
        result, _ = await play(runtime, "plan", calls(plan), one_turn="offer", output_type=int)
    assert (result.output, result.turns, made(result)) == (2, 1, [[True, True, False, False]])


async def test_the_audit_log_has_the_early_calls_and_the_digest_of_the_plan(tmp_path: Path) -> None:
    async with plans(audit=tmp_path / "audit.jsonl") as runtime:
        await play(runtime, "plan", calls(PLAN), "done")
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    told = [line for line in lines if line["kind"] in ("run", "run_ended")]
    assert [line["kind"] for line in told] == ["run", "run_ended"]
    assert {line["run"] for line in lines if "run" in line} == {told[0]["run"]}
    assert told[-1]["ok"]
    assert told[-1]["plan_digest"]
    assert told[-1]["call_id"] == "call_1_1"


@pytest.mark.parametrize("wire", WIRES)
async def test_over_the_wire_of_a_provider_a_plan_begins_before_its_reply_has_ended(wire: ModelProvider) -> None:
    looked = threading.Event()

    @tool(read_only=True)
    async def look_up(n: int) -> int:
        """Looks something up."""
        looked.set()
        return n

    def held(event: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(event)
        if '"tool_calls"}' in text or '"finish_reason": "tool_calls"' in text or '"content_block_stop"' in text:
            assert looked.wait(10), "nothing began before the reply had ended"
        return event

    def planned(turn: Turn) -> list[Any]:
        return [Call("execute_tool_plan", {"steps": [step("a", "look_up", n=1), step("b", "look_up", n=2)]})]

    def done(turn: Turn) -> str:
        return "done"

    async with (
        Runtime([look_up], sandbox=None) as runtime,
        talking(wire, planned, done, faults=(edited(held),)) as talk,
    ):
        with anyio.fail_after(30):
            result = await Agent(talk.model, runtime, mode="plan").run("Look.")
    assert result.outcome == "answered"
    assert made(result)[0][0]
