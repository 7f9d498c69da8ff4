"""The log of one run of a task: each event goes to the transcript, redacted, then to the task's state, then to the
listener; from a task inside another one, also into the other's log, which keeps it redacted: the other runtime does not
know the secrets of these tools. Counts what the run has spent. Decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import anyio

from callgate.agent.events import (
    AgentEvent,
    Faulted,
    FaultKind,
    InnerEvent,
    MessageAdded,
    TextArrived,
    innermost,
    is_kept,
)
from callgate.agent.models.fitting import MAX_PICTURES
from callgate.agent.models.model import Delta
from callgate.errors import ToolCancelled
from callgate.runtime.pictures import Picture, PictureReference

from .budget import Budget, Spent
from .options import AgentOptions
from .redacted import RedactedEvents
from .task_state import TaskState
from .transcript import Transcript

__all__ = ["CallHere", "EventLog", "call_here"]

logger = logging.getLogger("callgate")


@dataclass(frozen=True, slots=True)
class CallHere:
    """A call of a task."""

    log: EventLog
    turn: int
    """Of that task; 0 before its first, and while a program is written."""
    id: str
    """Of the call; empty where `turn` is 0."""

    @property
    def is_over(self) -> bool:
        """Whether the call, or its task, has ended."""
        state = self.log.state
        return state.finished is not None or (bool(self.id) and (self.id not in state.begun or self.id in state.ended))


call_here: ContextVar[CallHere | None] = ContextVar("callgate_call_here", default=None)
"""The call of an agent's task in which this runs."""


class EventLog:
    """The events of one run of a task, in order.

    Args:
        options: of the agent. The run calls `on_event` with each event, in the event loop, waits for it, and logs its
            exceptions.
        state: of the task.
        transcript: where events are written; None for nowhere.
        seconds_before: that the task took before this run.
        agent: whose options these are, if some were replaced for this run.
        name: of the tool that the agent is, for a task inside another one.
        outer: the call of the other task.
        budget: instead of the agent's: its part of the other task's.
    """

    def __init__(
        self,
        options: AgentOptions,
        state: TaskState,
        transcript: Transcript | None,
        seconds_before: float = 0.0,
        *,
        agent: AgentOptions | None = None,
        name: str = "callgate",
        outer: CallHere | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.options = options
        self.state = state
        self.transcript = transcript
        self.agent = agent or options
        self.name = name
        self.outer = outer
        self.budget = budget or options.budget
        self.inside: list[EventLog] = []
        """Of the tasks that run inside this one."""
        self.pictures: dict[str, Picture] = {}
        """The newest pictures of the run, by their `sha256`; no request has more."""
        self.redacted = RedactedEvents(options.runtime)
        """Knows the secrets of the tasks inside this one; if its events are shown to anybody, also its own."""
        self._began = anyio.current_time() - seconds_before

    @property
    def is_heard(self) -> bool:
        """Whether anybody listens to the model's words as they come."""
        options = self.options
        heard = options.on_event is not None or (self.outer is not None and self.outer.log.is_heard)
        return heard and options.stream

    @contextmanager
    def running(self) -> Iterator[None]:
        """A block in which the task runs; what it has not spent is reserved in the budget of the task around it."""
        if self.outer is None:
            yield
            return
        beside = self.outer.log.inside
        beside.append(self)
        try:
            yield
        finally:
            beside.remove(self)

    def add(self, event: AgentEvent, redacted: AgentEvent | None = None) -> None:
        """Add an event.

        Args:
            event: as it is.
            redacted: the event of a task inside this one, with its own secrets redacted.

        Raises:
            ConfigurationError: the transcript cannot be written.
            ToolCancelled: this is a task inside another one, whose call is over.
        """
        outer, shown = self.outer, None
        if outer is not None and outer.is_over:
            raise ToolCancelled("the call that this agent works for is over")
        if is_kept(event):
            kept = event if redacted is None else redacted
            if self.transcript is not None or outer is not None:
                shown = self.redacted.of(kept)
                if self.transcript is not None:
                    self.transcript.write(shown)
            self.state.apply(kept)
        options = self.options
        if options.on_event is not None and (options.stream or not isinstance(innermost(event), TextArrived)):
            try:
                options.on_event(event)
            except Exception:
                logger.exception("the agent's on_event callback failed")
        if outer is not None:
            if shown is not None:
                outer.log.redacted.learn_from(self.redacted)
            outer.log.add(self._inner(outer, event), None if shown is None else self._inner(outer, shown))

    def _inner(self, outer: CallHere, event: AgentEvent) -> InnerEvent:
        return InnerEvent(turn=outer.turn, call=outer.id, agent=self.name, task=self.state.task.id, event=event)

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
        if not self.is_heard:
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
        return self.budget.seconds_left(self.spent)

    @property
    def over(self) -> str:
        """The part of the budget that is spent, in words; empty while there is some left."""
        return self.budget.over(self.spent)
