"""What is shown of an agent while it is under way, and how a screen shows it, on made-up events."""

from __future__ import annotations

import contextlib
import io
import os
import sys

import anyio
import pytest

from callgate import CallRecord, CallStarted, StepEnded, StepStarted
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    CallProgress,
    CallsQueued,
    MessageAdded,
    ModelAsked,
    TextArrived,
)
from callgate.agent.loop.budget import Budget
from callgate.agent.models.model import ToolCall
from callgate.cli.agent_live import AgentScreen
from callgate.cli.agent_under_way import UnderWay
from cli.agent_events import BEGAN, HOSTILE, plan_events, replied, step, under_way

pytestmark = pytest.mark.anyio

# what is under way


def test_the_models_words_are_shown_as_they_come_and_forgotten_when_the_stream_begins_anew() -> None:
    asked = ModelAsked(turn=2, messages=1, tools=())
    pieces = [TextArrived(turn=2, text="The wea"), TextArrived(turn=2, text="ther\nis fine")]
    assert under_way(asked, *pieces)[:3] == [
        "* turn 2: the model writes  2.5 s", "         The weather", "         is fine",
    ]  # fmt: skip
    anew = TextArrived(turn=2, text="It", restarted=True)
    assert under_way(asked, *pieces, anew)[1:2] == ["         It"]
    assert under_way(asked)[0] == "* turn 2: the model is asked  2.5 s"
    assert len(under_way(asked, *pieces, replied(turn=2))) == 1


def test_running_calls_their_steps_and_queued_calls_are_shown_until_they_end() -> None:
    record = CallRecord(id=1, tool="get_weather", arguments={}, caller="code", started_seconds=0.0)
    events: list[AgentEvent] = [
        replied("", ToolCall(id="l", name="late"), ToolCall(id="m", name="later")),
        CallsQueued(turn=1, running=2, queued=("l", "m")),
        CallBegan(turn=1, id="p", name="execute_tool_plan", arguments={}),
        CallProgress(turn=1, id="p", event=StepStarted("a", "list")),
        CallProgress(turn=1, id="p", event=StepEnded(step("a"))),
        CallProgress(turn=1, id="p", event=StepStarted("b", "check")),
        CallBegan(turn=1, id="c", name="execute_code", arguments={"code": "..."}),
        CallProgress(turn=1, id="c", event=CallStarted(record)),
    ]
    assert under_way(*events)[:-1] == [
        "* execute_tool_plan  1 step done  2.5 s", "    * b: check  2.5 s",
        "* execute_code  0 calls done  2.5 s", "    * get_weather  2.5 s",
        "queued: 2 (late, later)",
    ]  # fmt: skip
    begun = CallBegan(turn=1, id="l", name="late", arguments={"city": "Oslo"})
    over = [CallEnded(turn=1, id=id, name="", ok=True, text="", seconds=1) for id in "pc"]
    assert under_way(*events, begun, *over)[:-1] == ['* late(city="Oslo")  2.5 s', "queued: 1 (later)"]


def test_the_budget_that_is_used_stands_last() -> None:
    budget = Budget(turns=40, tokens=20_000, cost=0.5, seconds=600.0)
    asked = ModelAsked(turn=3, messages=1, tools=())
    assert under_way(replied(cost=0.25), asked, budget=budget)[-1] == (
        "turn 3/40, 1,234/20,000 tokens, $0.2500/$0.5000, 3.5/600 s"
    )
    assert under_way(replied())[-1] == "turn 1, 1,234 tokens, 3.5 s"


def test_on_a_narrow_terminal_times_are_seen() -> None:
    state = UnderWay(0.0, Budget(turns=40, tokens=20_000, cost=0.5, seconds=600.0), "*")
    state.note(replied(cost=0.00001), 0.0)
    state.note(CallBegan(turn=1, id="a", name="fetch_report", arguments={"customer_identifier": "customer-1"}), 0.0)
    state.note(CallProgress(turn=1, id="a", event=StepStarted("b", "check" * 20)), 0.0)
    rows = [text for text, _ in state.rows(4.2, 40, 20)]
    assert rows == [
        "* fetch_report(cus…  0 steps done  4.2 s",
        "    * b: checkcheckcheckcheckche…  4.2 s",
        "turn 1/40, <$0.0001/$0.5000, 4.2/600 s",
    ]
    assert max(map(len, rows)) <= 40
    assert [text for text, _ in state.rows(4.2, 12, 20)][-1] == "turn 1/40, 4.2/600 s"


def test_a_terminal_of_few_rows_gets_no_more_than_it_has() -> None:
    calls = [CallBegan(turn=1, id=str(n), name="f", arguments={}) for n in range(50)]
    state = UnderWay(0.0, Budget(), "*")
    for call in calls:
        state.note(call, 0.0)
    assert len(state.rows(1.0, 60, 5)) == 5
    assert "more" in state.rows(1.0, 60, 5)[3][0]


# the screen


async def drained(screen: AgentScreen, *events: AgentEvent) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(screen.drain)
        for event in events:
            screen.tell(event)
        screen.finish()


async def test_nothing_that_is_said_drives_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    events = [BEGAN, replied(HOSTILE), MessageAdded(turn=1, text=HOSTILE), *plan_events([step(HOSTILE, HOSTILE)])]
    await drained(AgentScreen(), *events)
    err = capsys.readouterr().err
    assert "\\x1b]0;owned\\x07" in err
    assert not any(trick in err for trick in ("\x1b", "\x07", "\x9b", "\u202e", "\r"))


async def test_where_nobody_reads_stderr_the_agent_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = os.pipe()
    os.close(theirs)
    with contextlib.suppress(BrokenPipeError), io.TextIOWrapper(io.FileIO(ours, "w")) as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        screen = AgentScreen()
        await drained(screen, BEGAN, replied("words"))
        assert screen.lost


async def test_without_lines_nothing_is_shown_and_everything_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    screen = AgentScreen(lines=False)
    await drained(screen, BEGAN, replied("words"))
    assert capsys.readouterr().err == ""
    assert screen.lines.model_calls == 1
