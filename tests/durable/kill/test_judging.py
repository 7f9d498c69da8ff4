"""The judge finds each kind of fault, and finds none where there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from durable.kill.judging import Kept, Told, faults
from durable.kill.world import Entry

FIRST, SECOND = 1, 2
"""Processes."""
READ = Entry("t1", "measure", {"item": 1}, "k1", FIRST, {"ticket": "t1"})
PAID = Entry("t2", "charge", {"item": 1, "seen": "t1", "position": 0}, "k2", FIRST, {"ticket": "t2"})
STORED = Entry("t3", "upsert", {"item": 1, "seen": "", "position": 0}, "k3", FIRST, {"ticket": "t3"})
CLOSED = Entry("t4", "close", {"tickets": "t1 t2 t3"}, "k4", SECOND, {"ticket": "t4"})
LEDGER = [READ, PAID, STORED, CLOSED]
TOLD = Told(
    ok=True,
    error=None,
    facts=[("measure", {"item": 1}, "t1"), ("charge", {"item": 1, "seen": "t1"}, "t2"), ("upsert", {"item": 1}, "t3")],
    logs="measure 1\ncharge 1\n",
    calls=[("measure", "succeeded"), ("charge", "succeeded"), ("upsert", "succeeded"), ("close", "succeeded")],
)
AGAIN = replace(STORED, ticket="t5", process=SECOND)
IN_FLIGHT = Kept(3, frozenset({"k1", "k2"}))


def test_a_run_that_was_killed_and_says_what_happened_has_no_fault() -> None:
    assert faults(TOLD, TOLD, LEDGER, [IN_FLIGHT]) == []


def test_a_call_that_may_be_repeated_and_was_in_flight_may_be_made_again() -> None:
    assert faults(TOLD, TOLD, [READ, PAID, STORED, AGAIN, CLOSED], [IN_FLIGHT]) == []


CASES = {
    "a run that ends otherwise": (replace(TOLD, ok=False, error="ReplayDiverged: no"), LEDGER, "it ends with ok=False"),
    "a lost fact": (replace(TOLD, facts=TOLD.facts[:2]), LEDGER, "facts: upsert {'item': 1} stands there 1 times less"),
    "a print shown twice": (replace(TOLD, logs=TOLD.logs + "charge 1\n"), LEDGER, "prints: charge 1 stands there 1"),
    "a call told twice": (replace(TOLD, calls=[*TOLD.calls, TOLD.calls[0]]), LEDGER, "calls that succeeded: measure"),
    "an effect that never happened": (TOLD, [READ, STORED, CLOSED], "nothing of the kind happened"),
    "an answer given to another call": (
        replace(
            TOLD, facts=[("measure", {"item": 1}, "t1"), ("charge", {"item": 1, "seen": "t1"}, "t3"), TOLD.facts[2]]
        ),
        LEDGER,
        "the program took t3 for charge",
    ),
    "an effect under another key": (
        TOLD,
        [*LEDGER, replace(PAID, ticket="t6", key="k6", process=SECOND)],
        "and the program does not know of it",
    ),
    "an effect made twice": (
        TOLD,
        [*LEDGER, replace(PAID, ticket="t6", process=SECOND)],
        "happened 2 times under one key",
    ),
    "a key for two calls": (TOLD, [*LEDGER, replace(READ, ticket="t6", key="k2")], "different calls have the key k2"),
    "a call made twice in one process": (
        TOLD,
        [*LEDGER, replace(STORED, ticket="t6")],
        "was made 2 times in one process",
    ),
    "a read made again that was kept": (
        TOLD,
        [*LEDGER, replace(READ, ticket="t6", process=SECOND)],
        "was kept at kill 1",
    ),
    "books closed in another order": (
        TOLD,
        [READ, PAID, STORED, replace(CLOSED, arguments={"tickets": "t2 t1 t3"})],
        "the books were closed on ['t2 t1 t3']",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_judge_finds(case: str) -> None:
    told, ledger, fault = CASES[case]
    found = faults(told, TOLD, ledger, [IN_FLIGHT])
    assert any(fault in each for each in found), found
