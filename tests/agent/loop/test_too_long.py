"""A conversation that no longer fits: it is shortened as often as that helps, and has a clear end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.loop.scripted_runs import faults, play
from callgate import ContextExceeded, Runtime, tool
from callgate.agent.loop.agent import Agent
from callgate.agent.loop.shortening import SHORTENED, shortened
from callgate.agent.models.model import Assistant, Message, Request, ToolCall, ToolReplies, ToolReply, User
from callgate.agent.models.scripted import Calls, ScriptedModel

pytestmark = pytest.mark.anyio

FULL = ContextExceeded("too long")


@tool(read_only=True)
async def report(n: int) -> str:
    """A long report."""
    return f"{n}" * 30_000


def reports(*numbers: int) -> Calls:
    return Calls(*(("report", {"n": n}) for n in numbers))


class Window:
    """Says so where the results in a request have more characters than it takes."""

    def __init__(self, most: int, *moves: Any) -> None:
        self.most = most
        self.moves = list(moves)
        self.sizes: list[int] = []

    def __call__(self, request: Request) -> Any:
        self.sizes.append(sum(len(text) for text in results(request.messages)))
        return self.moves.pop(0) if self.sizes[-1] <= self.most else FULL


def results(messages: Any) -> list[str]:
    return [reply.text for each in messages if isinstance(each, ToolReplies) for reply in each.replies]


async def test_a_long_task_is_shortened_whenever_it_has_become_too_long_again(tmp_path: Path) -> None:
    window = Window(100_000, *(reports(n) for n in range(9)), "done")
    result, model = await play([report], *[window] * 20, mode="direct", transcript=tmp_path / "t.jsonl")
    assert (result.outcome, result.turns) == ("answered", 10)
    assert faults(result) == [("too_long", SHORTENED)] * 2
    assert not window.moves
    async with Runtime([report], sandbox=None) as runtime:
        again = await Agent(ScriptedModel([]), runtime).resume(tmp_path / "t.jsonl")
    assert again.messages == result.messages
    assert len(model.requests) == 12


async def test_the_newest_results_are_cut_further_where_the_first_cut_was_not_enough() -> None:
    window = Window(20_000, reports(*range(12)), "done")
    result, _ = await play([report], *[window] * 9, mode="direct")
    assert (result.outcome, faults(result)) == ("answered", [("too_long", SHORTENED)] * 2)
    assert [size // 1_000 for size in window.sizes] == [0, 380, 49, 6]


async def test_it_ends_where_nothing_is_left_to_cut() -> None:
    result, model = await play([report], reports(1, 2), *[FULL] * 9, mode="direct")
    assert result.outcome == "too_long"
    assert faults(result) == [("too_long", SHORTENED), ("too_long", SHORTENED), ("too_long", "ended")]
    assert len(model.requests) == 4


def conversation(*texts: str) -> list[Message]:
    made: list[Message] = [User(text="task " * 2_000)]
    for n, text in enumerate(texts):
        made.append(Assistant(calls=(ToolCall(id=str(n), name="report", arguments={}),)))
        made.append(ToolReplies(replies=(ToolReply(id=str(n), name="report", text=text),)))
    return made


def test_what_was_cut_is_not_cut_again_to_the_same_length() -> None:
    """Else a conversation that stays too long would be shortened for ever."""
    for size in range(100, 6_000, 47):
        messages = conversation("a" * size, "b" * 100_000)
        once, twice = shortened(messages), shortened(shortened(messages))
        assert twice != once
        assert shortened(twice) == twice
