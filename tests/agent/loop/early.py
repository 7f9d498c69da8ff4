"""Tools and tasks for programs and plans that begin while the model writes them."""

from __future__ import annotations

from typing import Any

import anyio

from agent.loop.scripted_runs import of
from callgate import Runtime, tool
from callgate.agent.events import CallEnded
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.result import AgentResult
from callgate.agent.models.scripted import ScriptedModel

LOG: list[str] = []
TOKENS = 400.0
"""A second, of the models here."""


@tool(read_only=True)
async def look(n: int) -> int:
    """Looks something up."""
    LOG.append(f"look {n}")
    await anyio.lowlevel.checkpoint()
    return n


@tool(read_only=True)
async def hang(n: int) -> int:
    """Looks something up, for ever."""
    try:
        await anyio.sleep_forever()
    finally:
        LOG.append(f"given up {n}")
    return n


@tool
async def note(text: str) -> str:
    """Writes something down."""
    LOG.append(f"note {text}")
    return text


TOOLS = [look, hang, note]


async def play(runtime: Runtime, mode: str, *turns: Any, **options: Any) -> tuple[AgentResult, ScriptedModel]:
    """A task with these turns of a model that takes its time."""
    LOG.clear()
    model = ScriptedModel(turns, tokens_per_second=TOKENS)
    with anyio.fail_after(20):
        return await Agent(model, runtime, mode=mode, **options).run("Look."), model


def made(result: AgentResult) -> list[list[bool]]:
    """For each program or plan, in the order of the turn, whether each of its calls began early."""
    ended = sorted(of(result, CallEnded), key=lambda each: each.id)
    return [[call["early"] for call in each.run["calls"]] for each in ended if each.run]
