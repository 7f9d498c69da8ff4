"""The one room where the pure core meets I/O: the gate, and the runs that pass through it."""

from __future__ import annotations

from callgate.program.graph.reasons import NotAGraph

from .approval import Allow, ApprovalRequest, Deny
from .calls import CallRecord
from .events import CallEnded, CallStarted, Event, Printed, StepEnded, StepStarted
from .fast_path.compilation import Compilation
from .plans.result import PlanResult, StepResult
from .result import CodeResult, RunError, RunUsage
from .runtime import CodeStream, Runtime
from .session import Session

__all__ = [
    "Allow",
    "ApprovalRequest",
    "CallEnded",
    "CallRecord",
    "CallStarted",
    "CodeResult",
    "CodeStream",
    "Compilation",
    "Deny",
    "Event",
    "NotAGraph",
    "PlanResult",
    "Printed",
    "RunError",
    "RunUsage",
    "Runtime",
    "Session",
    "StepEnded",
    "StepResult",
    "StepStarted",
]
