"""Models that write without end, too much, or again and again: nothing hangs, and few reads are made for nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agent.loop.scripted_runs import of
from callgate import Limits, Runtime, tool
from callgate.agent.events import CallEnded
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.models.model import Delta, Reply, Request
from callgate.agent.models.scripted import Calls, Say, ScriptedModel

pytestmark = pytest.mark.anyio

MOST_WASTED = 8
LOG: list[int] = []


@tool(read_only=True)
async def look(n: int) -> int:
    """Looks something up."""
    LOG.append(n)
    await anyio.lowlevel.checkpoint()
    return n


@asynccontextmanager
async def graphs(**options: Any) -> AsyncIterator[Runtime]:
    LOG.clear()
    with anyio.fail_after(60):
        async with Runtime([look], sandbox=None, **options) as runtime:
            yield runtime


class Endless(ScriptedModel):
    """A model whose program never ends."""

    def __init__(self, *lines: str) -> None:
        super().__init__([])
        self.lines = lines

    async def ask(self, request: Request, *, on_delta: Callable[[Delta], None] | None = None) -> Reply:
        assert on_delta is not None
        on_delta(Delta(call=0, name="execute_code"))
        on_delta(Delta(call=0, arguments='{"code": "'))
        while True:
            for line in self.lines:
                on_delta(Delta(call=0, arguments=line))
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("lines", [["a = await look(1)\\n"], [" "], [""], ['"', "}"], ["\\"], ["if a:\\n", "    b\\n"]])
async def test_a_program_without_end_ends_with_the_budget(lines: list[str]) -> None:
    async with graphs() as runtime:
        result = await Agent(Endless(*lines), runtime, mode="code", budget=Budget(seconds=0.3)).run("Look.")
    assert result.outcome == "budget"
    assert of(result, CallEnded) == []
    assert len(LOG) < 64 * 1024 / len("a = await look(1)\\n")


async def test_a_program_of_16_megabytes_is_refused_as_any_too_long_one() -> None:
    code = "a = await look(1)\n" + "# nothing\n" * 1_600_000
    async with graphs() as runtime:
        model = ScriptedModel([Calls(("execute_code", {"code": code})), "done"])
        result = await Agent(model, runtime, mode="code", limits=Limits(max_message_bytes=64_000_000)).run("Look.")
    (ended,) = of(result, CallEnded)
    assert not ended.ok
    assert LOG in ([], [1])


async def test_a_program_with_a_thousand_reads_makes_each_of_them_once() -> None:
    code = "".join(f"a{n} = await look({n})\n" for n in range(1_000))
    async with graphs() as runtime:
        model = ScriptedModel([Calls(("execute_code", {"code": f"{code}a999"})), "done"])
        result = await Agent(model, runtime, mode="code").run("Look.")
    assert result.outcome == "answered"
    assert sorted(LOG) == list(range(1_000))
    (ended,) = of(result, CallEnded)
    assert ended.run is not None
    assert len(ended.run["calls"]) == 1_000
    assert any(call["early"] for call in ended.run["calls"])
    assert not ended.run["speculative"]


async def test_a_program_that_is_written_again_and_again_makes_few_reads_for_nothing() -> None:
    code = "a = await look(1)\n" + "# more that the model writes\n" * 20 + "a"
    async with graphs() as runtime:
        turn = Say(calls=Calls(("execute_code", {"code": code})), restarts=30)
        model = ScriptedModel([turn, "done"], tokens_per_second=4_000.0)
        result = await Agent(model, runtime, mode="code").run("Look.")
    assert result.outcome == "answered"
    assert 1 <= len(LOG) <= MOST_WASTED + 1
    (ended,) = of(result, CallEnded)
    assert ended.run is not None
    assert (len(ended.run["calls"]), len(ended.run["speculative"])) == (1, len(LOG) - 1)
