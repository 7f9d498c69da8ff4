"""Calls of a durable run that wait: for their turn, for a person, or for attention. Says why a run sleeps, and stores
nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

from callgate.cut import cut_middle
from callgate.durable.store import CallKey, RunHistory

from .recorded import arguments_text

__all__ = ["Parked", "Parking", "Pause", "Redact"]

_SHOWN = 200
"""Characters of arguments in a reason for people."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Why a run stops in this process, before its end."""

    status: Literal["running", "waiting", "needs_attention"]
    reason: str | None = None
    wake_at: float | None = None
    asked: frozenset[CallKey] = frozenset()
    """Calls that wait for an approval."""
    in_doubt: frozenset[CallKey] = frozenset()
    """Calls whose outcome is unknown."""

    def is_over(self, kept: RunHistory) -> bool:
        """Whether somebody has decided about one of the calls. What a run hears while its sleep is being stored counts
        as told, so nobody else would wake it."""
        return any(each.call in self.asked and each.decision is not None for each in kept.approvals) or any(
            call.key in self.in_doubt and call.status != "unknown" for call in kept.calls
        )


@dataclass(slots=True)
class Parked:
    """A call that waits. `arguments`: JSON values, or JSON text."""

    tool: str
    arguments: Any
    why: Literal["turn", "approval", "attention"]
    expires: float | None = None
    """When the question to a person expires."""
    woken: anyio.Event = field(default_factory=anyio.Event)


Redact = Callable[[str, Any], Any]
"""The arguments of a call of this tool as people may see them."""


class Parking:
    """The calls of one run that wait.

    Args:
        redact: makes what reasons say of arguments.

    Attributes:
        calls: by their names.
        has_any: set when the first call has come.
    """

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self.calls: dict[CallKey, Parked] = {}
        self.has_any = anyio.Event()

    async def park(self, key: CallKey, call: Parked) -> None:
        """Wait until somebody wakes the call."""
        self.calls[key] = call
        self.has_any.set()
        try:
            await call.woken.wait()
        finally:
            if self.calls.get(key) is call:
                del self.calls[key]

    def wake(self, *keys: CallKey) -> None:
        """Wake these calls, those that wait."""
        for key in keys:
            if (call := self.calls.pop(key, None)) is not None:
                call.woken.set()

    def pause(self, wake_at: float | None) -> Pause:
        """Why a run sleeps in which nothing goes on but these calls.

        Args:
            wake_at: when the program goes on by itself.
        """
        unknown = {key: call for key, call in self.calls.items() if call.why == "attention"}
        asked = {key: call for key, call in self.calls.items() if call.why == "approval"}
        if len(unknown) + len(asked) < len(self.calls):  # others have their turn: the runtime is being left
            return Pause("running")
        keys = frozenset(asked), frozenset(unknown)
        if unknown:
            reason = (
                f"the process ended while {self.shown([*unknown.values()])} was at work, and nobody knows whether it "
                "was done: find out, then settle the call"
            )
            return Pause("needs_attention", reason, None, *keys)
        reason = f"waits for the approval of {self.shown([*asked.values()])}" if asked else "waits for a time"
        times = [time for time in (wake_at, *(call.expires for call in asked.values())) if time is not None]
        return Pause("waiting", reason, min(times), *keys)

    def shown(self, calls: Sequence[Parked]) -> str:
        """The first of the calls in words, and the number of the others."""
        first = calls[0]
        given = json.loads(first.arguments) if isinstance(first.arguments, str) else first.arguments
        text = arguments_text(self._redact(first.tool, given))
        more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
        return f"{first.tool}({cut_middle(text, _SHOWN)}){more}"
