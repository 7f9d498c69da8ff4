"""Events for the engine, and the actions it answers with: frozen values. `engine` says which follows which."""

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
    """Continue: others have had their turn."""


class Arrived(NamedTuple):
    """A further step of a plan that is still being written; the steps it needs have arrived."""

    step: CompiledStep | None
    """None for a step that cannot run as far as is known; it never ends."""
    held: bool
    """Whether the step must not begin yet."""


class Returned(NamedTuple):
    """A call has succeeded."""

    step: int
    item: int | None
    again: bool
    text: str
    """The result, as compact JSON."""
    value: Any = None
    """The value of that text where it is at hand; nobody changes it. None otherwise."""


class Failed(NamedTuple):
    """A call has failed."""

    step: int
    item: int | None
    again: bool
    message: str
    kind: str
    """The error's class name."""
    unknown: bool = False
    """Whether the call may have done its work all the same."""


class Stop(NamedTuple):
    """End the plan; the driver has cancelled the calls under way."""

    reason: str
    unknown: frozenset[int] = frozenset()
    """Steps that may have done their work all the same."""
    begun: frozenset[int] = frozenset()
    """Steps that had made a call."""


class Call(NamedTuple):
    """Make a call."""

    step: int
    item: int | None
    again: bool
    tool: str
    arguments: Any
    timeout_seconds: float | None
    retry: Retry | None
    fallback: str | None


class StepEnded(NamedTuple):
    """A step has ended; see `Engine.outcomes`."""

    step: int


class Exceeded(NamedTuple):
    """The results take more memory than allowed."""

    used_bytes: int


class Paused(NamedTuple):
    """There is more to begin; send `GoOn` when others have had their turn."""


class Finished(NamedTuple):
    """All steps have ended."""


Event = Begin | GoOn | Arrived | Returned | Failed | Stop
Action = Call | StepEnded | Exceeded | Paused | Finished
