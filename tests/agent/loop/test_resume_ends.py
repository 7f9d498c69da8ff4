"""Tasks that stopped and go on: what the guard knew is known, and each end has its way to go on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.loop.resuming import TASK, World, cut_after, file_of, lines_of
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    Finished,
    MessageAdded,
    ModelReplied,
    Routed,
    TaskBegan,
)
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.repetition import BARREN_STOPPED
from callgate.agent.loop.resume import rebuilt
from callgate.agent.loop.task_run import LAST_WORDS
from callgate.agent.models.model import Assistant, Request, ToolCall, ToolReplies, Usage, User
from callgate.agent.models.scripted import Calls, Say, ScriptedModel
from callgate.errors import ConfigurationError, ContextExceeded, ModelRejected, ModelUnavailable

pytestmark = pytest.mark.anyio


def folded(events: Sequence[AgentEvent]) -> Any:
    return rebuilt(events, lambda replies: replies, lambda place: f"event {place}")


async def test_failures_of_a_form_count_on_and_a_form_given_up_stays_given_up(tmp_path: Path) -> None:
    bad = Calls(("execute_tool_plan", {"steps": "prose"}))
    world = World()
    turns: list[Any] = []
    alone = tmp_path / "alone.jsonl"
    while True:
        turns.append(Calls(("execute_tool_plan", {"steps": f"prose {len(turns)}"})))
        result = await world.run(*turns, ModelUnavailable("down"), mode="plan")
        if result.routes:
            break
        assert len(turns) < 10
    patience = len(turns)
    assert patience > 1
    await world.run(*turns[:-1], ModelUnavailable("down"), mode="plan", transcript=alone)
    last = ScriptedModel([turns[-1], ModelUnavailable("down")])
    result = await world.resume(alone, model=last, mode="plan")
    assert [route.mode for route in result.routes] == ["direct"]
    assert "execute_tool_plan" in names(last.requests[0])
    assert "execute_tool_plan" not in names(last.requests[1])
    after = ScriptedModel([bad, "done"])
    result = await world.resume(alone, model=after, mode="plan")
    assert "execute_tool_plan" not in names(after.requests[0])
    assert result.outcome == "answered"
    assert [route.mode for route in result.routes] == ["direct"]


def names(request: Request) -> set[str]:
    return {definition["function"]["name"] for definition in request.tools}


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
    "words before results": (
        [BEGAN, replied(1, CALL), MessageAdded(turn=1, text="x")], "line 3: .* before the results"
    ),
    "other results": (
        [BEGAN, replied(1, CALL), MessageAdded(turn=1, replies=ToolReplies(replies=()))], "line 3: .* not those"
    ),
    "a turn back": ([BEGAN, replied(1), replied(1)], "line 3: the reply of turn 1|line 3: .* turn 1 comes after"),
    "a great turn": ([BEGAN, replied(10**9)], "line 2: .* comes after that of turn 0"),
    "tokens below nothing": ([BEGAN, replied(tokens=-5)], "line 2: .* negative or too large"),
    "tokens beyond any number": ([BEGAN, replied(tokens=10**400)], "line 2: .* negative or too large"),
    "a cost below nothing": ([BEGAN, replied(cost=-5.0)], "line 2: .* negative or too large"),
    "after the end": (
        [
            BEGAN,
            Finished(outcome="stuck", answer="", reason="", turns=0, usage=Usage(), cost=0, seconds=0, tool_calls=0),
            Routed(mode="plan", reason=""),
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
