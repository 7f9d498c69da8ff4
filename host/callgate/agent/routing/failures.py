"""What failed when a form failed: the form itself, a tool, or the sandbox. Read from answers; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from callgate.errors import SandboxError
from callgate.runtime import Answer, CodeResult, PlanResult, RunError

from .rules import Form

__all__ = ["Failure", "FailureKind", "failure_of", "form_of"]

FailureKind = Literal["refused", "failed", "sandbox", "limit", "tool"]
"""``refused``: nothing was run, the plan or the program is wrong as written (a call: no such tool, wrong arguments).
``failed``: it ran, and its own words failed: a reference that leads nowhere, an exception. ``sandbox``: programs cannot
run here. ``limit``: it spent all it was given. ``tool``: a tool failed, which is not the form's fault."""

_FORMS: dict[str, Form] = {"execute_tool_plan": "plan", "execute_code": "code"}
_OWN = ("InvalidArguments", "ToolNotFound", "ToolNotAllowed")
"""Errors of calls that say that the plan or the program called wrongly."""
_NO_SANDBOX = ("NotAGraph", "SandboxCrashed")


@dataclass(frozen=True, slots=True)
class Failure:
    """A call that failed.

    Attributes:
        form: in which tools were called.
        kind: what failed.
        detail: in words.
        turn: of the model, in which the call was made; None where nobody says. Calls of one turn were written before
            any of them failed, and count as one.
    """

    form: Form
    kind: FailureKind
    detail: str = ""
    turn: int | None = None


def form_of(name: str) -> Form:
    """The form that a call of this name is of: ``execute_tool_plan`` plan, ``execute_code`` code, anything else
    direct."""
    return _FORMS.get(name, "direct")


def failure_of(name: str, answer: Answer | SandboxError, *, turn: int | None = None) -> Failure | None:
    """What failed; None where nothing did.

    Args:
        name: of what the model called.
        answer: to it; or the error that was raised instead.
        turn: of the model.
    """
    kind: FailureKind
    if isinstance(answer, SandboxError):
        kind, detail = "sandbox", str(answer)
    elif answer.ok:
        return None
    elif answer.mistake or answer.result is None:
        kind, detail = "refused" if answer.mistake else "tool", answer.text
    else:
        match answer.result:
            case PlanResult() as run:
                kind, detail = _of_plan(run)
            case CodeResult(error=RunError() as error):
                kind, detail = _of_program(error), error.message
            case _:
                kind, detail = "failed", answer.text
    return Failure(form_of(name), kind, detail[:500], turn)


def _of_plan(run: PlanResult) -> tuple[FailureKind, str]:
    if run.error is not None and run.error.limit:
        return "limit", run.error.message
    failed = [step for step in run.steps if step.status in ("failed", "unknown_outcome")]
    own = [step for step in failed if not step.attempts or step.kind in _OWN]
    detail = "; ".join(f"step {step.id!r}: {step.error}" for step in (own or failed)[:3])
    return "failed" if own or not failed else "tool", detail


def _of_program(error: RunError) -> FailureKind:
    if error.kind in _NO_SANDBOX:
        return "sandbox"
    if error.kind == "LimitReached":
        return "limit"
    return "tool" if error.tool is not None and error.kind not in _OWN else "failed"
