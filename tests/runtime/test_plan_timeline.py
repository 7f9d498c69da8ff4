"""The timeline of a plan: what is laid out, and what it is in the terminal; what no text can do to it."""

from __future__ import annotations

import re
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from callgate.plan.faults import PlanFault
from callgate.plan.outcomes import StepStatus
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.plans.timeline import MOST_ROWS, timeline_text
from callgate.runtime.plans.timeline_page import timeline_page
from callgate.runtime.plans.timeline_rows import (
    MARKS,
    STATUS_WORDS,
    duration_words,
    lanes,
    lay_out,
    load,
    most_telling,
    ticks,
    visible,
)
from callgate.runtime.result import RunError
from runtime.timelines import CHAIN, CONTROL, HOSTILE, Checked, call, hostile, ran, results, step

# what is laid out


def test_rows_stand_by_wave_and_then_by_when_they_began() -> None:
    result = ran(step("late", 2.0, 1.0), step("second", 3.0, 1.0, wave=1), step("early", 1.0, 1.0))
    assert [row.step.id for row in lay_out(result).rows] == ["early", "late", "second"]


def test_the_critical_path_is_walked_back_from_the_step_that_ended_last() -> None:
    timeline = lay_out(CHAIN)
    assert [row.step.id for row in timeline.critical] == ["login", "slow", "report"]
    assert {row.step.id for row in timeline.rows if row.critical} == {"login", "slow", "report"}


def test_the_critical_path_goes_through_a_skipped_step_without_naming_it() -> None:
    result = ran(
        step("a", 0.0, 1.0),
        step("b", wave=1, needs=("a",), error="its condition was false"),
        step("c", 1.2, 1.0, wave=2, after=("b",)),
    )
    timeline = lay_out(result)
    assert [row.step.id for row in timeline.critical] == ["a", "c"]
    assert timeline.rows[2].ready_seconds == 1.0
    assert timeline.rows[2].waited_seconds == pytest.approx(0.2)


def test_steps_that_wait_for_each_other_or_for_nobody_known_do_not_run_it_forever() -> None:
    result = ran(step("a", 0.0, 1.0, needs=("b", "zz")), step("b", 0.0, 2.0, needs=("a",)))
    assert [row.step.id for row in lay_out(result).critical] == ["b"]


def test_a_chain_of_10000_steps_is_walked_without_recursion() -> None:
    result = ran(*(step(f"s{n}", n * 0.1, 0.1, wave=n, needs=(f"s{n - 1}",) if n else ()) for n in range(10_000)))
    assert len(lay_out(result).critical) == 10_000
    assert "→ … 9," in timeline_text(result).splitlines()[-1]


def test_items_of_a_for_each_count_one_by_one_in_the_time_in_calls() -> None:
    calls = [call(n, 0.0, 1.0) for n in range(1, 5)]
    timeline = lay_out(ran(step("all", 0.0, 1.0, items=4, calls=(1, 2, 3, 4)), calls=calls, wall=2.0))
    assert (timeline.call_seconds, timeline.parallel) == (4.0, 2.0)


def test_calls_that_overlap_get_lanes_of_their_own_and_a_free_lane_is_used_again() -> None:
    assert lanes([call(1, 0, 2), call(2, 1, 2), call(3, 2, 2), call(4, 2.5, 1)]) == [0, 1, 0, 2]


def test_load_is_how_many_calls_were_under_way_in_each_slice() -> None:
    assert load([call(1, 0, 4), call(2, 1, 1.5), call(3, 9, 1)], 0, 4, 4) == [1, 2, 1.5, 1]
    assert load([call(1, 5, 0)], 5, 5, 3) == [1, 1, 1]


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), max_size=20), st.integers(1, 50))
def test_no_time_is_lost_in_the_slices(spans: list[tuple[float, float]], slices: int) -> None:
    counts = load([call(n, start, took) for n, (start, took) in enumerate(spans)], 0, 20, slices)
    assert sum(counts) * 20 / slices == pytest.approx(sum(took for _, took in spans), abs=1e-6)


def test_what_did_not_succeed_is_kept_when_rows_are_left_out() -> None:
    steps = [step(f"s{n}", 0.0, float(n), status="failed" if n == 7 else "succeeded") for n in range(100)]
    kept, left_out = most_telling(lay_out(ran(*steps, step("never"))).rows, 3)
    assert [row.step.id for row in kept] == ["s7", "s98", "s99"]
    assert len(left_out) == 98


@pytest.mark.parametrize(
    ("span", "labels"),
    [
        (0, ["0"]),
        (0.0000004, ["0", "0.1 µs", "0.2 µs", "0.3 µs", "0.4 µs"]),
        (0.00034, ["0", "100 µs", "200 µs", "300 µs"]),
        (0.0128, ["0", "5 ms", "10 ms"]),
        (0.9, ["0", "200 ms", "400 ms", "600 ms", "800 ms"]),
        (1.0, ["0", "0.5 s", "1 s"]),
        (4.3, ["0", "1 s", "2 s", "3 s", "4 s"]),
        (75, ["0", "20 s", "40 s", "60 s"]),
        (100, ["0", "30 s", "60 s", "90 s"]),
        (201, ["0", "1 min", "2 min", "3 min"]),
        (40_000, ["0", "3 h", "6 h", "9 h"]),
    ],
)
def test_ticks_stand_at_round_numbers(span: float, labels: list[str]) -> None:
    assert [tick.label for tick in ticks(span, 5)] == labels


@given(st.floats(0, 1e9), st.integers(1, 40))
def test_ticks_are_never_more_than_asked_for_and_never_beyond_the_end(span: float, most: int) -> None:
    told = ticks(span, most)
    assert 1 <= len(told) <= most
    assert told[0].seconds == 0
    assert all(tick.seconds <= span * (1 + 1e-6) for tick in told)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 ms"), (1e-9, "1 µs"), (0.00042, "420 µs"), (0.00123, "1.23 ms"), (0.0712, "71.2 ms"), (0.42, "420 ms"),
        (0.9996, "1.00 s"), (3.544, "3.54 s"), (61.0, "61.0 s"), (99.97, "1 min 40 s"), (125, "2 min 05 s"),
        (3725, "1 h 02 min"), (1e9, "277,777 h 46 min"),
    ],
)  # fmt: skip
def test_a_duration_has_three_digits_and_a_unit(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_every_status_has_a_mark_of_its_own_and_words() -> None:
    assert set(MARKS) == set(STATUS_WORDS) == set(get_args(StepStatus))
    assert len(set(MARKS.values())) == len(MARKS)


def test_what_would_drive_a_terminal_or_turn_the_writing_is_written_as_an_escape() -> None:
    assert visible("a\x1b[31m \u202e\n\U000e0041 天 é") == "a\\x1b[31m \\u202e\\n\\U000e0041 天 é"


# in the terminal


def test_the_terminal_shows_a_bar_for_each_step_on_one_axis() -> None:
    assert timeline_text(CHAIN, 72).splitlines() == [
        "wave     step    tool     ┊0             ┊2 s           ┊4 s        took",
        "   0 ◆ ✓ login   look_up  ▄▄▄▄▄▄▄▖       ┊              ┊         1.00 s",
        "   1 ◆ ✓ slow    look_up  ┊      ▗▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▖         3.00 s",
        "       ✓ quick   look_up  ┊      ▗▄▄▄▖   ┊              ┊         500 ms",
        "   2 ◆ ✓ report  look_up  ┊              ┊              ▗▄▄▄▄▄▄▄  1.00 s",
        "4/4 steps succeeded in 5.00 s; 5.50 s in calls, 1.1 at a time on average",
        "◆ critical path, 5.00 s: login → slow → report",
    ]


def test_a_skipped_step_has_no_bar_and_says_why() -> None:
    result = ran(step("a", 0.0, 1.0), step("b", wave=1, needs=("a",), error="Skipped because 'a' was empty"))
    line = timeline_text(result).splitlines()[2]
    assert "– b" in line
    assert line.endswith("Skipped because 'a' was empty")
    assert "▄" not in line


def test_a_failed_step_is_marked_without_colour_and_its_error_is_told_below() -> None:
    text = timeline_text(ran(step("pay", 0.0, 1.0, status="failed", error="no funds")))
    assert "✗ pay" in text.splitlines()[1]
    assert "✗ pay failed: no funds" in text


def test_a_for_each_shows_its_items_and_how_many_calls_were_under_way() -> None:
    calls = [call(n, 0.0, 1.0 if n < 20 else 4.0, "failed" if n < 4 else "succeeded") for n in range(1, 21)]
    each = step("each", 0.0, 4.0, items=20, items_failed=3, calls=tuple(range(1, 21)), warnings=("3 failed",))
    text = timeline_text(ran(each, calls=calls))
    assert "17/20 items" in text
    assert re.search("█.?▁", text)
    assert "calls under way" in text


@pytest.mark.parametrize(
    ("more", "note"),
    [
        ({"attempts": 3}, "2 retries"),
        ({"attempts": 2, "calls": (1,)}, "1 retry"),
        ({"cached": True}, "cached"),
        ({"fallback": "plan_b"}, "by plan_b"),
        ({"warnings": ("a", "b")}, "2 warnings"),
        ({"items": 5, "status": "skipped"}, "of 5 items"),
    ],
)
def test_what_a_bar_cannot_show_is_noted(more: dict[str, Any], note: str) -> None:
    result = ran(step("a", 0.0, 1.0, **more), calls=[call(1, 0.0, 1.0, attempts=2)])
    assert timeline_text(result).splitlines()[1].endswith(note)
    assert note in Checked(timeline_page(result)).text


def test_the_time_from_when_a_step_could_have_begun_is_drawn() -> None:
    text = timeline_text(ran(step("a", 0.0, 1.0), step("b", 2.0, 1.0, wave=1, needs=("a",))))
    assert re.search("╌{5,}[▗▄]", text.splitlines()[2])
    assert "╌╌ could have begun" in text


def test_a_refused_plan_says_that_it_was_not_run_and_why() -> None:
    faults = [PlanFault("unknown-tool", "a", "steps[0].tool", "there is no tool 'pai'", "did you mean pay?")]
    faults += [PlanFault("argument", f"s{n}", "", "wrong") for n in range(30)]
    refused = PlanResult(ok=False, error=RunError("PlanRefused", "see faults"), faults=faults, goal="Pay", calls=[
        call(1, 0.0, 1.0)])  # fmt: skip
    lines = timeline_text(refused).splitlines()
    assert lines[:3] == [
        "Pay",
        "The plan was not run.",
        "✗ step 'a' (steps[0].tool): there is no tool 'pai'; did you mean pay?",
    ]
    assert lines[-2:] == ["… 11 more faults", "Already called while it was being written: 1 tools"]
    page = Checked(timeline_page(refused)).text
    assert "The plan was not run." in page
    assert "did you mean pay?" in page
    assert "Called while the plan was being written" in page


def test_a_result_without_anything_says_that_nothing_was_run() -> None:
    nothing = PlanResult(ok=False, error=RunError("PlanRefused", "no JSON"))
    assert timeline_text(nothing) == "The plan was not run.\n✗ no JSON"
    assert "no JSON" in Checked(timeline_page(nothing)).text
    assert timeline_text(PlanResult(ok=False)) == "The plan was not run."


def test_a_run_that_a_limit_ended_says_so() -> None:
    error = RunError("LimitReached", "limit reached: wall_seconds is 1.0", limit="wall_seconds")
    result = ran(step("a", 0.0, 1.0), error=error)
    assert "✗ the run was ended: limit reached: wall_seconds is 1.0" in timeline_text(result)
    assert "The run was ended: limit reached" in timeline_page(result)


def test_a_run_of_no_time_is_drawn() -> None:
    text = timeline_text(ran(step("a", 0.0, 0.0)))
    assert "▖" in text
    assert "1/1 step succeeded in 0 ms; 0 ms in calls\n" in text
    Checked(timeline_page(ran(step("a", 0.0, 0.0))))


def test_of_many_steps_some_are_shown_and_the_others_counted() -> None:
    steps = [step(f"s{n}", n * 0.01, 0.5, status="failed" if n % 1000 == 0 else "succeeded") for n in range(10_000)]
    text = timeline_text(ran(*steps, calls=[]))
    assert sum(" look_up " in line for line in text.splitlines()) == MOST_ROWS
    assert "… and 9,940 more: 9,940 succeeded, none longer than 500 ms" in text
    assert "✗ s0 failed: no reason given" in text
    assert "… 2 more errors" in text
    assert "9,990/10,000 steps succeeded, 10 failed" in text


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_drives_the_terminal(text: str) -> None:
    told = timeline_text(hostile(text))
    assert not CONTROL.search(told)
    told.encode()
    without_colours = re.sub("\x1b\\[[0-9]+m", "", timeline_text(hostile(text), color=True))
    assert without_colours == told


def test_names_that_differ_in_white_space_look_different() -> None:
    text = timeline_text(ran(step("a\nb", 0.0, 1.0), step("a b", 0.0, 1.0)))
    assert "a\\nb" in text
    assert "✓ a b " in text


@settings(deadline=None)
@given(results(), st.integers(1, 200), st.booleans())
def test_no_line_is_ever_wider_than_the_terminal(result: PlanResult, width: int, color: bool) -> None:
    for line in timeline_text(result, width, color).split("\n"):
        plain = re.sub("\x1b\\[[0-9]+m", "", line) if color else line
        assert cell_len(plain) <= width
        assert not CONTROL.search(plain)
