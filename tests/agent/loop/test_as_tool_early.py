"""An agent as a tool, in a program that begins while it is written: the agent's task begins in its call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.loop.resuming import World
from agent.loop.scripted_runs import of, sandboxed
from callgate import Runtime, tool
from callgate.agent.events import AgentEvent, CallEnded, InnerEvent, ModelReplied
from callgate.agent.loop.agent import Agent
from callgate.agent.models.model import Request
from callgate.agent.models.scripted import Calls, ScriptedModel

pytestmark = pytest.mark.anyio


async def test_an_agent_never_begins_while_the_program_that_calls_it_is_written(tmp_path: Path) -> None:
    file, world = tmp_path / "task.jsonl", World()
    comments = "\n".join(f"# line {n} of what the model still writes" for n in range(20))
    begins_early = f"a = await look('first')\nb = await research('Count')\n{comments}\n[a, b]"
    writes = Calls(("execute_code", {"code": begins_early}))
    heard: list[Any] = []
    async with sandboxed(world.tools()) as runtime:
        inner = Agent(
            ScriptedModel([Calls(("look", {"at": "inside"})), "two"] * 40), runtime, mode="direct", tools=["look"]
        )
        runtime.registry.add(inner.as_tool("research", "Finds out.", read_only=True))
        model = ScriptedModel([writes, "done"], tokens_per_second=400.0)
        with anyio.fail_after(60):
            result = await Agent(model, runtime, mode="code", transcript=file, on_event=heard.append).run("Count")
        assert result.answer == "done"
        (run,) = (each.run for each in of(result, CallEnded))
        assert run is not None
        assert [(call["tool"], call["early"]) for call in run["calls"]] == [("look", True), ("research", False)]
        inside = [each for each in heard if isinstance(each, InnerEvent)]
        assert {(each.turn, each.call) for each in inside} == {(1, "call_1_1")}
        lines = file.read_bytes().splitlines(keepends=True)
        for place in range(2, len(lines)):
            file.write_bytes(b"".join(lines[:place]))
            again = ScriptedModel([writes, "done", "done"])
            with anyio.fail_after(20):
                result = await Agent(again, runtime, mode="code").resume(file)
            assert result.ok, (place, result.reason)


async def test_what_begins_early_through_a_tool_of_another_runtime_leaves_a_transcript_that_can_be_resumed(
    tmp_path: Path,
) -> None:
    file = tmp_path / "task.jsonl"
    rest = "\n".join(f"# line {n} of what the model still writes" for n in range(20))
    writes = Calls(("execute_code", {"code": f"a = await ask_elsewhere('Count')\n{rest}\nprint(a)\na"}))
    world = World()
    written = anyio.Event()

    async def answer(_: Request) -> str:
        await written.wait()
        return "two"

    def hear(event: AgentEvent) -> None:
        if isinstance(event, ModelReplied):
            written.set()

    async with Runtime(world.tools(), sandbox=None) as elsewhere:
        inner = Agent(ScriptedModel([Calls(("look", {"at": "it"})), answer]), elsewhere, mode="direct", tools=["look"])
        elsewhere.registry.add(inner.as_tool("research", "Finds out."))

        @tool(read_only=True)
        async def ask_elsewhere(task: str) -> Any:
            """Asks, in a program of its own."""
            return (await elsewhere.execute_code(f"await research({task!r})")).value

        async with Runtime([ask_elsewhere], sandbox=None) as runtime:
            model = ScriptedModel([writes, "done"], tokens_per_second=400.0)
            with anyio.fail_after(20):
                result = await Agent(model, runtime, mode="code", transcript=file, on_event=hear).run("Count")
            assert world.calls == ["look it"]
            assert (result.answer, result.turns) == ("done", 2 + 2)
            assert len(of(result, InnerEvent)) == 9
            with anyio.fail_after(20):
                assert (await Agent(ScriptedModel(["more"]), runtime, mode="code").resume(file)).ok
