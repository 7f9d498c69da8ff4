"""The page of a plan: its steps by wave and in time, each with everything that is known of it; its critical path, its
outputs, and why it was refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from callgate.plan.outcomes import StepStatus
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.plans.timeline import CRITICAL, MARKS, STATUS_WORDS, Row, lay_out

from .calls import approval, calls_of_a_place, scale
from .markup import SHORT, Sheet, Tone, bar, beginning, card, duration, fact_list, fold, headline, plural, section
from .program import artifacts_section, figures, limits_section, value_markup

__all__ = ["plan_cards", "plan_sections", "plan_status"]

_MOST_ROWS: Final = 400
_MOST_OUTPUTS: Final = 50
_FEW_OUTPUTS: Final = 2
"""Outputs that are open from the beginning."""
_SHOWN: Final = 6000
"""Characters of arguments and results that are redacted; fewer are shown."""
_MOST_FAULTS: Final = 50
_TONES: Final[dict[StepStatus, Tone]] = {"succeeded": "ok", "failed": "bad"}


def plan_status(result: PlanResult) -> tuple[str, Tone]:
    """How the plan ended, as markup."""
    if result.ok:
        return "succeeded", "ok"
    if result.error is not None and result.error.limit:
        return "ended by a limit", "bad"
    return ("failed" if result.steps else "not run"), "bad"


def plan_cards(result: PlanResult) -> str:
    """The figures at the top."""
    good = sum(step.status == "succeeded" for step in result.steps)
    return card("steps succeeded", f"{good:,} of {len(result.steps):,}") + figures(result.usage, len(result.calls))


def plan_sections(sheet: Sheet, result: PlanResult) -> str:
    """Everything below the figures."""
    sheet.redaction.learn(result.calls)
    return "".join(_sections(sheet, result))


def _sections(sheet: Sheet, result: PlanResult) -> Iterator[str]:
    """Why it was refused or failed, its steps, what they made, the plan itself, and the limits."""
    if (error := result.error) is not None:
        text = f'<p class="words">{sheet.text(error.message)}</p>'
        yield f'<section class="error"><h2>{sheet.line(error.kind, 80)}</h2>{text}</section>'
    faults = (f"<li>{sheet.text(str(fault))}</li>" for fault in result.faults[:_MOST_FAULTS])
    title = "Faults" if any(fault.severity == "error" for fault in result.faults) else "Warnings"
    yield section(title, f"<ul>{sheet.list(faults, len(result.faults), 'faults')}</ul>" if result.faults else "")
    if result.steps:
        yield _steps(sheet, result)
    elif result.calls:
        note = "while the plan was being written"
        yield section("Calls", calls_of_a_place(sheet, result.calls), note)
    shown = [*result.outputs.items()][:_MOST_OUTPUTS]
    outputs = (_output(sheet, name, value, opened=len(shown) <= _FEW_OUTPUTS) for name, value in shown)
    yield section("Outputs", sheet.list(outputs, len(result.outputs), "outputs"))
    yield artifacts_section(sheet, result.artifacts)
    if result.plan:
        written = fold("the plan that ran, as JSON", value_markup(sheet, result.plan))
        changed = "changed before it was allowed" if result.changed else ""
        yield section("Plan", written, changed)
    yield limits_section(result.usage, result.limits, len(result.calls))


def _output(sheet: Sheet, name: str, value: Any, *, opened: bool) -> str:
    what = f'<span class="tool">{sheet.line(name)}</span> <code class="gave">→ {sheet.brief(value, 2 * SHORT)}</code>'
    return fold(headline(what, ""), value_markup(sheet, value), kind="call", opened=opened)


def _steps(sheet: Sheet, result: PlanResult) -> str:
    timeline = lay_out(result, _MOST_ROWS)
    wall = timeline.wall_seconds or 1.0
    pieces = _rows(sheet, timeline.rows, wall)
    below = f'<p class="dim">{sheet.line(timeline.critical_words, 2000)}</p>' if timeline.critical else ""
    body = f'<div class="axis">{scale(wall)}{sheet.list(pieces, len(result.steps), "steps")}</div>{below}'
    return section("Steps in time", body, sheet.line(timeline.headline))


def _rows(sheet: Sheet, rows: list[Row], wall: float) -> Iterator[str]:
    wave = -1
    for row in rows:
        head = f'<div class="wave">wave {row.step.wave}</div>' if row.step.wave != wave else ""
        wave = row.step.wave
        yield head + _row(sheet, row, wall)


def _row(sheet: Sheet, row: Row, wall: float) -> str:
    """A step with its bar in one line, which opens for everything about it."""
    step = row.step
    tone: Tone = _TONES.get(step.status, "odd")
    critical = f'<span class="dim">{CRITICAL}</span> ' if row.critical else ""
    drawn, took = "", STATUS_WORDS[step.status]
    if step.started_seconds is not None:
        drawn, took = bar(step.started_seconds, step.duration_seconds, wall, tone), duration(step.duration_seconds)
    summary = (
        f'<span class="name"><span class="{tone}">{MARKS[step.status]}</span> {critical}{sheet.line(step.id)} '
        f'<span class="dim">{sheet.line(step.tool)}</span></span>'
        f'<span class="track">{drawn}</span><span class="took">{took}</span>'
    )
    facts = fact_list(_facts(sheet, row))
    if len(row.calls) > 1:
        facts += calls_of_a_place(sheet, row.calls)
    return fold(summary, facts, kind="step", opened=step.status in ("failed", "unknown_outcome"))


def _facts(sheet: Sheet, row: Row) -> Iterator[tuple[str, str]]:
    """Everything about a step, by name."""
    given, result = beginning(row.step.arguments, _SHOWN), (row.step.result_json or "")[:_SHOWN]
    left_out = len((row.step.result_json or "")[_SHOWN:].encode("utf-8", "replace"))
    step = sheet.redaction.step(replace(row.step, arguments=given, result_json=result or None))
    tags = "".join(f' <span class="tag">{sheet.line(note)}</span>' for note in row.notes)
    yield "status", f"{STATUS_WORDS[step.status]}{tags}"
    if step.started_seconds is not None:
        attempts = f", {plural(step.attempts, 'attempt')}" if step.attempts else ""
        yield (
            "began",
            f"{duration(step.started_seconds)} after the start, took {duration(step.duration_seconds)}{attempts}",
        )
    yield "needs", _names(sheet, step.needs)
    yield "after", _names(sheet, step.after)
    yield "arguments", "" if step.arguments is None else f"<pre>{sheet.value(step.arguments)}</pre>"
    yield "result", "" if step.result_json is None else f"<pre>{sheet.json(step.result_json, left_out)}</pre>"
    why = f"{step.kind}: {step.error}" if step.kind and step.error else step.error or ""
    yield ("skipped" if step.status == "skipped" else "error"), f"<pre>{sheet.text(why)}</pre>" if why else ""
    yield "because of", sheet.line(step.cause) if step.cause else ""
    yield "items", "" if step.items is None else f"{step.items - step.items_failed:,} of {step.items:,} succeeded"
    yield "fallback", sheet.line(step.fallback) if step.fallback else ""
    if step.warnings:
        yield "warnings", "<br>".join(sheet.line(each, 2 * SHORT) for each in step.warnings[:20])
    for call in row.calls[:1] if len(row.calls) == 1 else ():
        yield "approval", approval(sheet, call)


def _names(sheet: Sheet, ids: tuple[str, ...]) -> str:
    more = f" and {len(ids) - 20:,} more" if len(ids) > 20 else ""
    return ", ".join(sheet.line(id, 80) for id in ids[:20]) + more
