"""Programs that begin while the model writes them. The calls of the whole turn decide."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.loop.early import LOG, TOKENS, TOOLS, made, play
from agent.loop.scripted_runs import of, sandboxed
from agent.models.wires import WIRES, talking
from callgate import CallStarted, Runtime, tool
from callgate.agent.events import CallBegan, CallEnded, CallProgress
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.early_programs import ArrivingCode
from callgate.agent.models.model import ModelProvider, ToolCall
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate_bench.model.stand_in import Call
from callgate_bench.model.stand_in.checks import Turn
from callgate_bench.model.stand_in.faults import edited

pytestmark = pytest.mark.anyio

REST = "\n".join(f"# line {n} of what the model still writes" for n in range(10))
PROGRAM = f"a = await look(1)\nb = await look(a + 1)\n{REST}\nprint(b)\nb"


def calls(*programs: str) -> Calls:
    return Calls(*(("execute_code", {"code": code}) for code in programs))


@asynccontextmanager
async def graphs() -> AsyncIterator[Runtime]:
    """A runtime for programs that are graphs."""
    async with Runtime(TOOLS, sandbox=None) as runtime:
        yield runtime


async def test_a_program_begins_while_the_model_writes_it() -> None:
    async with sandboxed(TOOLS) as runtime:
        result, model = await play(runtime, "code", calls(PROGRAM), "done")
        assert made(result) == [[True, True]]
        assert LOG == ["look 1", "look 2"]
        assert "Value: 2" in model.requests[1].messages[-1].replies[0].text  # type: ignore[union-attr]
        result, _ = await play(runtime, "code", calls(PROGRAM), "done", stream=False)
        assert made(result) == [[False, False]]


async def test_a_program_for_the_sandbox_takes_its_early_reads_too() -> None:
    code = f"a = await look(1)\nwhile a < 3: a += 1\n{REST}\n[a, await look(1)]"
    async with sandboxed(TOOLS) as runtime:
        result, model = await play(runtime, "code", calls(code), "done")
    assert made(result) == [[True, False]]
    assert "[3, 1]" in model.requests[1].messages[-1].replies[0].text  # type: ignore[union-attr]


async def test_programs_of_one_turn_begin_side_by_side_and_each_has_its_own_calls() -> None:
    async with sandboxed(TOOLS) as runtime:
        others = calls(PROGRAM, f"await note('x')\n{PROGRAM}", PROGRAM.replace("1)", "5)"))
        result, _ = await play(runtime, "code", others, "done")
    assert made(result) == [[True, True], [False, False, False], [True, True]]
    assert LOG.count("look 5") == 1


async def test_events_of_a_program_follow_the_beginning_of_its_call() -> None:
    events: list[Any] = []
    async with sandboxed(TOOLS) as runtime:
        result, _ = await play(runtime, "code", calls(PROGRAM), "done", on_event=events.append)
    began = next(index for index, event in enumerate(events) if isinstance(event, CallBegan))
    progress = [(index, event) for index, event in enumerate(events) if isinstance(event, CallProgress)]
    started = [event for _, event in progress if isinstance(event.event, CallStarted)]
    assert len(started) == 2
    assert all(index > began and event.id == events[began].id for index, event in progress)
    assert result.outcome == "answered"


async def test_a_stream_that_breaks_off_begins_anew() -> None:
    async with sandboxed(TOOLS) as runtime:
        result, _ = await play(runtime, "code", Say(calls=calls(PROGRAM), restarts=1), "done")
    (run,) = (each.run for each in of(result, CallEnded))
    assert run is not None
    assert [call["early"] for call in run["calls"]] == [True, True]
    assert result.outcome == "answered"
    assert LOG == ["look 1", "look 2"] * 2


async def test_a_program_whose_call_is_not_made_leaves_nothing() -> None:
    code = f"a = await hang(1)\n{REST}"
    async with sandboxed(TOOLS) as runtime:
        result, _ = await play(runtime, "code", Say(calls=calls(code), cut=True), "done")
        assert of(result, CallEnded) == []
        assert LOG == ["given up 1"]
        broken = ToolCall(id="", name="execute_code", fault="not JSON", written=json.dumps({"code": code})[:-1])
        result, _ = await play(runtime, "code", broken, "done")
        assert [each.ok for each in of(result, CallEnded)] == [False]
        assert LOG == ["given up 1"]


async def test_a_cancelled_task_leaves_nothing() -> None:
    async with sandboxed(TOOLS) as runtime:
        model = ScriptedModel([calls(f"a = await hang(1)\n{REST * 50}")], tokens_per_second=TOKENS)
        LOG.clear()
        with anyio.move_on_after(1):
            await Agent(model, runtime, mode="code").run("Look.")
        assert LOG == ["given up 1"]


async def test_on_the_path_of_the_sandbox_nothing_begins_early() -> None:
    async with sandboxed(TOOLS, path="sandbox") as runtime:
        result, _ = await play(runtime, "code", calls(PROGRAM), "done")
    assert made(result) == [[False, False]]


async def test_an_answer_in_one_turn_begins_early_too() -> None:
    async with sandboxed(TOOLS) as runtime:
        code = f"a = await look(1)\n{REST}\nfinal_answer(a)"
        result, _ = await play(runtime, "code", calls(code), one_turn="offer", output_type=int)
    assert (result.output, result.turns, made(result)) == (1, 1, [[True, False]])  # the answer is a call, too


async def test_the_audit_log_has_the_early_calls_and_the_digest_of_the_program(tmp_path: Path) -> None:
    async with sandboxed(TOOLS, audit=tmp_path / "audit.jsonl") as runtime:
        await play(runtime, "code", calls(PROGRAM), "done")
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    told = [line for line in lines if line["kind"] in ("run", "outcome", "run_ended")]
    assert [line["kind"] for line in told] == ["run", "outcome", "outcome", "run_ended"]
    assert {line["run"] for line in told} == {told[0]["run"]}
    assert told[-1]["ok"]
    assert told[-1]["source_digest"]
    assert told[-1]["call_id"] == "call_1_1"


@pytest.mark.parametrize("wire", WIRES)
async def test_over_the_wire_of_a_provider_a_program_begins_before_its_reply_has_ended(wire: ModelProvider) -> None:
    looked = threading.Event()

    @tool(read_only=True)
    async def look_up(n: int) -> int:
        """Looks something up."""
        looked.set()
        return n

    def held(event: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(event)
        if '"tool_calls"}' in text or '"finish_reason": "tool_calls"' in text or '"content_block_stop"' in text:
            assert looked.wait(10), "nothing began before the reply had ended"
        return event

    def programs(turn: Turn) -> list[Any]:
        return [Call("execute_code", {"code": "a = await look_up(1)\nb = await look_up(a + 1)\nb"})]

    def done(turn: Turn) -> str:
        return turn.answers[0].text

    async with sandboxed([look_up]) as runtime, talking(wire, programs, done, faults=(edited(held),)) as talk:
        with anyio.fail_after(30):
            result = await Agent(talk.model, runtime, mode="code").run("Look.")
    assert result.outcome == "answered"
    assert "Value: 2" in result.answer
    assert made(result)[0][0]


@given(st.text(max_size=200), st.dictionaries(st.sampled_from(["a", "b"]), st.text(max_size=20)), st.data())
def test_the_text_of_a_program_comes_out_line_by_line(code: str, others: dict[str, str], data: st.DataObject) -> None:
    written = json.dumps({**others, "code": code}, ensure_ascii=data.draw(st.booleans()))
    arriving = ArrivingCode()
    got = ""
    at = 0
    while at < len(written):
        size = data.draw(st.integers(1, 40))
        got += arriving.take(written[at : at + size])
        at += size
    assert code.startswith(got)
    assert got in ("", code[: code.rfind("\n") + 1]) or got.endswith("\n")


@pytest.mark.parametrize(
    "pieces",
    [
        ["", '{"co', 'de": "a = await', " look(1)\\", 'nb = \\"', 'é\\"\\n', 'c = 3"}'],  # Anthropic
        ['{"', "code", '":"', "a", " =", " await", " look", "(", "1", ")", "\\n", "b", " =", ' \\"é', '\\"\\n', '"}'],
        ['{\n  "code" : "a = await look(1)\\nb = \\"\\u00', 'e9\\"\\n', "c", '"\n}'],
        ['{"code":"a = await look(1)\\nb = \\"\\u00e9\\"\\nc"}'],  # an endpoint that does not stream calls
    ],
    ids=["anthropic", "openai", "spaces and escapes", "whole"],
)
def test_the_pieces_that_providers_send_give_the_text_as_soon_as_a_line_has_ended(pieces: list[str]) -> None:
    arriving = ArrivingCode()
    got = [arriving.take(piece) for piece in pieces]
    assert "".join(got) == 'a = await look(1)\nb = "é"\n'
    if len(pieces) > 1:
        assert next(filter(None, got)).startswith("a = await look(1)\n")
        assert got[-1] == ""


def test_a_pair_of_surrogates_in_pieces_is_one_character_and_half_of_one_ends_the_text() -> None:
    arriving = ArrivingCode()
    assert "".join(map(arriving.take, '{"code": "\\ud83d\\ude00\\n"}')) == "\U0001f600\n"
    arriving = ArrivingCode()
    assert "".join(map(arriving.take, '{"code": "a\\n\\ud83d\\nb\\n"}')) == "a\n"


@pytest.mark.parametrize(
    "written", ["[1]", '{"code": 5}', '{"code": ["\\n"]}', '{"code": "a\\qb\\n', "\\n" * 9, "null\\n"]
)
def test_arguments_that_are_no_program_give_nothing(written: str) -> None:
    assert ArrivingCode().take(written) == ""
