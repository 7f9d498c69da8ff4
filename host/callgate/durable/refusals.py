"""What every store refuses, and in which words. Stores nothing.

`StoreFailed` is not here: why a store cannot store is its own matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from callgate.errors import AlreadyDecided, ConfigurationError, LimitReached, OwnershipLost, RunNotFound

from .store import (
    ENDED,
    MAX_STORED_BYTES,
    Approval,
    CallKey,
    Change,
    Decision,
    RunStatus,
    StateChange,
    StoredCall,
    StoredRun,
)

__all__ = [
    "already_cancelled", "already_decided", "already_settled", "check_names", "check_sizes", "expired", "lost",
    "no_call", "no_run", "texts_of",
]  # fmt: skip

_MAX_NAME: Final = 512
_MAX_SHOWN: Final = 80


def no_run(run: str) -> RunNotFound:
    """There is no run with this id."""
    return RunNotFound(f"there is no run {run[:_MAX_SHOWN]!r}: it was deleted, or the id is wrong")


def no_call(run: str, call: CallKey, what: str) -> RunNotFound:
    """The run has no such call, or no such question about it."""
    name = f"{call.digest.hex()[:12]}/{call.occurrence}"
    return RunNotFound(f"run {run!r} has no {what} for the call {name}: list them again")


def lost(run: str) -> OwnershipLost:
    """The run is not held any more."""
    why = "another process has taken it, or it was released or has ended"
    return OwnershipLost(f"run {run!r} is not held here any more, so nothing was stored: {why}")


def already_decided(approval: Approval, decision: Decision) -> AlreadyDecided:
    """`decision` is what holds."""
    if decision.time >= approval.expires:  # no person can decide then
        return expired(approval)
    verb = "granted" if decision.granted else "denied"
    what = f"{verb} by {decision.by or 'somebody'} at {_when(decision.time)}"
    if decision.arguments is not None:
        what += ", with other arguments"
    if decision.reason:
        what += f": {decision.reason}"
    return AlreadyDecided(f"the approval of {approval.tool} was decided before: {what}", what)


def expired(approval: Approval) -> AlreadyDecided:
    """Time has decided."""
    what = f"expired at {_when(approval.expires)}"
    return AlreadyDecided(f"the approval of {approval.tool} {what}; nothing was decided", what)


def already_settled(call: StoredCall) -> AlreadyDecided:
    """The call is not unknown."""
    return AlreadyDecided(f"the outcome of {call.tool} is not unknown: the call is {call.status}", call.status)


def already_cancelled(run: str, status: RunStatus) -> AlreadyDecided:
    """The run has ended, or is about to."""
    what = status if status in ENDED else "cancelled"
    return AlreadyDecided(f"run {run!r} {'was' if what == 'cancelled' else 'has'} {what} already", what)


def check_sizes(texts: Iterable[str | None]) -> None:
    """Raise `LimitReached` if one of them is too large to be stored."""
    for text in texts:
        if text is not None and len(text) * 4 > MAX_STORED_BYTES:
            size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
            if size > MAX_STORED_BYTES:
                raise LimitReached("max_stored_bytes", MAX_STORED_BYTES, size)


def check_names(run: StoredRun) -> None:
    """Raise `ConfigurationError` if a name of the run cannot be kept as it is."""
    for what, name in (("key", run.key), ("belongs_to", run.belongs_to)):
        if name is not None and (len(name) > _MAX_NAME or not name.replace(" ", "_").isprintable()):
            raise ConfigurationError(
                f"{what} of a run must be at most {_MAX_NAME} printable characters: {name[:_MAX_SHOWN]!r}"
            )


def texts_of(value: StoredRun | Change | Decision) -> tuple[str | None, ...]:
    """The texts whose sizes are bounded."""
    match value:
        case StoredCall():
            return (value.arguments, value.outcome, value.record)
        case StateChange():
            return (value.reason, value.result)
        case Approval():
            return (value.arguments, *(texts_of(value.decision) if value.decision else ()))
        case Decision():
            return (value.arguments, value.reason)
        case StoredRun():
            return (value.text, value.options, value.environment, value.result, value.reason)
        case _:
            return ()


def _when(seconds: float) -> str:
    """A time for people."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):  # a year that no calendar has
        return f"{seconds:.0f}"
