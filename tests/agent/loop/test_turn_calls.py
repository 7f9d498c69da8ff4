"""The calls of one turn: really at the same time, at most so many, the others queued and told, every one answered."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from agent.loop.scripted_runs import faults, of, play, sandboxed, shown, told
from callgate import ToolError, tool
from callgate.agent.events import CallBegan, CallEnded, CallsQueued
from callgate.agent.loop.budget import Budget
from callgate.agent.models.model import ToolReplies
from callgate.agent.models.scripted import Calls

pytestmark = pytest.mark.anyio


class Meeting:
    """Tools that wait for each other: whoever waits in vain is made alone."""

    def __init__(self, awaited: int) -> None:
        self.awaited = awaited
        self.inside = 0
        self.most = 0
        self.met = anyio.Event()

    def tool(self) -> Any:
        @tool(read_only=True)
        async def meet(n: int) -> int:
            """Waits for the others."""
            self.inside += 1
            self.most = max(self.most, self.inside)
            if self.inside == self.awaited:
                self.met.set()
            try:
                with anyio.fail_after(5):
                    await self.met.wait()
                for _ in range(20):
                    await anyio.lowlevel.checkpoint()
            finally:
                self.inside -= 1
            return n

        return meet


def meets(count: int) -> Calls:
    return Calls(*(("meet", {"n": n}) for n in range(count)))


async def test_calls_of_one_turn_are_made_at_the_same_time() -> None:
    meeting = Meeting(5)
    result, model = await play([meeting.tool()], meets(5), "done", mode="direct")
    assert meeting.most == 5
    assert told(model.requests[1]) == ["0", "1", "2", "3", "4"]
    assert of(result, CallsQueued) == []
    kinds = [type(each) for each in result.events if isinstance(each, CallBegan | CallEnded)]
    assert kinds == [CallBegan] * 5 + [CallEnded] * 5


@pytest.mark.parametrize("most", [1, 2, 3])
async def test_no_more_than_so_many_run_and_the_surplus_is_queued_told_and_made(most: int) -> None:
    meeting = Meeting(most)
    result, model = await play([meeting.tool()], meets(7), "done", mode="direct", max_parallel_tool_calls=most)
    assert meeting.most == most
    assert told(model.requests[1]) == [str(n) for n in range(7)]  # none dropped
    (queued,) = of(result, CallsQueued)
    assert (queued.turn, queued.running) == (1, most)
    assert queued.queued == tuple(f"call_1_{n + 1}" for n in range(most, 7))
    assert result.tool_calls == 7
    assert model.requests[0].parallel is (False if most == 1 else None)


async def test_answers_come_in_the_order_of_the_calls_whatever_the_order_of_their_ends() -> None:
    later = anyio.Event()

    @tool(read_only=True)
    async def first() -> str:
        """Ends last."""
        await later.wait()
        return "first"

    @tool(read_only=True)
    async def second() -> str:
        """Lets the first end."""
        later.set()
        return "second"

    result, model = await play([first, second], Calls(("first", {}), ("second", {})), "done", mode="direct")
    last = model.requests[1].messages[-1]
    assert isinstance(last, ToolReplies)
    assert [(reply.id, reply.name, reply.text) for reply in last.replies] == [
        ("call_1_1", "first", "first"), ("call_1_2", "second", "second"),
    ]  # fmt: skip
    assert [each.name for each in of(result, CallEnded)] == ["second", "first"]


async def test_one_that_fails_does_not_end_the_others() -> None:
    failed = anyio.Event()

    @tool(read_only=True)
    async def fails() -> str:
        """Fails at once."""
        failed.set()
        raise ToolError("out of order")

    @tool(read_only=True)
    async def breaks() -> str:
        """Has a fault of its own."""
        raise ZeroDivisionError

    @tool(read_only=True)
    async def waits() -> str:
        """Ends after the failure."""
        await failed.wait()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()
        return "here"

    calls = Calls(("waits", {}), ("fails", {}), ("breaks", {}), ("wiats", {}), ("waits", {"x": 1}))
    result, model = await play([fails, breaks, waits], calls, "done", mode="direct")
    texts = told(model.requests[1])
    assert texts[0] == "here"
    assert "out of order" in texts[1]
    assert texts[2].startswith("Error: ")
    assert "did you mean waits" in texts[3]
    assert "x" in texts[4]
    last = model.requests[1].messages[-1]
    assert isinstance(last, ToolReplies)
    assert [reply.ok for reply in last.replies] == [True, False, False, False, False]
    assert sorted(faults(result)) == [("arguments", "told the model"), ("unknown_tool", "told the model")]


@tool(read_only=True)
async def nothing() -> str:
    """Does nothing."""
    return "nothing"


async def test_long_results_lose_their_middle() -> None:
    @tool(read_only=True)
    async def report() -> str:
        """Long."""
        return "begin " + "x" * 50_000 + " end"

    result, model = await play([report], Calls(("report", {})), "done", mode="direct", max_result_characters=1_000)
    (text,) = told(model.requests[1])
    assert len(text) < 1_200
    assert text.startswith("begin")
    assert text.endswith("end")
    assert of(result, CallEnded)[0].text == text


async def test_calls_plans_and_programs_of_one_turn_run_together() -> None:
    meeting = Meeting(3)
    plan = {"steps": [{"id": "a", "tool": "meet", "arguments": {"n": 1}}]}
    async with sandboxed([meeting.tool()]) as runtime:
        result, model = await play(
            runtime,
            Calls(
                ("meet", {"n": 0}), ("execute_tool_plan", plan), ("execute_code", {"code": "print(await meet(n=2))"})
            ),
            "done",
        )
    assert meeting.most == 3
    assert result.tool_calls == 3
    assert [each["kind"] for each in sorted(result.runs, key=lambda each: str(each["id"]))] == ["plan", "code"]
    assert set(shown(model)[0]) == {"meet", "execute_tool_plan", "execute_code"}


async def test_when_the_time_is_over_calls_that_wait_are_answered_and_not_made() -> None:
    begun: list[int] = []
    ended: list[int] = []

    @tool
    async def hangs(n: int) -> str:
        """Never ends."""
        begun.append(n)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(n)
        return ""

    result, _ = await play(
        [hangs],
        Calls(*(("hangs", {"n": n}) for n in range(3))),
        mode="direct",
        max_parallel_tool_calls=2,
        budget=Budget(seconds=0.3),
    )
    assert result.outcome == "budget"
    assert sorted(begun) == sorted(ended) == [0, 1]
    texts = {each.id: each.text for each in of(result, CallEnded)}
    assert "not made: the time for this task is over" in texts["call_1_3"]
    assert "outcome is unknown" in texts["call_1_1"]
    assert result.seconds < 10
