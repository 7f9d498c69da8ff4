"""The view of a run: who wins where, and what stands in the tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.samples import ENTRIES, REAL, a_round, cell, results, sample, steady
from callgate_bench.report.view import Section, Value, view
from callgate_bench.results import Cell, Results, Round

CANNOT = cell("direct", outcome="cannot", reason="too long")
UNTRIED = replace(CANNOT, tried=False)
UNMEASURED = cell("direct", outcome="not measured")


def many(wall: float, tokens: int = 2000, **fields: Any) -> list[Round]:
    return steady(wall, input_tokens=tokens - 100, output_tokens=100, **fields)


def row(section: Section, title: str) -> dict[str, Value]:
    """A row by its headings."""
    (found,) = [each for each in section.rows if each[0].text == title]
    return dict(zip([column.title for column in section.columns], found, strict=True))


def ratios(*cells: Cell, **fields: Any) -> dict[str, Value]:
    return row(view(results(*cells, **fields)).summary[0], "Weather")


def direct(*cells: Cell) -> tuple[str, str]:
    value = ratios(*cells)["direct calls"]
    return value.text, value.tone


@pytest.mark.parametrize(
    ("ours", "theirs", "text", "tone"),
    [
        (many(2.0, 1700), many(8.0, 10_000), "✓ 0.25 / 0.17", "better"),
        (many(6.0, 3000), many(4.0, 2000), "✗ 1.50 / 1.50", "worse"),
        (many(1.0, 1200), many(2.0, 1000), "± 0.50 / 1.20", "split"),
        (many(2.0, 600), many(1.0, 1000), "± 2.00 / 0.60", "split"),
        (many(2.0, 500), many(2.0, 1000), "✓ 1.00 / 0.50", "better"),
        (many(2.0, 1500), many(2.0, 1000), "✗ 1.00 / 1.50", "worse"),
        (many(30.0), many(2.0), "✗ 15 / 1.00", "worse"),
        # a difference within the spread, or too small to matter, is none
        ([a_round(n) for n in (2.2, 2.1, 2.5)], [a_round(n) for n in (2, 2.4, 2.2)], "1.10 / 1.00", ""),
        ([a_round(2.02)] * 5, [a_round(2.0)] * 5, "1.01 / 1.00", ""),
        ([a_round(2.0, input_tokens=2010)] * 5, [a_round(2.0)] * 5, "1.00 / 1.00", ""),
        # few rounds need a larger difference
        ([a_round(1.9)] * 2, [a_round(2.0)] * 2, "0.95 / 1.00", ""),
        ([a_round(1.9)] * 3, [a_round(2.0)] * 3, "✓ 0.95 / 1.00", "better"),
        ([a_round(1.0)], [a_round(2.0)], "✓ 0.50 / 1.00", "better"),
        # what both rounds of a pair suffered does not show
        ([a_round(n) for n in (1, 1, 5, 1, 3)], [a_round(2 * n) for n in (1, 1, 5, 1, 3)], "✓ 0.50 / 1.00", "better"),
        # tokens that were not counted
        ([a_round(1.0, input_tokens=0, output_tokens=0)] * 3, [a_round(2.0)] * 3, "✓ 0.50 / –", "better"),
    ],
)  # fmt: skip
def test_the_winner_is_told_by_time_and_tokens(ours: list[Round], theirs: list[Round], text: str, tone: str) -> None:
    assert direct(cell("plan", ours), cell("direct", theirs)) == (text, tone)


@pytest.mark.parametrize(
    ("cells", "text", "tone"),
    [
        ([cell("plan", many(1.0)), CANNOT], "✓ cannot", "better"),
        ([cell("plan", many(1.0)), CANNOT, cell("direct-parallel")], "✓ cannot and failed", "better"),
        ([cell("plan", many(1.0)), UNTRIED], "not tried", ""),
        ([cell("plan", many(1.0)), UNMEASURED], "not measured", ""),
        ([cell("plan", many(1.0))], "–", ""),
        ([cell("plan"), cell("direct", many(1.0))], "✗ callgate has no answer", "worse"),
        ([cell("plan", outcome="not measured"), cell("direct", many(1.0))], "right", ""),
        ([cell("plan", many(1.0), outcome="wrong"), cell("direct", many(2.0))], "✗ callgate has no answer", "worse"),
        ([cell("plan", outcome="wrong"), cell("direct")], "failed", ""),
    ],
)
def test_a_right_answer_beats_none_and_what_was_not_tried_is_neither(cells: list[Cell], text: str, tone: str) -> None:
    assert direct(*cells) == (text, tone)


def test_the_fastest_modes_meet_and_like_stands_beside_like() -> None:
    found = ratios(
        cell("direct", many(9.0)), cell("direct-parallel", many(3.0)), cell("plan", many(2.0)),
        cell("code-jail", many(1.6)), cell("code-fast", many(1.0)), cell("langgraph", many(1.0)),
        cell("monty", many(1.0)), cell("smolagents", many(1.0)),
    )  # fmt: skip
    assert {name: value.text.strip("✓✗± ").split(" ")[0] for name, value in found.items()} == {
        "workload": "Weather", "callgate's fastest": "code-fast,", "direct calls": "0.33", "LangGraph": "2.00",
        "Monty": "1.60", "smolagents": "1.00",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (
            sample(),
            "Of 3 workloads, callgate's fastest mode beats direct calls in 1, loses in 1, neither wins nor loses in 1; "
            "1 of 2 targets are met.",
        ),
        (
            results(cell("plan", many(1.0, 1200)), cell("direct", many(2.0, 1000))),
            "Of 1 workload, callgate's fastest mode wins on one of time and tokens and loses on the other in 1.",
        ),
        (results(rows=sample().rows), "1 of 2 targets are met."),
        (results(), "Nothing was measured."),
    ],
)
def test_one_sentence_counts_what_came_of_it(run: Results, sentence: str) -> None:
    assert view(run).sentence == sentence


def test_bars_are_as_long_as_their_times() -> None:
    run = results(
        cell("direct", [a_round(4.0, tools=0.5, overhead=0.5)]), cell("plan", [a_round(2.0, tools=0.5, overhead=0.5)])
    )
    section = view(run).details[0]
    assert row(section, "direct calls, one a turn")["wall"].parts == (75.0, 12.5, 12.5)
    assert row(section, "execute_tool_plan")["wall"].parts == (25.0, 12.5, 12.5)


def test_a_run_without_waits_has_no_bars() -> None:
    section = view(results(cell("plan", [a_round(0.0, tools=0.0, overhead=0.0)]))).details[0]
    assert row(section, "execute_tool_plan")["wall"] == Value("0 s")


def test_a_real_model_is_not_called_simulated() -> None:
    seen = view(results(cell("plan", many(1.0)), model=REAL))
    assert "simulated" not in str(seen)
    assert "real: a-real-model, anthropic format, https://models.example/v1" in dict(seen.facts)["model"]


def test_an_interrupted_run_says_so_and_shows_what_was_measured() -> None:
    seen = view(results(cell("plan", many(1.0)), UNMEASURED, interrupted="Ctrl-C"))
    assert seen.alarm == "The run was interrupted: Ctrl-C."
    assert [each[0].text for each in seen.details[0].rows] == ["execute_tool_plan"]
    assert seen.details[0].notes == ("direct calls, one a turn not measured",)


@pytest.mark.parametrize(
    "run", [results(), results(model=None, entries=[]), results(cell("plan")), results(cell("monty"))]
)
def test_a_run_with_almost_nothing_in_it_has_a_view(run: Results) -> None:
    seen = view(run)
    assert all(len(each) == len(one.columns) for one in (*seen.summary, *seen.details) for each in one.rows)


def test_whatever_a_contestant_wrote_becomes_one_plain_line() -> None:
    hostile = "a\x1b[2J\x9b1m\u202egnp\r\n \ud800 b"
    entries = [replace(each, failure=hostile) if each.name == "docker" else each for each in ENTRIES]
    run = results(cell("monty", reason=hostile, note=hostile), entries=entries, machine=hostile, interrupted=hostile)
    told = str(view(run))
    assert told.count("a?[2J?1m?gnp ? b") == 5
    assert told.isprintable()
