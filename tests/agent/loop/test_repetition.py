"""The guard against going round in circles: the notes of a loop, and the verdicts."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from callgate.agent.loop.repetition import (
    BARREN_STOPPED,
    BARREN_WARNED,
    IDLE_STOPPED,
    MOST_CALLS,
    MOST_RESULTS,
    REPEATS_REFUSED,
    SAME_IN_TURN,
    Repetition,
)
from callgate.agent.models.model import ToolCall


def call_of(name: str, arguments: Any) -> ToolCall:
    if isinstance(arguments, str):
        return ToolCall(id="1", name=name, fault="no JSON", written=arguments)
    return ToolCall(id="1", name=name, arguments=arguments)


class Turns:
    """A loop in small: turns of calls, and the verdict on each."""

    def __init__(self) -> None:
        self.guard = Repetition()

    def call(self, name: str, arguments: Any, ok: bool, text: str, seconds: float = 0.0) -> str:
        call = call_of(name, arguments)
        before = self.guard.verdict(call)
        if before.action != "go on":
            self.guard.not_made(call)
            return before.action
        self.guard.began(call)
        return self.guard.ended(call, ok, text, seconds).action

    def turn(self, *calls: tuple[Any, ...]) -> list[str]:
        told = [self.call(*each) for each in calls]
        return [*told, self.guard.end_turn().action]


FAILS = ("get", {"key": "a"}, False, "Error: no such key")
DONE: tuple[Any, ...] = ("put", {}, True, "done")
REFUSED = ["go on", "go on", "warn", "refuse", "refuse", "stop"]
CALLS: dict[str, tuple[list[tuple[Any, ...]], list[str]]] = {
    "a failing call": ([FAILS] * 6, REFUSED),
    "keys in another order": (
        [("get", json.loads(text), False, "no") for text in ('{"a": 1, "b": {"c": 2, "d": 3}}',
                                                             '{"b": {"d": 3, "c": 2}, "a": 1}') * 2],
        REFUSED[:4],
    ),
    "error texts that differ": ([("get", {}, False, f"request {n} failed") for n in range(4)], REFUSED[:4]),
    "slow to fail": ([(*FAILS, 30.0)] * 5, REFUSED[:5]),
    "half a JSON": ([("get", "{half a", False, "no")] * 4, REFUSED[:4]),
    "half a character": ([("get", {"s": "\ud800"}, False, "\udfff")] * 4, REFUSED[:4]),
    "other arguments": ([*[FAILS] * 3, ("get", {}, False, "no")], [*REFUSED[:3], "go on"]),
    "again after progress": ([FAILS, FAILS, DONE, FAILS, FAILS], ["go on"] * 5),
    "a success forgets failures": (
        [FAILS, FAILS, ("get", {"key": "a"}, True, "there it is"), FAILS, FAILS, FAILS],
        ["go on"] * 5 + ["warn"],
    ),
    "the same result": (
        [("status", {}, True, "pending")] * (REPEATS_REFUSED + 4),
        ["go on"] * 4 + ["warn"] * 5 + ["refuse", "refuse", "stop"],
    ),
    "a poll whose results change": ([("status", {}, True, f"{n} %") for n in range(100)], ["go on"] * 100),
}  # fmt: skip


@pytest.mark.parametrize(("calls", "verdicts"), CALLS.values(), ids=list(CALLS))
def test_a_call_is_answered_then_warned_of_then_refused_then_it_stops(
    calls: list[tuple[Any, ...]], verdicts: list[str]
) -> None:
    turns = Turns()
    assert [turns.turn(call)[0] for call in calls] == verdicts


WAIT: tuple[Any, ...] = ("wait", {"seconds": 30}, True, "waited", 30.0)
PENDING: tuple[Any, ...] = ("status", {}, True, "pending", 0.1)
NOT_YET: tuple[Any, ...] = ("result", {}, False, "Error: not there yet", 0.1)


@pytest.mark.parametrize(
    ("rounds", "patience"),
    [
        ([[WAIT, PENDING]], 30),
        ([[WAIT], [PENDING]], 20),
        ([[("status", {}, True, "pending", 30.0)]], 30),
        ([[WAIT], [NOT_YET]], 8),
    ],
)
def test_a_model_that_waits_between_polls_may_wait_longer_and_not_for_ever(
    rounds: list[list[tuple[Any, ...]]], patience: int
) -> None:
    assert patience <= rounds_made(rounds) < 50
    assert rounds_made([[call[:4] for call in calls] for calls in rounds]) < 11


def rounds_made(rounds: list[list[tuple[Any, ...]]]) -> int:
    """Until a call is refused, or it ends."""
    turns = Turns()
    for made in range(100):
        told = {each for calls in rounds for each in turns.turn(*calls)}
        if told & {"refuse", "stop"}:
            return made
    return 100


@pytest.mark.parametrize(("length", "ok", "most"), [(n, True, IDLE_STOPPED + n) for n in (1, 2, 3, 5, 8)] + [
    (2, False, BARREN_STOPPED),
])  # fmt: skip
def test_a_cycle_of_calls_ends(length: int, ok: bool, most: int) -> None:
    turns = Turns()
    told = [turns.turn((f"tool_{n % length}", {}, ok, f"the same {n % length}")) for n in range(most + 1)]
    assert any("stop" in each for each in told)
    assert all(each.count("warn") <= 1 for each in told)  # one warning in a turn is enough


def test_calls_that_all_fail_differently_are_warned_of_and_ended() -> None:
    turns = Turns()
    told = [turns.turn(("get", {"key": n}, False, "no"))[-1] for n in range(BARREN_STOPPED)]
    assert told.index("warn") == BARREN_WARNED - 1
    assert told.index("stop") == BARREN_STOPPED - 1


def test_saving_after_every_edit_is_no_circle_and_a_turn_without_calls_is_none() -> None:
    turns = Turns()
    for n in range(50):
        assert turns.turn(("edit", {"line": n}, True, "ok"), ("save", {}, True, "saved")) == ["go on"] * 3
        assert turns.turn() == ["go on"]


def test_the_same_call_many_times_in_one_turn_is_made_a_few_times_and_no_more() -> None:
    guard, call = Repetition(), call_of("get", {})
    for _ in range(SAME_IN_TURN):
        assert guard.verdict(call).action == "go on"
        guard.began(call)
    assert guard.verdict(call).action == "refuse"
    guard.ended(call, True, "x")
    guard.end_turn()
    assert guard.verdict(call).action == "go on"


def test_words_are_for_the_model_and_the_fault_is_the_transcript_s() -> None:
    turns, call = Turns(), call_of("get", {})
    for _ in range(2):
        turns.turn(("get", {}, False, "no"))
    turns.guard.began(call)
    warned = turns.guard.ended(call, False, "no")
    assert warned.words == (
        "This call of 'get' has failed 3 times with the same arguments. Making it again will not help: change the "
        "arguments, use another tool, or answer with what you have."
    )
    refused = turns.guard.verdict(call)
    assert refused.words.startswith("this call of 'get' was not made: with the same arguments it has failed 3")
    assert warned.fault == refused.fault == "same_call"


def test_memory_is_bounded() -> None:
    turns = Turns()
    for n in range(3 * MOST_CALLS):
        turns.turn(("get", {"n": n}, True, str(n)))
    for n in range(100):
        turns.turn(("get", {"n": 0}, True, f"new {n}"))
    assert len(turns.guard._tried) == MOST_CALLS
    assert max(len(each.results) for each in turns.guard._tried.values()) == MOST_RESULTS


@pytest.mark.parametrize("seed", range(20))
def test_the_same_notes_give_the_same_verdicts_and_no_loop_without_progress_lasts(seed: int) -> None:
    chance = random.Random(seed)
    calls = [(f"tool_{n}", {"n": n}, chance.random() < 0.7, f"text {n}") for n in range(chance.randint(1, 9))]
    script = [[chance.choice(calls) for _ in range(chance.randint(1, 3))] for _ in range(200)]

    def run() -> list[list[str]]:
        turns, told = Turns(), []
        for each in script:
            told.append(turns.turn(*each))
            if "stop" in told[-1]:
                break
        return told

    once = run()
    assert once == run()
    assert "stop" in once[-1]
    assert len(once) < 40
