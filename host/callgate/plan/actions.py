"""What the engine is told and what it answers: frozen values. See `engine` for what follows what."""

from __future__ import annotations

from typing import Any, NamedTuple

from callgate.tools import Retry

from .steps import CompiledStep

__all__ = [
    "Action", "Arrived", "Begin", "Call", "Event", "Exceeded", "Failed", "Finished", "GoOn", "Paused", "Returned",
    "StepEnded", "Stop",
]  # fmt: skip


class Begin(NamedTuple):
    """Start the plan."""


class GoOn(NamedTuple):
    """Others have had their turn."""


class Arrived(NamedTuple):
    """One more step, whose needs have arrived before it."""

    step: CompiledStep | None
    """None for one that cannot be run as far as can be told; it never ends."""
    held: bool
    """It must not be begun."""


class Returned(NamedTuple):
    """A call gave a result."""

    step: int
    item: int | None
    again: bool
    text: str
    """Compact JSON."""


class Failed(NamedTuple):
    """A call failed."""

    step: int
    item: int | None
    again: bool
    message: str
    kind: str
    """The error's class name."""
    unknown: bool = False
    """Whether it may have done its work all the same."""


class Stop(NamedTuple):
    """Begin nothing more; calls under way have been given up."""

    reason: str
    unknown: frozenset[int] = frozenset()
    """Steps that may have done their work all the same."""
    begun: frozenset[int] = frozenset()
    """Steps that had made a call."""


class Call(NamedTuple):
    """Make this call."""

    step: int
    item: int | None
    again: bool
    tool: str
    arguments: Any
    timeout_seconds: float | None
    retry: Retry | None
    fallback: str | None


class StepEnded(NamedTuple):
    """A step is over; see `Engine.outcomes`."""

    step: int


class Exceeded(NamedTuple):
    """The results take more memory than the run may."""

    used_bytes: int


class Paused(NamedTuple):
    """There is more to begin; send `GoOn` when others have had their turn."""


class Finished(NamedTuple):
    """All steps are over."""


Event = Begin | GoOn | Arrived | Returned | Failed | Stop
Action = Call | StepEnded | Exceeded | Paused | Finished
