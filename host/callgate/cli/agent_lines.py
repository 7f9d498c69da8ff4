"""Turns the events of an agent into lines for people. Knows no terminal and no clock.

Texts of models, tools and programs are cut here; the screen escapes control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from callgate import CallEnded as ToolCallEnded
from callgate import Printed, StepEnded
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    CallProgress,
    CallsQueued,
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
    innermost,
)
from callgate.agent.loop.result import AgentResult
from callgate.agent.models.model import ToolCall, Usage
from callgate.cut import duration

from .screen import Line, call_line, call_text, short, step_line
from .words import counted, one_line

__all__ = ["AgentLines", "finished"]

_META = ("execute_tool_plan", "execute_code")
"""Calls whose arguments are a plan or a program: their lines show the steps and calls instead of the arguments."""
_REASON = 300
_RESULT = 240
"""Characters of a result or an error."""
_MOST_NAMED = 12
_WORDS_SHOWN = 2_000
_WORDS_VERBOSE = 20_000
_MOST_INNER = 20
"""Lines for the prints and calls of one program, or the steps of one plan; --verbose shows all."""
_MOST_SOURCES = 60
_TOLD_BELOW = ("plan_failed", "program_failed")
"""Faults that are followed by the line of the call, which says more."""
_ENDED = {"cut": "cut at its limit of tokens", "empty": "said nothing", "refused": "refused"}


class AgentLines:
    """Makes lines of the events of one task.

    Args:
        verbose: show every event, and longer texts.
        asked_mode: the mode as the person wrote it: a mode may have two names.
    """

    def __init__(self, *, verbose: bool = False, asked_mode: str = "") -> None:
        self._asked_mode = asked_mode
        self._verbose = verbose
        self._longest = _WORDS_VERBOSE if verbose else _WORDS_SHOWN
        self._calls: dict[str, ToolCall] = {}
        self._inner: dict[str, int] = {}
        self._found: tuple[str, ...] = ()
        self.fault = ""
        """Text of the latest fault."""
        self.turn = 0
        """The model's current turn; 0 before the first."""

    def of(self, event: AgentEvent) -> Iterator[Line]:
        """The lines of an event; none for events that are not shown."""
        match event:
            case TaskBegan():
                yield Line("task", one_line(event.task), "bold")
                facts = [f"model {short(event.model)}", f"mode {self._asked_mode or event.mode}"]
                facts += [counted(len(event.tools), "tool")]
                facts += ["within a strategic plan"] if event.strategic_plan is not None else []
                yield Line("", ", ".join(facts), "dim")
            case Resumed():
                reason = f": {one_line(event.reason, _REASON)}" if event.reason else ""
                yield Line("resumed", f"after {counted(event.turns, 'turn')}, with {short(event.model)}{reason}")
            case Routed():
                yield Line("mode", f"{event.mode}: {one_line(event.reason, _REASON)}", "cyan")
            case ModelAsked():
                self.turn = event.turn
                if self._verbose:
                    choice = "" if event.tool_choice == "auto" else f", tool choice {short(event.tool_choice)}"
                    offered = f"; tools: {_names(event.tools)}" if event.tools else "; no tools"
                    yield Line("asked", f"{counted(event.messages, 'message')}{choice}{offered}", "dim")
            case ModelReplied():
                yield from self._replied(event)
            case CallsQueued():
                names = _names(self._calls[id].name if id in self._calls else id for id in event.queued)
                text = f"{counted(event.running, 'call')} at the same time, {len(event.queued)} waiting: {names}"
                yield Line("queued", text, "yellow")
            case CallBegan() if self._verbose:
                code = event.arguments.get("code") if event.name == "execute_code" else None
                yield Line("begins", event.name if code else call_text(event.name, event.arguments), "dim")
                yield from _indented(str(code or ""), self._longest)
            case CallProgress():
                yield from self._within(event)
            case CallEnded():
                yield from self._call_ended(event)
            case MessageAdded():
                if event.text:
                    yield Line("told", f"the model: {one_line(event.text, _REASON)}", "yellow")
                for reply in event.replies.replies if self._verbose and event.replies else ():
                    yield Line("told", f"{short(reply.name)}: {one_line(reply.text, _WORDS_SHOWN)}", "dim")
            case ToolsFound():
                new = [name for name in event.tools if name not in self._found]
                self._found = event.tools
                yield Line("found", _names(new or event.tools), "cyan")
            case Planned():
                yield from _planned(event)
            case PlannedRun():
                yield from _planned_run(event)
                self._inner.pop("", None)
            case InnerEvent():
                yield from self._agent(event)
            case Faulted():
                self.fault = detail = event.detail
                if event.fault in _TOLD_BELOW and not self._verbose:
                    detail = detail.strip().partition("\n")[0]
                text = f"{event.fault.replace('_', ' ')}: {one_line(detail, _REASON)} -> {one_line(event.action)}"
                yield Line("fault", text, "yellow")

    def _replied(self, event: ModelReplied) -> Iterator[Line]:
        self._calls = {call.id: call for call in event.message.calls}
        facts = [_tokens(event.usage), duration(event.seconds)]
        facts += [_dollars(event.cost)] if event.cost is not None else []
        facts += [f"{event.attempts} attempts"] if event.attempts > 1 else []
        facts += [_ENDED[event.ended]] if event.ended in _ENDED else []
        yield Line(f"turn {event.turn}", ", ".join(facts), "yellow" if event.ended in _ENDED else "bold")
        yield from _indented(event.refusal, _WORDS_SHOWN)
        if event.ended != "answered" or self._verbose:  # the answer itself is data, and goes to stdout
            yield from _indented(event.message.text, self._longest)

    def _within(self, progress: CallProgress) -> Iterator[Line]:
        """Lines of what happens inside a call; without --verbose only the first ones."""
        match progress.event:
            case Printed() as printed:
                lines = [Line("prints", one_line(text, _RESULT)) for text in printed.text.splitlines()]
            case ToolCallEnded() as ended if ended.record.caller in (("code", "plan") if self._verbose else ("code",)):
                lines = [Line("  call", call_line(ended.record), "dim")]
            case StepEnded() as ended:
                lines = [step_line(ended.step, indent="  ")]
            case _:
                return
        for line in lines:
            self._inner[progress.id] = self._inner.get(progress.id, 0) + 1
            if self._verbose or self._inner[progress.id] <= _MOST_INNER:
                yield line

    def _agent(self, event: InnerEvent) -> Iterator[Line]:
        """Lines of an agent inside the task: its end, and with --verbose its turns, calls and faults."""
        agents = [short(event.agent)]
        while isinstance(event.event, InnerEvent):
            event = event.event
            agents.append(short(event.agent))
        name = " > ".join(agents)
        match innermost(event):
            case Finished() as end:
                facts = [counted(end.turns, "turn"), counted(end.tool_calls, "tool call"), duration(end.seconds)]
                why = "" if end.outcome == "answered" else f": {one_line(end.reason, _REASON)}"
                yield Line("  agent", f"{name}: {end.outcome}, {', '.join(facts)}{why}", "dim")
            case ModelReplied() as reply if self._verbose:
                yield Line("  agent", f"{name}: turn {reply.turn}, {_tokens(reply.usage)}", "dim")
            case CallEnded() as ended if self._verbose:
                word = "ok" if ended.ok else f"failed: {one_line(ended.text, _RESULT)}"
                yield Line("  agent", f"{name}: {short(ended.name)} {word}", "dim")
            case Faulted() as fault if self._verbose:
                yield Line("  agent", f"{name}: {one_line(fault.detail, _REASON)}", "yellow")

    def _call_ended(self, event: CallEnded) -> Iterator[Line]:
        left = self._inner.pop(event.id, 0) - _MOST_INNER
        if left > 0 and not self._verbose:
            yield Line("", f"... and {left} more lines (--verbose shows them)", "dim")
        run = event.run or {}
        steps = [each for each in run.get("steps") or () if isinstance(each, Mapping)]
        facts, failure = [duration(event.seconds)], event.text
        if steps:
            good = sum(each.get("status") == "succeeded" for each in steps)
            facts.insert(0, f"{good}/{len(steps)} steps")
            error = run.get("error") or {}  # the steps say why they failed; only a limit is not among them
            failure = error.get("message", "") if error.get("limit") else ""
        elif event.name in _META or event.tool_calls > 1:
            facts.insert(0, counted(event.tool_calls, "tool call"))
        call = self._calls.get(event.id)
        shown = event.name if event.name in _META else call_text(event.name, call.arguments if call else {})
        word = "ok" if event.ok else "refused" if event.mistake else "failed"
        why = "" if event.ok or not failure else f": {one_line(failure, _RESULT)}"
        yield Line(word, f"{shown}  {', '.join(facts)}{why}", "green" if event.ok else "red")


def finished(result: AgentResult, fault: str) -> Line:
    """The last line: the task's outcome, and what the task took.

    Args:
        result: the task's result.
        fault: text of the latest fault that was shown; it is not repeated.
    """
    facts = [
        counted(result.turns, "turn"),
        counted(result.model_calls, "LLM call"),
        counted(result.tool_calls, "tool call"),
        _tokens(result.usage),
        *([_dollars(result.cost)] if result.cost is not None else []),
        duration(result.seconds),
    ]
    why = "" if result.ok or result.reason in ("", fault) else f" ({one_line(result.reason, _REASON)})"
    style = "bold green" if result.ok else "bold red"
    return Line(result.outcome.replace("_", " "), f"{', '.join(facts)}{why}", style)


def _planned(event: Planned) -> Iterator[Line]:
    steps = event.plan.get("steps") or ()
    facts = [
        f"{counted(len(steps), 'step')} in {counted(len(event.stages), 'stage')}",
        f"confidence {event.confidence:.2f}",
        f"about {duration(event.estimated_seconds)}" if event.estimated_seconds else "",
        f"cost {event.estimated_cost:g}" if event.estimated_cost is not None else "",
        f"by {'the model' if event.source == 'model' else event.source}",
        f"planned in {duration(event.seconds)}",
    ]
    yield Line("planned", ", ".join(filter(None, facts)), "cyan")
    yield from _indented(event.reasoning, _REASON)
    for note in event.notes[:_MOST_NAMED]:
        yield Line("note", one_line(note, _REASON), "yellow")


def _planned_run(event: PlannedRun) -> Iterator[Line]:
    good = sum(bool(each.get("success")) for each in event.results)
    facts = [f"{good}/{len(event.results)} steps", duration(event.seconds)]
    if event.retries:
        facts.append("1 retry" if event.retries == 1 else f"{event.retries} retries")
    if event.failed_steps:
        facts.append(f"failed: {_names(event.failed_steps)}")
    word, style = ("ok", "green") if event.success else ("failed", "red")
    yield Line(word, f"plan  {', '.join(facts)}", style)
    for number, source in enumerate(event.sources[:_MOST_SOURCES], 1):
        where = ", ".join(filter(None, (source.get("title"), source.get("location"))))
        yield Line("source", f"[{number}] {one_line(where, _REASON)}", "dim")


def _indented(text: str, longest: int) -> Iterator[Line]:
    """Text of several lines, below the line that it belongs to."""
    for line in text[:longest].rstrip().splitlines():
        yield Line("", line)
    if len(text) > longest:
        yield Line("", f"... {len(text) - longest:,} more characters", "dim")


def _names(names: Iterable[str]) -> str:
    named = list(names)
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return ", ".join(map(short, named[:_MOST_NAMED])) + more


def _tokens(usage: Usage) -> str:
    """Tokens in and out."""
    cached = f" ({usage.cached_input_tokens:,} cached)" if usage.cached_input_tokens else ""
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens:,}{cached} + {usage.output_tokens:,} tokens"


def _dollars(cost: float) -> str:
    if 0 < cost < 0.00005:
        return "<$0.0001"
    return f"${cost:.4f}" if cost < 1 else f"${cost:,.2f}"
