"""What is said of a workload: who wins, by how much, and where nothing can be said."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bench.samples import ENTRIES, a_round, cell, results, sample, steady
from callgate.bench.report.verdicts import Verdict, verdict, verdicts
from callgate.bench.results import Cell, Round


def many(wall: float, *, tokens: int = 2000, **fields: Any) -> list[Round]:
    return steady(wall, input_tokens=tokens - 100, output_tokens=100, **fields)


def said(*cells: Cell, **fields: Any) -> Verdict:
    return verdict(results(*cells, **fields), "weather")


def test_faster_with_fewer_tokens_is_a_win_that_names_both_sides() -> None:
    found = said(cell("direct", many(8.2, tokens=10_000)), cell("code-fast", many(2.0, tokens=1_700)))
    assert found.winner == "callgate"
    assert found.text == "code, fast path: 4.1 × faster, 83 % fewer tokens (beside direct calls)"


def test_slower_with_more_tokens_is_a_loss_that_is_told_as_one() -> None:
    found = said(cell("direct", many(4.0, tokens=2000)), cell("plan", many(6.0, tokens=3000)))
    assert found.winner == "direct calls"
    assert found.text == "direct calls win here: plan is 1.50 × slower, 50 % more tokens (beside direct calls)"


def test_twice_the_tokens_and_more_are_told_as_a_factor() -> None:
    assert said(cell("direct", many(1.0, tokens=1000)), cell("plan", many(2.0, tokens=3000))).text.endswith(
        "plan is 2.0 × slower, 3.0 × the tokens (beside direct calls)"
    )


def test_the_better_of_both_ways_of_calling_directly_is_held_against_the_best_mode() -> None:
    found = said(
        cell("direct", many(9.0)),
        cell("direct-parallel", many(3.0)),
        cell("plan", many(2.0)),
        cell("code-jail", many(1.5)),
    )
    assert (found.mode and found.mode.name, found.direct and found.direct.name) == ("code-jail", "direct-parallel")
    assert "2.0 × faster, as many tokens (beside direct calls, parallel)" in found.text


def test_a_win_on_time_that_is_a_loss_on_tokens_is_said_as_such() -> None:
    found = said(cell("direct", many(2.0, tokens=1000)), cell("plan", many(1.0, tokens=1200)))
    assert found.winner == "mixed"
    assert found.text == "plan wins on time and loses on tokens: 2.0 × faster, 20 % more tokens (beside direct calls)"


def test_a_loss_on_time_that_is_a_win_on_tokens_is_said_as_such() -> None:
    found = said(cell("direct", many(1.0, tokens=1000)), cell("plan", many(2.0, tokens=600)))
    assert found.winner == "mixed"
    assert (
        found.text
        == "direct calls win on time and lose on tokens: plan is 2.0 × slower, 40 % fewer tokens (beside direct calls)"
    )


def test_a_difference_within_the_spread_is_none() -> None:
    direct = cell("direct", [a_round(wall) for wall in (2.0, 2.4, 2.2, 2.1, 2.3)])
    plan = cell("plan", [a_round(wall) for wall in (2.2, 2.1, 2.5, 2.0, 2.4)])
    found = said(direct, plan)
    assert (found.winner, found.text) == ("neither", "no difference: plan (beside direct calls)")
    assert found.time is not None
    assert found.time.low < 1 < found.time.high


def test_a_difference_too_small_to_matter_is_none_without_any_spread() -> None:
    found = said(cell("direct", [a_round(2.0)] * 5), cell("plan", [a_round(2.02)] * 5))
    assert found.winner == "neither"


def test_few_rounds_are_told_and_need_a_larger_difference() -> None:
    def of(count: int, wall: float) -> Verdict:
        return said(cell("direct", [a_round(2.0)] * count), cell("plan", [a_round(wall)] * count))

    assert of(1, 1.0).text == "plan: 2.0 × faster, as many tokens (beside direct calls; one round)"
    assert of(2, 1.0).text.endswith("(beside direct calls; 2 rounds)")
    assert [of(1, 1.9).winner, of(2, 1.9).winner, of(3, 1.9).winner] == ["neither", "neither", "callgate"]


@pytest.mark.parametrize(("tokens", "winner"), [(500, "callgate"), (1500, "direct calls")])
def test_tokens_decide_where_time_does_not(tokens: int, winner: str) -> None:
    found = said(cell("direct", many(2.0, tokens=1000)), cell("plan", many(2.0, tokens=tokens)))
    assert found.winner == winner
    assert "no difference in time, plan takes 50 % " in found.text
    assert found.text.startswith("direct calls win here") == (winner == "direct calls")


def test_what_both_rounds_of_a_pair_suffered_does_not_show() -> None:
    slow = [1.0, 1.0, 5.0, 1.0, 3.0]
    found = said(cell("direct", [a_round(2 * each) for each in slow]), cell("plan", [a_round(each) for each in slow]))
    assert found.time is not None
    assert found.time.ratio == pytest.approx(0.5)
    assert found.time.pairs == 5


def test_direct_calls_that_cannot_are_told_with_the_reason() -> None:
    context = "the context of 128,000 tokens is too small"
    found = said(
        cell("direct", outcome="cannot", reason=context),
        cell("direct-parallel", outcome="cannot", reason=context),
        cell("code-jail", many(2.0, tokens=2630)),
    )
    assert found.winner == "callgate"
    assert found.text == f"direct calls cannot: {context}; code, jail does it in 2 s with 2,630 tokens"


def test_ways_of_calling_directly_that_ended_differently_are_told_apart() -> None:
    found = said(
        cell("direct", outcome="wrong", reason="not in the answer: 7"),
        cell("direct-parallel", outcome="failed", reason="no answer within 60 s"),
        cell("plan", many(1.0)),
    )
    assert (
        "direct calls gave a wrong answer: not in the answer: 7; direct calls, parallel failed: no answer" in found.text
    )


def test_right_rounds_of_a_cell_that_was_wrong_once_do_not_count() -> None:
    found = said(cell("direct", many(9.0)), cell("plan", many(1.0), outcome="wrong"), cell("code-jail", many(3.0)))
    assert found.mode is not None
    assert found.mode.name == "code-jail"


def test_modes_without_a_right_answer_lose_and_say_why() -> None:
    found = said(cell("direct", many(2.0)), cell("plan", outcome="cannot", reason="no loops"), cell("code-jail"))
    assert found.winner == "direct calls"
    assert found.text == "direct calls win here: plan cannot: no loops; code, jail failed"


def test_where_nobody_is_right_that_is_said() -> None:
    found = said(cell("direct", outcome="wrong"), cell("plan", outcome="failed", reason="it died"))
    assert found.winner == "nobody"
    assert found.text == "nobody has a right answer: plan failed: it died; direct calls gave a wrong answer"


def test_what_was_not_measured_is_neither_won_nor_lost() -> None:
    alone = said(cell("plan", many(2.0)), cell("direct", outcome="not measured"))
    assert alone.winner == "unknown"
    assert alone.text == "plan does it in 2 s with 2,000 tokens; direct calls were not measured"
    other = said(cell("direct", many(2.0)), cell("plan", outcome="not measured"))
    assert (other.winner, other.text) == ("unknown", "callgate's modes were not measured")


def test_direct_calls_that_were_not_tried_are_not_called_wrong_and_lose_nothing() -> None:
    reason = "the model would have to do millions of multiplications"
    untried = [cell(name, outcome="cannot", reason=reason, tried=False) for name in ("direct", "direct-parallel")]
    found = said(*untried, cell("code-jail", many(2.0)))
    assert found.winner == "not tried"
    assert found.text == f"direct calls were not tried: {reason}; code, jail does it in 2 s with 2,000 tokens"
    nobody = said(*untried, cell("plan", outcome="cannot", reason="no loops", tried=False))
    assert (nobody.winner, nobody.text) == (
        "nobody", f"nobody has a right answer: plan not tried: no loops; direct calls were not tried: {reason}",
    )  # fmt: skip


def test_direct_calls_of_which_one_way_was_tried_are_told_apart() -> None:
    tried = cell("direct-parallel", outcome="cannot", reason="too long")
    found = said(cell("direct", outcome="cannot", reason="why", tried=False), tried, cell("plan", many(1.0)))
    assert found.winner == "callgate"
    assert found.text.startswith("direct calls not tried: why; direct calls, parallel cannot: too long; plan")


@pytest.mark.parametrize(
    ("ours", "winner", "words"),
    [
        (1896, "callgate", "no difference in time, plan takes 9 % fewer tokens"),
        (2068, "callgate", "no difference in time, plan takes 1 % fewer tokens"),
        (2110, "direct calls", "plan takes 1 % more tokens"),
        (2080, "neither", "no difference: plan"),
    ],
)
@pytest.mark.parametrize("count", [1, 5])
def test_tokens_are_counted_and_differ_from_one_percent_on(ours: int, winner: str, words: str, count: int) -> None:
    found = said(cell("direct", many(2.0, tokens=2089, count=count)), cell("plan", many(2.0, tokens=ours, count=count)))
    assert found.winner == winner
    assert words in found.text


def test_tokens_that_vary_more_than_they_differ_are_not_said_to_be_as_many() -> None:
    direct = cell("direct", [a_round(4.0, input_tokens=count) for count in (1000, 2000, 1000, 1000, 2000)])
    plan = cell("plan", [a_round(2.0, input_tokens=count) for count in (800, 2500, 800, 1600, 1700)])
    assert said(direct, plan).text == (
        "plan: 2.0 × faster, no difference in tokens beyond their spread (beside direct calls)"
    )


def test_every_verdict_of_a_whole_run_is_a_sentence() -> None:
    found = verdicts(sample(noise=0.3, interrupted="Ctrl-C"))
    assert len(found) == 9
    told = [text for each in found for text in (each.text, *each.peer_texts)]
    assert len(told) > 25
    assert all(text and not re.search(r"None|nan|inf\b|  ", text) for text in told)
    assert found[-1].winner == "unknown"


@pytest.mark.parametrize(
    ("wall", "winner", "text"),
    [
        (1.0, "callgate", "plan: 2.0 × faster, tokens not counted (beside direct calls)"),
        (4.0, "direct calls", "direct calls win here: plan is 2.0 × slower, tokens not counted (beside direct calls)"),
        (2.0, "neither", "no difference in time, tokens not counted: plan (beside direct calls)"),
    ],
)
def test_a_provider_that_tells_no_tokens_leaves_the_time_to_decide(wall: float, winner: str, text: str) -> None:
    untold = steady(wall, input_tokens=0, output_tokens=0)
    found = said(cell("direct", many(2.0, tokens=100)), cell("plan", untold))
    assert (found.tokens, found.winner, found.text) == (None, winner, text)
    assert said(cell("plan", untold)).text == f"plan does it in {wall:g} s; direct calls were not measured"


def test_a_cell_of_nobody_known_is_left_out() -> None:
    found = said(
        cell("plan", many(2.0)), cell("somebody", many(0.1)), entries=[each for each in ENTRIES if each.name == "plan"]
    )
    assert found.mode is not None
    assert found.mode.name == "plan"
