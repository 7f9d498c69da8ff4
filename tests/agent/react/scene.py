"""The scene of the tests of ReAct: an analyst's configuration, the tools that it describes, and a planner of it."""

from __future__ import annotations

from typing import Any

import anyio

from callgate import Tool, tool
from callgate.agent.models.scripted import ScriptedModel
from callgate.agent.react.config import AgentConfig, read_config
from callgate.agent.react.planner import ReActPlanner

YAML = """
spec:
  planner:
    type: ReActPlanner
    config:
      tool_descriptions:
        - {name: search_database, description: Search the database., args: [query, limit]}
        - {name: get_record_details, description: Get a record., args: [record_id]}
        - {name: analyze_data, description: Compute a statistic., args: [data, analysis_type]}
        - {name: list_tables, description: List the tables.}
        - {name: wait_for_others, description: Wait., args: [count]}
        - {name: not_here, description: Nowhere., args: [x]}
      system_prompt: You are a data analysis specialist.
      use_function_calling: true
      max_parallel_tool_calls: 3
resources:
  inference_gateways:
    - {name: llm, type: OpenAIGateway, config: {model: gpt-4o-mini, temperature: 0, max_output_tokens: 500}}
"""
NAMES = ["search_database", "get_record_details", "analyze_data", "list_tables", "wait_for_others", "not_here"]
TASK = "Find active users"
SEARCH = ("search_database", {"query": "active"})
HOURS = {f"user{n}": n * 10 for n in range(1, 6)}
TEXT = ("use_function_calling: true", "use_function_calling: false")
"""The change that has the model write its calls as text."""


def chosen(tool_choice: str) -> tuple[str, str]:
    """The change that chooses a tool."""
    return "temperature: 0,", f"temperature: 0, tool_choice: {tool_choice},"


def config(*changes: tuple[str, str]) -> AgentConfig:
    """The configuration, with pieces of its text replaced."""
    text = YAML
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return read_config(text, {})


def planner(*changes: tuple[str, str], says: Any = "Done.", registry: Any = None, **model: Any) -> ReActPlanner:
    """A planner of the configuration, whose model says this one thing."""
    return ReActPlanner(config(*changes), ScriptedModel([says], **model), registry)


class AnalystTools:
    """The tools that are described, and one that is not; they know what runs at the same time."""

    def __init__(self) -> None:
        self.running = self.most = 0
        self.deleted = False

    def tools(self) -> list[Tool]:
        @tool(read_only=True)
        async def search_database(query: str, limit: int | None = None) -> list[str]:
            """Search."""
            return list(HOURS)[:limit] if query == "active users" else [f"{query} user1"]

        @tool(read_only=True)
        async def get_record_details(record_id: str) -> dict[str, Any]:
            """Get a record."""
            return {"id": record_id, "hours": HOURS[record_id]}

        @tool(read_only=True)
        async def analyze_data(data: list[int], analysis_type: str) -> float:
            """Analyze."""
            assert analysis_type == "mean"
            return sum(data) / len(data)

        @tool(read_only=True)
        async def list_tables() -> list[str]:
            """List."""
            return ["users"]

        @tool
        async def wait_for_others(count: int) -> int:
            """Answers when so many wait at the same time, or there cannot be so many."""
            self.running += 1
            self.most = max(self.most, self.running)
            for _ in range(20):
                await anyio.lowlevel.checkpoint()
            self.running -= 1
            return count

        @tool
        async def delete_all() -> str:
            """Delete everything."""
            self.deleted = True
            return "gone"

        return [search_database, get_record_details, analyze_data, list_tables, wait_for_others, delete_all]
