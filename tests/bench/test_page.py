"""The report page: well-formed, self-contained, complete, harmless whatever peers say, and readable by everyone."""

from __future__ import annotations

import copy
import re
from dataclasses import fields, is_dataclass, replace
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.pages import HOSTILE, SAMPLES, SHOWN, Balance, rows, section, tree, words
from bench.samples import ENTRIES, cell, results, steady
from callgate.bench.figures import seconds
from callgate.bench.report.page import render
from callgate.bench.report.page.texts import clean, size, spread
from callgate.bench.results import Cell, Entry, Results, Task
from callgate.bench.rows import Row

_ALLOWED_HREF = re.compile(r"#[a-z0-9-]+")


@pytest.fixture(params=SAMPLES, scope="module")
def page(request: pytest.FixtureRequest) -> str:
    return render(SAMPLES[request.param])


@pytest.fixture(scope="module")
def full() -> Element:
    return tree(render(SAMPLES["full"]))


def test_the_page_is_well_formed(page: str) -> None:
    read = Balance(page)
    assert page.startswith("<!DOCTYPE html>\n<html")
    assert (read.open, read.faults) == ([], [])
    assert tree(page).tag == "html"


def test_nothing_comes_from_outside_and_nothing_runs(page: str) -> None:
    read = Balance(page)
    assert not read.tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use"}
    names = {name for name, _ in read.attributes}
    assert not names & {"src", "srcset", "style", "action", "xlink:href", "background"}
    assert not [name for name in names if name.startswith("on")]
    root = tree(page)
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    links = [value for name, value in read.attributes if name == "href"]
    assert len(ids) == len(set(ids))
    assert all(_ALLOWED_HREF.fullmatch(link) and link[1:] in ids for link in links)
    style = words(root.find(".//style"))
    assert not set("<>&") & set(style)
    assert "@import" not in style
    assert set(re.findall(r"url\(([^)]*)\)", style)) <= {f"#{name}" for name in ids}
    assert "default-src 'none'" in page


def test_headings_tables_and_plots_are_named_for_those_who_do_not_see_them(page: str) -> None:
    root = tree(page)
    ids = {each.get("id") for each in root.iter()}
    levels = [int(each.tag[1]) for each in root.iter() if re.fullmatch(r"h\d", each.tag)]
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert all(head.get("scope") for head in root.iter("th"))
    assert all(words(table.find("caption")) for table in root.iter("table"))
    assert all(
        box.get("tabindex") == "0" and box.get("aria-label") for box in root.iter() if box.get("role") == "region"
    )
    for plot in (each for each in root.iter("svg") if each.get("role") == "img"):
        assert words(plot.find("title"))
        assert words(plot.find("desc"))
        assert set((plot.get("aria-labelledby") or "").split()) <= ids
    for drawn in (each for each in root.iter("svg") if each.get("role") != "img"):
        assert drawn.get("aria-hidden") == "true" or drawn.find("title") is not None


def test_the_same_results_give_the_same_page() -> None:
    assert render(copy.deepcopy(SAMPLES["full"])) == render(SAMPLES["full"])


def _hostile(value: Any) -> Any:
    """The same, with hostile texts wherever there are texts that mean nothing to the page."""
    if isinstance(value, list):
        return [_hostile(each) for each in value]
    if not is_dataclass(value) or isinstance(value, type):
        return value
    kept = {"outcome", "mode", "name", "workload", "contestant", "verdict", "key"}
    changed = {}
    for each in fields(value):
        one = getattr(value, each.name)
        changed[each.name] = HOSTILE if isinstance(one, str) and each.name not in kept else _hostile(one)
    return replace(value, **changed)


def test_texts_from_outside_stay_texts() -> None:
    tame, wild = SAMPLES["interrupted"], _hostile(SAMPLES["interrupted"])
    page = render(wild)
    read = Balance(page)
    assert (read.open, read.faults) == ([], [])
    assert read.tags == Balance(render(tame)).tags
    assert {name for name, _ in read.attributes} == {name for name, _ in Balance(render(tame)).attributes}
    assert " ".join(SHOWN.split()) in words(tree(page))
    assert page.encode("utf-8")
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", page)


def test_hostile_names_are_no_markup_either() -> None:
    entry = replace(ENTRIES[0], name=HOSTILE, title=HOSTILE)
    made = Results(
        made=HOSTILE, sizes="full run", command=HOSTILE, machine=HOSTILE, load="", sandbox="", entries=[entry],
        tasks=[Task(name=HOSTILE, title=HOSTILE, about="", data="", task=""),
               Task(name=HOSTILE.upper(), title="the same but for its case", about="", data="", task="")],
        cells=[Cell(workload=HOSTILE, contestant=HOSTILE, outcome="right", rounds=steady(1.0))],
    )  # fmt: skip
    read = Balance(render(made))
    assert (read.open, read.faults) == ([], [])
    assert not read.tags & {"script", "img"}


@given(st.text(st.characters()))
def test_a_cleaned_text_is_xml_and_utf_8(text: str) -> None:
    told = clean(text)
    assert ElementTree.fromstring(f"<a>{told.replace('&', '').replace('<', '')}</a>").tag == "a"
    assert told.encode("utf-8") is not None


def test_a_text_without_end_is_cut() -> None:
    page = render(results(cell("plan", reason="W" * 1_000_000, answer="V" * 1_000_000)))
    assert len(page) < 100_000


def test_the_figures_of_every_cell_are_in_its_row(full: Element) -> None:
    run, seen = SAMPLES["full"], 0
    for task in run.tasks:
        told = dict(rows(full, f"workload-{task.name}", "contest"))
        for entry in (each for each in run.entries if not each.failure):
            found = run.cell(task.name, entry.name)
            assert found is not None
            row = told[entry.title]
            assert found.outcome in row
            if not found.rounds:
                assert found.reason in row
                continue
            durations = [found.figure(f"{name}_seconds").p50 for name in ("wall", "model", "tool", "overhead")]
            counts = [found.median(name) for name in ("turns", "input_tokens", "output_tokens", "calls", "concurrency")]
            wanted = [*map(seconds, durations), *(f"{count:,.0f}" for count in counts), size(found.peak_bytes)]
            assert all(each in row for each in wanted), (wanted, row)
            assert spread(found, "wall_seconds") in row
            seen += 1
    assert seen > 100


def test_every_workload_has_its_description_its_verdict_and_its_plots(full: Element) -> None:
    run = SAMPLES["full"]
    for task in run.tasks:
        part = section(full, f"workload-{task.name}")
        told = words(part)
        assert all(each in told for each in (task.about, task.data, task.task, task.note))
        assert words(part.find("p[@class='verdict']")) in words(section(full, "verdicts"))
        assert len([each for each in part.iter("svg") if each.get("role") == "img"]) == 4


def test_the_overview_has_everyone_s_time_in_every_workload(full: Element) -> None:
    told = dict(rows(full, "overview", "matrix"))
    run = SAMPLES["full"]
    for entry in (each for each in run.entries if not each.failure):
        for task in run.tasks:
            found = run.cell(task.name, entry.name)
            assert found is not None
            said = seconds(found.figure("wall_seconds").p50) if found.rounds else found.outcome
            assert said in told[entry.title]


def test_who_took_no_part_is_named_with_the_reason(full: Element) -> None:
    told = words(section(full, "contestants"))
    for entry in SAMPLES["full"].entries:
        assert f"took no part: {entry.failure}" in told if entry.failure else entry.about in told


def test_single_measurements_are_all_there(full: Element) -> None:
    run = SAMPLES["full"]
    told = dict(rows(full, "single", "single"))
    for row in run.rows:
        wanted = (row.measured, row.target, row.verdict, row.peer, row.note)
        assert all(each in told[row.measure] for each in wanted)
        assert row.ratio is None or f"{row.ratio:.2f} ×" in told[row.measure]
    assert "Of 5 targets:" in words(section(full, "single"))


def test_rows_without_a_target_are_not_judged() -> None:
    root = tree(render(results(rows=[Row(key="a", measure="b", measured="c", ratio=0.0123)], entries=(), model=None)))
    assert "No row has a target." in words(section(root, "single"))
    assert "0.012 ×" in words(section(root, "single"))


def test_machine_load_and_steadiness_are_told(full: Element) -> None:
    told, run = words(section(full, "run")), SAMPLES["full"]
    assert all(each in told for each in (run.machine, run.load, run.load_after, run.sandbox, run.command))
    assert "2026-11-22, 10:00 UTC" in told
    assert "done 30 times" in told


def test_a_simulated_model_is_called_so_first_with_its_waits_and_its_limit(full: Element) -> None:
    head = words(full.find("body/header"))
    assert "Simulated model." in head
    assert "600 ms a turn and 4 ms an output token" in head
    assert "refuses input of more than 128,000 tokens; tokens counted by o200k_base" in words(section(full, "run"))
    assert "a script that knows what to do" in words(section(full, "reading"))


def test_a_real_model_is_not_called_simulated() -> None:
    root = tree(render(SAMPLES["real"]))
    assert "Real model. a-real-model." in words(root.find("body/header"))
    assert "simulated" not in words(root.find("body/header")).lower()
    assert "real: a-real-model; Anthropic wire format; at https://models.example/v1" in words(section(root, "run"))


def test_an_interrupted_run_says_so_before_anything_else() -> None:
    root = tree(render(SAMPLES["interrupted"]))
    body = root.find("body/header")
    assert body is not None
    assert (
        words(body[0])
        == "Interrupted. This run is not whole: Ctrl-C. 14 pairs of workload and contestant were not measured."
    )
    assert "(interrupted)" in words(root.find("head/title"))
    assert "not measured" in dict(rows(root, "workload-large", "contest"))["plan"]
    assert "Interrupted" not in words(tree(render(SAMPLES["full"])).find("body/header"))


def test_an_interrupted_run_without_cells_is_a_page() -> None:
    root = tree(render(SAMPLES["tasks, nothing measured"]))
    assert "What is below was measured before." in words(root.find("body/header"))
    assert words(section(root, "workload-weather").find("p[@class='verdict']")) == "Not measured."


def test_wrong_answers_keep_their_figures_and_stay_out_of_the_plots() -> None:
    wrong = cell("monty", steady(0.5), outcome="wrong", reason="not in the answer: 7", answer="It is 8.")
    root = tree(render(results(cell("direct", steady(9.0)), cell("plan", steady(2.0)), wrong)))
    part = section(root, "workload-weather")
    assert "Not in the plots: Monty (wrong)." in words(part)
    assert all("Monty" not in words(plot) for plot in part.iter("svg"))
    row = dict(rows(root, "workload-weather", "contest"))["Monty"]
    assert "500 ms" in row
    assert "faster" not in row
    assert "Monty: not in the answer: 7" in words(part)
    assert "It is 8." in words(part.find("details"))


def test_tokens_that_were_not_counted_are_not_called_none() -> None:
    untold = steady(2.0, input_tokens=0, output_tokens=0)
    root = tree(render(results(cell("direct", steady(9.0)), cell("plan", untold))))
    assert "2 turns, tokens not counted" in words(section(root, "verdicts"))
    assert "not counted" in dict(rows(root, "workload-weather", "contest"))["plan"]
    assert " 0 tokens" not in words(root)


def test_one_workload_has_no_overview_beside_it() -> None:
    root = tree(render(SAMPLES["one workload"]))
    assert root.find(".//section[@id='overview']") is None
    assert "4.5 × faster" in dict(rows(root, "workload-weather", "contest"))["plan"]


def test_a_page_of_rows_alone_has_nothing_of_workloads() -> None:
    root = tree(render(SAMPLES["rows only"]))
    assert [each.get("id") for each in root.iter("section")] == ["run", "single", "reading"]
    assert words(root.find(".//h1")) == "callgate, measured"


def test_verdicts_are_told_in_words_and_not_by_colour_alone(full: Element) -> None:
    coloured = [each for each in full.iter() if (each.get("class") or "").split()[:1] in (["good"], ["bad"], ["warn"])]
    assert coloured
    assert all(re.search(r"[a-z]{3}", words(each)) for each in coloured)


def test_notes_are_told_once_for_all_that_have_them() -> None:
    said = [cell(name, steady(2.0), note="seen before") for name in ("plan", "monty")]
    part = section(tree(render(results(cell("direct", steady(3.0)), *said))), "workload-weather")
    assert [words(each) for each in part.iterfind("ul[@class='left-out']/li")] == ["plan; Monty: seen before"]
    assert "Notes" not in words(section(tree(render(SAMPLES["one workload"])), "workload-weather"))


def test_the_table_goes_without_direct_calls() -> None:
    only = Entry(name="plan", title="plan", mode="plan", ours=True, about="")
    told = words(section(tree(render(results(cell("plan", steady(2.0)), entries=[only]))), "workload-weather"))
    assert "Beside" not in told
    assert "faster" not in told


def test_beside_peers_the_page_names_both_sides_with_what_confines_them() -> None:
    root = tree(render(results(cell("code-fast", steady(1.4, turns=2)), cell("smolagents", steady(1.0, turns=1)))))
    told = words(section(root, "verdicts"))
    assert "Who wins is about callgate's modes beside direct calls." in told
    assert (
        "Beside peers, programs without a sandbox: code, fast path (host: nothing is executed) is 1.40 × slower" in told
    )
    assert "than smolagents (none), as many tokens, 2 turns beside 1" in told


def test_contestants_are_told_with_what_confines_them_and_whose_words_the_model_got(full: Element) -> None:
    told = dict(rows(full, "contestants", "who"))
    assert "a programkernelcallgate's" in told["code, jailcode-jail"]
    assert "a programlanguagecallgate's" in told["Montymonty"]
    assert "a programnoneits own" in told["smolagentssmolagents"]
    unknown = Entry(name="plan", title="plan", mode="plan", ours=True, about="")
    (row,) = rows(tree(render(results(entries=[unknown]))), "contestants", "who")
    assert "a planunknowncallgate's" in row[1]


def test_what_was_not_tried_is_said_to_be_that() -> None:
    untried = cell("direct", outcome="cannot", reason="nobody multiplies so", tried=False)
    root = tree(render(results(untried, cell("plan", steady(1.0)))))
    assert "direct calls not tried" in words(section(root, "verdicts"))
    assert "– not tried nobody multiplies so" in dict(rows(root, "workload-weather", "contest"))["direct calls"]
    assert "Not in the plots: direct calls (not tried)." in words(section(root, "workload-weather"))


def test_the_key_tells_what_cannot_means_and_how_memory_was_measured(full: Element) -> None:
    told = words(section(full, "reading"))
    assert "or the input was too long for the model" in told
    assert "It is measured in one round of its own without waits" in told
    assert "tokens are counted exactly, and differ from 1 % on" in told
