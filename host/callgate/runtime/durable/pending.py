"""Calls that wait for people, and their names, as people see them. Decides nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callgate.durable.store import ENDED, Approval, CallKey, RunHistory

__all__ = ["PendingCall", "call_name", "open_questions", "pending_calls", "unsettled_calls"]

_DIGITS: Final = 32
"""Of a call's digest. A program must not find two calls of one name, so that somebody approves the wrong one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingCall:
    """A call that waits for a person: for an approval, or for the word whether it was done."""

    run: str
    call: str
    """Names the call within its run: for `Runs.approve`, `Runs.deny` and `Runs.settle`."""
    tool: str
    arguments: dict[str, Any]
    asked: float | None = None
    """Seconds since 1970; None for a call whose outcome is unknown."""
    expires: float | None = None
    """After this time, the answer is no."""


def pending_calls(asked: Sequence[Approval]) -> list[PendingCall]:
    """Approvals as people see them."""
    return [
        PendingCall(
            run=each.run, call=call_name(each.call), tool=each.tool, arguments=json.loads(each.arguments),
            asked=each.asked, expires=each.expires,
        )
        for each in asked
    ]  # fmt: skip


def unsettled_calls(history: RunHistory) -> list[PendingCall]:
    """The calls of a run that were at work when its process ended."""
    return [
        PendingCall(run=history.run.id, call=call_name(call.key), tool=call.tool, arguments=json.loads(call.arguments))
        for call in history.calls
        if call.status == "unknown"
    ]


def open_questions(history: RunHistory, now: float) -> list[Approval]:
    """The approvals of a run that nobody has decided and that have not expired."""
    if history.run.status in ENDED:
        return []
    return [each for each in history.approvals if each.decision is None and each.expires > now]


def call_name(call: CallKey) -> str:
    """The name of a call within its run, for people."""
    return f"{call.digest.hex()[:_DIGITS]}-{call.occurrence}"
