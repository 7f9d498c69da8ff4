"""The timeline of a plan in the terminal: what is laid out, and what no text can do to it."""

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
from callgate.runtime.plans.timeline import MARKS, MOST_ROWS, STATUS_WORDS, lay_out, timeline_text
from callgate.runtime.result import RunError
from runtime.golden_files import same
from runtime.timelines import CHAIN, CONTROL, HOSTILE, call, hostile, ran, results, step

# what is laid out


def critical(result: PlanResult) -> list[str]:
    return [step.id for step in lay_out(result, 100).critical]


def test_rows_stand_by_wave_and_then_by_when_they_began() -> None:
    result = ran(
        step("late", 2.0, 1.0), step("second", 3.0, 1.0, wave=1), step("early", 1.0, 1.0), step("first", 0.0, 5.0)
    )
    assert [row.step.id for row in lay_out(result, 100).rows] == ["first", "early", "late", "second"]


def test_the_critical_path_is_walked_back_from_the_step_that_ended_last() -> None:
    assert critical(CHAIN) == ["login", "slow", "report"]
    assert {row.step.id for row in lay_out(CHAIN, 100).rows if row.critical} == {"login", "slow", "report"}


def test_the_critical_path_goes_through_a_skipped_step_without_naming_it() -> None:
    result = ran(
        step("a", 0.0, 1.0),
        step("b", wave=1, needs=("a",), error="its condition was false"),
        step("c", 1.2, 1.0, wave=2, after=("b",)),
    )
    assert critical(result) == ["a", "c"]


def test_steps_that_wait_for_each_other_or_for_nobody_known_do_not_run_it_forever() -> None:
    result = ran(step("a", 0.0, 1.0, needs=("b", "zz")), step("b", 0.0, 2.0, needs=("a",)))
    assert critical(result)[-1] == "b"


def test_a_chain_of_10000_steps_is_walked_without_recursion() -> None:
    result = ran(*(step(f"s{n}", n * 0.1, 0.1, wave=n, needs=(f"s{n - 1}",) if n else ()) for n in range(10_000)))
    assert len(critical(result)) == 10_000
    assert "→ … 9,988 more … → s9994 →" in " ".join(timeline_text(result).split())


def test_what_did_not_succeed_is_kept_when_rows_are_left_out() -> None:
    steps = [step(f"s{n}", 0.0, float(n), status="failed" if n == 7 else "succeeded") for n in range(100)]
    timeline = lay_out(ran(*steps, step("never")), 3)
    assert [row.step.id for row in timeline.rows] == ["s7", "s98", "s99"]
    assert timeline.left_out == 98


def test_every_status_has_a_mark_of_its_own_and_words() -> None:
    assert set(MARKS) == set(STATUS_WORDS) == set(get_args(StepStatus))
    assert len(set(MARKS.values())) == len(MARKS)


# in the terminal

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
    "a wait between": ran(step("a", 0.0, 1.0), step("b", 2.0, 1.0, wave=1, needs=("a",))),
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


def test_what_the_terminal_shows_is_golden() -> None:
    told = [f"== {name}\n{timeline_text(result, 100)}\n" for name, result in SCENES.items()]
    same("timelines.txt", "\n".join(told))


def test_of_many_steps_some_are_shown_and_the_others_counted() -> None:
    steps = [step(f"s{n}", n * 0.01, 0.5, status="failed" if n % 1000 == 0 else "succeeded") for n in range(10_000)]
    text = timeline_text(ran(*steps, calls=[]))
    assert sum(" look_up " in line for line in text.splitlines()) == MOST_ROWS
    assert "… and 9,940 more steps" in text
    assert "✗ s0 failed: no reason given" in text
    assert "… 2 more errors" in text
    assert "9,990/10,000 steps succeeded, 10 failed" in text


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_drives_the_terminal(text: str) -> None:
    told = timeline_text(hostile(text))
    assert not CONTROL.search(told)
    told.encode()
    without_colours = re.sub("\x1b\\[[0-9;]+m", "", timeline_text(hostile(text), color=True))
    assert [line.rstrip() for line in without_colours.splitlines()] == told.splitlines()


@settings(deadline=None)
@given(results(), st.integers(1, 200), st.booleans())
def test_no_line_is_ever_wider_than_the_terminal(result: PlanResult, width: int, color: bool) -> None:
    for line in timeline_text(result, width, color).split("\n"):
        plain = re.sub("\x1b\\[[0-9;]+m", "", line) if color else line
        assert cell_len(plain) <= width
        assert not CONTROL.search(plain)
