"""The rules of the router: each can be the one, they end in one that always holds, and the table shows them all."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from callgate.agent.routing.profile import TaskProfile
from callgate.agent.routing.router import DIRECT_PATIENCE, PATIENCE, Router
from callgate.agent.routing.rules import BELOW, FEW, RULES, rules_table
from callgate.agent.routing.words import WORD_RULES

ANY = TaskProfile(tools=3, calls=1)

EXAMPLES = {
    "no tools": TaskProfile(),
    "judgement": replace(ANY, judgement=True, dependent=True, calls=7),
    "computing": replace(ANY, computing=True),
    "many and sums": replace(ANY, repetition=True, arithmetic=True),
    "large results": replace(ANY, volume=True),
    "filter": replace(ANY, repetition=True, selection=True),
    "many": replace(ANY, repetition=True),
    "one call": ANY,
    "chain": replace(ANY, calls=3, dependent=True),
    "few calls": replace(ANY, calls=FEW),
    "many calls": replace(ANY, calls=FEW + 1),
}


def test_every_rule_has_an_example_here() -> None:
    assert list(EXAMPLES) == [rule.name for rule in RULES]


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_rule_can_be_the_one(name: str) -> None:
    assert Router().route(EXAMPLES[name]).rule == name


def test_the_last_rule_holds_always() -> None:
    assert RULES[-1].when(TaskProfile())


def test_the_ladder_leads_down_to_direct_calls() -> None:
    for form, steps in (("code", 2), ("plan", 1), ("direct", 0)):
        below = form
        for _ in range(steps):
            below = BELOW[below]  # type: ignore[index,assignment]
        assert below == "direct"
    assert BELOW["direct"] is None


def test_the_table_shows_every_rule() -> None:
    lines = rules_table().splitlines()
    assert len(lines) == len(RULES) + 2
    assert lines[2] == ("| no tools | there are no tools | direct | there is nothing to call |")
    assert all(line.count("|") == 5 for line in lines)


def test_the_page_has_the_table_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "agents-faults.md").read_text()
    assert rules_table() in page
    assert f"{len(WORD_RULES)} patterns" in page
    assert f"wrong as written | {PATIENCE['refused']} turns" in page
    assert f"an exception) | {PATIENCE['failed']} turns" in page
    assert f"spent all it was given | {PATIENCE['limit']} turns" in page
    assert f"{DIRECT_PATIENCE} turns, then the task ends" in page
