"""A plan's run in time: the order of its steps, its critical path, and a chart for the terminal.

1. Rows stand by wave, in a wave by when their step began. Waves overlap in time.
2. A skipped step has no bar. For the steps that wait for it, it ended when the last step that it waited for ended.
3. The critical path is walked backwards: from the step that ended last to the one it waited for that ended last, and
   so on. Skipped steps are walked through and not named.
4. Every text of a model, a tool or a guest is made printable and cut before it is shown.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from callgate.cut import cut, duration
from callgate.plan.outcomes import StepStatus
from callgate.runtime.gate.records import CallRecord
from callgate.tools.faults import printable

if TYPE_CHECKING:
    from rich.table import Table

    from .result import PlanResult, StepResult

__all__ = ["MARKS", "MOST_ROWS", "STATUS_WORDS", "Row", "Timeline", "lay_out", "timeline_text"]

MOST_ROWS: Final = 60
"""Steps with a line of their own in the terminal."""
MOST_FAULTS: Final = 20
CRITICAL: Final = "◆"
MARKS: Final[dict[StepStatus, str]] = {
    "succeeded": "✓", "failed": "✗", "unknown_outcome": "?", "skipped": "–", "pending": "…",
}  # fmt: skip
STATUS_WORDS: Final[dict[StepStatus, str]] = {
    "succeeded": "succeeded", "failed": "failed", "unknown_outcome": "outcome unknown", "skipped": "skipped",
    "pending": "not ended",
}  # fmt: skip
_COLOURS: Final[dict[StepStatus, str]] = {
    "succeeded": "green", "failed": "red", "unknown_outcome": "yellow", "skipped": "bright_black",
    "pending": "bright_black",
}  # fmt: skip
_BAD: Final = ("failed", "unknown_outcome")
_LEAST_SHARE: Final = 0.005
"""The shortest bar that can still be seen."""
_MOST_ERRORS: Final = 8
_MOST_ON_PATH: Final = 12
_LINE_CHARACTERS: Final = 300
_NAME_CHARACTERS: Final = 80


@dataclass(frozen=True, slots=True)
class Row:
    """One step in time."""

    step: StepResult
    calls: tuple[CallRecord, ...]
    left: float
    """Where its bar begins, between the start of the run (0) and its end (1)."""
    right: float
    critical: bool

    @property
    def notes(self) -> list[str]:
        """Facts that a bar does not show, in a few words each."""
        step, notes = self.step, []
        if step.items is not None:
            ended = step.status in ("succeeded", "failed")
            notes.append(f"{step.items - step.items_failed}/{step.items} items" if ended else f"of {step.items} items")
        if step.fallback is not None:
            notes.append(f"by {step.fallback}")
        tries = [call.attempts for call in self.calls] or [step.attempts if step.items is None else 0]
        if retries := sum(max(attempts - 1, 0) for attempts in tries):
            notes.append("1 retry" if retries == 1 else f"{retries} retries")
        if step.cached:
            notes.append("cached")
        if step.warnings and not step.items_failed:
            notes.append("1 warning" if len(step.warnings) == 1 else f"{len(step.warnings)} warnings")
        return notes


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run in time: the rows in the order in which they are shown, and how many steps have none."""

    rows: list[Row]
    left_out: int
    headline: str
    critical: list[StepResult]
    wall_seconds: float

    @property
    def critical_words(self) -> str:
        """The ids of the critical path with arrows between them, the middle of a long path counted."""
        ids = [step.id for step in self.critical]
        if len(ids) > _MOST_ON_PATH:
            half = _MOST_ON_PATH // 2
            ids[half:-half] = [f"… {len(ids) - 2 * half:,} more …"]
        length = duration(sum(step.duration_seconds for step in self.critical))
        return f"{CRITICAL} critical path, {length}: {' → '.join(map(_name, ids))}"


def lay_out(result: PlanResult, most: int) -> Timeline:
    """The rows of a run.

    Args:
        result: of a plan that has run.
        most: rows at most. Steps that did not succeed are kept first, then those on the critical path, then the
            longest; skipped steps go first.
    """
    steps, records = {step.id: step for step in result.steps}, {call.id: call for call in result.calls}
    ends: dict[str, float] = {}
    latest: dict[str, str | None] = {}
    for step in sorted(result.steps, key=lambda step: step.wave):
        before = max((id for id in (*step.needs, *step.after) if id in ends), key=ends.__getitem__, default=None)
        waited = 0.0 if before is None else ends[before]
        ends[step.id] = waited if step.started_seconds is None else step.started_seconds + step.duration_seconds
        latest[step.id] = before
    at = max((id for id in ends if steps[id].started_seconds is not None), key=ends.__getitem__, default=None)
    path: list[StepResult] = []
    while at is not None:
        if steps[at].started_seconds is not None:
            path.append(steps[at])
        at = latest[at]
    on_path = {step.id for step in path}
    wall = max([result.usage.wall_seconds, *ends.values()])
    rows = [
        _row(step, tuple(records[id] for id in step.calls if id in records), wall, step.id in on_path)
        for step in sorted(result.steps, key=lambda step: (step.wave, _moment(step, ends)))
    ]
    kept = [rows[index] for index in sorted(sorted(range(len(rows)), key=lambda index: _rank(rows[index]))[:most])]
    return Timeline(kept, len(rows) - len(kept), _headline(rows, wall), path[::-1], wall)


def _moment(step: StepResult, ends: dict[str, float]) -> float:
    return ends[step.id] if step.started_seconds is None else step.started_seconds


def _row(step: StepResult, calls: tuple[CallRecord, ...], wall: float, critical: bool) -> Row:
    start = step.started_seconds or 0.0
    left = min(start / wall, 1 - _LEAST_SHARE) if wall > 0 else 0.0
    right = max((start + step.duration_seconds) / wall if wall > 0 else 0.0, left + _LEAST_SHARE)
    return Row(step, calls, left, min(right, 1.0), critical)


def _rank(row: Row) -> tuple[bool, bool, bool, float]:
    return row.step.status not in _BAD, not row.critical, row.step.started_seconds is None, -row.step.duration_seconds


def _headline(rows: Sequence[Row], wall: float) -> str:
    counts = Counter(row.step.status for row in rows)
    words = [f"{counts[status]:,} {words}" for status, words in list(STATUS_WORDS.items())[1:] if counts[status]]
    good = f"{counts['succeeded']:,}/{len(rows):,} step{'' if len(rows) == 1 else 's'} succeeded"
    return f"{', '.join([good, *words])} in {duration(wall)}"


def _refusal(result: PlanResult) -> Iterator[str]:
    """Why a plan was not run: its first faults, one text each."""
    faults = [f"{MARKS['failed']} {fault}" for fault in result.faults if fault.severity == "error"]
    yield from faults[:MOST_FAULTS]
    if len(faults) > MOST_FAULTS:
        yield f"… {len(faults) - MOST_FAULTS:,} more faults"
    elif not faults and result.error is not None:
        yield f"{MARKS['failed']} {result.error.message}"
    if result.calls:
        yield f"Already called while the plan was being written: {len(result.calls):,}"


def timeline_text(result: PlanResult, width: int = 100, color: bool = False, *, most: int = MOST_ROWS) -> str:
    """A plan's run as a chart in text; of a plan that was refused, the faults.

    Args:
        result: of a plan.
        width: cells of a line at most.
        color: with SGR sequences (ECMA-48), which take no cells. No mark depends on them.
        most: rows at most.

    Returns:
        Lines without a newline at the end.
    """
    from rich.console import Console
    from rich.text import Text

    out = io.StringIO()
    console = Console(
        file=out, width=width, color_system="standard" if color else None, force_terminal=color, no_color=False,
        force_jupyter=False, legacy_windows=False,
    )  # fmt: skip
    if result.goal:
        console.print(Text(_line(result.goal), "bold"))
    if not result.steps:
        console.print(Text("The plan was not run.", "bold"))
        for line in _refusal(result):
            console.print(Text(_line(line)))
    else:
        timeline = lay_out(result, most)
        console.print(_chart(timeline, width))
        for line, style in _below(timeline, result):
            console.print(Text(_line(line), style))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def _chart(timeline: Timeline, width: int) -> Table:
    from rich.bar import Bar
    from rich.table import Table
    from rich.text import Text

    axis = Table.grid(expand=True)
    axis.add_column()
    axis.add_column(justify="right")
    axis.add_row("0", duration(timeline.wall_seconds))
    chart = Table(box=None, expand=True, pad_edge=False, header_style="dim")
    chart.add_column("wave", justify="right")
    chart.add_column("step", no_wrap=True, max_width=max(width // 4, 6))
    chart.add_column("tool", no_wrap=True, max_width=max(width // 6, 4), style="dim")
    chart.add_column(axis, ratio=1, no_wrap=True)
    chart.add_column("took", justify="right", no_wrap=True)
    chart.add_column("", no_wrap=True, max_width=max(width // 6, 4), style="dim")
    wave = -1
    for row in timeline.rows:
        step, colour = row.step, _COLOURS[row.step.status]
        name = Text(f"{CRITICAL if row.critical else ' '} ")
        name.append(MARKS[step.status], colour).append(f" {_name(step.id)}")
        cells = (str(step.wave) if step.wave != wave else "", name, Text(_name(step.tool)))
        if step.started_seconds is not None:
            took, notes = duration(step.duration_seconds), _line(", ".join(row.notes))
            chart.add_row(*cells, Bar(1, row.left, row.right, color=colour), took, Text(notes))
        else:
            chart.add_row(*cells, Text(_line(step.error or "no call was made"), "dim"))
        wave = step.wave
    return chart


def _below(timeline: Timeline, result: PlanResult) -> Iterator[tuple[str, str]]:
    """The lines below the chart, each with its style."""
    if timeline.left_out:
        yield f"… and {timeline.left_out:,} more steps", "dim"
    bad = [step for step in result.steps if step.status in _BAD]
    for step in bad[:_MOST_ERRORS]:
        words = f"{_name(step.id)} {STATUS_WORDS[step.status]}: {step.error or 'no reason given'}"
        yield f"{MARKS[step.status]} {words}", _COLOURS[step.status]
    if len(bad) > _MOST_ERRORS:
        yield f"… {len(bad) - _MOST_ERRORS:,} more errors", "dim"
    if result.error is not None and result.error.limit:
        yield f"{MARKS['failed']} the run was ended: {result.error.message}", _COLOURS["failed"]
    yield timeline.headline, "bold"
    if timeline.critical:
        yield timeline.critical_words, ""


def _line(text: str) -> str:
    return printable(cut(" ".join(text[:1000].split()), _LINE_CHARACTERS))


def _name(text: str) -> str:
    return printable(text if len(text) <= _NAME_CHARACTERS else f"{text[: _NAME_CHARACTERS - 1]}…")
