"""A program that failed after calls with effects: the next one of the task does not repeat them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest

from agent.loop.resuming import cut_after
from agent.loop.scripted_runs import of, play, sandboxed, told
from callgate import tool
from callgate.agent.events import CallEnded
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.repairs import KEPT, LOST
from callgate.agent.models.scripted import Calls, ScriptedModel

pytestmark = pytest.mark.anyio

SENT: list[str] = []
READ: list[int] = []


@tool
async def send(to: str) -> int:
    """Sends a mail; returns how many were sent."""
    SENT.append(to)
    return len(SENT)


@tool(read_only=True)
async def look(n: int) -> int:
    """Looks something up."""
    READ.append(n)
    return n


TOOLS = [send, look]
HALF = "a = await send('ann')\nb = [][1]\nc = await send('bob')"
WHOLE = "a = await send('ann')\nc = await send('bob')\n[a, c]"


@pytest.fixture(autouse=True)
def nothing_done() -> None:
    SENT.clear()
    READ.clear()


def program(code: str) -> Calls:
    return Calls(("execute_code", {"code": code}))


@pytest.mark.parametrize("sandbox", [False, True], ids=["fast path", "sandbox"])
async def test_the_corrected_program_does_not_repeat_what_the_failed_one_did(sandbox: bool) -> None:
    head = "class Nothing: pass\n" if sandbox else ""
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        result, model = await play(runtime, program(head + HALF), program(head + WHOLE), "Done.", mode="code")
    assert result.answer == "Done."
    assert SENT == ["ann", "bob"]
    failed, mended = (told(request)[0] for request in model.requests[1:])
    assert failed.endswith(KEPT)
    assert "Value: [1, 2]" in mended
    assert "Note: 1 call of the earlier program was not made again: send" in mended
    assert KEPT not in mended
    assert [each.tool_calls for each in of(result, CallEnded)] == [1, 1]
    assert [each.reusable for each in of(result, CallEnded)] == [True, False]


async def test_a_program_between_the_failed_one_and_the_corrected_one_keeps_the_calls() -> None:
    """One that looks around, one that does half of it, one that the check stops, one that fails again."""
    between = ["await look(1)", "await send('ann')", "await sendd('x')", "b = [][1]"]
    failed = "a = await send('ann')\nc = await send('bob')\nd = [][1]"
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        _, model = await play(
            runtime, program(failed), *map(program, between), program("await send('bob')"), "Done.", mode="code"
        )
    assert SENT == ["ann", "bob"]
    assert told(model.requests[-1])[0].startswith("Value: 2\n")


async def test_a_call_that_a_corrected_program_made_may_be_made_once_more() -> None:
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        await play(runtime, program(HALF), program(WHOLE), program(WHOLE), "Done.", mode="code")
    assert SENT == ["ann", "bob", "ann", "bob"]


async def test_a_program_that_ended_well_leaves_the_calls_of_the_failed_one_and_none_of_its_own() -> None:
    failed = "a = await send('ann')\nc = await send('bob')\nd = [][1]"
    good, last = "[await send('ann'), await send('cy')]", "[await send(to) for to in ('ann', 'bob', 'cy')]"
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        await play(runtime, program(failed), program(good), program(last), "Done.", mode="code")
    assert SENT == ["ann", "bob", "cy", "ann", "cy"]


async def test_nothing_is_kept_of_a_program_that_only_read() -> None:
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        result, model = await play(
            runtime, program("a = await look(1)\nb = [][1]"), program("await look(1)"), "Done.", mode="code"
        )
    assert READ == [1, 1]
    assert KEPT not in told(model.requests[1])[0]
    assert not any(each.reusable for each in of(result, CallEnded))


async def test_programs_of_one_turn_reuse_nothing_of_each_other_and_all_that_failed_is_kept() -> None:
    both = Calls(("execute_code", {"code": HALF}), ("execute_code", {"code": HALF.replace("'ann'", "'cy'")}))
    same = Calls(("execute_code", {"code": WHOLE}), ("execute_code", {"code": WHOLE}))
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        await play(
            runtime, both, program("await send('cy')\nx = await send('ann')\ny = [][1]"), same, "Done.",
            mode="code", max_parallel_tool_calls=1,
        )  # fmt: skip
    assert SENT == ["ann", "cy", "bob", "bob"]


async def test_what_two_programs_have_left_of_one_is_there_once() -> None:
    both = Calls(("execute_code", {"code": "a = [][1]"}), ("execute_code", {"code": "b = [][1]"}))
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        await play(
            runtime, program(HALF), both, program("[await send('ann'), await send('ann')]"), "Done.", mode="code"
        )
    assert SENT == ["ann", "ann"]


@pytest.mark.parametrize("tokens", [None, 400.0], ids=["at once", "while it is written"])
async def test_a_program_that_begins_while_it_is_written_reuses_what_one_that_does_not_reuses(tokens: Any) -> None:
    failed = "n = await look(1)\na = await send(f'ann {n}')\nb = [][1]"
    mended = "n = await look(1)\na = await send(f'ann {n}')\nm = await look(2)\n[n, a, m]"
    model = ScriptedModel([program(failed), program(mended), "Done."], tokens_per_second=tokens)
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        with anyio.fail_after(20):
            result = await Agent(model, runtime, mode="code", stream=tokens is not None).run("Send.")
    assert SENT == ["ann 1"]
    assert READ == [1, 2]
    last = of(result, CallEnded)[-1].run
    assert last is not None
    assert [(call["tool"], call["reused"]) for call in last["calls"]] == [
        ("look", True), ("send", True), ("look", False),
    ]  # fmt: skip


async def test_a_reused_call_speaks_for_no_other_look_at_a_final_answer() -> None:
    code = "try:\n    final_answer(2)\nfinally:\n    await send('ann')"
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        result, model = await play(
            runtime, program("a = await send('ann')\nb = [][1]"), program(code), mode="code", one_turn="offer"
        )
    assert (result.outcome, result.output, result.turns) == ("answered", 2, 2)
    assert len(model.requests) == 2
    assert SENT == ["ann"]


async def test_after_an_interruption_the_model_reads_that_the_calls_are_lost(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        await Agent(ScriptedModel([program(HALF), "Done."]), runtime, mode="code", transcript=file).run("Send.")
        cut_after(file, "message_added")
        model = ScriptedModel([program("await send('bob')"), "Done."])
        result = await Agent(model, runtime, mode="code").resume(file)
    assert told(model.requests[0]) == [LOST]
    assert result.answer == "Done."
    assert SENT == ["ann", "bob"]


async def test_a_program_that_relied_on_kept_calls_is_not_run_after_an_interruption(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        agent = Agent(ScriptedModel([program(HALF), program(WHOLE), "Done."]), runtime, mode="code", transcript=file)
        await agent.run("Send.")
        SENT.clear()
        cut_after(file, "model_replied", 2)
        model = ScriptedModel(["Done."])
        result = await Agent(model, runtime, mode="code").resume(file)
    assert SENT == []
    assert "this program was not run" in result.messages[-3].replies[0].text  # type: ignore[union-attr]
    assert told(model.requests[0]) == [LOST]


async def test_nothing_is_lost_where_nothing_was_kept(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    async with sandboxed(TOOLS, pool_size=0) as runtime:
        turns: list[Any] = [program(HALF), program(WHOLE), "Done."]
        await Agent(ScriptedModel(turns), runtime, mode="code", transcript=file).run("Send.")
        cut_after(file, "message_added", 2)
        model = ScriptedModel(["Done."])
        await Agent(model, runtime, mode="code").resume(file)
    assert LOST not in told(model.requests[0])[0]
