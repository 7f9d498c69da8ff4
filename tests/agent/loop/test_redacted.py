"""A transcript has no secret, and a task goes on from it."""

from __future__ import annotations

import json
import pickle
from typing import Annotated

import pytest
from pydantic import SecretStr

from agent.loop.scripted_runs import play
from callgate import Printed, Runtime, Secret, tool
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    CallProgress,
    Faulted,
    Finished,
    MessageAdded,
    ModelReplied,
    Planned,
    PlannedRun,
    Resumed,
    Routed,
    TaskBegan,
    TextArrived,
)  # fmt: skip
from callgate.agent.loop.redacted import RedactedEvents, has_redacted
from callgate.agent.models.model import NO_USAGE, Assistant, ToolCall, ToolReplies, ToolReply
from callgate.agent.models.scripted import Calls, Say


@tool
def unlock(phrase: Annotated[str, Secret]) -> str:
    """Unlock."""
    return "done"


def test_events_lose_the_secrets_of_calls_plans_and_programs_and_the_providers_own_form() -> None:
    redacted = RedactedEvents(Runtime([unlock], sandbox=None))
    calls = (
        ToolCall(id="1", name="unlock", arguments={"phrase": "open sesame"}),
        ToolCall(
            id="2",
            name="execute_tool_plan",
            arguments={"plan": '{"steps":[{"id":"a","tool":"unlock","arguments":{"phrase":"xyzzy"}}]}'},
        ),
        ToolCall(id="3", name="execute_code", arguments={"code": "unlock('open sesame', password='hunter2')"}),
    )
    message = Assistant(text="I say open sesame", calls=calls, native=[{"thinking": "open sesame"}], provider="p")
    reply = ModelReplied(turn=1, message=message, ended="answered", usage=NO_USAGE, seconds=1.0)
    events: list[AgentEvent] = [
        reply,
        CallBegan(turn=1, id="1", name="unlock", arguments=calls[0].arguments),
        CallEnded(turn=1, id="1", name="unlock", ok=False, text="Error: xyzzy and hunter2 are wrong", seconds=0.1),
    ]
    shown = [redacted.of(event) for event in events] + [redacted.of(reply)]
    assert isinstance(shown[-1], ModelReplied)
    assert shown[-1].message.native is None
    assert has_redacted(shown[-1].message.calls[0].arguments)
    for secret in ("sesame", "xyzzy", "hunter2"):
        assert secret not in str(shown), secret
    assert "sesame" in str(events)


SAID = "it is open sesame"
CALL = CallBegan(turn=1, id="1", name="unlock", arguments={"phrase": "open sesame"})
PROGRAM = f"unlock('open sesame')\ntoken = first\nnote = '{SAID}'"
RUN = {"kind": "code", "source": PROGRAM, "logs": SAID, "value": [SAID]}
LATER: list[AgentEvent] = [
    TaskBegan(task=SAID, mode="direct", model="m", system=SAID, tools=(), strategic_plan={"goal": SAID}),
    TextArrived(turn=1, text=SAID),
    ModelReplied(
        turn=1, message=Assistant(text=SAID, calls=(ToolCall(id="2", name="x", fault=SAID, written=SAID),)),
        ended="answered", usage=NO_USAGE, seconds=1.0, refusal=SAID,
    ),
    CallBegan(turn=1, id="2", name="execute_code", arguments={"code": PROGRAM, "note": SAID}),
    CallBegan(turn=1, id="3", name="execute_tool_plan", arguments={"plan": {"steps": [], "goal": SAID}}),
    CallProgress(turn=1, id="2", event=Printed(SAID)),
    CallEnded(turn=1, id="2", name="execute_code", ok=True, text=SAID, seconds=0.1, run=RUN),
    CallEnded(turn=1, id="2", name="unlock", ok=True, text=json.dumps({"said": SAID}), seconds=0.1),
    MessageAdded(turn=1, text=SAID, replies=ToolReplies(replies=(ToolReply(id="2", name="unlock", text=SAID),))),
    Planned(
        plan_id="p", plan={"goal": SAID}, reasoning=SAID, confidence=1.0, source="model", stages=(),
        estimated_seconds=1.0, estimated_cost=None, seconds=1.0, notes=(SAID,),
    ),
    PlannedRun(
        plan_id="p", success=True, seconds=1.0, failed_steps=(), retries=0, results=({"a": SAID},),
        sources=({"a": SAID},),
    ),
    Faulted(turn=1, fault="unavailable", detail=f"{SAID}, not open ses", action="again"),
    Routed(mode="direct", reason=SAID),
    Resumed(turns=1, model="m", reason=SAID),
    Finished(
        outcome="answered", answer=SAID, reason=SAID, turns=1, usage=NO_USAGE, cost=None, seconds=1.0, tool_calls=1
    ),
]  # fmt: skip


@pytest.mark.parametrize("event", LATER, ids=lambda event: type(event).__name__)
def test_each_event_of_a_task_loses_the_secrets_of_its_calls(event: AgentEvent) -> None:
    redacted = RedactedEvents(Runtime([unlock], sandbox=None))
    redacted.of(CALL)
    shown = str(redacted.of(event))
    assert "open s" not in shown
    assert shown.count("[redacted]") == str(event).count("open s")
    if "token = first" in str(event):
        assert "token = first" in shown  # a program keeps its variables


@pytest.mark.anyio
async def test_the_page_of_a_task_in_memory_has_no_secret_of_its_tools_and_the_result_has_the_values() -> None:
    @tool(read_only=True)
    def enter(phrase: Annotated[str, Secret], pin: SecretStr) -> dict[str, str]:
        """Enter."""
        return {"said": phrase, "pin": pin.get_secret_value()}

    given = {"phrase": "melon tree", "pin": "pin-4711"}
    result, _ = await play([enter], Calls(("enter", given)), Say("You said melon tree, pin-4711"))
    assert result.answer == "You said melon tree, pin-4711"
    page = result.trace()
    assert "melon tree" not in page
    assert "pin-4711" not in page
    assert pickle.loads(pickle.dumps(result)).answer == result.answer
    assert "[redacted]" in page
