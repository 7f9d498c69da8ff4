"""Made-up events of an agent, and what is shown of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from callgate import StepEnded, StepResult, StepStarted
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    CallProgress,
    ModelReplied,
    TaskBegan,
)
from callgate.agent.models.model import Assistant, ToolCall, Usage
from callgate.cli.agent_lines import AgentLines

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202etxt\rover"
BEGAN = TaskBegan(task="Is it warm?", mode="auto", model="gpt", system="", tools=("get_weather",))


def replied(text: str = "", *calls: ToolCall, turn: int = 1, ended: Any = "calls", **fields: Any) -> ModelReplied:
    usage = Usage(input_tokens=1200, output_tokens=34)
    return ModelReplied(
        turn=turn, message=Assistant(text=text, calls=calls), ended=ended, usage=usage, seconds=1.5, **fields
    )


def step(id: str, tool: str = "get_weather", status: Any = "succeeded", **fields: Any) -> StepResult:
    given = {"started_seconds": 0.0, "duration_seconds": 0.025, "attempts": 1, **fields}
    return StepResult(id=id, tool=tool, status=status, wave=0, **given)


def plan_events(steps: list[StepResult], **fields: Any) -> Iterator[AgentEvent]:
    yield CallBegan(turn=1, id="p", name="execute_tool_plan", arguments={"steps": ["long"] * 99})
    for each in steps:
        yield CallProgress(turn=1, id="p", event=StepStarted(each.id, each.tool))
        yield CallProgress(turn=1, id="p", event=StepEnded(each))
    run = {"kind": "plan", "goal": "warm?", "steps": [each.to_dict() for each in steps]}
    yield CallEnded(
        turn=1,
        id="p",
        name="execute_tool_plan",
        ok=True,
        text="",
        seconds=0.5,
        tool_calls=2,
        run=run,
        **fields,
    )


def shown(*events: AgentEvent, verbose: bool = False) -> list[str]:
    lines = AgentLines(verbose=verbose)
    return [str(each) for event in events for each in lines.of(event)]
