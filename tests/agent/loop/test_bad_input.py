"""What models may do wrong: each has an outcome, a line in the transcript, and words for the model. The real loop, the
providers' real SDKs, HTTP to an endpoint that plays such a model. docs/agents-faults.md is the table of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.loop.bad_endpoint import PROVIDERS, Fails, Provider, Says
from agent.loop.bad_solving import DONE, QUERY, solve
from callgate.agent.loop.budget import Budget
from callgate.agent.loop.repetition import BARREN_STOPPED, FAILURES_WARNED

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("provider", PROVIDERS)]


# what is written wrongly


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "written",
    [
        "Sure! I will look at cpu_usage now.",
        '{"name": "cpu_us',
        '["cpu_usage"]',
        '{"name": NaN}',
        '{"name": "cpu_usage"}}',
        "[" * 5_000,
        '{"name": ' + "9" * 5_000 + "}",
    ],
    ids=["prose", "half", "array", "nan", "surplus", "deep", "digits"],
)
async def test_arguments_that_are_no_json_object_are_told_and_not_called(
    provider: Provider, stream: bool, written: str, tmp_path: Path
) -> None:
    bad = Says("Let me see.", [("query_metric", written)])
    solved = await solve(provider, tmp_path, bad, Says(calls=[QUERY]), DONE, stream=stream)
    assert solved.result.outcome == "answered"
    assert solved.result.answer == DONE.text
    assert solved.faults() == [("arguments", "told the model")]
    assert solved.world.calls == ["query cpu_usage"]
    (told,) = solved.endpoint.results(1)
    assert told.startswith("Error: ")
    assert "query_metric" in told
    assert "not made" in told


async def test_prose_where_a_plan_is_due_is_told_with_what_a_plan_is(provider: Provider, tmp_path: Path) -> None:
    prose = Says(calls=[("execute_tool_plan", {"steps": "First I list the metrics, then I query one."})])
    solved = await solve(provider, tmp_path, prose, Says(calls=[QUERY]), DONE, mode="plan")
    assert solved.result.outcome == "answered"
    assert solved.faults() == [("plan_failed", "told the model")]
    assert "The plan was not run" in solved.endpoint.results(1)[0]


async def test_half_a_plan_is_told_that_it_was_cut(provider: Provider, tmp_path: Path) -> None:
    half = '{"steps": [{"id": "list", "tool": "list_metrics", "arguments": {"category": "c'
    solved = await solve(provider, tmp_path, Says(calls=[("execute_tool_plan", half)]), DONE, mode="plan", stream=True)
    assert solved.result.outcome == "answered"
    assert solved.faults() in ([("arguments", "told the model")], [("plan_failed", "told the model")])
    assert solved.world.calls == []


async def test_a_program_that_is_prose_is_told_and_not_run(provider: Provider, tmp_path: Path) -> None:
    prose = Says(calls=[("execute_code", {"code": "Here is the program: first query the metric."})])
    solved = await solve(provider, tmp_path, prose, Says(calls=[QUERY]), DONE, mode="code")
    assert solved.result.outcome == "answered"
    assert ("program_failed", "told the model") in solved.faults()
    assert solved.world.calls == ["query cpu_usage"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("qery_metric", "did you mean query_metric?"),
        ("execute_code", "not in your list of tools"),
        ("functions.query_metric", ""),
        ("../../etc/passwd", "there is no tool"),
        ("x" * 5_000, "there is no tool"),
    ],
    ids=["misspelled", "not offered", "prefixed", "strange", "long"],
)
async def test_an_unknown_tool_is_told_with_the_nearest(
    provider: Provider, name: str, hint: str, tmp_path: Path
) -> None:
    solved = await solve(provider, tmp_path, Says(calls=[(name, {"name": "x"})]), Says(calls=[QUERY]), DONE)
    assert solved.result.outcome == "answered"
    assert solved.faults() == [("unknown_tool", "told the model")]
    (told,) = solved.endpoint.results(1)
    assert hint in told
    assert len(told) < 1_000
    assert solved.world.calls == ["query cpu_usage"]


async def test_wrong_arguments_are_told_with_what_is_wrong(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Says(calls=[("query_metric", {"nmae": 3})]), DONE)
    assert solved.faults() == [("arguments", "told the model")]
    assert "nmae" in solved.endpoint.results(1)[0]
    assert solved.world.calls == []


@pytest.mark.parametrize("ids", [["same", "same", "same"], ["", "", ""], [None, 3, "x" * 1_000]], ids=str)
async def test_calls_whose_ids_are_wrong_are_all_made_and_all_answered(
    provider: Provider, ids: list[Any], tmp_path: Path
) -> None:
    calls = [("query_metric", {"name": name}) for name in ("a", "b", "c")]
    solved = await solve(provider, tmp_path, Says(calls=calls, ids=ids), DONE)
    assert solved.result.outcome == "answered"
    assert sorted(solved.world.calls) == ["query a", "query b", "query c"]
    assert [json.loads(each)["name"] for each in solved.endpoint.results(1)] == ["a", "b", "c"]


async def test_more_calls_than_a_turn_may_have_are_answered_with_that(provider: Provider, tmp_path: Path) -> None:
    calls = [("query_metric", {"name": f"m{n}"}) for n in range(100)]
    solved = await solve(provider, tmp_path, Says(calls=calls), DONE)
    assert solved.result.outcome == "answered"
    assert len(solved.world.calls) == 64
    results = solved.endpoint.results(1)
    assert len(results) == 100
    assert sum("a turn has at most 64 calls" in each for each in results) == 36
    assert set(solved.faults()) == {("surplus", "told the model")}


# circles


async def test_the_same_failing_call_is_warned_of_refused_and_then_the_task_ends(
    provider: Provider, tmp_path: Path
) -> None:
    solved = await solve(provider, tmp_path, Says(calls=[("query_metric", {"name": "broken"})]))
    assert solved.result.outcome == "stuck"
    assert "has failed 3 times" in solved.result.reason
    assert solved.world.calls == ["query broken"] * FAILURES_WARNED
    assert [each for each in solved.faults() if each[0] == "same_call"] == [
        ("same_call", "told the model"), ("same_call", "refused the call"), ("same_call", "refused the call"),
        ("same_call", "ended"),
    ]  # fmt: skip
    assert "Making it again will not help" in solved.endpoint.results(3)[0]
    assert "was not made" in solved.endpoint.results(4)[0]


async def test_going_round_between_two_calls_ends_as_stuck(provider: Provider, tmp_path: Path) -> None:
    circle = [Says(calls=[QUERY]), Says(calls=[("list_metrics", {"category": "cpu"})])] * 30
    solved = await solve(provider, tmp_path, *circle)
    assert solved.result.outcome == "stuck"
    assert solved.result.turns < 25
    assert ("loop", "ended") in solved.faults()
    assert ("loop", "told the model") in solved.faults()


async def test_failing_ever_differently_ends_as_stuck(provider: Provider, tmp_path: Path) -> None:
    turns = [Says(calls=[(f"tool_{n}", {})]) for n in range(30)]
    solved = await solve(provider, tmp_path, *turns)
    assert solved.result.outcome == "stuck"
    assert solved.result.turns <= BARREN_STOPPED
    assert solved.faults()[0] == ("unknown_tool", "told the model")


async def test_new_calls_without_end_come_to_the_end_of_the_budget(provider: Provider, tmp_path: Path) -> None:
    turns = [Says(calls=[("query_metric", {"name": f"m{n}"})]) for n in range(30)]
    solved = await solve(provider, tmp_path, *turns, budget=Budget(turns=5))
    assert solved.result.outcome == "budget"
    assert solved.result.turns == 5
    assert "5 of 5 turns" in solved.result.reason
    assert "none" in str(solved.endpoint.bodies[-1]["tool_choice"])
    assert "no tool can be called" in solved.endpoint.words()
    assert len(solved.world.calls) == 4


async def test_an_answer_in_the_last_turn_counts(provider: Provider, tmp_path: Path) -> None:
    turns = [Says(calls=[("query_metric", {"name": f"m{n}"})]) for n in range(2)]
    solved = await solve(provider, tmp_path, *turns, DONE, budget=Budget(turns=3))
    assert (solved.result.outcome, solved.result.answer) == ("answered", DONE.text)


# replies that are no answers


async def test_an_empty_reply_is_asked_for_again(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Says(" \n"), Says(calls=[QUERY]), Says(""), DONE)
    assert solved.result.outcome == "answered"
    assert solved.faults() == [("empty", "asked again")] * 2
    assert "was empty" in solved.endpoint.words(1)


async def test_empty_replies_again_and_again_end_as_empty(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Says(""))
    assert solved.result.outcome == "empty"
    assert solved.result.turns <= 4
    assert solved.faults()[-1] == ("empty", "ended")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_refusal_ends_with_the_model_s_reason(provider: Provider, stream: bool, tmp_path: Path) -> None:
    refusal = Says("I cannot help with that.", ends="refused")
    solved = await solve(provider, tmp_path, Says(calls=[QUERY]), refusal, stream=stream)
    assert solved.result.outcome == "refused"
    assert "I cannot help with that." in solved.result.reason
    assert not solved.result.ok
    assert solved.faults() == [("refused", "ended")]


async def test_calls_in_a_refusal_are_not_made(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Says("I will not.", calls=[QUERY], ends="refused"))
    assert solved.result.outcome == "refused"
    assert solved.world.calls == []


async def test_a_reply_that_was_cut_is_asked_for_again_and_its_calls_are_not_made(
    provider: Provider, tmp_path: Path
) -> None:
    cut = Says("Let me", calls=[("query_metric", '{"name": "cpu')], ends="cut")
    solved = await solve(provider, tmp_path, cut, Says(calls=[QUERY]), DONE, stream=True)
    assert solved.result.outcome == "answered"
    assert solved.faults() == [("cut", "asked again")]
    assert solved.world.calls == ["query cpu_usage"]
    assert "cut off" in solved.endpoint.words(1)


async def test_replies_that_are_cut_again_and_again_end_as_cut(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Says("It is " * 100, ends="cut"))
    assert solved.result.outcome == "cut"
    assert solved.result.turns <= 4
    assert solved.faults()[-1] == ("cut", "ended")
    assert solved.result.answer.startswith("It is")


# forms that fail


async def test_plans_that_are_refused_again_and_again_give_way_to_direct_calls(
    provider: Provider, tmp_path: Path
) -> None:
    bad = [
        Says(calls=[("execute_tool_plan", {"steps": [{"id": f"s{n}", "tool": "query_metric", "arguments": {}}]})])
        for n in range(3)
    ]
    solved = await solve(provider, tmp_path, *bad, Says(calls=[QUERY]), DONE, mode="auto")
    assert solved.result.outcome == "answered"
    assert solved.faults().count(("plan_failed", "told the model")) >= 3
    assert "execute_tool_plan" in solved.endpoint.tools(2)
    assert "execute_tool_plan" not in solved.endpoint.tools(3)
    last = [line for line in solved.lines if line["kind"] == "routed"][-1]
    assert last["mode"] == "direct"
    assert "no longer offered" in str(solved.endpoint.bodies[3]["messages"][-2:])


async def test_programs_that_no_sandbox_runs_give_way_to_plans_at_once(provider: Provider, tmp_path: Path) -> None:
    program = Says(calls=[("execute_code", {"code": "import os\nprint(os.listdir('/'))"})])
    plan = {"steps": [{"id": "query", "tool": "query_metric", "arguments": {"name": "cpu_usage"}}]}
    solved = await solve(provider, tmp_path, program, Says(calls=[("execute_tool_plan", plan)]), DONE, mode="code")
    assert solved.result.outcome == "answered"
    assert "execute_tool_plan" in solved.endpoint.tools(1)
    assert "execute_code" not in solved.endpoint.tools(1)
    assert solved.world.calls == ["query cpu_usage"]


async def test_many_wrong_calls_in_one_turn_can_be_corrected_in_the_next(provider: Provider, tmp_path: Path) -> None:
    wrong = Says(calls=[("query_metric", {"wrong": n}) for n in range(12)])
    solved = await solve(provider, tmp_path, wrong, Says(calls=[QUERY]), DONE)
    assert solved.result.outcome == "answered"
    assert solved.world.calls == ["query cpu_usage"]


async def test_plans_that_are_no_json_again_and_again_give_way_to_direct_calls(
    provider: Provider, tmp_path: Path
) -> None:
    bad = [Says(calls=[("execute_tool_plan", f"First I query metric {n}.")]) for n in range(3)]
    solved = await solve(provider, tmp_path, *bad, Says(calls=[QUERY]), DONE, mode="plan")
    assert solved.result.outcome == "answered"
    assert "execute_tool_plan" in solved.endpoint.tools(2)
    assert "execute_tool_plan" not in solved.endpoint.tools(3)


async def test_direct_calls_that_are_all_wrong_end_as_stuck(provider: Provider, tmp_path: Path) -> None:
    turns = [Says(calls=[("query_metric", {"wrong": n})]) for n in range(20)]
    solved = await solve(provider, tmp_path, *turns)
    assert solved.result.outcome == "stuck"
    assert solved.result.turns <= 10
    assert solved.world.calls == []


# a plan made beforehand


@pytest.mark.parametrize("bad", ["I would look at the CPU.", '{"toolChain": [{"to', ""], ids=["prose", "half", "empty"])
async def test_a_plan_that_is_no_json_is_made_by_rules_and_its_line_says_so(
    provider: Provider, bad: str, tmp_path: Path
) -> None:
    solved = await solve(provider, tmp_path, Says(bad), Says(bad), DONE, planned=True)
    assert (solved.result.outcome, solved.result.answer) == ("answered", DONE.text)
    (planned,) = [line for line in solved.lines if line["kind"] == "planned"]
    assert planned["source"] == "fallback"
    assert any(note.startswith("asked again: ") for note in planned["notes"])
    assert len(solved.world.calls) == 1


async def test_without_an_endpoint_there_is_a_plan_and_then_the_end(provider: Provider, tmp_path: Path) -> None:
    solved = await solve(provider, tmp_path, Fails(503, "come back later"), planned=True)
    assert solved.result.outcome == "unavailable"
    assert solved.faults() == [("plan_failed", "went on without"), ("unavailable", "ended")]
    (planned,) = [line for line in solved.lines if line["kind"] == "planned"]
    assert any("rules chose" in note for note in planned["notes"])
    assert len(solved.world.calls) == 1
