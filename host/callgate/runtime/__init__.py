"""The one room where the pure core meets I/O: the gate, and the runs that pass through it."""

from __future__ import annotations

from callgate.program.graph.reasons import NotAGraph

from .approval import Allow, ApprovalRequest, Deny
from .calls import CallRecord
from .conversation import Conversation
from .events import CallEnded, CallProgressed, CallStarted, Event, Printed, StepEnded, StepStarted
from .fast_path.compilation import Compilation
from .model import Answer
from .plans.result import PlanResult, StepResult
from .progress import report_progress
from .result import CodeResult, RunError, RunUsage
from .runtime import CodeStream, Runtime
from .search import Described, Found, SearchResult
from .session import Session
from .source import Source

__all__ = [
    "Allow",
    "Answer",
    "ApprovalRequest",
    "CallEnded",
    "CallProgressed",
    "CallRecord",
    "CallStarted",
    "CodeResult",
    "CodeStream",
    "Compilation",
    "Conversation",
    "Deny",
    "Described",
    "Event",
    "Found",
    "NotAGraph",
    "PlanResult",
    "Printed",
    "RunError",
    "RunUsage",
    "Runtime",
    "SearchResult",
    "Session",
    "Source",
    "StepEnded",
    "StepResult",
    "StepStarted",
    "report_progress",
]
