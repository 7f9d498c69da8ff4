"""Every error callgate raises, and whose move it is. Imports nothing of ours.

    CallgateError
    ├── ConfigurationError        the operator: a tool, a limit or an option is wrong as written
    ├── SandboxError              the machine: the sandbox cannot do its work
    │   ├── SandboxUnavailable      no isolation works here; the message names what to do
    │   ├── SandboxBusy             every guest is taken and the queue's wait ran out
    │   └── SandboxCrashed          a guest or its zygote went away in the middle
    ├── ProtocolError             the guest: what it sent is not the protocol
    ├── LimitReached              the program: it reached a limit
    ├── ModelError                the model's endpoint: it gave no usable answer
    │   ├── ModelUnavailable        it may be back: no connection, too many requests, a failure of its own
    │   ├── ModelRejected           the operator: the request is wrong (key, model's name)
    │   └── ContextExceeded         the input is longer than the model takes
    ├── DurableError              a run that outlives its process cannot go on, or not like this
    │   ├── StoreFailed             the machine: what has to be kept cannot be kept
    │   ├── RunNotFound             the caller: no run has this id, or it belongs to another
    │   ├── OwnershipLost           nobody: another process has taken the run
    │   ├── AlreadyDecided          the caller: somebody decided before
    │   └── ReplayDiverged          the program: it did not do again what is recorded
    └── ToolError                 a tool call failed; the program may catch it
        ├── ToolNotFound            no tool has that name
        ├── InvalidArguments        the arguments do not fit the tool's schema
        ├── ToolNotAllowed          the tool exists, and this caller may not call it
        │   └── ApprovalDenied        a person said no, or nobody answered in time
        ├── ToolTimedOut            the tool did not answer in time
        ├── UnknownOutcome          nobody knows whether the tool has done its work; it was not called again
        └── ToolCancelled           the run ended, or the program cancelled the call

A failing *program* is not an exception on the host: it is a `CodeResult` whose `ok` is false.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "AlreadyDecided",
    "ApprovalDenied",
    "CallgateError",
    "ConfigurationError",
    "ContextExceeded",
    "DurableError",
    "InvalidArguments",
    "LimitReached",
    "ModelError",
    "ModelRejected",
    "ModelUnavailable",
    "OwnershipLost",
    "ProtocolError",
    "ReplayDiverged",
    "RunNotFound",
    "SandboxBusy",
    "SandboxCrashed",
    "SandboxError",
    "SandboxUnavailable",
    "StoreFailed",
    "ToolCancelled",
    "ToolError",
    "ToolNotAllowed",
    "ToolNotFound",
    "ToolTimedOut",
    "UnknownOutcome",
]


class CallgateError(Exception):
    """Root of every error callgate raises."""


class ConfigurationError(CallgateError):
    """The operator's code or options cannot work; the message says what is wrong and what to write instead."""


class SandboxError(CallgateError):
    """The sandbox cannot do its work. Not the program's fault."""


class SandboxUnavailable(SandboxError):
    """No sandbox that was asked for works on this machine; the message names the reason and the remedy."""


class SandboxBusy(SandboxError):
    """Every guest was in use for longer than a run may queue."""


class SandboxCrashed(SandboxError):
    """A guest, or the zygote that forks guests, died without an answer."""


class ProtocolError(CallgateError):
    """The guest broke the protocol. Ends its run."""


class LimitReached(CallgateError):
    """A run reached a limit.

    Attributes:
        limit: name of the field of `Limits`, e.g. ``"wall_seconds"``.
        allowed: the value that was set, in the field's own unit.
        used: the usage when the limit was reached, same unit; ``None`` if unknown.
    """

    def __init__(self, limit: str, allowed: float, used: float | None = None) -> None:
        self.limit = limit
        self.allowed = allowed
        self.used = used
        spent = "" if used is None else f", used {used}"
        super().__init__(f"limit reached: {limit} is {allowed}{spent}")


class DurableError(CallgateError):
    """A run that outlives its process cannot go on, or not like this."""


class StoreFailed(DurableError):
    """The store of runs cannot be read or written: the disk is full, the file is damaged or locked, or the encryption
    key is another one. The message says which, and what to do."""


class RunNotFound(DurableError):
    """No run has this id, or it belongs to another conversation or client."""


class OwnershipLost(DurableError):
    """Another process has taken the run since, so nothing was written. That process goes on with it."""


class AlreadyDecided(DurableError):
    """Somebody decided before, or it was decided by time.

    Attributes:
        decided: what holds now, for people.
    """

    def __init__(self, message: str, decided: str) -> None:
        self.decided = decided
        super().__init__(message)


class ReplayDiverged(DurableError):
    """A program that was run again did something else than the recorded run; no tool was called.

    Attributes:
        line: of the program; None if unknown.
        expected: what the recorded run did next.
        got: what this run did instead.
    """

    def __init__(self, line: int | None, expected: str, got: str) -> None:
        self.line = line
        self.expected = expected
        self.got = got
        where = "" if line is None else f"in line {line}, "
        super().__init__(
            f"the program does not do again what it did: {where}the recorded run had {expected}, and this run has "
            f"{got}. Nothing was called. Start it as a new run; `callgate run --replay-check` finds what differs"
        )


class ModelError(CallgateError):
    """A model's endpoint gave no usable answer."""


class ModelUnavailable(ModelError):
    """The endpoint did not answer, after the SDK's own attempts: no connection, a time limit, too many requests, a
    failure of its own, a stream that broke off. The same request may succeed later.

    Attributes:
        status: of the HTTP response; None if there was none.
        retry_after_seconds: time that the endpoint asks to wait; None if it does not say.
    """

    def __init__(self, message: str, *, status: int | None = None, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


class ModelRejected(ModelError):
    """The endpoint refuses the request, now and later: the key, the model's name, a parameter.

    Attributes:
        status: of the HTTP response; None if there was none.
    """

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class ContextExceeded(ModelError):
    """The input was longer than the model takes.

    Attributes:
        tokens: length of the input, by the endpoint's count; 0 if it does not say.
    """

    def __init__(self, message: str, tokens: int = 0) -> None:
        super().__init__(message)
        self.tokens = tokens


class ToolError(CallgateError):
    """A tool call failed. Raise it in a tool to tell the program what went wrong: its message reaches the model.

    Args:
        message: what happened and what to do; shown to the model as it stands.
        code: JSON-RPC error code (-32000 for a tool's own failure).
        data: JSON value with details, handed to the program as ``error.data``.
        retryable: whether trying the same call again may help.
        tool: the tool's name; filled in by the gate.
    """

    default_code: ClassVar[int] = -32000

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        data: Any = None,
        retryable: bool = False,
        tool: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.data = data
        self.retryable = retryable
        self.tool = tool


class ToolNotFound(ToolError):
    """No tool has that name."""

    default_code = -32601


class InvalidArguments(ToolError):
    """The arguments do not fit the tool's input schema; the tool was not called."""

    default_code = -32602


class ToolTimedOut(ToolError):
    """The tool did not answer within its timeout."""

    default_code = -32001


class ToolNotAllowed(ToolError):
    """This caller may not call the tool, or there is nobody who could approve the call; the tool was not called."""

    default_code = -32002


class ApprovalDenied(ToolNotAllowed):
    """A person denied the call, or nobody answered before the question expired; the tool was not called."""

    default_code = -32007


class ToolCancelled(ToolError):
    """The call was cancelled before it finished."""

    default_code = -32004


class UnknownOutcome(ToolError):
    """The call was made before, and its result is not known: nobody knows whether the tool has done its work, or the
    result was not kept. The tool was not called again. Find out before you call it again."""

    default_code = -32006
