"""The texts of ERROR and TIP for a run or a plan that failed. Prints nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from callgate_guest.wire import ERRORS

from .options import flag, size_text

if TYPE_CHECKING:
    from callgate import CallRecord, CodeResult, Limits, PlanResult

__all__ = ["PERSON", "headline", "plan_headline", "plan_tip", "tip"]

PERSON = "the person at the terminal"
"""Who answers questions at the terminal."""
_CLOSED = "network, other processes and the host's files are closed to a program; give it a tool for what it needs"
_BY_KIND = {
    "ModuleNotFoundError": "`callgate packages add NAME --to DIR`, then --packages DIR: programs can import it",
    "PermissionError": _CLOSED,
    "OSError": _CLOSED,
    "gaierror": _CLOSED,
    "URLError": _CLOSED,
    "FileNotFoundError": "the host's files are not there; give it some with --file PATH or --folder PATH",
    "SandboxCrashed": "run it again; `callgate doctor` says whether the sandbox works here",
}
_BY_STATUS = {
    "denied": "answer y at a terminal, or pass --yes, to approve",
    "refused": "`callgate tools --tools ...` lists what there is, with signatures",
    "timed_out": "give the tool more time with @tool(timeout_seconds=...)",
    "unknown_outcome": "find out whether it did its work, or give it more time with @tool(timeout_seconds=...)",
}
"""By the status of the call that failed last."""


def headline(result: CodeResult) -> str:
    """Why a program failed, in one line."""
    error = result.error
    assert error is not None
    if error.kind == "CheckFailed" or (error.kind == "NotAGraph" and result.plan is None):
        return f"the program was not run: {error.message}"
    if error.kind == "NotAGraph":
        return f"the program cannot go on as a plan: {error.message}"
    if error.kind in ("LimitReached", "GuestDied", "SandboxCrashed", "ProtocolError"):
        return error.message
    place = f" at line {error.line}" if error.line is not None else ""
    return f"the program failed{place}: {error.kind}{f': {error.message}' if error.message else ''}"


def tip(result: CodeResult, limits: Limits) -> str:
    """What to do about a program that failed."""
    error = result.error
    assert error is not None
    if error.kind == "CheckFailed":
        first = next(finding for finding in result.findings if finding.severity == "error")
        if first.code.startswith("restricted"):
            return f"{first.hint}; or run it without --policy restricted"
        unchecked = "" if first.code in ("syntax", "too-complex") else "; or run it unchecked with --no-check"
        return f"{first.hint}{unchecked}"
    if error.kind == "NotAGraph":
        more = "; `callgate compile --why` lists all reasons" if result.plan is None else ""
        return f"with --path auto it runs in the sandbox{more}"
    if error.limit is not None:
        return f"{_raise(error.limit, limits)}, or let the program use less"
    if error.kind == "ModuleNotFoundError" and result.sandbox.startswith("docker"):
        return "a container has its image's packages: callgate image build --requirements ... --tag NAME, --image NAME"
    if error.kind == "ToolError" or error.kind in ERRORS.values():
        caught = f"the program can catch it: `except {error.kind} as error`; --verbose shows every call"
        denied_by = {call.approved_by for call in result.calls if call.status == "denied"} - {"", PERSON}
        if _failed(result.calls) == "denied" and denied_by:
            return f"{', '.join(sorted(denied_by))} decided so; {caught}"
        return _BY_STATUS.get(_failed(result.calls), caught)
    if error.kind in _BY_KIND:
        return _BY_KIND[error.kind]
    if result.calls:
        return "--verbose shows every tool call as it happens"
    return "the traceback names the program's own line; print what led to it"


def plan_headline(result: PlanResult) -> str:
    """Why a plan was refused or failed, in one line."""
    error = result.error
    assert error is not None
    if error.kind != "PlanRefused":
        return error.message
    first, *others = [fault for fault in result.faults if fault.severity == "error"]
    step = f"step {first.step!r}: " if first.step is not None else ""
    return f"the plan was not run: {step}{first.message}{f' (and {len(others)} more)' if others else ''}"


def plan_tip(result: PlanResult, limits: Limits) -> str:
    """What to do about a plan that was refused or failed."""
    error = result.error
    assert error is not None
    if error.kind == "PlanRefused":
        first = next(fault for fault in result.faults if fault.severity == "error")
        if first.code == "unknown-tool" and not first.hint:
            return "name the file with your tools, --tools FILE.py; `callgate tools --tools FILE.py` lists them"
        return first.hint or "`callgate plan --check` shows every fault with its place"
    if error.kind == "PlanDenied":
        return "answer y at a terminal to run it, e to edit it first; or leave --ask out"
    if error.limit is not None:
        return f"{_raise(error.limit, limits)}, or split the plan"
    step = next(step for step in result.steps if step.status in ("failed", "unknown_outcome"))
    if step.warnings:
        return step.warnings[0]
    status = _failed([call for call in result.calls if call.id in step.calls])
    return _BY_STATUS.get(status, "--verbose shows every call with its arguments; --json keeps everything")


def _raise(limit: str, limits: Limits) -> str:
    value = getattr(limits, limit) * 2
    return f"raise it with {flag(limit)} {size_text(value) if limit.endswith('_bytes') else f'{value:g}'}"


def _failed(calls: list[CallRecord]) -> str:
    """The status of the call that failed last."""
    return next((call.status for call in reversed(calls) if call.error is not None), "failed")
