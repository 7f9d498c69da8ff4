"""The tool choice mechanism's own scenario, "Find and analyze active users", through every step: the model is played by
functions that know nothing but what they are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.react.scene import HOURS, NAMES, TASK, TEXT, AnalystTools, config
from callgate import Runtime
from callgate.agent.events import CallBegan, CallEnded
from callgate.agent.loop.agent import Agent
from callgate.agent.models.model import Assistant, Request, ToolReplies, User
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.agent.react.planner import ReActPlanner

pytestmark = pytest.mark.anyio


def results(request: Request) -> list[Any]:
    """What tools have said so far, as this model can read it."""
    native = [reply.text for each in request.messages if isinstance(each, ToolReplies) for reply in each.replies]
    texts = "\n".join(each.text for each in request.messages if isinstance(each, User)).split("\nObservation")[1:]
    said = native or [text.split(": ", 1)[1] for text in texts]
    return [json.loads(each.split("\n\nNote:")[0]) for each in said]


def move(request: Request, *calls: tuple[str, dict[str, Any]]) -> Any:
    assert request.system.startswith("You are a data analysis specialist.")
    if request.tools:
        assert [each["function"]["name"] for each in request.tools] == NAMES
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


@pytest.mark.parametrize("changes", [[], [TEXT]], ids=["native", "text"])
async def test_users_are_searched_each_is_looked_at_and_what_is_found_is_analysed(
    changes: list[tuple[str, str]],
) -> None:
    model = ScriptedModel([searches, looks_at_each, analyses, reports])
    async with Runtime(AnalystTools().tools(), sandbox=None) as runtime:
        planner = ReActPlanner(config(*changes), model, runtime.registry)
        result = await Agent(model, runtime, planner=planner).run(TASK)
    assert (result.outcome, result.answer.removeprefix("Final Answer: ")) == ("answered", "30.0 hours on average")
    called = [(each.name, dict(each.arguments)) for each in result.events if isinstance(each, CallBegan)]
    assert called == [
        ("search_database", {"query": "active users", "limit": 5}),
        *(("get_record_details", {"record_id": each}) for each in HOURS),
        ("analyze_data", {"data": list(HOURS.values()), "analysis_type": "mean"}),
    ]
    assert [each.ok for each in result.events if isinstance(each, CallEnded)] == [True] * 7
    assert result.turns == 4
