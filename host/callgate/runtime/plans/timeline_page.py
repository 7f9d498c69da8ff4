"""A plan's run in time as one HTML document: the terminal's chart, and each step with all its fields.

1. Nothing is loaded and nothing runs: no script, no font, no picture; the policy in the document forbids them all.
2. Every text of a model, a tool or a guest is cut, made printable and escaped. No such text is an attribute.
3. The page is bounded for any plan: omitted parts are counted, and `PlanResult.to_dict` has them.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from string import Template
from typing import Any, Final

from callgate.cut import duration
from callgate.runtime.gate.records import CallRecord
from callgate.runtime.result import members
from callgate.tools.faults import printable

from .result import PlanResult
from .timeline import MARKS, STATUS_WORDS, Row, lay_out, timeline_text

__all__ = ["escaped", "timeline_page", "written"]

MOST_ROWS: Final = 400
MOST_CALLS: Final = 24
"""Calls of one step that are shown."""
MOST_ROWS_BYTES: Final = 4_000_000
"""Bytes of the markup of all rows, about. Only hostile texts reach this limit."""
_WIDTH: Final = 130
"""Characters of a line of the chart."""
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
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 0 auto; padding: 24px; max-width: 1280px; overflow-wrap: anywhere; }
pre, dd { font: 13px/1.3 ui-monospace, monospace; overflow: auto; }
summary { cursor: pointer; padding: 3px 0; }
dl { display: grid; grid-template-columns: 110px minmax(0, 1fr); gap: 4px 12px; margin: 4px 0 14px 20px; }
dd { margin: 0; max-height: 320px; white-space: pre-wrap; }
</style>
</head>
<body>
<h1>$title</h1>
<pre>$chart</pre>
$steps
</body>
</html>
""")
_ROW: Final = Template(
    "<details$open><summary>$mark <b>$id</b> <code>$tool</code> $took <small>$notes</small></summary>"
    "<dl>$facts</dl></details>"
)


def timeline_page(result: PlanResult, title: str | None = None) -> str:
    """A plan's run as a self-contained HTML document; of a plan that was refused, the faults.

    Args:
        result: of a plan.
        title: of the document; the plan's goal by default.

    Returns:
        A few megabytes of markup at most. All of it can be written as UTF-8.
    """
    return PAGE.substitute(
        title=escaped(title or result.goal or "A plan's run"),
        chart=html.escape(timeline_text(result, _WIDTH, most=MOST_ROWS)),
        steps="\n".join(_steps(lay_out(result, MOST_ROWS).rows)),
    )


def _steps(rows: Sequence[Row]) -> Iterator[str]:
    written = 0
    for number, row in enumerate(rows):
        markup = _row(row)
        written += len(markup.encode())
        if written > MOST_ROWS_BYTES:
            yield f"<p>… and {len(rows) - number:,} more steps, left out here because of their size</p>"
            return
        yield markup


def _row(row: Row) -> str:
    step = row.step
    words = [*([] if step.status == "succeeded" else [STATUS_WORDS[step.status]]), *row.notes]
    return _ROW.substitute(
        open=" open" if step.status in ("failed", "unknown_outcome") else "",
        mark=MARKS[step.status],
        id=escaped(printable(step.id[:_SHORT_CHARACTERS])),
        tool=escaped(step.tool, _SHORT_CHARACTERS),
        took="" if step.started_seconds is None else duration(step.duration_seconds),
        notes=escaped(", ".join(words), _SHORT_CHARACTERS),
        facts="".join(
            f"<dt>{name.replace('_', ' ')}</dt><dd>{escaped(text)}</dd>" for name, text in _facts(row) if text
        ),
    )


def _facts(row: Row) -> Iterator[tuple[str, str]]:
    """The name and the text of every field that the step has a value for, and of its calls, failed ones first."""
    for name, value in members(row.step, "id", "tool", "result_json", "calls").items():
        if value is not None and value != () and value is not False:
            yield name, value if isinstance(value, str) else written(value)
    yield "result", _indented(row.step.result_json or "")
    if len(row.calls) > 1:
        calls = sorted(row.calls, key=lambda call: (call.status == "succeeded", call.id))
        more = [f"… and {len(calls) - MOST_CALLS:,} more"] if len(calls) > MOST_CALLS else []
        yield "calls", "\n".join([*map(_call, calls[:MOST_CALLS]), *more])


def _call(call: CallRecord) -> str:
    line = (
        f"{call.id} {call.tool[:_SHORT_CHARACTERS]}: {call.status.replace('_', ' ')}, began at "
        f"{duration(call.started_seconds)}, took {duration(call.duration_seconds)}"
    )
    return f"{line}: {call.error[:_SHORT_CHARACTERS]}" if call.error else line


def written(value: Any) -> str:
    """A JSON value as text, indented if it is short; of one that cannot be written, why."""
    try:
        return _indented(json.dumps(value, ensure_ascii=False))
    except (RecursionError, ValueError) as fault:
        return f"cannot be shown: {type(fault).__name__}"


def _indented(text: str) -> str:
    """JSON text with indentation; long text, and text that is not JSON, stays as it is."""
    if len(text) <= _WORTH_INDENTING_CHARACTERS:
        with suppress(RecursionError, ValueError):
            return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return text


def escaped(text: str, most: int = _TEXT_CHARACTERS) -> str:
    """Text for markup: cut, made printable, escaped."""
    more = f"… ({len(text) - most:,} more characters)" if len(text) > most else ""
    shown = "\n".join(printable(line) for line in text[:most].split("\n"))
    return f"{html.escape(shown)}{more}"
