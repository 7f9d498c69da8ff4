"""Solves a task with a model, or an endpoint, that misbehaves: the real loop, the providers' real SDKs, HTTP."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from agent.loop.bad_endpoint import BadEndpoint, Provider, Says, Turns, misbehaving
from callgate import Runtime, ToolError, tool
from callgate.agent.events import AgentEvent
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.result import AgentResult
from callgate.agent.orchestration.answering import PlannedAnswerer
from callgate.agent.orchestration.orchestrator import ToolOrchestrator
from callgate.agent.planning.planner import ToolPlanner

DONE = Says("cpu_usage is at 72.5 %.")
QUERY = ("query_metric", {"name": "cpu_usage"})


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
        async def report(days: int) -> str:
            """A long report."""
            async with counted(f"report {days}"):
                return "all is well\n" * 3_000

        @tool(read_only=True)
        async def search_notes(query: str) -> str:
            """Searches the notes on CPU usage for a question."""
            async with counted(f"search {query}"):
                return "The CPU is at 72.5 %."

        @tool
        async def wait_for_ever() -> str:
            """Never ends."""
            async with counted("wait"):
                await anyio.sleep_forever()
                raise AssertionError

        return [query_metric, list_metrics, report, search_notes, wait_for_ever]


@dataclass
class Solved:
    """A task that has ended, however."""

    result: AgentResult
    endpoint: BadEndpoint
    world: World
    lines: list[dict[str, Any]]
    heard: list[AgentEvent]

    def faults(self) -> list[tuple[str, str]]:
        """Fault and action of the lines of the transcript that say what went wrong."""
        return [(line["fault"], line["action"]) for line in self.lines if line["kind"] == "faulted"]

    def detail(self, fault: str) -> str:
        return next(str(line["detail"]) for line in self.lines if line["kind"] == "faulted" and line["fault"] == fault)


async def solve(
    provider: Provider,
    folder: Path,
    *turns: Turns,
    stream: bool = False,
    mode: str = "direct",
    model: dict[str, Any] | None = None,
    planned: bool = False,
    **options: Any,
) -> Solved:
    """Have an agent work against an endpoint; what is under way when it has ended would hang the leaving of the blocks,
    and what the transcript lacks is missing here."""
    world = World()
    heard: list[AgentEvent] = []
    file = folder / "transcript.jsonl"
    with misbehaving(provider, *turns, **(model or {})) as (endpoint, made):
        asked = made()
        try:
            with anyio.fail_after(20):
                async with Runtime(world.tools(), sandbox=None) as runtime:
                    if planned:
                        planner = ToolPlanner(runtime, asked)
                        options["answerer"] = PlannedAnswerer(planner, ToolOrchestrator(runtime), asked)
                    agent = Agent(
                        asked, runtime, mode=mode, transcript=file, stream=stream, on_event=heard.append, **options
                    )
                    result = await agent.run("What is the CPU usage?")
        finally:
            with anyio.CancelScope(shield=True):
                await asked.aclose()
    assert world.under_way == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[0]["kind"] == "task_began"
    assert (lines[-1]["kind"], lines[-1]["outcome"]) == ("finished", result.outcome)
    began = {(line["turn"], line["id"]) for line in lines if line["kind"] == "call_began"}
    assert began <= {(line["turn"], line["id"]) for line in lines if line["kind"] == "call_ended"}
    return Solved(result, endpoint, world, lines, heard)
