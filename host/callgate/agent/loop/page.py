"""The page of an agent's task: its answer, what it has spent, its turns, and what the model was given. Reads events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from callgate.agent.events import (
    AgentEvent,
    Answered,
    CallBegan,
    CallEnded,
    Finished,
    MessageAdded,
    TaskBegan,
    innermost,
)
from callgate.artifacts import Artifact
from callgate.runtime.redaction import Redaction
from callgate.runtime.trace.document import document
from callgate.runtime.trace.markup import Sheet, card, duration, fact_list, section
from callgate.runtime.trace.program import artifacts_section

from .page_turns import MOST_WORDS, Turn, dollars, listed, names, status_of, turns_of
from .redacted import RedactedEvents

__all__ = ["agent_page"]


def agent_page(
    events: Iterable[AgentEvent],
    title: str | None = None,
    redaction: Redaction | None = None,
    artifacts: Sequence[Artifact] = (),
    redactor: Callable[..., Any] | None = None,
) -> str:
    """An agent's task as a self-contained HTML document.

    Args:
        events: of a transcript or of a result, in order.
        title: of the document; the task by default.
        redaction: of all texts and values; by default the values of keys that name secrets are redacted.
        artifacts: that the task produced.
        redactor: of a result, which knows the secrets of its tools.

    Returns:
        10 MB at most. All of it can be written as UTF-8.
    """
    sheet = Sheet(redaction, redactor)
    events = list(events)
    redacted = RedactedEvents(sheet.redaction)
    for event in events:  # what a call says is a secret may stand in the task and in earlier turns
        if isinstance(innermost(event), CallBegan | CallEnded):
            _shown(redacted, event)
    began, end, turns = turns_of(_shown(redacted, event) for event in events)
    status, tone = status_of(end)
    return document(
        title=sheet.line(title or (began.task if began else "") or "An agent's task", 300),
        kind="agent",
        status=status,
        tone=tone,
        cards="".join(_cards(sheet, began, end, turns)),
        body="".join(_sections(sheet, began, end, turns, artifacts)),
    )


def _shown(redacted: RedactedEvents, event: AgentEvent) -> AgentEvent:
    """A redacted copy of an event; a run in it is redacted where it is written."""
    if isinstance(event, CallEnded) and event.run is not None:
        shown = redacted.of(replace(event, run=None))
        assert isinstance(shown, CallEnded)
        return replace(shown, run=event.run)
    return redacted.of(event)


def _cards(sheet: Sheet, began: TaskBegan | None, end: Finished | None, turns: Sequence[Turn]) -> Iterator[str]:
    replies = [turn.reply for turn in turns if turn.reply is not None]
    if began is not None:
        yield card("model", sheet.line(began.model, 60))
        yield card("mode", sheet.line(began.mode, 20))
    yield card("turns", f"{len(replies):,}")
    yield card("model time", duration(sum(reply.seconds for reply in replies)))
    if end is None:
        return
    if end.outcome == "answered":
        yield card("answered by", sheet.line(_answered_by(turns), 20))
    yield card("tool calls", f"{end.tool_calls:,}")
    about = "about " if end.usage.estimated else ""
    yield card("tokens in", f"{about}{end.usage.input_tokens:,}")
    yield card("tokens out", f"{about}{end.usage.output_tokens:,}")
    if end.cost is not None:
        yield card("cost", dollars(end.cost))
    yield card("time", duration(end.seconds))


def _answered_by(turns: Sequence[Turn]) -> str:
    """Who gave the answer of a task that was answered: a program, a plan, or the model in its own words."""
    for event in (event for turn in reversed(turns) for event in reversed(turn.others)):
        if isinstance(event, Answered):
            return event.by
        if isinstance(event, MessageAdded):  # the task went on after any answer before that
            break
    return "model"


def _sections(
    sheet: Sheet, began: TaskBegan | None, end: Finished | None, turns: Sequence[Turn], artifacts: Sequence[Artifact]
) -> Iterator[str]:
    """The answer, what was made, the turns, and at the end what the model was given."""
    if end is not None:
        answer = f'<div class="words">{sheet.text(end.answer, MOST_WORDS)}</div>' if end.answer else ""
        reason = f'<p class="dim">{sheet.text(end.reason)}</p>' if end.reason else ""
        title = "Answer" if end.outcome == "answered" else "Why it ended"
        yield section(title, reason + answer)
    yield artifacts_section(sheet, artifacts)
    answer = "" if end is None else end.answer
    yield section("What happened", listed(sheet, turns, answer))
    if began is not None:
        system = f"<pre>{sheet.text(began.system, MOST_WORDS)}</pre>" if began.system else ""
        facts = [
            ("task", f"<pre>{sheet.text(began.task, MOST_WORDS)}</pre>"),
            ("system prompt", system),
            ("tools", names(sheet, began.tools)),
            ("larger plan", "" if began.strategic_plan is None else f"<pre>{sheet.value(began.strategic_plan)}</pre>"),
        ]
        yield section("Task", fact_list(facts))
