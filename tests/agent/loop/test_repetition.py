"""The guard against going round in circles: what a loop would tell it, and what it says."""

from __future__ import annotations

import random
from typing import Any

import pytest

from callgate.agent.loop import repetition
from callgate.agent.loop.repetition import (
    BARREN_STOPPED,
    BARREN_WARNED,
    FAILURES_WARNED,
    IDLE_STOPPED,
    MOST_CALLS,
    REFUSALS_STOPPED,
    REPEATS_REFUSED,
    SAME_IN_TURN,
    Repetition,
)


class Turns:
    """A loop in small: turns of calls, and what each is told."""

    def __init__(self) -> None:
        self.guard = Repetition()
        self.made = 0

    def call(self, name: str, arguments: Any, ok: bool, text: str, seconds: float = 0.0) -> str:
        before = self.guard.before(name, arguments)
        if before.action != "go on":
            return before.action
        self.made += 1
        return self.guard.note(name, arguments, ok, text, seconds).action

    def turn(self, *calls: tuple[Any, ...]) -> list[str]:
        told = [self.call(*each) for each in calls]
        return [*told, self.guard.end_turn().action]


FAILS = ("get", {"key": "a"}, False, "Error: no such key")


def test_the_same_failing_call_is_answered_twice_then_warned_then_refused_then_it_stops() -> None:
    turns = Turns()
    assert [turns.turn(FAILS)[0] for _ in range(6)] == ["go on", "go on", "warn", "refuse", "refuse", "stop"]
    assert turns.made == FAILURES_WARNED


def test_the_order_of_keys_does_not_make_another_call() -> None:
    turns = Turns()
    one: dict[str, Any] = {"a": 1, "b": {"c": 2, "d": 3}}
    other: dict[str, Any] = {"b": {"d": 3, "c": 2}, "a": 1}
    told = [turns.turn(("get", arguments, False, "no"))[0] for arguments in (one, other, one, other)]
    assert told == ["go on", "go on", "warn", "refuse"]


def test_error_texts_that_differ_each_time_do_not_hide_that_the_call_is_the_same() -> None:
    turns = Turns()
    told = [turns.turn(("get", {}, False, f"Error: request {n} failed"))[0] for n in range(4)]
    assert told == ["go on", "go on", "warn", "refuse"]


def test_a_failing_call_may_be_tried_again_after_progress() -> None:
    turns = Turns()
    for n in range(4):
        turns.turn(FAILS)
        turns.turn(("put", {"n": n}, True, "done"))
    assert turns.made == 8
    assert turns.turn(FAILS)[0] == "go on"
    assert turns.turn(FAILS)[0] == "warn"  # it has failed six times by now


def test_a_success_forgets_the_failures() -> None:
    turns = Turns()
    turns.turn(FAILS), turns.turn(FAILS)
    assert turns.turn(("get", {"key": "a"}, True, "there it is"))[0] == "go on"
    assert [turns.turn(FAILS)[0] for _ in range(3)] == ["go on", "go on", "warn"]


def test_the_same_result_again_and_again_is_warned_of_refused_and_ended() -> None:
    turns = Turns()
    told = [turns.turn(("status", {}, True, "pending"))[0] for _ in range(20)]
    assert told[:4] == ["go on"] * 4
    assert told[4] == "warn"
    assert told.index("refuse") == REPEATS_REFUSED + 1
    assert told[told.index("refuse") + REFUSALS_STOPPED - 1] == "stop"


def test_a_poll_whose_results_change_is_progress() -> None:
    turns = Turns()
    for percent in range(100):
        assert turns.turn(("status", {}, True, f"{percent} %")) == ["go on", "go on"]


WAIT: tuple[Any, ...] = ("wait", {"seconds": 30}, True, "waited", 30.0)
PENDING: tuple[Any, ...] = ("status", {}, True, "pending", 0.1)
NOT_YET: tuple[Any, ...] = ("result", {}, False, "Error: not there yet", 0.1)
POLLS: dict[str, tuple[list[list[tuple[Any, ...]]], int]] = {
    "in one turn": ([[WAIT, PENDING]], 30),
    "in turns of their own": ([[WAIT], [PENDING]], 20),
    "one call that waits itself": ([[("status", {}, True, "pending", 30.0)]], 30),
    "one that fails until it is there": ([[WAIT], [NOT_YET]], 8),
}


@pytest.mark.parametrize(("rounds", "patience"), POLLS.values(), ids=list(POLLS))
def test_who_waits_between_polls_may_wait_longer_and_not_for_ever(
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


def test_a_call_that_is_slow_to_fail_is_no_pause() -> None:
    turns = Turns()
    slow = ("get", {"key": "a"}, False, "Error: timed out", 30.0)
    assert [turns.turn(slow)[0] for _ in range(5)] == ["go on", "go on", "warn", "refuse", "refuse"]


def test_a_result_that_comes_back_among_others_is_no_progress() -> None:
    turns = Turns()
    told = [turns.turn(("status", {}, True, ("on", "off")[n % 2]))[0] for n in range(20)]
    assert "refuse" in told


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8])
def test_a_cycle_of_calls_ends(length: int) -> None:
    turns = Turns()
    for n in range(IDLE_STOPPED + 2 * length + 2):
        if "stop" in turns.turn((f"tool_{n % length}", {}, True, f"the same {n % length}")):
            break
    else:
        pytest.fail("it went on")
    assert n <= IDLE_STOPPED + length


def test_a_cycle_of_failing_calls_ends_sooner() -> None:
    turns = Turns()
    told = [turns.turn((f"tool_{n % 2}", {}, False, "no")) for n in range(20)]
    first = next(n for n, each in enumerate(told) if "stop" in each)
    assert first <= BARREN_STOPPED


def test_calls_that_all_fail_differently_are_warned_of_and_ended() -> None:
    turns = Turns()
    told = [turns.turn(("get", {"key": n}, False, "no"))[-1] for n in range(BARREN_STOPPED)]
    assert told.index("warn") == BARREN_WARNED - 1
    assert told.index("stop") == BARREN_STOPPED - 1


def test_saving_after_every_edit_is_no_circle() -> None:
    turns = Turns()
    for n in range(50):
        assert turns.turn(("edit", {"line": n}, True, "ok"), ("save", {}, True, "saved")) == ["go on"] * 3


def test_the_same_call_many_times_in_one_turn_is_made_so_often_and_no_more() -> None:
    turns = Turns()
    guard = turns.guard
    verdicts = [guard.before("get", {}).action for _ in range(SAME_IN_TURN + 2)]
    assert verdicts == ["go on"] * SAME_IN_TURN + ["refuse"] * 2
    guard.note("get", {}, True, "x")
    guard.end_turn()
    assert guard.before("get", {}).action == "go on"


def test_a_turn_without_calls_is_no_turn() -> None:
    guard = Repetition()
    assert [guard.end_turn().action for _ in range(50)] == ["go on"] * 50


def test_words_are_for_the_model_and_the_fault_is_the_transcript_s() -> None:
    guard = Repetition()
    for _ in range(2):
        guard.before("get", {})
        guard.note("get", {}, False, "no")
    guard.before("get", {})
    warned = guard.note("get", {}, False, "no")
    assert warned.words == (
        "This call of 'get' has failed 3 times with the same arguments. Making it again will not help: change the "
        "arguments, use another tool, or answer with what you have."
    )
    refused = guard.before("get", {})
    assert refused.words.startswith("this call of 'get' was not made: with the same arguments it has failed 3")
    assert warned.fault == refused.fault == "same_call"


def test_memory_is_bounded() -> None:
    turns = Turns()
    for n in range(3 * MOST_CALLS):
        turns.turn(("get", {"n": n}, True, str(n)))
    for n in range(100):
        turns.turn(("get", {"n": 0}, True, f"new {n}"))
    assert len(turns.guard._calls) == MOST_CALLS
    assert max(len(call.results) for call in turns.guard._calls.values()) == repetition.MOST_RESULTS


@pytest.mark.parametrize(
    "arguments", ["{half a", "", {1: 2, "a": object()}, {"s": "\ud800"}], ids=["half", "empty", "odd", "surrogate"]
)
def test_arguments_of_any_kind_are_told_apart_from_others(arguments: Any) -> None:
    turns = Turns()
    told = [turns.turn(("get", arguments, False, "no"))[0] for _ in range(4)]
    assert told == ["go on", "go on", "warn", "refuse"]
    assert turns.turn(("get", {"other": 1}, False, "no"))[0] == "go on"


def test_arguments_that_are_nested_too_deeply_are_taken_all_the_same() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    guard = Repetition()
    assert guard.before("get", {"deep": deep}).action == "go on"
    assert guard.note("get", {"deep": deep}, False, "\udfff").action == "go on"


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


def test_one_warning_in_a_turn_is_enough() -> None:
    turns = Turns()
    told = [turns.turn((f"tool_{n % 2}", {}, True, "the same")) for n in range(IDLE_STOPPED)]
    assert all(each.count("warn") <= 1 for each in told)
    assert ["go on", "warn"] in told
    assert ["warn", "go on"] in told
