"""Tasks that stopped and go on: what was spent counts, the conversation is as it was, and nothing is done twice."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from callgate import Runtime, ToolError, tool
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    Finished,
    ModelAsked,
    ModelReplied,
    Planned,
    Resumed,
    Routed,
    TaskBegan,
    Told,
)
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.repetition import BARREN_STOPPED
from callgate.agent.loop.result import AgentResult
from callgate.agent.loop.resume import OUTCOME_UNKNOWN, rebuilt, seconds_of
from callgate.agent.loop.task_run import LAST_WORDS
from callgate.agent.loop.transcript import Line, Transcript, read_transcript
from callgate.agent.models.model import Assistant, Model, Request, ToolCall, ToolReplies, Usage, User
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.errors import ConfigurationError, ContextExceeded, ModelRejected, ModelUnavailable

pytestmark = pytest.mark.anyio

TASK = "Do it"


class World:
    """Tools, and what they did."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def tools(self) -> list[Any]:
        @tool(read_only=True)
        async def look(at: str = "") -> str:
            """Look."""
            self.calls.append(f"look {at}")
            return f"seen {at}"

        @tool(idempotent=True)
        async def put(at: str) -> str:
            """Put."""
            self.calls.append(f"put {at}")
            return "put"

        @tool
        async def send(to: str) -> str:
            """Send."""
            self.calls.append(f"send {to}")
            return "sent"

        @tool(read_only=True)
        async def fail(why: str = "") -> str:
            """Fail."""
            self.calls.append(f"fail {why}")
            raise ToolError(f"no {why}")

        return [look, put, send, fail]

    async def run(self, *turns: Any, tools: Sequence[Any] | None = None, **options: Any) -> AgentResult:
        async with self.runtime(tools) as runtime:
            return await Agent(ScriptedModel(turns), runtime, **{"mode": "direct", **options}).run(TASK)

    async def resume(
        self, source: Any, *turns: Any, tools: Sequence[Any] | None = None, model: Model | None = None, **options: Any
    ) -> AgentResult:
        async with self.runtime(tools) as runtime:
            return await Agent(model or ScriptedModel(turns), runtime, **{"mode": "direct", **options}).resume(source)

    def runtime(self, tools: Sequence[Any] | None = None) -> Runtime:
        return Runtime(self.tools() if tools is None else tools, sandbox=None)


def lines_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_bytes().splitlines()]


def cut_after(file: Path, kind: str, times: int = 1) -> None:
    """The file as a process leaves it that is killed after the line of this kind."""
    lines = file.read_bytes().splitlines(keepends=True)
    for place, line in enumerate(lines):
        times -= json.loads(line)["kind"] == kind
        if not times:
            file.write_bytes(b"".join(lines[: place + 1]) + b'{"v":1,"at":"20')
            return
    raise AssertionError(f"there is no line {kind}")


def file_of(path: Path, *events: AgentEvent) -> Path:
    made = Transcript.create(path)
    for event in events:
        made.write(event)
    made.close()
    return path


def begun(*calls: ToolCall, mode: Any = "direct", begin: bool = True) -> list[AgentEvent]:
    """A task whose first turn made these calls, which have begun."""
    return [
        TaskBegan(task=TASK, mode=mode, model="m", system="", tools=()),
        ModelAsked(turn=1, messages=1, tools=("look", "put", "send", "execute_tool_plan", "execute_code")),
        ModelReplied(
            turn=1, message=Assistant(calls=calls), ended="calls", usage=Usage(input_tokens=9), seconds=0
        ),
        *(CallBegan(turn=1, id=call.id, name=call.name, arguments=call.arguments) for call in calls if begin),
    ]  # fmt: skip


# the conversation


async def test_it_goes_on_with_a_model_of_another_provider_and_the_same_conversation(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    native = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    first = ScriptedModel(
        [
            Say("I look.", [ToolCall(id="a", name="look", arguments={"at": "ü\u2028"})], native=native),
            [Calls(("look", {"at": "2"}), ("fail", {"why": "x"}), ("nothing", {}))],
            ModelUnavailable("down"),
        ],
        provider="anthropic",
    )
    async with world.runtime() as runtime:
        plan = {"phases": [1]}
        agent = Agent(first, runtime, mode="direct", transcript=file, system="Be brief.", strategic_plan=plan)
        stopped = await agent.run(TASK)
    assert stopped.outcome == "unavailable"
    second = ScriptedModel(["done"], provider="openai", name="other")
    result = await world.resume(file, model=second)
    assert (result.outcome, result.answer, result.transcript) == ("answered", "done", file)
    assert second.requests[0].messages == first.requests[2].messages
    assert second.requests[0].system == first.requests[2].system
    assert "Be brief." in second.requests[0].system
    assert "type" in second.requests[0].tools[0]
    assert result.messages[:-1] == stopped.messages
    assert world.calls == ["look ü\u2028", "look 2", "fail x"]
    assert [line["kind"] for line in lines_of(file)][-4:] == ["resumed", "model_asked", "model_replied", "finished"]
    assert [line.event for line in read_transcript(file)] == list(result.events)


_OTHER_PROCESS = """
import sys, anyio
from callgate import Runtime, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.models.scripted import ScriptedModel

@tool(read_only=True)
async def look(at: str = "") -> str:
    "Look."
    return "seen"

async def main():
    def answers(request):
        return " ".join(type(message).__name__ for message in request.messages)
    async with Runtime([look], sandbox=None) as runtime:
        result = await Agent(ScriptedModel([answers]), runtime).resume(sys.argv[1])
    print(result.outcome, result.answer, result.turns)

anyio.run(main)
"""


async def test_it_goes_on_in_another_process(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    stopped = await World().run(Calls(("look", {"at": "1"})), ModelUnavailable("down"), transcript=file)
    assert stopped.outcome == "unavailable"
    done = await anyio.run_process([sys.executable, "-c", _OTHER_PROCESS, str(file)])
    assert done.stdout.decode() == "answered User Assistant ToolReplies 2\n"


async def test_a_result_is_resumed_without_a_file(tmp_path: Path) -> None:
    world = World()
    stopped = await world.run(Calls(("look", {"at": "1"})), ModelUnavailable("down"))
    kept = tmp_path / "kept.jsonl"
    result = await world.resume(stopped, "done", transcript=kept)
    assert (result.outcome, result.turns, result.transcript) == ("answered", 2, kept)
    assert result.seconds >= stopped.seconds
    assert [line.event for line in read_transcript(kept)] == list(result.events)
    assert (await world.resume(result)).answer == "done"


# the budget


async def test_what_was_spent_counts(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    usage = Usage(input_tokens=1_000, output_tokens=100, cached_input_tokens=10)
    calls = [ToolCall(id="a", name="look", arguments={})]
    price = (10.0, 100.0)
    world = World()
    looks = Say(calls=calls, usage=usage)
    stopped = await world.run(looks, looks, ModelUnavailable("down"), transcript=file, price=price)
    assert (stopped.turns, stopped.usage.input_tokens) == (2, 2_000)
    assert stopped.cost == pytest.approx(0.04)
    for budget, reason in [
        (Budget(turns=2), "2 of 2 turns"),
        (Budget(tokens=2_200), "2200 of 2200 tokens"),
        (Budget(cost=0.03), "0.04 of 0.03 dollars"),
        (Budget(seconds=stopped.seconds / 2), "seconds"),
    ]:
        result = await world.resume(file, budget=budget, price=price)
        assert (result.outcome, result.turns) == ("budget", 2)
        assert reason in result.reason
        assert result.seconds >= stopped.seconds
    result = await world.resume(file, Say("done", usage=usage), budget=Budget(turns=3, tokens=10_000), price=price)
    assert (result.outcome, result.turns, result.usage) == ("answered", 3, usage + usage + usage)
    assert result.cost == pytest.approx(0.06)
    assert world.calls == ["look ", "look "]


async def test_a_budget_in_dollars_is_refused_where_what_was_spent_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    await world.run(Calls(("look", {})), ModelUnavailable("down"), transcript=file)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match="what this task has cost so far is not known"):
        await world.resume(file, budget=Budget(cost=1), price=(1.0, 1.0))
    assert file.read_bytes() == before
    assert (await world.resume(file, "done")).outcome == "answered"


async def test_only_the_time_of_the_runs_counts() -> None:
    start = datetime(2026, 1, 31, tzinfo=UTC)
    resumed = Resumed(turns=0, model="m")
    asked = ModelAsked(turn=1, messages=1, tools=())
    began = TaskBegan(task=TASK, mode="direct", model="m", system="", tools=())
    at: list[tuple[int, AgentEvent]] = [
        (0, began),
        (3, asked),
        (5, asked),
        (5_000, resumed),
        (5_001, asked),
        (9_000, resumed),
        (8_000, asked),
    ]
    lines = [Line(place, start + timedelta(seconds=second), event) for place, (second, event) in enumerate(at)]
    assert seconds_of(lines) == 6
    assert seconds_of(lines[:1]) == 0
    assert seconds_of([]) == 0


# calls that had begun


async def test_calls_that_can_do_no_harm_are_made_again_and_others_never(tmp_path: Path) -> None:
    world = World()
    calls = [
        ToolCall(id="a", name="look", arguments={"at": "1"}),
        ToolCall(id="b", name="put", arguments={"at": "2"}),
        ToolCall(id="c", name="send", arguments={"to": "3"}),
        ToolCall(id="d", name="gone", arguments={}),
        ToolCall(id="e", name="search_tools", arguments={"query": "look"}),
        ToolCall(id="f", name="send", arguments={}, written="{", fault="half a JSON"),
    ]
    file = file_of(tmp_path / "t.jsonl", *begun(*calls))
    model = ScriptedModel(["done"])
    result = await world.resume(file, model=model)
    assert result.outcome == "answered"
    assert sorted(world.calls) == ["look 1", "put 2"]
    told = model.requests[0].messages[-1]
    assert isinstance(told, ToolReplies)
    texts = {reply.id: reply.text for reply in told.replies}
    assert [texts[id] for id in "cd"] == [OUTCOME_UNKNOWN] * 2
    assert "unknown: it may have happened" in OUTCOME_UNKNOWN
    assert texts["a"] == "seen 1"
    assert "cannot be used: half a JSON" in texts["f"]


async def test_calls_that_had_not_begun_are_made(tmp_path: Path) -> None:
    world = World()
    calls = [ToolCall(id=id, name="send", arguments={"to": id}) for id in "abc"]
    events = begun(*calls, begin=False)
    events += [
        CallBegan(turn=1, id="a", name="send", arguments={"to": "a"}),
        CallEnded(turn=1, id="a", name="send", ok=True, text="sent", seconds=0),
        CallBegan(turn=1, id="b", name="send", arguments={"to": "b"}),
    ]
    result = await world.resume(file_of(tmp_path / "t.jsonl", *events), "done")
    assert world.calls == ["send c"]
    replies = result.messages[-2]
    assert isinstance(replies, ToolReplies)
    assert [reply.text for reply in replies.replies] == ["sent", OUTCOME_UNKNOWN, "sent"]


PLAN = {"steps": [{"id": "a", "tool": "look", "arguments": {"at": "1"}}]}


@pytest.mark.parametrize(
    ("names", "loads", "made"),
    [
        (["look", "fail"], False, True),
        (["look", "put"], False, False),
        (["look", "send"], False, False),
        (["look"], True, False),
    ],
    ids=["read-only", "idempotent", "side effects", "loader"],
)
async def test_a_plan_is_made_again_only_where_all_it_can_call_is_read_only(
    tmp_path: Path, names: list[str], loads: bool, made: bool
) -> None:
    async def load(query: str) -> list[Any]:
        return []

    options: dict[str, Any] = {"loader": load} if loads else {}
    world = World()
    call = ToolCall(id="p", name="execute_tool_plan", arguments=PLAN)
    file = file_of(tmp_path / "t.jsonl", *begun(call, mode="plan"))
    async with world.runtime() as runtime:
        result = await Agent(ScriptedModel(["done"]), runtime, tools=names, **options).resume(file)
    assert world.calls == (["look 1"] if made else [])
    replies = result.messages[-2]
    assert isinstance(replies, ToolReplies)
    assert (replies.replies[0].text == OUTCOME_UNKNOWN) is not made


async def test_a_program_counts_as_all_that_it_can_call(tmp_path: Path) -> None:
    world = World()
    call = ToolCall(id="p", name="execute_code", arguments={"code": "return await look(at='1')"})
    file = file_of(tmp_path / "t.jsonl", *begun(call, mode="code"))
    result = await world.resume(file, "done", mode="code")
    replies = result.messages[-2]
    assert isinstance(replies, ToolReplies)
    assert (world.calls, replies.replies[0].text) == ([], OUTCOME_UNKNOWN)


async def test_a_plan_made_beforehand_that_had_begun_is_not_made_again(tmp_path: Path) -> None:
    class Answerer:
        async def answer(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("it was asked")

    planned = Planned(
        plan_id="p", plan={}, reasoning="", confidence=1, source="model", stages=(), estimated_seconds=1,
        estimated_cost=None, seconds=0,
    )  # fmt: skip
    file = file_of(tmp_path / "t.jsonl", begun()[0], planned)
    model = ScriptedModel([ModelUnavailable("down")])
    await World().resume(file, model=model, answerer=Answerer())
    (task, words) = model.requests[0].messages
    assert task == User(text=TASK)
    assert isinstance(words, User)
    assert "What its steps did is unknown: they may have happened" in words.text
    again = ScriptedModel(["done"])
    await World().resume(file, model=again, answerer=Answerer())
    assert again.requests[0].messages == model.requests[0].messages


# what is restored


async def test_what_was_found_is_found(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    search = Calls(("search_tools", {"query": "send"}))
    stopped = await world.run(search, ModelUnavailable("down"), transcript=file, direct=[])
    model = ScriptedModel([Calls(("send", {"to": "1"})), "done"])
    result = await world.resume(file, model=model, direct=[])
    assert "send" in stopped.found
    assert result.found == stopped.found
    assert {definition["function"]["name"] for definition in model.requests[0].tools} >= {"send", "search_tools"}
    assert world.calls == ["send 1"]


async def test_an_interruption_goes_on_with_an_agent_made_anew(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    options: dict[str, Any] = {"discovery": "interrupt"}
    stopped = await world.run(Calls(("search_tools", {"query": "send"})), transcript=file, **options)
    assert stopped.outcome == "interrupted"
    result = await world.resume(file, Calls(("send", {"to": "1"})), "done", **options)
    assert (result.outcome, world.calls) == ("answered", ["send 1"])


def folded(events: Sequence[AgentEvent]) -> Any:
    return rebuilt(events, lambda replies: replies, lambda place: f"event {place}")


async def test_the_guard_remembers(tmp_path: Path) -> None:
    same = Calls(("fail", {"why": "x"}))
    file = tmp_path / "t.jsonl"
    world = World()
    turns = [same, same, same, ModelUnavailable("down")]
    await world.run(*turns, transcript=file)
    assert len(world.calls) == 3
    result = await world.resume(file, same, "done")
    assert len(world.calls) == 3
    replies = result.messages[-2]
    assert isinstance(replies, ToolReplies)
    assert "was not made: with the same arguments it has failed 3 times" in replies.replies[0].text


async def test_a_state_read_back_is_the_state_that_was(tmp_path: Path) -> None:
    many = Calls(*(("look", {"at": str(n % 5)}) for n in range(70)))
    turns = [many, Calls(("fail", {"why": "x"}), ("fail", {"why": "x"})), many, Calls(("gone", {})), "done"]
    world = World()
    result = await world.run(*turns, transcript=tmp_path / "t.jsonl", max_parallel_tool_calls=1)
    lines = read_transcript(tmp_path / "t.jsonl")
    one, other = folded(result.events), folded([line.event for line in lines])
    assert one.messages == other.messages == list(result.messages)
    guard, again = one.repetition, other.repetition
    assert guard._calls == again._calls
    assert (guard._progress, guard._idle, guard._barren) == (again._progress, again._idle, again._barren)
    assert one.failures == other.failures


async def test_failures_of_a_form_count_on_and_a_form_given_up_stays_given_up(tmp_path: Path) -> None:
    bad = Calls(("execute_tool_plan", {"steps": "prose"}))
    world = World()
    turns: list[Any] = []
    alone = tmp_path / "alone.jsonl"
    while True:
        turns.append(Calls(("execute_tool_plan", {"steps": f"prose {len(turns)}"})))
        result = await world.run(*turns, ModelUnavailable("down"), mode="plan")
        if any(route.rule == "fallback" for route in result.routes):
            break
        assert len(turns) < 10
    patience = len(turns)
    assert patience > 1
    await world.run(*turns[:-1], ModelUnavailable("down"), mode="plan", transcript=alone)
    last = ScriptedModel([turns[-1], ModelUnavailable("down")])
    result = await world.resume(alone, model=last, mode="plan")
    assert [route.rule for route in result.routes] == ["fallback"]
    assert "execute_tool_plan" in names(last.requests[0])
    assert "execute_tool_plan" not in names(last.requests[1])
    after = ScriptedModel([bad, "done"])
    result = await world.resume(alone, model=after, mode="plan")
    assert "execute_tool_plan" not in names(after.requests[0])
    assert result.outcome == "answered"
    assert [route.rule for route in result.routes] == ["fallback"]


def names(request: Request) -> set[str]:
    return {definition["function"]["name"] for definition in request.tools}


async def test_a_recommendation_is_given_again_and_told_once(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    first = ScriptedModel([Calls(("look", {})), ModelUnavailable("down")])
    async with world.runtime() as runtime:
        await Agent(first, runtime, transcript=file).run("Look at 1, then at 2, then at 3, and then send it to Bob")
    second = ScriptedModel(["done"])
    result = await world.resume(file, model=second, mode="auto")
    assert second.requests[0].system == first.requests[-1].system
    assert len(result.routes) == 1
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(file.read_bytes())
    cut_after(cut, "call_began")
    third = ScriptedModel(["done"])
    result = await world.resume(cut, model=third, mode="auto")
    assert third.requests[0].system == first.requests[-1].system
    assert len(result.routes) == 1


# how it had ended


async def test_an_answered_task_gives_its_answer_again_and_nothing_is_done(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    done = await world.run(Calls(("look", {})), "done", transcript=file)
    before = file.read_bytes()
    again = await world.resume(file)
    assert file.read_bytes() == before
    assert again == dataclasses.replace(done, seconds=again.seconds)
    assert again.seconds == done.seconds
    assert world.calls == ["look "]


async def test_an_answer_whose_end_was_not_written_is_the_answer(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    await World().run(Calls(("look", {})), " done ", transcript=file)
    cut_after(file, "model_replied", 2)
    result = await World().resume(file)
    assert (result.outcome, result.answer, result.turns) == ("answered", "done", 2)
    assert [line["kind"] for line in lines_of(file)][-3:] == ["model_replied", "resumed", "finished"]


STOPS: dict[str, tuple[list[Any], dict[str, Any], str | None]] = {
    "refused": ([Say("I will not.", refusal="no")], {}, "Go on with the task."),
    "empty": ([Say(), Say()], {}, "Your reply was empty"),
    "cut": ([Say("Half", cut=True), Say("Half", cut=True)], {}, "Go on with the task."),
    "unavailable": ([ModelUnavailable("down")], {}, TASK),
    "rejected": ([ModelRejected("no key")], {}, TASK),
    "too_long": ([ContextExceeded("too long")], {}, TASK),
    "budget": (
        [Calls(("look", {})), "It is half done."],
        {"budget": Budget(turns=2)},
        None,
    ),
    "stuck": (
        [Calls(("fail", {"why": str(n)})) for n in range(BARREN_STOPPED)],
        {},
        "The task was stopped: ",
    ),
}


@pytest.mark.parametrize("outcome", [name for name in STOPS if name != "budget"])
async def test_any_other_end_can_be_gone_on_from(tmp_path: Path, outcome: str) -> None:
    turns, options, words = STOPS[outcome]
    file = tmp_path / "t.jsonl"
    world = World()
    stopped = await world.run(*turns, transcript=file, **options)
    assert stopped.outcome == outcome
    model = ScriptedModel([Calls(("look", {})), "done"])
    result = await world.resume(file, model=model)
    assert (result.outcome, result.answer) == ("answered", "done")
    last = model.requests[0].messages[-1]
    assert isinstance(last, User)
    assert words is not None
    assert last.text.startswith(words)
    (resumed,) = [line for line in lines_of(file) if line["kind"] == "resumed"]
    assert resumed["reason"] == outcome


async def test_after_a_spent_budget_the_model_hears_that_there_is_more(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    world = World()
    calls = Calls(("look", {}))
    stopped = await world.run(calls, Say("Half.", calls), transcript=file, budget=Budget(turns=2))
    assert (stopped.outcome, stopped.answer, len(world.calls)) == ("budget", "Half.", 1)
    model = ScriptedModel([calls, "done"])
    result = await world.resume(file, model=model)
    assert (result.outcome, result.turns, len(world.calls)) == ("answered", 4, 2)
    *_, last_words, _, more = model.requests[0].messages
    assert last_words == User(text=LAST_WORDS)
    assert isinstance(more, User)
    assert "tools can be called again" in more.text
    assert model.requests[0].tool_choice == "auto"


async def test_with_the_same_budget_it_ends_at_once_and_asks_nobody(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"
    calls = Calls(("look", {}))
    await World().run(calls, Say("", calls), transcript=file, budget=Budget(turns=2))
    result = await World().resume(file, budget=Budget(turns=2))
    assert (result.outcome, result.turns) == ("budget", 2)


# what cannot be gone on with


def replied(turn: int = 1, *calls: ToolCall, tokens: int = 0, cost: float | None = None) -> ModelReplied:
    said = Assistant(text="x", calls=calls)
    usage = Usage(input_tokens=tokens)
    return ModelReplied(turn=turn, message=said, ended="calls", usage=usage, seconds=0, cost=cost)


CALL = ToolCall(id="a", name="look", arguments={})
BEGAN = TaskBegan(task=TASK, mode="direct", model="m", system="", tools=())
ORDERS: dict[str, tuple[list[AgentEvent], str]] = {
    "nothing": ([], "line 1: there is no task in it"),
    "no beginning": ([replied()], "line 1: .* a task begins with task_began"),
    "two beginnings": ([BEGAN, BEGAN], "line 2: .* only once"),
    "an unknown call": ([BEGAN, CallBegan(turn=1, id="z", name="n", arguments={})], "line 2: .* has no call 'z'"),
    "two ends": (
        [BEGAN, replied(1, CALL), *[CallEnded(turn=1, id="a", name="n", ok=True, text="", seconds=0)] * 2],
        "line 4: .* has ended before",
    ),
    "one id twice": ([BEGAN, replied(1, CALL, CALL)], "line 2: .* two calls of a turn have one id"),
    "a reply before results": ([BEGAN, replied(1, CALL), replied(2)], "line 3: .* before the results"),
    "words before results": ([BEGAN, replied(1, CALL), Told(turn=1, text="x")], "line 3: .* before the results"),
    "other results": ([BEGAN, replied(1, CALL), Told(turn=1, replies=ToolReplies(replies=()))], "line 3: .* not those"),
    "a turn back": ([BEGAN, replied(1), replied(1)], "line 3: the reply of turn 1|line 3: .* turn 1 comes after"),
    "a great turn": ([BEGAN, replied(10**9)], "line 2: .* comes after that of turn 0"),
    "tokens below nothing": ([BEGAN, replied(tokens=-5)], "line 2: .* less than nothing"),
    "a cost below nothing": ([BEGAN, replied(cost=-5.0)], "line 2: .* less than nothing"),
    "after the end": (
        [
            BEGAN,
            Finished(outcome="stuck", answer="", reason="", turns=0, usage=Usage(), cost=0, seconds=0, tool_calls=0),
            Routed(mode="plan", rule="r", reason=""),
        ],
        "line 3: .* was finished before",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("events", "words"), ORDERS.values(), ids=list(ORDERS))
async def test_what_makes_no_task_is_refused_with_its_line(
    tmp_path: Path, events: list[AgentEvent], words: str
) -> None:
    file = file_of(tmp_path / "t.jsonl", *events)
    before = file.read_bytes()
    with pytest.raises(ConfigurationError, match=words):
        await World().resume(file)
    assert file.read_bytes() == before


async def test_a_transcript_that_is_being_written_is_not_resumed(tmp_path: Path) -> None:
    file = tmp_path / "t.jsonl"

    async def meanwhile(_: Request) -> Any:
        with pytest.raises(ConfigurationError, match="is being written by another run"):
            await World().resume(file)
        return "done"

    result = await World().run(meanwhile, transcript=file)
    assert result.outcome == "answered"
