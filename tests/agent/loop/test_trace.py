"""The page of an agent's task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from callgate import Runtime, tool
from callgate.agent import Agent, ScriptedModel
from callgate.agent.loop.trace import agent_page
from callgate.agent.loop.transcript import read_transcript
from callgate.agent.models.scripted import Calls
from runtime.timelines import Checked

PLAN = {"steps": [{"id": "sum", "tool": "double", "arguments": {"number": 4}}]}


@tool(read_only=True)
async def double(number: int) -> int:
    "Doubles."
    return 2 * number


@pytest.mark.anyio
async def test_a_task_has_its_answer_turns_calls_and_nested_runs_and_a_transcript_has_the_same_page(
    tmp_path: Path,
) -> None:
    turns: list[Any] = [
        Calls(("double", {"number": 21}), text="I double."),
        Calls(("execute_tool_plan", {"plan": PLAN})),
        "It is <b>42</b>.",
    ]
    async with Runtime([double], sandbox=None) as runtime:
        agent = Agent(ScriptedModel(turns), runtime, mode="plan", transcript=tmp_path / "t.jsonl")
        result = await agent.run("Double <21>.")
    page = result.save_trace(tmp_path / "out.html").read_text(encoding="utf-8")
    told = Checked(page).text
    for words in ("It is <b>42</b>.", "I double.", "Turn 2", "Steps in time", "Double <21>."):
        assert words in told
    lines = read_transcript(tmp_path / "t.jsonl")
    assert agent_page([line.event for line in lines]) == page
