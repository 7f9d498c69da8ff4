"""What is said of a workload: who wins, by how much, and where nothing can be said."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from bench.samples import ENTRIES, MODEL, a_round, cell, results, sample, steady
from callgate.bench.report.verdicts import Verdict, headline, held, simulation, verdict, verdicts
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


def test_a_mode_that_beats_the_best_peer_says_by_how_much() -> None:
    ours = cell("code-jail", many(2.0, tools=0.1, overhead=0.05))
    best, worse = (
        cell("monty", many(2.0, tools=0.1, overhead=0.1)),
        cell("smolagents", many(1.0, tools=0.1, overhead=0.4)),
    )
    found = said(ours, worse, best)
    assert found.peer_text == (
        "beside the best peer, tools and own work take 25 % less time than with Monty (own work: 50 ms beside 100 ms)"
    )


@pytest.mark.parametrize(
    ("overhead", "words"), [(0.14, "20 % more time than with"), (0.5, "3.0 × the time that they take with")]
)
def test_a_peer_that_is_better_is_said_to_be(overhead: float, words: str) -> None:
    found = said(
        cell("code-jail", many(2.0, tools=0.1, overhead=overhead)), cell("monty", many(2.0, tools=0.1, overhead=0.1))
    )
    assert found.peer_text.startswith(f"Monty is better: tools and own work take {words} Monty (own work: ")


def test_a_peer_that_is_as_good_is_said_to_be() -> None:
    ours, peer = many(2.0, tools=0.1, overhead=0.1), many(2.0, tools=0.1, overhead=0.1002)
    assert said(cell("code-jail", ours), cell("monty", peer)).peer_text.startswith(
        "no difference to the best peer, Monty"
    )


def test_peers_without_a_right_answer_are_no_measure() -> None:
    assert said(cell("plan", many(2.0)), cell("monty")).peer_text == "no peer has a right answer"
    assert said(cell("plan", many(2.0))).peer_text == ""
    assert said(cell("plan"), cell("monty", many(1.0))).peer_text == "Monty has a right answer, callgate has none"


def test_a_provider_that_tells_no_tokens_leaves_the_time_to_decide() -> None:
    found = said(cell("direct", many(2.0, tokens=100)), cell("plan", steady(1.0, input_tokens=0, output_tokens=0)))
    assert (found.tokens, found.winner) == (None, "callgate")


def test_cells_of_different_length_are_compared_as_far_as_both_go() -> None:
    compared = held(cell("plan", [a_round(1.0)] * 2), cell("direct", [a_round(2.0)] * 5), lambda one: one.wall_seconds)
    assert compared is not None
    assert (compared.pairs, compared.ratio) == (2, 0.5)


def test_a_cell_of_nobody_known_is_left_out() -> None:
    found = said(
        cell("plan", many(2.0)), cell("somebody", many(0.1)), entries=[each for each in ENTRIES if each.name == "plan"]
    )
    assert found.mode is not None
    assert found.mode.name == "plan"


def test_the_headline_counts_wins_losses_and_what_lies_between() -> None:
    def pair(workload: str, direct: list[Round], plan: list[Round]) -> list[Cell]:
        return [cell("direct", direct, workload=workload), cell("plan", plan, workload=workload)]

    run = results(
        *pair("a", many(2.0, tokens=1000), many(1.0, tokens=500)),
        *pair("b", many(4.0, tokens=1000), many(1.0, tokens=2500)),
        *pair("c", many(1.0), many(3.0)),
        *pair("d", many(1.0), many(1.0)),
        *pair("e", [], []),
        *pair("f", [], many(1.0)),
        cell("plan", many(1.0), workload="g"),
        cell("monty", many(1.0, overhead=0.2), workload="a"),
    )
    found = headline(run)
    assert [each.winner for each in found.verdicts] == [
        "callgate", "mixed", "direct calls", "neither", "nobody", "callgate", "unknown",
    ]  # fmt: skip
    assert found.sentences == [
        "Of 7 workloads: callgate's modes win 2; direct calls win 1; "
        "one is faster and the other takes fewer tokens in 1; there is no difference in 1; "
        "nobody has a right answer in 1; one side was not measured in 1.",
        "Time: callgate is faster in 2 (2.0 × to 4.0 ×, median 3.0 ×); callgate is slower in 1 (3.0 ×).",
        "Tokens: callgate takes fewer in 1 (50 %); callgate takes more in 1 (2.5 ×).",
        "Direct calls had no right answer in 1: f.",
        "Beside the best peer of each, tools and callgate's own work took less time in 1 workload, more in 0, "
        "and no difference in 0.",
        "callgate's modes were wrong or failed: plan in e.",
        "The model is simulated: a script that makes no mistakes and waits 600 ms a turn and 4 ms an output token.",
    ]


def test_the_headline_of_nothing_says_so() -> None:
    assert headline(results(interrupted="Ctrl-C", model=None)).sentences == [
        "The run was interrupted: Ctrl-C.", "No workload was measured.",
    ]  # fmt: skip


def test_a_real_model_is_called_real() -> None:
    real = replace(MODEL, simulated=False, name="some-model")
    assert simulation(results(model=real)).startswith("The model is real: some-model")


def test_every_verdict_of_a_whole_run_is_a_sentence() -> None:
    found = verdicts(sample(noise=0.3, interrupted="Ctrl-C"))
    assert len(found) == 9
    assert all(each.text and not re.search(r"None|nan|inf\b|  ", each.text + each.peer_text) for each in found)
    assert found[-1].winner == "unknown"
