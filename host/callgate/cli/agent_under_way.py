"""What of a task is under way: the model's words as they come, its calls, their steps, what of the budget is spent.

Takes in events and gives rows of text. Knows no terminal; time is given to it.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field

from callgate import CallEnded as ToolCallEnded
from callgate import CallStarted, StepEnded, StepStarted
from callgate.agent.events import (
    AgentEvent,
    CallBegan,
    CallEnded,
    CallProgress,
    CallsQueued,
    ModelAsked,
    ModelReplied,
    Planned,
    PlannedRun,
    Resumed,
    TextArrived,
)
from callgate.agent.loop.budget import Budget
from callgate.agent.models.model import NO_USAGE, Usage

from .agent_lines import META
from .agent_rows import counted, given, spent
from .words import one_line, tame

__all__ = ["UnderWay"]

_KEPT_WORDS = 4_000
"""Characters of the words that are being written; earlier ones leave the view."""
_WORD_ROWS = 5
_CALL_ROWS = 8
_STEP_ROWS = 6
_LEAST = 8
"""Characters of a call that are shown on the narrowest terminal."""
_PLANNED = ""
"""The id under which the steps of a planner's plan are told."""


@dataclass(slots=True)
class _Call:
    text: str
    began: float
    steps: dict[str, tuple[str, float]] = field(default_factory=dict)
    steps_ended: int = 0
    inside: dict[int, tuple[str, float]] = field(default_factory=dict)
    inside_ended: int = 0


class UnderWay:
    """What has begun and not ended, and what is spent so far.

    Args:
        now: seconds, on the clock by which everything here goes.
        budget: what may be spent.
        spinner: characters that turn, one after the other.
    """

    def __init__(self, now: float, budget: Budget, spinner: str) -> None:
        self.turn = 0
        self._began = now
        self._budget = budget
        self._spinner = spinner
        self._usage: Usage = NO_USAGE
        self._cost: float | None = None
        self._asked: float | None = None
        self._words = ""
        self._calls: dict[str, _Call] = {}
        self._queued: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def note(self, event: AgentEvent, now: float) -> None:
        """Take an event in."""
        match event:
            case ModelAsked():
                self.turn, self._asked, self._words = event.turn, now, ""
            case TextArrived():
                self._words = (event.text if event.restarted else self._words + event.text)[-_KEPT_WORDS:]
            case ModelReplied():
                self.turn, self._asked, self._words = event.turn, None, ""
                self._usage += event.usage
                self._names = {call.id: call.name for call in event.message.calls}
                if event.cost is not None:
                    self._cost = (self._cost or 0.0) + event.cost
            case Resumed():
                self._asked, self._calls, self._queued = None, {}, {}
            case Planned():
                self._usage += event.usage
                if event.cost is not None:
                    self._cost = (self._cost or 0.0) + event.cost
                self._calls[_PLANNED] = _Call("plan", now)
            case PlannedRun():
                self._calls.pop(_PLANNED, None)
            case CallsQueued():
                self._queued = {id: self._names.get(id, id) for id in event.queued}
            case CallBegan():
                self._queued.pop(event.id, None)
                text = event.name if event.name in META else given(event.name, event.arguments, 160)
                self._calls[event.id] = _Call(text, now)
            case CallProgress() if event.id in self._calls:
                _note_within(self._calls[event.id], event, now)
            case CallEnded():
                self._calls.pop(event.id, None)
                self._queued.pop(event.id, None)
            case _:
                pass

    def rows(self, now: float, width: int, height: int) -> list[tuple[str, str]]:
        """What to show: texts and their styles, so many rows at most, the budget last.

        Args:
            now: seconds.
            width: cells of a row; a call and the budget are cut so that their times are seen, other rows are for the
                terminal to cut.
            height: rows.
        """
        rows = [*self._writing(now, width), *self._calling(now, width)]
        room = max(height - 1, 1)
        if len(rows) > room:
            rows = [*rows[: room - 1], (f"         and {len(rows) - room + 1} more", "dim")]
        return [*rows, (self._spent(now, width), "dim")]

    def _writing(self, now: float, width: int) -> Iterator[tuple[str, str]]:
        if self._asked is None:
            return
        doing = "writes" if self._words else "is asked"
        yield f"{self._spin(now)} turn {self.turn}: the model {doing}  {now - self._asked:.1f} s", "cyan"
        room = max(width - 10, 20)
        shown: list[str] = []
        for line in tame(self._words).splitlines()[-_WORD_ROWS:]:
            shown += textwrap.wrap(line, room) or [""]
        for line in shown[-_WORD_ROWS:]:
            yield f"         {line}", ""

    def _calling(self, now: float, width: int) -> Iterator[tuple[str, str]]:
        running = list(self._calls.copy().values())
        for call in running[:_CALL_ROWS]:
            done = ""
            if call.steps or call.steps_ended:
                done = f"  {counted(call.steps_ended, 'step')} done"
            elif call.inside or call.inside_ended:
                done = f"  {counted(call.inside_ended, 'call')} done"
            tail = f"{done}  {now - call.began:.1f} s"
            yield f"{self._spin(now)} {_short(call.text, width - len(tail) - 2)}{tail}", "cyan"
            within = [(f"{name}: {tool}", since) for name, (tool, since) in call.steps.copy().items()]
            within += list(call.inside.copy().values())
            for name, since in within[:_STEP_ROWS]:
                tail = f"  {now - since:.1f} s"
                yield f"    {self._spin(now)} {_short(name, min(width - len(tail) - 6, 80))}{tail}", "cyan"
            if len(within) > _STEP_ROWS:
                yield f"    and {len(within) - _STEP_ROWS} more", "dim"
        if len(running) > _CALL_ROWS:
            yield f"and {counted(len(running) - _CALL_ROWS, 'more call')}", "dim"
        if self._queued:
            names = ", ".join(list(self._queued.copy().values())[:_CALL_ROWS])
            yield f"queued: {len(self._queued)} ({one_line(names, 120)})", "yellow"

    def _spent(self, now: float, width: int) -> str:
        budget = self._budget
        used = self._usage.input_tokens + self._usage.output_tokens
        facts = [f"turn {self.turn}{_of(budget.turns)}", f"{used:,}{_of(budget.tokens)} tokens"]
        if self._cost is not None:
            facts.append(spent(self._cost) + (f"/{spent(budget.cost)}" if budget.cost is not None else ""))
        facts.append(f"{now - self._began:.1f}{_of(budget.seconds)} s")
        while len(facts) > 2 and len(", ".join(facts)) > width:  # turns and seconds stay
            del facts[1]
        return ", ".join(facts)

    def _spin(self, now: float) -> str:
        return self._spinner[int(now * 8) % len(self._spinner)]


def _note_within(call: _Call, told: CallProgress, now: float) -> None:
    match told.event:
        case StepStarted() as started:
            call.steps[started.id] = (started.tool, now)
        case StepEnded() as ended:
            call.steps.pop(ended.step.id, None)
            call.steps_ended += 1
        case CallStarted() as started if started.record.caller == "code":
            call.inside[started.record.id] = (started.record.tool, now)
        case ToolCallEnded() as ended if ended.record.caller == "code":
            call.inside.pop(ended.record.id, None)
            call.inside_ended += 1
        case _:
            pass


def _short(text: str, room: int) -> str:
    """The text on one line, its end left out where there is no room for it."""
    text, room = one_line(text), max(room, _LEAST)
    return text if len(text) <= room else f"{text[: room - 1]}…"


def _of(bound: float | None) -> str:
    return "" if bound is None else f"/{bound:,.10g}"
