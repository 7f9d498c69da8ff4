"""The page of an agent's task."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callgate import Runtime, tool
from callgate.agent import Agent, ScriptedModel
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    Faulted,
    Finished,
    MessageAdded,
    ModelAsked,
    ModelReplied,
    Planned,
    PlannedRun,
    Resumed,
    Routed,
    TaskBegan,
    ToolsFound,
)
from callgate.agent.loop.page import agent_page
from callgate.agent.loop.transcript import read_transcript
from callgate.agent.models.model import Assistant, Usage
from callgate.agent.models.scripted import Calls
from runtime.timelines import Checked
from runtime.timelines import hostile as hostile_plan
from runtime.trace.browser import Browser, browser_or_skip
from runtime.trace.runs import HOSTILE_TEXTS, hostile_program

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


ANSWERS: dict[str, Any] = {
    "program": [Calls(("execute_code", {"code": "final_answer(await double(21))"}))],
    "plan": [Calls(("execute_tool_plan", {**PLAN, "answer": "$ref:sum"}))],
    "model": [
        Calls(("execute_code", {"code": "final_answer(await double(21))"}), ("double", {"number": 1})),
        "It is 42.",
    ],
}


@pytest.mark.anyio
@pytest.mark.parametrize("by", ANSWERS)
async def test_a_page_says_who_gave_the_answer(by: str) -> None:
    async with Runtime([double], sandbox=None) as runtime:
        mode = "plan" if by == "plan" else "code"
        result = await Agent(ScriptedModel(ANSWERS[by]), runtime, mode=mode, one_turn="offer").run("Double 21.")
        stopped = await Agent(ScriptedModel(["a", "b", "c"]), runtime, mode="direct", output_type=int).run("Double 21.")
    told = Checked(result.trace()).text
    assert re.search(rf"answered by\s*{by}|{by}\s*answered by", told), told
    assert (f"this {by} gave the answer of the task" in told) == (by != "model")
    assert "answered by" not in Checked(stopped.trace()).text


def hostile_task(text: str) -> list[AgentEvent]:
    """Events with this text in every field."""
    plan, run, steps = {text: [text]}, hostile_program(text).to_dict(), hostile_plan(text)
    steps = replace(steps, steps=[replace(step, result_json=json.dumps(text)) for step in steps.steps])
    usage = Usage(input_tokens=9, output_tokens=9)
    runs: dict[str, Any] = {
        "none": None,
        "code": {**run, "kind": "code"},
        "plan": steps.to_dict(),
        "wrong": {text: text},
    }
    events: list[AgentEvent] = [
        TaskBegan(task=text, mode="auto", model=text, system=text, tools=(text,) * 50, strategic_plan=plan, id=text),
        Resumed(turns=1, model=text, reason=text),
        Routed(mode="code", reason=text),
        ModelAsked(turn=1, messages=1, tools=(text,)),
        ModelReplied(turn=1, message=Assistant(text=text), ended="calls", usage=usage, seconds=0.1, refusal=text),
    ]
    for name, given in runs.items():
        for ok in (True, False):
            id = f"{text}{name}{ok}"
            events += [
                CallBegan(turn=1, id=id, name=text, arguments={"code": text, text: text}),
                CallEnded(turn=1, id=id, name=text, ok=ok, text=text, seconds=1.0, run=given),
            ]
    planned = Planned(
        plan_id=text, plan=plan, reasoning=text, confidence=0.5, source=text, stages=((text,),), estimated_seconds=1.0,
        estimated_cost=None, seconds=1.0, notes=(text,),
    )  # fmt: skip
    return [
        *events,
        MessageAdded(turn=1, text=text),
        ToolsFound(turn=1, tools=(text,)),
        planned,
        PlannedRun(plan_id=text, success=False, seconds=1.0, failed_steps=(text,), retries=0, results=(plan,)),
        Faulted(turn=1, fault="arguments", detail=text, action=text),
        Finished(outcome="stuck", answer=text, reason=text, turns=1, usage=usage, cost=1.0, seconds=1.0, tool_calls=8),
    ]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from browser_or_skip(tmp_path_factory.mktemp("chromium"))


@pytest.mark.slow
@pytest.mark.parametrize("text", [*HOSTILE_TEXTS, "W" * 100_000], ids=lambda text: ascii(text[:20]))
def test_no_text_of_a_task_becomes_markup_and_its_page_fits_wide_and_narrow_windows(
    browser: Browser, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "page.html"
    file.write_text(agent_page(hostile_task(text)), encoding="utf-8")
    assert {tag for tag, _ in Checked(file.read_text(encoding="utf-8")).seen}.isdisjoint(("script", "svg", "iframe"))
    for width, dark in ((1280, False), (390, True)):
        seen = browser.look(file, width, dark=dark)
        assert (seen.console, seen.requests, seen.scripts, seen.handlers, seen.pwned) == ([], [], 0, [], False)
        browser.open_all()
        found = browser.again()
        assert (found["wider"], found["scrolls"]) == ([], False)


def test_the_page_of_a_long_task_stays_small_and_counts_what_it_leaves_out() -> None:
    began, *_ = hostile_task("a")
    usage = Usage(input_tokens=9, output_tokens=9)
    events: list[AgentEvent] = [began]
    for turn in range(1, 2001):
        words = Assistant(text="&" * 20_000)
        events += [
            ModelAsked(turn=turn, messages=1, tools=()),
            ModelReplied(turn=turn, message=words, ended="calls", usage=usage, seconds=0.1),
            *(CallBegan(turn=turn, id=f"{n}", name="f", arguments={"a": "&" * 500}) for n in range(5)),
        ]
    page = agent_page(events)
    assert len(page.encode()) < 10_000_000
    assert re.search("… and [0-9,]+ more turns", page)
    Checked(page)


@pytest.mark.anyio
async def test_an_agent_inside_an_agent_has_its_turns_in_the_call_and_its_secrets_are_redacted(tmp_path: Path) -> None:
    @tool
    async def login(password: str) -> str:
        """Logs in."""
        return f"in with {password}"

    async with Runtime([double, login], sandbox=None) as runtime:
        deep = Agent(ScriptedModel([Calls(("login", {"password": "hunter22"})), "deep <i>in</i>"]), runtime)
        runtime.registry.add(deep.as_tool("deepest", "Deep."))
        middle = Agent(ScriptedModel([Calls(("deepest", {"task": "Go <deep>."})), "middle"]), runtime)
        runtime.registry.add(middle.as_tool("middle", "In the middle."))
        agent = Agent(
            ScriptedModel([Calls(("middle", {"task": "Go."})), "out"]), runtime, transcript=tmp_path / "t.jsonl"
        )
        result = await agent.run("Ask them.")
    page = result.save_trace(tmp_path / "out.html").read_text(encoding="utf-8")
    told = Checked(page).text
    for words in ("agent middle", "agent deepest", "Go <deep>.", "deep <i>in</i>", "in with [redacted]"):
        assert words in " ".join(told.split())
    assert "hunter22" not in page
    lines = read_transcript(tmp_path / "t.jsonl")
    assert agent_page([line.event for line in lines]) == page
