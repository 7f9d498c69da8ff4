"""How far a call has come, told by its tool while it runs. Knows who listens to the current call, nothing of calls."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

__all__ = ["Progress", "listening", "report_progress"]

Progress = Callable[[float, float | None, str | None], None]
"""Told of progress, of the total where it is known, and in words. Must not raise."""

listening: ContextVar[Progress | None] = ContextVar("callgate_progress", default=None)
"""Who listens to the call that runs here. Set by the gate around an attempt, for runs that have listeners."""


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Tell whoever listens to the current call how far it is; nothing happens where nobody does.

    Args:
        progress: so much is done, in the tool's own unit; it should grow from report to report.
        total: so much there is to do, in the same unit.
        message: what is being done, in a few words.
    """
    listener = listening.get()
    if listener is not None:
        listener(progress, total, message)
