"""Events of a run. Frozen values; a listener gets them in the order in which things happened."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import anyio.from_thread

from .records import CallRecord

if TYPE_CHECKING:
    from callgate.artifacts import Artifact
    from callgate.runtime.plans.result import StepResult

__all__ = [
    "CallEnded",
    "CallProgressed",
    "CallStarted",
    "Displayed",
    "Event",
    "Printed",
    "Progressing",
    "StepEnded",
    "StepStarted",
    "listening",
    "report_progress",
    "tell",
]

logger = logging.getLogger("callgate")

_MOST_WORDS: Final = 1000
"""Characters of a progress message that are sent."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The program printed."""

    text: str


@dataclass(frozen=True, slots=True)
class Displayed:
    """The program displayed a picture, a table or another rich value, which was kept as an artifact."""

    artifact: Artifact


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call arrived at the gate. The record changes while the call runs: read it now, or copy it."""

    record: CallRecord


@dataclass(frozen=True, slots=True)
class CallProgressed:
    """A tool reports progress; see `report_progress`."""

    record: CallRecord
    progress: float
    """The amount that is done, in the tool's own unit."""
    total: float | None
    """The amount of all work, if known."""
    message: str | None


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
    """A step of a plan has succeeded, failed, or was skipped without a start."""

    step: StepResult


Event = Printed | Displayed | CallStarted | CallProgressed | CallEnded | StepStarted | StepEnded


def tell(listener: Callable[[Event], None] | None, event: Event) -> None:
    """Send an event to the listener; its exceptions are logged and do no harm."""
    if listener is None:
        return
    try:
        listener(event)
    except Exception:
        logger.exception("the on_event callback failed")


class Progressing:
    """Turns the progress of one attempt of a call into events, in the event loop.

    Args:
        listener: receives the events.
        record: of the call. No event is sent after `over` is set.
    """

    __slots__ = ("_listener", "_record", "_thread", "over")

    def __init__(self, listener: Callable[[Event], None], record: CallRecord) -> None:
        self._listener = listener
        self._record = record
        self._thread = threading.get_ident()
        self.over = False

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress, in any thread."""
        if self.over:
            return
        words = None if message is None else str(message)[:_MOST_WORDS]
        event = CallProgressed(self._record, progress, total, words)
        if threading.get_ident() == self._thread:
            tell(self._listener, event)
            return
        try:
            anyio.from_thread.run_sync(self._tell, event)
        except RuntimeError:  # a thread of the tool's own, or the event loop is gone
            return

    def _tell(self, event: Event) -> None:
        if not self.over:
            tell(self._listener, event)


Progress = Callable[[float, float | None, str | None], None]
"""Receives progress, the total if known, and a message. Must not raise."""

listening: ContextVar[Progress | None] = ContextVar("callgate_progress", default=None)
"""Receives the progress of the current call. The gate sets it around an attempt if the run has a listener."""


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Report the progress of the current call to the run's listener, if there is one.

    Args:
        progress: the amount that is done, in the tool's own unit; it should grow from report to report.
        total: the amount of all work, in the same unit.
        message: the current work, in a few words.
    """
    listener = listening.get()
    if listener is not None:
        listener(progress, total, message)
