"""Callgate's modes beside peers: like beside like, by wall time and tokens, with the model's part in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.samples import ENTRIES, cell, results, steady
from callgate.bench.contestants.listed import MODES, PEERS
from callgate.bench.report.beside_peers import BesidePeers, kind
from callgate.bench.report.results_json import read
from callgate.bench.report.verdicts import verdict
from callgate.bench.results import Cell, Entry, Round

BY_NAME = {each.name: each for each in ENTRIES}


def many(wall: float, *, tokens: int = 2000, **fields: Any) -> list[Round]:
    return steady(wall, input_tokens=tokens - 100, output_tokens=100, **fields)


def beside(*cells: Cell, **fields: Any) -> dict[str, BesidePeers]:
    return {each.kind: each for each in verdict(results(*cells, **fields), "weather").peers}


def one(*cells: Cell) -> BesidePeers:
    (found,) = beside(*cells).values()
    return found


def test_a_peer_with_fewer_turns_is_faster_however_alike_tools_and_own_work_are() -> None:
    ours = cell("code-fast", many(1.4, turns=2, tools=0.3, overhead=0.01))
    found = one(ours, cell("smolagents", many(1.0, turns=1, tools=0.3, overhead=0.01)))
    assert found.time is not None
    assert found.time.says == "more"
    assert found.text == (
        "programs without a sandbox: code, fast path (host: nothing is executed) is 1.40 × slower than "
        "smolagents (none), as many tokens, 2 turns beside 1; tools and own work alone: no difference"
    )


def test_tokens_are_compared_and_both_counts_told() -> None:
    ours = cell("code-jail", many(1.0, tokens=1896, tools=0.1, overhead=0.05))
    found = one(ours, cell("monty", many(1.0, tokens=2089, tools=0.1, overhead=0.1)))
    assert found.text == (
        "programs in a sandbox: no difference in wall time between code, jail (kernel) and Monty (language), "
        "9 % fewer tokens (1,896 beside 2,089); tools and own work alone: 25 % less time; "
        "own work 50 ms beside 100 ms (2.0 × less)"
    )


def test_the_fastest_of_each_side_stands_for_its_kind() -> None:
    found = one(
        cell("code-jail", many(3.0)), cell("code-docker", many(2.0)), cell("monty", many(4.0, overhead=0.0)),
        cell("fastmcp", many(1.0, overhead=0.5)),
    )  # fmt: skip
    assert (found.mode, found.peer) == (BY_NAME["code-docker"], BY_NAME["fastmcp"])
    assert "code, docker (container) is 2.0 × slower than FastMCP code mode (language)" in found.text


def test_like_is_held_against_like() -> None:
    found = beside(
        *(cell(each.name, many(1.0 + place / 10)) for place, each in enumerate(ENTRIES) if each.name != "utcp")
    )
    assert {name: (each.mode and each.mode.name, each.peer and each.peer.name) for name, each in found.items()} == {
        "plans": ("plan", "langgraph"),
        "programs in a sandbox": ("code-jail", "monty"),
        "programs without a sandbox": ("code-fast", "smolagents"),
    }


def test_own_work_that_waits_of_tools_would_hide_is_told_with_its_ratio() -> None:
    ours = cell("plan", many(2.0, tools=1.5, overhead=0.027))
    found = one(ours, cell("langgraph", many(2.0, tools=1.5, overhead=0.002)))
    assert found.text.endswith("tools and own work alone: no difference; own work 27 ms beside 2 ms (14 × more)")


def test_own_work_of_one_side_that_took_no_time_is_told_without_a_ratio() -> None:
    found = one(cell("plan", many(2.0, overhead=0.027)), cell("langgraph", many(2.0, overhead=0.0)))
    assert found.text.endswith("own work 27 ms beside 0 s")


def test_another_peer_with_fewer_tokens_is_named() -> None:
    ours, fast = cell("code-jail", many(2.0, tokens=1500)), cell("monty", many(1.0, tokens=1600))
    few, as_many = cell("fastmcp", many(3.0, tokens=900)), cell("fastmcp", many(3.0, tokens=1499))
    assert one(ours, fast, few).text.endswith("of these peers FastMCP code mode takes the fewest tokens, 900")
    assert one(ours, fast, as_many).frugal is None
    assert one(ours, fast).frugal is None


def test_tokens_that_were_not_counted_are_not_compared() -> None:
    untold = steady(1.0, input_tokens=0, output_tokens=0)
    assert "tokens not counted" in one(cell("plan", many(1.0)), cell("langgraph", untold)).text


def test_few_rounds_are_told() -> None:
    assert one(cell("plan", many(1.0, count=1)), cell("langgraph", many(2.0, count=1))).text.startswith(
        "plans (one round): plan is 2.0 × faster than LangGraph"
    )


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        ([cell("plan", many(2.0)), cell("langgraph")], "plans: plan has a right answer, no peer has one"),
        ([cell("plan"), cell("langgraph", many(2.0))], "plans: LangGraph has a right answer, callgate has none"),
        ([cell("plan"), cell("langgraph")], "plans: no peer has a right answer, callgate has none"),
        (
            [cell("code-jail", many(1.0)), cell("langgraph", many(2.0))],
            "plans: LangGraph has a right answer, callgate's modes were not measured",
        ),
        (
            [cell("code-fast", many(2.0)), cell("monty", many(1.0), outcome="wrong")],
            "programs in a sandbox: no peer has a right answer, callgate's modes were not measured",
        ),
    ],
)
def test_a_side_without_a_right_answer_is_told(cells: list[Cell], text: str) -> None:
    assert one(*cells).text == text


def test_a_kind_without_a_peer_is_left_out() -> None:
    assert beside(cell("plan", many(2.0)), cell("code-jail", many(2.0)), cell("direct", many(1.0))) == {}


def test_results_that_do_not_say_what_confines_hold_all_programs_together() -> None:
    entries = [replace(each, confined="") for each in ENTRIES]
    found = beside(cell("code-jail", many(2.0)), cell("smolagents", many(1.0)), entries=entries)
    assert found["programs"].text.startswith("programs: code, jail is 2.0 × slower than smolagents, ")


def test_everyone_who_takes_part_says_what_confines_it() -> None:
    listed = [
        Entry(name=each.name, title=each.title, mode=each.mode, ours=each in MODES, about="", confined=each.confined)
        for each in (*MODES, *PEERS)
    ]
    assert all(each.confined for each in listed)
    ours = {each.name: kind(each) for each in listed if each.ours}
    assert ours == {
        "direct": "", "direct-parallel": "", "plan": "plans", "code-jail": "programs in a sandbox",
        "code-docker": "programs in a sandbox", "code-fast": "programs without a sandbox",
    }  # fmt: skip


def test_a_file_of_before_these_fields_is_read(tmp_path: Path) -> None:
    run = results(cell("direct", outcome="cannot", tried=False), cell("code-jail", many(2.0)), cell("monty", many(4.0)))
    found = run.to_dict()
    for entry in found["entries"]:
        del entry["confined"], entry["own_words"]
    for each in found["cells"]:
        del each["tried"]
    (tmp_path / "old.json").write_text(json.dumps(found))
    told = verdict(read(tmp_path / "old.json"), "weather")
    assert told.text.startswith("direct calls cannot; code, jail does it in 2 s")
    assert [each.text.partition(",")[0] for each in told.peers] == ["programs: code"]
