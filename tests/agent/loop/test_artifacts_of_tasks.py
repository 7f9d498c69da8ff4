"""What a task's programs and tools produce: for people in its result, for its model by handles."""

from __future__ import annotations

import re
from typing import Any

import pytest

from callgate import Artifact, Runtime, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.models.model import Request, ToolReplies
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.artifacts import NOT_HERE

pytestmark = pytest.mark.anyio


@tool
async def export() -> Artifact:
    """Exports."""
    return Artifact.from_bytes(b"a,b\n1,2\n", "orders.csv")


@tool
async def size(file: Artifact) -> int:
    """Its size."""
    return file.size_bytes


def last_text(request: Request) -> str:
    replies = [message for message in request.messages if isinstance(message, ToolReplies)][-1]
    return replies.replies[-1].text


def handle_in(text: str) -> str:
    found = re.search("art_[0-9a-f]{32}", text)
    assert found is not None, text
    return found[0]


async def test_the_result_has_the_files_and_the_model_passes_handles_on() -> None:
    async def passes_on(request: Request) -> Any:
        return Calls(("size", {"file": handle_in(last_text(request))}))

    model = ScriptedModel([Calls(("export", {})), passes_on, "8"])
    async with Runtime([export, size], sandbox=None) as runtime:
        result = await Agent(model, runtime, mode="direct").run("How large?")
        (kept,) = result.artifacts
        assert (kept.name, kept.source, result.runs) == ("orders.csv", "export", ())
        assert len(runtime.artifacts) == 0  # the task is over
        other = ScriptedModel([Calls(("size", {"file": kept.handle})), "gone"])
        again = await Agent(other, runtime, mode="direct").run("Once more")
    assert kept.read() == b"a,b\n1,2\n"
    (refused,) = [message for message in again.messages if isinstance(message, ToolReplies)]
    assert NOT_HERE in refused.replies[0].text


async def test_the_model_reads_on_what_a_program_printed() -> None:
    offered: list[list[str]] = []

    async def reads_on(request: Request) -> Any:
        offered.append([each.get("name") or each["function"]["name"] for each in request.tools])
        text = last_text(request)
        offset = re.search(r"offset=(\d+)", text)
        assert offset is not None
        return Calls(("read_artifact", {"artifact": handle_in(text), "offset": int(offset[1]), "limit": 10}))

    async def answers(request: Request) -> Any:
        return last_text(request).splitlines()[-1]

    program = Calls(("execute_code", {"code": "print('x' * 30_000)\nawait export()"}))
    async with Runtime([export, size], sandbox=None) as runtime:
        result = await Agent(ScriptedModel([program, reads_on, answers]), runtime, mode="code").run("Print")
    assert result.answer == "x" * 10
    assert offered[0][-1] == "read_artifact"
    assert {each.name for each in result.artifacts} == {"orders.csv", "output.txt"}
    assert [each["kind"] for each in result.runs] == ["code"]
