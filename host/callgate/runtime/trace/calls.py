"""Calls as markup: one that opens, many of one place folded, and all of a run on a time axis where they overlap."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from callgate.runtime.gate.records import CallRecord, CallStatus

from .markup import SHORT, Sheet, Tone, bar, duration, fact_list, fold, plural, share, ticks

__all__ = ["axis", "call_markup", "calls_of_a_place", "scale", "tone_of"]

_MARKS: Final[dict[Tone, str]] = {"ok": "✓", "bad": "✗", "odd": "?"}
_TONES: Final[dict[CallStatus, Tone]] = {
    "succeeded": "ok", "failed": "bad", "timed_out": "bad", "denied": "bad", "refused": "bad",
}  # fmt: skip
_APPROVALS: Final = {"granted": "approved", "changed": "approved with other arguments", "denied": "denied"}
_BRIEF: Final = 90
"""Characters of arguments and results in a call's line."""
MOST_AT_A_PLACE: Final = 50
_FOLDED_FROM: Final = 4
"""Calls of one line of a program that share a fold."""
_MOST_ROWS: Final = 40
"""Calls with a row of their own on the axis; more calls share rows."""
_MOST_LANES: Final = 48
_MOST_BARS: Final = 4000


def tone_of(call: CallRecord) -> Tone:
    """How a call ended."""
    return _TONES.get(call.status, "odd")


def call_markup(sheet: Sheet, call: CallRecord) -> str:
    """A call in one line, which opens for everything that is known of it."""
    omitted = call.result_bytes - len((call.result or "").encode("utf-8", "replace"))
    call = sheet.redaction.record(call)
    tone = tone_of(call)
    given = sheet.brief(call.arguments, _BRIEF)
    gave = ""
    if call.result is not None:
        gave = f' <code class="gave">→ {sheet.line(sheet.redaction.result(None, call.result), _BRIEF)}</code>'
    elif call.error:
        gave = f' <span class="{tone}">{sheet.line(call.error)}</span>'
    summary = (
        f'<span class="{tone}">{_MARKS[tone]}</span> <span class="tool">{sheet.line(call.tool)}</span> '
        f'<code class="given">{given}</code>{gave} {"".join(_tags(sheet, call))}'
        f'<span class="took">{duration(call.duration_seconds)}</span>'
    )
    return fold(summary, fact_list(_facts(sheet, call, omitted)), kind="call")


def _tags(sheet: Sheet, call: CallRecord) -> Iterator[str]:
    if call.status != "succeeded":
        yield f'<span class="tag {tone_of(call)}">{_words(call.status)}</span> '
    if call.early:
        yield '<span class="tag">early</span> '
    if call.cached:
        yield '<span class="tag">cached</span> '
    if call.attempts > 1:
        yield f'<span class="tag odd">{plural(call.attempts, "attempt")}</span> '
    if call.approval in _APPROVALS:
        yield f'<span class="tag">{_APPROVALS[call.approval]}{_by(sheet, call)}</span> '
    if call.fallback:
        yield '<span class="tag odd">fallback</span> '


def _by(sheet: Sheet, call: CallRecord) -> str:
    return f" by {sheet.line(call.approved_by)}" if call.approved_by else ""


def _facts(sheet: Sheet, call: CallRecord, omitted: int) -> Iterator[tuple[str, str]]:
    yield "call", f"{call.id:,}, {_words(call.status)}"
    began = f"{duration(call.started_seconds)} after the start, took {duration(call.duration_seconds)}"
    queued = f", {duration(call.queued_seconds)} of it in a queue" if call.queued_seconds > 0 else ""
    yield "began", began + queued
    yield "arguments", f"<pre>{sheet.value(call.arguments)}</pre>"
    if call.changed_arguments is not None:
        yield "called with", f"<pre>{sheet.value(call.changed_arguments)}</pre>"
    if call.result is not None:
        yield "result", f"<pre>{sheet.json(call.result, omitted=omitted)}</pre>"
    yield "error", f"<pre>{sheet.text(call.error)}</pre>" if call.error else ""
    timed_out = f", {call.timeouts:,} timed out" if call.timeouts else ""
    if call.attempts != 1 or timed_out or call.cached:
        yield "attempts", f"{call.attempts:,}{timed_out}{', the result came from the cache' if call.cached else ''}"
    if call.approval in _APPROVALS:
        yield "approval", f"{_APPROVALS[call.approval]}{_by(sheet, call)}"
    if call.fallback:
        yield "fallback", f"{sheet.line(call.fallback)}, call {call.fallback_call}"


def calls_of_a_place(sheet: Sheet, calls: Sequence[CallRecord]) -> str:
    """The calls of one line or step: each in a line, or many in a fold, those that did not succeed first."""
    if len(calls) < _FOLDED_FROM:
        return sheet.list((call_markup(sheet, call) for call in calls), len(calls), "calls")
    tools = Counter(call.tool for call in calls).most_common(3)
    names = ", ".join(sheet.line(name, 60) for name, _ in tools)
    failed = sum(tone_of(call) != "ok" for call in calls)
    state = f'<span class="tag bad">{failed:,} not succeeded</span>' if failed else '<span class="ok">✓</span>'
    took = [call.duration_seconds for call in calls]
    summary = (
        f'{state} <span class="tool">{names}</span> × {len(calls):,} '
        f'<span class="took">{duration(min(took))} to {duration(max(took))}</span>'
    )
    shown = sorted(calls, key=lambda call: tone_of(call) == "ok")[:MOST_AT_A_PLACE]
    return fold(summary, sheet.list((call_markup(sheet, call) for call in shown), len(calls), "calls"), kind="call")


# in time


def axis(sheet: Sheet, calls: Sequence[CallRecord], wall_seconds: float, prints: Iterable[float] = ()) -> str:
    """All calls on a common axis.

    Args:
        sheet: of the page.
        calls: of one run.
        wall_seconds: of the run.
        prints: when the program printed, in seconds.
    """
    wall = _end(calls, wall_seconds)
    marks = "".join(f'<b class="print" style="left:{min(share(at, wall), 99.5):.2f}%"></b>' for at in prints)
    printed = f'<div class="row"><span class="name dim">prints</span><span class="track">{marks}</span></div>'
    if len(calls) <= _MOST_ROWS:
        rows: Iterable[str] = (_row(sheet, call, wall) for call in calls)
        body = sheet.list(rows, len(calls), "calls")
    else:
        body = _lanes(sheet, calls, wall)
    kind = "axis" if len(calls) <= _MOST_ROWS else "axis lanes"
    return f'<div class="{kind}">{scale(wall)}{body}{printed if marks else ""}</div>'


def scale(wall: float) -> str:
    """The row above an axis that says how long it is."""
    return (
        '<div class="row scale"><span class="name"></span>'
        f'<span class="track">{"".join(ticks(wall))}</span><span class="took"></span></div>'
    )


def _end(calls: Sequence[CallRecord], wall_seconds: float) -> float:
    ends = [wall_seconds, *(call.started_seconds + call.duration_seconds for call in calls)]
    return max((end for end in ends if math.isfinite(end)), default=0.0) or 1.0


def _row(sheet: Sheet, call: CallRecord, wall: float) -> str:
    drawn = bar(call.started_seconds, call.duration_seconds, wall, tone_of(call), call.queued_seconds)
    where = f' <span class="dim">line {call.line}</span>' if call.line else ""
    return (
        f'<div class="row"><span class="name">{sheet.line(call.tool)}{where}</span><span class="track">{drawn}</span>'
        f'<span class="took">{duration(call.duration_seconds)}</span></div>'
    )


def _lanes(sheet: Sheet, calls: Sequence[CallRecord], wall: float) -> str:
    """Calls in as few rows as their overlaps allow; so the number of rows is how many ran at once."""
    free: list[tuple[float, int]] = []
    lanes: list[list[str]] = []
    left_out = max(len(calls) - _MOST_BARS, 0)
    for call in sorted(calls[:_MOST_BARS], key=lambda call: call.started_seconds):
        start, end = call.started_seconds, call.started_seconds + call.duration_seconds
        if free and free[0][0] <= start:
            lane = heapq.heappop(free)[1]
        elif len(lanes) < _MOST_LANES:
            lane = len(lanes)
            lanes.append([])
        else:
            left_out += 1
            continue
        heapq.heappush(free, (end, lane))
        lanes[lane].append(bar(start, call.duration_seconds, wall, tone_of(call)))
    rows = (
        f'<div class="row"><span class="name dim">{"at once" if number == 0 else ""}</span>'
        f'<span class="track">{"".join(lane)}</span><span class="took">{number + 1}</span></div>'
        for number, lane in enumerate(lanes)
    )
    more = f'<p class="more">… and {left_out:,} more calls</p>' if left_out else ""
    return sheet.list(rows, len(lanes), "rows") + more


def _words(status: str) -> str:
    return status[:SHORT].replace("_", " ") if status in _WORDS else "unknown"


_WORDS: Final = frozenset(CallStatus.__args__)  # type: ignore[attr-defined]
