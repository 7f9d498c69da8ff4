"""What is said of cells: the same words for the terminal and the page."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.samples import ENTRIES, a_round, cell, results
from callgate.bench.report.cell_words import confinements, figures, notes, reasons, words_of
from callgate.bench.results import Cell, Entry

BY_NAME = {each.name: each for each in ENTRIES}


def pairs(*cells: Cell) -> list[tuple[Entry, Cell]]:
    return [(BY_NAME[each.contestant], each) for each in cells]


@pytest.mark.parametrize("outcome", ["wrong", "failed", "cannot", "not measured"])
def test_a_cell_that_is_not_right_has_no_figures_but_its_memory(outcome: str) -> None:
    assert figures(cell("plan", [a_round()], outcome=outcome, peak_bytes=7_000_000)) == ["–"] * 9 + ["7"]


def test_a_cell_without_overhead_has_zero_seconds_of_it() -> None:
    assert figures(cell("plan", [a_round(overhead=0.0)]))[7:] == ["0 s", "1", "–"]


def test_tokens_that_the_provider_does_not_tell_are_no_figure() -> None:
    assert figures(cell("plan", [a_round(input_tokens=0, output_tokens=0)]))[:3] == ["2", "–", "–"]


def test_contestants_with_the_same_reason_are_told_together() -> None:
    cells = pairs(
        cell("plan", outcome="cannot", reason="no loops"),
        cell("monty"),
        cell("langgraph", outcome="cannot", reason="no loops"),
    )
    assert reasons(cells) == ["plan; LangGraph cannot: no loops", "Monty failed"]


def test_a_right_answer_needs_no_reason() -> None:
    assert reasons(pairs(cell("plan", [a_round()], reason="left from before"))) == []


def test_notes_of_cells_that_were_not_measured_are_left_out() -> None:
    run = results(cell("plan", [a_round()], note="n"), cell("monty", outcome="not measured", note="m"))
    assert notes(run) == ["plan: n"]


def test_what_was_not_tried_is_not_said_to_be_impossible_for_it() -> None:
    cells = pairs(cell("direct", outcome="cannot", reason="why", tried=False), cell("plan", outcome="cannot"))
    assert reasons(cells) == ["direct calls not tried: why", "plan cannot"]


def test_words_are_callgate_s_for_its_modes_and_for_peers_that_have_none() -> None:
    told = [words_of(BY_NAME[name]) for name in ("plan", "monty", "fastmcp", "utcp")]
    assert told == ["callgate's", "callgate's", "its own", "–"]


def test_confinements_are_told_by_name_of_those_who_took_part() -> None:
    entries = [BY_NAME[name] for name in ("code-jail", "bubblewrap", "smolagents", "utcp")]
    assert confinements(entries) == "kernel: code-jail, bubblewrap; none: smolagents"
    assert confinements([replace(entries[0], confined="")]) == ""
