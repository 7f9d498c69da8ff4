"""A transcript has no secret, and a task goes on from it."""

from __future__ import annotations

import pickle
from typing import Annotated

import pytest
from pydantic import SecretStr

from agent.loop.scripted_runs import play
from callgate import Runtime, Secret, tool
from callgate.agent.events import AgentEvent, CallBegan, CallEnded, ModelReplied
from callgate.agent.loop.redacted import RedactedEvents, has_redacted
from callgate.agent.models.model import NO_USAGE, Assistant, ToolCall
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
