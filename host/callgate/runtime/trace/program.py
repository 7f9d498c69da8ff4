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
from .markup import SHORT, Sheet, Tone, bar, card, duration, fact_list, fold, plural, section
from .source import MOST_CHARACTERS, MOST_LINES, lines_of

if TYPE_CHECKING:
    from callgate.artifacts import Artifact
    from callgate.limits import Limits

__all__ = ["artifacts_section", "figures", "limits_section", "program_cards", "program_sections", "program_status"]

_VALUE: Final = 20_000
"""Characters of a value, of all prints, of a traceback."""
_MOST_PRINTS: Final = 200
"""Prints that are shown at lines, and marks on the axis."""
_PRINTS_AT_A_LINE: Final = 5
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
    return ("not run" if result.error.kind in ("CheckFailed", "NotAGraph") else "failed"), "bad"


def program_cards(result: CodeResult) -> str:
    """The figures at the top."""
    where = "plan, on the host" if result.path == "plan" else "sandbox"
    return card("ran as", where) + figures(result.usage, len(result.calls))


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
    sheet.learn(result.calls)
    return "".join(_sections(sheet, result))


def _sections(sheet: Sheet, result: CodeResult) -> Iterator[str]:
    if (error := result.error) is not None:
        at = f" <small>line {error.line}</small>" if error.line else ""
        text = f'<p class="words">{sheet.text(error.message, is_cut=True)}</p>'
        trace = f"<pre>{sheet.text(error.traceback.rstrip(), _VALUE)}</pre>" if error.traceback else ""
        yield f'<section class="error"><h2>{sheet.line(error.kind, 80)}{at}</h2>{text}{trace}</section>'
    elif result.value_repr is not None or result.value is not None:
        whole = result.value_repr if result.value_repr is not None else result.value
        shown = sheet.text(whole, _VALUE) if isinstance(whole, str) else sheet.value(whole, _VALUE)
        yield section("Value", f"<pre>{shown}</pre>")
    if result.calls:
        times = [mark.seconds for mark in result.prints[:_MOST_PRINTS]]
        note = f"{plural(len(result.calls), 'call')} in {duration(result.usage.wall_seconds)}"
        yield section("Calls in time", axis(sheet, result.calls, result.usage.wall_seconds, times), note)
    if result.source:
        yield section("Program", _source(sheet, result))
    lines = result.source.count("\n") + 1 if result.source else 0
    elsewhere = [call for call in result.calls if not _is_shown(call.line, lines)]
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
    findings = [f"line {each.line}: {each.message}{f' ({each.hint})' if each.hint else ''}" for each in result.findings]
    notes = [*result.notes, *(f"a limit cut {name}" for name in result.truncated)]
    yield section("Notes", _items(sheet, [*notes, *findings]))
    inputs = "" if result.inputs in ("", "{}") else f"<pre>{sheet.json(result.inputs)}</pre>"
    where = f"<code>{sheet.line(result.sandbox, 400)}</code>" if result.sandbox else ""
    yield section("Inputs and sandbox", fact_list([("inputs", inputs), ("sandbox", where)]))
    yield limits_section(result.usage, result.limits, len(result.calls), len(result.logs.encode("utf-8", "replace")))


def _items(sheet: Sheet, texts: Sequence[str]) -> str:
    pieces = (f"<li>{sheet.line(text, 2 * SHORT)}</li>" for text in texts[:_MOST_NOTES])
    return f"<ul>{sheet.list(pieces, len(texts), 'notes')}</ul>" if texts else ""


def _plan(sheet: Sheet, result: CodeResult) -> str:
    plan = result.plan if result.path == "plan" else None
    if not plan:
        return ""
    return fold("as it can be given to execute_tool_plan", f"<pre>{sheet.value(plan, _VALUE)}</pre>")


# the source


def _is_shown(line: int | None, lines: int) -> bool:
    return line is not None and 1 <= line <= min(lines, MOST_LINES)


def _source(sheet: Sheet, result: CodeResult) -> str:
    source = sheet.redaction.source(result.source, MOST_CHARACTERS).rstrip()
    lines, count = lines_of(source), result.source.rstrip().count("\n") + 1
    calls: defaultdict[int, list[CallRecord]] = defaultdict(list)
    for call in result.calls:
        if call.line is not None:
            calls[call.line].append(call)
    prints, failed = _prints(sheet, result), None if result.error is None else result.error.line
    findings = {each.line for each in result.findings if each.severity == "error"}
    pieces = (
        _line(
            sheet, number, line, calls.get(number, ()), prints.get(number, ()), failed == number or number in findings
        )
        for number, line in enumerate(lines, 1)
    )
    return f'<div class="source">{sheet.list(pieces, count, "lines")}</div>'


def _line(
    sheet: Sheet, number: int, line: str, calls: Sequence[CallRecord], prints: Sequence[str], failed: bool
) -> str:
    beside = calls_of_a_place(sheet, calls) if calls else ""
    beside += sheet.list(prints[:_PRINTS_AT_A_LINE], len(prints), "prints") if prints else ""
    kind = "line failed" if failed else "line called" if beside else "line"
    shown = f'<div class="beside">{beside}</div>' if beside else ""
    return f'<div class="{kind}"><span class="n">{number}</span><span class="code">{line or " "}</span>{shown}</div>'


def _prints(sheet: Sheet, result: CodeResult) -> dict[int, list[str]]:
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


def limits_section(usage: RunUsage, limits: Limits | None, calls: int, printed: int | None = None) -> str:
    """What the run used of each limit that it can be measured against."""
    if limits is None:
        return ""
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
    return section("Limits", f'<div class="axis limits">{"".join(rows)}</div>')


def _bytes(count: float) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}" if count < 1000 * size else f"{count / size:,.0f} {unit}"
    return f"{count:,.0f} bytes"
