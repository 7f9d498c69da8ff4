"""A transcript has no secret, and a task goes on from it."""

from __future__ import annotations

from typing import Annotated

from callgate import Runtime, Secret, tool
from callgate.agent.events import AgentEvent, CallBegan, CallEnded, ModelReplied
from callgate.agent.loop.redacted import RedactedEvents, has_redacted
from callgate.agent.models.model import NO_USAGE, Assistant, ToolCall


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
