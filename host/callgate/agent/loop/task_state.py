"""The state of a task: a fold over its events. A task that goes on and one that is read from a transcript are the same
state, made by the same lines. Pure: no clock, no I/O.

An event that cannot follow those before it raises `ValueError`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from callgate.agent.events import (
    AgentEvent,
    Answered,
    CallBegan,
    CallEnded,
    Faulted,
    Finished,
    InnerEvent,
    MessageAdded,
    Mode,
    ModelReplied,
    Planned,
    PlannedRun,
    Resumed,
    Routed,
    TaskBegan,
    ToolsFound,
    innermost,
    to_json,
)
from callgate.agent.models.messages_json import pictures_in
from callgate.agent.models.model import NO_USAGE, Assistant, Ended, Message, ToolCall, ToolReplies, Usage, User
from callgate.agent.routing.way_back import FailureKind, Form, form_of

from .budget import Spent
from .final_answers import text_of
from .repetition import GO_ON, Repetition, Verdict
from .shortening import SHORTENED, shortened

__all__ = ["TaskState"]

_MOST_SPENT = 10**15
"""Tokens, or dollars, of one event: a larger number is not a count."""


@dataclass(slots=True)
class TaskState:
    """The state of a task.

    Attributes:
        message_of: makes the message of a turn's results; the planner's.
        events: all so far.
        messages: the conversation.
        mode: what is offered now.
        conversation: the state of the runtime's conversation; None before anything was found.
        open_calls: of the last turn, until their results are in the conversation.
        begun: ids of those that have begun.
        ended: those that have ended, by id.
        last_ended: how the last reply ended; None before the first, and after a resumption.
        in_row: replies that ended so, one after the other.
        inner_turns: of agents inside this task. What they have spent is in `usage`, `cost` and `tool_calls`, too.
        planner_calls: plans that a model made, beside the turns.
        next_tokens: that the next request has at least: those of the last one, and of the messages since, with four
            characters for a token.
        planned: whether the tool planner was asked.
        warnings: warnings of the guard against repetition, by id of the call.
        turn_verdict: the guard's verdict on the last turn.
        failures: of each form, by kind, the turns with failures since a call of that form last worked.
        has_answered: the last reply was an answer, and nothing came after it.
        stopped: the end before the last resumption; None where the task had not ended.
        given: the call whose final answer ends the task, until that is said.
        answered: the final answer, as long as nothing came after it.
        reusable: calls of a failed program are kept for the next programs, and the model knows it.
        lost: they were, before an interruption, and the model has not replied since.
    """

    message_of: Callable[[ToolReplies], Message]
    events: list[AgentEvent] = field(default_factory=list)
    began: TaskBegan | None = None
    messages: list[Message] = field(default_factory=list)
    turns: int = 0
    inner_turns: int = 0
    usage: Usage = NO_USAGE
    planner_calls: int = 0
    cost: float | None = 0.0
    tool_calls: int = 0
    mode: Mode = "auto"
    routes: list[Routed] = field(default_factory=list)
    found: tuple[str, ...] = ()
    conversation: Mapping[str, Any] | None = None
    runs: list[Mapping[str, Any]] = field(default_factory=list)
    open_calls: tuple[ToolCall, ...] = ()
    begun: set[str] = field(default_factory=set)
    ended: dict[str, CallEnded] = field(default_factory=dict)
    warnings: dict[str, Verdict] = field(default_factory=dict)
    last_ended: Ended | None = None
    in_row: int = 0
    next_tokens: int = 0
    planned: bool = False
    failures: dict[Form, dict[FailureKind, set[int]]] = field(default_factory=dict)
    has_answered: bool = False
    finished: Finished | None = None
    resumed: bool = False
    stopped: Finished | None = None
    given: CallEnded | None = None
    answered: Answered | None = None
    reusable: bool = False
    lost: bool = False
    repetition: Repetition = field(default_factory=Repetition)
    turn_verdict: Verdict = GO_ON

    @property
    def task(self) -> TaskBegan:
        """The task, which has begun."""
        assert self.began is not None
        return self.began

    def spent(self, seconds: float) -> Spent:
        """The resources spent so far, with these seconds."""
        tokens = self.usage.input_tokens + self.usage.output_tokens
        return Spent(turns=self.all_turns, tokens=tokens, cost=self.cost, seconds=seconds)

    @property
    def all_turns(self) -> int:
        """Turns of the task and of the agents inside it."""
        return self.turns + self.inner_turns

    @property
    def unanswered(self) -> tuple[ToolCall, ...]:
        """Calls of the last turn that have not ended."""
        return tuple(call for call in self.open_calls if call.id not in self.ended)

    def apply(self, event: AgentEvent) -> None:
        """Apply an event. Raises `ValueError` where the event cannot come now; then nothing has changed."""
        if (self.began is None) != isinstance(event, TaskBegan):
            raise ValueError("a task begins with task_began, and only once")
        if self.finished is not None and not isinstance(event, Resumed):
            raise ValueError("the task was finished before that")
        match event:
            case TaskBegan():
                self.began = event
                self.mode = event.mode
                self.messages = [User(text=event.task)]
            case Resumed():
                self.resumed = True
                self.stopped, self.finished = self.finished, None
                self.last_ended = None
                self.lost, self.reusable = self.lost or self.reusable, False
            case Routed():
                self.routes.append(event)
                self.mode = event.mode
            case ModelReplied():
                self._replied(event)
            case CallBegan():
                self.repetition.began(self._known(event.id))
                self.begun.add(event.id)
            case CallEnded():
                self._ended(event)
            case MessageAdded():
                self._message_added(event)
            case Answered():
                self._answered(event)
            case ToolsFound():
                self.found = event.tools
                self.conversation = event.state
            case Planned() | PlannedRun():
                self.planned = True
                self.runs.append(_run(event))
                if isinstance(event, PlannedRun):
                    self.tool_calls += len(event.results)
                else:
                    self._spend(event.usage, event.cost)
                    self.planner_calls += event.source == "model"
            case Faulted():
                if event.fault == "too_long" and event.action == SHORTENED:
                    self.messages = shortened(self.messages)
                    self.next_tokens = 0
            case InnerEvent():
                self._inside(event)
            case Finished():
                self.finished = event
            case _:
                pass
        self.events.append(event)

    def _replied(self, event: ModelReplied) -> None:
        if self.open_calls:
            raise ValueError("a reply comes before the results of the calls of the last turn")
        if event.turn != self.turns + 1:
            raise ValueError(f"the reply of turn {event.turn} comes after that of turn {self.turns}")
        message = event.message
        ids = [call.id for call in message.calls]
        if len(set(ids)) != len(ids):
            raise ValueError("two calls of a turn have one id")
        self._spend(event.usage, event.cost)
        self.turns = event.turn
        if event.ended != "empty":  # that may have been another conversation: the one of an answer to a plan
            self.next_tokens = event.usage.input_tokens
        self.in_row = self.in_row + 1 if event.ended == self.last_ended else 1
        self.last_ended = event.ended
        if message.text.strip() or message.calls:
            self.messages.append(message)
        self.open_calls = message.calls
        self.given = self.answered = None
        self.lost = False
        self.begun, self.ended, self.warnings = set(), {}, {}
        self.has_answered = event.ended == "answered" and not message.calls and bool(message.text.strip())

    def _spend(self, usage: Usage, cost: float | None) -> None:
        counts = (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, cost or 0.0)
        if not all(0 <= each <= _MOST_SPENT for each in counts):
            raise ValueError("its usage or cost is negative or too large")
        self.usage += usage
        if usage != NO_USAGE:
            self.cost = None if self.cost is None or cost is None else self.cost + cost

    def _inside(self, event: InnerEvent) -> None:
        """Count what an agent inside this task has spent."""
        if event.call or event.turn:  # else a plan before the first turn, or a program while it was written
            self._known(event.call)
            if event.call not in self.begun:
                raise ValueError(f"the call {event.call[:60]!r} has not begun")
        match innermost(event):
            case ModelReplied() as replied:
                self._spend(replied.usage, replied.cost)
                self.inner_turns += 1
            case Planned() as planned:
                self._spend(planned.usage, planned.cost)
                self.planner_calls += planned.source == "model"
            case PlannedRun() as ran:
                self.tool_calls += len(ran.results)
            case CallEnded() as ended:
                self.tool_calls += ended.tool_calls
            case _:
                pass

    def _known(self, id: str) -> ToolCall:
        for call in self.open_calls:
            if call.id == id:
                if id in self.ended:
                    raise ValueError(f"the call {id[:60]!r} has ended before")
                return call
        raise ValueError(f"the last turn has no call {id[:60]!r}")

    def _ended(self, event: CallEnded) -> None:
        call = self._known(event.id)
        if event.answer:
            text_of(event.answer)  # raises `ValueError` where it is not JSON
        self.ended[event.id] = event
        if event.run is not None and event.run.get("kind") == "code":
            self.reusable = event.reusable
        self.tool_calls += event.tool_calls
        form = form_of(event.name)
        if event.failure:
            self.failures.setdefault(form, {}).setdefault(cast(FailureKind, event.failure), set()).add(event.turn)
        elif event.ok:
            self.failures.pop(form, None)
        if event.run is not None:
            self.runs.append(event.run)
        if event.id not in self.begun:
            self.repetition.not_made(call)
        elif (verdict := self.repetition.ended(call, event.ok, event.text, event.seconds)) is not GO_ON:
            self.warnings[event.id] = verdict

    def _answered(self, event: Answered) -> None:
        if not (self.has_answered if event.by == "model" else self.given):
            raise ValueError(f"a {event.by} has given no answer before it")
        if event.by != "model":
            self.messages.append(Assistant(text=text_of(event.json)))
        self.given, self.answered, self.has_answered = None, event, True

    def _message_added(self, event: MessageAdded) -> None:
        if event.replies is None:
            if self.open_calls:
                raise ValueError("words come before the results of the calls of the last turn")
            self.has_answered, self.answered = False, None
            if event.text:
                self.messages.append(User(text=event.text))
                self.next_tokens += len(event.text) // 4
            return
        if [reply.id for reply in event.replies.replies] != [call.id for call in self.open_calls]:
            raise ValueError("the results are not those of the calls of the last turn")
        if self.unanswered:
            raise ValueError(f"the call {self.unanswered[0].id[:60]!r} has not ended")
        self.messages.append(self.message_of(event.replies))
        self.next_tokens += sum(len(reply.text) for reply in event.replies.replies) // 4
        self.next_tokens += sum(picture.tokens for picture in pictures_in(event.replies))
        given = [call for call in self.ended.values() if call.answer]
        self.given = given[0] if given and len(self.open_calls) == 1 else None
        self.has_answered, self.answered = False, None
        self.open_calls = ()
        self.turn_verdict = self.repetition.end_turn()


def _run(event: Planned | PlannedRun) -> dict[str, Any]:
    # results are not copied: they may be large, and deep
    if isinstance(event, PlannedRun):
        return {**to_json(replace(event, results=())), "kind": "planned", "results": event.results}
    return {**to_json(event), "kind": "planned"}
