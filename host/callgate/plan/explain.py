"""Show a plan in words, as JSON or as a Mermaid flowchart, with the outcomes of its steps once it has run.

A model's text stays text: Mermaid labels are escaped, so that no text becomes markup, and in words every control
character is, so that no text moves a terminal's cursor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from callgate.cut import duration
from callgate.tools.faults import printable

from .compile import CompiledPlan
from .model import plan_json, steps_json

__all__ = ["ExplainFormat", "ExplainedStep", "explain", "explained"]

ExplainFormat = Literal["text", "json", "mermaid"]

_SHOWN = 60
_OPTIONS = ("for_each", "when", "timeout_seconds", "retry", "fallback", "max_items", "on_item_error", "critical")
_COLOURS = {
    "succeeded": "fill:#d7f0dd,stroke:#2e7d4f,color:#123",
    "failed": "fill:#f8d7da,stroke:#b02a37,color:#411",
    "unknown_outcome": "fill:#fde8c8,stroke:#b36b00,color:#421",
    "skipped": "fill:#eceff1,stroke:#90a4ae,color:#345,stroke-dasharray:4 3",
}


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One step, as it is shown."""

    id: str
    tool: str
    wave: int
    needs: tuple[str, ...]
    """Ids of the steps that must succeed first."""
    after: tuple[str, ...] = ()
    """Ids of the steps that must end first."""
    written: Mapping[str, Any] = field(default_factory=dict)
    """The step as written."""
    status: str | None = None
    error: str | None = None
    duration_seconds: float | None = None
    warnings: tuple[str, ...] = ()


def explained(plan: CompiledPlan, redacted: Callable[[Any], Any] = lambda step: step) -> list[ExplainedStep]:
    """Return the steps of a plan that has not run.

    Args:
        plan: that was read.
        redacted: takes secrets out of a step as written.
    """
    written = map(redacted, steps_json(plan_json(plan.model)))
    ids = [step.id for step in plan.steps]
    return [
        ExplainedStep(
            step.id,
            step.tool.name,
            wave,
            tuple(ids[need] for need in step.needs),
            tuple(ids[earlier] for earlier in step.after),
            each,
        )
        for step, wave, each in zip(plan.steps, plan.waves, written, strict=True)
    ]


def explain(
    steps: Sequence[ExplainedStep], form: ExplainFormat, *, goal: str | None = None, outputs: Sequence[str] = ()
) -> str:
    """Show a plan in one of the forms.

    Args:
        steps: in the plan's order.
        form: ``"text"``, ``"json"`` or ``"mermaid"``.
        goal: of the plan.
        outputs: ids of the output steps.

    Raises:
        ValueError: there is no such form.
    """
    if form == "text":
        return _text(steps, goal, outputs)
    if form == "json":
        return _json(steps, goal, outputs)
    if form == "mermaid":
        return _mermaid(steps, outputs)
    raise ValueError(f"there is no form {form!r}; there are: text, json, mermaid")


def _text(steps: Sequence[ExplainedStep], goal: str | None, outputs: Sequence[str]) -> str:
    lines = [f"goal: {goal}"] if goal else []
    waves: dict[int, list[ExplainedStep]] = {}
    for step in steps:
        waves.setdefault(step.wave, []).append(step)
    for wave in sorted(waves):
        together = f", {len(waves[wave])} steps in parallel" if len(waves[wave]) > 1 else ""
        lines.append(f"wave {wave}{together}")
        for step in waves[wave]:
            lines.append(f"  {step.id}: {step.tool}({_arguments(step.written.get('arguments', {}))})")
            lines += [f"      {detail}" for detail in _details(step)]
    if outputs and len(outputs) < len(steps):
        lines.append(f"outputs: {', '.join(outputs)}")
    return "\n".join(printable(line) for line in lines)


def _details(step: ExplainedStep) -> list[str]:
    details = [
        f"{name}: {_short(step.written[name])}" for name in _OPTIONS if step.written.get(name) not in (None, False)
    ]
    if step.needs:
        details.append(f"waits for {', '.join(step.needs)}")
    if step.after:
        details.append(f"begins after {', '.join(step.after)}")
    if step.status is not None:
        took = f" in {duration(step.duration_seconds)}" if step.duration_seconds and step.status != "skipped" else ""
        why = f": {step.error}" if step.error else ""
        details.append(f"{step.status}{took}{why}")
    return details + [f"warning: {warning}" for warning in step.warnings]


def _arguments(given: Any) -> str:
    if not isinstance(given, dict):
        return _short(given)
    return ", ".join(f"{name}={_short(value)}" for name, value in given.items())


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _json(steps: Sequence[ExplainedStep], goal: str | None, outputs: Sequence[str]) -> str:
    shown: dict[str, Any] = {"goal": goal} if goal else {}
    shown["steps"] = [
        {
            **step.written,
            "wave": step.wave,
            "needs": list(step.needs),
            **({"after": list(step.after)} if step.after else {}),
            **({"status": step.status, "duration_seconds": step.duration_seconds} if step.status is not None else {}),
            **({"error": step.error} if step.error else {}),
            **({"warnings": list(step.warnings)} if step.warnings else {}),
        }
        for step in steps
    ]
    shown["output_steps"] = list(outputs)
    return json.dumps(shown, ensure_ascii=False, indent=2)


def _mermaid(steps: Sequence[ExplainedStep], outputs: Sequence[str]) -> str:
    numbers = {step.id: number for number, step in enumerate(steps)}
    chosen = frozenset(outputs) if len(outputs) < len(steps) else frozenset()
    lines = ["flowchart LR"]
    used: dict[str, list[str]] = {}
    for number, step in enumerate(steps):
        each = "<br/>for each item" if step.written.get("for_each") is not None else ""
        label = f"<b>{_escaped(step.id)}</b><br/>{_escaped(step.tool)}{each}"
        opening, closing = ("([", "])") if step.id in chosen else ("[", "]")
        lines.append(f'  s{number}{opening}"{label}"{closing}')
        if step.status in _COLOURS:
            used.setdefault(str(step.status), []).append(f"s{number}")
    for number, step in enumerate(steps):
        lines += [f"  s{numbers[need]} --> s{number}" for need in step.needs if need in numbers]
        lines += [f"  s{numbers[earlier]} -.-> s{number}" for earlier in step.after if earlier in numbers]
    for status, nodes in used.items():
        lines += [f"  classDef {status} {_COLOURS[status]}", f"  class {','.join(nodes)} {status}"]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    """Write everything but letters, digits and a few marks as Mermaid's entity codes."""
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return "".join(c if c.isalnum() or c in " _-.…" else f"#{ord(c)};" for c in text)
