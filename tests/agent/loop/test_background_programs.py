"""`Agent(background=True)`: the model starts a program, does something else, and comes back for its result."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.loop.scripted_runs import play, shown, told
from callgate import ModelUnavailable, Runtime, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.models.model import Request
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.runtime.model import BACKGROUND

pytestmark = pytest.mark.anyio

ENDED: list[str] = []


@tool
async def hold(name: str) -> str:
    """Holds on for ever."""
    try:
        await anyio.sleep_forever()
    finally:
        ENDED.append(name)
    return name


@tool
async def measure(sensor: str) -> int:
    """Reads a sensor."""
    return len(sensor)


def waits(request: Request) -> Calls:
    """Wait for the run that the answer before named."""
    (found,) = re.findall(r"run_[\w-]+", told(request)[0])
    return Calls(("wait_run", {"run": found}))


START = Calls(("start_code", {"code": "await measure('north')"}))


async def test_a_model_gets_the_result_of_a_program_that_it_started_before() -> None:
    result, model = await play([measure], START, waits, "It is 5.", mode="code", background=True)
    assert (result.answer, told(model.requests[2])) == ("It is 5.", ["Value: 5"])
    assert set(BACKGROUND) < set(shown(model)[0])


@pytest.mark.parametrize(("mode", "background"), [("code", False), ("plan", True), ("direct", True)])
async def test_they_are_offered_only_beside_programs_and_where_asked_for(mode: str, background: bool) -> None:
    result, model = await play([measure], START, "No.", mode=mode, background=background)
    assert not set(BACKGROUND) & set(shown(model)[0])
    assert told(model.requests[1]) == ["Error: start_code is not in your list of tools"]
    assert result.ok


async def test_what_a_task_leaves_behind_ends_with_it() -> None:
    ENDED.clear()
    held = Calls(("start_code", {"code": "await hold(name='left')"}))
    async with Runtime([hold], sandbox=None) as runtime:
        await play(runtime, held, waits, "Done.", mode="code", background=True, budget=Budget(seconds=2))
        (run,) = await runtime.runs.list()
        with anyio.fail_after(20):
            assert not (await run.wait()).ok
    assert ENDED == ["left"]


async def test_a_task_that_is_resumed_finds_its_durable_runs(tmp_path: Path) -> None:
    made: dict[str, Any] = {"mode": "code", "background": True}
    async with Runtime([measure], sandbox=None, durable=tmp_path / "runs.db") as runtime:
        first = Agent(ScriptedModel([START, gone]), runtime, transcript=tmp_path / "t.jsonl", **made)
        with anyio.fail_after(20):
            assert not (await first.run("Measure")).ok
    model = ScriptedModel([waits_for, "It is 5."])
    async with Runtime([measure], sandbox=None, durable=tmp_path / "runs.db") as runtime:
        with anyio.fail_after(20):
            result = await Agent(model, runtime, **made).resume(tmp_path / "t.jsonl")
    assert (result.answer, told(model.requests[1])) == ("It is 5.", ["Value: 5"])


def gone(request: Request) -> Calls:
    raise ModelUnavailable("it is not there")


def waits_for(request: Request) -> Calls:
    """Wait for the run that is named anywhere in the conversation."""
    found = re.findall(r"run_[\w-]+", repr(request.messages))
    return Calls(("wait_run", {"run": found[-1]}))
