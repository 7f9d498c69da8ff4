"""Outcomes of earlier calls at the gate: how they are found, and that none is lost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from callgate import ApprovalRequest
from callgate.artifacts import Artifacts
from callgate.errors import InvalidArguments, LimitReached, ToolNotAllowed, UnknownOutcome
from callgate.runtime.gate import RunGate
from callgate.runtime.gate.earlier import ForRepair, Occurrences, Outcome, Repair, digest
from callgate.runtime.gate.records import CallRecord
from callgate.tools import Tool, tool
from runtime.gated import echo, run_of

pytestmark = pytest.mark.anyio


@tool
async def act(n: int) -> int:
    """Has effects."""
    return n


def record(id: int, status: Any = "succeeded", **more: Any) -> CallRecord:
    made = CallRecord(id, "act", {"n": id}, "code", 0.0, status)
    made.result, made.result_bytes = "7", 1
    for name, value in more.items():
        setattr(made, name, value)
    return made


def outcomes(*records: CallRecord, **more: Any) -> list[Outcome]:
    return list(ForRepair(**more).outcomes(records))


def repairing(found: Iterable[Outcome], *tools: Tool, **limits: Any) -> RunGate:
    """The gate of a program that corrects another one."""
    run = run_of(*(tools or (act,)), **limits)
    run.reuse(found, 60)
    return run


def test_occurrences_are_taken_in_order_and_forgotten_when_they_are_used_up() -> None:
    kept = Occurrences[int]()
    kept.add("a", digest({"x": 1}), 1)
    kept.add("a", digest({"x": 1}), 2)
    kept.add("b", digest({"x": 1}), 3)
    assert list(kept) == [1, 2, 3]
    assert [kept.of("a", {"x": 1}).popleft(), kept.of("a", {"x": 1}).popleft()] == [1, 2]
    assert not kept.of("a", {"x": 1})
    assert not kept.of("b", {"x": 1.5})
    assert not kept.of("b", {"x": "\ud800"})
    kept.drop(lambda each: each == 3)
    assert not kept


@pytest.mark.parametrize("status", ["failed", "denied", "refused", "cancelled", "timed_out"])
def test_a_call_that_had_no_effect_has_no_outcome(status: Any) -> None:
    assert outcomes(record(1, status)) == []


@pytest.mark.parametrize("status", ["unknown_outcome", "pending"])
def test_a_call_that_may_have_had_one_has_an_outcome_without_a_text(status: Any) -> None:
    (found,) = outcomes(record(1, status))
    assert found.text is None
    assert "its outcome is unknown" in str(found.error())


def test_a_fallback_answers_for_the_call_and_not_for_itself() -> None:
    first = record(1, "unknown_outcome", fallback_call=2, fallback="other")
    (found,) = outcomes(first, record(2, tool="other", result='"by other"', result_bytes=10))
    assert (found.record, found.text) == (first, '"by other"')
    (unknown,) = outcomes(record(1, "failed", fallback_call=2), record(2, "unknown_outcome", tool="other"))
    assert unknown.text is None


def test_a_result_that_a_record_has_cut_is_whole_or_none() -> None:
    cut = record(1, result="a" * 4096, result_bytes=5000)
    assert [each.text for each in outcomes(cut)] == [None]
    assert [each.text for each in outcomes(cut, texts={1: "b" * 5000})] == ["b" * 5000]


async def test_a_call_whose_arguments_were_not_kept_may_be_any_call_of_its_tool() -> None:
    run = repairing(outcomes(record(1, arguments="(not kept: too much)")))
    with pytest.raises(UnknownOutcome, match="succeeded, but its result was not kept"):
        await run.call("act", {"n": 5})
    assert await run.call("act", {"n": 5}) == "5"


async def test_an_outcome_is_not_lost_if_its_call_is_cancelled_before_it_begins() -> None:
    run = repairing(outcomes(record(1)))
    await run.record_cancelled("act", {"n": 1})
    assert [(each.status, each.reused) for each in run.records] == [("cancelled", False)]
    again = repairing(run.for_repair(ok=False).outcomes(run.records))
    assert await again.call("act", {"n": 1}) == "7"
    assert await run.call("act", {"n": 1}) == "7"  # in the same program, too
    assert [(each.status, each.reused) for each in run.records] == [("cancelled", False), ("succeeded", True)]


async def test_an_outcome_is_not_lost_if_its_call_is_denied_or_cancelled_while_somebody_thinks() -> None:
    asked = 0

    async def approve(request: ApprovalRequest) -> bool:
        nonlocal asked
        asked += 1
        if asked == 2:
            await anyio.sleep_forever()
        return asked == 3

    @tool(name="act", requires_approval=True)
    async def strict(n: int) -> int:
        return n

    run = repairing(outcomes(record(1)), strict)
    run.gate.approve = approve
    with pytest.raises(ToolNotAllowed):
        await run.call("act", {"n": 1})
    with anyio.move_on_after(0.01):
        await run.call("act", {"n": 1})
    assert [each.status for each in run.records] == ["denied", "cancelled"]
    assert await run.call("act", {"n": 1}) == "7"


async def test_calls_that_come_to_no_end_count_though_they_had_an_earlier_outcome() -> None:
    @tool(name="act", requires_approval=True)
    async def strict(n: int) -> int:
        return n

    run = repairing(outcomes(record(1)), strict, max_tool_calls=2)
    run.gate.approve = lambda _: False
    for _ in range(3):
        with pytest.raises(ToolNotAllowed):
            await run.call("act", {"n": 1})
    with pytest.raises(LimitReached):
        await run.call("act", {"n": 1})


async def test_an_outcome_is_not_lost_if_its_call_is_refused() -> None:
    @tool(name="act")
    async def other(n: str) -> str:
        return n

    run = repairing(outcomes(record(1)), other)
    with pytest.raises(InvalidArguments):
        await run.call("act", {"n": 1})
    again = repairing(run.for_repair(ok=False).outcomes(run.records))
    assert await again.call("act", {"n": 1}) == "7"


async def test_an_unknown_outcome_of_an_idempotent_tool_is_made_anew() -> None:
    @tool(name="act", idempotent=True)
    async def act_again(n: int) -> int:
        return n

    run = repairing(outcomes(record(1, "unknown_outcome")), act_again)
    assert await run.call("act", {"n": 1}) == "1"


async def test_no_fallback_is_called_for_a_call_that_is_not_made_again() -> None:
    @tool(name="act", fallback="echo")
    async def with_fallback(n: int) -> int:
        return n

    run = repairing(outcomes(record(1, "unknown_outcome")), with_fallback, echo)
    with pytest.raises(UnknownOutcome):
        await run.call("act", {"n": 1})
    assert [each.tool for each in run.records] == ["act"]


async def test_the_limits_of_today_hold_for_earlier_results() -> None:
    run = repairing(outcomes(record(1, result=f'"{"x" * 3000}"', result_bytes=3002)), max_message_bytes=2048)
    with pytest.raises(Exception, match="the limit max_message_bytes is 2048"):
        await run.call("act", {"n": 1})


def test_what_is_left_has_effects_or_not() -> None:
    shelf = Artifacts().shelf()
    reads = Repair(outcomes(record(1)), 60, lambda: 0.0, shelf, lambda name: True)
    effects = Repair(outcomes(record(1)), 60, lambda: 0.0, shelf, lambda name: False)
    assert (reads.has_effects, effects.has_effects) == (False, True)
    assert [len(each.left) for each in (reads, effects)] == [1, 1]
