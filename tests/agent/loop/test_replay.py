"""Replay equals live: the state that a transcript gives is the state of the run that wrote it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.loop.resuming import TASK, World
from callgate.agent.events import TaskBegan
from callgate.agent.loop.event_log import EventLog
from callgate.agent.loop.options import AgentOptions
from callgate.agent.loop.result import AgentResult
from callgate.agent.loop.resume import rebuilt
from callgate.agent.loop.task_run import TaskRun
from callgate.agent.loop.task_state import TaskState
from callgate.agent.loop.transcript import Transcript, read_transcript
from callgate.agent.models.model import ToolReplies
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.errors import ContextExceeded, ModelUnavailable

LOOK = {"steps": [{"id": "a", "tool": "look", "arguments": {"at": "3"}}]}
TURNS = [
    Calls(("look", {"at": "1"})),
    Calls(("look", {"at": "1"}), ("fail", {"why": "x"}), ("send", {"to": "\ud83d"})),
    Calls(("fail", {"why": "x"})),
    Calls(("gone", {})),
    Calls(*[("look", {"at": "2"})] * 9),
    Calls(*(("look", {"at": str(n % 50)}) for n in range(70))),
    Calls(("execute_tool_plan", {"steps": "prose"})),
    Calls(("execute_tool_plan", LOOK)),
    Calls(("search_tools", {"query": "send"})),
    Say(""),
    Say("Half", cut=True),
    ContextExceeded("too long"),
]


async def played(file: Path, turns: list[Any]) -> tuple[TaskState, AgentResult]:
    """The state of a run, and its result."""
    async with World().runtime() as runtime:
        model = ScriptedModel([*turns, ModelUnavailable("down")])
        transcript = Transcript.create(file)
        log = EventLog(AgentOptions(model, runtime, direct=["look"]), TaskState(same), transcript)
        log.add(TaskBegan(task=TASK, mode="auto", model="m", system="", tools=()))
        result = await TaskRun(log).run()
        transcript.close()
        return log.state, result


def same(replies: ToolReplies) -> ToolReplies:
    return replies


def known(state: TaskState) -> dict[str, Any]:
    fields = {each.name: getattr(state, each.name) for each in dataclasses.fields(state)}
    return {**fields, "repetition": vars(state.repetition)}


@given(turns=st.lists(st.sampled_from(TURNS), max_size=14))
@settings(max_examples=40, deadline=None)
def test_replay_equals_live(tmp_path_factory: pytest.TempPathFactory, turns: list[Any]) -> None:
    file = tmp_path_factory.mktemp("replay") / "t.jsonl"
    live, result = anyio.run(played, file, turns)
    again = rebuilt([line.event for line in read_transcript(file)], same, lambda place: f"line {place}")
    assert known(again) == known(live)
    assert result.events == tuple(again.events)
    assert result.messages == tuple(again.messages)
