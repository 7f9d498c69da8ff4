"""A data analyst that decides for itself which tools to call: the example of the tool choice mechanism, whole.

`analyst/agent.yaml` describes the tools, and the workflow that the model is to follow. A `ReActPlanner` asks the model,
and the agent makes its calls through the gate: those of one turn at the same time, at most three; the others wait, and
the model is told so.

Without options no key is needed and nothing leaves the machine: what the model says comes from a recording. It is a
recording of a played model (`SCRIPT`, which sees what a model would see), since none was at hand that may be published;
`--record` makes it anew. `--model NAME` asks a real one: `--model gpt-5`, `--model claude-opus-5-5`,
`--model ollama:qwen3:8b`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping

from analyst import FOLDER, TOOLS, rows
from callgate import Runtime
from callgate.agent import (
    Agent,
    AgentResult,
    ReActPlanner,
    RecordingModel,
    ReplayModel,
    ScriptedModel,
    model_named,
    read_config,
)
from callgate.agent.events import AgentEvent, CallBegan, CallEnded
from callgate.agent.models.model import Model, Request, ToolReplies
from callgate.agent.models.scripted import Calls
from needs import needs

with needs("agent"):
    import yaml  # noqa: F401  # `read_config` reads YAML with it

TASK = "Find and analyze active users"
RECORDING = FOLDER / "recording.jsonl"
STRATEGIC_PLAN = {"phases": [{"worker": "data-analysis", "goals": "Analyze user activity patterns"}]}


def results(request: Request) -> list[str]:
    """What tools have said so far, as the model reads it."""
    return [reply.text for each in request.messages if isinstance(each, ToolReplies) for reply in each.replies]


def looks_around(request: Request) -> Calls:
    """Three calls that need nothing of each other, in one turn."""
    search = ("search_database", {"query": "active users", "limit": 10})
    return Calls(search, ("list_tables", {}), ("get_schema", {"table": "users"}))


def gets_details(request: Request) -> Calls:
    found = json.loads(results(request)[0])
    return Calls(*[("get_record_details", {"record_id": each["id"]}) for each in found])


def minutes(request: Request) -> list[int]:
    return [int(found[1]) for each in results(request) if (found := re.search(r'"minutes":(\d+)', each))]


def analyzes_wrongly(request: Request) -> Calls:
    return Calls(("analyze_data", {"data": minutes(request), "analysis_type": "statistics"}))


def analyzes(request: Request) -> Calls:
    assert "summary" in results(request)[-1], "the gate says which values there are"
    return Calls(("analyze_data", {"data": minutes(request), "analysis_type": "summary"}))


def reports(request: Request) -> str:
    numbers = json.loads(results(request)[-1])
    return (
        f"{numbers['count']:g} users are active. In the week they spent {numbers['mean']:.1f} minutes on average, "
        f"between {numbers['least']:g} and {numbers['most']:g}."
    )


SCRIPT = (looks_around, gets_details, analyzes_wrongly, analyzes, reports)


def show(event: AgentEvent) -> None:
    match event:
        case CallBegan():
            print(f"-> {event.name} {json.dumps(dict(event.arguments))[:90]}")
        case CallEnded():
            print(f"   {event.name}: {event.text[:90]}")


async def analyze(model: Model, environment: Mapping[str, str] | None = None) -> AgentResult:
    """The task, done. The environment may hold OPENAI_TOOL_CHOICE; None for the process's own."""
    async with Runtime(TOOLS, sandbox=None) as runtime:
        planner = ReActPlanner(read_config(FOLDER / "agent.yaml", environment), model, runtime.registry)
        assert planner.notes == (), "descriptions and tools fit together"
        agent = Agent(model, runtime, planner=planner, strategic_plan=STRATEGIC_PLAN, on_event=show)
        return await agent.run(TASK)


def check(result: AgentResult) -> None:
    """What the recorded run shows."""
    active = rows("SELECT id FROM users WHERE status = 'active'")
    spent = rows("SELECT SUM(minutes) AS total FROM sessions JOIN users ON id = user_id WHERE status = 'active'")
    seen = [each for each in result.events if isinstance(each, CallEnded)]
    calls = Counter(each.name for each in seen)
    told = [reply for each in result.messages if isinstance(each, ToolReplies) for reply in each.replies]
    assert (result.outcome, result.turns) == ("answered", 5)
    assert result.answer.startswith(f"{len(active)} users are active.")
    assert f"{spent[0]['total'] / len(active):.1f} minutes" in result.answer, "as the database says itself"
    assert calls == {
        "search_database": 1,
        "list_tables": 1,
        "get_schema": 1,
        "get_record_details": len(active),
        "analyze_data": 2,
    }
    details = [each for each in seen if each.name == "get_record_details"]
    assert all(each.ok for each in details), "more calls than may run at once: all were made"
    last = [reply.text for reply in told if reply.name == "get_record_details"][-1]
    assert f"at most 3 run at the same time, so these waited: {'get_record_details, ' * 2}" in last
    wrong, right = [each for each in seen if each.name == "analyze_data"]
    assert (wrong.ok, right.ok) == (False, True)


async def main() -> None:
    parser = argparse.ArgumentParser(description="A data analyst that decides for itself which tools to call.")
    parser.add_argument("--model", help="a real model, for instance gpt-5, claude-opus-5-5, ollama:qwen3:8b")
    parser.add_argument("--record", action="store_true", help="have the played model play, and record it anew")
    options = parser.parse_args()
    model: Model
    if options.model:
        model = model_named(options.model)
    elif options.record:
        model = RecordingModel(ScriptedModel(SCRIPT, name="played"), RECORDING)
    else:
        model = ReplayModel(RECORDING)
    try:
        result = await analyze(model, None if options.model else {})
    finally:
        await model.aclose()
    print(f"{result.outcome} after {result.turns} turns: {result.answer or result.reason}")
    if not options.model:
        check(result)


if __name__ == "__main__":
    asyncio.run(main())
