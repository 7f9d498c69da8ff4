"""A world whose tools say what they did, and transcripts of tasks that stopped in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from callgate import Runtime, ToolError, tool
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    ModelAsked,
    ModelReplied,
    TaskBegan,
)
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.result import AgentResult
from callgate.agent.loop.transcript import Transcript
from callgate.agent.models.model import Assistant, Model, ToolCall, Usage
from callgate.agent.models.scripted import ScriptedModel

TASK = "Do it"


class World:
    """Tools, and what they did."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        async def look(at: str = "") -> str:
            """Look."""
            self.calls.append(f"look {at}")
            return f"seen {at}"

        @tool(idempotent=True)
        async def put(at: str) -> str:
            """Put."""
            self.calls.append(f"put {at}")
            return "put"

        @tool
        async def send(to: str) -> str:
            """Send."""
            self.calls.append(f"send {to}")
            return "sent"

        @tool(read_only=True)
        async def fail(why: str = "") -> str:
            """Fail."""
            self.calls.append(f"fail {why}")
            raise ToolError(f"no {why}")

        return [look, put, send, fail]

    async def run(self, *turns: Any, tools: Sequence[Any] | None = None, **options: Any) -> AgentResult:
        async with self.runtime(tools) as runtime:
            return await Agent(ScriptedModel(turns), runtime, **{"mode": "direct", **options}).run(TASK)

    async def resume(
        self, source: Any, *turns: Any, tools: Sequence[Any] | None = None, model: Model | None = None, **options: Any
    ) -> AgentResult:
        async with self.runtime(tools) as runtime:
            return await Agent(model or ScriptedModel(turns), runtime, **{"mode": "direct", **options}).resume(source)

    def runtime(self, tools: Sequence[Any] | None = None) -> Runtime:
        return Runtime(self.tools() if tools is None else tools, sandbox=None)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def cut_after(file: Path, kind: str, times: int = 1) -> None:
    """The file as a process leaves it that is killed after the line of this kind."""
    lines = file.read_bytes().splitlines(keepends=True)
    for place, line in enumerate(lines):
        times -= json.loads(line)["kind"] == kind
        if not times:
            file.write_bytes(b"".join(lines[: place + 1]) + b'{"v":1,"at":"20')
            return
    raise AssertionError(f"there is no line {kind}")


def file_of(path: Path, *events: AgentEvent) -> Path:
    made = Transcript.create(path)
    for event in events:
        made.write(event)
    made.close()
    return path


def begun(*calls: ToolCall, mode: Any = "direct", begin: bool = True) -> list[AgentEvent]:
    """A task whose first turn made these calls, which have begun."""
    return [
        TaskBegan(task=TASK, mode=mode, model="m", system="", tools=()),
        ModelAsked(turn=1, messages=1, tools=("look", "put", "send", "execute_tool_plan", "execute_code")),
        ModelReplied(
            turn=1, message=Assistant(calls=calls), ended="calls", usage=Usage(input_tokens=9), seconds=0
        ),
        *(CallBegan(turn=1, id=call.id, name=call.name, arguments=call.arguments) for call in calls if begin),
    ]  # fmt: skip
