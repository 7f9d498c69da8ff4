"""Programmatic tool calling: a model's program runs isolated and calls the host's tools."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import errors, runtime
from .lazily import names_from
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .agent import Agent, AgentResult, Budget
    from .artifacts import Artifact, Artifacts
    from .errors import (
        CallgateError,
        ConfigurationError,
        ContextExceeded,
        InvalidArguments,
        LimitReached,
        ModelError,
        ModelRejected,
        ModelUnavailable,
        ProtocolError,
        SandboxBusy,
        SandboxCrashed,
        SandboxError,
        SandboxUnavailable,
        ToolCancelled,
        ToolError,
        ToolNotAllowed,
        ToolNotFound,
        ToolTimedOut,
    )
    from .limits import Limits
    from .plan import PlanFault
    from .program import Finding
    from .runtime import (
        Allow,
        Answer,
        ApprovalRequest,
        CallEnded,
        CallProgressed,
        CallRecord,
        CallStarted,
        CodeResult,
        Compilation,
        Conversation,
        Deny,
        Described,
        Displayed,
        Event,
        Found,
        NotAGraph,
        PlanApprovalRequest,
        PlanResult,
        Printed,
        RunError,
        Runtime,
        RunUsage,
        SearchResult,
        Session,
        Source,
        StepEnded,
        StepResult,
        StepStarted,
        report_progress,
    )
    from .sandbox.docker.backend import DockerBackend
    from .tools import Registry, Retry, Tool, tool

__all__ = [
    "Agent",
    "AgentResult",
    "Allow",
    "Answer",
    "ApprovalRequest",
    "Artifact",
    "Artifacts",
    "Budget",
    "CallEnded",
    "CallProgressed",
    "CallRecord",
    "CallStarted",
    "CallgateError",
    "CodeResult",
    "Compilation",
    "ConfigurationError",
    "ContextExceeded",
    "Conversation",
    "Deny",
    "Described",
    "Displayed",
    "DockerBackend",
    "Event",
    "Finding",
    "Found",
    "InvalidArguments",
    "LimitReached",
    "Limits",
    "ModelError",
    "ModelRejected",
    "ModelUnavailable",
    "NotAGraph",
    "PlanApprovalRequest",
    "PlanFault",
    "PlanResult",
    "Printed",
    "ProtocolError",
    "Registry",
    "Retry",
    "RunError",
    "RunUsage",
    "Runtime",
    "SandboxBusy",
    "SandboxCrashed",
    "SandboxError",
    "SandboxUnavailable",
    "SearchResult",
    "Session",
    "Source",
    "StepEnded",
    "StepResult",
    "StepStarted",
    "Tool",
    "ToolCancelled",
    "ToolError",
    "ToolNotAllowed",
    "ToolNotFound",
    "ToolTimedOut",
    "report_progress",
    "tool",
]

__getattr__, __dir__ = names_from(
    __name__,
    {
        "agent": ("Agent", "AgentResult", "Budget"),
        "artifacts": ("Artifact", "Artifacts"),
        "errors": errors.__all__,
        "limits": ("Limits",),
        "plan.faults": ("PlanFault",),
        "program.findings": ("Finding",),
        "runtime": runtime.__all__,
        "sandbox.docker.backend": ("DockerBackend",),
        "tools": ("Registry", "Retry", "Tool", "tool"),
    },
)
