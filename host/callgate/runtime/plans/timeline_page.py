"""A plan's run in time as one HTML document: a bar for every step, which opens for all that is known of the step.

1. Nothing is loaded and nothing runs: no script, no font, no picture; the policy in the document forbids them all.
2. Every text of a model, a tool or a guest passes `_text`: cut, made printable, escaped. No such text is an attribute.
3. The page is bounded whatever the plan: what is left out is counted, and the whole is in `PlanResult.to_dict`.
4. Marks and words say what colours say. Colours reach 4.5:1 for text, in light and dark.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from string import Template
from typing import Final

from callgate.cut import duration
from callgate.runtime.gate.calls import CallRecord
from callgate.tools.faults import printable

from .result import PlanResult, StepResult
from .timeline import CRITICAL, MARKS, STATUS_WORDS, Row, lay_out, refusal

__all__ = ["timeline_page"]

MOST_ROWS: Final = 400
MOST_FAULTS: Final = 400
MOST_CALLS: Final = 24
"""Calls of one step."""
MOST_ROWS_BYTES: Final = 4_000_000
"""Markup of all rows, about. Only texts made to be long reach it."""
_TEXT_CHARACTERS: Final = 4096
_SHORT_CHARACTERS: Final = 200
_WORTH_INDENTING_CHARACTERS: Final = 64 * 1024

PAGE: Final = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #1b2126; --soft: #57626c; --line: #d9dee3; --band: #f5f7f8;
  --good: #2e7d4f; --bad: #b3261e; --unknown: #9a5b00; --idle: #64707a; --gem: #6a3fb5; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181b; --ink: #e7eaec; --soft: #a3adb5; --line: #323a41;
  --band: #1c2226; --good: #4cae74; --bad: #f2766d; --unknown: #dd9a33; --idle: #8c98a1; --gem: #b99af0; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 24px; max-width: 1280px; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 22px; line-height: 1.25; margin: 0 0 8px; }
p { margin: 8px 0; }
.headline { padding: 8px 12px; background: var(--band); border-left: 4px solid var(--good); }
.headline.bad { border-color: var(--bad); }
small, code, dt { color: var(--soft); font-size: 13px; }
.good { --look: var(--good); } .bad { --look: var(--bad); } .unknown { --look: var(--unknown); }
.idle { --look: var(--idle); }
.gem, .critical b::after { color: var(--gem); }
.critical b::after { content: " ◆"; }
b::before { content: "▸ "; color: var(--soft); } [open] b::before { content: "▾ "; }
details, .axis { border-bottom: 1px solid var(--line); }
summary, .axis { display: grid; grid-template-columns: 30% minmax(0, 1fr) 130px; gap: 4px 14px; padding: 5px 0; }
summary { cursor: pointer; align-items: center; }
summary:hover { background: var(--band); }
summary i { font-style: normal; font-weight: 700; color: var(--look); display: inline-block; width: 1.3em; }
.axis { margin-top: 20px; font-size: 13px; color: var(--soft); }
.axis span { grid-column: 2; display: grid; grid-template-columns: repeat(4, 1fr); }
.track { align-self: stretch; display: grid; align-items: center;
  background: repeating-linear-gradient(90deg, var(--line) 0 1px, transparent 1px 25%); }
.bar { height: 14px; border-radius: 2px; background: var(--look); print-color-adjust: exact; }
small { display: block; line-height: 1.3; }
dl { display: grid; grid-template-columns: 110px minmax(0, 1fr); gap: 4px 12px; margin: 4px 0 14px 20px; }
dd { margin: 0; max-height: 320px; overflow: auto; white-space: pre-wrap; font: 13px/1.45 ui-monospace, monospace; }
@media (max-width: 720px) { body { padding: 14px; }
  summary, .axis { grid-template-columns: minmax(0, 1fr) auto; } .axis span { grid-column: 1 / -1; }
  .track { grid-column: 1 / -1; grid-row: 2; } dl { grid-template-columns: minmax(0, 1fr); margin-left: 0; } }
</style>
</head>
<body>
<h1>$title</h1>
$body
</body>
</html>
""")
_ROW: Final = Template(
    '<details$open class="$look"><summary><span><i>$mark</i><b>$id</b> <code>$tool</code></span>'
    "<span class=track>$bar</span><span>$took<small>$notes</small></span></summary><dl>$facts</dl></details>"
)
_BAR: Final = Template("<div class=bar style='margin-left:$left;width:$width'></div>")
_LOOKS: Final = {"succeeded": "good", "failed": "bad", "unknown_outcome": "unknown"}


def timeline_page(result: PlanResult, title: str | None = None) -> str:
    """A plan's run as a self-contained HTML document; of a plan that was refused, the faults.

    Args:
        result: of a plan.
        title: of the document; the plan's goal by default.

    Returns:
        A few megabytes of markup at most. All of it can be written as UTF-8.
    """
    body = list(_run(result)) if result.steps else list(_refusal(result))
    if title and result.goal:
        body.insert(0, f"<p>{_text(result.goal)}</p>")
    return PAGE.substitute(title=_text(title or result.goal or "A plan's run"), body="\n".join(body))


def _refusal(result: PlanResult) -> Iterator[str]:
    yield '<p class="headline bad">The plan was not run.</p>'
    for line in refusal(result, MOST_FAULTS):
        yield f"<p>{_text(line)}</p>"
    if result.calls:
        yield f"<dl><dt>Calls</dt><dd>{_text(_calls(result.calls))}</dd></dl>"


def _run(result: PlanResult) -> Iterator[str]:
    timeline = lay_out(result, MOST_ROWS)
    yield f'<p class="headline {"good" if result.ok else "bad"}">{timeline.headline}</p>'
    if result.error is not None and result.error.limit:
        yield f'<p class="headline bad">The run was ended: {_text(result.error.message)}</p>'
    if timeline.critical:
        yield f"<p><span class=gem>{CRITICAL}</span>{_text(timeline.critical_words.removeprefix(CRITICAL))}</p>"
    marks = "".join(f"<small>{duration(timeline.wall_seconds * quarter / 4)}</small>" for quarter in range(1, 4))
    yield f"<div class=axis><span><small>0</small>{marks}</span></div>"
    written = 0
    for number, row in enumerate(timeline.rows):
        markup = _row(row)
        written += len(markup.encode())
        if written > MOST_ROWS_BYTES:
            yield f"<p>… and {len(timeline.rows) - number:,} more steps, left out here because of their size</p>"
            break
        yield markup
    if timeline.left_out:
        yield f"<p>… and {timeline.left_out:,} more steps</p>"


def _row(row: Row) -> str:
    step = row.step
    words = [*([] if step.status == "succeeded" else [STATUS_WORDS[step.status]]), *row.notes]
    bar = f"<small>{_text(step.error or 'no call was made', _SHORT_CHARACTERS)}</small>"
    if step.started_seconds is not None:
        bar = _BAR.substitute(left=f"{row.left:.2%}", width=f"{row.right - row.left:.2%}")
    return _ROW.substitute(
        open=" open" if step.status in ("failed", "unknown_outcome") else "",
        look=f"{_LOOKS.get(step.status, 'idle')}{' critical' if row.critical else ''}",
        mark=MARKS[step.status],
        id=_text(printable(step.id[:_SHORT_CHARACTERS])),
        tool=_text(step.tool, _SHORT_CHARACTERS),
        bar=bar,
        took="" if step.started_seconds is None else duration(step.duration_seconds),
        notes=_text(", ".join(words), _SHORT_CHARACTERS),
        facts="".join(f"<dt>{word}</dt><dd>{_text(text)}</dd>" for word, text in _facts(row) if text),
    )


def _facts(row: Row) -> Iterator[tuple[str, str]]:
    step = row.step
    yield "Error", f"{step.error or ''}{f' ({step.kind})' if step.kind else ''}"
    yield "Warnings", "\n".join(step.warnings[:10])
    if step.started_seconds is not None:
        ended = step.started_seconds + step.duration_seconds
        yield "Time", f"{duration(step.started_seconds)} to {duration(ended)}, wave {step.wave}"
        yield "Attempts", f"{step.attempts:,}{', every result from the cache' if step.cached else ''}"
    if step.items is not None:
        yield "Items", f"{step.items:,}{f', {step.items_failed:,} failed' if step.items_failed else ''}"
    yield "Fallback", step.fallback or ""
    yield "Needs", ", ".join(step.needs[:100])
    yield "Begins after", ", ".join(step.after[:100])
    yield "Arguments", _arguments(step)
    yield "Result", _indented(step.result_json or "")
    if len(row.calls) > 1:
        yield "Calls", _calls(row.calls)


def _calls(calls: Sequence[CallRecord]) -> str:
    """A line for each call, those that did not succeed first."""
    shown = sorted(calls, key=lambda call: (call.status == "succeeded", call.id))[:MOST_CALLS]
    lines = [
        f"{call.id} {call.tool[:_SHORT_CHARACTERS]}: {call.status.replace('_', ' ')}, began at "
        f"{duration(call.started_seconds)}, took {duration(call.duration_seconds)}{', cached' if call.cached else ''}"
        f"{f', {call.attempts} attempts' if call.attempts > 1 else ''}"
        f"{f': {call.error[:_SHORT_CHARACTERS]}' if call.error else ''}"
        for call in shown
    ]
    return "\n".join([*lines, *([f"… and {len(calls) - len(shown):,} more"] if len(calls) > len(shown) else [])])


def _arguments(step: StepResult) -> str:
    if step.arguments is None:
        return ""
    try:
        return _indented(json.dumps(step.arguments, ensure_ascii=False))
    except (RecursionError, ValueError) as fault:
        return f"cannot be shown: {type(fault).__name__}"


def _indented(text: str) -> str:
    """JSON as it is read best: indented, unless it is long or cannot be."""
    if len(text) <= _WORTH_INDENTING_CHARACTERS:
        with suppress(RecursionError, ValueError):
            return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return text


def _text(text: str, most: int = _TEXT_CHARACTERS) -> str:
    more = f"… ({len(text) - most:,} more characters)" if len(text) > most else ""
    shown = "\n".join(printable(line) for line in text[:most].split("\n"))
    return f"{html.escape(shown)}{more}"
