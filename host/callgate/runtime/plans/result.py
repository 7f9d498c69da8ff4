"""The result of a plan as data, with two views: for the model, and for people and programs. Runs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from callgate.artifacts import Artifact
from callgate.limits import Limits
from callgate.plan.explain import ExplainedStep, ExplainFormat, explain
from callgate.plan.faults import PlanFault
from callgate.plan.model import steps_json
from callgate.plan.outcomes import StepStatus
from callgate.runtime.final_answer import FinalAnswer
from callgate.runtime.gate.records import CallRecord
from callgate.runtime.result import (
    MODEL_CHARACTERS,
    Keep,
    RunError,
    RunUsage,
    calls_made,
    cut,
    files_made,
    members,
    plain,
    shortened,
)  # fmt: skip
from callgate.tools.faults import did_you_mean, printable

if TYPE_CHECKING:
    from callgate.runtime.redaction import Redaction

__all__ = ["PlanResult", "StepResult"]

_MOST_LINES = 50
"""Lines about steps in the text for a model; beyond that, steps that succeeded are counted."""
_LINE_CHARACTERS = 400
_LEAST_SHARE = 100


@dataclass(kw_only=True, slots=True)  # not frozen: making one would take four times as long
class StepResult:
    """The result of one step, like a `CallRecord` only to be read."""

    id: str
    tool: str
    status: StepStatus
    """``succeeded``, ``failed``, ``skipped``, or ``unknown_outcome``: timed out or interrupted, and may have done its
    work all the same."""
    wave: int
    """0 for steps that wait for nothing, else one more than the highest wave they wait for; steps overlap in time."""
    needs: tuple[str, ...] = ()
    """Ids of the steps that had to succeed first."""
    after: tuple[str, ...] = ()
    """Ids of the steps that had to end first."""
    arguments: Any = None
    """The arguments of the call, references resolved; for a `for_each` a list of them; None if no call was made."""
    result_json: str | None = None
    """The raw result as JSON text; None unless it succeeded."""
    error: str | None = None
    """Why it did not succeed."""
    kind: str | None = None
    """Class name of the error."""
    cause: str | None = None
    """For skipped steps: the id of the step that caused the skip, if there is one."""
    started_seconds: float | None = None
    """Seconds from the start of the run to its first call; None if no call was made."""
    duration_seconds: float = 0.0
    """From its first call to its last answer: queueing, approval, retries and fallbacks included."""
    attempts: int = 0
    """Number of calls of tools for the step, fallbacks included."""
    cached: bool = False
    """Every result came from the cache."""
    fallback: str | None = None
    """The tool whose result was taken instead."""
    items: int | None = None
    """Number of items of a `for_each`."""
    items_failed: int = 0
    warnings: tuple[str, ...] = ()
    calls: tuple[int, ...] = ()
    """Ids of its calls, in `PlanResult.calls`."""

    @property
    def result(self) -> Any:
        """The raw result, a new copy each time. None unless the step succeeded."""
        return None if self.result_json is None else json.loads(self.result_json)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values; the arguments are not copied."""
        return plain({**members(self, "result_json"), "result": self.result})


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanResult:
    """The result of one plan, for the model and for people. Steps that need no failed step have run."""

    ok: bool
    """Every step succeeded, or was skipped by a condition."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """The results of the output steps that succeeded, by id."""
    steps: list[StepResult] = field(default_factory=list)
    """All steps, in the plan's order; empty if the plan was refused."""
    error: RunError | None = None
    """Of kind ``PlanRefused`` (see `faults`), ``PlanDenied`` (`approve_plan` denied it), ``StepFailed`` (see `steps`)
    or ``LimitReached``."""
    faults: list[PlanFault] = field(default_factory=list)
    """Faults that were found before the run; with an error among them, nothing ran."""
    calls: list[CallRecord] = field(default_factory=list)
    """Every call, in the order in which they began."""
    artifacts: list[Artifact] = field(default_factory=list)
    """What its tools returned of bytes, pictures and files: see `Limits.max_artifacts`."""
    final_answer: FinalAnswer | None = None
    """The plan's `answer`, if it was asked for one and everything that the answer needs succeeded."""
    goal: str | None = None
    plan: dict[str, Any] | None = None
    """The plan that ran, as callgate read it; None if no plan ran."""
    changed: bool = False
    """True if `approve_plan` answered with another plan, and that plan ran."""
    path: Literal["plan"] = "plan"
    logs: str = ""
    """Always empty, since a plan prints nothing. A `CodeResult` has the same field."""
    usage: RunUsage = field(default_factory=RunUsage)
    truncated: tuple[str, ...] = ()
    """Always empty: nothing is cut here, only in `for_model`."""
    limits: Limits | None = None
    """The limits of the run; `usage` has what was used of them."""
    redactor: Callable[..., Any] | None = field(default=None, repr=False, compare=False)
    """Makes the redaction of this run's page, which knows its tools' secrets. None for a saved result."""

    def step(self, id: str) -> StepResult:
        """The step of that id. Raises `KeyError`."""
        for step in self.steps:
            if step.id == id:
                return step
        raise KeyError(f"there is no step {id!r}{did_you_mean(id, [step.id for step in self.steps])}")

    def timeline(self, width: int = 100, *, color: bool = False) -> str:
        """When each step ran, as text on a common axis.

        Args:
            width: cells of a line at most.
            color: with SGR sequences, for a terminal.
        """
        from .timeline import timeline_text

        return timeline_text(self, width, color)

    def trace(self, title: str | None = None, redaction: Redaction | None = None) -> str:
        """Write the run as one self-contained HTML page.

        Args:
            title: instead of the plan's goal.
            redaction: of all texts and values; by default the runtime's; `Redaction()` for a result that was saved.
        """
        from callgate.runtime.trace.page import run_page

        return run_page(self, title, redaction)

    def save_trace(
        self, path: str | os.PathLike[str], title: str | None = None, redaction: Redaction | None = None
    ) -> Path:
        """Write the page of `trace` into a file, which is replaced, and return its path. Raises `OSError`.

        A large run takes up to a second or two: in a server, call this in a thread.
        """
        from callgate.runtime.trace.page import saved

        return saved(self.trace(title, redaction), path)

    def explain(self, form: ExplainFormat = "text") -> str:
        """Write the plan with the outcome of each step.

        Args:
            form: ``"text"``, ``"json"`` or ``"mermaid"`` (a flowchart).
        """
        written = steps_json(self.plan) if self.plan else []
        steps = [
            ExplainedStep(
                step.id, step.tool, step.wave, step.needs, step.after, each,
                step.status, step.error, step.duration_seconds, step.warnings,
            )
            for step, each in zip(self.steps, written, strict=True)
        ]  # fmt: skip
        outputs = self.plan.get("output_steps", []) if self.plan else []
        return explain(steps, form, goal=self.goal, outputs=outputs)

    def to_dict(self) -> dict[str, Any]:
        """The whole result as JSON values. Arguments of calls are not copied."""
        artifacts = [each.to_json() for each in self.artifacts]
        answer = None if self.final_answer is None else json.loads(self.final_answer.json)
        steps = [step.to_dict() for step in self.steps]
        return plain({**members(self, "redactor"), "artifacts": artifacts, "final_answer": answer, "steps": steps})

    def for_model(self, max_characters: int = MODEL_CHARACTERS, *, keep: Keep | None = None) -> str:
        """A short text for the model's context: how many steps succeeded, a line for each step, the outputs.

        Longer text is cut, with the number of bytes left out; nothing is lost here: `outputs` and `steps` are whole.

        Args:
            max_characters: of the whole text, about.
            keep: keeps the outputs that are cut, for a model that can read on.
        """
        if not self.steps:
            text = self._refusal(max_characters)
        else:
            head = "\n".join(self._lines(max_characters // 2))
            outputs = "\n".join(self._outputs(max(max_characters - len(head), max_characters // 2), keep))
            if self.final_answer is not None:
                outputs += f"\nanswer: {shortened(self.final_answer.text, max_characters // 2, 'answer.txt', keep)}"
            text = "\n".join(filter(None, [head, outputs, *files_made(self.artifacts, outputs)]))
        return text.encode("utf-8", "replace").decode()  # a lone surrogate cannot be sent

    def _repr_html_(self) -> str:
        """The result in a notebook: its outputs, and its steps in time; of a bounded size."""
        from callgate.runtime.shown import plan_html

        return plan_html(self)

    def _repr_markdown_(self) -> str:
        from callgate.runtime.shown import plan_markdown

        return plan_markdown(self)

    def _refusal(self, most: int) -> str:
        errors = [fault for fault in self.faults if fault.severity == "error"]
        warnings = [fault for fault in self.faults if fault.severity == "warning"]
        count = f"{len(errors)} fault{'' if len(errors) == 1 else 's'}"
        lines = [f"The plan was not run: {count}. Correct {'it' if len(errors) == 1 else 'them'} and send it again."]
        if self.changed:
            lines = [f"The plan was changed before it was allowed, and the changed plan has {count}. Nothing was run."]
        lines += [f"- {fault}" for fault in errors] + [f"- note: {fault}" for fault in warnings[:5]]
        if self.error is not None and not errors:
            lines = [self.error.message]
        if self.calls:
            lines.append(f"Already called while the plan was being written: {calls_made(self.calls)}.")
        return cut("\n".join(lines), most)

    def _lines(self, most: int) -> Iterator[str]:
        succeeded = sum(step.status == "succeeded" for step in self.steps)
        skipped = sum(step.status == "skipped" for step in self.steps) if self.ok else 0
        by_condition = f", {skipped} skipped by a condition" if skipped else ""
        yield f"{succeeded}/{len(self.steps)} steps succeeded{by_condition}." + (
            f" The run was ended: {self.error.message}." if self.error is not None and self.error.limit else ""
        )
        shown = self.steps
        if len(shown) > _MOST_LINES:
            shown = [step for step in self.steps if step.status != "succeeded" or step.warnings][:_MOST_LINES]
        room = most
        count = 0
        for step in shown:
            line = printable(cut(_line(step), _LINE_CHARACTERS).replace("\n", " "))
            room -= len(line)
            if room < 0:
                break
            count += 1
            yield line
        if count < len(self.steps):
            rest = [step for step in self.steps if step not in shown[:count]] if len(self.steps) < 1000 else []
            good = sum(step.status == "succeeded" for step in rest) if rest else None
            words = f", {good} of them succeeded" if good is not None else ""
            yield f"- ... {len(self.steps) - count} more steps{words}"

    def _outputs(self, most: int, keep: Keep | None) -> Iterator[str]:
        for fault in [fault for fault in self.faults if fault.severity == "warning"][:5]:
            yield f"Note: {fault}"
        if self.changed:
            yield "Note: the plan was changed before it was allowed; what stands here is of the changed plan."
        if not self.outputs:
            return
        yield "Outputs:"
        room, left = most, len(self.outputs)
        for name, value in self.outputs.items():
            if room < _LEAST_SHARE:
                size = sum(len(_text(each)) for each in list(self.outputs.values())[-left:])
                yield f"... {left} more outputs left out, {size} bytes"
                return
            file = f"{name}.{'txt' if isinstance(value, str) else 'json'}"
            whole = shortened(_text(value), max(room // left, _LEAST_SHARE), file, keep)
            shown = whole.replace("\n", "\n  ")  # no line of ours
            line = f"{printable(name)}: {shown}"
            room -= len(line)
            left -= 1
            yield line


def _line(step: StepResult) -> str:
    name = f"- {step.id} ({step.tool})"
    good = None if step.items is None else f"{step.items - step.items_failed} of {step.items} items"
    items = "" if good is None else f", {good}" if step.status == "succeeded" else f": {good} succeeded"
    if step.status == "succeeded":
        notes = [f"from fallback {step.fallback}"] if step.fallback else []
        more = f": {'; '.join([*notes, *step.warnings])}" if notes or step.warnings else ""
        return f"{name}: succeeded{items}{more}"
    if step.status == "skipped":
        return f"{name}: {step.error}"
    words = "outcome unknown" if step.status == "unknown_outcome" else step.status
    why = f" ({'; '.join(step.warnings)})" if step.warnings else ""
    return f"{name}: {words}{items}: {step.error}{why}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
