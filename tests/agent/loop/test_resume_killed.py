"""A process that is killed in the middle of a task, wherever, and another that goes on: nothing is done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from callgate import Runtime
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.result import AgentResult
from callgate.agent.loop.resume import OUTCOME_UNKNOWN
from callgate.agent.models.model import ToolReplies
from callgate.agent.models.scripted import ScriptedModel

pytestmark = [pytest.mark.slow, pytest.mark.anyio, pytest.mark.campaign]

TOOLS = '''
import os
from pathlib import Path
import anyio
from callgate import tool

DONE = Path(os.environ["DONE"])


def note(what):
    with DONE.open("a") as file:
        file.write(what + "\\n")


async def wait(here):
    note(here)
    if os.environ.get("HANGS") == here:
        print("here", flush=True)
        await anyio.sleep_forever()


@tool(read_only=True)
async def look(at: str) -> str:
    """Look."""
    await wait(f"look {at}")
    return f"seen {at}"


@tool
async def send(to: str) -> str:
    """Send."""
    await wait(f"send {to}")
    return f"sent {to}"


TOOLS = [look, send]


def add_agents(runtime):
    """Agents that are tools: one that sends, and one that only looks."""
    from callgate.agent import Agent, Calls, ScriptedModel

    for name, tool, argument in [("sender", "send", "to"), ("looker", "look", "at")]:
        turns = [Calls((tool, {argument: "inside 1"})), Calls((tool, {argument: "inside 2"})), "done inside"]
        agent = Agent(ScriptedModel(turns), runtime, mode="direct", tools=[tool])
        runtime.registry.add(agent.as_tool(name, "Does it."))
'''

RUN = """
import sys
import anyio
from callgate import Runtime
from callgate.agent.loop.agent import Agent
from callgate.agent.models.scripted import Calls, ScriptedModel
from tools_of_the_test import TOOLS, add_agents

FIRST = Calls(("look", {"at": "1"}), ("send", {"to": "1"}))
PLAN = {"steps": [
    {"id": "a", "tool": "send", "arguments": {"to": "plan 1"}},
    {"id": "b", "tool": "send", "arguments": {"to": "plan 2"}, "depends_on": ["a"]},
]}
CODE = "first = await send(to='code 1')\\nsecond = await send(to='code 2')\\nprint(first, second)"
THEN = {
    "direct": Calls(("look", {"at": "2"}), ("send", {"to": "2"}), ("send", {"to": "3"})),
    "plan": Calls(("execute_tool_plan", PLAN)),
    "code": Calls(("execute_code", {"code": CODE})),
    "sender": Calls(("sender", {"task": "Send it."})),
    "looker": Calls(("looker", {"task": "Look at it."})),
}[sys.argv[2]]


async def main():
    model = ScriptedModel([FIRST, THEN, "done"], provider="anthropic")
    sandbox = None if sys.argv[2] != "code" else "auto"
    async with Runtime(TOOLS, sandbox=sandbox) as runtime:
        add_agents(runtime)
        most = int(sys.argv[3])
        mode = "direct" if sys.argv[2].endswith("er") else sys.argv[2]
        agent = Agent(model, runtime, mode=mode, transcript=sys.argv[1], max_parallel_tool_calls=most)
        await agent.run("Do it")


anyio.run(main)
"""


class Killed:
    """A run that was killed where it hung."""

    def __init__(self, folder: Path, mode: str, hangs: str, *, at_once: int = 1) -> None:
        self.file = folder / "t.jsonl"
        self.done = folder / "done"
        (folder / "tools_of_the_test.py").write_text(TOOLS)
        (folder / "run.py").write_text(textwrap.dedent(RUN))
        command = [sys.executable, str(folder / "run.py"), str(self.file), mode, str(at_once)]
        environment = {"DONE": str(self.done), "HANGS": hangs, "PATH": "/usr/bin:/bin", "HOME": str(folder)}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as run:
            assert run.stdout is not None
            said = run.stdout.readline()
            run.kill()
        if mode == "code" and not said and os.environ.get("CI") != "true":
            pytest.skip("no sandbox works here")
        assert said == "here\n"
        assert run.returncode == -signal.SIGKILL
        self.mode = mode
        self.folder = folder

    def was_done(self) -> list[str]:
        return self.done.read_text().splitlines()

    async def resume(self, monkeypatch: pytest.MonkeyPatch, *turns: Any) -> AgentResult:
        monkeypatch.setenv("DONE", str(self.done))
        tools: dict[str, Any] = {}
        exec((self.folder / "tools_of_the_test.py").read_text(), tools)
        async with Runtime(tools["TOOLS"], sandbox=None) as runtime:
            tools["add_agents"](runtime)
            return await Agent(ScriptedModel(turns), runtime, mode="direct").resume(self.file)

    def kinds(self) -> list[str]:
        return [json.loads(line)["kind"] for line in self.file.read_text().splitlines()]


def told(result: AgentResult) -> dict[str, str]:
    (last,) = [message for message in result.messages if isinstance(message, ToolReplies)][-1:]
    return {reply.id: reply.text for reply in last.replies}


async def test_in_a_call_with_side_effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Killed(tmp_path, "direct", "send 2")
    assert killed.kinds()[-1] == "call_began"
    assert killed.was_done() == ["look 1", "send 1", "look 2", "send 2"]
    result = await killed.resume(monkeypatch, "done")
    assert (result.outcome, result.answer) == ("answered", "done")
    assert killed.was_done() == ["look 1", "send 1", "look 2", "send 2", "send 3"]
    assert list(told(result).values()) == ["seen 2", OUTCOME_UNKNOWN, "sent 3"]


async def test_in_a_call_that_only_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Killed(tmp_path, "direct", "look 2")
    result = await killed.resume(monkeypatch, "done")
    assert killed.was_done() == ["look 1", "send 1", "look 2", "look 2", "send 2", "send 3"]
    assert list(told(result).values()) == ["seen 2", "sent 2", "sent 3"]


async def test_in_one_of_several_calls_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Killed(tmp_path, "direct", "send 2", at_once=3)
    result = await killed.resume(monkeypatch, "done")
    done = killed.was_done()
    assert sorted(each for each in done if each.startswith("send")) == sorted(
        {each for each in done if each.startswith("send")}
    )
    assert {"send 1", "send 2"} <= set(done)
    assert list(told(result).values())[1] == OUTCOME_UNKNOWN


@pytest.mark.parametrize("mode", ["plan", "code"])
async def test_in_a_plan_or_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    killed = Killed(tmp_path, mode, f"send {mode} 2")
    before = killed.was_done()
    assert before == ["look 1", "send 1", f"send {mode} 1", f"send {mode} 2"]
    result = await killed.resume(monkeypatch, "done")
    assert (result.outcome, killed.was_done()) == ("answered", before)
    assert list(told(result).values()) == [OUTCOME_UNKNOWN]


async def test_in_an_agent_inside_the_task_that_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Killed(tmp_path, "sender", "send inside 2")
    assert killed.kinds()[-1] == "inner_event"
    before = killed.was_done()
    assert before == ["look 1", "send 1", "send inside 1", "send inside 2"]
    result = await killed.resume(monkeypatch, "done")
    assert (result.answer, killed.was_done()) == ("done", before)
    assert list(told(result).values()) == [OUTCOME_UNKNOWN]
    assert result.turns == 5  # two of the agent's before, and none of it after


async def test_in_an_agent_inside_the_task_that_only_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Killed(tmp_path, "looker", "look inside 2")
    result = await killed.resume(monkeypatch, "done")
    looks = ["look inside 1", "look inside 2"]
    assert killed.was_done() == ["look 1", "send 1", *looks, *looks]
    assert (result.answer, list(told(result).values())) == ("done", ["done inside"])
    assert result.turns == 8  # two of the agent's before, and three after


async def test_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = Killed(tmp_path, "direct", "send 1")
    whole = killed.file.read_bytes()
    await killed.resume(monkeypatch, "done")
    first = killed.file.read_bytes()
    done = killed.was_done()
    assert first.startswith(whole)
    # killed again at every line of the run that went on, and in the middle of each
    for end in range(len(whole), len(first)):
        if first[end - 1 : end] == b"\n" or first[end : end + 1] == b"\n":
            killed.file.write_bytes(first[:end])
            result = await killed.resume(monkeypatch, *["done"] * 2)
            assert result.outcome == "answered"
            assert list(told(result).values()) == ["seen 1", OUTCOME_UNKNOWN]
            assert killed.was_done() == done
