"""What is shown of an agent at work: its events as lines, on made-up events."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from callgate import CallEnded as ToolCallEnded
from callgate import CallRecord, Printed, StepEnded
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    CallProgress,
    CallsQueued,
    Faulted,
    Finished,
    InnerEvent,
    MessageAdded,
    ModelAsked,
    ModelReplied,
    Planned,
    PlannedRun,
    Routed,
    TaskBegan,
    ToolsFound,
)
from callgate.agent.loop.result import AgentResult
from callgate.agent.models.model import Assistant, ToolCall, ToolReplies, ToolReply, Usage
from callgate.cli.agent_lines import finished
from cli.agent_events import BEGAN, plan_events, replied, shown, step

# lines


def inside(event: AgentEvent, *agents: str) -> AgentEvent:
    for agent in agents:
        event = InnerEvent(turn=1, call="1", agent=agent, task="task_1", event=event)
    return event


def test_of_an_agent_inside_the_task_the_end_is_shown_and_with_verbose_its_turns_and_calls() -> None:
    ended = CallEnded(turn=1, id="a", name="look", ok=False, text="Error: no", seconds=1)
    end = Finished(
        outcome="budget",
        answer="",
        reason="the budget is spent",
        turns=3,
        usage=Usage(),
        cost=None,
        seconds=2.5,
        tool_calls=1,
    )
    events = [inside(replied("words"), "deep", "lead"), inside(ended, "lead"), inside(end, "deep", "lead")]
    assert shown(*events) == ["  agent  lead > deep: budget, 3 turns, 1 tool call, 2.50 s: the budget is spent"]
    assert shown(*events, verbose=True)[:2] == [
        "  agent  lead > deep: turn 1, 1,200 + 34 tokens",
        "  agent  lead: look failed: Error: no",
    ]


def test_a_turn_has_its_tokens_seconds_and_cost_and_the_models_words_below() -> None:
    assert shown(replied("I'll look.\nThen tell.", cost=0.0025, attempts=2)) == [
        "turn 1   1,200 + 34 tokens, 1.50 s, $0.0025, 2 attempts",
        "         I'll look.",
        "         Then tell.",
    ]


def test_tokens_that_the_endpoint_did_not_count_are_about_so_many() -> None:
    usage = Usage(input_tokens=10, output_tokens=2, estimated=True)
    said = ModelReplied(turn=1, message=Assistant(text="x"), ended="answered", usage=usage, seconds=1.5)
    assert shown(said) == ["turn 1   about 10 + 2 tokens, 1.50 s"]


def test_the_answer_itself_is_left_to_stdout() -> None:
    assert shown(replied("It is warm.", ended="answered")) == ["turn 1   1,200 + 34 tokens, 1.50 s"]
    assert "         It is warm." in shown(replied("It is warm.", ended="answered"), verbose=True)


@pytest.mark.parametrize(
    ("ended", "words"),
    [("cut", "cut at its limit of tokens"), ("empty", "said nothing"), ("refused", "refused")],
)
def test_a_turn_that_went_wrong_says_how(ended: Any, words: str) -> None:
    assert words in shown(replied(ended=ended, refusal="I will not." if ended == "refused" else ""))[0]


def test_a_call_has_its_arguments_its_status_and_its_time() -> None:
    said = replied("", ToolCall(id="a", name="get_weather", arguments={"city": "Oslo", "days": 3}))
    began = CallBegan(turn=1, id="a", name="get_weather", arguments={"city": "Oslo", "days": 3})
    good = CallEnded(turn=1, id="a", name="get_weather", ok=True, text="4", seconds=0.051)
    bad = CallEnded(turn=1, id="a", name="get_weather", ok=False, text="Error: no such city", seconds=0.051)
    wrong = CallEnded(turn=1, id="a", name="get_weather", ok=False, text="Error: no days", seconds=0.0, mistake=True)
    assert shown(said, began, good)[1:] == ['ok       get_weather(city="Oslo", days=3)  51 ms']
    assert shown(said, began, bad)[1:] == ['failed   get_weather(city="Oslo", days=3)  51 ms: Error: no such city']
    assert shown(said, wrong)[1].startswith('refused  get_weather(city="Oslo"'), "some are refused before they begin"


def test_a_plans_steps_have_resolved_arguments_and_their_own_times() -> None:
    steps = [step("list", arguments={"city": "Oslo"}), step("check", "warm", arguments={"number": 4}, attempts=2)]
    assert shown(*plan_events(steps)) == [
        '  ok     list: get_weather(city="Oslo")  25 ms',
        "  ok     check: warm(number=4)  25 ms, 2 attempts",
        "ok       execute_tool_plan  2/2 steps, 500 ms",
    ]


def test_of_a_plan_that_failed_each_step_says_why_and_nothing_says_it_again() -> None:
    text = "1/2 steps succeeded.\n- a (get_weather): succeeded\n- b (get_weather): failed: no such city"
    fault = Faulted(turn=1, fault="plan_failed", detail=f"execute_tool_plan: {text}", action="told the model")
    steps = [step("a"), step("b", status="failed", error="no such city")]

    def failed(error: dict[str, Any] | None) -> list[AgentEvent]:
        *told, ended = plan_events(steps)
        assert isinstance(ended, CallEnded)
        run = {**(ended.run or {}), "error": error}
        return [*told, fault, dataclasses.replace(ended, ok=False, text=text, run=run)]

    lines = [
        "  ok     a: get_weather  25 ms",
        "  failed b: get_weather  25 ms: no such city",
        "fault    plan failed: execute_tool_plan: 1/2 steps succeeded. -> told the model",
        "failed   execute_tool_plan  1/2 steps, 500 ms",
    ]
    assert shown(*failed({"kind": "StepsFailed", "message": "b failed", "limit": None})) == lines
    at_limit = shown(*failed({"kind": "LimitReached", "message": "wall_seconds is 1", "limit": "wall_seconds"}))
    assert at_limit == [*lines[:-1], f"{lines[-1]}: wall_seconds is 1"]
    assert "no such city" in shown(*failed(None), verbose=True)[-2], "all of it with --verbose"


def test_of_a_program_the_first_prints_and_calls_are_told_and_the_rest_counted() -> None:
    record = CallRecord(id=1, tool="get_weather", arguments={"city": "Oslo"}, caller="code", started_seconds=0.0)
    record.status = "succeeded"
    told: list[AgentEvent] = [CallBegan(turn=1, id="c", name="execute_code", arguments={"code": "print(1)"})]
    told.append(CallProgress(turn=1, id="c", event=ToolCallEnded(record)))
    told += [CallProgress(turn=1, id="c", event=Printed(f"line {n}\n")) for n in range(30)]
    told.append(CallEnded(turn=1, id="c", name="execute_code", ok=True, text="", seconds=0.2, tool_calls=1))
    lines = shown(*told)
    assert lines[0] == '  call   get_weather(city="Oslo")  0.0 ms, succeeded'
    assert lines[1] == "prints   line 0"
    assert lines[-2:] == [
        "         ... and 11 more lines (--verbose shows them)",
        "ok       execute_code  1 tool call, 200 ms",
    ]
    assert len(lines) == 22
    assert len([line for line in shown(*told, verbose=True) if line.startswith("prints")]) == 30


def test_queued_calls_are_named() -> None:
    said = replied("", *(ToolCall(id=str(n), name=name) for n, name in enumerate("cabb")))
    assert shown(said, CallsQueued(turn=1, running=2, queued=("1", "2", "3")))[1:] == [
        "queued   2 calls at the same time, 3 waiting: a, b, b"
    ]


def test_a_fault_says_what_was_done_about_it() -> None:
    told = Faulted(turn=2, fault="unknown_tool", detail="there is no tool 'x'", action="told the model")
    assert shown(told) == ["fault    unknown tool: there is no tool 'x' -> told the model"]


def test_the_end_has_outcome_turns_calls_tokens_cost_and_seconds() -> None:
    usage = Usage(input_tokens=1200, output_tokens=34, cached_input_tokens=1000)
    end = AgentResult(
        outcome="answered", answer="", turns=1, usage=usage, cost=0.01, seconds=12.0, tool_calls=3, model_calls=1
    )
    assert str(finished(end, "")) == (
        "answered 1 turn, 1 LLM call, 3 tool calls, 1,200 (1,000 cached) + 34 tokens, $0.0100, 12.0 s"
    )
    stuck = AgentResult(outcome="stuck", answer="", reason="the same call, 4 times", seconds=1)
    assert str(finished(stuck, "")).endswith("tokens, 1.00 s (the same call, 4 times)")
    assert str(finished(stuck, stuck.reason)).endswith("tokens, 1.00 s"), "the line of the fault has said it"


def test_found_tools_are_told_once() -> None:
    assert shown(BEGAN, ToolsFound(turn=1, tools=("a",)), ToolsFound(turn=2, tools=("a", "b")))[-2:] == [
        "found    a", "found    b",
    ]  # fmt: skip


def test_a_planners_plan_and_its_run_are_told() -> None:
    planned = Planned(
        plan_id="1", plan={"steps": [{}, {}]}, reasoning="Two parts.", confidence=0.8, source="model",
        stages=(("a",), ("b",)), estimated_seconds=1.5, estimated_cost=None, seconds=0.2, notes=("a simpler plan",),
    )  # fmt: skip
    result = {"step_id": "a", "tool": "search", "success": True, "data": [1], "confidence": 0.9, "duration_seconds": 1}
    run = PlannedRun(plan_id="1", success=True, seconds=2.0, failed_steps=(), retries=2, results=(result,))
    assert shown(planned) == [
        "planned  2 steps in 2 stages, confidence 0.80, about 1.50 s, by the model, planned in 200 ms",
        "         Two parts.",
        "note     a simpler plan",
    ]
    seen = CallProgress(turn=0, id="", event=StepEnded(step("a", "search", arguments={"words": "rules"})))
    assert shown(planned, seen, run)[-2:] == [
        '  ok     a: search(words="rules")  25 ms', "ok       plan  1/1 steps, 2.00 s, 2 retries",
    ]  # fmt: skip
    sources = ({"title": "rules.md", "location": "https://x/rules"}, {"title": "search", "location": ""})
    assert shown(dataclasses.replace(run, sources=sources))[-2:] == [
        "source   [1] rules.md, https://x/rules", "source   [2] search",
    ]  # fmt: skip


def test_verbose_tells_requests_programs_and_what_the_model_is_told() -> None:
    reply = ToolReply(id="a", name="get_weather", text="4 degrees")
    lines = shown(
        ModelAsked(turn=1, messages=3, tools=("get_weather",), tool_choice="required"),
        CallBegan(turn=1, id="c", name="execute_code", arguments={"code": "x = 1\nprint(x)"}),
        MessageAdded(turn=1, replies=ToolReplies(replies=(reply,))),
        verbose=True,
    )
    assert lines == [
        "asked    3 messages, tool choice required; tools: get_weather",
        "begins   execute_code",
        "         x = 1",
        "         print(x)",
        "told     get_weather: 4 degrees",
    ]


def test_whatever_is_said_is_bounded() -> None:
    long = "x" * 100_000
    many = tuple(f"tool_{n}" for n in range(1000))
    began = CallBegan(turn=1, id="a", name=long, arguments={long: long, **{f"k{n}": long for n in range(1000)}})
    events: list[AgentEvent] = [
        TaskBegan(task=long, mode="auto", model=long, system="", tools=many, strategic_plan=[long]),
        Routed(mode="plan", reason=long),
        replied(long, ToolCall(id="a", name=long, arguments={long: long})),
        CallsQueued(turn=1, running=1, queued=many), began,
        CallEnded(turn=1, id="a", name=long, ok=False, text=long, seconds=1), MessageAdded(turn=1, text=long),
        ToolsFound(turn=1, tools=many), Faulted(turn=1, fault="loop", detail=long, action=long),
    ]  # fmt: skip
    assert max(map(len, shown(*events))) < 2_100
    assert sum(map(len, shown(*events))) < 10_000
    nested: Any = []
    for _ in range(100_000):
        nested = [nested]
    deep = CallBegan(turn=1, id="a", name="f", arguments={"value": nested})
    assert shown(deep, verbose=True) == ["begins   f(value=(cannot be shown))"]
