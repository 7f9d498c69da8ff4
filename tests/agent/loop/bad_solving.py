"""Solves a task with a played model, or endpoint, that misbehaves; the loop, the gate and the tools are real."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from callgate import Runtime, ToolError, tool
from callgate.agent.events import AgentEvent
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.result import AgentResult
from callgate.agent.models.model import Model, ToolCall, ToolReplies, User, arguments_of
from callgate.agent.models.scripted import Say, ScriptedModel, Turn

DONE = Say("cpu_usage is at 72.5 %.")
QUERY = ("query_metric", {"name": "cpu_usage"})


def says(text: str = "", *calls: tuple[str, Any], ids: Sequence[str] = (), **rest: Any) -> Say:
    """A turn of the model; arguments of calls are an object, or the text that the model wrote in its place."""
    made = []
    for place, (name, given) in enumerate(calls):
        written = given if isinstance(given, str) else json.dumps(given)
        arguments, fault = arguments_of(written)
        id = ids[place] if ids else ""
        made.append(ToolCall(id=id, name=name, arguments=arguments, fault=fault, written=written if fault else ""))
    return Say(text, made, **rest)


@dataclass
class World:
    """What the tools of a test did."""

    calls: list[str] = field(default_factory=list)
    under_way: int = 0

    def tools(self) -> list[Any]:
        @asynccontextmanager
        async def counted(what: str) -> AsyncIterator[None]:
            self.calls.append(what)
            self.under_way += 1
            try:
                yield
            finally:
                self.under_way -= 1

        @tool(read_only=True)
        async def query_metric(name: str) -> dict[str, Any]:
            """The current value of a metric."""
            async with counted(f"query {name}"):
                if name == "broken":
                    raise ToolError("there is no metric 'broken'")
                return {"name": name, "current": 72.5}

        @tool(read_only=True)
        async def list_metrics(category: str) -> list[str]:
            """The metrics of a category."""
            async with counted(f"list {category}"):
                return [f"{category}_usage"]

        @tool(read_only=True)
        async def weather(city: str) -> str:
            """The weather of a city."""
            async with counted(f"weather {city}"):
                return f"{city}: 20"

        return [query_metric, list_metrics, weather]


@dataclass
class Solved:
    """A task that has ended."""

    result: AgentResult
    model: Any
    world: World
    lines: list[dict[str, Any]]
    heard: list[AgentEvent]

    def faults(self) -> list[tuple[str, str]]:
        """Fault and action of each `faulted` line of the transcript."""
        return [(line["fault"], line["action"]) for line in self.lines if line["kind"] == "faulted"]

    def results(self, request: int) -> list[str]:
        """Texts of the last results that the model received in a request."""
        messages = self.model.requests[request].messages
        replies = next(each.replies for each in reversed(messages) if isinstance(each, ToolReplies))
        return [each.text for each in replies]

    def words(self, request: int) -> str:
        """Everything that the model received since its last turn."""
        last = self.model.requests[request].messages[-2:]
        texts = [each.text for each in last if isinstance(each, User)]
        texts += [reply.text for each in last if isinstance(each, ToolReplies) for reply in each.replies]
        return "\n".join(texts)

    def tools(self, request: int) -> list[str]:
        """Names of the tools that were defined in a request."""
        return [each["function"]["name"] for each in self.model.requests[request].tools]


async def solve(folder: Path, *turns: Turn, model: Model | None = None, mode: str = "direct", **options: Any) -> Solved:
    """Have an agent work with these turns, of which the last one stays. Whatever happens, every call that began has its
    end in the transcript, the last line is `finished`, and no call is under way."""
    world = World()
    heard: list[AgentEvent] = []
    file = folder / "transcript.jsonl"
    asked = model or ScriptedModel([*turns, *[turns[-1]] * 100])
    with anyio.fail_after(20):
        async with Runtime(world.tools(), sandbox=None) as runtime:
            agent = Agent(asked, runtime, mode=mode, transcript=file, on_event=heard.append, **options)
            result = await agent.run("What is the CPU usage?")
    assert world.under_way == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["kind"] == "task_began"
    assert (lines[-1]["kind"], lines[-1]["outcome"]) == ("finished", result.outcome)
    began = {(line["turn"], line["id"]) for line in lines if line["kind"] == "call_began"}
    assert began <= {(line["turn"], line["id"]) for line in lines if line["kind"] == "call_ended"}
    return Solved(result, asked, world, lines, heard)
