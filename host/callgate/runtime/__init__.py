"""The room where the pure core meets I/O: the gate, and the runs that pass through it.

Importing this package imports no module of it: `names_from` imports a name's module at the first use of the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callgate.lazily import names_from

if TYPE_CHECKING:
    from callgate.program.graph.reasons import NotAGraph

    from .answer import Answer
    from .audit.log import AuditLog
    from .discovery.conversation import Conversation
    from .discovery.found import Described, Found, SearchResult
    from .durable.runs import PendingCall, Run, Runs
    from .fast_path.compilation import Compilation
    from .final_answer import AnswerCheck, AnswerType, FinalAnswer
    from .gate.approval import Allow, ApprovalRequest, Deny
    from .gate.events import (
        CallEnded,
        CallProgressed,
        CallStarted,
        Displayed,
        Event,
        Printed,
        StepEnded,
        StepStarted,
        report_progress,
    )
    from .gate.journal import CurrentCall, current_call
    from .gate.records import CallRecord
    from .offer import Source
    from .plans.result import PlanResult, StepResult
    from .plans.run import PlanApprovalRequest
    from .redaction import Redaction
    from .result import CodeResult, PrintMark, RunError, RunUsage
    from .runtime import Runtime
    from .session import Session
    from .streaming import CodeStream
    from .sync.conversation import SyncConversation
    from .sync.runs import SyncRun, SyncRuns
    from .sync.runtime import SyncRuntime
    from .sync.session import SyncSession
    from .telemetry.options import Telemetry

__all__ = [
    "Allow",
    "Answer",
    "AnswerCheck",
    "AnswerType",
    "ApprovalRequest",
    "AuditLog",
    "CallEnded",
    "CallProgressed",
    "CallRecord",
    "CallStarted",
    "CodeResult",
    "CodeStream",
    "Compilation",
    "Conversation",
    "CurrentCall",
    "Deny",
    "Described",
    "Displayed",
    "Event",
    "FinalAnswer",
    "Found",
    "NotAGraph",
    "PendingCall",
    "PlanApprovalRequest",
    "PlanResult",
    "PrintMark",
    "Printed",
    "Redaction",
    "Run",
    "RunError",
    "RunUsage",
    "Runs",
    "Runtime",
    "SearchResult",
    "Session",
    "Source",
    "StepEnded",
    "StepResult",
    "StepStarted",
    "SyncConversation",
    "SyncRun",
    "SyncRuns",
    "SyncRuntime",
    "SyncSession",
    "Telemetry",
    "current_call",
    "report_progress",
]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "answers": ("Answer",),
        "audit.log": ("AuditLog",),
        "final_answer": ("AnswerCheck", "AnswerType", "FinalAnswer"),
        "gate.approval": ("Allow", "ApprovalRequest", "Deny"),
        "gate.records": ("CallRecord",),
        "discovery.conversation": ("Conversation",),
        "discovery.found": ("Described", "Found", "SearchResult"),
        "durable.runs": ("PendingCall", "Run", "Runs"),
        "gate.events": (
            "CallEnded",
            "CallProgressed",
            "CallStarted",
            "Displayed",
            "Event",
            "Printed",
            "StepEnded",
            "StepStarted",
            "report_progress",
        ),
        "gate.journal": ("CurrentCall", "current_call"),
        "fast_path.compilation": ("Compilation", "NotAGraph"),
        "offer": ("Source",),
        "plans.run": ("PlanApprovalRequest",),
        "plans.result": ("PlanResult", "StepResult"),
        "redaction": ("Redaction",),
        "result": ("CodeResult", "PrintMark", "RunError", "RunUsage"),
        "runtime": ("Runtime",),
        "session": ("CodeStream", "Session"),
        "sync.conversation": ("SyncConversation",),
        "sync.runs": ("SyncRun", "SyncRuns"),
        "sync.runtime": ("SyncRuntime",),
        "sync.session": ("SyncSession",),
        "telemetry.options": ("Telemetry",),
    },
)
