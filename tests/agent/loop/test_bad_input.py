"""What models may do wrong: each has an outcome, a line in the transcript, and words for the model. docs/agents.md is
the table of it. What the providers' SDKs make of such replies is in tests/agent/models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.loop.bad_solving import DONE, QUERY, says, solve
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.repetition import BARREN_STOPPED, FAILURES_WARNED
from callgate.agent.models.scripted import Say

pytestmark = pytest.mark.anyio

Fault = tuple[str, str]
TOLD, ASKED, ENDED = "told the model", "asked again", "ended"


@dataclass(frozen=True)
class Wrong:
    """A model that does something wrong.

    Attributes:
        turns: its replies; the last one stays.
        faults: all lines of the transcript about it, in order; None for any.
        said: what the model hears of the first turn.
        calls: what the tools did; None for anything.
        outcome: of the task.
        reason: part of why it ended so.
        most_turns: it took at most.
        options: of the agent.
    """

    turns: Sequence[Say]
    faults: Sequence[Fault] | None
    said: str = ""
    calls: Sequence[str] | None = ("query cpu_usage",)
    outcome: str = "answered"
    reason: str = ""
    most_turns: int = 100
    options: Mapping[str, Any] = field(default_factory=dict)


def corrected(name: str, arguments: Any, fault: str, said: str, **options: Any) -> Wrong:
    """A call that is wrong, then one that is right."""
    turns = [says("Let me see.", (name, arguments)), says("", QUERY), DONE]
    return Wrong(turns, [(fault, TOLD)], said, options=options)


def queries(*names: str) -> list[Say]:
    return [says("", ("query_metric", {"name": name})) for name in names]


UNMADE = "The call was not made"
HALF_A_PLAN = '{"steps": [{"id": "list", "tool": "list_metrics", "arguments": {"category": "c'
WRONG: dict[str, Wrong] = {
    # what is written wrongly
    "prose": corrected("query_metric", "Sure! I will look at cpu_usage now.", "arguments", UNMADE),
    "half a JSON": corrected("query_metric", '{"name": "cpu_us', "arguments", UNMADE),
    "an array": corrected("query_metric", '["cpu_usage"]', "arguments", UNMADE),
    "NaN": corrected("query_metric", '{"name": NaN}', "arguments", UNMADE),
    "a brace too many": corrected("query_metric", '{"name": "cpu_usage"}}', "arguments", UNMADE),
    "deep": corrected("query_metric", "[" * 5_000, "arguments", UNMADE),
    "digits": corrected("query_metric", '{"name": ' + "9" * 5_000 + "}", "arguments", UNMADE),
    "wrong arguments": corrected("query_metric", {"nmae": 3}, "arguments", "nmae"),
    "a misspelled tool": corrected("qery_metric", {}, "unknown_tool", "did you mean query_metric?"),
    "a tool not offered": corrected("execute_code", {}, "unknown_tool", "not in your list of tools"),
    "a prefixed tool": corrected("functions.query_metric", {}, "unknown_tool", "Error"),
    "a strange tool": corrected("../../etc/passwd", {}, "unknown_tool", "there is no tool"),
    "a long tool": corrected("x" * 5_000, {}, "unknown_tool", "there is no tool"),
    "prose as a plan": corrected(
        "execute_tool_plan", {"steps": "First I list the metrics."}, "plan_failed", "The plan was not run", mode="plan"
    ),
    "half a plan": Wrong(
        [says("", ("execute_tool_plan", HALF_A_PLAN)), DONE], None, calls=(), options={"mode": "plan"}
    ),
    "prose as a program": corrected(
        "execute_code", {"code": "Here is the program: query."}, "program_failed", "", mode="code"
    ),
    # circles
    "two calls in turn": Wrong(
        [says("", QUERY), says("", ("list_metrics", {"category": "cpu"}))] * 30, None, calls=None,
        outcome="stuck", reason="nothing new", most_turns=24,
    ),
    "ever other unknown tools": Wrong(
        [says("", (f"tool_{n}", {})) for n in range(30)], None, "there is no tool", (), "stuck",
        most_turns=BARREN_STOPPED,
    ),
    "new calls without end": Wrong(
        queries(*map(str, range(30))), [], "", [f"query {n}" for n in range(4)], "budget", "5 of 5 turns", 5,
        {"budget": Budget(turns=5)},
    ),
    "an answer in the last turn": Wrong(
        [*queries("a", "b"), DONE], [], "", ["query a", "query b"], options={"budget": Budget(turns=3)}
    ),
    # replies that are no answers
    "empty": Wrong([Say(" \n"), says("", QUERY), Say(""), DONE], [("empty", ASKED)] * 2, "was empty"),
    "empty again": Wrong([Say("")], [("empty", ASKED), ("empty", ENDED)], "was empty", (), "empty", most_turns=4),
    "a refusal": Wrong(
        [says("", QUERY), Say(refusal="I cannot help.")], [("refused", ENDED)], outcome="refused",
        reason="I cannot help.",
    ),
    "calls in a refusal": Wrong(
        [says("", QUERY, refusal="I will not.")], [("refused", ENDED)], calls=(), outcome="refused"
    ),
    "cut": Wrong(
        [says("Let me", ("query_metric", '{"name": "cpu'), cut=True), says("", QUERY), DONE],
        [("cut", ASKED)], "cut off",
    ),
    "cut again": Wrong(
        [Say("It is " * 100, cut=True)], [("cut", ASKED), ("cut", ENDED)], "cut off", (), "cut", most_turns=4
    ),
}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
async def test_what_a_model_does_wrong_has_a_line_words_and_an_end(wrong: Wrong, tmp_path: Path) -> None:
    solved = await solve(tmp_path, *wrong.turns, **wrong.options)
    result = solved.result
    assert (result.outcome, result.ok) == (wrong.outcome, wrong.outcome == "answered")
    assert wrong.reason in result.reason
    assert result.turns <= wrong.most_turns
    if wrong.faults is not None:
        assert solved.faults() == list(wrong.faults)
    if wrong.calls is not None:
        assert solved.world.calls == list(wrong.calls)
    if wrong.said:
        heard = solved.words(1)
        assert wrong.said in heard
        assert len(heard) < 3_000
    if result.ok:
        assert result.answer == DONE.text


@pytest.mark.parametrize("ids", [["same"] * 3, [""] * 3, ["x" * 1_000, "\ud800", "a b"]], ids=ascii)
async def test_calls_whose_ids_are_wrong_are_all_made_and_all_answered(ids: list[str], tmp_path: Path) -> None:
    calls = [("query_metric", {"name": name}) for name in ("a", "b", "c")]
    solved = await solve(tmp_path, says("", *calls, ids=ids), DONE)
    assert solved.result.outcome == "answered"
    assert sorted(solved.world.calls) == ["query a", "query b", "query c"]
    assert [json.loads(each)["name"] for each in solved.results(1)] == ["a", "b", "c"]


async def test_more_calls_than_a_turn_may_have_are_answered_with_that(tmp_path: Path) -> None:
    calls = [("query_metric", {"name": f"m{n}"}) for n in range(100)]
    solved = await solve(tmp_path, says("", *calls), DONE)
    assert solved.result.outcome == "answered"
    assert len(solved.world.calls) == 64
    results = solved.results(1)
    assert len(results) == 100
    assert sum("a turn has at most 64 calls" in each for each in results) == 36
    assert set(solved.faults()) == {("surplus", TOLD)}


async def test_the_same_failing_call_is_warned_of_refused_and_then_the_task_ends(tmp_path: Path) -> None:
    solved = await solve(tmp_path, *queries("broken"))
    assert solved.result.outcome == "stuck"
    assert "has failed 3 times" in solved.result.reason
    assert solved.world.calls == ["query broken"] * FAILURES_WARNED
    refused = ("same_call", "refused the call")
    assert [each for each in solved.faults() if each[0] == "same_call"] == [
        ("same_call", TOLD), refused, refused, ("same_call", ENDED)
    ]  # fmt: skip
    assert "Making it again will not help" in solved.results(3)[0]
    assert "was not made" in solved.results(4)[0]


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [({"steps": [{"id": "s", "tool": "query_metric", "arguments": {}}]}, "auto"), ("First I query.", "plan")],
    ids=["refused", "no JSON"],
)
async def test_plans_that_are_refused_again_and_again_give_way_to_direct_calls(
    arguments: Any, mode: str, tmp_path: Path
) -> None:
    bad = [says("", ("execute_tool_plan", arguments))] * 3
    solved = await solve(tmp_path, *bad, says("", QUERY), DONE, mode=mode)
    assert solved.result.outcome == "answered"
    assert "execute_tool_plan" in solved.tools(2)
    assert "execute_tool_plan" not in solved.tools(3)
    assert [line["mode"] for line in solved.lines if line["kind"] == "routed"] == ["direct"]
    assert "no longer offered" in solved.words(3)


async def test_direct_calls_that_are_all_wrong_end_as_stuck(tmp_path: Path) -> None:
    turns = [says("", ("query_metric", {"nmae": n})) for n in range(20)]
    solved = await solve(tmp_path, *turns)
    assert (solved.result.outcome, solved.result.turns) == ("stuck", 8)
