"""The turns of a task on its page: the model's words, its calls with their programs and plans, and what went wrong; in
a call also the agents that it started. Reads events, which are redacted already, but for the runs in them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from callgate.agent.events import (
    AgentEvent,
    Answered,
    CallBegan,
    CallEnded,
    Faulted,
    Finished,
    InnerEvent,
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
from callgate.errors import ConfigurationError
from callgate.runtime.plans.result import PlanResult
from callgate.runtime.trace.markup import Sheet, Tone, duration, fact_list, fold, headline, plural
from callgate.runtime.trace.plan import plan_sections
from callgate.runtime.trace.program import program_sections
from callgate.runtime.trace.saved import result_from

__all__ = ["MOST_WORDS", "Turn", "dollars", "listed", "names", "status_of", "turns_of"]

MOST_WORDS: Final = 20_000
"""Characters of an answer, and of the model's words in a turn."""
_MOST_TURNS: Final = 500
_MOST_CALLS: Final = 200
"""Of a turn."""
_MOST_NOTES: Final = 100
_BRIEF: Final = 160
_MOST_NAMES: Final = 40


@dataclass(slots=True)
class Turn:
    """What happened in one turn."""

    number: int
    reply: ModelReplied | None = None
    began: dict[str, CallBegan] = field(default_factory=dict)
    ended: dict[str, CallEnded] = field(default_factory=dict)
    others: list[AgentEvent] = field(default_factory=list)
    inside: dict[str, dict[str, list[InnerEvent]]] = field(default_factory=dict)
    """By id of the call, the events of each task inside it."""


def turns_of(events: Iterable[AgentEvent]) -> tuple[TaskBegan | None, Finished | None, list[Turn]]:
    """The beginning, the end, and what happened in each turn; turn 0 is what happened before the first."""
    began, end, turns = None, None, [Turn(0)]
    for event in events:
        match event:
            case TaskBegan():
                began = event
            case Finished():
                end = event
            case ModelAsked():
                if event.turn > turns[-1].number:
                    turns.append(Turn(event.turn))
            case ModelReplied():
                turns[-1].reply = event
            case CallBegan():
                turns[-1].began[event.id] = event
            case CallEnded():
                turns[-1].ended[event.id] = event
            case InnerEvent():
                turns[-1].inside.setdefault(event.call, {}).setdefault(event.task, []).append(event)
            case (
                Answered() | Faulted() | Routed() | Resumed() | Planned() | PlannedRun() | ToolsFound() | MessageAdded()
            ):
                turns[-1].others.append(event)
            case _:
                pass
    return began, end, turns


def status_of(end: Finished | None) -> tuple[str, Tone]:
    if end is None:
        return "not ended", "odd"
    return end.outcome.replace("_", " "), "ok" if end.outcome == "answered" else "bad"


def listed(sheet: Sheet, turns: Sequence[Turn], answer: str) -> str:
    """The turns of a task, one below the other."""
    shown = [turn for turn in turns[:_MOST_TURNS] if turn.reply or turn.began or turn.others or turn.inside]
    left_out = max(len(turns) - _MOST_TURNS, 0)
    pieces = (_turn(sheet, turn, answer) for turn in shown)
    return str(sheet.list(pieces, len(shown) + left_out, "turns"))


def _agents(sheet: Sheet, tasks: Mapping[str, Sequence[InnerEvent]]) -> str:
    """The agents that were at work for a call, each with its turns."""
    return sheet.list((_agent(sheet, events) for events in tasks.values()), len(tasks), "agents")


def _agent(sheet: Sheet, events: Sequence[InnerEvent]) -> str:
    """The task of an agent inside another one, in one line, which opens for its turns."""
    began, end, turns = turns_of(each.event for each in events)
    status, tone = status_of(end)
    replies = sum(turn.reply is not None for turn in turns)
    task = f'<code class="given">{sheet.line(began.task, _BRIEF)}</code>' if began is not None else ""
    took = f" · {duration(end.seconds)}" if end is not None else ""
    summary = (
        f'agent <span class="tool">{sheet.line(events[0].agent)}</span> {task} '
        f'<span class="tag {tone}">{status}</span> <span class="took">{plural(replies, "turn")}{took}</span>'
    )
    return fold(summary, f'<div class="nested">{listed(sheet, turns, "")}</div>', kind="call")


def _turn(sheet: Sheet, turn: Turn, answer: str) -> str:
    """A turn: the model's words, then its calls, then what else happened. The answer itself is not repeated."""
    head, words = ("Before the first turn" if turn.number == 0 else f"Turn {turn.number}"), ""
    if (reply := turn.reply) is not None:
        usage = reply.usage
        facts = [duration(reply.seconds), f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"]
        facts += [f"{usage.cached_input_tokens:,} from a cache"] if usage.cached_input_tokens else []
        facts += [dollars(reply.cost)] if reply.cost is not None else []
        facts += [plural(reply.attempts, "attempt")] if reply.attempts > 1 else []
        facts += [reply.ended] if reply.ended not in ("answered", "calls") else []
        head += f" <small>{' · '.join(facts)}</small>"
        said = reply.message.text or reply.refusal
        words = f'<div class="words">{sheet.text(said, MOST_WORDS)}</div>' if said else ""
        words = '<p class="dim">The answer, above.</p>' if said and said == answer else words
    ids = list(dict.fromkeys([*turn.began, *turn.ended]))
    inside = {id: _agents(sheet, tasks) for id, tasks in turn.inside.items()}
    calls = (_call(sheet, turn.began.get(id), turn.ended.get(id), inside.get(id, "")) for id in ids[:_MOST_CALLS])
    notes = (note for each in turn.others[:_MOST_NOTES] if (note := _note(sheet, each)))
    body = words + inside.get("", "") + (sheet.list(calls, len(ids), "calls") if ids else "") + "".join(notes)
    return f'<div class="turn"><h3>{head}</h3>{body}</div>'


def _call(sheet: Sheet, began: CallBegan | None, ended: CallEnded | None, agents: str = "") -> str:
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
    return fold(headline(what, took, below), inside + agents, kind="call run" if is_run else "call")


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
        case Answered() if event.by != "model":
            words, tone = f"this {event.by} gave the answer of the task", "ok"
        case Routed():
            words, tone = f"tools are called in another form from here on, {event.mode}: {event.reason}", "odd"
        case Resumed():
            words, tone = f"the task was resumed with {event.model}: {event.reason}", "odd"
        case ToolsFound():
            return f'<p class="dim">found: {names(sheet, event.tools)}</p>'
        case MessageAdded() if event.text:
            words, tone = f"the agent said: {event.text}", "dim"
        case Planned():
            facts = f"{event.source}, confidence {event.confidence:.2f}"
            body = f'<p class="words">{sheet.text(event.reasoning)}</p><pre>{sheet.value(event.plan, MOST_WORDS)}</pre>'
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


def names(sheet: Sheet, names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(sheet.line(name, 80) for name in names[:_MOST_NAMES]) + more


def dollars(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"
