"""How long tools take and how often they fail: what was noted of their attempts, and the arithmetic on it.

1. One note per *attempt* of a tool's function, timed from the moment it has its place to its answer. Queueing, approval
   and the wait before a retry are no part of it; hits of the cache, refused, denied and cancelled calls leave no note.
2. Figures are of the tool's newest `WINDOW` attempts, so that they follow a tool that changes; only the counts are of
   all attempts.
3. Durations are those of attempts that succeeded or timed out, a timed-out one counting as long as its timeout. So a
   service that has become slower earns a longer timeout, where counting successes alone would keep it in a trap; and
   one that was down and refused at once does not earn a timeout that is too short for it when it is back.

Knows no clock and no file: whoever calls a tool notes, and whoever keeps notes is called with each. Belongs to one
event loop, like the gate that notes here: several threads that note at once may lose a count.
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
"""So many of a tool's newest attempts are looked at: its p95 then rests on the 13 slowest of them, and one outlier does
not move it; a tool called once a second has forgotten a bad hour four minutes after it. About 25 KB per tool."""
MAX_TOOLS = 10_000
"""So many tools are taken from what was kept: names may be others at each start. What is noted names registered
tools."""
MAX_CONFIDENCE_CHARACTERS = 64 * 1024
"""A longer result is not searched for its confidence: parsing it would hold up the event loop."""

MIN_SAMPLES = 20
"""Fewer durations than that do not move a timeout: a p95 of them would be their maximum."""
TIMEOUT_FACTOR = 4.0
"""The timeout is so many times the p95: far enough above what is usual that only a hang, or a change, runs into it."""
LEAST_TIMEOUT_SECONDS = 5.0
"""No tool's timeout is cut below this: a quick tool may hit one slow connection, and waiting 5 s harms nobody."""
MOST_DEFAULTS = 4.0
"""Nor raised beyond so many times the default: a plan has to end."""


@dataclass(frozen=True, slots=True)
class ToolStats:
    """What is known of one tool. Counts are of all attempts noted or loaded; the rest is of the newest 256."""

    calls: int
    """Attempts."""
    failures: int
    """Attempts that failed or timed out."""
    timeouts: int
    """Attempts that timed out."""
    samples: int
    """Attempts in the window whose durations count: those that succeeded or timed out."""
    average_seconds: float
    """Mean of the durations that count; of the failures' where there are no others."""
    p95_seconds: float
    """95 of 100 took no longer: the smallest duration of the window for which that is so (nearest rank)."""
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
        _, seconds, outcomes, confidences = zip(*self.window, strict=True)  # in one go: a plan asks often
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
        """Called with each new note; set by whoever keeps them."""

    def note(self, tool: str, seconds: float, outcome: Outcome, confidence: float | None = None) -> None:
        """Take note of one attempt.

        Args:
            tool: a registered tool's name.
            seconds: how long the attempt took; for one that timed out, its timeout.
            outcome: what became of it.
            confidence: what the result says of itself, from 0 to 1.
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
        """What is known of a tool; None when it was never called.

        Args:
            tool: its name.
            lag: how many attempts the answer may be behind once the window is full, unless one timed out meanwhile:
            working it out costs some 25 µs.
        """
        history = self._histories.get(tool)
        if history is None:
            return None
        stats = history.stats
        if stats is None or history.calls - stats.calls > (lag if len(history.window) == WINDOW else 0):
            stats = history.stats = history.measured()
        return stats

    def all(self) -> dict[str, ToolStats]:
        """What is known of every tool that was called, by name, sorted."""
        return {tool: stats for tool in sorted(self._histories) if (stats := self.of(tool)) is not None}

    def load(self, attempts: Sequence[Attempt]) -> None:
        """Begin with attempts of earlier times, the oldest first. They are no new notes.

        A tool that was called here already keeps the history it has: what was kept may be the very same attempts.
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
    """The timeout of a tool that was given none: 4 times its p95, within bounds.

    Args:
        stats: what is known of the tool; the default holds until there are 20 durations.
        default_seconds: the timeout without a history. At most four times that is given.
        repeatable: the tool has no side effects, or only idempotent ones. Its timeout may be cut, down to 5 s, because
        it can be tried again. Another's may only be lengthened: it would leave an unknown outcome behind.
    """
    if stats is None or stats.samples < MIN_SAMPLES:
        return default_seconds
    seconds = TIMEOUT_FACTOR * stats.p95_seconds
    if seconds < default_seconds:
        return max(seconds, min(LEAST_TIMEOUT_SECONDS, default_seconds)) if repeatable else default_seconds
    return min(seconds, MOST_DEFAULTS * default_seconds)


def confidence_in(text: str) -> float | None:
    """The number from 0 to 1 under ``confidence`` in a JSON object's text; None where there is none to be had.

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
