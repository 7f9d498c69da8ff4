"""The timeline of a plan, in the terminal and as a page: what it says, what it draws, and what no text can do to it."""

from __future__ import annotations

import itertools
import re
from html.parser import HTMLParser
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from callgate.plan.faults import PlanFault
from callgate.plan.outcomes import StepStatus
from callgate.runtime.calls import CallRecord, CallStatus
from callgate.runtime.plans.result import PlanResult, StepResult
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
from callgate.runtime.plans.timeline_style import STYLE
from callgate.runtime.result import RunError, RunUsage

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "\x1b[31mred\x1b[0m\x07",
    "abc\u202egnp.exe",
    "</title></style><!-- &lt;",
    "a\nb\tc\r\x85\u2028",
    "\ud800 alone",
    "x" * 200,
    "天気" * 100,
    "e" + "\u0301" * 50,
    "' onclick='x",
)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]")


def step(id: str, start: float | None = None, took: float = 0.0, **more: Any) -> StepResult:
    more.setdefault("tool", "look_up")
    more.setdefault("wave", 0)
    more.setdefault("status", "skipped" if start is None else "succeeded")
    return StepResult(id=id, started_seconds=start, duration_seconds=took, **more)


def call(id: int, start: float, took: float, status: CallStatus = "succeeded", **more: Any) -> CallRecord:
    return CallRecord(id, "look_up", {}, "plan", start, status, took, more.pop("attempts", 1), **more)


def ran(*steps: StepResult, wall: float = 0.0, **more: Any) -> PlanResult:
    ok = all(each.status == "succeeded" for each in steps)
    return PlanResult(ok=ok, steps=list(steps), usage=RunUsage(wall_seconds=wall), **more)


def hostile(text: str) -> PlanResult:
    return ran(
        step(text, 0.0, 1.0, tool=text, status="failed", error=text, kind=text, warnings=(text,), calls=(1, 2),
             arguments={text: text}, fallback=text),
        step(f"{text}2", 1.0, 1.0, tool=text, wave=1, needs=(text,), after=(text,), result_json=f'"{text}'),
        step(f"{text}3", tool=text, wave=1, error=text),
        goal=text,
        calls=[call(1, 0.0, 0.5, "failed", error=text), call(2, 0.5, 0.5)],
    )  # fmt: skip


CHAIN = ran(
    step("login", 0.0, 1.0),
    step("slow", 1.0, 3.0, wave=1, needs=("login",)),
    step("quick", 1.0, 0.5, wave=1, needs=("login",)),
    step("report", 4.0, 1.0, wave=2, needs=("slow", "quick")),
    wall=5.0,
)


class Checked(HTMLParser):
    """A parser that fails on tags that do not balance, and keeps what it saw."""

    void = frozenset({"meta", "br"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    def attributes(self, name: str) -> list[str]:
        return [value for _, attrs in self.seen if (value := attrs.get(name)) is not None]

    @property
    def text(self) -> str:
        return "".join(self.words)


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


texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=40))
times = st.floats(0, 1e6) | st.floats(0, 1e-3) | st.just(0.0)


@st.composite
def results(draw: st.DrawFn) -> PlanResult:
    ids = draw(st.lists(texts, max_size=8, unique=True))
    numbers, calls, steps = itertools.count(1), [], []
    for place, id in enumerate(ids):
        own = [
            call(
                next(numbers), draw(times), draw(times), draw(st.sampled_from(get_args(CallStatus))), error=draw(texts)
            )
            for _ in range(draw(st.integers(0, 30)) if draw(st.booleans()) else 0)
        ]
        calls += own
        steps.append(
            step(
                id, draw(st.none() | times), draw(times), tool=draw(texts), wave=draw(st.integers(0, 3)),
                status=draw(st.sampled_from(get_args(StepStatus))), error=draw(st.none() | texts),
                needs=tuple(ids[:place]), items=draw(st.none() | st.integers(0, 30)),
                calls=tuple(each.id for each in own), arguments=draw(texts), result_json=draw(st.none() | texts),
                fallback=draw(st.none() | texts),
            )
        )  # fmt: skip
    return ran(*steps, wall=draw(times), calls=calls, goal=draw(st.none() | texts))


@settings(deadline=None)
@given(results(), st.integers(1, 200), st.booleans())
def test_no_line_is_ever_wider_than_the_terminal(result: PlanResult, width: int, color: bool) -> None:
    for line in timeline_text(result, width, color).split("\n"):
        plain = re.sub("\x1b\\[[0-9]+m", "", line) if color else line
        assert cell_len(plain) <= width
        assert not CONTROL.search(plain)


# as a page


@settings(deadline=None)
@given(results(), st.none() | texts)
def test_the_page_of_any_run_is_balanced_and_can_be_written(result: PlanResult, title: str | None) -> None:
    page = timeline_page(result, title)
    Checked(page)
    page.encode()
    assert not CONTROL.search(page)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_no_text_becomes_markup(text: str) -> None:
    page = timeline_page(hostile(text), title=text)
    harmless = timeline_page(hostile("harmless"), title="harmless")
    assert {tag for tag, _ in Checked(page).seen} == {tag for tag, _ in Checked(harmless).seen}
    assert {name for _, attrs in Checked(page).seen for name in attrs} == {
        name for _, attrs in Checked(harmless).seen for name in attrs
    }
    assert visible(text) in Checked(page).text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    page = timeline_page(CHAIN)
    tags = {tag for tag, _ in Checked(page).seen}
    assert not tags & {"script", "link", "img", "iframe", "object", "form", "base"}
    assert Checked(page).attributes("content")[0].startswith("default-src 'none'; style-src 'unsafe-inline'")
    assert "url(" not in page
    assert "@import" not in page
    assert all(href.startswith("#s") for href in Checked(page).attributes("href"))


def test_the_page_is_a_table_that_can_be_read_aloud() -> None:
    page = Checked(timeline_page(CHAIN, "Run 7"))
    assert page.attributes("lang") == ["en"]
    assert "width=device-width, initial-scale=1" in page.attributes("content")
    assert page.attributes("scope").count("row") == 4
    assert page.attributes("scope").count("col") == 4
    assert "from 1.00 s to 4.00 s" in page.text
    assert "on the critical path" in page.text
    assert page.attributes("id") == ["s0", "s1", "s2", "s3"]


def test_the_page_says_what_happened_in_its_first_lines() -> None:
    page = Checked(timeline_page(CHAIN, "Run 7")).text
    assert "4/4 steps succeeded in 5.00 s. 5.50 s in calls, 1.1 at a time on average." in page
    assert "Critical path, 5.00 s: login 1.00 sslow 3.00 sreport 1.00 s" in page


def test_each_call_of_a_for_each_has_its_own_bar_where_there_are_few_and_a_height_where_there_are_many() -> None:
    calls = [call(n, n * 0.1, 0.5, "failed" if n == 3 else "succeeded", error="gone") for n in range(1, 61)]
    few = timeline_page(ran(step("each", 0.1, 2.5, items=20, calls=tuple(range(1, 21))), calls=calls))
    many = timeline_page(ran(step("each", 0.1, 6.5, items=60, calls=tuple(range(1, 61))), calls=calls))
    assert few.count("--lane:") == 20
    assert 'title="call 3: failed, 500 ms"' in few
    assert "--lane:" not in many.split("</style>")[1]
    assert "60 calls, 5 under way at most" in many
    assert "36 more calls are left out here" in many
    assert "failed <span class=why>gone</span>" in many


def test_a_step_can_be_opened_for_everything_that_is_known_of_it() -> None:
    page = Checked(
        timeline_page(
            ran(
                step("a", 0.0, 1.0, arguments={"city": "Oslo"}, result_json='{"temp":[1,2]}', attempts=1, after=("z",)),
                step("b", 2.0, 1.0, wave=1, needs=("a",), status="failed", error="gone", kind="ToolError"),
                outputs={"a": {}},
            )
        )
    )
    for told in (
        '{\n  "city": "Oslo"\n}', '{\n  "temp": [\n    1,\n    2\n  ]\n}', "could have begun 1.00 s earlier",
        "gone ToolError", "1.00 s, output",
    ):  # fmt: skip
        assert told in page.text
    opened = [("open" in attrs) for tag, attrs in page.seen if tag == "details"]
    assert opened == [False, True]


def test_a_long_value_is_cut_and_its_bytes_are_counted() -> None:
    page = timeline_page(ran(step("a", 0.0, 1.0, result_json='"' + "<" * 100_000 + '"')))
    assert "cut: 100,002 bytes in all" in page
    assert len(page) < 30_000


def test_values_that_are_no_json_or_too_deep_are_shown_as_they_can_be() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    text = "[" * 30_000 + "]" * 30_000
    page = timeline_page(ran(step("a", 0.0, 1.0, arguments=deep, result_json=text), step("b", 0, 1, result_json="{")))
    assert "cannot be shown: RecursionError" in page
    assert "cut: 60,000 bytes in all" in page
    while deep:  # to take it apart without recursion
        deep = deep.pop()


def test_the_page_of_10000_hostile_steps_stays_small() -> None:
    name, ids = "&" * 256, range(10_000)
    calls = [call(n + 1, n * 0.01, 1.0, "failed", error="<" * 5000) for n in ids]
    steps = [
        step(
            f"{n}{name}", n * 0.01, 1.0, tool=name, wave=n // 100, error="\U000e0041" * 5000, status="failed",
            needs=tuple(f"{k}{name}" for k in range(200)), warnings=("<" * 5000,) * 50, items=50,
            arguments={"a": "<" * 9000}, result_json='"' + "\U000e0041" * 9000 + '"',
            calls=tuple(range(n // 50 * 50 + 1, n // 50 * 50 + 51)),
        )
        for n in ids
    ]  # fmt: skip
    page = timeline_page(ran(*steps, calls=calls, goal="<" * 100_000))
    assert len(page.encode()) < 8_000_000
    assert "9,600 more steps are left out here (9,600 failed, none longer than 1.00 s)" in page
    assert re.search("What there is to tell of [0-9]+ more steps is left out here", page)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colours_have_the_contrast_that_wcag_asks_for(scheme: int) -> None:
    colours = dict(re.findall(r"--(\w+): (#\w+);", STYLE.split("@media (prefers-color-scheme: dark)")[scheme]))
    for ground in ("paper", "band"):
        for text in ("ink", "soft", "link", "good", "bad", "unknown", "idle"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        assert contrast(colours["gem"], colours[ground]) >= 3


def contrast(one: str, other: str) -> float:
    """https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio"""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
