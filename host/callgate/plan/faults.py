"""Faults of a plan, in words for its author. Holds values; finds nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from callgate.tools.faults import printable

__all__ = ["MAX_ERRORS", "MAX_WARNINGS", "PLAN_FAULT_CODES", "Faults", "PlanFault", "Severity", "Spot"]

Severity = Literal["error", "warning"]

MAX_ERRORS = 100
"""Errors after which the search ends: wording them takes time, and a model has enough to do."""
MAX_WARNINGS = 100
"""Warnings that are kept."""

PLAN_FAULT_CODES: Mapping[str, str] = MappingProxyType(
    {
        "not-json": "The text is not JSON, or JSON that parsers disagree on (duplicate keys, NaN).",
        "too-large": "More bytes, values, levels of nesting or steps than a plan may have.",
        "shape": "A field is missing, unknown, given twice under two names, or of the wrong type.",
        "duplicate-id": "Two steps have one id.",
        "reserved-id": "The id means something else in references.",
        "unknown-tool": "There is no tool of that name, or a plan may not call it.",
        "recursive-plan": "A plan cannot run plans or programs.",
        "argument": "An argument is missing, unknown, or does not fit the tool's schema.",
        "reference-syntax": "A reference that cannot be read, or that stands inside longer text.",
        "unknown-step": "A reference, `depends_on`, `after` or `output_steps` names a step that does not exist.",
        "cycle": "Steps that wait for each other.",
        "expression": "An expression that cannot be read.",
        "repaired": "Warning: it was not written as it should be, and was read as what it must have meant.",
        "unknown-path": "Warning: the tool's output schema has no such field.",
        "looks-like-a-reference": "A text is a reference in another system's notation; a warning where it may be text.",
        "no-effect": "Warning: an option that changes nothing here.",
    }
)
"""Every code that a `PlanFault` may carry; pinned by a test and printed in the documentation."""


@dataclass(frozen=True, slots=True)
class PlanFault:
    """One thing wrong with a plan, found before anything ran."""

    code: str
    """A key of `PLAN_FAULT_CODES`."""
    step: str | None
    """The step's id; None for a fault of the plan as a whole."""
    place: str
    """Where, e.g. ``steps[2].arguments.city``; empty for the plan as a whole."""
    message: str
    """What is wrong, with the faulty value, in one line."""
    hint: str = ""
    """What to write instead, in one line; empty if the message says it."""
    severity: Severity = "error"
    """With an error no step runs. A warning stops nothing."""

    def __str__(self) -> str:
        who = f"step {self.step[:80]!r}" if self.step is not None else "the plan"
        where = f" ({self.place})" if self.place and self.place != self.step else ""
        return printable(f"{who}{where}: {self.message}" + (f"; {self.hint}" if self.hint else ""))


class Faults(list[PlanFault]):
    """The faults found so far; errors and warnings beyond a bound are counted, not kept."""

    errors = 0
    warnings = 0

    def note(self, fault: PlanFault) -> None:
        """Add a fault, if there is room."""
        is_error = fault.severity == "error"
        self.errors += is_error
        self.warnings += not is_error
        if self.errors <= 10 * MAX_ERRORS if is_error else self.warnings <= MAX_WARNINGS:
            self.append(fault)

    @property
    def too_many(self) -> bool:
        """Whether to end the search."""
        return self.errors >= MAX_ERRORS


@dataclass(frozen=True, slots=True)
class Spot:
    """A place in a plan, with the list that takes its faults."""

    step: str | None
    place: str
    faults: Faults

    def fault(
        self, message: str, hint: str = "", below: str = "", *, code: str = "shape", severity: Severity = "error"
    ) -> None:
        """Add a fault.

        Args:
            message: what is wrong.
            hint: what to write instead.
            below: the place within this one, e.g. ``.timeout``.
            code: of the fault.
            severity: of the fault.
        """
        self.faults.note(PlanFault(code, self.step, self.place + below, message, hint, severity))

    def warn(self, code: str, message: str, hint: str = "", below: str = "") -> None:
        """Add a warning."""
        self.fault(message, hint, below, code=code, severity="warning")

    def repaired(self, message: str, below: str = "") -> None:
        """Add a warning: a field is not written as it should be, and was read all the same."""
        self.warn("repaired", message, "", below)
