"""Calls as markup: one that opens, many of one place folded, and all of a run on a time axis where they overlap."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Final

from callgate.runtime.gate.records import CallRecord, CallStatus
from callgate.tools import Tool

from .markup import Sheet, Tone, bar, column, duration, fact_list, fold, headline, plural, share, ticks

__all__ = ["approval", "axis", "calls_of_a_place", "scale"]

_MARKS: Final[dict[Tone, str]] = {"ok": "✓", "bad": "✗", "odd": "?"}
_TONES: Final[dict[CallStatus, Tone]] = {
    "succeeded": "ok", "failed": "bad", "timed_out": "bad", "denied": "bad", "refused": "bad",
}  # fmt: skip
_APPROVALS: Final = {"granted": "approved", "changed": "approved with other arguments", "denied": "denied"}
_BRIEF: Final = 120
"""Characters of arguments and results in a call's line."""
MOST_AT_A_PLACE: Final = 50
_FOLDED_FROM: Final = 7
"""Calls of one line of a program that share a fold."""
_MOST_ROWS: Final = 40
"""Rows of the axis. More calls share rows: one for each tool and line."""
_COLUMNS: Final = 120
"""Parts of the axis in the row of many calls."""


def _tone(call: CallRecord) -> Tone:
    """How a call ended."""
    return _TONES.get(call.status, "odd")


def _call(sheet: Sheet, call: CallRecord) -> str:
    """A call in one line, which opens for everything that is known of it."""
    tone, tool = _tone(call), sheet.redaction.tool(call.tool)
    gave = ""
    if call.result is not None:
        gave = f' <code class="gave">→ {sheet.line(sheet.redaction.result(tool, call.result), _BRIEF)}</code>'
    what = (
        f'<span class="{tone}">{_MARKS[tone]}</span> <span class="tool">{sheet.line(call.tool)}</span>'
        f'<code class="given">{sheet.given(call.arguments, _BRIEF, tool)}</code>{gave}'
    )
    below = f'<span class="{tone}">{sheet.line(call.error)}</span> ' if call.error else ""
    summary = headline(what, duration(call.duration_seconds), below + "".join(_tags(sheet, call)))
    return fold(summary, fact_list(_facts(sheet, call, tool)), kind="call")


def _tags(sheet: Sheet, call: CallRecord) -> Iterator[str]:
    if call.status != "succeeded":
        yield f'<span class="tag {_tone(call)}">{_words(call)}</span> '
    if call.early:
        yield '<span class="tag">early</span> '
    if call.cached:
        yield '<span class="tag">cached</span> '
    if call.replayed:
        yield '<span class="tag">made before the run was continued</span> '
    if call.reused:
        yield '<span class="tag">not made again</span> '
    if call.attempts > 1:
        yield f'<span class="tag odd">{plural(call.attempts, "attempt")}</span> '
    if call.approval in _APPROVALS:
        yield f'<span class="tag">{approval(sheet, call)}</span> '
    if call.fallback:
        yield '<span class="tag odd">fallback</span> '


def approval(sheet: Sheet, call: CallRecord) -> str:
    """What was answered about a call, and by whom, which nobody has checked; as markup. Empty if nothing was."""
    by = f" by {sheet.line(call.approved_by)} (as the caller said)" if call.approved_by else ""
    return f"{_APPROVALS[call.approval]}{by}" if call.approval in _APPROVALS else ""


def _facts(sheet: Sheet, call: CallRecord, tool: Tool | None) -> Iterator[tuple[str, str]]:
    """Everything about a call, by name."""
    yield "call", f"number {call.id:,}, {_words(call)}"
    began = f"{duration(call.started_seconds)} after the start"
    if call.started_seconds < 0:
        began = f"{duration(-call.started_seconds)} before the start, while the program was written"
    elif call.early:
        began += ", before the program came to it"
    queued = f", {duration(call.queued_seconds)} of it in a queue" if call.queued_seconds > 0 else ""
    yield (
        "began",
        f"{began}, took {duration(call.duration_seconds)}{queued}",
    )
    yield "arguments", f"<pre>{sheet.value(call.arguments, tool=tool)}</pre>"
    if call.changed_arguments is not None:
        yield "called with", f"<pre>{sheet.value(call.changed_arguments, tool=tool)}</pre>"
    if call.result is not None:
        omitted = call.result_bytes - len(call.result.encode("utf-8", "replace"))
        yield "result", f"<pre>{sheet.json(call.result, omitted, tool)}</pre>"
    yield "error", f"<pre>{sheet.text(call.error, is_cut=True)}</pre>" if call.error else ""
    timed_out = f", {call.timeouts:,} timed out" if call.timeouts else ""
    if call.attempts != 1 or timed_out or call.cached:
        yield "attempts", f"{call.attempts:,}{timed_out}{', the result came from the cache' if call.cached else ''}"
    yield "approval", approval(sheet, call)
    if call.fallback:
        yield "fallback", f"{sheet.line(call.fallback)}, call {call.fallback_call}"


def calls_of_a_place(sheet: Sheet, calls: Sequence[CallRecord]) -> str:
    """The calls of one line or step: each in a line, or many in a fold, those that did not succeed first."""
    if len(calls) < _FOLDED_FROM:
        return sheet.list((_call(sheet, call) for call in calls), len(calls), "calls")
    tools = Counter(call.tool for call in calls).most_common(3)
    names = ", ".join(sheet.line(name, 60) for name, _ in tools)
    failed = sum(_tone(call) != "ok" for call in calls)
    state = f'<span class="tag bad">{failed:,} not succeeded</span>' if failed else '<span class="ok">✓</span>'
    took = [call.duration_seconds for call in calls]
    what = f'{state} <span class="tool">{names}</span> × {len(calls):,}'
    summary = headline(what, f"{duration(min(took))} to {duration(max(took))}")
    shown = sorted(calls, key=lambda call: _tone(call) == "ok")[:MOST_AT_A_PLACE]
    return fold(summary, sheet.list((_call(sheet, call) for call in shown), len(calls), "calls"), kind="call")


def _words(call: CallRecord) -> str:
    return call.status.replace("_", " ")


# in time


def axis(sheet: Sheet, calls: Sequence[CallRecord], wall_seconds: float, prints: Iterable[float] = ()) -> str:
    """All calls on a common axis: each in a row, or many in a row for each tool and line.

    Args:
        sheet: of the page.
        calls: of one run.
        wall_seconds: of the run.
        prints: when the program printed, in seconds.
    """
    wall = _end(calls, wall_seconds)
    marks = "".join(f'<b class="print" style="left:{min(share(at, wall), 99.5):.2f}%"></b>' for at in prints)
    note = ""
    if len(calls) > _MOST_ROWS:
        body = _grouped(sheet, calls, wall)
        note = (
            '<p class="dim">Calls of one line share a row. Its height is how many ran at once; red did not succeed.</p>'
        )
    else:
        body = sheet.list((_row(sheet, call, wall) for call in calls), len(calls), "calls")
        if any(call.queued_seconds >= call.duration_seconds / 100 > 0 for call in calls):
            note = '<p class="dim">The pale beginning of a bar is time in a queue.</p>'
    if any(call.started_seconds < 0 for call in calls):
        note += '<p class="dim">Calls at the left edge began while the program was written.</p>'
    return f'<div class="axis">{scale(wall)}{body}{_axis_row("prints", marks, "") if marks else ""}</div>{note}'


def scale(wall: float) -> str:
    """The row above an axis that says how long it is."""
    return (
        '<div class="row scale"><span class="name"></span>'
        f'<span class="track">{"".join(ticks(wall))}</span><span class="took"></span></div>'
    )


def _axis_row(name: str, drawn: str, took: str, kind: str = "row") -> str:
    return (
        f'<div class="{kind}"><span class="name">{name}</span><span class="track">{drawn}</span>'
        f'<span class="took">{took}</span></div>'
    )


def _end(calls: Sequence[CallRecord], wall_seconds: float) -> float:
    ends = [wall_seconds, *(call.started_seconds + call.duration_seconds for call in calls)]
    return max((end for end in ends if math.isfinite(end)), default=0.0) or 1.0


def _row(sheet: Sheet, call: CallRecord, wall: float) -> str:
    drawn = bar(call.started_seconds, call.duration_seconds, wall, _tone(call), call.queued_seconds)
    return _axis_row(_name(sheet, call, ", early" if call.early else ""), drawn, duration(call.duration_seconds))


def _name(sheet: Sheet, call: CallRecord, more: str) -> str:
    line = f" line {call.line}" if call.line else ""
    return f'{sheet.line(call.tool)}<span class="dim">{line}{more}</span>'


def _grouped(sheet: Sheet, calls: Sequence[CallRecord], wall: float) -> str:
    """A row for each tool and line: its height is how many of the calls ran at once, its red part how many of these did
    not succeed."""
    groups: defaultdict[tuple[str, int | None], list[CallRecord]] = defaultdict(list)
    for call in calls:
        groups[call.tool, call.line].append(call)
    rows = (_crowd(sheet, group, wall) for group in list(groups.values())[:_MOST_ROWS])
    return sheet.list(rows, len(groups), "rows")


def _crowd(sheet: Sheet, calls: Sequence[CallRecord], wall: float) -> str:
    running = _running(calls, wall)
    failed = _running([call for call in calls if _tone(call) != "ok"], wall)
    most = max(running) or 1.0
    drawn = _columns(running, most, "ok") + _columns(failed, most, "bad")
    name = _name(sheet, calls[0], f" × {len(calls):,}")
    return _axis_row(name, drawn, f"{_at_once(calls):,} at once", "row crowd")


def _columns(heights: list[float], most: float, tone: Tone) -> str:
    drawn = (column(at / _COLUMNS, 1 / _COLUMNS, height / most, tone) for at, height in enumerate(heights) if height)
    return "".join(drawn)


def _running(calls: Sequence[CallRecord], wall: float) -> list[float]:
    """How many calls ran at a time, on average in each column of the axis."""
    whole, part = [0.0] * (_COLUMNS + 1), [0.0] * (_COLUMNS + 1)
    for call in calls:
        start = share(call.started_seconds, wall) * _COLUMNS / 100
        end = share(call.started_seconds + call.duration_seconds, wall) * _COLUMNS / 100
        first, last = int(start), int(end)
        whole[first] += 1  # from this column on ...
        whole[last] -= 1  # ... until before that one; less what it began late, and with what the last column has
        part[first] -= start - first
        part[last] += end - last
    return [max(all + some, 0.0) for all, some in zip(accumulate(whole), part, strict=True)][:_COLUMNS]


def _at_once(calls: Sequence[CallRecord]) -> int:
    """The most calls that ran at the same time."""
    times = chain.from_iterable(
        ((call.started_seconds, 1), (call.started_seconds + call.duration_seconds, -1)) for call in calls
    )
    return max(1, *accumulate(change for _, change in sorted(times)))
