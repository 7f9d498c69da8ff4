"""What can be said of a plan without running it: its faults, what it would do, how long that would take."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from typing import Any, TextIO

from callgate import PlanFault, Runtime

from .json_places import line_and_column
from .source import Source
from .words import FAILED, OK, emit, explain, say

__all__ = ["say_faults", "show_estimate", "show_explanation", "show_faults"]


def _fault_lines(source: Source, faults: list[PlanFault]) -> list[tuple[str, PlanFault]]:
    """Faults as compilers write theirs, in the text's order: ``file:line:column: severity code message; hint``."""
    placed = [(line_and_column(source.code, fault.place) or (0, 0), fault) for fault in faults]
    placed.sort(key=lambda each: each[0])
    return [
        (f"{source.name}{f':{line}:{column}' if line else ''}: {fault.severity} {fault.code} {fault}", fault)
        for (line, column), fault in placed
    ]


def show_faults(data: TextIO, source: Source, faults: list[PlanFault], as_json: bool) -> int:
    with contextlib.redirect_stdout(data):
        if as_json:
            told = []
            for fault in faults:
                place = line_and_column(source.code, fault.place) or (None, None)
                told.append({**dataclasses.asdict(fault), "line": place[0], "column": place[1]})
            emit(json.dumps(told, ensure_ascii=False))
        else:
            for line, _ in _fault_lines(source, faults):
                emit(line)
    if not faults:
        say("nothing found")
    return FAILED if any(fault.severity == "error" for fault in faults) else OK


def show_explanation(data: TextIO, look: Runtime, source: Source, form: Any, allow: list[str] | None) -> int:
    if _cannot(look, source, allow, "explained"):
        return FAILED
    with contextlib.redirect_stdout(data):
        emit(look.explain_plan(source.code, form, tools=allow))
    return OK


def say_faults(source: Source, faults: list[PlanFault]) -> None:
    for line, fault in _fault_lines(source, faults):
        say(line, "yellow" if fault.severity == "warning" else "red")


async def show_estimate(data: TextIO, look: Runtime, source: Source, as_json: bool, allow: list[str] | None) -> int:
    """How long the plan would take, by what is known of its tools: in words, or as JSON."""
    if _cannot(look, source, allow, "estimated"):
        return FAILED
    async with look:  # what the statistics file knows is read on entering
        told = look.estimate(source.code, tools=allow)
    with contextlib.redirect_stdout(data):
        emit(json.dumps(told.to_dict(), ensure_ascii=False) if as_json else told.for_people())
    return OK


def _cannot(look: Runtime, source: Source, allow: list[str] | None, what: str) -> bool:
    """Say the plan's faults, and whether they are in the way."""
    faults = look.check_plan(source.code, tools=allow)
    say_faults(source, faults)
    errors = [fault for fault in faults if fault.severity == "error"]
    if errors:
        count = f"{len(errors)} fault{'' if len(errors) == 1 else 's'}"
        explain(f"the plan cannot be {what}: it has {count}", errors[0].hint or "correct what is named above")
    return bool(errors)
