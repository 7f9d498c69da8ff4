"""The result of a task: one value with two views, a short text for the caller, and everything for people and
programs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from callgate.agent.events import AgentEvent, Faulted, Outcome, PlannedRun, Routed
from callgate.agent.models.model import NO_USAGE, Message, Usage
from callgate.artifacts import Artifact
from callgate.errors import InvalidArguments

from .options import AgentOptions
from .redacted import RedactedEvents
from .task_state import TaskState
from .transcript import Transcript

if TYPE_CHECKING:
    from callgate.runtime.redaction import Redaction

__all__ = ["AgentResult", "result_of"]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentResult:
    """The result of a task, failures included.

    Attributes:
        outcome: how it ended.
        answer: the model's last words; whole where the outcome is ``answered``, else what there was of them.
        output: the answer as `output_type` has it; without one, JSON values or a text. None without an answer.
        answered_by: ``program``, ``plan``, or ``model`` for its own words; None without an answer.
        reason: why it ended so; empty for ``answered``, unless it was the budget's last request.
        usage: tokens of all requests, those of agents inside the task included: see `Agent.as_tool`.
        cost: of them, in US dollars; None where the price is not known.
        seconds: from the beginning to the end, what was before a resumption included.
        turns: replies of the model, and of the models of agents inside the task.
        model_calls: these, and the plans that a tool planner's model made.
        tool_calls: tool calls, those inside plans, programs and agents included.
        routes: the forms that replaced others, in order.
        found: names of the tools that the model has found.
        transcript: its file; None where there is none.
        runs: of plans and programs what people may want to see and the model did not: ``{"kind": "plan", ...}``,
            ``{"kind": "code", ...}``, ``{"kind": "planned", ...}``, in order.
        artifacts: files and pictures that the task's programs and tools produced, oldest first: those that its
            conversation still had at the end.
        messages: the conversation.
        events: everything that a transcript holds, for `Agent.resume` without one.
        redactor: makes the redaction of `trace`, which knows the secrets of the tools, and of agents inside the task.
    """

    outcome: Outcome
    answer: str
    output: Any = None
    answered_by: Literal["program", "plan", "model"] | None = None
    reason: str = ""
    usage: Usage = NO_USAGE
    cost: float | None = None
    seconds: float = 0.0
    turns: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    routes: tuple[Routed, ...] = ()
    found: tuple[str, ...] = ()
    transcript: Path | None = None
    runs: tuple[Mapping[str, Any], ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    messages: tuple[Message, ...] = ()
    events: tuple[AgentEvent, ...] = field(default=(), repr=False)
    redactor: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return self.outcome == "answered"

    @property
    def sources(self) -> tuple[Mapping[str, str], ...]:
        """What the numbers in an answer like ``[1]`` stand for, from 1: ``{"title": ..., "location": ...}``. Only of an
        answer that was made of a plan's results (`Agent(answerer=...)`)."""
        for event in reversed(self.events):
            if isinstance(event, Faulted) and event.fault == "plan_failed":
                return ()
            if isinstance(event, PlannedRun):
                return event.sources
        return ()

    def trace(self, title: str | None = None, redaction: Redaction | None = None) -> str:
        """Write the task as one self-contained HTML page: its answer, and turn by turn what happened.

        Args:
            title: instead of the task.
            redaction: of all texts and values; by default the runtime's.
        """
        from .page import agent_page

        return agent_page(self.events, title, redaction, self.artifacts, self.redactor)

    def save_trace(
        self, path: str | os.PathLike[str], title: str | None = None, redaction: Redaction | None = None
    ) -> Path:
        """Write the page of `trace` into a file, which is replaced, and return its path. Raises `OSError`.

        A large task takes up to a second or two: in a server, call this in a thread.
        """
        from callgate.runtime.trace.page import saved

        return saved(self.trace(title, redaction), path)


def result_of(
    state: TaskState,
    transcript: Transcript | None,
    options: AgentOptions,
    redacted: RedactedEvents,
    artifacts: Iterable[Artifact] = (),
) -> AgentResult:
    """The result of a finished task, whose page redacts what `redacted` knows."""
    end = state.finished
    assert end is not None
    output: Any = end.answer if end.outcome == "answered" else None
    if state.answered is not None:
        with contextlib.suppress(InvalidArguments):  # of a transcript: parts may be redacted, or the type is another
            output = options.answer_type.read(state.answered.json).value
    return AgentResult(
        outcome=end.outcome,
        answer=end.answer,
        output=output,
        answered_by=None if end.outcome != "answered" else "model" if state.answered is None else state.answered.by,
        reason=end.reason,
        usage=state.usage,
        cost=state.cost,
        seconds=end.seconds,
        turns=state.all_turns,
        model_calls=state.all_turns + state.planner_calls,
        tool_calls=state.tool_calls,
        routes=tuple(state.routes),
        found=state.found,
        transcript=None if transcript is None else transcript.path,
        runs=tuple(state.runs),
        artifacts=tuple(artifacts),
        messages=tuple(state.messages),
        events=tuple(state.events),
        redactor=redacted.redactor(options.runtime),
    )
