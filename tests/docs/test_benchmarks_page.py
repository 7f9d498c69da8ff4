"""The pages of benchmarks end with what the committed runs of `callgate bench` say, and the README quotes one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from callgate_bench.contestants.listed import MODES, PEERS
from callgate_bench.report.drawn import MARK, inserted
from callgate_bench.report.view import view
from callgate_bench.results import read
from callgate_bench.workloads import WORKLOADS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WHOLE = ["benchmarks", "benchmarks_3.13"]
PAGES = [*WHOLE, "benchmarks_durable"]
RESULTS = read(DOCS / "benchmarks.json")


@pytest.mark.parametrize("name", PAGES)
def test_the_end_of_the_page_is_written_from_the_committed_run(name: str) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert MARK in page
    assert inserted(page, view(read(DOCS / f"{name}.json"))) == page


@pytest.mark.parametrize("name", WHOLE)
def test_the_run_was_whole(name: str) -> None:
    run = read(DOCS / f"{name}.json")
    assert run.interrupted == ""
    assert [task.name for task in run.tasks] == list(WORKLOADS)
    took_part = {entry.name for entry in run.entries}
    assert took_part >= {each.name for each in MODES} | {"monty", "pydantic-ai", "fastmcp", "smolagents", "langgraph"}
    assert took_part <= {each.name for each in (*MODES, *PEERS)}
    assert not [cell for cell in run.cells if cell.outcome == "not measured"]


def test_the_readme_quotes_it() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    quoted = re.findall(
        r"^\| ([\w -]+) \| (\d+) → (\d+) \| ([\d,]+) → ([\d,]+) \| ([\d.]+) s → ([\d.]+) s"
        r" \| (\d+) turns?, ([\d,]+) tokens, ([\d.]+) s \|$",
        readme,
        re.M,
    )
    assert len(quoted) == 4
    titles = {task.title.lower(): task.name for task in RESULTS.tasks}
    for title, *figures in quoted:
        direct = RESULTS.cell(titles[title.lower()], "direct-parallel")
        code = RESULTS.cell(titles[title.lower()], "code-jail")
        assert direct is not None
        assert code is not None
        assert figures[:2] == [f"{direct.median('turns'):.0f}", f"{code.median('turns'):.0f}"]
        tokens = [cell.median("input_tokens") + cell.median("output_tokens") for cell in (direct, code)]
        assert figures[2:4] == [f"{each:,.0f}" for each in tokens]
        assert figures[4:6] == [f"{cell.figure('wall_seconds').p50:.1f}" for cell in (direct, code)]
        answers = RESULTS.cell(titles[title.lower()], "code-fast-answers")
        assert answers is not None
        spent = answers.median("input_tokens") + answers.median("output_tokens")
        seconds = answers.figure("wall_seconds").p50
        assert figures[6:] == [f"{answers.median('turns'):.0f}", f"{spent:,.0f}", f"{seconds:.1f}"]
