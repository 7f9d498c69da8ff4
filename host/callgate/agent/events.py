"""The events of an agent at work: frozen values, in the order in which things happen. Each but `TextArrived` and
`CallProgress` is a line of the transcript.

`to_json` gives the line's object: ``{"kind": "call_ended", ...}`` with the fields as JSON values. Events of an agent
that a call started come inside `InnerEvent`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from callgate.agent.models.model import NO_USAGE, Assistant, Ended, ToolReplies, Usage
from callgate.runtime import Event
from callgate.runtime.pictures import PictureReference

__all__ = [
    "MAX_DEPTH", "AgentEvent", "Answered", "CallBegan", "CallEnded", "CallProgress", "CallsQueued", "Faulted",
    "Finished", "InnerEvent", "MessageAdded", "ModelAsked", "ModelReplied", "Outcome", "Planned", "PlannedRun",
    "Resumed", "Routed", "TaskBegan", "TextArrived", "ToolsFound", "inner_json", "innermost", "is_kept", "kind_of",
    "to_json",
]  # fmt: skip

MAX_DEPTH = 8
"""Agents inside each other."""

Mode = Literal["direct", "plan", "code", "auto"]
"""How tools are called: one by one by the model, in a plan, in a program, or whichever fits."""

Outcome = Literal[
    "answered", "refused", "empty", "cut", "stuck", "budget", "unavailable", "rejected", "too_long", "interrupted",
    "unfit",
]  # fmt: skip
"""How a task ended: with an answer; the model refused; said nothing, again and again; was cut, again and again;
repeated itself; the budget was spent; the endpoint gave no reply; refused the request; the input was too long; tools
were found and the agent is to be made anew (`discovery="interrupt"`); the answer did not fit `output_type`, again and
again."""

FaultKind = Literal[
    "arguments", "unknown_tool", "same_call", "loop", "empty", "cut", "refused", "unavailable", "rejected", "too_long",
    "prose", "half_json", "no_schema", "planning_timeout", "plan_failed", "program_failed", "sandbox", "surplus",
    "answer",
]  # fmt: skip
"""A kind of fault; `Faulted.action` is the reaction to it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskBegan:
    """A task begins: everything that is needed to resume it is here, or in what follows. `id` is the task's, which its
    spans and audit lines have, too; empty in transcripts of an earlier callgate."""

    task: str
    mode: Mode
    model: str
    system: str
    tools: tuple[str, ...]
    strategic_plan: Any = None
    id: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed:
    """A transcript goes on here, after so many turns."""

    turns: int
    model: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Routed:
    """A form failed again and again, and another one replaces it from here on.

    Attributes:
        mode: the form that is offered now.
        reason: in words.
    """

    mode: Mode
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelAsked:
    """A request goes out."""

    turn: int
    messages: int
    tools: tuple[str, ...]
    tool_choice: str = "auto"


@dataclass(frozen=True, kw_only=True, slots=True)
class TextArrived:
    """A piece of the model's words, as it comes. With `restarted`, the words of this turn begin anew."""

    turn: int
    text: str
    restarted: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelReplied:
    """A reply is there. `message` is the turn as it goes into the conversation."""

    turn: int
    message: Assistant
    ended: Ended
    usage: Usage
    seconds: float
    cost: float | None = None
    refusal: str = ""
    attempts: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class CallsQueued:
    """The model called more at once than may run at once: these wait, none is dropped."""

    turn: int
    running: int
    queued: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallBegan:
    """A call of the model begins: of a tool, a plan, or a program."""

    turn: int
    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallProgress:
    """Something happens inside a call: a print, a step, a tool call of a program."""

    turn: int
    id: str
    event: Event


@dataclass(frozen=True, kw_only=True, slots=True)
class CallEnded:
    """A call is over.

    Attributes:
        text: what the model receives.
        mistake: nothing was run, the call was wrong as written.
        tool_calls: made by it.
        run: what people may want to see and the model need not: of a plan its steps, of a program its calls and
            prints.
        failure: what failed, for the way back: see `routing.way_back.FailureKind`; empty where nothing did, and where
            the call was not made.
        pictures: that the model receives beside the text, without their bytes.
        answer: JSON text of the task's final answer, if this call ends the task with one.
        again: why the task goes on, in words, though a program or a plan gave an answer.
        reusable: calls of failed programs are kept, and the next programs do not repeat them.
    """

    turn: int
    id: str
    name: str
    ok: bool
    text: str
    seconds: float
    mistake: bool = False
    tool_calls: int = 1
    run: Mapping[str, Any] | None = None
    failure: str = ""
    pictures: tuple[PictureReference, ...] = ()
    answer: str = ""
    again: str = ""
    reusable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageAdded:
    """The results of a turn's calls go into the conversation; or, with `text`, words in the user's place."""

    turn: int
    replies: ToolReplies | None = None
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The task has its final answer.

    Attributes:
        json: the answer as JSON text.
        by: what gave it. The words of the model stand in its reply; those of a program or a plan go into the
            conversation now, as the model's own.
    """

    turn: int
    json: str
    by: Literal["program", "plan", "model"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolsFound:
    """The model's list of tools has changed."""

    turn: int
    tools: tuple[str, ...]
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """The tool planner made a plan. `plan` is it in the plan language. `usage` and `cost` are those of the planning."""

    plan_id: str
    plan: Mapping[str, Any]
    reasoning: str
    confidence: float
    source: str
    stages: tuple[tuple[str, ...], ...]
    estimated_seconds: float
    estimated_cost: float | None
    seconds: float
    notes: tuple[str, ...] = ()
    usage: Usage = NO_USAGE
    cost: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """The tool planner's plan was run.

    Attributes:
        sources: ``{"title": ..., "location": ...}``, numbered from 1, as the answer that is made of the results names
            them.
    """

    plan_id: str
    success: bool
    seconds: float
    failed_steps: tuple[str, ...]
    retries: int
    results: tuple[Mapping[str, Any], ...]
    sources: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Faulted:
    """Something went wrong that has a way to go on, or an end.

    Attributes:
        turn: of the model; 0 before its first.
        fault: what.
        detail: in words, for people.
        action: what is done about it: ``told the model``, ``asked again``, ``ended``, ...
    """

    turn: int
    fault: FaultKind
    detail: str
    action: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished:
    """The task is over."""

    outcome: Outcome
    answer: str
    reason: str
    turns: int
    usage: Usage
    cost: float | None
    seconds: float
    tool_calls: int


@dataclass(frozen=True, kw_only=True, slots=True)
class InnerEvent:
    """An event of an agent at work for a call: see `Agent.as_tool`.

    Attributes:
        turn: of this task; 0 before its first, and where a program began it while it was written.
        call: id of this task's call; empty where `turn` is 0.
        agent: name of the tool that the agent is.
        task: id of the agent's task. One call, a program for instance, may start several.
        event: its event; of an agent inside that agent, an `InnerEvent` again.
    """

    turn: int
    call: str
    agent: str
    task: str
    event: AgentEvent


AgentEvent = (
    TaskBegan | Resumed | Routed | ModelAsked | TextArrived | ModelReplied | CallsQueued | CallBegan | CallProgress
    | CallEnded | MessageAdded | Answered | ToolsFound | Planned | PlannedRun | Faulted | Finished | InnerEvent
)  # fmt: skip


def kind_of(event: type[AgentEvent]) -> str:
    """The name of an event in a transcript: ``call_ended``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", event.__name__).lower()


def innermost(event: AgentEvent) -> AgentEvent:
    """The event of the agent that is at work, however deep it is inside others."""
    while isinstance(event, InnerEvent):
        event = event.event
    return event


def is_kept(event: AgentEvent) -> bool:
    """Whether transcripts have it."""
    return not isinstance(innermost(event), (TextArrived, CallProgress))


def to_json(event: AgentEvent) -> dict[str, Any]:
    """The event as an object of JSON values, its kind first."""
    if isinstance(event, InnerEvent):
        return inner_json(event, to_json(event.event))
    return {"kind": kind_of(type(event)), **asdict(event)}


def inner_json(event: InnerEvent, inside: Mapping[str, Any]) -> dict[str, Any]:
    """The object of an `InnerEvent`, with that of the event inside."""
    named = {"turn": event.turn, "call": event.call, "agent": event.agent, "task": event.task}
    return {"kind": kind_of(InnerEvent), **named, "event": dict(inside)}
