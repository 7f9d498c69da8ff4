"""What an agent tells, in lines for people: one event after the other. Knows no terminal and no clock.

What a model, a tool or a program said is bounded here; whoever shows a line makes control characters visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from callgate import CallEnded as ToolCallEnded
from callgate import Printed, StepEnded, StepResult
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    CallProgress,
    CallsQueued,
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
from callgate.agent.models.model import ToolCall
from callgate.cut import duration

from .agent_rows import (
    ARGUMENTS,
    Line,
    Row,
    counted,
    given,
    json_of,
    name_of,
    names_of,
    objects,
    of_step,
    result_row,
    spent,
    step_row,
    tokens,
)
from .live import call_line
from .words import one_line

__all__ = ["META", "AgentLines", "Box"]

META = ("execute_tool_plan", "execute_code")
"""Calls whose arguments are a plan or a program: they are told by what happens in them."""

_REASON = 300
_TITLE = 120
_WORDS_SHOWN = 2_000
_WORDS_VERBOSE = 20_000
_MOST_INNER = 20
"""Prints and calls of one program, or steps of one plan, that are told a line each; with --verbose all are."""
_MOST_ROWS = 60
_MOST_NOTES = 12
_TOLD_BELOW = ("plan_failed", "program_failed")
"""Faults whose line is followed by that of the call, which says more."""
_ENDED = {"cut": "cut at its limit of tokens", "empty": "said nothing", "refused": "refused"}


@dataclass(frozen=True, slots=True)
class Box:
    """Steps that belong together: a terminal draws a box around them."""

    title: str
    rows: tuple[Row, ...]


class AgentLines:
    """Makes lines of the events of one task.

    Args:
        verbose: tell everything, a line each, and longer texts.
        boxes: whether the steps of a plan come as one box when it is over, or each as a line when it ends.
        asked_mode: the mode by the name that the person gave it, which may be another name of the task's mode.
    """

    def __init__(self, *, verbose: bool = False, boxes: bool = False, asked_mode: str = "") -> None:
        self._asked_mode = asked_mode
        self._verbose = verbose
        self._boxes = boxes
        self._calls: dict[str, ToolCall] = {}
        self._inner: dict[str, int] = {}
        self._steps: dict[str, int] = {}
        self._planned_steps: dict[str, StepResult] = {}
        self._found: tuple[str, ...] = ()
        self._fault = ""
        self.model_calls = 0
        """Replies of the model, the planner's included."""

    def of(self, event: AgentEvent) -> Iterator[Line | Box]:
        """The lines of an event; none for what is not told."""
        match event:
            case TaskBegan():
                yield from self._began(event)
            case Resumed():
                reason = f": {one_line(event.reason, _REASON)}" if event.reason else ""
                yield Line("resumed", f"after {counted(event.turns, 'turn')}, with {name_of(event.model)}{reason}")
            case Routed():
                yield Line("mode", f"{event.mode}: {one_line(event.reason, _REASON)}", "cyan")
            case ModelAsked():
                if self._verbose:
                    choice = "" if event.tool_choice == "auto" else f", tool choice {name_of(event.tool_choice)}"
                    offered = f"; tools: {names_of(event.tools)}" if event.tools else "; no tools"
                    yield Line("asked", f"{counted(event.messages, 'message')}{choice}{offered}", "dim")
            case ModelReplied():
                yield from self._replied(event)
            case CallsQueued():
                names = (self._calls[id].name if id in self._calls else id for id in event.queued)
                waiting = f"{len(event.queued)} waiting: {names_of(names)}"
                yield Line("queued", f"{counted(event.running, 'call')} at the same time, {waiting}", "yellow")
            case CallBegan():
                yield from self._call_began(event)
            case CallProgress():
                yield from self._told_of(event)
            case CallEnded():
                yield from self._call_ended(event)
            case MessageAdded():
                yield from self._told(event)
            case ToolsFound():
                new = [name for name in event.tools if name not in self._found]
                self._found = event.tools
                yield Line("found", names_of(new or event.tools), "cyan")
            case Planned():
                yield from self._planned(event)
            case PlannedRun():
                yield from self._planned_run(event)
            case Faulted():
                kind, detail = event.fault.replace("_", " "), event.detail
                self._fault = detail
                if event.fault in _TOLD_BELOW and not self._verbose:
                    detail = detail.strip().partition("\n")[0]
                yield Line("fault", f"{kind}: {one_line(detail, _REASON)} -> {one_line(event.action)}", "yellow")
            case Finished():
                yield self._finished(event)

    def _began(self, event: TaskBegan) -> Iterator[Line]:
        yield Line("task", one_line(event.task), "bold")
        tools = counted(len(event.tools), "tool")
        mode = self._asked_mode or event.mode
        yield Line("", f"model {name_of(event.model)}, mode {mode}, {tools}", "dim")
        if event.strategic_plan is not None:
            yield Line("", f"within the plan {one_line(json_of(event.strategic_plan), ARGUMENTS)}", "dim")

    def _replied(self, event: ModelReplied) -> Iterator[Line]:
        self.model_calls += 1
        self._calls = {call.id: call for call in event.message.calls}
        facts = [tokens(event.usage), duration(event.seconds)]
        if event.cost is not None:
            facts.append(spent(event.cost))
        if event.attempts > 1:
            facts.append(f"{event.attempts} attempts")
        if event.ended in _ENDED:
            facts.append(_ENDED[event.ended])
        yield Line(f"turn {event.turn}", ", ".join(facts), "bold" if event.ended not in _ENDED else "yellow")
        if event.refusal:
            yield from _indented(event.refusal, _WORDS_SHOWN)
        # the answer itself is data, and goes to stdout
        if event.message.text and (event.ended != "answered" or self._verbose):
            yield from _indented(event.message.text, _WORDS_VERBOSE if self._verbose else _WORDS_SHOWN)

    def _call_began(self, event: CallBegan) -> Iterator[Line]:
        if not self._verbose:
            return
        code = event.arguments.get("code")
        if event.name == "execute_code" and isinstance(code, str):
            yield Line("begins", event.name, "dim")
            yield from _indented(code, _WORDS_VERBOSE)
        else:
            yield Line("begins", given(event.name, event.arguments), "dim")

    def _told_of(self, event: CallProgress) -> Iterator[Line]:
        match event.event:
            case Printed() as printed:
                for text in printed.text.splitlines():
                    if self._within(event.id):
                        yield Line("prints", one_line(text, ARGUMENTS))
            case ToolCallEnded() as ended if ended.record.caller == "code":
                if self._within(event.id):
                    yield Line("  call", call_line(ended.record), "dim")
            case ToolCallEnded() as ended if self._verbose and ended.record.caller == "plan":
                yield Line("  call", call_line(ended.record), "dim")
            case StepEnded() as ended:
                if not event.id:
                    self._planned_steps[ended.step.id] = ended.step
                self._steps[event.id] = self._steps.get(event.id, 0) + 1
                if not self._boxes and event.id and self._within(event.id):
                    yield step_row(of_step(ended.step)).line
            case _:
                return

    def _within(self, id: str) -> bool:
        self._inner[id] = self._inner.get(id, 0) + 1
        return self._verbose or self._inner[id] <= _MOST_INNER

    def _call_ended(self, event: CallEnded) -> Iterator[Line | Box]:
        call = self._calls.get(event.id)
        left = self._inner.pop(event.id, 0) - _MOST_INNER
        seen = self._steps.pop(event.id, 0)
        if left > 0 and not self._verbose:
            yield Line("", f"... and {left} more lines (--verbose shows them)", "dim")
        artifact = event.artifact or {}
        steps = objects(artifact.get("steps"))
        facts = [duration(event.seconds)]
        if steps:
            good = sum(each.get("status") == "succeeded" for each in steps)
            facts.insert(0, f"{good}/{len(steps)} steps")
        elif event.name in META or event.tool_calls > 1:
            facts.insert(0, counted(event.tool_calls, "tool call"))
        shown = event.name if event.name in META else given(event.name, call.arguments if call else {})
        word = "ok" if event.ok else "refused" if event.mistake else "failed"
        failure = _limit_of(artifact) if steps else event.text  # each step says itself why it failed
        why = "" if event.ok or not failure else f": {one_line(failure, ARGUMENTS)}"
        yield Line(word, f"{shown}  {', '.join(facts)}{why}", "green" if event.ok else "red")
        if steps and (self._boxes or not seen):
            yield _box(str(artifact.get("goal") or "plan"), steps)

    def _told(self, event: MessageAdded) -> Iterator[Line]:
        if event.text:
            yield Line("told", f"the model: {one_line(event.text, _REASON)}", "yellow")
        if self._verbose and event.replies is not None:
            for reply in event.replies.replies:
                yield Line("told", f"{name_of(reply.name)}: {one_line(reply.text, _WORDS_SHOWN)}", "dim")

    def _planned(self, event: Planned) -> Iterator[Line | Box]:
        self.model_calls += event.source == "model"
        steps = objects(event.plan.get("steps"))
        facts = [
            f"{counted(len(steps), 'step')} in {counted(len(event.stages), 'stage')}",
            f"confidence {event.confidence:.2f}",
            f"about {duration(event.estimated_seconds)}" if event.estimated_seconds else "",
            f"cost {event.estimated_cost:g}" if event.estimated_cost is not None else "",
            f"by {'the model' if event.source == 'model' else event.source}",
            f"planned in {duration(event.seconds)}",
        ]
        yield Line("planned", ", ".join(filter(None, facts)), "cyan")
        if event.reasoning:
            yield from _indented(event.reasoning, _REASON)
        for note in event.notes[:_MOST_NOTES]:
            yield Line("note", one_line(note, _REASON), "yellow")

    def _planned_run(self, event: PlannedRun) -> Iterator[Line | Box]:
        good = sum(bool(each.get("success")) for each in event.results)
        facts = [f"{good}/{len(event.results)} steps", duration(event.seconds)]
        if event.retries:
            facts.append("1 retry" if event.retries == 1 else f"{event.retries} retries")
        if event.failed_steps:
            facts.append(f"failed: {names_of(event.failed_steps)}")
        text, style = f"plan  {', '.join(facts)}", "green" if event.success else "red"
        yield Line("ok" if event.success else "failed", text, style)
        seen, self._planned_steps = self._planned_steps, {}
        self._inner.pop("", None)
        yield Box("steps", tuple(result_row(each, seen) for each in event.results[:_MOST_ROWS]))
        for number, source in enumerate(event.sources[:_MOST_ROWS], 1):
            where = ", ".join(filter(None, (source.get("title"), source.get("location"))))
            yield Line("source", f"[{number}] {one_line(where, _REASON)}", "dim")

    def _finished(self, event: Finished) -> Line:
        facts = [
            counted(event.turns, "turn"),
            counted(self.model_calls, "LLM call"),
            counted(event.tool_calls, "tool call"),
            tokens(event.usage),
            *([spent(event.cost)] if event.cost is not None else []),
            duration(event.seconds),
        ]
        is_said = event.outcome == "answered" or event.reason in ("", self._fault)
        why = "" if is_said else f" ({one_line(event.reason, _REASON)})"
        word = event.outcome.replace("_", " ")
        return Line(word, f"{', '.join(facts)}{why}", "bold green" if event.outcome == "answered" else "bold red")


def _indented(text: str, longest: int) -> Iterator[Line]:
    """Words as they are, below their line."""
    left_out = len(text) - longest
    lines = text[:longest].rstrip().splitlines()
    for line in lines:
        yield Line("", line)
    if left_out > 0:
        yield Line("", f"... {left_out:,} more characters", "dim")


def _limit_of(artifact: Mapping[str, Any]) -> str:
    """Which limit ended a plan; empty where none did."""
    error = artifact.get("error")
    return str(error.get("message")) if isinstance(error, Mapping) and error.get("limit") else ""


def _box(title: str, steps: list[Mapping[str, Any]]) -> Box:
    rows = [step_row(each) for each in steps[:_MOST_ROWS]]
    if len(steps) > _MOST_ROWS:
        rows.append(Row("", f"... and {len(steps) - _MOST_ROWS} more", "", "dim"))
    return Box(one_line(title, _TITLE), tuple(rows))
