"""The record of one tool call. Knows what was asked, what became of it and how long it took; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["CallRecord", "CallStatus", "weight"]

CallStatus = Literal[
    "pending",
    "succeeded",
    "failed",
    "timed_out",
    "denied",
    "cancelled",
    "refused",
    "unknown_outcome",
]
"""pending: still going on. failed: the tool was called and did not give a result. denied: a person said no. refused:
unknown or forbidden tool, wrong arguments, nobody to approve. unknown_outcome: timed out, and it may have done its
work all the same."""


@dataclass(slots=True)
class CallRecord:
    """One tool call, as the gate saw it. The gate fills it in while the call goes on; everyone else only reads."""

    id: int
    """1 for the run's first call, and so on."""
    tool: str
    """The name that was asked for, cut after 256 characters."""
    arguments: Any
    """As given (JSON). Beyond 64 MiB in one run the arguments of further calls are replaced by a text that says so."""
    caller: str
    """``direct``, ``code`` or ``plan``."""
    started_seconds: float
    """Seconds from the start of the run."""
    status: CallStatus = "pending"
    duration_seconds: float = 0.0
    """From the request to the answer: approval, queueing and retries included, a fallback not."""
    attempts: int = 0
    """How often the tool was called for this record; 0 when the call was refused or the result was there already."""
    timeouts: int = 0
    """Of `attempts`, those that ran out of time."""
    cached: bool = False
    """The result came from the cache, or from an identical call that was going on."""
    error: str | None = None
    """What the caller was told, when the call did not succeed."""
    fallback: str | None = None
    """The tool whose result was given instead; that call has a record of its own."""
    fallback_call: int | None = None
    """The id of the call that was made instead, whether or not it succeeded."""
    queued_seconds: float = 0.0
    """Of `duration_seconds`, waiting for a place among `max_concurrent_calls`."""
    changed_arguments: dict[str, Any] | None = None
    """What the approval put in place of `arguments`."""


def weight(value: Any, enough: int) -> int:
    """About how many bytes of memory a JSON value takes; stops counting when it is more than enough."""
    total = 0
    todo = [value]
    while todo and total <= enough:
        item = todo.pop()
        total += 64
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, dict):
            for key, below in item.items():
                total += 64 + len(key) if isinstance(key, str) else 64
                todo.append(below)
        elif isinstance(item, (list, tuple)):
            todo.extend(item)
    return total
