"""The one room where the pure core meets I/O: the gate, and the runs that pass through it.

Importing this imports nothing else: each name comes from its module when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from callgate.lazily import names_from

if TYPE_CHECKING:
    from callgate.program.graph.reasons import NotAGraph

    from .code_stream import CodeStream
    from .conversation.conversation import Conversation
    from .fast_path.compilation import Compilation
    from .gate.approval import Allow, ApprovalRequest, Deny
    from .gate.calls import CallRecord
    from .gate.events import (
        CallEnded,
        CallProgressed,
        CallStarted,
        Event,
        Printed,
        StepEnded,
        StepStarted,
        report_progress,
    )
    from .model.answer import Answer
    from .plans.approval import PlanApprovalRequest
    from .plans.result import PlanResult, StepResult
    from .result import CodeResult, RunError, RunUsage
    from .runtime import Runtime
    from .search.result import Described, Found, SearchResult
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
    "PlanApprovalRequest",
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

__getattr__, __dir__ = names_from(
    __name__,
    {
        "code_stream": ("CodeStream",),
        "conversation.conversation": ("Conversation",),
        "fast_path.compilation": ("Compilation", "NotAGraph"),
        "gate.approval": (
            "Allow",
            "ApprovalRequest",
            "Deny",
        ),
        "gate.calls": ("CallRecord",),
        "gate.events": (
            "CallEnded",
            "CallProgressed",
            "CallStarted",
            "Event",
            "Printed",
            "StepEnded",
            "StepStarted",
            "report_progress",
        ),
        "model.answer": ("Answer",),
        "plans.approval": ("PlanApprovalRequest",),
        "plans.result": (
            "PlanResult",
            "StepResult",
        ),
        "result": (
            "CodeResult",
            "RunError",
            "RunUsage",
        ),
        "runtime": ("Runtime",),
        "search.result": (
            "Described",
            "Found",
            "SearchResult",
        ),
        "session": ("Session",),
        "source": ("Source",),
    },
)
