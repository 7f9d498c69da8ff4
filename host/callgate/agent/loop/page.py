"""The page of an agent's task: its answer, and turn by turn the model's words, its calls with the programs and plans in
them, tokens and cost, and what went wrong. Reads events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    Faulted,
    Finished,
    MessageAdded,
    ModelAsked,
    ModelReplied,
    Planned,
    PlannedRun,
    Resumed,
    Routed,
    TaskBegan,
    ToolsFound,
)
from callgate.artifacts import Artifact
from callgate.errors import ConfigurationError
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.redaction import Redaction
from callgate.runtime.trace.document import document
from callgate.runtime.trace.markup import Sheet, Tone, card, duration, fact_list, fold, headline, plural, section
from callgate.runtime.trace.plan import plan_sections
from callgate.runtime.trace.program import artifacts_section, program_sections
from callgate.runtime.trace.saved import result_from

from .redacted import RedactedEvents

__all__ = ["agent_page"]

_WORDS: Final = 20_000
"""Characters of an answer, and of the model's words in a turn."""
_MOST_TURNS: Final = 500
_MOST_CALLS: Final = 200
"""Of a turn."""
_MOST_NOTES: Final = 100
_BRIEF: Final = 160
_MOST_NAMES: Final = 40


@dataclass(slots=True)
class _Turn:
    """What happened in one turn."""

    number: int
    reply: ModelReplied | None = None
    began: dict[str, CallBegan] = field(default_factory=dict)
    ended: dict[str, CallEnded] = field(default_factory=dict)
    others: list[AgentEvent] = field(default_factory=list)


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
        if isinstance(event, CallBegan | CallEnded):
            _shown(redacted, event)
    began, end, turns = _turns(_shown(redacted, event) for event in events)
    status, tone = _status(end)
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


def _turns(events: Iterable[AgentEvent]) -> tuple[TaskBegan | None, Finished | None, list[_Turn]]:
    """The beginning, the end, and what happened in each turn; turn 0 is what happened before the first."""
    began, end, turns = None, None, [_Turn(0)]
    for event in events:
        match event:
            case TaskBegan():
                began = event
            case Finished():
                end = event
            case ModelAsked():
                if event.turn > turns[-1].number:
                    turns.append(_Turn(event.turn))
            case ModelReplied():
                turns[-1].reply = event
            case CallBegan():
                turns[-1].began[event.id] = event
            case CallEnded():
                turns[-1].ended[event.id] = event
            case Faulted() | Routed() | Resumed() | Planned() | PlannedRun() | ToolsFound() | MessageAdded():
                turns[-1].others.append(event)
            case _:
                pass
    return began, end, turns


def _status(end: Finished | None) -> tuple[str, Tone]:
    if end is None:
        return "not ended", "odd"
    return end.outcome.replace("_", " "), "ok" if end.outcome == "answered" else "bad"


def _cards(sheet: Sheet, began: TaskBegan | None, end: Finished | None, turns: Sequence[_Turn]) -> Iterator[str]:
    replies = [turn.reply for turn in turns if turn.reply is not None]
    if began is not None:
        yield card("model", sheet.line(began.model, 60))
        yield card("mode", sheet.line(began.mode, 20))
    yield card("turns", f"{len(replies):,}")
    yield card("model time", duration(sum(reply.seconds for reply in replies)))
    if end is None:
        return
    yield card("tool calls", f"{end.tool_calls:,}")
    about = "about " if end.usage.estimated else ""
    yield card("tokens in", f"{about}{end.usage.input_tokens:,}")
    yield card("tokens out", f"{about}{end.usage.output_tokens:,}")
    if end.cost is not None:
        yield card("cost", _dollars(end.cost))
    yield card("time", duration(end.seconds))


def _sections(
    sheet: Sheet, began: TaskBegan | None, end: Finished | None, turns: Sequence[_Turn], artifacts: Sequence[Artifact]
) -> Iterator[str]:
    """The answer, what was made, the turns, and at the end what the model was given."""
    if end is not None:
        answer = f'<div class="words">{sheet.text(end.answer, _WORDS)}</div>' if end.answer else ""
        reason = f'<p class="dim">{sheet.text(end.reason)}</p>' if end.reason else ""
        title = "Answer" if end.outcome == "answered" else "Why it ended"
        yield section(title, reason + answer)
    yield artifacts_section(sheet, artifacts)
    shown = [turn for turn in turns[:_MOST_TURNS] if turn.reply or turn.began or turn.others]
    left_out = max(len(turns) - _MOST_TURNS, 0)
    answer = "" if end is None else end.answer
    pieces = (_turn(sheet, turn, answer) for turn in shown)
    yield section("What happened", sheet.list(pieces, len(shown) + left_out, "turns"))
    if began is not None:
        system = f"<pre>{sheet.text(began.system, _WORDS)}</pre>" if began.system else ""
        facts = [
            ("task", f"<pre>{sheet.text(began.task, _WORDS)}</pre>"),
            ("system prompt", system),
            ("tools", _names(sheet, began.tools)),
            ("larger plan", "" if began.strategic_plan is None else f"<pre>{sheet.value(began.strategic_plan)}</pre>"),
        ]
        yield section("Task", fact_list(facts))


def _turn(sheet: Sheet, turn: _Turn, answer: str) -> str:
    """A turn: the model's words, then its calls, then what else happened. The answer itself is not repeated."""
    head, words = ("Before the first turn" if turn.number == 0 else f"Turn {turn.number}"), ""
    if (reply := turn.reply) is not None:
        usage = reply.usage
        facts = [duration(reply.seconds), f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"]
        facts += [f"{usage.cached_input_tokens:,} from a cache"] if usage.cached_input_tokens else []
        facts += [_dollars(reply.cost)] if reply.cost is not None else []
        facts += [plural(reply.attempts, "attempt")] if reply.attempts > 1 else []
        facts += [reply.ended] if reply.ended not in ("answered", "calls") else []
        head += f" <small>{' · '.join(facts)}</small>"
        said = reply.message.text or reply.refusal
        words = f'<div class="words">{sheet.text(said, _WORDS)}</div>' if said else ""
        words = '<p class="dim">The answer, above.</p>' if said and said == answer else words
    ids = list(dict.fromkeys([*turn.began, *turn.ended]))
    calls = (_call(sheet, turn.began.get(id), turn.ended.get(id)) for id in ids[:_MOST_CALLS])
    notes = (note for each in turn.others[:_MOST_NOTES] if (note := _note(sheet, each)))
    body = words + (sheet.list(calls, len(ids), "calls") if ids else "") + "".join(notes)
    return f'<div class="turn"><h3>{head}</h3>{body}</div>'


def _call(sheet: Sheet, began: CallBegan | None, ended: CallEnded | None) -> str:
    """A call of the model in one line, which opens for its arguments and result, or for its program or plan."""
    name = began.name if began is not None else ended.name if ended is not None else ""
    tone: Tone = "odd" if ended is None else "ok" if ended.ok else "bad"
    mark = {"ok": "✓", "bad": "✗", "odd": "…"}[tone]
    arguments: Mapping[str, Any] = {} if began is None else began.arguments
    source = arguments.get("code")
    is_run = ended is not None and ended.run is not None
    is_program = isinstance(source, str) and ended is not None and (ended.run or {}).get("kind") == "code"
    given = sheet.given(arguments, _BRIEF)
    if is_program and isinstance(source, str):
        given = f" {sheet.line(source.strip(), _BRIEF)}"
    took, below = "", '<span class="tag odd">not ended</span>' if ended is None else ""
    if ended is not None:
        inner = f" · {plural(ended.tool_calls, 'tool call')}" if ended.run is not None else ""
        took = f"{duration(ended.seconds)}{inner}"
        if not ended.ok:
            below = f'{_failure(sheet, ended)} <span class="tag bad">{"not made" if ended.mistake else "failed"}</span>'
    gave = f' <code class="gave">→ {sheet.line(ended.text, _BRIEF)}</code>' if ended and ended.ok and not is_run else ""
    what = (
        f'<span class="{tone}">{mark}</span> <span class="tool">{sheet.line(name)}</span>'
        f'<code class="given">{given}</code>{gave}'
    )
    inside = ""
    if ended is not None and ended.run is not None:
        inside = _run(sheet, ended.run, arguments)
    elif arguments:
        inside = fact_list([("arguments", f"<pre>{sheet.value(arguments)}</pre>")])
    if ended is not None:
        pictures = f" and {plural(len(ended.pictures), 'picture')}" if ended.pictures else ""
        read = f"<pre>{sheet.text(ended.text)}</pre>"
        inside += fold(f"what the model read{pictures}", read) if is_run else fact_list([("result", read)])
    return fold(headline(what, took, below), inside, kind="call run" if is_run else "call")


def _failure(sheet: Sheet, ended: CallEnded) -> str:
    """Why a call failed, in a line: the error of its program or plan, or what the model read."""
    error = (ended.run or {}).get("error")
    words = f"{error.get('kind')}: {error.get('message')}" if isinstance(error, Mapping) else ended.text
    return f'<span class="bad">{sheet.line(words)}</span>'


def _run(sheet: Sheet, run: Mapping[str, Any], arguments: Mapping[str, Any]) -> str:
    """The program or plan within a call."""
    source = arguments.get("code")
    given = {**run, "source": run.get("source") or source} if isinstance(source, str) else run
    try:
        result = result_from(given)
    except ConfigurationError as error:
        return f'<p class="dim">{sheet.line(str(error))}</p>'
    body = plan_sections(sheet, result) if isinstance(result, PlanResult) else program_sections(sheet, result)
    return f'<div class="nested">{body}</div>'


def _note(sheet: Sheet, event: AgentEvent) -> str:
    """Something that happened in a turn besides words and calls, in a line; empty if the calls show it."""
    match event:
        case Faulted() if event.fault not in ("plan_failed", "program_failed"):
            words, tone = f"{event.fault}: {event.detail} ({event.action})", "bad"
        case Routed():
            words, tone = f"tools are called in another form from here on, {event.mode}: {event.reason}", "odd"
        case Resumed():
            words, tone = f"the task was resumed with {event.model}: {event.reason}", "odd"
        case ToolsFound():
            return f'<p class="dim">found: {_names(sheet, event.tools)}</p>'
        case MessageAdded() if event.text:
            words, tone = f"the agent said: {event.text}", "dim"
        case Planned():
            facts = f"{event.source}, confidence {event.confidence:.2f}"
            body = f'<p class="words">{sheet.text(event.reasoning)}</p><pre>{sheet.value(event.plan, _WORDS)}</pre>'
            return fold(headline("planned", duration(event.seconds), sheet.line(facts)), body, kind="call")
        case PlannedRun():
            state = '<span class="ok">✓</span>' if event.success else '<span class="bad">✗</span>'
            body = sheet.list(
                (f"<pre>{sheet.value(each)}</pre>" for each in event.results), len(event.results), "results"
            )
            return fold(headline(f"{state} ran the plan", duration(event.seconds)), body, kind="call")
        case _:
            return ""
    return f'<p class="{tone}">{sheet.line(words, 300)}</p>'


def _names(sheet: Sheet, names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(sheet.line(name, 80) for name in names[:_MOST_NAMES]) + more


def _dollars(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"
