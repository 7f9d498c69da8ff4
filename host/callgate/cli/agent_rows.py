"""Calls and steps in rows for people: with the arguments that they were made with, bounded. Knows no event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from callgate import StepResult
from callgate.agent.models.model import Usage
from callgate.cut import duration

from .words import one_line

__all__ = [
    "ARGUMENTS",
    "WORD_WIDTH",
    "Line",
    "Row",
    "counted",
    "given",
    "json_of",
    "name_of",
    "names_of",
    "objects",
    "of_step",
    "result_row",
    "spent",
    "step_row",
    "tokens",
]

WORD_WIDTH = 8
ARGUMENTS = 240
"""Characters of all arguments of a call, and of what is told of a result or an error."""
_ARGUMENT = 60
_NAME = 60
_MOST_NAMED = 12
_STATUS = {"succeeded": "ok", "failed": "failed", "skipped": "skipped", "unknown_outcome": "unknown"}
_STYLES = {"ok": "green", "failed": "red", "skipped": "dim", "unknown": "yellow"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line.

    Attributes:
        word: what it is about, in a column of its own; may be empty.
        text: the rest.
        style: of both.
    """

    word: str
    text: str
    style: str = ""

    def __str__(self) -> str:
        return f"{self.word:<{WORD_WIDTH}} {self.text}"


@dataclass(frozen=True, slots=True)
class Row:
    """A step in a box.

    Attributes:
        word: what became of it: ``ok``, ``failed``, ...
        text: its call, with the arguments that it was made with.
        time: how long it took; empty where it was not made.
        style: of the word.
    """

    word: str
    text: str
    time: str
    style: str

    @property
    def line(self) -> Line:
        """The same as a line."""
        return Line(f"  {self.word}", " ".join(filter(None, (self.text, self.time))), self.style)


def given(name: str, arguments: Mapping[str, Any], longest: int = ARGUMENTS) -> str:
    """A call as Python writes it, on one line, bounded."""
    shown = []
    for key, value in arguments.items():
        shown.append(f"{name_of(str(key))}={_short(value)}")
        if sum(map(len, shown)) > longest:
            shown.append("...")
            break
    return one_line(f"{name_of(name)}({', '.join(shown)})", longest)


def counted(number: int, what: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def tokens(usage: Usage) -> str:
    """What went in and came out."""
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens:,}{cached} + {usage.output_tokens:,} tokens"


def spent(cost: float) -> str:
    """US dollars."""
    if 0 < cost < 0.00005:
        return "<$0.0001"
    return f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"


def of_step(step: StepResult) -> Mapping[str, Any]:
    names = ("id", "tool", "status", "arguments", "error", "started_seconds", "duration_seconds", "items")
    return {name: getattr(step, name) for name in (*names, "items_failed", "attempts", "cached", "fallback")}


def step_row(step: Mapping[str, Any]) -> Row:
    """A step as the plan engine tells it, whole or as JSON values."""
    word = _STATUS.get(str(step.get("status")), "unknown")
    arguments, tool = step.get("arguments"), str(step.get("tool"))
    called = given(tool, arguments) if isinstance(arguments, Mapping) else name_of(tool)
    facts = [f"{name_of(str(step.get('id')))}: {called}"]
    if items := _number(step.get("items")):
        facts.append(f"{items - _number(step.get('items_failed')):.0f}/{items:.0f} items")
    if (attempts := _number(step.get("attempts"))) > max(items, 1):
        facts.append(f"{attempts:.0f} attempts")
    if step.get("cached"):
        facts.append("cached")
    if step.get("fallback"):
        facts.append(f"from fallback {name_of(str(step['fallback']))}")
    if step.get("error"):
        facts.append(one_line(str(step["error"]), ARGUMENTS))
    ran = step.get("started_seconds") is not None
    time = duration(_number(step.get("duration_seconds"))) if ran else ""
    return Row(word, "; ".join(facts), time, _STYLES[word])


def result_row(result: Mapping[str, Any], seen: Mapping[str, StepResult]) -> Row:
    """A step as the tool planner tells it, with the arguments that it was seen with."""
    word = "ok" if result.get("success") else "failed"
    id, tool = str(result.get("step_id")), str(result.get("tool"))
    arguments = seen[id].arguments if id in seen else None
    facts = [f"{name_of(id)}: {given(tool, arguments) if isinstance(arguments, Mapping) else name_of(tool)}"]
    if result.get("success"):
        facts.append(f"confidence {_number(result.get('confidence')):.2f}")
        facts.append(one_line(json_of(result.get("data")), ARGUMENTS // 2))
    if retries := _number(result.get("retries")):
        facts.append(f"{retries:.0f} retries" if retries > 1 else "1 retry")
    if result.get("error"):
        facts.append(one_line(str(result["error"]), ARGUMENTS))
    return Row(word, "; ".join(facts), duration(_number(result.get("duration_seconds"))), _STYLES[word])


def objects(value: Any) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, (list, tuple)) else []


def _number(value: Any) -> float:
    return value if isinstance(value, (int, float)) else 0


def names_of(names: Iterable[str]) -> str:
    named = list(names)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return ", ".join(map(name_of, named[:_MOST_NAMED])) + more


def name_of(text: str) -> str:
    return one_line(text, _NAME)


def _short(value: Any) -> str:
    text = json_of(value)
    return text if len(text) <= _ARGUMENT else f"{text[: _ARGUMENT - 1]}…"


def json_of(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (RecursionError, ValueError):
        return "(cannot be shown)"
