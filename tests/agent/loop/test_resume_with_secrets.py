"""A task whose process is killed while calls with secrets wait: no call is made with [redacted] as its value."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest

from agent.loop.resuming import begun, file_of
from callgate import Redaction, Runtime, Secret, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.redacted import RedactedEvents
from callgate.agent.loop.resume import NOT_MADE
from callgate.agent.models.model import Assistant, ToolCall, ToolReplies
from callgate.agent.models.scripted import Calls, ScriptedModel

pytestmark = pytest.mark.anyio

SECRET = "open sesame"
RUN = """
import sys
import anyio
from typing import Annotated
from callgate import Runtime, Secret, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.models.scripted import Calls, ScriptedModel


@tool(idempotent=True)
async def unlock(door: str, password: Annotated[str, Secret]) -> str:
    assert password == "open sesame"
    print("here", flush=True)
    await anyio.sleep_forever()


@tool(read_only=True)
async def look(at: str) -> str:
    return at


GIVEN = {"door": "front", "password": "open sesame"}
TURN = {
    "direct": Calls(("unlock", GIVEN), ("look", {"at": "2"}), ("unlock", {**GIVEN, "door": "back"})),
    "plan": Calls(("execute_tool_plan", {"steps": [{"id": "a", "tool": "unlock", "arguments": GIVEN}]})),
    "code": Calls(("execute_code", {"code": "await unlock(door='front', password='open sesame')"})),
}[sys.argv[2]]


async def main():
    async with Runtime([unlock, look], sandbox="unsafe" if sys.argv[2] == "code" else None) as runtime:
        await Agent(
            ScriptedModel([TURN]), runtime, mode=sys.argv[2], transcript=sys.argv[1], max_parallel_tool_calls=1
        ).run("Open the doors")


anyio.run(main)
"""


def killed(folder: Path, mode: str) -> Path:
    """The transcript of a task that was killed while the door was being opened."""
    file = folder / "t.jsonl"
    (folder / "run.py").write_text(RUN)
    command = [sys.executable, "-W", "ignore", str(folder / "run.py"), str(file), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ), text=True) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "here\n"
        run.kill()
    assert run.returncode == -signal.SIGKILL
    return file


@pytest.mark.parametrize(
    "arguments", [{"note": "4111111111111111"}, {"note": {"hunter2-x": "1", "password": "hunter2-x"}}, {"note": ["a"]}]
)
async def test_a_call_is_not_made_if_anything_of_its_arguments_is_not_in_the_transcript(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    made: list[Any] = []

    @tool(read_only=True)
    async def write(note: Any) -> None:
        """Write."""
        made.append(note)

    redaction = Redaction(redact=lambda text: text.replace("4111111111111111", "[card]"))
    async with Runtime([write], sandbox=None, redaction=redaction) as runtime:
        message = Assistant(calls=(ToolCall(id="1", name="write", arguments=arguments),))
        redacted = RedactedEvents(runtime)
        events = [redacted.of(event) for event in begun(*message.calls, begin=False)]
        file = file_of(tmp_path / "t.jsonl", *events)
        result = await Agent(ScriptedModel(["done"]), runtime, mode="direct").resume(file)
    (told,) = [reply.text for each in result.messages if isinstance(each, ToolReplies) for reply in each.replies]
    whole = arguments == {"note": ["a"]}
    assert (told != NOT_MADE) is whole
    assert made == ([["a"]] if whole else [])


async def test_a_result_in_memory_goes_on_with_its_values_and_its_new_transcript_has_none_of_them(
    tmp_path: Path,
) -> None:
    made: list[str] = []

    @tool
    async def unlock(phrase: Annotated[str, Secret]) -> str:
        """Unlock."""
        made.append(phrase)
        return f"opened with {phrase}"

    turns = [Calls(("unlock", {"phrase": SECRET}))] * 2
    async with Runtime([unlock], sandbox=None) as runtime:
        stopped = await Agent(ScriptedModel(turns), runtime, mode="direct", budget=Budget(turns=2)).run("Open it")
        assert not stopped.ok
        file = tmp_path / "t.jsonl"
        again = Agent(ScriptedModel(["done"]), runtime, mode="direct", transcript=file)
        result = await again.resume(stopped)
    assert (result.answer, made) == ("done", [SECRET])
    assert SECRET in str(result.messages)
    assert SECRET not in file.read_text()
    assert "[redacted]" in file.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["direct", "plan", "code"])
async def test_calls_with_secrets_are_not_made_and_the_model_reads_why(tmp_path: Path, mode: Any) -> None:
    file = killed(tmp_path, mode)
    assert SECRET not in file.read_text()
    made: list[dict[str, str]] = []

    @tool(idempotent=True, read_only=mode != "direct")  # so that only its secrets keep it from being made again
    async def unlock(door: str, password: Annotated[str, Secret]) -> str:
        """Unlock."""
        made.append({"door": door, "password": password})
        return "open"

    @tool(read_only=True)
    async def look(at: str) -> str:
        """Look."""
        made.append({"at": at})
        return at

    again = Calls(("unlock", {"door": "front", "password": SECRET}))
    async with Runtime([unlock, look], sandbox=None) as runtime:
        agent = Agent(ScriptedModel([again, "done"]), runtime, mode="direct", transcript=None)
        result = await agent.resume(file)
    assert result.outcome == "answered"
    replies = [message for message in result.messages if isinstance(message, ToolReplies)]
    told = [reply.text for reply in replies[0].replies]
    with_secrets = {"door": "front", "password": SECRET}
    if mode == "direct":
        assert told == [NOT_MADE, "2", NOT_MADE]
        assert made == [{"at": "2"}, with_secrets]
    else:
        assert told == [NOT_MADE]
        assert made == [with_secrets]
    assert replies[1].replies[0].text == "open"
    assert SECRET not in file.read_text()
    assert SECRET not in result.trace()
