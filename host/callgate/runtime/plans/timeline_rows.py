"""A plan's run laid out in time: rows, bars, ticks, the critical path. Pure; knows no terminal and no markup.

1. Rows stand by wave, in a wave by when their step began, then as in the plan. A wave is no barrier: a step begins as
   soon as what it waits for has ended, so that waves overlap in time.
2. A skipped step has no bar. For those that wait for it, it ended when the last that it waited for ended.
3. The critical path is walked backwards: from the step that ended last to what it waited for that ended last, and so
   on. Skipped steps are walked through and not told.
4. What is summed up is the time in calls, so that the items of a `for_each` count one by one. Divided by the wall time
   it is how many calls were under way at a time, on average. Queueing for a place is not counted.
5. Nothing recurses, and only steps of an earlier wave are walked to: no result, however odd, makes this run forever.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from callgate.plan.outcomes import StepStatus
from callgate.runtime.gate.calls import CallRecord

from .outcome import PlanOutcome, StepResult

__all__ = [
    "MARKS", "STATUS_WORDS", "Row", "Tick", "Timeline", "count_words", "duration_words", "lay_out", "most_telling",
    "ticks", "visible",
]  # fmt: skip

MARKS: Final[dict[StepStatus, str]] = {
    "succeeded": "✓", "failed": "✗", "unknown_outcome": "?", "skipped": "–", "pending": "…",
}  # fmt: skip
STATUS_WORDS: Final[dict[StepStatus, str]] = {
    "succeeded": "succeeded", "failed": "failed", "unknown_outcome": "outcome unknown", "skipped": "skipped",
    "pending": "not ended",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One step in time."""

    place: int
    """Of the step in the plan, from 0."""
    step: StepResult
    ready_seconds: float
    """When the last step that it waits for had ended; 0 where it waits for none."""
    end_seconds: float
    """When it ended; for a step without calls the same as `ready_seconds`."""
    critical: bool
    """On the critical path."""
    calls: tuple[CallRecord, ...] = ()

    @property
    def start_seconds(self) -> float | None:
        """When its first call began; None where no call was made."""
        return self.step.started_seconds

    @property
    def waited_seconds(self) -> float:
        """From when it could begin to when it began."""
        return 0.0 if self.start_seconds is None else max(self.start_seconds - self.ready_seconds, 0.0)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a bar does not show, in a few words each, the most important first. Names of tools are as written."""
        step = self.step
        notes = []
        if step.items is not None and step.status in ("succeeded", "failed"):
            notes.append(f"{step.items - step.items_failed}/{step.items} items")
        elif step.items is not None:
            notes.append(f"of {step.items} items")
        if step.fallback is not None:
            notes.append(f"by {step.fallback}")
        retries = sum(max(call.attempts - 1, 0) for call in self.calls)
        if not self.calls and step.items is None:
            retries = max(step.attempts - 1, 0)
        if retries:
            notes.append("1 retry" if retries == 1 else f"{retries} retries")
        if step.cached:
            notes.append("cached")
        if step.warnings and not step.items_failed:
            notes.append("1 warning" if len(step.warnings) == 1 else f"{len(step.warnings)} warnings")
        return tuple(notes)


@dataclass(frozen=True, slots=True)
class Timeline:
    """A whole run in time."""

    rows: tuple[Row, ...]
    wall_seconds: float
    """From the start of the run to its end."""
    call_seconds: float
    """What the calls of all steps took together; where a step's calls are not known, the step."""
    critical: tuple[Row, ...]
    """The critical path, first step first."""

    @property
    def parallel(self) -> float | None:
        """How many calls were under way at a time, on average; None for a run that took no time."""
        return self.call_seconds / self.wall_seconds if self.wall_seconds > 0 else None

    def share(self, seconds: float) -> float:
        """Where a moment stands between the start of the run (0) and its end (1)."""
        return min(max(seconds / self.wall_seconds, 0.0), 1.0) if self.wall_seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on the time axis."""

    seconds: float
    label: str


def lay_out(result: PlanOutcome) -> Timeline:
    """The rows of a run in the order in which they are to be shown; none where the plan was refused."""
    steps, records = result.steps, {call.id: call for call in result.calls}
    places = {step.id: place for place, step in enumerate(steps)}
    ready, ends = [0.0] * len(steps), [0.0] * len(steps)
    latest: list[int | None] = [None] * len(steps)
    for place in sorted(range(len(steps)), key=lambda place: steps[place].wave):
        step = steps[place]
        for id in (*step.needs, *step.after):
            earlier = places.get(id)
            if earlier is None or steps[earlier].wave >= step.wave:
                continue
            if latest[place] is None or ends[earlier] > ready[place]:
                latest[place], ready[place] = earlier, ends[earlier]
        ends[place] = ready[place] if step.started_seconds is None else step.started_seconds + step.duration_seconds
    path = _path(steps, ends, latest)
    on_path = frozenset(path)
    rows = [
        Row(
            place, step, ready[place], ends[place], place in on_path,
            tuple([records[id] for id in step.calls if id in records]),
        )
        for place, step in enumerate(steps)
    ]  # fmt: skip
    in_calls = sum(
        sum(call.duration_seconds - call.queued_seconds for call in row.calls)
        if row.calls
        else row.step.duration_seconds
        for row in rows
    )
    shown = sorted(
        rows,
        key=lambda row: (
            row.step.wave,
            row.ready_seconds if row.start_seconds is None else row.start_seconds,
            row.place,
        ),
    )
    wall = max([result.usage.wall_seconds, *ends])
    return Timeline(tuple(shown), wall, in_calls, tuple([rows[place] for place in path]))


def _path(steps: Sequence[StepResult], ends: Sequence[float], latest: Sequence[int | None]) -> list[int]:
    called = [place for place, step in enumerate(steps) if step.started_seconds is not None]
    place = max(called, key=lambda place: ends[place], default=None)
    path: list[int] = []
    while place is not None:
        if steps[place].started_seconds is not None:
            path.append(place)
        place = latest[place]
    return path[::-1]


def most_telling(rows: Sequence[Row], most: int) -> tuple[list[Row], list[Row]]:
    """So many rows that tell most, in their order, and those left out.

    What did not succeed goes before the critical path, that before the other bars, longer before shorter; skipped
    steps come last.
    """
    if len(rows) <= most:
        return list(rows), []

    def rank(index: int) -> tuple[bool, bool, bool, float, int]:
        row = rows[index]
        bad = row.step.status in ("failed", "unknown_outcome")
        return not bad, not row.critical, row.start_seconds is None, -row.step.duration_seconds, index

    chosen = frozenset(sorted(range(len(rows)), key=rank)[:most])
    kept = [row for index, row in enumerate(rows) if index in chosen]
    return kept, [row for index, row in enumerate(rows) if index not in chosen]


def ticks(span_seconds: float, most: int) -> list[Tick]:
    """Marks at round numbers from 0 to the span: that at 0 always, and at most so many. All in one unit."""
    step = next((step for step in _steps() if int(span_seconds / step * (1 + 1e-9)) < most), span_seconds)
    count = int(span_seconds / step * (1 + 1e-9)) if span_seconds > 0 else 0
    unit, seconds = _unit(span_seconds, step)
    return [Tick(0.0, "0"), *(Tick(at * step, f"{at * step / seconds:.6g} {unit}") for at in range(1, count + 1))]


def _steps() -> Iterator[float]:
    """Round numbers of seconds, ascending: 1, 2 or 5 of a power of ten below a minute, then as clocks have them."""
    for power in range(-7, 1):
        yield from (digit * 10.0**power for digit in (1, 2, 5))
    yield from (10, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
    yield from (86400.0 * 2**power for power in range(1, 40))


def _unit(span_seconds: float, step_seconds: float) -> tuple[str, float]:
    """The largest unit that the span has one of, and in which the steps are no fractions; below a minute, the first."""
    for unit, seconds in (("h", 3600.0), ("min", 60.0)):
        if span_seconds >= seconds and step_seconds >= seconds:
            return unit, seconds
    return next(
        ((unit, seconds) for unit, seconds in (("s", 1.0), ("ms", 1e-3)) if span_seconds >= seconds), ("µs", 1e-6)
    )


def duration_words(seconds: float) -> str:
    """A duration in three digits or so, with its unit."""
    if seconds <= 0:
        return "0 ms"
    if seconds < 0.9995e-3:
        return f"{max(seconds * 1e6, 1):.0f} µs"
    if seconds < 0.9995:
        return f"{_three_digits(seconds * 1e3)} ms"
    if seconds < 99.95:
        return f"{_three_digits(seconds)} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60:,} h {minutes % 60:02} min"


def _three_digits(number: float) -> str:
    return f"{number:#.3g}".rstrip(".")


def count_words(rows: Sequence[Row], of_all: bool = True) -> str:
    """``7/8 steps succeeded, 1 failed``; where they are not all steps, ``7 succeeded, 1 failed``."""
    counts = Counter(row.step.status for row in rows)
    told = [f"{counts[status]:,} {words}" for status, words in STATUS_WORDS.items() if counts[status]]
    if not of_all:
        return ", ".join(told)
    head = f"{counts['succeeded']:,}/{len(rows):,} step{'' if len(rows) == 1 else 's'} succeeded"
    return ", ".join([head, *(words for words in told if not words.endswith(" succeeded"))])


def visible(text: str, keep: str = "") -> str:
    """`text` with every character that would drive a terminal, turn the direction of writing, or not be seen, written
    as an escape (``\\x1b``, ``\\u202e``).

    Args:
        text: from anybody.
        keep: control characters to leave as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep or unicodedata.category(each) == "Zs" else _escape(each)
        for each in text
    )


def _escape(character: str) -> str:
    if character in "\n\t\r":
        return {"\n": "\\n", "\t": "\\t", "\r": "\\r"}[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
