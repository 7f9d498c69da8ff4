"""The tool choice mechanism's own scenario, "Find and analyze active users", through every step: the model is played by
functions that know nothing but what they are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import Runtime, tool
from callgate.agent.models.model import Assistant, Request, User
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.agent.react.actions import Action, Observation
from callgate.agent.react.config import read_config
from callgate.agent.react.planner import ReActPlanner
from callgate.agent.react.worker import ReActWorker

pytestmark = pytest.mark.anyio

YAML = """
spec:
  planner:
    type: ReActPlanner
    config:
      tool_descriptions:
        - name: search_database
          description: "Search the database for records matching a query."
          args: ["query", "limit"]
        - name: get_record_details
          description: "Get detailed information about a specific record by ID."
          args: ["record_id"]
        - name: analyze_data
          description: "Analyze data and return statistical summary."
          args: ["data", "analysis_type"]
      system_prompt: |
        You are a data analysis specialist.
        Workflow:
        1. Use search_database to find relevant records
        2. For each record, use get_record_details to retrieve full information
        3. Use analyze_data to compute statistics
      use_function_calling: {native}
      max_parallel_tool_calls: 3
"""
TASK = "Find and analyze active users"
HOURS = {f"user{n}": n * 10 for n in range(1, 6)}


@tool(read_only=True)
async def search_database(query: str, limit: int = 10) -> list[str]:
    """Search."""
    return list(HOURS)[:limit] if query == "active users" else []


@tool(read_only=True)
async def get_record_details(record_id: str) -> dict[str, Any]:
    """Get a record."""
    return {"id": record_id, "hours": HOURS[record_id]}


@tool(read_only=True)
async def analyze_data(data: list[int], analysis_type: str) -> float:
    """Analyze."""
    assert analysis_type == "mean"
    return sum(data) / len(data)


def results(request: Request) -> list[Any]:
    """What tools have said so far, as this model can read it."""
    texts = [each.text for each in request.messages if isinstance(each, User)]
    said = [text.split(": ", 1)[1] for text in texts if text.startswith(("Tool result: ", "Observation"))]
    return [json.loads(each.split("\n\nNote:")[0]) for each in said]


def move(request: Request, *calls: tuple[str, dict[str, Any]]) -> Any:
    assert "1. Use search_database to find relevant records" in request.system
    if request.tools:
        assert [each["function"]["name"] for each in request.tools] == [
            "search_database", "get_record_details", "analyze_data"
        ]  # fmt: skip
        return Calls(*calls)
    return "\n".join(f"Action: {name}\nAction Input: {json.dumps(given)}" for name, given in calls)


def searches(request: Request) -> Any:
    assert not any(isinstance(each, Assistant) for each in request.messages)
    return move(request, ("search_database", {"query": "active users", "limit": 5}))


def looks_at_each(request: Request) -> Any:
    (found,) = results(request)
    return move(request, *(("get_record_details", {"record_id": each}) for each in found))


def analyses(request: Request) -> Any:
    _, *records = results(request)
    return move(request, ("analyze_data", {"data": [each["hours"] for each in records], "analysis_type": "mean"}))


def reports(request: Request) -> str:
    return f"Final Answer: {results(request)[-1]} hours on average"


@pytest.mark.parametrize("native", ["true", "false"])
async def test_users_are_searched_each_is_looked_at_and_what_is_found_is_analysed(native: str) -> None:
    model = ScriptedModel([searches, looks_at_each, analyses, reports])
    async with Runtime([search_database, get_record_details, analyze_data], sandbox=None) as runtime:
        planner = ReActPlanner(read_config(YAML.replace("{native}", native), {}), model, runtime.registry)
        result = await ReActWorker(planner, runtime).run(TASK)
    assert (result.outcome, result.answer.removeprefix("Final Answer: ")) == ("answered", "30.0 hours on average")
    called = [(each.tool_name, dict(each.tool_args)) for each in result.history if isinstance(each, Action)]
    assert called == [
        ("search_database", {"query": "active users", "limit": 5}),
        *(("get_record_details", {"record_id": each}) for each in HOURS),
        ("analyze_data", {"data": list(HOURS.values()), "analysis_type": "mean"}),
    ]
    assert [each.ok for each in result.history if isinstance(each, Observation)] == [True] * 7
    assert result.turns == 4
