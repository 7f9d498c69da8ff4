"""What a run came to: one value with two views, for the model and for people and programs. Runs nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

from callgate.program import Finding

from .gate.records import CallRecord

__all__ = ["NO_SANDBOX", "CodeResult", "RunError", "RunUsage", "calls_made", "cut", "members", "plain"]

NO_SANDBOX = "none: the program ran as a plan, by the host's own evaluator"
"""What `CodeResult.sandbox` says where no guest ran."""

MODEL_CHARACTERS = 16_000
"""Characters of `CodeResult.for_model` unless told otherwise: about 4,000 tokens."""


@dataclass(frozen=True, slots=True)
class RunError:
    """Why a run failed.

    Attributes:
        kind: the exception's class name in the program, or ``CheckFailed``, ``NotAGraph``, ``LimitReached``,
            ``ProtocolError``, ``GuestDied``, ``SandboxCrashed``.
        message: what happened.
        line: line of the program, where there is one.
        traceback: the program's own lines, as Python shows them; empty where there are none.
        limit: for ``LimitReached``: the field of `Limits`.
        tool: for a ``ToolError``: the tool.
    """

    kind: str
    message: str
    line: int | None = None
    traceback: str = ""
    limit: str | None = None
    tool: str | None = None


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What a run spent. Processor time and memory are the kernel's figures for the guest; ``None`` where there are
    none."""

    wall_seconds: float = 0.0
    cpu_seconds: float | None = None
    peak_memory_bytes: int | None = None
    tool_calls: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeResult:
    """What one program came to. A failed program still has every call it made and everything it printed."""

    ok: bool
    value: Any = None
    """JSON value of the last expression or the top-level `return`."""
    value_repr: str | None = None
    """Text of the value, where it is not JSON; `value` is then None."""
    logs: str = ""
    """Everything the program printed, standard error included."""
    error: RunError | None = None
    notes: list[str] = field(default_factory=list)
    """What else there is to know of how the program ended: calls that it never awaited, tasks that were cancelled."""
    findings: list[Finding] = field(default_factory=list)
    """What `check` found before the run; with errors among them, nothing ran."""
    calls: list[CallRecord] = field(default_factory=list)
    """The calls that the program made, in the order in which they began."""
    speculative: list[CallRecord] = field(default_factory=list)
    """Calls of read-only tools that were begun early, and that the program then ended without: see `path`."""
    path: Literal["plan", "sandbox"] = "sandbox"
    """``plan``: it was certain to be a graph of tool calls, and ran on the host; see `plan`."""
    plan_of_calls: Callable[[], dict[str, Any] | None] | None = field(default=None, repr=False, compare=False)
    """Writes `plan`."""
    sandbox: str = ""
    """What confined the program, in one line."""
    usage: RunUsage = field(default_factory=RunUsage)
    truncated: tuple[str, ...] = ()
    """Names of the fields that hold less than there was, because a limit ended them."""

    @property
    def plan(self) -> dict[str, Any] | None:
        """With the path ``plan``: the calls that it made, as a plan for `Runtime.execute_tool_plan`; written when it is
        asked for, and always the same object. None where it made more than 1,000."""
        return None if self.plan_of_calls is None else self.plan_of_calls()

    def to_dict(self) -> dict[str, Any]:
        """The whole result as JSON values. What the program and its calls gave is not copied."""
        return plain({**members(self, "plan_of_calls"), "plan": self.plan})

    def for_model(self, max_characters: int = MODEL_CHARACTERS) -> str:
        """A short text for the model's context: what was printed, the value or the error, and after a failure the
        calls made.

        Longer text is cut in the middle, with the number of bytes left out; nothing is lost here: `logs` and `value`
        are whole.
        """
        parts: list[str] = []
        if self.logs:
            parts.append(cut(self.logs.rstrip("\n"), max_characters // 2))
        if self.error is not None:
            parts.append(cut(self._failure(), max_characters // 2))
        elif self.value_repr is not None:
            parts.append(cut(f"Value (not JSON): {self.value_repr}", max_characters // 2))
        elif self.value is not None:
            value = self.value if isinstance(self.value, str) else _as_text(self.value)
            parts.append(cut(f"Value: {value}", max_characters // 2))
        elif not self.logs:
            parts.append("The program ended without printing anything and without a value.")
        warnings = [f"Note: {finding}" for finding in self.findings if finding.severity == "warning"]
        notes = [f"Note: {note}" for note in self.notes]
        text = "\n".join(parts + notes + warnings[:10])
        return text.encode("utf-8", "replace").decode()  # a lone surrogate could not be sent to anybody

    def _failure(self) -> str:
        assert self.error is not None
        error = self.error
        if error.kind == "CheckFailed" and self.findings:
            lines = [f"The program was not run: {error.message}"]
            if sum(finding.severity == "error" for finding in self.findings) == 1:
                return lines[0]
            lines += [f"- {finding}" for finding in self.findings if finding.severity == "error"][:50]
            return "\n".join(lines)
        text = error.traceback.rstrip("\n") or f"{error.kind}: {error.message}"
        if error.kind == "LimitReached" and error.traceback:
            text += f"\n{error.message}"
        text = f"The program failed.\n{text}"
        if self.calls:
            text += f"\nTool calls made before that: {calls_made(self.calls)}."
        return text


def members(result: Any, *without: str) -> dict[str, Any]:
    """The fields of a result by name; nothing is copied."""
    return {each.name: getattr(result, each.name) for each in fields(result) if each.name not in without}


def plain(told: dict[str, Any]) -> dict[str, Any]:
    """The fields of a result with the values of ours among them as JSON values. What tools and programs gave, and what
    they were given, is not copied."""
    made: dict[str, Any] = {}
    for name, value in told.items():
        listed = isinstance(value, (list, tuple))
        each = [members(one) if is_dataclass(one) else one for one in value] if listed else value
        made[name] = members(value) if is_dataclass(value) else each
    return made


def calls_made(calls: Iterable[CallRecord]) -> str:
    """Which tools were called, how that ended, and how often."""
    counts = Counter((call.tool, call.status) for call in calls).most_common(20)
    return ", ".join(f"{tool} {status}" + (f" ×{n}" if n > 1 else "") for (tool, status), n in counts)


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:  # it was decoded with more of the stack to spare
        return "(nested too deeply to be shown)"


def cut(text: str, characters: int) -> str:
    """`text`, or its two ends with the bytes left out stated between them."""
    if len(text) <= characters:
        return text
    half = max(characters // 2, 1)
    left_out = len(text[half:-half].encode("utf-8", "replace"))
    return f"{text[:half]}\n... {left_out} of {len(text.encode('utf-8', 'replace'))} bytes left out ...\n{text[-half:]}"
