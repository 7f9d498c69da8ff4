"""The way back: what kind of failure a failed call is, and which form replaces a form that keeps failing. Pure.

A model that cannot write programs gets plans, and a model that cannot write references calls the tools itself: each
form asks less of the model than the one above. Below direct calls there is no form, and the task ends.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal

from callgate.errors import SandboxError
from callgate.runtime import Answer, CodeResult, PlanResult, RunError

__all__ = [
    "BELOW", "DIRECT_PATIENCE", "META_OF", "PATIENCE", "FailureKind", "Form", "failure_of", "form_of", "reason_for",
    "words_for", "worn_out",
]  # fmt: skip

Form = Literal["direct", "plan", "code"]
"""How tools are called: one by one by the model, in a plan, in a program."""

FailureKind = Literal["refused", "failed", "sandbox", "limit", "tool"]
"""``refused``: nothing was run, the plan or the program is wrong as written (a call: no such tool, wrong arguments).
``failed``: it ran, and its own words failed: a reference that leads nowhere, an exception. ``sandbox``: programs cannot
run here. ``limit``: the run reached a limit. ``tool``: a tool failed, which is not the form's fault."""

META_OF: dict[Form, str] = {"plan": "execute_tool_plan", "code": "execute_code"}
"""The meta-tool of each form; direct calls have none."""

BELOW: dict[Form, Form] = {"code": "plan", "plan": "direct"}
"""The form that replaces one that keeps failing."""

PATIENCE: dict[FailureKind, int] = {"refused": 3, "failed": 3, "limit": 2, "sandbox": 1}
"""Number of turns with failures of one kind, since the form last worked, after which another form replaces it. A model
that can write a plan corrects it once or twice; a plan that is wrong the third time stays wrong. A program that reached
a limit may be written smaller once. A missing sandbox does not come back. Failures of tools do not count: another form
would call the same tools."""

DIRECT_PATIENCE = 8
"""The number of turns for direct calls, which have no form below them."""

_DID: dict[FailureKind, str] = {
    "refused": "was refused",
    "failed": "failed",
    "limit": "reached a limit",
    "sandbox": "found no sandbox",
}
_OWN = ("InvalidArguments", "ToolNotFound", "ToolNotAllowed")
"""Errors that are mistakes of the plan or the program that made the call."""
_NO_SANDBOX = ("NotAGraph", "SandboxCrashed")


def form_of(name: str) -> Form:
    """The form of a call of this name: plan and code for their meta-tools, direct for any other tool."""
    return next((form for form, meta in META_OF.items() if meta == name), "direct")


def failure_of(answer: Answer | SandboxError) -> FailureKind | None:
    """The kind of a failure; None for a success.

    Args:
        answer: the answer to the model's call, or the error that was raised instead.
    """
    if isinstance(answer, SandboxError):
        return "sandbox"
    if answer.ok:
        return None
    if answer.mistake:
        return "refused"
    match answer.result:
        case None:
            return "tool"
        case PlanResult() as run:
            return _of_plan(run)
        case CodeResult(error=RunError() as error):
            return _of_program(error)
        case _:
            return "failed"


def worn_out(form: Form, failed: Mapping[FailureKind, Collection[int]]) -> FailureKind | None:
    """The kind of failure that exhausted the patience with a form; None where it may be tried again.

    Args:
        form: the form.
        failed: the turns in which it failed since it last worked, by kind. Calls of one turn count once, because the
            model wrote them before any of them failed.
    """
    for kind, patience in PATIENCE.items():
        if len(failed.get(kind, ())) >= (DIRECT_PATIENCE if form == "direct" else patience):
            return kind
    return None


def reason_for(form: Form, kind: FailureKind, times: int) -> str:
    """Why another form takes a form's place, for people."""
    return f"{form} {_DID[kind]} {times} time{'' if times == 1 else 's'}: {BELOW[form]} takes its place"


def words_for(form: Form, kind: FailureKind) -> str:
    """Why a form is no longer offered, for the model, with what to do instead."""
    what = f"{'Programs' if form == 'code' else 'Plans'} are no longer offered: {META_OF[form]} {_DID[kind]}."
    if form == "code":
        return f"{what} Use execute_tool_plan, or call the tools yourself."
    return f"{what} Call the tools yourself, one after the other, and use what each of them gives for the next."


def _of_plan(run: PlanResult) -> FailureKind:
    if run.error is not None and run.error.limit:
        return "limit"
    failed = [step for step in run.steps if step.status in ("failed", "unknown_outcome")]
    own = any(not step.attempts or step.kind in _OWN for step in failed)
    return "failed" if own or not failed else "tool"


def _of_program(error: RunError) -> FailureKind:
    if error.kind in _NO_SANDBOX:
        return "sandbox"
    if error.kind == "LimitReached":
        return "limit"
    return "tool" if error.tool is not None and error.kind not in _OWN else "failed"
