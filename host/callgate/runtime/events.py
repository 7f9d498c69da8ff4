"""What a run tells while it goes on. Frozen values; whoever listens gets them in the order in which things happened."""

from __future__ import annotations

from dataclasses import dataclass

from .calls import CallRecord

__all__ = ["CallEnded", "CallStarted", "Event", "Printed"]


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


Event = Printed | CallStarted | CallEnded
