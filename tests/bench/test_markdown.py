"""The page of the documentation: what was measured, where, and how to read it; nothing that a peer wrote is a mark."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bench.samples import ENTRIES, MODEL, SHAPES, a_round, cell, results, sample, steady
from callgate.bench.report.markdown import markdown
from callgate.bench.results import Yardstick


def headings(text: str) -> list[str]:
    return re.findall(r"^## (.*)$", text, re.MULTILINE)


def cells(line: str) -> list[str]:
    """Of a line of a table; a bar with a backslash before it is none."""
    return [each.strip() for each in re.split(r"(?<!\\)\|", line)[1:-1]]


def tables(text: str) -> list[list[list[str]]]:
    found: list[list[list[str]]] = []
    before = False
    for line in text.splitlines():
        now = line.startswith("|")
        if now and not before:
            found.append([])
        if now:
            found[-1].append(cells(line))
        before = now
    return found


def test_a_whole_page_has_its_parts_in_order() -> None:
    text = markdown(sample())
    assert headings(text) == [
        "What came of it", "How to read it", "Workloads", "Who took part", "Single things", "Limits",
    ]  # fmt: skip
    assert re.findall(r"^### (.*)$", text, re.MULTILINE) == [shape.task.title for shape in SHAPES]
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


@pytest.mark.parametrize("interrupted", ["", "Ctrl-C"])
def test_every_table_is_as_wide_in_each_of_its_lines(interrupted: str) -> None:
    found = tables(markdown(sample(interrupted=interrupted)))
    assert len(found) == (11 if interrupted else 12)
    for table in found:
        assert {len(line) for line in table} == {len(table[0])}


def test_it_says_when_where_and_with_what_it_was_made() -> None:
    text = markdown(sample(sizes="quick run"))
    for part in (
        "Made 2026-11-22T10:00:00Z: quick run, by `callgate bench`",
        "2 cores, Python 3.11.2, callgate 0.1.0",
        "Load average before: 0.40 0.50 0.60; after: 1.20 1.00 0.80",
        "Sandbox: jail, tier 1",
        "30 times",
    ):
        assert part in text


def test_a_simulated_model_is_called_so_wherever_its_figures_are() -> None:
    text = markdown(sample())
    assert (
        "**The model is simulated**: a script answers over HTTP in OpenAI's format, and waits 600 ms for each" in text
    )
    assert "counted with o200k_base" in text
    assert "Prompt caching is not simulated" in text
    assert "The scripted model makes no mistakes." in text
    assert text.count("| model (simulated) |") == len(SHAPES)


def test_a_real_model_is_not_called_simulated() -> None:
    real = replace(MODEL, simulated=False, name="some-model", endpoint="https://example.org/v1")
    text = markdown(sample(model=real))
    assert "simulated" not in text.replace("which is simulated", "")
    assert "The model is real: some-model, OpenAI's format, https://example.org/v1." in text
    assert "They are the provider's own figures." in text


def test_verdicts_stand_in_the_first_table_and_with_each_workload() -> None:
    text = markdown(results(cell("direct", steady(4.0)), cell("plan", steady(1.0)), cell("langgraph", steady(2.0))))
    told = "plan: 4.0 × faster, as many tokens (beside direct calls)"
    assert tables(text)[0][2][:2] == ["weather comparison", told]
    peers = "plan is 2.0 × faster than LangGraph, as many tokens; tools and own work alone: no difference."
    assert tables(text)[0][2][2] == f"Plans: {peers}"
    assert f"**{told}.**\n\n- Beside peers, plans: {peers}\n" in text


def test_the_page_says_how_peers_are_held_and_what_the_words_mean() -> None:
    text = " ".join(markdown(sample()).split())
    assert "same script" not in text
    assert "the fastest peer, by wall time, which has the model's part in it" in text
    assert "below 2 % (10 % with less than 3 rounds), and one in tokens, which are counted exactly, below 1 %" in text
    assert "**cannot**: the contestant has no way to do the workload, or the input was too long for the model" in text
    assert "It is measured in one round of its own without waits" in text


def test_the_table_of_contestants_says_what_confines_them_and_whose_words_the_model_got() -> None:
    (who,) = [table for table in tables(markdown(sample())) if "confined by" in table[0]]
    found = {line[1]: line[3:5] for line in who}
    assert found["code-jail"] == ["kernel", "callgate's"]
    assert found["monty"] == ["language", "callgate's"]
    assert found["smolagents"] == ["none", "its own"]
    assert found["utcp"] == ["language", "–"]


def test_a_row_has_all_that_was_measured() -> None:
    rounds = [a_round(each, tools=0.25, overhead=0.0123, concurrency=64) for each in (2.0, 2.1, 2.2)]
    table = tables(markdown(results(cell("plan", rounds, peak_bytes=53_000_000))))[1]
    assert table[2] == [
        "plan", "right", "2", "2,000", "150", "2.1 s", "2–2.2", "1.84 s", "250 ms", "12.3 ms", "64", "53",
    ]  # fmt: skip


def test_cells_without_figures_say_why() -> None:
    text = markdown(results(cell("plan", outcome="cannot", reason="no loops"), cell("monty", reason="it died")))
    assert "- plan cannot: no loops" in text
    assert "- Monty failed: it died" in text


def test_peers_that_took_no_part_are_listed_with_the_reason() -> None:
    text = markdown(sample())
    (row,) = [line for table in tables(text) for line in table if line[0] == "UTCP code-mode"]
    assert row[-1] == "took no part: pip could not install it: no matching distribution"


def test_a_note_is_told_once_and_names_the_workloads_where_it_is_not_for_all() -> None:
    cells = [cell("plan", [a_round()], workload=name, note="its own words") for name in ("weather", "budget")]
    cells += [cell("monty", [a_round()], workload="weather", note="n"), cell("monty", [a_round()], workload="budget")]
    text = markdown(results(*cells))
    assert text.count("- plan: its own words") == 1
    assert "- Monty (weather): n" in text


def test_an_interrupted_run_says_so_before_anything_else_is_told() -> None:
    text = markdown(sample(interrupted="Ctrl-C"))
    assert text.index("**The run was interrupted: Ctrl-C.**") < text.index("## What came of it")
    assert "LLMCompiler's scheduler; llm-sandbox; bubblewrap not measured" in text


def test_single_things_keep_their_form() -> None:
    text = markdown(sample())
    assert "| measure | measured | target | | ratio | peer | remarks |" in text
    assert "targets met." in text
    assert "Missed, and what bounds it:" in text


def test_single_things_alone_make_a_page_without_workloads() -> None:
    text = markdown(results(rows=sample().rows, model=None, yardstick=Yardstick(), sandbox=""))
    assert headings(text) == ["Single things", "Limits"]
    assert "simulated" not in text
    assert "Yardstick" not in text


def test_what_a_contestant_wrote_is_text() -> None:
    reason = "a | b\n# c <script>x</script> **d** [e](f) `g` \\ &amp; __h__ snake_case \x1b[2J"
    entries = [replace(each, version="1|2", failure="<b>") if each.name == "utcp" else each for each in ENTRIES]
    text = markdown(results(cell("monty", reason=reason, note="n|n"), entries=entries, interrupted="<i>"))
    told = r"Monty failed: a \| b \# c &lt;script>x&lt;/script> \*\*d\*\* \[e\](f) \`g\` \\ &amp;amp; "
    assert told + r"\_\_h\_\_ snake_case ?\[2J" in text
    assert "<" not in text
    for table in tables(text):
        assert {len(line) for line in table} == {len(table[0])}


def test_a_command_with_backquotes_stays_one_piece_of_code() -> None:
    assert "by `callgate bench --only x`." in markdown(results(command="callgate bench --only `x`"))
