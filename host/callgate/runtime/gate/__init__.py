"""The gate that every tool call passes, from any caller: `run_gate` has the order, each other file one step."""

from .approval import Allow, ApprovalRequest, Approve, Decision, Deny
from .gate import Gate
from .run_gate import RunGate

__all__ = ["Allow", "ApprovalRequest", "Approve", "Decision", "Deny", "Gate", "RunGate"]
