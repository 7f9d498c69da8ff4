"""A run held against an older one: noise is nothing, a slow-down is found, and what cannot be compared is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.samples import ENTRIES, MODEL, REAL, a_round, cell, noisy, results, sample, steady
from callgate_bench.figures import Row, timed
from callgate_bench.report.compare import compare
from callgate_bench.results import Cell, Results, Yardstick


def judged(old: Results, new: Results) -> list[tuple[str, str]]:
    """Kind and text of what is not the same."""
    return [(each.kind, each.text) for each in compare(old, new).findings if each.kind != "same"]


def kinds(old: Cell | Results, new: Cell | Results) -> list[str]:
    pair = [results(each) if isinstance(each, Cell) else each for each in (old, new)]
    return [kind for kind, _ in judged(*pair)]


def plan(outcome: Any = "right", **fields: Any) -> Cell:
    return cell("plan", steady(2.0, **fields) if outcome == "right" else [], outcome=outcome)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("machine", [0.4, 1.0, 3.0])
def test_noise_and_another_machine_give_no_finding(seed: int, machine: float) -> None:
    assert judged(noisy(seed), noisy(100 + seed, machine=machine)) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("machine", "callgate"), [(1.0, 2.0), (2.0, 2.5)])
def test_a_true_slow_down_is_found_and_nothing_else_is(seed: int, machine: float, callgate: float) -> None:
    found = judged(noisy(seed), noisy(100 + seed, machine=machine, callgate=callgate))
    assert {kind for kind, _ in found} == {"worse"}
    assert sum("own work" in text for _, text in found) > 15
    assert [text.split(": ")[:2] for _, text in found][-2:] == [["warm", "duration"], ["call", "duration"]]


def test_what_became_faster_is_better() -> None:
    assert {kind for kind, _ in judged(noisy(1, callgate=3.0), noisy(9))} == {"better"}


@pytest.mark.parametrize(
    ("before", "now", "finding"),
    [
        ({}, {"overhead": 0.03}, "worse own work: 10 ms (10 ms to 10 ms) → 30 ms (30 ms to 30 ms) (3.00 ×)"),
        ({"tools": 0.1}, {"tools": 0.8}, "worse tools: 100 ms (100 ms to 100 ms) → 800 ms (800 ms to 800 ms) (8.00 ×)"),
        ({}, {"turns": 3}, "worse turns: 2 → 3 (1.50 ×)"),
        ({}, {"turns": 1}, "better turns: 2 → 1 (0.50 ×)"),
        ({}, {"calls": 4}, "worse calls: 3 → 4 (1.33 ×)"),
        ({"calls": 0}, {"calls": 1}, "worse calls: 0 → 1"),
        ({}, {"input_tokens": 2300}, "worse input tokens: 2,000 → 2,300 (1.15 ×)"),
        ({}, {"input_tokens": 2001}, "changed input tokens: 2,000 → 2,001 (1.00 ×)"),
        ({}, {"output_tokens": 100}, "better output tokens: 150 → 100 (0.67 ×)"),
    ],
)  # fmt: skip
def test_a_figure_that_became_worse_is_told_with_both_figures(
    before: dict[str, Any], now: dict[str, Any], finding: str
) -> None:
    kind, _, text = finding.partition(" ")
    assert judged(results(plan(**before)), results(plan(**now))) == [(kind, f"plan in weather: {text}")]


@pytest.mark.parametrize(
    ("count", "factor", "kind"), [(5, 1.8, ["worse"]), (3, 1.8, []), (3, 5.0, ["worse"]), (2, 5.0, [])]
)
def test_few_rounds_need_a_larger_difference_and_two_are_too_few(count: int, factor: float, kind: list[str]) -> None:
    assert kinds(plan(count=count, overhead=0.01), plan(count=count, overhead=0.01 * factor)) == kind


def test_a_larger_median_within_the_spread_is_no_finding() -> None:
    calm, shaken = (0.010, 0.011, 0.012, 0.013, 0.030), (0.011, 0.028, 0.029, 0.030, 0.031)
    pair = [cell("plan", [a_round(overhead=each) for each in some]) for some in (calm, shaken)]
    assert kinds(*pair) == []


def test_counts_that_vary_differ_only_beyond_their_range() -> None:
    pair = [cell("plan", [a_round(calls=each) for each in calls]) for calls in ((3, 4, 5), (5, 6, 5))]
    assert kinds(*pair) == []


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        ("right", "wrong", ["worse"]), ("right", "failed", ["worse"]), ("right", "cannot", ["worse"]),
        ("cannot", "failed", ["worse"]), ("failed", "wrong", ["changed"]), ("failed", "cannot", ["better"]),
        ("wrong", "right", ["better"]), ("not measured", "right", []), ("right", "not measured", []),
    ],
)  # fmt: skip
def test_outcomes_are_compared_exactly(before: str, now: str, kind: list[str]) -> None:
    assert kinds(plan(before), plan(now)) == kind


def test_an_outcome_that_became_worse_says_why() -> None:
    failed = cell("plan", outcome="failed", reason="it died")
    assert judged(results(plan()), results(failed)) == [("worse", "plan in weather: outcome: right → failed: it died")]


@pytest.mark.parametrize(("machine", "kind"), [(1.0, ["worse"]), (2.0, []), (0.5, ["worse"])])
def test_a_duration_has_to_grow_in_seconds_and_in_yardsticks(machine: float, kind: list[str]) -> None:
    new = results(plan(overhead=0.024))
    new.yardstick = Yardstick(seconds=[machine * each for each in new.yardstick.seconds])
    assert kinds(results(plan(overhead=0.01)), new) == kind


def test_a_yardstick_that_wavers_makes_the_tolerance_larger() -> None:
    old, new = results(plan(overhead=0.01)), results(plan(overhead=0.03))
    assert kinds(old, new) == ["worse"]
    new.yardstick = Yardstick(seconds=[0.07, 0.07, 0.07, 0.3, 0.3])
    assert kinds(old, new) == []
    assert "beyond 5." in compare(old, new).text()


def test_a_mode_that_takes_no_part_any_more_is_worse_and_a_peer_is_not_compared() -> None:
    broken = [replace(each, failure="no namespaces") if each.name == "code-jail" else each for each in ENTRIES]
    old = results(plan(), cell("code-jail", steady(2.0)), cell("monty", steady(1.0)))
    new = results(plan(), cell("monty", outcome="failed"), entries=broken)
    assert judged(old, new) == [("worse", "code-jail: takes part: yes → no: no namespaces")]


def _row(ours: float, most: float | None = None, **fields: Any) -> Results:
    return results(rows=[replace(timed("warm", "a run", [ours] * 5, peer="P", theirs=[1e-3] * 5, most=most), **fields)])


def _counted(verdict: Any, numbers: dict[str, Any]) -> Results:
    return results(rows=[Row(key="k", measure="m", measured="?", target="≤ 3", verdict=verdict, numbers=numbers)])


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (_row(1e-3), _row(3e-3), ["worse"]),
        (_row(0.98e-3, 1.0), _row(1.02e-3, 1.0), []),  # its target is missed by a hair
        (_counted("met", {"bytes": 7}), _counted("missed", {"bytes": 9}), ["worse"]),
        (_counted("missed", {"bytes": 9}), _counted("met", {"bytes": 7}), ["better"]),
        (_counted("missed", {}), _counted("open", {}), []),
        (_row(1e-3, numbers={"ours": {"p50": None}}), _row(3e-3, numbers={"ours": []}), []),
    ],
)
def test_single_things_and_their_targets_are_compared(old: Results, new: Results, kind: list[str]) -> None:
    assert kinds(old, new) == kind


@pytest.mark.parametrize(
    ("change", "remark"),
    [
        ({"machine": "Darwin"}, "Another machine, or other versions: Linux"),
        ({"interrupted": "Ctrl-C"}, "The new run was interrupted: Ctrl-C"),
        ({"model": None}, "Workloads are not compared"),
        ({"model": REAL}, "Workloads are not compared"),
        ({"model": replace(MODEL, wire="anthropic")}, "Tokens are not compared"),
        ({"sizes": "quick run"}, "Sizes differ: full run before, quick run now"),
        ({"yardstick": Yardstick(seconds=[0.07, 0.07])}, "Durations are not compared: the new run has no yardstick"),
        ({"yardstick": Yardstick(seconds=[0.07, 0.0, 0.07])}, "Durations are not compared"),
        ({"cells": sample().cells[3:]}, "Only in the old run, 3 cells: direct in weather, direct-parallel in weather"),
        ({"rows": sample().rows[1:]}, "Only in the old run, 1 row: call: a tool call."),
    ],
)
def test_what_differs_about_the_runs_is_told_and_fails_nothing(change: dict[str, Any], remark: str) -> None:
    compared = compare(sample(), replace(sample(), **change))
    assert any(each.startswith(remark) for each in compared.remarks), compared.remarks
    assert {each.kind for each in compared.findings} <= {"same"}


def test_the_lines_begin_with_what_is_worse_and_end_with_the_counts() -> None:
    old = results(cell("plan", steady(2.0)), cell("direct", steady(2.0)))
    new = results(cell("plan", steady(2.0, turns=1)), cell("direct", steady(2.0, turns=4)))
    assert compare(old, new).text().splitlines() == [
        "worse    direct in weather: turns: 2 → 4 (2.00 ×)",
        "better   plan in weather: turns: 2 → 1 (0.50 ×)",
        "Yardstick: 72 ms before, 72 ms now; durations count as different beyond 1.62 ×.",
        "Compared: 1 worse, 1 better, 0 changed, 12 same.",
    ]
