"""What a plan came to, as data: each step, the outputs, every call. The views on it are in `result` and `timeline`."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from callgate.plan.faults import PlanFault
from callgate.plan.outcomes import StepStatus
from callgate.runtime.gate.calls import CallRecord
from callgate.runtime.result import RunError, RunUsage
from callgate.tools.faults import did_you_mean

__all__ = ["PlanOutcome", "StepResult"]


@dataclass(frozen=True, kw_only=True, slots=True)
class StepResult:
    """What became of one step."""

    id: str
    tool: str
    status: StepStatus
    """``succeeded``, ``failed``, ``skipped``, or ``unknown_outcome``: timed out or interrupted, and may have done its
    work all the same."""
    wave: int
    """0 for steps that wait for nothing, else one more than the latest they wait for; for reading, not for timing."""
    needs: tuple[str, ...] = ()
    """Ids of the steps that had to succeed first."""
    after: tuple[str, ...] = ()
    """Ids of the steps that had to end first."""
    arguments: Any = None
    """What the tool was called with, references resolved; for a `for_each` a list of them; None where no call was
    made."""
    result_json: str | None = None
    """The raw result as JSON text; None unless it succeeded."""
    error: str | None = None
    """Why it did not succeed."""
    kind: str | None = None
    """Class name of the error."""
    cause: str | None = None
    """For skipped steps: the id of the step that began it, where there is one."""
    started_seconds: float | None = None
    """Seconds from the start of the run to its first call; None where no call was made."""
    duration_seconds: float = 0.0
    """From its first call to its last answer: queueing, approval, retries and fallbacks included."""
    attempts: int = 0
    """How often a tool was called for it, fallbacks included."""
    cached: bool = False
    """Every result came from the cache."""
    fallback: str | None = None
    """The tool whose result was taken instead."""
    items: int | None = None
    """For a `for_each`: how many there were."""
    items_failed: int = 0
    warnings: tuple[str, ...] = ()
    calls: tuple[int, ...] = ()
    """Ids of its calls, in `PlanResult.calls`."""

    @property
    def result(self) -> Any:
        """The raw result; a copy of one's own each time. None unless it succeeded."""
        return None if self.result_json is None else json.loads(self.result_json)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values; the arguments are not copied."""
        plain = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "result_json"}
        plain["result"] = self.result
        for name in ("needs", "after", "warnings", "calls"):
            plain[name] = list(plain[name])
        return plain


@dataclass(frozen=True, kw_only=True, slots=True)
class PlanOutcome:
    """What one plan came to. Failure goes forward: what did not depend on a failed step has run."""

    ok: bool
    """Every step succeeded, or was skipped by a condition."""
    outputs: dict[str, Any] = field(default_factory=dict)
    """The results of the output steps that succeeded, by id."""
    steps: list[StepResult] = field(default_factory=list)
    """All steps, in the plan's order; none where it was refused."""
    error: RunError | None = None
    """Of kind ``PlanRefused`` (see `faults`), ``PlanDenied`` (`approve_plan` denied it), ``StepFailed`` (see `steps`)
    or ``LimitReached``."""
    faults: list[PlanFault] = field(default_factory=list)
    """What was found before the run; with errors among them, nothing ran."""
    calls: list[CallRecord] = field(default_factory=list)
    """Every call, in the order in which they began."""
    goal: str | None = None
    plan: dict[str, Any] | None = None
    """The plan that ran, as callgate read it; None if no plan ran."""
    changed: bool = False
    """True if `approve_plan` answered with another plan, and that plan ran."""
    path: Literal["plan"] = "plan"
    logs: str = ""
    """Always empty: a plan prints nothing. Here because a `CodeResult` has it."""
    usage: RunUsage = field(default_factory=RunUsage)
    truncated: tuple[str, ...] = ()
    """Always empty: nothing is cut here, only in `for_model`."""

    def step(self, id: str) -> StepResult:
        """The step of that id. Raises `KeyError`."""
        for step in self.steps:
            if step.id == id:
                return step
        raise KeyError(f"there is no step {id!r}{did_you_mean(id, [step.id for step in self.steps])}")
