"""How long tools take and how often they fail: notes of their attempts, and the arithmetic on them.

1. There is one note per *attempt* of a tool's function. Its time runs from getting a worker to the answer, without
   queueing, approval and the wait before a retry. Cache hits and refused, denied and cancelled calls leave no note.
2. Figures are of a tool's newest `WINDOW` attempts, so that they follow a tool that changes. Counts are of all
   attempts.
3. Durations are those of attempts that succeeded or timed out; a timed-out attempt counts as long as its timeout. So a
   service that became slower gets a longer timeout; counting successes alone would keep its timeout too short. And a
   service that refused calls at once while it was down does not get a timeout that is too short afterwards.

Has no clock and no file: callers of tools write notes, and `Statistics.on_note` gets each of them. Belongs to one event
loop, like the gate: notes from several threads at once may lose a count.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Attempt", "Outcome", "Statistics", "ToolStats", "adaptive_timeout_seconds", "confidence_in"]

Outcome = Literal["succeeded", "failed", "timed_out"]
Attempt = tuple[str, float, Outcome, float | None]
"""Tool, seconds, outcome, confidence."""

WINDOW = 256
"""Newest attempts of a tool that count. The p95 then rests on the 13 slowest of them, so one outlier does not move it,
and a tool that is called once a second forgets a bad hour after four minutes. About 25 KB per tool."""
MAX_TOOLS = 10_000
"""Most tools that are loaded from notes of earlier runs, whose tools may have had other names."""
MAX_CONFIDENCE_CHARACTERS = 64 * 1024
"""Longest result that is searched for its confidence: parsing a longer one would block the event loop."""

MIN_SAMPLES = 20
"""Fewest durations that move a timeout: the p95 of fewer would be their maximum."""
TIMEOUT_FACTOR = 4.0
"""Timeout divided by p95: so far above the usual that only a hang or a changed tool reaches the timeout."""
LEAST_TIMEOUT_SECONDS = 5.0
"""Shortest timeout after shortening: a quick tool may meet one slow connection, and waiting 5 s is harmless."""
MOST_DEFAULTS = 4.0
"""Longest timeout, as a multiple of the default: a plan has to end."""


@dataclass(frozen=True, slots=True)
class ToolStats:
    """Statistics of one tool. Counts are of all attempts noted or loaded; the other figures are of the newest 256."""

    calls: int
    """Attempts."""
    failures: int
    """Attempts that failed or timed out."""
    timeouts: int
    """Attempts that timed out."""
    samples: int
    """Attempts in the window whose durations count: those that succeeded or timed out."""
    average_seconds: float
    """Mean of the durations that count, or of all durations if every attempt failed."""
    p95_seconds: float
    """The 95th percentile of the durations (nearest rank)."""
    failure_rate: float
    """Share of failures in the window, from 0 to 1."""
    average_confidence: float | None
    """Mean of the confidences in the window, from 0 to 1; None when no result gave one."""


class _History:
    __slots__ = ("calls", "failures", "stats", "timeouts", "window")

    def __init__(self) -> None:
        self.calls = 0
        self.failures = 0
        self.timeouts = 0
        self.window: deque[Attempt] = deque(maxlen=WINDOW)
        self.stats: ToolStats | None = None

    def measured(self) -> ToolStats:
        _, seconds, outcomes, confidences = zip(*self.window, strict=True)  # one pass: a plan asks often
        attempts = len(outcomes)
        samples = attempts - outcomes.count("failed")
        durations = sorted(seconds)
        if 0 < samples < attempts:
            durations = sorted(each for each, outcome in zip(seconds, outcomes, strict=True) if outcome != "failed")
        confident = attempts - confidences.count(None)
        return ToolStats(
            calls=self.calls,
            failures=self.failures,
            timeouts=self.timeouts,
            samples=samples,
            average_seconds=sum(durations) / len(durations),
            p95_seconds=durations[(95 * len(durations) + 99) // 100 - 1],
            failure_rate=(attempts - outcomes.count("succeeded")) / attempts,
            average_confidence=sum(filter(None, confidences)) / confident if confident else None,
        )


class Statistics:
    """Attempts by tool."""

    def __init__(self) -> None:
        self._histories: dict[str, _History] = {}
        self.on_note: Callable[[Attempt], None] | None = None
        """Called with each new note; set by the code that stores notes."""

    def note(self, tool: str, seconds: float, outcome: Outcome, confidence: float | None = None) -> None:
        """Note one attempt.

        Args:
            tool: a registered tool's name.
            seconds: how long the attempt took; for one that timed out, its timeout.
            outcome: how the attempt ended.
            confidence: the confidence that the result names, from 0 to 1.
        """
        history = self._histories.get(tool)
        if history is None:
            history = self._histories[tool] = _History()
        attempt = (tool, seconds, outcome, confidence)
        history.window.append(attempt)
        history.calls += 1
        if outcome != "succeeded":
            history.failures += 1
            if outcome == "timed_out":
                history.timeouts += 1
                history.stats = None  # a lag must not keep a timeout that has become too short
        if self.on_note is not None:
            self.on_note(attempt)

    def of(self, tool: str, *, lag: int = 0) -> ToolStats | None:
        """Statistics of a tool; None when it was never called.

        Args:
            tool: its name.
            lag: newest attempts that the answer may leave out once the window is full, unless one of them timed out.
                A new calculation takes some 25 µs.
        """
        history = self._histories.get(tool)
        if history is None:
            return None
        stats = history.stats
        if stats is None or history.calls - stats.calls > (lag if len(history.window) == WINDOW else 0):
            stats = history.stats = history.measured()
        return stats

    def all(self) -> dict[str, ToolStats]:
        """Statistics of every tool that was called, by name, sorted."""
        return {tool: stats for tool in sorted(self._histories) if (stats := self.of(tool)) is not None}

    def load(self, attempts: Sequence[Attempt]) -> None:
        """Load attempts of earlier runs, the oldest first, without calling `on_note`.

        A tool that was called already keeps its history: the loaded attempts may be the same ones.
        """
        known = set(self._histories)
        for attempt in reversed(attempts):
            tool, _, outcome, _ = attempt
            history = self._histories.get(tool)
            if history is None:
                if len(self._histories) >= MAX_TOOLS:
                    continue
                history = self._histories[tool] = _History()
            if tool in known or len(history.window) == WINDOW:
                continue
            history.window.appendleft(attempt)
            history.calls += 1
            history.failures += outcome != "succeeded"
            history.timeouts += outcome == "timed_out"


def adaptive_timeout_seconds(stats: ToolStats | None, default_seconds: float, repeatable: bool) -> float:
    """The timeout of a tool without a timeout of its own: 4 times its p95, within bounds.

    Args:
        stats: the tool's statistics; the default holds until there are 20 durations.
        default_seconds: the timeout without a history; the result is at most four times as long.
        repeatable: the tool has no side effects, or only idempotent ones. Its timeout may shrink to 5 s, because the
            call can be tried again. The timeout of any other tool only grows: a timeout leaves its outcome unknown.
    """
    if stats is None or stats.samples < MIN_SAMPLES:
        return default_seconds
    seconds = TIMEOUT_FACTOR * stats.p95_seconds
    if seconds < default_seconds:
        return max(seconds, min(LEAST_TIMEOUT_SECONDS, default_seconds)) if repeatable else default_seconds
    return min(seconds, MOST_DEFAULTS * default_seconds)


def confidence_in(text: str) -> float | None:
    """The number from 0 to 1 under ``confidence`` in the text of a JSON object; None without such a number.

    Args:
        text: a result as compact JSON.
    """
    if text[:1] != "{" or len(text) > MAX_CONFIDENCE_CHARACTERS or '"confidence"' not in text:
        return None
    try:
        value = json.loads(text).get("confidence")
    except (ValueError, RecursionError):
        return None
    return float(value) if type(value) in (int, float) and 0 <= value <= 1 else None
