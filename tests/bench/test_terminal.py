"""The table: every figure is there at the widths that people have, and what went wrong is said."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from bench.samples import ENTRIES, MODEL, SHAPES, a_round, cell, results, sample, steady
from callgate.bench.report.single_rows import rows_table
from callgate.bench.report.terminal import show
from callgate.bench.results import Results
from callgate.bench.rows import Row


def shown(run: Results, width: int = 180) -> str:
    told = StringIO()
    show(run, Console(file=told, width=width))
    return told.getvalue()


def line(text: str, begin: str) -> str:
    return next(each for each in text.splitlines() if each.startswith(begin))


@pytest.mark.parametrize("width", [100, 140, 180])
def test_no_figure_is_cut_and_no_line_is_longer_than_the_terminal(width: int) -> None:
    text = shown(sample(noise=0.3), width)
    assert all(len(each) <= width for each in text.splitlines())
    assert "…" not in text
    for shape in SHAPES:
        assert f"{shape.task.name}: {shape.task.title} (simulated model)" in text


@pytest.mark.parametrize("width", [60, 80])
def test_a_narrow_terminal_has_fewer_columns(width: int) -> None:
    text = shown(sample(), width)
    assert all(len(each) <= width for each in text.splitlines())
    assert "10 to 90 %" not in text


@pytest.mark.parametrize("width", [100, 180])
def test_a_row_has_all_that_was_measured(width: int) -> None:
    counts = {"turns": 7, "input_tokens": 26_887, "output_tokens": 6_894, "concurrency": 64}
    walls = [a_round(each, tools=0.25, overhead=0.0123, **counts) for each in (2.0, 2.1, 2.2)]
    text = shown(results(cell("plan", walls, peak_bytes=53_000_000)), width)
    row = line(text, "plan")
    assert " ".join(row.split()) == "plan right 7 26,887 6,894 2.1 s 2–2.2 1.84 s 250 ms 12.3 ms 64 53"


def test_a_spread_over_two_units_names_both() -> None:
    text = shown(results(cell("plan", [a_round(each, tools=0.1) for each in (0.9, 1.1, 1.2)])))
    assert "900 ms–1.2 s" in line(text, "plan")


def test_a_single_round_has_no_spread() -> None:
    assert "one round" in line(shown(results(cell("plan", [a_round()])), 100), "plan")


def test_many_tokens_are_told_in_millions() -> None:
    assert " 1.81M " in shown(results(cell("direct", [a_round(input_tokens=1_810_425)])))


def test_what_has_no_figures_says_why_under_the_table() -> None:
    text = shown(
        results(
            cell("plan", outcome="cannot", reason="no loops"),
            cell("langgraph", outcome="cannot", reason="no loops"),
            cell("smolagents", outcome="failed", reason="no answer within 120 s"),
            cell("monty", [a_round()], outcome="wrong", reason="not in the answer: 7"),
            cell("direct", [a_round()], note="its own words"),
        )
    )
    assert "plan; LangGraph cannot: no loops" in text
    assert "smolagents failed: no answer within 120 s" in text
    assert "Monty wrong: not in the answer: 7" in text
    assert "direct calls: its own words" in text
    assert line(text, "smolagents").split()[:4] == ["smolagents", "failed", "–", "–"]
    assert line(text, "Monty").split()[:4] == ["Monty", "wrong", "–", "–"]


def test_the_verdict_stands_under_the_table() -> None:
    text = shown(results(cell("direct", steady(4.0)), cell("plan", steady(1.0)), cell("langgraph", steady(2.0))))
    assert "plan: 4.0 × faster, as many tokens (beside direct calls)." in text
    assert (
        "plans: plan is 2.0 × faster than LangGraph, as many tokens; tools and own work alone: no difference." in text
    )


def test_the_summary_says_what_confines_whom_and_what_the_words_mean() -> None:
    text = " ".join(shown(sample()).split())
    assert (
        "container: code-docker, llm-sandbox; language: monty, pydantic-ai-harness, fastmcp; none: smolagents" in text
    )
    assert "or the input was too long for the model" in text
    assert "Peak memory is measured in one round of its own without waits" in text


def test_what_was_not_tried_is_not_called_unable() -> None:
    untried = cell("direct", outcome="cannot", reason="nobody multiplies so", tried=False)
    text = shown(results(untried, cell("plan", steady(1.0))))
    assert "not tried" in line(text, "direct calls")
    assert "direct calls not tried: nobody multiplies so" in text
    assert "direct calls were not tried: nobody multiplies so; plan does it in 1 s" in text


def test_an_interrupted_run_says_so_first_and_what_was_not_measured() -> None:
    text = shown(sample(interrupted="Ctrl-C"))
    assert text.startswith("The run was interrupted: Ctrl-C. What was measured before is below.")
    last = text[text.index("large: large") :]
    assert "llm-sandbox; bubblewrap not measured" in last
    assert "contestant" not in last[: last.index("single things")]


def test_peers_that_took_no_part_are_named_with_the_reason() -> None:
    assert "UTCP code-mode took no part: pip could not install it: no matching distribution" in shown(sample())


def test_a_real_model_is_not_called_simulated() -> None:
    text = shown(sample(model=replace(MODEL, simulated=False, name="some-model")))
    assert "(simulated model)" not in text
    assert "The model is real: some-model" in text


def test_the_machine_the_load_and_the_single_things_are_told() -> None:
    text = shown(sample(), 100)
    assert "single things, full run" in text
    assert "engine, a step" in text
    assert "2 cores, Python 3.11.2" in text
    assert "load average before: 0.40 0.50 0.60; after: 1.20 1.00 0.80" in text


def test_single_things_alone_have_no_summary_of_workloads() -> None:
    text = shown(results(rows=sample().rows, model=None))
    assert "engine, a step" in text
    assert "Summary" not in text


def test_what_a_peer_wrote_is_text_and_moves_no_cursor() -> None:
    reason = "[red]boom[/red] \x1b[2J\x1b]0;title\x07 \x9b1m end\r\nof [/it]"
    entries = [replace(each, failure="[bold]\x1b[31m") if each.name == "utcp" else each for each in ENTRIES]
    text = shown(results(cell("monty", reason=reason), entries=entries))
    assert "[red]boom[/red] ?[2J?]0;title? ?1m end of [/it]" in text
    assert not any(each in text for each in "\x1b\x07\x9b\r")


def test_markup_in_single_things_is_text() -> None:
    row = replace(sample().rows[0], measure="[a] measure", measured="[red]1[/red]", note="[/]")
    text = shown(results(rows=[row]))
    assert "[a] measure" in text
    assert "[red]1[/red]" in text


def test_rows_do_not_drive_the_terminal() -> None:
    row = Row(
        key="slow", measure="a\x1b[2Jb", measured="\x9b31m", peer="\u202egnp", note="c\x07", target="\x1b]0;t\x07"
    )
    written = StringIO()
    Console(file=written, width=120).print(rows_table([row], "\x1b[2J"))
    assert not set("\x1b\x9b\x07\u202e") & set(written.getvalue())
    assert "a?[2Jb" in written.getvalue()
