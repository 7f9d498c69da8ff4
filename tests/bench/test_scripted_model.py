"""The scripted model behind its endpoint, asked over HTTP by the real SDKs as the harness asks it."""

from __future__ import annotations

import importlib
import json
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest

from bench.scripted_workloads import CITIES, PLAN, PROGRAM, TOOLS, WORKLOADS
from callgate_bench.contest.process import PeerFailed
from callgate_bench.contestants.contestant import Opened, Turn
from callgate_bench.model import talks
from callgate_bench.model.conversation import SYSTEM, Conversation
from callgate_bench.model.talks import FAILED, EndpointMissing, ScriptedModel, Tokens, Wire, talking
from callgate_bench.workloads.workload import Call

pytestmark = pytest.mark.anyio
WIRES = ["openai", "anthropic"]
RUN = [{"name": "run", "description": "", "input_schema": {"type": "object", "properties": {}}}]
TEMPERATURES = {"Rome": 20, "Oslo": 30, "Bäle": 10}


@pytest.fixture
def anyio_backend() -> str:
    """The harness runs on asyncio."""
    return "asyncio"


class Doing:
    """A contestant of one's own, which knows the weather."""

    def __init__(self, text: str = "") -> None:
        self.calls: list[list[Call]] = []
        self._text = text

    async def __call__(self, calls: Sequence[Call]) -> Turn:
        self.calls.append(list(calls))
        texts = [
            self._text or json.dumps({**each.arguments, **self._known(each)}, ensure_ascii=False) for each in calls
        ]
        return Turn(texts=texts)

    def _known(self, call: Call) -> dict[str, Any]:
        return {"temp": TEMPERATURES.get(call.arguments.get("city", ""), 0), "metres": 23}


async def talk(
    wire: Wire, opened: Opened, doing: Doing, workload: str = "weather", *, waits: bool = False, **model: Any
) -> Conversation:
    scripted = ScriptedModel(**{"turn_seconds": 0.0, "token_seconds": 0.0, **model})
    async with talking(wire, scripted) as talking_:
        return await talking_(WORKLOADS[workload], opened, doing, waits=waits)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(("form", "batches"), [("direct", [1, 1, 1, 1]), ("direct-parallel", [3, 1])])
async def test_calls_one_a_turn_or_all_that_need_not_wait(wire: Wire, form: str, batches: list[int]) -> None:
    doing = Doing()
    talked = await talk(wire, Opened(tools=TOOLS, form=form), doing)
    assert [len(calls) for calls in doing.calls] == batches
    made = [(call.tool, call.arguments["city"]) for calls in doing.calls for call in calls]
    assert made == [*(("get_weather", city) for city in CITIES), ("get_height", "Oslo")]
    assert (talked.ended, talked.answer) == ("right", "Oslo: 30 degrees, 23 m")
    assert talked.turns == len(batches) + 1


@pytest.mark.parametrize("wire", WIRES)
async def test_a_plan_is_an_object_and_a_program_is_rewritten_after_what_comes_first(wire: Wire) -> None:
    doing = Doing("rome: succeeded")
    talked = await talk(wire, Opened(tools=RUN, form="plan", tool="run", argument="plan"), doing)
    ((call,),) = doing.calls
    assert call.arguments["plan"] == PLAN | {"goal": "conversation 0001"}
    assert talked.answer == "planned: rome: succeeded"
    search = Call("run", {"query": "weather"})
    doing, first = Doing("answer: 20"), [[search, search], [search]]
    talked = await talk(wire, Opened(tools=RUN, tool="run", dialect="sync-final", first=first), doing)
    assert [len(calls) for calls in doing.calls] == [2, 1, 1]
    program = doing.calls[-1][0].arguments["code"]
    assert program.startswith("# conversation 0001\n")
    assert "await" in PROGRAM
    assert "await" not in program
    assert talked.answer == "programmed: 20"


@pytest.mark.parametrize("wire", WIRES)
async def test_a_contestant_can_hear_a_program_while_the_model_writes_it_and_it_costs_as_much(wire: Wire) -> None:
    doing, heard = Doing("answer: 20"), list[str]()

    async def hear(piece: str) -> None:
        assert not doing.calls
        heard.append(piece)

    costs = []
    for streams in (True, False):
        opened = Opened(tools=RUN, tool="run", streams=streams)
        async with talking(wire, ScriptedModel(turn_seconds=0.1, token_seconds=0.001)) as talking_:
            talked = await talking_(WORKLOADS["weather"], opened, doing, hear, waits=True)
        ((call,), doing.calls) = doing.calls[0], []
        assert talked.answer == "programmed: 20"
        costs.append((talked.input_tokens, talked.output_tokens))
        assert talked.model_seconds >= 0.1 * talked.turns + 0.001 * talked.output_tokens
        assert json.loads("".join(heard)) == call.arguments
    assert len(heard) > 3
    assert costs[0] == costs[1]


async def test_a_contestant_that_cannot_hear_ends_the_conversation() -> None:
    async def hear(_: str) -> None:
        raise PeerFailed("it is gone")

    opened = Opened(tools=RUN, tool="run", streams=True)
    async with talking("openai", ScriptedModel(turn_seconds=0.0, token_seconds=0.0)) as talking_:
        with pytest.raises(PeerFailed, match="it is gone"):
            await talking_(WORKLOADS["weather"], opened, Doing(), hear, waits=False)


async def test_no_two_conversations_have_the_same_program_or_plan_and_theirs_cost_as_much() -> None:
    for opened in (
        Opened(tools=RUN, tool="run"),
        Opened(tools=RUN, tool="run", dialect="sync-final"),
        Opened(tools=RUN, form="plan", tool="run", argument="plan"),
    ):
        doing, costs = Doing("answer: 20"), set()
        async with talking("openai", ScriptedModel(turn_seconds=0.0, token_seconds=0.0)) as talking_:
            for _ in range(3):
                costs.add((await talking_(WORKLOADS["weather"], opened, doing, waits=False)).output_tokens)
        written = {json.dumps(call.arguments[opened.argument]) for calls in doing.calls for call in calls}
        assert len(written) == 3
        assert len({re.sub(r"conversation \d{4}", "", each) for each in written}) == 1
        assert len(costs) == 1


@pytest.mark.parametrize("wire", WIRES)
async def test_usage_is_what_the_tokenizer_says_of_what_was_sent_and_said(wire: Wire) -> None:
    encode = importlib.import_module("splintr").Tokenizer.from_pretrained("o200k_base").encode_ordinary

    def compact(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    definitions: Any = TOOLS
    if wire == "openai":
        named = [(each["name"], each["description"], each["input_schema"]) for each in TOOLS]
        functions = [{"name": name, "description": about, "parameters": schema} for name, about, schema in named]
        definitions = [{"type": "function", "function": each} for each in functions]
    doing = Doing()
    talked = await talk(wire, Opened(tools=TOOLS, form="direct-parallel"), doing)
    results = [
        [json.dumps({**c.arguments, **doing._known(c)}, ensure_ascii=False) for c in calls] for calls in doing.calls
    ]
    spoken = [[text for c in calls for text in (c.tool, compact(c.arguments))] for calls in doing.calls]
    given = [compact(definitions), SYSTEM, "Where is it warmest?"]
    first, second, third = (
        [*given], [*given, *spoken[0], *results[0]], [*given, *spoken[0], *results[0], *spoken[1], *results[1]],
    )  # fmt: skip
    assert talked.input_tokens == sum(len(encode(text)) for text in (*first, *second, *third))
    assert talked.output_tokens == sum(len(encode(text)) for text in (*spoken[0], *spoken[1], talked.answer))


@pytest.mark.parametrize("wire", WIRES)
async def test_an_answer_waits_for_the_turn_and_for_its_tokens(wire: Wire) -> None:
    began = time.perf_counter()
    opened = Opened(tools=TOOLS, form="direct-parallel")
    talked = await talk(wire, opened, Doing(), waits=True, turn_seconds=0.2, token_seconds=0.01)
    assert time.perf_counter() - began >= talked.model_seconds >= 3 * 0.2 + 0.01 * talked.output_tokens
    assert (await talk(wire, opened, Doing(), waits=False, turn_seconds=60.0)).ended == "right"


@pytest.mark.parametrize("wire", WIRES)
async def test_what_is_too_long_is_refused_with_the_number(wire: Wire) -> None:
    opened, doing = Opened(tools=TOOLS, form="direct-parallel"), Doing("a word of many " * 1000)
    talked = await talk(wire, opened, doing, context_tokens=2000)
    assert (talked.ended, talked.turns) == ("cannot", 2)
    assert "2000" in talked.reason.replace(",", "")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("fails", FAILED + "not what was expected: so it is"),
        ("breaks", FAILED + "a result that is not JSON: so it is"),
        ("invents", FAILED + "AssertionError: the script calls get_wether, which is not among"),
        ("stalls", FAILED + "it neither calls a tool nor answers"),
        ("uncalled", "too much"),
    ],
)
async def test_a_script_that_fails_ends_the_conversation_with_its_reason(wire: Wire, workload: str, words: str) -> None:
    talked = await talk(wire, Opened(tools=TOOLS, form="direct-parallel"), Doing("so it is"), workload)
    assert talked.ended == "failed"
    assert talked.reason.startswith(words)


async def test_a_form_or_a_dialect_that_there_is_not_is_a_conversation_that_failed() -> None:
    for opened, words in (
        (Opened(form="poem"), "no such form: 'poem'; there are plan, program, direct"),
        (Opened(tools=RUN, tool="run", dialect="latin"), "there is no dialect 'latin'"),
    ):
        talked = await talk("openai", opened, Doing())
        assert talked.ended == "failed"
        assert words in talked.reason


async def test_definitions_that_the_endpoint_cannot_read_fail_one_conversation() -> None:
    doing = Doing()
    async with talking("anthropic", ScriptedModel(turn_seconds=0.0, token_seconds=0.0)) as talking_:
        bad = [{"name": "run", "input_schema": {"type": "object", "properties": {"a": {"$ref": "#/x"}}, "oneOf": 7}}]
        for tools, ended in ((bad, "failed"), (TOOLS, "right")):
            opened = Opened(tools=tools, form="direct-parallel")
            talked = await talking_(WORKLOADS["weather"], opened, doing, waits=False)
            assert talked.ended is ended, talked.reason


async def test_results_of_six_megabytes_are_read_and_counted() -> None:
    rows = json.dumps(
        {"city": "Rome", "temp": 90, "metres": 2, "rows": ["ä row of many"] * 400_000}, ensure_ascii=False
    )
    talked = await talk("openai", Opened(tools=TOOLS, form="direct"), Doing(rows), context_tokens=50_000_000)
    assert talked.ended == "right"
    assert talked.input_tokens > 1_000_000


async def test_without_the_tokenizer_there_is_no_scripted_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "splintr", None)
    talks._encoder.cache_clear()
    with pytest.raises(EndpointMissing, match="the tokenizer is not installed"):
        await talk("openai", Opened(), Doing())


def test_half_of_a_surrogate_pair_can_be_counted() -> None:
    assert Tokens()("\ud83d") > 0
    assert Tokens()("") == 0
