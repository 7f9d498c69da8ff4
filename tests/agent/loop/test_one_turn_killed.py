"""A process that is killed around the answer of a program or a plan, and another that goes on: the answer keeps its
type, and nothing is done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.loop.scripted_runs import sandboxed
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.result import AgentResult
from callgate.agent.loop.resume import OUTCOME_UNKNOWN
from callgate.agent.models.model import ToolReplies
from callgate.agent.models.scripted import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.anyio, pytest.mark.campaign]

WORLD = '''
import os
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from callgate import tool


class Parcel(BaseModel):
    """A parcel that was sent."""

    to: str
    grams: float


@tool
async def send(to: str) -> Parcel:
    """Send a parcel."""
    with Path(os.environ["DONE"]).open("a") as file:
        file.write(f"send {to}\\n")
    return Parcel(to=to, grams=2.5)


def hang(here: str) -> None:
    if os.environ.get("HANGS") == here:
        print("here", flush=True)
        time.sleep(600)


def check(parcel: Parcel) -> None:
    assert isinstance(parcel, Parcel)
    hang("check")


OPTIONS: dict[str, Any] = {
    "mode": "auto", "output_type": Parcel, "answer_checks": [check], "one_turn": "offer",
    "on_event": lambda event: hang(type(event).__name__),
}
'''
RUN = """
import sys

import anyio
from world import OPTIONS, send

from callgate import Runtime
from callgate.agent import Agent, Calls, ScriptedModel

STEP = {"id": "a", "tool": "send", "arguments": {"to": "Oslo"}}
TURN = {
    "program": ("execute_code", {"code": "parcel = await send(to='Oslo')\\nfinal_answer(parcel)"}),
    "plan": ("execute_tool_plan", {"steps": [STEP], "answer": {"$ref": "a"}}),
}[sys.argv[2]]


async def main():
    model = ScriptedModel([Calls(TURN)], tokens_per_second=400.0)
    async with Runtime([send]) as runtime:
        agent = Agent(model, runtime, transcript=sys.argv[1], stream=sys.argv[4] == "stream", **OPTIONS)
        await agent.run("Send it")


anyio.run(main, backend=sys.argv[3])
"""
WORDS = '{"to": "Oslo", "grams": 2.5}'


def kill(command: list[str], environment: dict[str, str]) -> None:
    """Kill a process where it hangs."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as run:
        assert run.stdout is not None
        said = run.stdout.readline()
        run.kill()
    assert (said, run.returncode) == ("here\n", -signal.SIGKILL)


async def resumed(
    folder: Path, by: str, hangs: str, backend: str, written: str, monkeypatch: pytest.MonkeyPatch, *turns: str
) -> tuple[AgentResult, Any]:
    """Kill a task that hangs there, and go on with it here. Returns its result, and the type of its answer."""
    (folder / "world.py").write_text(WORLD)
    (folder / "run.py").write_text(RUN)
    done, file = folder / "done", folder / "task.jsonl"
    environment = {"DONE": str(done), "HANGS": hangs, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    world: dict[str, Any] = {"__name__": "world"}
    exec((folder / "world.py").read_text(), world)
    async with sandboxed([world["send"]]) as runtime:
        kill([sys.executable, str(folder / "run.py"), str(file), by, backend, written], environment)
        monkeypatch.setenv("DONE", os.fspath(done))
        result = await Agent(ScriptedModel(turns), runtime, **world["OPTIONS"]).resume(file)
    assert done.read_text() == "send Oslo\n"
    kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()]
    assert (kinds.count("answered"), kinds.count("finished")) == (1, 1)
    return result, world["Parcel"]


@pytest.mark.parametrize("written", ["stream", "whole"])
@pytest.mark.parametrize("hangs", ["CallEnded", "MessageAdded", "Answered"])
@pytest.mark.parametrize("by", ["program", "plan"])
async def test_after_the_answer_no_model_is_asked_again(
    by: str, hangs: str, written: str, anyio_backend_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, parcel = await resumed(tmp_path, by, hangs, anyio_backend_name, written, monkeypatch)
    assert (result.output, result.answered_by, result.turns) == (parcel(to="Oslo", grams=2.5), by, 1)


@pytest.mark.parametrize("by", ["program", "plan"])
async def test_in_a_check_of_the_answer_the_model_looks_again(
    by: str, anyio_backend_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, parcel = await resumed(tmp_path, by, "check", anyio_backend_name, "stream", monkeypatch, WORDS)
    assert (result.output, result.answered_by, result.turns) == (parcel(to="Oslo", grams=2.5), "model", 2)
    (replies,) = [each for each in result.messages if isinstance(each, ToolReplies)]
    assert [reply.text for reply in replies.replies] == [OUTCOME_UNKNOWN]
