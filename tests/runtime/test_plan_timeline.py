"""The timeline of a plan: what is laid out, and what it is in the terminal; what no text can do to it."""

from __future__ import annotations

import re
from typing import get_args

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
    lay_out,
    most_telling,
    ticks,
    visible,
)
from callgate.runtime.result import RunError
from runtime.golden_files import same
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


# in the terminal and on the page

UNKNOWN = PlanFault("unknown-tool", "a", "steps[0].tool", "there is no tool 'pai'", "did you mean pay?")
WRONG = [PlanFault("argument", f"s{n}", "", "wrong") for n in range(30)]
TWENTY = [call(n, 0.0, 1.0 if n < 20 else 4.0, "failed" if n < 4 else "succeeded") for n in range(1, 21)]
SCENES = {
    "a chain": CHAIN,
    "a skipped step": ran(step("a", 0.0, 1.0), step("b", wave=1, needs=("a",), error="Skipped because 'a' was empty")),
    "a failed step": ran(step("pay", 0.0, 1.0, status="failed", error="no funds")),
    "items": ran(
        step("each", 0.0, 4.0, items=20, items_failed=3, calls=tuple(range(1, 21)), warnings=("3 failed",)),
        calls=TWENTY,
    ),
    "notes": ran(
        step("tried", 0.0, 1.0, attempts=3), step("again", 0.0, 1.0, attempts=2, calls=(1,)),
        step("kept", 0.0, 1.0, cached=True), step("other", 0.0, 1.0, fallback="plan_b"),
        step("warned", 0.0, 1.0, warnings=("a", "b")), step("some", 0.0, 1.0, items=5, status="skipped"),
        calls=[call(1, 0.0, 1.0, attempts=2)],
    ),
    "could have begun": ran(step("a", 0.0, 1.0), step("b", 2.0, 1.0, wave=1, needs=("a",))),
    "refused": PlanResult(
        ok=False, error=RunError("PlanRefused", "see faults"), faults=[UNKNOWN, *WRONG], goal="Pay",
        calls=[call(1, 0.0, 1.0)],
    ),
    "no plan": PlanResult(ok=False, error=RunError("PlanRefused", "no JSON")),
    "nothing": PlanResult(ok=False),
    "a limit": ran(
        step("a", 0.0, 1.0),
        error=RunError("LimitReached", "limit reached: wall_seconds is 1.0", limit="wall_seconds"),
    ),
    "no time": ran(step("a", 0.0, 0.0)),
    "white space in names": ran(step("a\nb", 0.0, 1.0), step("a b", 0.0, 1.0)),
}  # fmt: skip


def test_what_the_terminal_and_the_page_show_is_golden() -> None:
    told = [
        f"== {name}\n{timeline_text(result, 100)}\n-- {Checked(timeline_page(result)).text.strip()}\n"
        for name, result in SCENES.items()
    ]
    same("timelines.txt", "\n".join(told))


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


@settings(deadline=None)
@given(results(), st.integers(1, 200), st.booleans())
def test_no_line_is_ever_wider_than_the_terminal(result: PlanResult, width: int, color: bool) -> None:
    for line in timeline_text(result, width, color).split("\n"):
        plain = re.sub("\x1b\\[[0-9]+m", "", line) if color else line
        assert cell_len(plain) <= width
        assert not CONTROL.search(plain)
