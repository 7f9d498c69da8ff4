"""The log of one run of a task: each event goes to the transcript, redacted, then to the task's state, then to the
listener. Counts what the run has spent. Decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import anyio

from callgate.agent.events import AgentEvent, CallProgress, Faulted, FaultKind, MessageAdded, TextArrived
from callgate.agent.models.fitting import MAX_PICTURES
from callgate.agent.models.model import Delta
from callgate.runtime.pictures import Picture, PictureReference

from .budget import Spent
from .options import AgentOptions
from .redacted import RedactedEvents
from .task_state import TaskState
from .transcript import Transcript

__all__ = ["EventLog"]

logger = logging.getLogger("callgate")


class EventLog:
    """The events of one run of a task, in order.

    Args:
        options: of the agent. The run calls `on_event` with each event, in the event loop, waits for it, and logs its
            exceptions.
        state: of the task.
        transcript: where events are written; None for nowhere.
        seconds_before: that the task took before this run.
    """

    def __init__(
        self, options: AgentOptions, state: TaskState, transcript: Transcript | None, seconds_before: float = 0.0
    ) -> None:
        self.options = options
        self.state = state
        self.transcript = transcript
        self.pictures: dict[str, Picture] = {}
        """The newest pictures of the run, by their `sha256`; no request has more."""
        self._redacted = None if transcript is None else RedactedEvents(options.runtime)
        self._began = anyio.current_time() - seconds_before

    def add(self, event: AgentEvent) -> None:
        """Add an event. Raises `ConfigurationError` where the transcript cannot be written."""
        if not isinstance(event, (TextArrived, CallProgress)):
            if self.transcript is not None and self._redacted is not None:
                self.transcript.write(self._redacted.of(event))
            self.state.apply(event)
        if self.options.on_event is not None:
            try:
                self.options.on_event(event)
            except Exception:
                logger.exception("the agent's on_event callback failed")

    def keep(self, pictures: Iterable[Picture]) -> tuple[PictureReference, ...]:
        """Keep pictures for the requests of this run, and return what events say of them."""
        given = tuple(pictures)
        for each in given:
            self.pictures.pop(each.reference.sha256, None)  # the newest are the last
            self.pictures[each.reference.sha256] = each
        while len(self.pictures) > MAX_PICTURES:
            del self.pictures[next(iter(self.pictures))]
        return tuple(each.reference for each in given)

    def fault(self, turn: int, fault: FaultKind, detail: str, action: str) -> None:
        """Add a fault, and the reaction to it."""
        self.add(Faulted(turn=turn, fault=fault, detail=detail[:2_000], action=action))

    def say(self, turn: int, text: str) -> None:
        """Add words in the user's place."""
        self.add(MessageAdded(turn=turn, text=text))

    def listener(self, turn: int) -> Callable[[Delta], None] | None:
        """A callback that adds the model's words as they come; None without a listener."""
        if self.options.on_event is None or not self.options.stream:
            return None

        def report(delta: Delta) -> None:
            if delta.restarted or delta.text:
                self.add(TextArrived(turn=turn, text=delta.text, restarted=delta.restarted))

        return report

    @property
    def seconds(self) -> float:
        """Seconds that the task has taken, earlier runs included."""
        return anyio.current_time() - self._began

    @property
    def spent(self) -> Spent:
        """What the task has spent."""
        return self.state.spent(self.seconds)

    @property
    def seconds_left(self) -> float:
        """Seconds that the budget leaves."""
        return self.options.budget.seconds_left(self.spent)

    @property
    def over(self) -> str:
        """The part of the budget that is spent, in words; empty while there is some left."""
        return self.options.budget.over(self.spent)
