"""Where the events of a run go: first to the transcript, then to the task's state, then to the listener."""

from __future__ import annotations

import logging
from collections.abc import Callable

from callgate.agent.events import AgentEvent, CallProgress, TextArrived

from .task_state import TaskState
from .transcript import Transcript

__all__ = ["EventLog"]

logger = logging.getLogger("callgate")


class EventLog:
    """The events of one run of a task, in order.

    Args:
        state: of the task.
        transcript: where they are written; None for nowhere.
        listener: called with each event in the event loop, in order. What it raises is logged; while it works, the run
            waits.
    """

    def __init__(
        self, state: TaskState, transcript: Transcript | None, listener: Callable[[AgentEvent], None] | None
    ) -> None:
        self.state = state
        self.transcript = transcript
        self._listener = listener

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens."""
        return self._listener is not None

    def add(self, event: AgentEvent) -> None:
        """Add an event. Raises `ConfigurationError` where the transcript cannot be written."""
        if not isinstance(event, (TextArrived, CallProgress)):
            if self.transcript is not None:
                self.transcript.write(event)
            self.state.apply(event)
        if self._listener is not None:
            try:
                self._listener(event)
            except Exception:
                logger.exception("the agent's on_event callback failed")
