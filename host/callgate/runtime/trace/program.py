"""The page of a program: its lines and beside them the calls they made and what they printed; its calls in time; its
value or error, what it displayed, and what it used of its limits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from callgate.runtime.gate.records import CallRecord
from callgate.runtime.result import CodeResult, RunUsage
from callgate.runtime.shown import picture_uris

from .calls import axis, calls_of_a_place
from .markup import SHORT, Sheet, Tone, bar, card, duration, fold, plural, section
from .source import MOST_CHARACTERS, lines_of

if TYPE_CHECKING:
    from callgate.artifacts import Artifact
    from callgate.limits import Limits

__all__ = ["artifacts_section", "figures", "limits_section", "program_cards", "program_sections", "program_status"]

_VALUE: Final = 20_000
"""Characters of a value, of all prints, of a traceback."""
_MOST_PRINTS: Final = 200
"""Prints that are shown at lines, and marks on the axis."""
_AT_A_LINE: Final = 5
_PRINT_CHARACTERS: Final = 300
_MOST_NOTES: Final = 100
_PICTURE_BYTES: Final = 4_000_000
"""Of all pictures of a page."""


def program_status(result: CodeResult) -> tuple[str, Tone]:
    """How the program ended, as markup."""
    if result.error is None:
        return "succeeded", "ok"
    if result.error.limit:
        return "ended by a limit", "bad"
    return "failed" if _ran(result) else "not run", "bad"


def _ran(result: CodeResult) -> bool:
    return result.error is None or result.error.kind not in ("CheckFailed", "NotAGraph")


def program_cards(result: CodeResult) -> str:
    """The figures at the top."""
    where = "on the host" if result.path == "plan" else "in the sandbox"
    return card("ran", where if _ran(result) else "not at all") + figures(result.usage, len(result.calls))


def figures(usage: RunUsage, calls: int) -> str:
    """What a run used, as figures."""
    cards = [card("wall time", duration(usage.wall_seconds)), card("tool calls", f"{calls:,}")]
    if usage.cpu_seconds is not None:
        cards.append(card("processor", duration(usage.cpu_seconds)))
    if usage.peak_memory_bytes is not None:
        cards.append(card("peak memory", _bytes(usage.peak_memory_bytes)))
    return "".join(cards)


def program_sections(sheet: Sheet, result: CodeResult) -> str:
    """Everything below the figures."""
    sheet.redaction.learn(result.calls)
    return "".join(_sections(sheet, result))


def _sections(sheet: Sheet, result: CodeResult) -> Iterator[str]:
    """What the program came to, its calls in time, its lines, what it made, and the limits."""
    if (error := result.error) is not None:
        at = f" <small>line {error.line}</small>" if error.line else ""
        text = f'<p class="words">{sheet.text(error.message, is_cut=True)}</p>'
        trace = f"<pre>{sheet.text(error.traceback.rstrip(), _VALUE)}</pre>" if error.traceback else ""
        yield f'<section class="error"><h2>{sheet.line(error.kind, 80)}{at}</h2>{text}{trace}</section>'
    elif result.value_repr is not None or result.value is not None:
        yield section("Value", value_markup(sheet, result.value if result.value_repr is None else result.value_repr))
    if result.calls:
        times = [mark.seconds for mark in result.prints[:_MOST_PRINTS]]
        note = f"{plural(len(result.calls), 'call')} in {duration(result.usage.wall_seconds)}"
        yield section("Calls in time", axis(sheet, result.calls, result.usage.wall_seconds, times), note)
    lines = lines_of(sheet.redaction.source(result.source, MOST_CHARACTERS).rstrip()) if result.source else []
    yield section("Program", _source(sheet, result, lines) if lines else "")
    elsewhere = [call for call in result.calls if not 1 <= (call.line or 0) <= len(lines)]
    if elsewhere:
        title = "Calls of no known line" if len(elsewhere) < len(result.calls) else "Calls"
        yield section(title, calls_of_a_place(sheet, elsewhere))
    logs = sheet.text(result.logs.rstrip(), _VALUE, is_cut=bool(result.truncated))
    yield section("Output", f"<pre>{logs}</pre>" if result.logs else "")
    yield artifacts_section(sheet, result.artifacts)
    yield section("The plan of its calls", _plan(sheet, result), "the fast path ran it on the host")
    if result.speculative:
        note = "read-only calls that the program did not use"
        yield section("Begun early", calls_of_a_place(sheet, result.speculative), note)
    yield section("Inputs", "" if result.inputs in ("", "{}") else f"<pre>{sheet.json(result.inputs)}</pre>")
    found = [str(each) for each in result.findings if not 1 <= each.line <= len(lines)]
    notes = [*result.notes, *(f"a limit cut {name}" for name in result.truncated), *found]
    pieces = (f"<li>{sheet.line(text, 2 * SHORT)}</li>" for text in notes[:_MOST_NOTES])
    yield section("Notes", f"<ul>{sheet.list(pieces, len(notes), 'notes')}</ul>" if notes else "")
    if _ran(result):
        printed = len(result.logs.encode("utf-8", "replace"))
        where = sheet.line(result.sandbox, 400)
        yield limits_section(result.usage, result.limits, len(result.calls), printed, where)


def value_markup(sheet: Sheet, value: Any) -> str:
    """A text as it is, or a JSON value."""
    return f"<pre>{sheet.text(value, _VALUE) if isinstance(value, str) else sheet.value(value, _VALUE)}</pre>"


def _plan(sheet: Sheet, result: CodeResult) -> str:
    plan = result.plan if result.path == "plan" else None
    if not plan:
        return ""
    return fold("as it can be given to execute_tool_plan", value_markup(sheet, plan))


# the source


def _source(sheet: Sheet, result: CodeResult, lines: Sequence[str]) -> str:
    """The lines, and beside each the calls it made, what it printed, and what is wrong with it."""
    calls: defaultdict[int, list[CallRecord]] = defaultdict(list)
    for call in result.calls:
        if call.line is not None:
            calls[call.line].append(call)
    prints, findings = _prints(sheet, result), _findings(sheet, result)
    failed = {each.line for each in result.findings if each.severity == "error"}
    if result.error is not None and result.error.line is not None:
        failed.add(result.error.line)

    def line(number: int, text: str) -> str:
        beside = calls_of_a_place(sheet, calls[number]) if number in calls else ""
        for said, what in ((prints[number], "prints"), (findings[number], "findings")):
            beside += sheet.list(said[:_AT_A_LINE], len(said), what)
        kind = "line failed" if number in failed else "line called" if beside else "line"
        shown = f'<div class="beside">{beside}</div>' if beside else ""
        return (
            f'<div class="{kind}"><span class="n">{number}</span><span class="code">{text or " "}</span>{shown}</div>'
        )

    pieces = (line(number, text) for number, text in enumerate(lines, 1))
    return f'<div class="source">{sheet.list(pieces, result.source.rstrip().count(chr(10)) + 1, "lines")}</div>'


def _findings(sheet: Sheet, result: CodeResult) -> defaultdict[int, list[str]]:
    """What the check found, by line, as markup; at the line that failed, the error."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    for each in result.findings:
        words = f"{each.message}; {each.hint}" if each.hint else each.message
        tone = "bad" if each.severity == "error" else "odd"
        found[each.line].append(f'<p class="{tone}">{sheet.line(words, 2 * SHORT)}</p>')
    error = result.error
    if error is not None and error.line is not None and error.line not in found:
        found[error.line].append(f'<p class="bad">{sheet.line(f"{error.kind}: {error.message}", 2 * SHORT)}</p>')
    return found


def _prints(sheet: Sheet, result: CodeResult) -> defaultdict[int, list[str]]:
    """What was printed, by line, as markup."""
    found: defaultdict[int, list[str]] = defaultdict(list)
    marks = result.prints[:_MOST_PRINTS]
    names = {each.handle: each.name for each in result.artifacts}
    ends = [mark.offset for mark in result.prints[1 : _MOST_PRINTS + 1]]
    for mark, end in zip(marks, [*ends, len(result.logs)], strict=False):
        if mark.line is None:
            continue
        if mark.artifact is not None:
            shown = f"displayed {sheet.line(names.get(mark.artifact, 'a file'))}"
        else:
            text = result.logs[mark.offset : max(end, mark.offset)].rstrip("\n")
            is_cut = bool(result.truncated) and end >= len(result.logs)
            shown = f"<code>{sheet.text(text, _PRINT_CHARACTERS, is_cut=is_cut)}</code>"
        found[mark.line].append(f'<div class="print">{shown}<span class="took">{duration(mark.seconds)}</span></div>')
    return found


# what is below a plan as well


def artifacts_section(sheet: Sheet, artifacts: Sequence[Artifact]) -> str:
    """The pictures themselves, and the names of other files."""
    pictures, names = [], []
    for artifact, uri in picture_uris(artifacts, _PICTURE_BYTES):
        size = f" ({artifact.media_type}, {artifact.size_bytes:,} bytes)" if artifact.data else ""
        name = sheet.line(f"{artifact.name[:SHORT]}{size}", 2 * SHORT)
        if uri:
            pictures.append(f'<figure><img src="{uri}" alt=""><figcaption>{name}</figcaption></figure>')
        else:
            names.append(f"<li>{name}</li>")
    listed = sheet.list(names, max(len(artifacts) - len(pictures), 0), "files")
    return section(
        "Artifacts",
        (f'<div class="gallery">{"".join(pictures)}</div>' if pictures else "")
        + (f"<ul>{listed}</ul>" if listed else ""),
    )


def limits_section(
    usage: RunUsage, limits: Limits | None, calls: int, printed: int | None = None, where: str = ""
) -> str:
    """What the run used of each limit that it can be measured against, and where it ran."""
    below = f'<p class="dim">Sandbox: {where}</p>' if where else ""
    if limits is None:
        return section("Sandbox", below)
    used: list[tuple[str, float | None, float, Any]] = [
        ("wall time", usage.wall_seconds, limits.wall_seconds, duration),
        ("processor time", usage.cpu_seconds, limits.cpu_seconds, duration),
        ("peak memory", usage.peak_memory_bytes, limits.memory_bytes, _bytes),
        ("tool calls", calls, limits.max_tool_calls, "{:,}".format),
        ("printed", printed, limits.max_log_bytes, _bytes),
    ]
    rows = [
        f'<div class="row"><span class="name">{name}</span><span class="track">'
        f"{bar(0, part, whole, 'bad' if part >= whole else 'ok') if part else ''}</span>"
        f'<span class="took">{form(part)} of {form(whole)}</span></div>'
        for name, part, whole, form in used
        if part is not None
    ]
    return section("Limits", f'<div class="axis limits">{"".join(rows)}</div>{below}')


def _bytes(count: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{count:,.0f} bytes"
