"""What a run tells while it goes on. Frozen values; a listener gets them in the order in which things happened."""

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
    from callgate.runtime.plans.result import StepResult

__all__ = [
    "CallEnded",
    "CallProgressed",
    "CallStarted",
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
"""Characters of a message that are told."""


@dataclass(frozen=True, slots=True)
class Printed:
    """The program printed."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call arrived at the gate. The record is the live one: read it now, or copy it."""

    record: CallRecord


@dataclass(frozen=True, slots=True)
class CallProgressed:
    """A tool tells how far its call has come; see `report_progress`."""

    record: CallRecord
    progress: float
    """So much is done, in the tool's own unit."""
    total: float | None
    """So much there is to do, where that is known."""
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
    """A step of a plan is over: succeeded, failed, or was skipped without having started."""

    step: StepResult


Event = Printed | CallStarted | CallProgressed | CallEnded | StepStarted | StepEnded


def tell(listener: Callable[[Event], None] | None, event: Event) -> None:
    """Hand the event to the listener; what it raises is logged and harms nothing."""
    if listener is None:
        return
    try:
        listener(event)
    except Exception:
        logger.exception("the on_event callback failed")


class Progressing:
    """Listens to the progress of one attempt of a call, and tells it as events, in the event loop.

    Args:
        listener: who is told.
        record: of the call. Nothing is told of it any more when `over` is set.
    """

    __slots__ = ("_listener", "_record", "_thread", "over")

    def __init__(self, listener: Callable[[Event], None], record: CallRecord) -> None:
        self._listener = listener
        self._record = record
        self._thread = threading.get_ident()
        self.over = False

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        """What a tool calls, in whatever thread it runs."""
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
"""Told of progress, of the total where it is known, and in words. Must not raise."""

listening: ContextVar[Progress | None] = ContextVar("callgate_progress", default=None)
"""Who listens to the call that runs here. Set by the gate around an attempt, for runs that have listeners."""


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Tell the listener of the current call how far it is; without a listener, nothing happens.

    Args:
        progress: so much is done, in the tool's own unit; it should grow from report to report.
        total: so much there is to do, in the same unit.
        message: what is being done, in a few words.
    """
    listener = listening.get()
    if listener is not None:
        listener(progress, total, message)
