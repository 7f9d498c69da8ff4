"""One tool call: the record that everyone reads, and the gate's own state of a call. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from callgate.artifacts import Artifact
from callgate.tools import Retry, Tool

from .deadline import Deadline

if TYPE_CHECKING:
    from callgate.runtime.products import Products

    from .earlier import Outcome
    from .journal import KeptCall
    from .watches import CallWatches

__all__ = ["CallRecord", "CallStatus", "CallUnderWay"]

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
"""pending: still running. failed: the tool was called and returned no result. denied: a person said no. refused: the
tool is unknown or forbidden, the arguments are wrong, or nobody can approve. cancelled: the call ended before it began,
or its tool only reads. unknown_outcome: the call timed out or was cancelled while it ran; the tool may have done its
work."""


@dataclass(slots=True)
class CallRecord:
    """One tool call, as the gate saw it. The gate fills the record in while the call runs; all others only read it."""

    id: int
    """Number of the call in its run; the first call is 1."""
    tool: str
    """The tool's name as the caller wrote it, cut after 256 characters."""
    arguments: Any
    """The arguments as given (JSON). After 64 MiB in one run, a text says that further arguments are not kept."""
    caller: str
    """``direct``, ``code`` or ``plan``."""
    started_seconds: float
    """Seconds from the start of the run."""
    status: CallStatus = "pending"
    duration_seconds: float = 0.0
    """Seconds from the request to the answer, with approval, queueing and retries, without a fallback."""
    attempts: int = 0
    """Number of calls of the tool's function; 0 if the call was refused or the cache had the result."""
    timeouts: int = 0
    """Number of attempts that timed out."""
    cached: bool = False
    """The result came from the cache, or from an identical call that was running."""
    error: str | None = None
    """The error message that the caller received."""
    fallback: str | None = None
    """The tool whose result was returned instead; its call has its own record."""
    fallback_call: int | None = None
    """The id of the fallback's call, whether or not that call succeeded."""
    queued_seconds: float = 0.0
    """The part of `duration_seconds` in which the call waited for its places: among `max_concurrent_calls`, and among
    the threads of sync tools or the calls that its MCP server is given at once."""
    changed_arguments: dict[str, Any] | None = None
    """The arguments that the approval put in place of `arguments`."""
    approval: Literal["granted", "changed", "denied", "unavailable"] | None = None
    """What a person or a function answered; ``unavailable``: there was nobody to ask. None if no answer was needed, or
    none came."""
    approved_by: str = ""
    """Who answered so, as the answer says: see `Allow.by`."""
    line: int | None = None
    """The line of the program that made the call, as a traceback shows it; None where no line is known, and of direct
    calls and plans."""
    early: bool = False
    """The call began before the program or the plan came to it; see `CodeResult.speculative`."""
    result: str | None = None
    """The result as JSON text, cut after 4 KiB; None without one. The results kept in one run take 16 MiB at most."""
    result_bytes: int = 0
    """Size of the whole result as JSON text."""
    replayed: bool = False
    """The call was made before its run was continued, and was not made again; the rest says how it was made."""
    reused: bool = False
    """The call was not made: its outcome is that of the same call of an earlier program."""


@dataclass(slots=True, eq=False)
class CallUnderWay:
    """A call on its way through the gate: the request, then the values that the gate's steps add.

    The gate sets `keeper_of_call` to it, so that one context variable says what a function that the call runs may ask
    for: the artifacts of its caller, and the call itself (see `current_call`).
    """

    name: str
    arguments: Mapping[str, Any]
    timeout_seconds: float | None = None
    """The call's own timeout; None for the tool's or the plan's."""
    retry: Retry | None = None
    fallback: str | None = None
    tried: tuple[str, ...] = ()
    """The tools that failed before, if this call is a fallback."""
    are_json: bool = False
    """Whether the arguments are JSON values for sure, since callgate read them from JSON text."""
    failure: CallStatus = "refused"
    """The status that the record gets if an error is raised now."""
    size: int = 0
    """Memory of the arguments in bytes, as far as it has been counted."""
    record: CallRecord = field(init=False)
    products: Products = field(init=False)
    """Has the artifacts of the caller."""
    tool: Tool = field(init=False)
    given: dict[str, Any] = field(init=False)
    """The arguments that were validated: the caller's, or those of the approval."""
    validated: dict[str, Any] = field(init=False)
    """The copy that the tool receives and may change."""
    shown: dict[str, Any] | None = None
    """A copy of large arguments for the approval."""
    key: str = ""
    """The cache key, if the result may be cached."""
    deadline: Deadline | None = None
    """The timeout of the task that makes the call, if it makes many."""
    line: int | None = None
    """The line of the program; see `CallRecord.line`, like `early`."""
    early: bool = False
    watches: CallWatches | None = None
    """Follow the call."""
    reused: Outcome | None = None
    """The outcome of an earlier program's call, which stands for this one."""
    value: Any = None
    """The value of a large result where it is at hand; shared, not to be changed."""
    kept: KeptCall | None = None
    """What the journal of a durable run has of the call; None in any other run."""
    idempotency_key: str | None = None
    """What `current_call` says; made when a tool asks for it, or by the journal."""

    def get(self, handle: str | Mapping[str, Any]) -> Artifact | None:
        """See `Keeper.get`."""
        return self.products.get(handle)

    def keep(self, artifact: Artifact) -> Artifact:
        """See `Keeper.keep`."""
        return self.products.keep(artifact)
