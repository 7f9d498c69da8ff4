"""Results as notebooks show them: HTML and Markdown of one run. Reads results, changes nothing.

1. Nothing is loaded and nothing runs. Every text of a program, a tool or a model is cut, made printable and escaped;
   none is an attribute, but for the names of pictures, which are escaped for that.
2. Pictures are PNG, JPEG, GIF and WebP by their content, in data URIs, within bounds of bytes and pixels. Any other
   artifact, such as SVG and HTML, is a line with its name: a page that shows it would run what is in it.
3. Markdown has pictures and text in fences alone, since a reader may take HTML in it for markup.
"""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from callgate.artifacts import Artifact
from callgate.cut import duration
from callgate.tools.faults import printable

from .gate.records import CallRecord
from .pictures import picture_size
from .plans.timeline import CRITICAL, MARKS, STATUS_WORDS, lay_out, timeline_text
from .result import cut
from .trace.markup import escaped, written

if TYPE_CHECKING:
    from .plans.result import PlanResult
    from .result import CodeResult

__all__ = ["code_html", "code_markdown", "picture_uris", "plan_html", "plan_markdown"]

_TEXT: Final = 20_000
"""Characters of a value, of the prints, of an error."""
_SHORT: Final = 120
_MOST_ROWS: Final = 40
_MOST_OUTPUTS: Final = 20
_MOST_LINES: Final = 100
_PICTURE_BYTES: Final = 2_000_000
_ALL_PICTURE_BYTES: Final = 8_000_000
"""Of all pictures of one result: a notebook keeps them in its file."""
_PICTURE_PIXELS: Final = 25_000_000
_LEAST: Final = 0.5
"""Per cent: the shortest bar that can still be seen."""
_CHART_CHARACTERS: Final = 100

_BOX: Final = (
    '<div style="font:13px/1.5 system-ui,sans-serif;max-width:960px;border-left:3px solid {colour};padding:2px 12px">'
    "{parts}</div>"
)
_HEAD: Final = '<div style="margin:2px 0 6px"><b>{words}</b> <span style="opacity:.65">{facts}</span></div>'
_BLOCK: Final = (
    '<div style="opacity:.65;margin-top:6px">{title}</div>'
    '<pre style="margin:2px 0 6px;padding:6px 8px;max-height:360px;overflow:auto;white-space:pre-wrap;'
    'overflow-wrap:anywhere;background:rgba(127,127,127,.1);font:12px/1.45 ui-monospace,monospace">{text}</pre>'
)
_PICTURE: Final = (
    '<figure style="margin:6px 0"><img src="data:{kind};base64,{data}" alt="{name}" style="max-width:100%">'
    '<figcaption style="opacity:.65">{name}</figcaption></figure>'
)
_LINE: Final = "<div>{text}</div>"
_BARS: Final = (
    '<div style="display:grid;grid-template-columns:minmax(80px,max-content) minmax(120px,1fr) max-content;'
    'gap:2px 10px;align-items:center;margin:6px 0">{rows}</div>'
)
_BAR: Final = (
    '<span>{mark} {name}</span><span style="background:rgba(127,127,127,.1);height:10px">'
    '<span style="display:block;height:10px;margin-left:{left:.2f}%;width:{width:.2f}%;background:{colour}"></span>'
    '</span><span style="opacity:.65">{facts}</span>'
)
_GOOD, _BAD, _OTHER = "#2e8b57", "#c0392b", "#b8860b"
_STEP_COLOURS: Final = {"succeeded": _GOOD, "failed": _BAD}


@dataclass(frozen=True, slots=True)
class _Bar:
    """One call or step in time; `left` and `right` lie between 0 and 1."""

    mark: str
    name: str
    left: float
    right: float
    facts: str
    colour: str


def code_html(result: CodeResult) -> str:
    """A program's result as a fragment of HTML, of a bounded size."""
    words = "✓ The program ended well" if result.error is None else "✗ The program failed"
    where = "on the host, as a plan" if result.path == "plan" else result.sandbox.partition(":")[0]
    parts = [_HEAD.format(words=words, facts=escaped(f"{duration(result.usage.wall_seconds)}, {where}", _SHORT))]
    if result.error is not None:
        parts.append(_block("error", _error(result)))
    if result.error is None and (value := _value(result)) is not None:
        parts.append(_block("value", value))
    if result.logs:
        parts.append(_block("prints", result.logs.rstrip("\n")))
    parts += _artifacts_html(result.artifacts)
    if result.calls:
        parts.append(_bars(_of_calls(result.calls, result.usage.wall_seconds)))
        parts += _more(len(result.calls), "calls")
    parts += [_LINE.format(text=f"note: {escaped(note)}") for note in result.notes[:_MOST_LINES]]
    return _BOX.format(colour=_GOOD if result.error is None else _BAD, parts="".join(parts))


def plan_html(result: PlanResult) -> str:
    """A plan's result as a fragment of HTML, of a bounded size."""
    if not result.steps:
        return _BOX.format(colour=_BAD, parts=_block("plan", timeline_text(result, _CHART_CHARACTERS)))
    timeline = lay_out(result, _MOST_ROWS)
    parts = [_HEAD.format(words=escaped(result.goal or "A plan's run", _SHORT), facts=escaped(timeline.headline))]
    for name, value in list(result.outputs.items())[:_MOST_OUTPUTS]:
        parts.append(_block(escaped(name, _SHORT), value if isinstance(value, str) else written(value)))
    parts += _more(len(result.outputs), "outputs", _MOST_OUTPUTS)
    parts += _artifacts_html(result.artifacts)
    bars = []
    for row in timeline.rows:
        step = row.step
        state = [] if step.status == "succeeded" else [STATUS_WORDS[step.status]]
        took = [] if step.started_seconds is None else [duration(step.duration_seconds)]
        name = f"{step.id} ({step.tool}){f' {CRITICAL}' if row.critical else ''}"
        right = row.left if step.started_seconds is None else row.right
        facts = ", ".join([*took, *state, *row.notes])
        bars.append(_Bar(MARKS[step.status], name, row.left, right, facts, _STEP_COLOURS.get(step.status, _OTHER)))
    parts.append(_bars(bars))
    parts += _more(len(result.steps), "steps")
    bad = [step for step in result.steps if step.error and step.status in ("failed", "unknown_outcome")]
    for step in bad[:_MOST_ROWS]:
        parts.append(_LINE.format(text=f"{MARKS[step.status]} {escaped(f'{step.id}: {step.error}', 4 * _SHORT)}"))
    if result.error is not None and result.error.limit:
        parts.append(_LINE.format(text=f"✗ the run was ended: {escaped(result.error.message)}"))
    return _BOX.format(colour=_GOOD if result.ok else _BAD, parts="".join(parts))


def code_markdown(result: CodeResult) -> str:
    """A program's result as Markdown, of a bounded size."""
    words = "✓ The program ended well" if result.error is None else "✗ The program failed"
    parts = [f"**{words}** in {duration(result.usage.wall_seconds)}"]
    if result.error is not None:
        parts.append(_fence(_error(result)))
    elif (value := _value(result)) is not None:
        parts.append(_fence(value))
    if result.logs:
        parts += ["prints:", _fence(result.logs.rstrip("\n"))]
    parts += _pictures_markdown(result.artifacts)
    if result.calls:
        made = [f"{bar.mark} {bar.name}  {bar.facts}" for bar in _of_calls(result.calls, result.usage.wall_seconds)]
        parts += ["calls:", _fence("\n".join([*made, *_left(len(result.calls), "calls", _MOST_ROWS)]))]
    if result.notes:
        parts.append(_fence("\n".join([f"note: {note}" for note in result.notes][:_MOST_LINES])))
    return "\n\n".join(parts)


def plan_markdown(result: PlanResult) -> str:
    """A plan's result as Markdown, of a bounded size."""
    parts = [_fence(timeline_text(result, _CHART_CHARACTERS))]
    for name, value in list(result.outputs.items())[:_MOST_OUTPUTS]:
        parts.append(_fence(f"{name}: {value if isinstance(value, str) else written(value)}"))
    parts += _left(len(result.outputs), "outputs", _MOST_OUTPUTS)
    return "\n\n".join([*parts, *_pictures_markdown(result.artifacts)])


# the parts


def _value(result: CodeResult) -> str | None:
    if result.value_repr is not None:
        return result.value_repr
    if result.value is None:
        return None
    return result.value if isinstance(result.value, str) else written(result.value)


def _error(result: CodeResult) -> str:
    assert result.error is not None
    error = result.error
    return error.traceback.rstrip("\n") or f"{error.kind}: {error.message}"


def _of_calls(calls: Sequence[CallRecord], wall_seconds: float) -> list[_Bar]:
    wall = max([wall_seconds, *(call.started_seconds + call.duration_seconds for call in calls)]) or 1.0
    bars = []
    for call in calls[:_MOST_ROWS]:
        good = call.status == "succeeded"
        facts = [duration(call.duration_seconds), *([] if good else [call.status.replace("_", " ")])]
        facts += ["cached"] if call.cached else []
        facts += ["not made again"] if call.reused else []
        left, right = call.started_seconds / wall, (call.started_seconds + call.duration_seconds) / wall
        mark, colour = ("✓", _GOOD) if good else ("✗", _BAD)
        bars.append(_Bar(mark, call.tool, left, right, ", ".join(facts), colour))
    return bars


def _bars(bars: Iterable[_Bar]) -> str:
    rows = []
    for bar in bars:
        left = min(max(100 * bar.left, 0.0), 100 - _LEAST)
        width = min(max(100 * bar.right - left, _LEAST), 100 - left) if bar.right > bar.left else 0.0
        name, facts = escaped(bar.name, _SHORT), escaped(bar.facts, _SHORT)
        colour = bar.colour if width else "transparent"
        rows.append(_BAR.format(mark=bar.mark, name=name, left=left, width=width, facts=facts, colour=colour))
    return _BARS.format(rows="".join(rows))


def _artifacts_html(artifacts: Sequence[Artifact]) -> Iterator[str]:
    for artifact, uri in picture_uris(artifacts):
        name = html.escape(_named(artifact))
        if uri:
            kind, data = uri.removeprefix("data:").split(";base64,")
            yield _PICTURE.format(kind=kind, data=data, name=name)
        else:
            yield _LINE.format(text=name)


def _pictures_markdown(artifacts: Sequence[Artifact]) -> Iterator[str]:
    """The pictures, and then the names of all artifacts."""
    shown = list(picture_uris(artifacts))
    yield from (f"![picture]({uri})" for _, uri in shown if uri)
    if shown:
        yield _fence("\n".join(_named(artifact) for artifact, _ in shown))


def picture_uris(artifacts: Sequence[Artifact], room: int = _ALL_PICTURE_BYTES) -> Iterator[tuple[Artifact, str]]:
    """The first artifacts, each with a data URI if it is a picture within the bounds, else with an empty text.

    Args:
        artifacts: of one run.
        room: bytes of all pictures together.
    """
    for artifact in artifacts[:_MOST_LINES]:
        size = picture_size(artifact.data)
        if size is None or artifact.size_bytes > min(room, _PICTURE_BYTES) or size[1] * size[2] > _PICTURE_PIXELS:
            yield artifact, ""
            continue
        room -= artifact.size_bytes
        yield artifact, f"data:{size[0]};base64,{base64.b64encode(artifact.data).decode()}"


def _named(artifact: Artifact) -> str:
    return printable(f"{artifact.name} ({artifact.media_type}, {artifact.size_bytes:,} bytes)")


def _block(title: str, text: str) -> str:
    return _BLOCK.format(title=title, text=escaped(cut(text, _TEXT), 2 * _TEXT))


def _more(count: int, what: str, most: int = _MOST_ROWS) -> list[str]:
    return [_LINE.format(text=line) for line in _left(count, what, most)]


def _left(count: int, what: str, most: int) -> list[str]:
    return [f"… and {count - most:,} more {what}"] if count > most else []


def _fence(text: str) -> str:
    """The text in a fence that none of its lines ends."""
    shown = "\n".join(printable(line) for line in cut(text, _TEXT).split("\n"))
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"
