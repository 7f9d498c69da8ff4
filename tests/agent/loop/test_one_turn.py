"""One turn: a program or a plan ends the task with its answer, and typed answers in the model's own words."""

from __future__ import annotations

import datetime
import json
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import pytest
from pydantic import AfterValidator, BaseModel, Field, SecretStr, computed_field, field_serializer

from agent.loop.answers import JSON, PLAN, PROGRAM, ROME, TOOLS, Weather, not_oslo
from agent.loop.resuming import cut_after
from agent.loop.scripted_runs import faults, play, sandboxed, told
from callgate import Runtime
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.models.model import Assistant, Request
from callgate.agent.models.scripted import Calls, ScriptedModel
from callgate.runtime.final_answer import AnswerType

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("turn", "by"), [(PROGRAM, "program"), (PLAN, "plan")], ids=["program", "plan"])
@pytest.mark.parametrize("one_turn", ["offer", "require"])
async def test_an_answer_ends_the_task_in_one_turn(turn: Any, by: str, one_turn: Any) -> None:
    async with sandboxed(TOOLS) as runtime:
        result, model = await play(runtime, turn, mode="auto", output_type=Weather, one_turn=one_turn)
    assert (result.outcome, result.output, result.answer, result.answered_by) == ("answered", ROME, JSON, by)
    assert (result.turns, len(model.requests)) == (1, 1)
    assert result.messages[-1] == Assistant(text=JSON)


async def test_without_a_type_the_answer_is_any_value_and_a_text_is_itself() -> None:
    async with sandboxed(TOOLS) as runtime:
        program = Calls(("execute_code", {"code": "final_answer(f'{(await weather(\"Rome\")).degrees} degrees')"}))
        result, _ = await play(runtime, program, mode="code", one_turn="offer")
    assert (result.output, result.answer, result.answered_by) == ("21.5 degrees", "21.5 degrees", "program")


class Alias(BaseModel):
    host: str = Field(validation_alias="host-name")


class Computed(BaseModel, extra="forbid"):
    a: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def b(self) -> int:
        return self.a + 1


class Odd(BaseModel):
    a: int
    hidden: int = Field(exclude=True)

    @field_serializer("a")
    def _shown(self, a: int) -> str:
        return f"<{a}>"


class Tree(BaseModel):
    value: int
    children: list[Tree] = []


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


TYPES: dict[str, tuple[Any, Any, Any]] = {
    "an alias": (Alias, {"host-name": "a"}, Alias.model_validate({"host-name": "a"})),
    "a computed field": (Computed, {"a": 1}, Computed(a=1)),
    "written otherwise": (Odd, {"a": 1, "hidden": 2}, Odd(a=1, hidden=2)),
    "a validator that changes it": (Annotated[int, AfterValidator(lambda value: value * 2)], 5, 10),
    "bytes": (bytes, "abc", b"abc"),
    "a secret": (SecretStr, "abc", SecretStr("abc")),
    "a decimal": (Decimal, "1.10", Decimal("1.10")),
    "a time": (datetime.datetime, "2026-01-31T00:00:00Z", datetime.datetime(2026, 1, 31, tzinfo=datetime.UTC)),
    "a tree": (Tree, {"value": 1, "children": [{"value": 2}]}, Tree(value=1, children=[Tree(value=2)])),
    "a union": (Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "dog"}, Dog(kind="dog")),
    "any": (Any, {"a": [1, None]}, {"a": [1, None]}),
}


@pytest.mark.parametrize("name", TYPES)
async def test_the_output_is_the_same_whatever_gave_the_answer_also_when_resumed(tmp_path: Path, name: str) -> None:
    type, given, value = TYPES[name]
    words = given if AnswerType(type).is_text else json.dumps(given)
    step = {"id": "w", "tool": "weather", "arguments": {"city": "Rome"}}
    code = f"await weather('Rome')\nfinal_answer({given!r})"
    ways: dict[str, Any] = {
        "direct": words,
        "plan": Calls(("execute_tool_plan", {"steps": [step], "answer": given})),
        "code": Calls(("execute_code", {"code": code})),
        "auto": Calls(("execute_code", {"code": f"import os\n{code}"})),
    }
    async with sandboxed(TOOLS) as runtime:
        for mode, turn in ways.items():
            file = tmp_path / mode
            options: Any = {"mode": mode, "output_type": type, "one_turn": "off" if mode == "direct" else "offer"}
            result = await Agent(ScriptedModel([turn]), runtime, transcript=file, **options).run("What is it?")
            again = await Agent(ScriptedModel([]), runtime, **options).resume(file)
            assert (result.output, again.output) == (value, value)


async def test_off_is_the_default_and_offers_nothing() -> None:
    async with sandboxed(TOOLS) as runtime:
        result, model = await play(runtime, PROGRAM, "It is warm.", mode="auto")
    assert "final_answer" not in str(model.requests[0].tools)
    assert "`final_answer` is not defined" in told(model.requests[1])[0]
    assert (result.output, result.answered_by) == ("It is warm.", "model")


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_check_that_does_not_end_is_ended_by_the_budget(is_async: bool) -> None:
    async def slow(given: Weather) -> None:
        await anyio.sleep_forever()

    def blocks(given: Weather) -> None:
        time.sleep(2)

    budget = Budget(seconds=0.5)
    checks = [slow if is_async else blocks]
    result, _ = await play(TOOLS, JSON, mode="direct", output_type=Weather, answer_checks=checks, budget=budget)
    assert (result.outcome, result.output) == ("budget", None)


@pytest.mark.parametrize("words", ['{"a": "\\ud800"}', "[" * 250 + "]" * 250, "\ud800"])
@pytest.mark.parametrize("type", [str, Weather, dict[str, str]])
async def test_odd_words_end_no_task_with_an_error_of_ours(words: str, type: Any) -> None:
    result, _ = await play(TOOLS, *[words] * 4, mode="direct", output_type=type)
    assert result.outcome in ("unfit", "answered")


@pytest.mark.parametrize("words", [JSON, f"```json\n{JSON}\n```", f"  {JSON}\n"])
@pytest.mark.parametrize("mode", ["direct", "plan"])
async def test_the_model_answers_in_json_of_the_type(words: str, mode: str) -> None:
    result, model = await play(TOOLS, words, mode=mode, output_type=Weather)
    assert (result.output, result.answered_by, result.turns) == (ROME, "model", 1)
    assert '"degrees"' in model.requests[0].system


@pytest.mark.parametrize("bad", ["It is warm.", '{"city": "Rome"}', '{"city": "Oslo", "degrees": 1}'])
async def test_words_that_do_not_fit_are_sent_back_with_the_reason(bad: str) -> None:
    def mended(request: Request) -> str:
        assert told(request)[0].startswith("Your answer does not fit: ")
        return JSON

    result, _ = await play(TOOLS, bad, mended, mode="direct", output_type=Weather, answer_checks=[not_oslo])
    assert (result.output, faults(result)) == (ROME, [("answer", "asked again")])


async def test_a_model_that_never_fits_ends_the_task_after_three_answers() -> None:
    result, _ = await play(TOOLS, *["warm"] * 5, mode="direct", output_type=Weather)
    assert (result.outcome, result.turns, result.answer, result.output) == ("unfit", 3, "warm", None)
    assert not result.ok


async def test_require_sends_words_back_twice_and_takes_the_third() -> None:
    async with sandboxed(TOOLS) as runtime:
        result, model = await play(runtime, "a", PROGRAM, mode="code", output_type=Weather, one_turn="require")
        assert (result.turns, result.answered_by) == (2, "program")
        assert "final_answer(...)" in told(model.requests[1])[0]
        result, _ = await play(runtime, "a", "b", "c", mode="code", one_turn="require")
        assert (result.turns, result.output, result.answered_by) == (3, "c", "model")


@pytest.mark.parametrize("discovery", ["filter", "interrupt"])
async def test_require_takes_words_where_the_model_has_neither_programs_nor_plans(discovery: str) -> None:
    result, model = await play(TOOLS, "warm", mode="direct", discovery=discovery, one_turn="require")
    assert (result.turns, result.answer, result.answered_by, faults(result)) == (1, "warm", "model", [])
    assert "final_answer" not in model.requests[0].system


@pytest.mark.parametrize("after", ["call_ended", "message_added", "answered"])
async def test_a_task_that_was_cut_off_at_its_answer_ends_with_it_when_resumed(tmp_path: Path, after: str) -> None:
    async with sandboxed(TOOLS) as runtime:
        options: Any = {"mode": "auto", "output_type": Weather, "one_turn": "offer"}
        file = tmp_path / "task.jsonl"
        await Agent(ScriptedModel([PROGRAM]), runtime, transcript=file, **options).run("Weather in Rome?")
        cut_after(file, after)
        result = await Agent(ScriptedModel([]), runtime, **options).resume(file)
        assert (result.output, result.answered_by, result.turns) == (ROME, "program", 1)
        again = await Agent(ScriptedModel([]), runtime, **options).resume(file)
        assert (again.output, again.messages) == (ROME, result.messages)


async def test_words_that_were_not_looked_at_yet_are_looked_at_when_resumed(tmp_path: Path) -> None:
    async with Runtime(TOOLS, sandbox=None) as runtime:
        file = tmp_path / "task.jsonl"
        options: Any = {"mode": "direct", "output_type": Weather}
        await Agent(ScriptedModel(["warm", JSON]), runtime, transcript=file, **options).run("Weather in Rome?")
        cut_after(file, "model_replied")
        result = await Agent(ScriptedModel([JSON]), runtime, **options).resume(file)
    assert (result.output, result.turns) == (ROME, 2)


@dataclass
class Card:
    """A card."""

    number: str
    password: str


async def test_a_secret_in_an_answer_is_the_callers_and_not_the_transcripts(tmp_path: Path) -> None:
    code = "final_answer({'number': '1', 'password': 'correct horse'})"
    async with sandboxed(TOOLS) as runtime:
        file = tmp_path / "task.jsonl"
        model = ScriptedModel([Calls(("execute_code", {"code": code}))])
        agent = Agent(model, runtime, mode="code", output_type=Card, one_turn="offer", transcript=file)
        result = await agent.run("Give me the card")
    assert result.output == Card("1", "correct horse")
    assert '"answer":"{\\"number\\":\\"1\\",\\"password\\":\\"[redacted]\\"}"' in file.read_text()
