"""A plan's run in time, as one HTML document: a Gantt chart, and all that is known of each step. Writes text only.

1. Nothing is loaded and nothing runs: no script, no font, no picture; the policy in the document forbids them all.
2. Every text of a model, a tool or a guest passes `_text`: made visible, cut, escaped. Only numbers and words of this
   file get into attributes.
3. The page is bounded, whatever the plan: so many steps, so many bars, so many bytes of JSON. What is left out is
   counted on the page; the whole is in `PlanOutcome.to_dict`.
4. It reads without colours (marks, words, patterns), without a mouse, and read aloud: it is a table.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from callgate.runtime.gate.calls import CallRecord

from .outcome import PlanOutcome, StepResult
from .timeline_rows import (
    MARKS,
    STATUS_WORDS,
    Row,
    Timeline,
    count_words,
    duration_words,
    lay_out,
    most_telling,
    ticks,
    visible,
)
from .timeline_style import STYLE

__all__ = ["timeline_page"]

MOST_ROWS: Final = 400
"""Steps in the chart and in the list below it."""
MOST_CALLS: Final = 24
"""Calls of one step in its table."""
MOST_VALUE_BYTES: Final = 4096
"""Markup of one JSON value."""
MOST_VALUES_BYTES: Final = 1_500_000
"""Markup of all JSON values of a page, about."""
MOST_LISTED_BYTES: Final = 4_000_000
"""Markup of the list of steps. Only names, errors and warnings made to be long can reach it."""
_WORTH_INDENTING_BYTES: Final = 64 * 1024
_TEXT_CHARACTERS: Final = 1000
_NAME_CHARACTERS: Final = 256
_SHORT_NAME_CHARACTERS: Final = 80
_MOST_NAMES: Final = 40
_MOST_ON_PATH: Final = 24
_TICKS: Final = 6
_WORTH_TELLING_SHARE: Final = 0.005
"""Of the run; what was waited less can hardly be seen."""

_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_KINDS: Final = {
    "succeeded": "good", "failed": "bad", "timed_out": "bad", "denied": "bad", "refused": "bad",
    "unknown_outcome": "unknown", "skipped": "idle", "cancelled": "idle", "pending": "idle",
}  # fmt: skip
"""The look of a status, of a step or of a call."""
_LEGEND: Final = {
    "bar good": "✓ succeeded", "bar bad": "✗ failed", "bar unknown": "? outcome unknown", "bar idle": "– cut off",
    "waited": "could have begun", "gem": "on the critical path",
}  # fmt: skip
"""What may occur in the chart: class and words."""


def timeline_page(result: PlanOutcome, title: str | None = None) -> str:
    """A plan's run as a self-contained HTML document, to be kept, sent and printed.

    Args:
        result: of a plan that has run; of one that was refused, the faults are told.
        title: of the document; the plan's goal by default.

    Returns:
        A few megabytes of markup at most. All of it can be written as UTF-8.
    """
    timeline = lay_out(result)
    name = _text(title or result.goal or "A plan's run", _TEXT_CHARACTERS)
    goal = f"<p class=goal>{_text(result.goal, _TEXT_CHARACTERS)}</p>" if title and result.goal else ""
    body = _run(timeline, result) if timeline.rows else _refusal(result)
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            f"<title>{name}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>",
            f"<h1>{name}</h1>{goal}",
            *body,
            "</main>\n</body>\n</html>\n",
        ]
    )


def _refusal(result: PlanOutcome) -> Iterator[str]:
    yield '<p class="headline bad">The plan was not run.</p>'
    shown = result.faults[:MOST_ROWS]
    if not shown and result.error is not None:
        yield f"<p>{_text(result.error.message)}</p>"
    if shown:
        yield "<ul class=faults>"
        for fault in shown:
            mark = "✗ error" if fault.severity == "error" else "! note"
            yield f"<li><b>{mark}</b> {_text(str(fault))}</li>"
        yield "</ul>"
    if len(result.faults) > len(shown):
        yield f"<p>{len(result.faults) - len(shown):,} more faults are left out here.</p>"
    if result.calls:
        yield "<h2>Called while the plan was being written</h2>"
        yield from _calls(result.calls, MOST_CALLS)


def _run(timeline: Timeline, result: PlanOutcome) -> Iterator[str]:
    kept, left_out = most_telling(timeline.rows, MOST_ROWS)
    took, in_calls = duration_words(timeline.wall_seconds), duration_words(timeline.call_seconds)
    yield (
        f'<p class="headline {"good" if result.ok else "bad"}">'
        f"<b>{count_words(timeline.rows)} in {took}.</b> {_average(timeline, in_calls)}</p>"
    )
    if result.error is not None and result.error.limit:
        yield f'<p class="headline bad">The run was ended: {_text(result.error.message)}.</p>'
    if timeline.critical:
        yield _path(timeline)
    yield from _chart(timeline, kept)
    if left_out:
        longest = duration_words(max(row.step.duration_seconds for row in left_out))
        yield (
            f"<p class=left>{len(left_out):,} more steps are left out here ({count_words(left_out, of_all=False)}, "
            f"none longer than {longest}). The whole is in the JSON of the result.</p>"
        )
    yield "<h2>Steps</h2>"
    yield from _listed(sorted(kept, key=lambda row: row.place), timeline, result)


def _listed(rows: Sequence[Row], timeline: Timeline, result: PlanOutcome) -> Iterator[str]:
    most_bytes = min(MOST_VALUE_BYTES, MOST_VALUES_BYTES // (2 * len(rows)))
    most_calls = MOST_CALLS if len(rows) <= 50 else 6
    written = 0
    for number, row in enumerate(rows):
        markup = "".join(_details(row, timeline, row.step.id in result.outputs, most_bytes, most_calls))
        written += len(markup.encode())
        if written > MOST_LISTED_BYTES:
            yield f"<p class=left>What there is to tell of {len(rows) - number:,} more steps is left out here.</p>"
            break
        yield markup


def _average(timeline: Timeline, in_calls: str) -> str:
    if timeline.parallel is None:
        return ""
    return f"{in_calls} in calls, {timeline.parallel:.1f} at a time on average."


def _path(timeline: Timeline) -> str:
    rows, half = timeline.critical, _MOST_ON_PATH // 2
    told = [f"<li>{_link(row)} <small>{duration_words(row.step.duration_seconds)}</small></li>" for row in rows]
    if len(told) > _MOST_ON_PATH:
        told = [*told[:half], f"<li>… {len(told) - 2 * half:,} more …</li>", *told[-half:]]
    length = duration_words(sum(row.step.duration_seconds for row in rows))
    return f"<div class=path><b><span class=gem></span>Critical path, {length}:</b> <ol>{''.join(told)}</ol></div>"


def _chart(timeline: Timeline, rows: Sequence[Row]) -> Iterator[str]:
    marks = ticks(timeline.wall_seconds, _TICKS)
    grid = timeline.share(marks[1].seconds) if len(marks) > 1 else 1.0
    labels = "".join(_tick(timeline.share(mark.seconds), mark.label) for mark in marks)
    yield (
        f'<table role=table style="--grid:{grid:.3%}"><caption class=aloud>When each step ran, by wave</caption>\n'
        "<thead role=rowgroup><tr role=row><th role=columnheader scope=col class=wave>wave</th>"
        "<th role=columnheader scope=col class=step>step</th>"
        f"<th role=columnheader scope=col class=bars><span class=aloud>time</span>{labels}</th>"
        "<th role=columnheader scope=col class=took>took</th></tr></thead>"
    )
    drawn = "\n".join(
        f"<tbody role=rowgroup>{''.join(_row(row, timeline) for row in together)}</tbody>"
        for _, together in groupby(rows, key=lambda row: row.step.wave)
    )
    yield f"{drawn}</table>"
    yield "<p class=legend>"
    for look, words in _LEGEND.items():
        if f"class={look}" in drawn or f'class="{look}"' in drawn:
            yield f'<span><i class="{look}"></i>{words}</span>'
    yield "</p>"


def _tick(share: float, label: str) -> str:
    side = " class=last" if share > 0.86 else ""
    return f'<i{side} style="left:{share:.3%}" aria-hidden=true>{label}</i>'


def _row(row: Row, timeline: Timeline) -> str:
    step = row.step
    critical = '<span class=gem title="on the critical path"><span class=aloud>on the critical path</span></span>'
    notes = (
        "".join(f"<small>{_text(note, _SHORT_NAME_CHARACTERS)}</small>" for note in row.notes)
        if row.start_seconds is not None
        else ""
    )
    took = duration_words(step.duration_seconds) if row.start_seconds is not None else ""
    return (
        f'<tr role=row class="{_KINDS[step.status]}{" critical" if row.critical else ""}">'
        f"<td role=cell class=wave><span class=phone>wave </span>{step.wave}</td>"
        f"<th role=rowheader scope=row class=step>{_mark(step)}{critical if row.critical else ''}"
        f"{_link(row)} <code>{_name(step.tool, _SHORT_NAME_CHARACTERS)}</code></th>"
        f"<td role=cell class=bars>{_bars(row, timeline)}</td>"
        f"<td role=cell class=took>{took}{notes}</td></tr>"
    )


def _mark(step: StepResult) -> str:
    words = STATUS_WORDS[step.status]
    return (
        f'<span class=mark title="{words}"><span aria-hidden=true>{MARKS[step.status]}</span>'
        f"<span class=aloud>{words}</span></span>"
    )


def _link(row: Row) -> str:
    return f"<a href=#s{row.place}>{_name(row.step.id, _SHORT_NAME_CHARACTERS)}</a>"


def _bars(row: Row, timeline: Timeline) -> str:
    if row.start_seconds is None:
        return f"<span class=why>{_text(row.step.error or 'no call was made', 200)}</span>"
    left, right = timeline.share(row.start_seconds), timeline.share(row.end_seconds)
    told = f"<span class=aloud>from {duration_words(row.start_seconds)} to {duration_words(row.end_seconds)}</span>"
    at = f"left:{left:.3%};width:{right - left:.3%}"
    spine = f'<i class=spine style="{at}"></i>' if row.critical else ""
    if waited := _waited(row, timeline):
        ready = timeline.share(row.ready_seconds)
        told += f'<i class=waited title="{waited}" style="left:{ready:.3%};width:{left - ready:.3%}"></i>'
    return f'{told}<i class="bar {_KINDS[row.step.status]}" style="{at}"></i>{spine}'


def _waited(row: Row, timeline: Timeline) -> str:
    if timeline.share(row.waited_seconds) < _WORTH_TELLING_SHARE:
        return ""
    return f"could have begun {duration_words(row.waited_seconds)} earlier"


def _details(row: Row, timeline: Timeline, output: bool, most_bytes: int, most_calls: int) -> Iterator[str]:
    step = row.step
    took = duration_words(step.duration_seconds) if row.start_seconds is not None else "not called"
    opened = " open" if step.status in ("failed", "unknown_outcome") and row.start_seconds is not None else ""
    yield (
        f"<details{opened} class={_KINDS[step.status]}><summary>{_mark(step)}<b>{_name(step.id)}</b> "
        f"<code>{_name(step.tool)}</code> <small>{took}{', output' if output else ''}</small></summary>"
        f"<dl id=s{row.place}>"
    )
    for word, markup in _facts(row, timeline, most_bytes):
        if markup:
            yield f"<dt>{word}</dt><dd>{markup}</dd>"
    yield "</dl>"
    if len(row.calls) > 1:
        yield from _calls(row.calls, most_calls)
    yield "</details>"


def _facts(row: Row, timeline: Timeline, most_bytes: int) -> Iterator[tuple[str, str]]:
    step = row.step
    yield "Status", STATUS_WORDS[step.status] + (f", by fallback {_name(step.fallback)}" if step.fallback else "")
    kind = f" <code>{_name(step.kind)}</code>" if step.kind else ""
    yield "Why" if step.status == "skipped" else "Error", f"{_text(step.error)}{kind}" if step.error else ""
    yield "Warnings", "<br>".join(_text(warning) for warning in step.warnings[:10])
    if row.start_seconds is not None:
        waited = _waited(row, timeline)
        yield (
            "Time",
            f"{duration_words(row.start_seconds)} to {duration_words(row.end_seconds)}, wave {step.wave}"
            + (f", {waited}" if waited else ""),
        )
        yield "Attempts", f"{step.attempts:,}" + (", every result from the cache" if step.cached else "")
    if step.items is not None:
        yield "Items", f"{step.items:,}" + (f", {step.items_failed:,} failed" if step.items_failed else "")
    yield "Needs", _names(step.needs)
    yield "Begins after", _names(step.after)
    if step.arguments is not None:
        yield "Arguments", _json(step.arguments, most_bytes)
    if step.result_json is not None:
        yield "Result", _json_text(step.result_json, most_bytes)


def _calls(calls: Sequence[CallRecord], most: int) -> Iterator[str]:
    head = "".join(f"<th scope=col>{word}</th>" for word in ("call", "tool", "status", "began", "took", "attempts"))
    shown = calls
    if len(calls) > most:
        chosen = {call.id for call in sorted(calls, key=lambda call: call.status == "succeeded")[:most]}
        shown = [call for call in calls if call.id in chosen]
    yield f"<div class=calls><table><thead><tr>{head}</tr></thead><tbody>"
    for call in shown:
        error = f" <span class=why>{_text(call.error, 200)}</span>" if call.error else ""
        yield (
            f"<tr><td>{call.id}</td><td><code>{_name(call.tool)}</code></td>"
            f"<td>{call.status.replace('_', ' ')}{error}</td>"
            f"<td>{duration_words(call.started_seconds)}</td><td>{duration_words(call.duration_seconds)}</td>"
            f"<td>{call.attempts}{', cached' if call.cached else ''}</td></tr>"
        )
    yield "</tbody></table></div>"
    if len(shown) < len(calls):
        yield f"<p class=left>{len(calls) - len(shown):,} more calls are left out here.</p>"


def _names(ids: Iterable[str]) -> str:
    names = tuple(ids)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(_name(name) for name in names[:_MOST_NAMES]) + more


def _json(value: Any, most_bytes: int) -> str:
    try:
        return _json_text(json.dumps(value, ensure_ascii=False), most_bytes)
    except (RecursionError, ValueError) as fault:
        return f"<em>cannot be shown: {type(fault).__name__}</em>"


def _json_text(text: str, most_bytes: int) -> str:
    """JSON as it is read best: indented, unless it is long or cannot be; the rest is counted."""
    shown = text
    if len(text) <= _WORTH_INDENTING_BYTES:
        try:
            shown = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
        except (RecursionError, ValueError):
            shown = text
    markup, whole = _cut(shown, most_bytes)
    rest = "" if whole else f"<p class=left>cut: {len(text.encode('utf-8', 'replace')):,} bytes in all</p>"
    return f"<pre tabindex=0>{markup}</pre>{rest}"


def _cut(text: str, most_bytes: int) -> tuple[str, bool]:
    """The longest beginning, about, whose markup is not longer; and whether it is all."""
    kept = text[:most_bytes]
    while True:
        markup = html.escape(visible(kept, keep="\n"), quote=False)
        size = len(markup.encode())
        if size <= most_bytes:
            return markup, len(kept) == len(text)
        kept = kept[: len(kept) * most_bytes // size]


def _name(text: str, most: int = _NAME_CHARACTERS) -> str:
    """An id or a tool; isolated, so that its direction of writing is its own matter."""
    return f"<bdi>{_text(text, most)}</bdi>"


def _text(text: str | None, most: int = _TEXT_CHARACTERS) -> str:
    text = text or ""
    cut = "" if len(text) <= most else f"… (+{len(text) - most:,})"
    return html.escape(visible(text[:most]), quote=True) + cut
