"""Two runs held against each other: noise is nothing, a slow-down is found, and what cannot be compared is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bench.samples import ENTRIES, MODEL, a_round, cell, results, sample, steady, without
from callgate.bench.report.compare import Comparison, Finding, compare
from callgate.bench.results import Cell, Results, Yardstick
from callgate.bench.rows import Row, against

NOISE = 0.2


def judged(old: Results, new: Results) -> list[Finding]:
    """What is neither the same nor nothing."""
    return [each for each in compare(old, new).findings if each.kind != "same"]


def only(old: Cell, new: Cell, **fields: Any) -> list[Finding]:
    return judged(results(old), results(new, **fields))


def told(comparison: Comparison, part: str) -> bool:
    return any(part in each for each in comparison.remarks)


@pytest.mark.parametrize("seed", range(8))
def test_the_same_run_twice_with_noise_gives_no_finding(seed: int) -> None:
    compared = compare(sample(seed=seed, noise=NOISE), sample(seed=100 + seed, noise=NOISE))
    assert {each.kind for each in compared.findings} == {"same"}
    assert compared.worse == []


@pytest.mark.parametrize("factor", [0.4, 2.0, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_a_machine_that_is_slower_or_faster_as_a_whole_gives_no_finding(seed: int, factor: float) -> None:
    old, new = sample(seed=seed, noise=NOISE), sample(seed=100 + seed, noise=NOISE, machine_slower=factor)
    assert judged(old, new) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_true_slow_down_is_found_in_cells_and_single_things_and_nothing_else_is(seed: int) -> None:
    compared = compare(sample(seed=seed, noise=NOISE), sample(seed=100 + seed, noise=NOISE, callgate_slower=2.0))
    assert {each.kind for each in compared.findings} == {"same", "worse"}
    slower = [each for each in compared.of("worse") if each.what == "own work"]
    assert len(slower) > 25
    assert all(each.ratio is not None and each.ratio > 1.3 for each in slower)
    assert [each.what for each in compared.of("worse") if each not in slower] == ["duration"] * 4
    assert len(compared.worse) == len(slower) + 4


def test_a_true_slow_down_is_found_on_a_machine_that_became_slower() -> None:
    old = sample(noise=NOISE)
    new = sample(seed=9, noise=NOISE, machine_slower=2.0, callgate_slower=2.5)
    assert any(each.kind == "worse" and each.what == "own work" for each in judged(old, new))


def test_what_became_faster_is_better_and_no_reason_to_fail() -> None:
    compared = compare(sample(noise=0.1, callgate_slower=3.0), sample(seed=9, noise=0.1))
    assert len(compared.of("better")) > 25
    assert compared.worse == []


def test_a_slow_down_is_told_with_both_figures_and_the_factor() -> None:
    (found,) = only(cell("plan", steady(2.0, overhead=0.010)), cell("plan", steady(2.0, overhead=0.025)))
    assert found.kind == "worse"
    assert found.text == "plan in weather: own work: 10 ms (10 ms to 10 ms) → 25 ms (25 ms to 25 ms) (2.50 ×)"


def test_tools_that_run_one_after_the_other_all_at_once_are_found() -> None:
    (found,) = only(cell("plan", steady(2.0, tools=0.1)), cell("plan", steady(2.0, tools=0.8)))
    assert (found.kind, found.what) == ("worse", "tools")
    assert found.ratio == pytest.approx(8.0)


def test_a_larger_median_within_the_spread_is_no_finding() -> None:
    calm = [a_round(overhead=each) for each in (0.010, 0.011, 0.012, 0.013, 0.030)]
    shaken = [a_round(overhead=each) for each in (0.011, 0.028, 0.029, 0.030, 0.031)]
    assert only(cell("plan", calm), cell("plan", shaken)) == []


def test_few_rounds_need_a_larger_difference_and_two_are_too_few() -> None:
    def pair(count: int, factor: float) -> list[Finding]:
        calm, slow = (steady(2.0, count, overhead=0.01 * each) for each in (1.0, factor))
        return only(cell("plan", calm), cell("plan", slow))

    assert [len(pair(5, 1.8)), len(pair(3, 1.8)), len(pair(3, 5.0)), len(pair(2, 5.0))] == [1, 0, 1, 0]


def test_a_yardstick_that_wavers_makes_the_tolerance_larger() -> None:
    old, new = results(cell("plan", steady(2.0, overhead=0.01))), results(cell("plan", steady(2.0, overhead=0.03)))
    assert [each.kind for each in judged(old, new)] == ["worse"]
    new.yardstick = Yardstick(seconds=[0.07, 0.07, 0.07, 0.3, 0.3])
    assert judged(old, new) == []
    assert told(compare(old, new), "beyond 5.")


@pytest.mark.parametrize("seconds", [[], [0.07, 0.07], [0.07, 0.0, 0.07]])
def test_without_a_yardstick_durations_are_not_compared_and_that_is_told(seconds: list[float]) -> None:
    old = results(cell("plan", steady(2.0, overhead=0.01)), yardstick=Yardstick(seconds=seconds))
    new = results(cell("plan", steady(2.0, overhead=0.9)))
    assert judged(old, new) == []
    assert told(compare(old, new), "Durations are not compared: the old run has no yardstick")


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        ("right", "wrong", "worse"),
        ("right", "failed", "worse"),
        ("right", "cannot", "worse"),
        ("cannot", "failed", "worse"),
        ("failed", "wrong", "changed"),
        ("failed", "cannot", "better"),
        ("wrong", "right", "better"),
        ("not measured", "right", "new"),
        ("right", "not measured", "gone"),
        ("failed", "not measured", "gone"),
    ],
)
def test_outcomes_are_compared_exactly(before: Any, now: Any, kind: str) -> None:
    old, new = (cell("plan", [a_round()] * 3 if each == "right" else [], outcome=each) for each in (before, now))
    (found,) = only(old, new)
    assert found.kind == kind
    assert found.text.startswith("plan in weather: ")


def test_an_outcome_that_became_worse_says_why() -> None:
    (found,) = only(cell("plan", [a_round()]), cell("plan", outcome="failed", reason="it died"))
    assert found.text == "plan in weather: outcome: right → failed: it died"


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"turns": 3}, "worse", "turns: 2 → 3 (1.50 ×)"),
        ({"turns": 1}, "better", "turns: 2 → 1 (0.50 ×)"),
        ({"calls": 4}, "worse", "calls: 3 → 4 (1.33 ×)"),
        ({"input_tokens": 2300}, "worse", "input tokens: 2,000 → 2,300 (1.15 ×)"),
        ({"input_tokens": 2001}, "changed", "input tokens: 2,000 → 2,001 (1.00 ×)"),
        ({"output_tokens": 100}, "better", "output tokens: 150 → 100 (0.67 ×)"),
    ],
)
def test_counts_are_compared_exactly(change: dict[str, int], kind: str, text: str) -> None:
    (found,) = only(cell("plan", steady(2.0)), cell("plan", steady(2.0, **change)))
    assert (found.kind, found.text) == (kind, f"plan in weather: {text}")


def test_counts_that_vary_from_round_to_round_differ_only_beyond_their_range() -> None:
    old, new = ([a_round(calls=each) for each in calls] for calls in ((3, 4, 5), (5, 6, 5)))
    assert only(cell("plan", old), cell("plan", new)) == []


def test_tokens_of_another_wire_are_not_compared_and_that_is_told() -> None:
    old, new = results(cell("plan", steady(2.0))), results(cell("plan", steady(2.0, input_tokens=9)))
    new.model = replace(MODEL, wire="anthropic")
    assert judged(old, new) == []
    assert told(compare(old, new), "Tokens are not compared")


@pytest.mark.parametrize(
    ("old", "new", "kinds"), [(50, 90, ["worse"]), (90, 50, ["better"]), (50, 60, []), (0, 90, []), (4, 8, [])]
)
def test_peak_memory_counts_beyond_a_third_and_some_megabytes(old: int, new: int, kinds: list[str]) -> None:
    before, now = (cell("plan", steady(2.0), peak_bytes=each * 1_000_000) for each in (old, new))
    assert [each.kind for each in only(before, now)] == kinds


def test_a_real_model_is_not_compared_with_anything() -> None:
    old, new = results(cell("plan", [a_round()])), results(cell("plan", outcome="failed"))
    new.model = replace(MODEL, simulated=False)
    assert judged(old, new) == []
    assert told(compare(old, new), "a real model does not do the same thing twice")


def test_a_workload_or_a_mode_that_is_gone_is_told_once_and_fails_nothing() -> None:
    whole = sample()
    less = without(whole, "code-docker")
    compared = compare(whole, less)
    assert [each.text for each in compared.of("gone")] == ["code-docker: mode of the old run alone"]
    assert [each.text for each in compare(less, whole).of("new")] == ["code-docker: mode of the new run alone"]
    less = replace(whole, tasks=whole.tasks[1:], cells=[each for each in whole.cells if each.workload != "monitoring"])
    assert [each.text for each in compare(whole, less).of("gone")] == ["monitoring: workload of the old run alone"]
    assert compare(whole, less).worse == []


def test_a_cell_that_is_gone_is_told() -> None:
    old = results(cell("plan", [a_round()]), cell("direct", [a_round()]))
    (found,) = judged(old, results(cell("plan", [a_round()])))
    assert (found.kind, found.where) == ("gone", "direct in weather")
    (found,) = judged(results(cell("plan", [a_round()])), old)
    assert (found.kind, found.where) == ("new", "direct in weather")


def test_a_mode_that_takes_no_part_any_more_is_worse() -> None:
    old = results(cell("plan", [a_round()]), cell("code-jail", [a_round()]))
    broken = [replace(each, failure="no user namespaces") if each.name == "code-jail" else each for each in ENTRIES]
    (found,) = judged(old, results(cell("plan", [a_round()]), entries=broken))
    assert (found.kind, found.text) == ("worse", "code-jail: takes part: yes → no: no user namespaces")


def test_what_a_peer_does_is_not_compared() -> None:
    assert only(cell("monty", steady(1.0, overhead=0.01)), cell("monty", outcome="failed")) == []


def _rows(ours: Sequence[float], theirs: Sequence[float], most: float | None = None) -> list[Row]:
    return [against("warm", "a run", ours, peer="Monty", theirs=theirs, most=most)]


def test_a_single_thing_that_became_slower_is_worse() -> None:
    old, new = results(rows=_rows([0.001] * 5, [0.001] * 5)), results(rows=_rows([0.003] * 5, [0.001] * 5))
    (found,) = judged(old, new)
    assert found.text == "a run: duration: 1 ms (1 ms to 1 ms) → 3 ms (3 ms to 3 ms) (3.00 ×)"


def test_a_target_missed_by_a_hair_is_told_and_a_clear_miss_is_worse() -> None:
    met = results(rows=_rows([0.00098] * 5, [0.001] * 5, 1.0))
    hair, clear = (results(rows=_rows([each] * 5, [0.001] * 5, 1.0)) for each in (0.00102, 0.0014))
    assert [(each.kind, each.what) for each in judged(met, hair)] == [("changed", "target ≤ 1 × Monty")]
    assert [(each.kind, each.what) for each in judged(met, clear)] == [("worse", "target ≤ 1 × Monty")]
    assert [each.kind for each in judged(clear, met)] == ["better"]


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [({"own_bytes": 3_200_000}, "worse"), ({"ours_per_second": [480]}, "changed"), ({"of": [{"p50": 1.0}]}, "changed")],
)
def test_a_missed_target_is_worse_unless_it_may_be_the_machine(numbers: dict[str, Any], kind: str) -> None:
    def run(verdict: Any) -> Results:
        return results(
            rows=[Row(key="k", measure="m", measured="3 MB", target="≤ 3 MB", verdict=verdict, numbers=numbers)]
        )

    assert [each.kind for each in judged(run("met"), run("missed"))] == [kind]
    assert judged(run("missed"), run("open")) == []


def test_rows_that_are_gone_or_new_are_told() -> None:
    one, other = (Row(key="k", measure=name, measured="7") for name in ("one", "other"))
    assert [each.text for each in judged(results(rows=[one]), results(rows=[other]))] == ["one: 7", "other: 7"]


def test_rows_of_another_size_are_not_compared_and_that_is_told() -> None:
    old, new = results(rows=_rows([0.001] * 5, [])), results(rows=_rows([0.009] * 5, []), sizes="quick run")
    assert judged(old, new) == []
    assert told(compare(old, new), "Sizes differ: full run before, quick run now")


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        (lambda run: setattr(run, "machine", "Darwin"), "Another machine, or other versions: Linux"),
        (lambda run: setattr(run, "interrupted", "Ctrl-C"), "The new run was interrupted: Ctrl-C"),
        (lambda run: setattr(run, "model", None), "Workloads are not compared: the new run has none"),
        (
            lambda run: setattr(run, "model", replace(MODEL, context_tokens=9)),
            "The context had 128,000 tokens before, 9 now",
        ),
        (lambda run: setattr(run, "rows", []), "Single things are not compared: the new run has none"),
    ],
)
def test_what_differs_about_the_runs_is_told(change: Callable[[Results], None], remark: str) -> None:
    new = sample()
    change(new)
    assert told(compare(sample(), new), remark)


def test_rows_with_numbers_of_another_kind_are_left_alone() -> None:
    kinds: list[Any] = [{"p50": None}, [], {"p50": 1.0}]
    strange = [Row(key="k", measure="m", measured="", numbers={"ours": each}) for each in kinds]
    for row in strange:
        assert judged(results(rows=[row]), results(rows=[row])) == []


def test_the_lines_begin_with_what_is_worse_and_end_with_the_counts() -> None:
    old = results(cell("plan", steady(2.0)), cell("direct", steady(2.0)))
    new = results(cell("plan", steady(2.0, turns=1)), cell("direct", steady(2.0, turns=4)))
    assert compare(old, new).text().splitlines() == [
        "worse    direct in weather: turns: 2 → 4 (2.00 ×)",
        "better   plan in weather: turns: 2 → 1 (0.50 ×)",
        "Yardstick: 72 ms before, 72 ms now; durations count as different beyond 1.62 ×.",
        "Compared: 1 worse, 0 gone, 1 better, 0 changed, 0 new, 12 same.",
    ]


def test_two_runs_of_nothing_have_nothing_to_compare() -> None:
    compared = compare(results(model=None), results(model=None))
    assert (compared.findings, compared.worse) == ((), [])
