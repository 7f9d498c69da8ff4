"""A plan is shown before it runs, and allowed, changed or denied. Knows the question; `preparation` acts on the answer.

An error while asking counts as a no, as for a single call. No tool is called before the answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from callgate.plan.compile import CompiledPlan
from callgate.plan.explain import ExplainFormat, explain, explained
from callgate.plan.faults import PlanFault
from callgate.plan.model import plan_json
from callgate.runtime.gate.approval import Decision
from callgate.tools.decoding import decoding
from callgate.tools.encoding import encoding
from callgate.tools.turns import at_once

__all__ = ["ApprovePlan", "PlanApprovalRequest", "request_for"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanApprovalRequest:
    """May this plan run?

    The answer is `Allow()` or True, ``Allow(plan)`` with another plan (validated like the first one, and not shown
    again), or `Deny(reason)` or False. Each call of a tool with `requires_approval` still needs its own approval.
    """

    plan: dict[str, Any]
    """The plan as callgate read it, as JSON values. It is a copy: change it and pass it to `Allow` if you like."""
    warnings: tuple[PlanFault, ...]
    """Warnings about the plan. They do not keep it from running."""
    _compiled: CompiledPlan = field(repr=False)

    def explain(self, form: ExplainFormat = "text") -> str:
        """What the plan would do: its waves, its steps, and which step waits for which.

        Args:
            form: ``"text"``, ``"json"`` or ``"mermaid"`` (a flowchart).
        """
        model = self._compiled.model
        return explain(explained(self._compiled), form, goal=model.goal, outputs=model.output_steps)


ApprovePlan = Callable[[PlanApprovalRequest], Awaitable[Decision] | Decision]


def request_for(plan: CompiledPlan, faults: list[PlanFault]) -> PlanApprovalRequest:
    """Build the approval request for a plan that was read without faults."""
    copy = at_once(decoding(at_once(encoding(plan_json(plan.model)))))
    return PlanApprovalRequest(plan=copy, warnings=tuple(faults), _compiled=plan)
