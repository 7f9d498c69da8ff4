"""Programmatic tool calling: a model's program runs isolated and calls the host's tools."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .agent import Agent, AgentResult, Budget
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
        Event,
        Found,
        NotAGraph,
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Load a public name's room when it is first asked for (PEP 562); `callgate --help` needs none."""
    if name in __all__:
        for room in ("errors", "limits", "tools", "plan", "program", "runtime", "sandbox.docker.backend", "agent"):
            module = importlib.import_module(f".{room}", __name__)
            if hasattr(module, name):
                return globals().setdefault(name, getattr(module, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
