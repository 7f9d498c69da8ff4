"""What is noted of tools, and the arithmetic on it."""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callgate.tools.statistics import (
    MAX_CONFIDENCE_CHARACTERS,
    MAX_TOOLS,
    WINDOW,
    Attempt,
    Outcome,
    Statistics,
    ToolStats,
    adaptive_timeout_seconds,
    confidence_in,
)

OUTCOMES: list[Outcome] = ["succeeded", "failed", "timed_out"]


def noted(*attempts: tuple[float, Outcome]) -> ToolStats:
    statistics = Statistics()
    for seconds, outcome in attempts:
        statistics.note("t", seconds, outcome)
    stats = statistics.of("t")
    assert stats is not None
    return stats


def repeated(seconds: float, times: int = 20, outcome: Outcome = "succeeded") -> list[tuple[float, Outcome]]:
    return [(seconds, outcome)] * times


def of(statistics: Statistics, tool: str = "t", lag: int = 0) -> ToolStats:
    stats = statistics.of(tool, lag=lag)
    assert stats is not None
    return stats


def test_nothing_is_known_of_a_tool_that_was_never_called() -> None:
    assert Statistics().of("t") is None
    assert Statistics().all() == {}


def test_every_attempt_counts() -> None:
    statistics = Statistics()
    statistics.note("b", 1.0, "succeeded", 0.5)
    statistics.note("b", 3.0, "timed_out")
    statistics.note("b", 9.0, "failed")
    statistics.note("b", 2.0, "succeeded", 0.0)
    statistics.note("a", 1.0, "succeeded")
    assert of(statistics, "b") == ToolStats(
        calls=4,
        failures=2,
        timeouts=1,
        samples=3,
        average_seconds=2.0,
        p95_seconds=3.0,
        failure_rate=0.5,
        average_confidence=0.25,
    )
    assert list(statistics.all()) == ["a", "b"]
    assert of(statistics, "a").average_confidence is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=2 * WINDOW))
@example([1.0] * 19 + [2.0])
@example([float(n) for n in range(2 * WINDOW)])
def test_the_p95_is_that_of_the_sorted_window(durations: list[float]) -> None:
    stats = noted(*((seconds, "succeeded") for seconds in durations))
    window = sorted(durations[-WINDOW:])
    assert stats.p95_seconds == window[math.ceil(95 * len(window) / 100) - 1]
    assert sum(each <= stats.p95_seconds for each in window) >= 0.95 * len(window)
    assert stats.average_seconds == pytest.approx(math.fsum(window) / len(window))
    assert (stats.calls, stats.samples) == (len(durations), len(window))


@given(st.lists(st.tuples(st.floats(0, 1e6), st.sampled_from(OUTCOMES)), min_size=1, max_size=2 * WINDOW))
def test_rates_are_of_the_window_and_counts_of_all(attempts: list[tuple[float, Outcome]]) -> None:
    stats = noted(*attempts)
    window = attempts[-WINDOW:]
    samples = [seconds for seconds, outcome in window if outcome != "failed"]
    assert stats.failure_rate == sum(outcome != "succeeded" for _, outcome in window) / len(window)
    assert stats.failures == sum(outcome != "succeeded" for _, outcome in attempts)
    assert stats.timeouts == sum(outcome == "timed_out" for _, outcome in attempts)
    assert stats.samples == len(samples)
    assert stats.p95_seconds in (samples or [seconds for seconds, _ in window])


def test_failing_at_once_does_not_make_a_tool_quick() -> None:
    stats = noted(*repeated(8.0, 30), *repeated(0.001, 200, "failed"))
    assert (stats.average_seconds, stats.p95_seconds, stats.samples) == (8.0, 8.0, 30)


def test_where_there_are_only_failures_their_durations_are_told_and_move_no_timeout() -> None:
    stats = noted(*repeated(0.5, 100, "failed"))
    assert (stats.average_seconds, stats.p95_seconds, stats.samples, stats.failure_rate) == (0.5, 0.5, 0, 1.0)
    assert adaptive_timeout_seconds(stats, 30.0, repeatable=True) == 30.0


def test_an_answer_may_lag_behind_once_the_window_is_full() -> None:
    statistics = Statistics()
    for n in range(WINDOW - 1):
        statistics.note("t", 1.0, "succeeded")
        assert of(statistics, lag=8).calls == n + 1
    statistics.note("t", 1.0, "succeeded")
    assert of(statistics).calls == WINDOW
    for _ in range(8):
        statistics.note("t", 2.0, "succeeded")
        assert of(statistics, lag=8).calls == WINDOW
    assert of(statistics).calls == WINDOW + 8
    statistics.note("t", 2.0, "succeeded")
    assert of(statistics, lag=8).calls == WINDOW + 8
    statistics.note("t", 2.0, "timed_out")
    assert of(statistics, lag=8).calls == WINDOW + 10


# adaptive timeouts


@pytest.mark.parametrize(
    ("p95", "repeatable", "timeout"),
    [
        (0.01, True, 5.0),
        (2.0, True, 8.0),
        (10.0, True, 40.0),
        (100.0, True, 120.0),
        (0.01, False, 30.0),
        (2.0, False, 30.0),
        (10.0, False, 40.0),
        (100.0, False, 120.0),
    ],
)
def test_a_timeout_is_four_times_the_p95_within_bounds(p95: float, repeatable: bool, timeout: float) -> None:
    assert adaptive_timeout_seconds(noted(*repeated(p95)), 30.0, repeatable) == timeout


def test_without_a_history_the_default_holds() -> None:
    assert adaptive_timeout_seconds(None, 30.0, repeatable=True) == 30.0
    assert adaptive_timeout_seconds(noted(*repeated(20.0, 19)), 30.0, repeatable=True) == 30.0


def test_a_default_below_the_least_timeout_is_not_raised_for_a_quick_tool() -> None:
    assert adaptive_timeout_seconds(noted(*repeated(0.01)), 2.0, repeatable=True) == 2.0


@given(st.floats(0, 1e6), st.floats(0.001, 1e4), st.booleans())
def test_a_timeout_stays_between_its_bounds(p95: float, default: float, repeatable: bool) -> None:
    timeout = adaptive_timeout_seconds(noted(*repeated(p95)), default, repeatable)
    assert (min(5.0, default) if repeatable else default) <= timeout <= 4 * default


def test_a_service_that_has_become_slower_gets_out_of_its_timeout() -> None:
    statistics = Statistics()
    for _ in range(WINDOW):
        statistics.note("t", 0.1, "succeeded")
    slow = 12.0
    timeouts: list[float] = []
    while not timeouts or timeouts[-1] < slow:
        timeouts.append(adaptive_timeout_seconds(of(statistics, lag=128), 30.0, repeatable=True))
        statistics.note("t", min(slow, timeouts[-1]), "timed_out" if timeouts[-1] < slow else "succeeded")
    assert len(timeouts) == 14
    assert (timeouts[0], timeouts[-1]) == (5.0, 20.0)


# confidence


@pytest.mark.parametrize(
    ("text", "confidence"),
    [
        ('{"confidence":0.25}', 0.25),
        ('{"a":[],"confidence":1}', 1.0),
        ('{"confidence":0}', 0.0),
        ('{"confidence":true}', None),
        ('{"confidence":1.5}', None),
        ('{"confidence":-0.1}', None),
        ('{"confidence":"0.5"}', None),
        ('{"confidence":null}', None),
        ('{"a":{"confidence":0.5}}', None),
        ('{"text":"\\"confidence\\""}', None),
        ('["confidence"]', None),
        ('"confidence"', None),
        ('{"confidence":', None),
        ('{"confidence":' + "9" * 5000 + "}", None),
        ('{"confidence":' + "[" * 30_000 + "]" * 30_000 + "}", None),
        ("", None),
    ],
)
def test_a_confidence_is_a_number_at_the_top_of_an_object(text: str, confidence: float | None) -> None:
    assert confidence_in(text) == confidence


def test_a_long_result_is_not_searched() -> None:
    text = '{"confidence":0.5,"text":"' + "x" * MAX_CONFIDENCE_CHARACTERS + '"}'
    assert confidence_in(text) is None


# keeping


def test_whoever_keeps_notes_is_called_with_each() -> None:
    statistics = Statistics()
    statistics.note("t", 1.0, "succeeded")
    noted: list[Attempt] = []
    statistics.on_note = noted.append
    for n in range(3):
        statistics.note("t", float(n), "failed", 0.5)
    assert noted == [("t", float(n), "failed", 0.5) for n in range(3)]


def test_what_was_kept_is_the_beginning_and_is_no_new_note() -> None:
    statistics = Statistics()
    noted: list[Attempt] = []
    statistics.on_note = noted.append
    statistics.load([("t", 1.0, "timed_out", 0.5), ("u", 1.0, "succeeded", None), ("t", 2.0, "failed", None)])
    assert noted == []
    statistics.note("t", 3.0, "succeeded")
    stats = of(statistics)
    assert (stats.calls, stats.failures, stats.timeouts, stats.samples) == (3, 2, 1, 2)
    assert (stats.p95_seconds, stats.average_confidence) == (3.0, 0.5)
    assert of(statistics, "u").calls == 1


def test_of_what_was_kept_the_newest_count() -> None:
    statistics = Statistics()
    statistics.load([("t", float(n), "succeeded", None) for n in range(WINDOW + 10)])
    statistics.note("t", 9999.0, "succeeded")
    stats = of(statistics)
    assert (stats.calls, stats.samples) == (WINDOW + 1, WINDOW)
    assert stats.average_seconds == (sum(range(11, WINDOW + 10)) + 9999.0) / WINDOW


def test_a_tool_that_was_called_already_keeps_the_history_it_has() -> None:
    statistics = Statistics()
    statistics.note("t", 1.0, "succeeded")
    statistics.load([("t", 1.0, "succeeded", None), ("u", 2.0, "succeeded", None)])
    assert (of(statistics).calls, of(statistics, "u").calls) == (1, 1)


def test_endless_names_do_not_fill_the_host() -> None:
    statistics = Statistics()
    statistics.load([(f"t{n}", 1.0, "succeeded", None) for n in range(MAX_TOOLS + 10)])
    assert len(statistics.all()) == MAX_TOOLS
    assert statistics.of("t0") is None
