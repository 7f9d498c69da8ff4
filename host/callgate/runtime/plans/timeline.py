"""A plan's run in time, for a terminal: a line a step, a bar on a common axis. Knows cells and colours; times nothing.

Every text that a model, a tool or a guest wrote is made visible first (`timeline_rows.visible`), on one line, and cut
to its column: what is returned drives no terminal but by the colours asked for here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from rich.cells import cell_len

from callgate.plan.outcomes import StepStatus

from .outcome import PlanOutcome
from .timeline_rows import (
    MARKS,
    STATUS_WORDS,
    Row,
    Tick,
    Timeline,
    count_words,
    duration_words,
    lay_out,
    most_telling,
    ticks,
    visible,
)

__all__ = ["timeline_text"]

MOST_ROWS: Final = 60
"""Steps with a line of their own."""
MOST_ERRORS: Final = 8
MOST_FAULTS: Final = 20
_LEAST_BAR_CELLS: Final = 16
_TICK_CELLS: Final = 9
"""A tick's label and some air."""

_HALVES: Final = " ▖▗▄"
"""Nothing, the left half, the right half, all of a cell."""
_GRID: Final = "┊"
_WAITED: Final = "╌"
_CRITICAL: Final = "◆"

_COLOURS: Final[dict[StepStatus, str]] = {
    "succeeded": "32", "failed": "31", "unknown_outcome": "33", "skipped": "2", "pending": "2",
}  # fmt: skip
_FAINT: Final = "2"
_STRONG: Final = "1"

Piece = tuple[str, str]
"""Text, and the parameters of its SGR sequence (ECMA-48); none for plain text."""


def timeline_text(result: PlanOutcome, width: int = 100, color: bool = False) -> str:
    """A plan's run as a Gantt chart in text.

    Args:
        result: of a plan that has run; of one that was refused, the faults are told.
        width: cells of a line at most.
        color: with SGR sequences, which take no cells. No mark depends on them.

    Returns:
        Lines without a newline at the end. Failed and unknown steps are the last to lose theirs in a long plan.
    """
    timeline = lay_out(result)
    lines: list[list[Piece]] = []
    if result.goal:
        lines += [[(line, _STRONG)] for line in _wrapped(result.goal, width)]
    if timeline.rows:
        lines += _chart(timeline, result, width)
    else:
        lines += _refusal(result, width)
    return "\n".join(_rendered(line, width, color) for line in lines)


def _refusal(result: PlanOutcome, width: int) -> Iterable[list[Piece]]:
    yield [("The plan was not run.", _STRONG)]
    told = [str(fault) for fault in result.faults if fault.severity == "error"]
    if not told and result.error is not None:
        told = [result.error.message]
    for text in told[:MOST_FAULTS]:
        yield from _told("✗", "31", text, width)
    if len(told) > MOST_FAULTS:
        yield [(f"… {len(told) - MOST_FAULTS:,} more faults", _FAINT)]
    if result.calls:
        yield [(f"Already called while it was being written: {len(result.calls):,} tools", "")]


def _chart(timeline: Timeline, result: PlanOutcome, width: int) -> Iterable[list[Piece]]:
    shown, left_out = most_telling(timeline.rows, MOST_ROWS)
    columns = _Columns(shown, width)
    marks = ticks(timeline.wall_seconds, columns.bar // _TICK_CELLS + 1)
    yield columns.head(_axis(marks, timeline, columns.bar))
    grid = {_cell(timeline.share(mark.seconds), columns.bar) for mark in marks}
    wave, waited = None, False
    for row in shown:
        bar = _bar(row, timeline, columns.bar, grid)
        waited = waited or any(_WAITED in text for text, _ in bar)
        yield columns.row(row, row.step.wave != wave, bar)
        wave = row.step.wave
    if left_out:
        longest = duration_words(max(row.step.duration_seconds for row in left_out))
        words = f"… and {len(left_out):,} more: {count_words(left_out, of_all=False)}, none longer than {longest}"
        yield [(words, _FAINT)]
    if waited:
        yield [(f"{_WAITED * 2} could have begun", _FAINT)]
    yield from _errors([row for row in timeline.rows if row.step.status in ("failed", "unknown_outcome")], width)
    if result.error is not None and result.error.limit:
        yield from _told("✗", "31", f"the run was ended: {result.error.message}", width)
    yield from _sums(timeline, width)


def _errors(bad: Sequence[Row], width: int) -> Iterable[list[Piece]]:
    for row in bad[:MOST_ERRORS]:
        status = row.step.status
        name = _fitted(_name(row.step.id, width), max(width // 3, 8), pad=False)
        words = STATUS_WORDS[status]
        yield from _told(
            MARKS[status], _COLOURS[status], f"{name} {words}: {row.step.error or 'no reason given'}", width
        )
    if len(bad) > MOST_ERRORS:
        yield [(f"… {len(bad) - MOST_ERRORS:,} more errors", _FAINT)]


def _sums(timeline: Timeline, width: int) -> Iterable[list[Piece]]:
    took, in_calls = duration_words(timeline.wall_seconds), duration_words(timeline.call_seconds)
    parallel = f", {timeline.parallel:.1f} at a time on average" if timeline.parallel is not None else ""
    words = f"{count_words(timeline.rows)} in {took}; {in_calls} in calls{parallel}"
    yield from ([(line, _STRONG)] for line in _wrapped(words, width))
    if timeline.critical:
        length = sum(row.step.duration_seconds for row in timeline.critical)
        head = f"{_CRITICAL} critical path, {duration_words(length)}: "
        yield [(head, ""), (_chain([row.step.id for row in timeline.critical], max(width - len(head), 10)), "")]


def _chain(ids: Sequence[str], cells: int) -> str:
    """The ids with arrows between them; where they do not fit, the middle is counted."""
    most = max(cells // 3, 8)
    names = [_fitted(_name(id, most), most, pad=False) for id in ids[:cells]]
    whole = " → ".join(names)
    if len(ids) == len(names) and cell_len(whole) <= cells:
        return whole
    last = _fitted(_name(ids[-1], most), most, pad=False)
    kept: list[str] = []
    for name in names[:-1]:
        middle = f" → … {len(ids) - len(kept) - 2:,} more … → "
        if kept and cell_len(" → ".join([*kept, name]) + middle + last) > cells:
            break
        kept.append(name)
    missing = len(ids) - len(kept) - 1
    return " → ".join(kept) + (f" → … {missing:,} more … → " if missing else " → ") + last


class _Columns:
    """Where things stand in a line: wave, marks, id, tool, bar, duration, notes. The bar gets what is left."""

    def __init__(self, rows: Sequence[Row], width: int) -> None:
        self.wave = max(4, *(len(str(row.step.wave)) for row in rows))
        self.notes = min(max(cell_len(_notes(row)) for row in rows), max(width // 4, 11))
        self.took = max(4, *(len(_took(row)) for row in rows))
        fixed = self.wave + self.took + self.notes + (13 if self.notes else 11)
        names = max(min(int((width - fixed) * 0.45), width - fixed - _LEAST_BAR_CELLS), 4)
        longest_id = max(4, *(min(cell_len(_name(row.step.id, width)), width) for row in rows))
        longest_tool = max(4, *(min(cell_len(_name(row.step.tool, width)), width) for row in rows))
        if names < 16:
            self.id, self.tool = min(longest_id, names), 0
        else:
            self.id = min(longest_id, max(names - longest_tool, names // 2))
            self.tool = min(longest_tool, names - self.id)
        self.bar = max(width - fixed - self.id - self.tool + (2 if not self.tool else 0), 4)
        self.width = width

    def head(self, axis: str) -> list[Piece]:
        tool = f"  {_fitted('tool', self.tool)}" if self.tool else ""
        return [(f"{'wave':>{self.wave}}     {_fitted('step', self.id)}{tool}  {axis}  {'took':>{self.took}}", _FAINT)]

    def row(self, row: Row, first_of_wave: bool, bar: list[Piece]) -> list[Piece]:
        step = row.step
        colour = _COLOURS[step.status]
        line: list[Piece] = [
            (f"{step.wave if first_of_wave else '':>{self.wave}} ", _FAINT),
            (f"{_CRITICAL if row.critical else ' '} ", _STRONG),
            (f"{MARKS[step.status]} ", colour),
            (_fitted(_name(step.id, self.width), self.id), _STRONG if row.critical else ""),
        ]
        if self.tool:
            line.append((f"  {_fitted(_name(step.tool, self.width), self.tool)}", _FAINT))
        line.append(("  ", ""))
        if row.start_seconds is None:
            why = step.error or "no call was made"
            return [*line, (_line(why, self.width), _FAINT)]
        return [*line, *bar, (f"  {_took(row):>{self.took}}", ""), (f"  {_fitted(_notes(row), self.notes)}", _FAINT)]


def _took(row: Row) -> str:
    return "" if row.start_seconds is None else duration_words(row.step.duration_seconds)


def _notes(row: Row) -> str:
    return "" if row.start_seconds is None else _line(", ".join(row.notes), 200)


def _cell(share: float, cells: int) -> int:
    return min(int(share * cells + 1e-9), cells - 1)


def _axis(marks: Sequence[Tick], timeline: Timeline, cells: int) -> str:
    """Labels, each at the right of its mark, or at the left where there is no room; one that does not fit is left
    out."""
    line = [" "] * cells
    free = 0
    for mark in marks:
        at = _cell(timeline.share(mark.seconds), cells)
        label = f"{_GRID}{mark.label}"
        if at >= free and at + len(label) <= cells:
            line[at : at + len(label)] = label
            free = at + len(label) + 1
        elif at - len(mark.label) >= free:
            line[at - len(mark.label) : at + 1] = f"{mark.label}{_GRID}"
            free = at + 2
    return "".join(line)


def _bar(row: Row, timeline: Timeline, cells: int, grid: set[int]) -> list[Piece]:
    """The bar in its place, what was waited before it, and the lines of the axis where there is nothing."""
    if row.start_seconds is None:
        return []
    start, end = timeline.share(row.start_seconds) * cells, timeline.share(row.end_seconds) * cells
    first, bar = _solid_bar(start, end, cells)
    waited = _cell(timeline.share(row.ready_seconds), cells) if row.waited_seconds > 0 else first
    before = [
        _WAITED if waited <= index < first and first - waited > 1 else _GRID if index in grid else " "
        for index in range(first)
    ]
    after = [_GRID if index in grid else " " for index in range(first + len(bar), cells)]
    return [("".join(before), _FAINT), (bar, _COLOURS[row.step.status]), ("".join(after), _FAINT)]


def _solid_bar(start: float, end: float, cells: int) -> tuple[int, str]:
    """A bar from start to end, in cells, right to half a cell: its first cell, and the blocks. They are half as high as
    the line, so that rows do not run together."""
    begin = min(round(start * 2), 2 * cells - 1)
    stop = min(max(round(end * 2), begin + 1), 2 * cells)
    first, last = begin // 2, (stop + 1) // 2
    halves = [(begin <= 2 * cell < stop) + 2 * (begin <= 2 * cell + 1 < stop) for cell in range(first, last)]
    return first, "".join(_HALVES[filled] for filled in halves)


def _told(mark: str, style: str, text: str, width: int) -> Iterable[list[Piece]]:
    """A mark, and a text on a few lines beside it."""
    for number, line in enumerate(_wrapped(text, width - 2)):
        yield [("  " if number else f"{mark} ", style), (line, "")]


def _wrapped(text: str, cells: int, most: int = 3) -> Iterable[str]:
    """`text` broken at spaces into lines of so many cells; the last of the most lines is cut."""
    words = _line(text, most * cells).split(" ")
    for number in range(most):
        line = words.pop(0)
        while words and (number == most - 1 or cell_len(f"{line} {words[0]}") <= cells):
            line = f"{line} {words.pop(0)}"
        yield _fitted(line, cells, pad=False)
        if not words:
            break


def _name(text: str, cells: int) -> str:
    """An id or a tool, made visible whole: two names that differ are to look different."""
    return visible(text[: 4 * cells + 4])


def _line(text: str, cells: int) -> str:
    """On one line, made visible, and not endlessly longer than what can be shown."""
    return visible(" ".join(text[: 4 * cells + 4].split()) or text[:8])


def _fitted(text: str, cells: int, pad: bool = True) -> str:
    """`text` in so many cells: cut with an ellipsis, or filled with spaces."""
    long = cell_len(text)
    if long <= cells:
        return text + " " * (cells - long) if pad else text
    kept: list[str] = []
    used = 0
    for character in text:
        used += cell_len(character)
        if used > cells - 1 or len(kept) > 4 * cells:
            break
        kept.append(character)
    cut = "".join(kept) + "…" if cells > 0 else ""
    return cut + " " * (cells - cell_len(cut)) if pad else cut


def _rendered(line: Sequence[Piece], width: int, color: bool) -> str:
    if sum(cell_len(text) for text, _ in line) > width:
        line = _cut(line, width)
    while line and not line[-1][0].strip():
        line = line[:-1]
    if not line:
        return ""
    line = [*line[:-1], (line[-1][0].rstrip(), line[-1][1])]
    if not color:
        return "".join(text for text, _ in line)
    return "".join(f"\x1b[{style}m{text}\x1b[0m" if style and text else text for text, style in line)


def _cut(line: Sequence[Piece], width: int) -> list[Piece]:
    kept: list[Piece] = []
    for text, style in line:
        long = cell_len(text)
        if long > width:
            return [*kept, (_fitted(text, width, pad=False), style)] if width > 0 else kept
        kept.append((text, style))
        width -= long
    return kept
