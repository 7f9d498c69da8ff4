"""What a run tells while it goes on. Frozen values; whoever listens gets them in the order in which things happened."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from .calls import CallRecord
from .plans.result import StepResult

__all__ = ["CallEnded", "CallStarted", "Event", "Printed", "StepEnded", "StepStarted", "tell"]

logger = logging.getLogger("callgate")


@dataclass(frozen=True, slots=True)
class Printed:
    """The program printed."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call arrived at the gate. The record is the live one: read it now, or copy it."""

    record: CallRecord


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call left the gate; its record is final. Every `CallStarted` is followed by one."""

    record: CallRecord


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A step of a plan makes its first call."""

    id: str
    tool: str


@dataclass(frozen=True, slots=True)
class StepEnded:
    """A step of a plan is over: succeeded, failed, or was skipped without having started."""

    step: StepResult


Event = Printed | CallStarted | CallEnded | StepStarted | StepEnded


def tell(listener: Callable[[Event], None] | None, event: Event) -> None:
    """Hand the event to the listener; what it raises is logged and harms nothing."""
    if listener is None:
        return
    try:
        listener(event)
    except Exception:
        logger.exception("the on_event callback failed")
