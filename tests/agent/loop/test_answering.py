"""How a task ends with an answer: what is sent back, how often, and what a resumed task does with one it finds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import anyio
import anyio.lowlevel
import pytest
from pydantic import AfterValidator

from agent.loop.resuming import cut_after
from agent.loop.scripted_runs import faults, of, play, sandboxed, told
from callgate import ConfigurationError, Runtime, ToolError, tool
from callgate.agent.events import Answered, CallEnded, MessageAdded
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.result import AgentResult
from callgate.agent.models.model import Request
from callgate.agent.models.scripted import Calls, ScriptedModel

pytestmark = pytest.mark.anyio

SECRET = "correct-horse-battery"


@tool(read_only=True)
async def login(password: str) -> str:
    """Log in."""
    return f"token {password}"


@tool(read_only=True)
async def weather(city: str) -> str:
    """Weather of a city."""
    if city == "Atlantis":
        raise ToolError("there is no such city")
    return f"warm in {city}"


def program(code: str) -> Calls:
    return Calls(("execute_code", {"code": code}))


async def cut_and_resumed(
    tmp_path: Path, turns: list[Any], more: list[Any], kind: str, times: int = 1, **options: Any
) -> tuple[AgentResult, ScriptedModel]:
    """A task whose process was killed after a line, gone on with by these further turns of the model."""
    file = tmp_path / "task.jsonl"
    async with Runtime([login, weather], sandbox=None) as runtime:
        with anyio.fail_after(20):
            await Agent(ScriptedModel(turns), runtime, transcript=file, **options).run("What is it?")
            cut_after(file, kind, times)
            model = ScriptedModel(more)
            return await Agent(model, runtime, **options).resume(file), model


# secrets

FOUND = {
    "a text": f"final_answer(await login(password='{SECRET}'))",
    "an object": f"t = await login(password='{SECRET}')\nfinal_answer({{'token': t, 'n': 1}})",
}


@pytest.mark.parametrize("code", FOUND.values(), ids=FOUND)
@pytest.mark.parametrize("kind", ["call_ended", "message_added", "answered"])
async def test_a_resumed_task_never_ends_with_a_redacted_answer(tmp_path: Path, code: str, kind: str) -> None:
    options: Any = {"mode": "code", "one_turn": "offer"}
    result, model = await cut_and_resumed(tmp_path, [program(code)], [program(code)], kind, **options)
    assert (result.outcome, result.answered_by, result.turns) == ("answered", "program", 2)
    assert SECRET in result.answer
    assert "The answer has secrets, which are not in the transcript" in told(model.requests[0])[-1]
    assert [event.by for event in of(result, Answered)][-1] == "program"


async def test_words_with_a_secret_are_asked_for_again_when_resumed_also_twice(tmp_path: Path) -> None:
    turns: list[Any] = [Calls(("login", {"password": SECRET})), f"It is {SECRET}."]
    result, _ = await cut_and_resumed(tmp_path, turns, [turns[1]], "model_replied", 2, mode="direct")
    assert (result.answer, result.turns) == (turns[1], 3)
    file = tmp_path / "task.jsonl"
    cut_after(file, "message_added", 2)
    async with Runtime([login], sandbox=None) as runtime:
        result = await Agent(ScriptedModel([turns[1]]), runtime, mode="direct").resume(file)
    assert (result.answer, result.turns) == (turns[1], 3)


async def test_a_redacted_answer_is_not_given_where_the_budget_is_spent(tmp_path: Path) -> None:
    budget = Budget(turns=1)
    options: Any = {"mode": "code", "one_turn": "offer", "tool_choice": "required", "budget": budget}
    file = tmp_path / "task.jsonl"
    async with Runtime([login], sandbox=None) as runtime:
        await Agent(
            ScriptedModel([program(FOUND["a text"])]), runtime, transcript=file, **{**options, "budget": Budget()}
        ).run("x")
        cut_after(file, "message_added")
        result = await Agent(ScriptedModel([]), runtime, **options).resume(file)
    assert (result.outcome, result.output, result.answered_by) == ("budget", None, None)


@pytest.mark.parametrize("kind", ["call_ended", "message_added", "answered"])
@pytest.mark.parametrize("words", ["It is warm.", None])
async def test_a_redacted_answer_is_no_part_of_the_result_of_a_task_that_went_on_without_it(
    tmp_path: Path, kind: str, words: str | None
) -> None:
    file = tmp_path / "task.jsonl"
    options: Any = {"mode": "code", "one_turn": "offer"}
    async with Runtime([login], sandbox=None) as runtime:
        await Agent(ScriptedModel([program(FOUND["a text"])]), runtime, transcript=file, **options).run("x")
        cut_after(file, kind)
        budget = Budget(turns=2 if words else 1)
        result = await Agent(ScriptedModel([words] if words else []), runtime, budget=budget, **options).resume(file)
    assert (result.output, result.answered_by) == ((words, "model") if words else (None, None))


async def test_a_transcript_whose_answer_is_not_json_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "task.jsonl"
    async with Runtime([weather], sandbox=None) as runtime:
        agent = Agent(
            ScriptedModel([program("final_answer('a')")]), runtime, mode="code", one_turn="offer", transcript=file
        )
        await agent.run("x")
        cut_after(file, "call_ended")
        whole = file.read_bytes()
        for bad in ("{", "[" * 100_000):
            lines = [json.loads(line) for line in whole.splitlines()[:-1]]
            lines[-1]["answer"] = bad
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            with pytest.raises(ConfigurationError, match=r"line \d+: this cannot come here"):
                await Agent(ScriptedModel([]), runtime).resume(file)


ASKED: dict[str, Any] = {"kind": "model_asked", "turn": 1, "messages": 1, "tools": ["weather"]}
CALL = {"id": "call_1", "name": "weather", "arguments": {}}
CALLED: dict[str, Any] = {
    "kind": "model_replied", "turn": 1, "message": {"role": "assistant", "text": "", "calls": [CALL]},
    "ended": "calls", "usage": {"input_tokens": 1, "output_tokens": 1}, "seconds": 1.0,
}  # fmt: skip
RESULT = {"id": "call_1", "name": "weather", "text": "4", "ok": True}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([{"kind": "answered", "turn": 0, "json": "1", "by": "model"}], "a model has given no answer"),
        ([{"kind": "answered", "turn": 0, "json": "1", "by": "plan"}], "a plan has given no answer"),
        ([ASKED, CALLED, {"kind": "answered", "turn": 1, "json": "1", "by": "program"}], "a program has given no"),
        (
            [ASKED, CALLED, {"kind": "message_added", "turn": 1, "replies": {"replies": [RESULT]}}],
            "the call 'call_1' has not ended",
        ),
    ],
)
async def test_a_transcript_with_an_answer_that_nothing_gave_is_refused(
    tmp_path: Path, lines: list[dict[str, Any]], words: str
) -> None:
    file = tmp_path / "task.jsonl"
    async with Runtime([weather], sandbox=None) as runtime:
        await Agent(ScriptedModel(["4"]), runtime, transcript=file).run("x")
        head = json.loads(file.read_bytes().splitlines()[0])
        made = [head, *({**each, "v": 1, "at": head["at"]} for each in lines)]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in made))
        with pytest.raises(ConfigurationError, match=f"line {len(made)}: this cannot come here: {words}"):
            await Agent(ScriptedModel([]), runtime).resume(file)


# what is sent back

THREE = ["a", "b", "c"]


@pytest.mark.parametrize("more", [["4"], ["x", "y", "4"]], ids=["at once", "at the third time"])
async def test_a_task_that_ended_as_unfit_goes_on_and_begins_to_count_anew(tmp_path: Path, more: list[str]) -> None:
    file = tmp_path / "task.jsonl"
    async with Runtime([weather], sandbox=None) as runtime:
        options: Any = {"mode": "direct", "output_type": int}
        first = await Agent(ScriptedModel(THREE), runtime, transcript=file, **options).run("How many?")
        assert (first.outcome, first.turns) == ("unfit", 3)
        model = ScriptedModel(more)
        result = await Agent(model, runtime, **options).resume(file)
    assert (result.outcome, result.output, result.turns) == ("answered", 4, 3 + len(more))
    assert told(model.requests[0])[0].startswith("Your answer does not fit: ")


async def test_a_task_that_ended_as_unfit_ends_at_once_for_an_agent_that_takes_its_last_words() -> None:
    async with Runtime([weather], sandbox=None) as runtime:
        first = await Agent(ScriptedModel(THREE), runtime, mode="direct", output_type=int).run("How many?")
        result = await Agent(ScriptedModel([]), runtime, mode="direct", output_type=str).resume(first)
    assert (result.outcome, result.output, result.turns) == ("answered", "c", 3)


@pytest.mark.parametrize("options", [{"mode": "direct", "output_type": int}, {"mode": "code", "one_turn": "require"}])
@pytest.mark.parametrize("kind", ["model_replied", "faulted", "message_added"])
@pytest.mark.parametrize("times", [1, 2])
async def test_words_that_were_sent_back_before_a_cut_are_sent_back_again_and_counted_once(
    tmp_path: Path, options: Any, kind: str, times: int
) -> None:
    is_typed = "output_type" in options
    result, model = await cut_and_resumed(tmp_path, THREE, ["d", "e", "f"], kind, times, **options)
    sent_back = "Your answer does not fit" if is_typed else "The answer of the task is given by final_answer(...)"
    assert told(model.requests[0])[0].startswith(sent_back)
    ends = [action for fault, action in faults(result) if fault == "answer"]
    asked = [event for event in of(result, MessageAdded) if event.text.startswith(sent_back)]
    assert ends.count("asked again") == len(asked)
    assert result.outcome == ("unfit" if is_typed else "answered")


async def test_words_that_do_not_fit_are_sent_back_when_resumed_also_if_one_turn_is_left(tmp_path: Path) -> None:
    options: Any = {"mode": "direct", "output_type": int, "budget": Budget(turns=2)}
    result, _ = await cut_and_resumed(tmp_path, ["a", "4"], ["4"], "model_replied", **options)
    assert (result.outcome, result.output) == ("answered", 4)


# one_turn="require"

AGAIN = {
    "a call failed": "try:\n    await weather('Atlantis')\nexcept ToolError:\n    final_answer('warm')",
    "an answer of null": "try:\n    await weather('Atlantis')\nexcept ToolError:\n    final_answer(None)",
    "it is too long": "final_answer('warm' * 20_000)",
}


@pytest.mark.parametrize("code", AGAIN.values(), ids=AGAIN)
async def test_a_model_that_was_asked_for_words_is_not_sent_back_to_a_program(code: str) -> None:
    async with sandboxed([weather]) as runtime:
        result, model = await play(runtime, program(code), "warm", mode="code", one_turn="require")
    assert told(model.requests[1])[0].endswith("give it again in your own words.")
    assert (result.turns, result.answer, result.answered_by, faults(result)) == (2, "warm", "model", [])
    assert [bool(event.again) for event in of(result, CallEnded)] == [True]


async def test_words_that_do_not_fit_may_be_mended_in_words() -> None:
    def mended(request: Request) -> str:
        assert told(request)[0].startswith("Your answer does not fit: ")
        return "4"

    options: Any = {"mode": "code", "one_turn": "require", "output_type": int}
    async with sandboxed([weather]) as runtime:
        code = AGAIN["a call failed"].replace("'warm'", "4")
        result, _ = await play(runtime, program(code), "four", mended, **options)
    assert (result.turns, result.output, result.answered_by) == (3, 4, "model")


# checks that fail


def lacks_a_key(given: Any) -> None:
    raise KeyError(SECRET)


async def fails_later(given: Any) -> None:
    await anyio.lowlevel.checkpoint()
    raise RuntimeError(SECRET)


def exits(given: Any) -> None:
    raise SystemExit(SECRET)


CHECKS: dict[str, Any] = {
    "sync": {"output_type": int, "answer_checks": [lacks_a_key]},
    "async": {"output_type": int, "answer_checks": [fails_later]},
    "a function that returns a coroutine": {"output_type": int, "answer_checks": [lambda given: fails_later(given)]},
    "sys.exit": {"output_type": int, "answer_checks": [exits]},
    "a validator of the type": {"output_type": Annotated[int, AfterValidator(lacks_a_key)]},
}
STEP = {"id": "w", "tool": "weather", "arguments": {"city": "Rome"}}
WAYS: dict[str, Any] = {
    "words": [],
    "a program": [program("final_answer(5)")],
    "a plan": [Calls(("execute_tool_plan", {"steps": [STEP], "answer": 5}))],
}


@pytest.mark.parametrize("checks", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_check_that_fails_is_logged_and_refuses_the_answer_without_its_words(
    way: str, checks: Any, caplog: pytest.LogCaptureFixture
) -> None:
    mode = "code" if way == "a program" else "plan"
    result, model = await play([weather], *WAYS[way], "5", "5", "5", mode=mode, one_turn="offer", **checks)
    assert (result.outcome, result.output, result.turns) == ("unfit", None, len(WAYS[way]) + 3)
    assert all("an internal error; details are in the host's log" in told(request)[0] for request in model.requests[1:])
    assert SECRET not in str(result.events)
    assert SECRET in caplog.text


@pytest.mark.parametrize("checks", CHECKS.values(), ids=CHECKS)
async def test_a_check_that_fails_refuses_an_answer_that_a_resumed_task_finds(tmp_path: Path, checks: Any) -> None:
    result, model = await cut_and_resumed(tmp_path, ["5"] * 3, ["5"] * 3, "model_replied", mode="direct", **checks)
    assert (result.outcome, result.output, result.turns) == ("unfit", None, 3)
    assert "an internal error" in told(model.requests[0])[0]


async def test_the_words_of_a_check_are_bounded() -> None:
    def refuses(given: Any) -> None:
        raise ValueError("no" * 100_000)

    result, _ = await play([weather], "5", "5", "5", mode="direct", answer_checks=[refuses])
    assert (result.outcome, len(result.reason) < 3_000) == ("unfit", True)
