"""Ends a task with its answer: one of a program or a plan, the model's own words, or what a transcript has of either.

1. Words that cannot be the answer are sent back with the reason, twice at most one after the other. A resumption begins
   to count anew, and words that were sent back before it are not counted again.
2. A transcript has no secrets. An answer in it ends the task only if it is whole; otherwise the model gives it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import anyio

from callgate.agent.events import Answered, CallEnded, Faulted, FaultKind, ModelReplied, Outcome, Resumed
from callgate.agent.models.model import Assistant
from callgate.errors import InvalidArguments
from callgate.runtime.final_answer import FinalAnswer

from .event_log import EventLog
from .final_answers import BY_PROGRAM, read_words, text_of
from .offering import Offering
from .redacted import has_redacted

__all__ = ["Answering", "End", "ended", "time_is_over"]

_PATIENCE = 2
"""Answers one after the other that did not end the task, before one in words is taken, or the task ends."""
_NOT_WHOLE = (
    "The task was interrupted when its answer had been given. The answer has secrets, which are not in the transcript "
    "([redacted] stands in their places). Get the values again if you can, and give the whole answer again; otherwise "
    "say what is missing."
)


@dataclass(frozen=True, slots=True)
class End:
    """How a task ended."""

    outcome: Outcome
    answer: str = ""
    reason: str = ""


class Answering:
    """The answers of a task.

    Args:
        log: of the run.
        offering: what the model is offered.
    """

    def __init__(self, log: EventLog, offering: Offering) -> None:
        self._log = log
        self._state = log.state
        self._offering = offering
        self._found = tuple(log.state.events)

    async def found(self) -> End | None:
        """End the task with the answer that it had when it stopped. None if there was none, or if the model has to give
        it again, and has read why."""
        log, state = self._log, self._state
        if state.given is not None:
            return self.given(state.given)
        if not state.has_answered:
            return None
        last, answered = state.messages[-1], state.answered
        assert isinstance(last, Assistant)
        words = last.text.strip()
        if has_redacted([words, answered.json if answered else ""]):
            log.say(state.turns, _NOT_WHOLE)
            return None
        if answered is not None:
            return End("answered", answer=words if answered.by == "model" else text_of(answered.json))
        return await self.words(state.turns, words, is_last=bool(log.over))

    def given(self, call: CallEnded) -> End | None:
        """End the task with the answer of a program or a plan, unless it comes from a transcript and is not whole."""
        if has_redacted(call.answer) and any(event is call for event in self._found):
            self._log.say(self._state.turns, _NOT_WHOLE)
            return None
        by: Literal["program", "plan"] = "plan" if call.name == "execute_tool_plan" else "program"
        self._log.add(Answered(turn=self._state.turns, json=call.answer, by=by))
        return End("answered", answer=text_of(call.answer))

    async def words(self, turn: int, text: str, *, is_last: bool) -> End | None:
        """End the task with the model's words, unless they do not fit, or it has to give its answer by a program."""
        log, options = self._log, self._log.options
        why = "it was the last turn of the budget" if is_last else ""
        if not is_last and self._needs_program() and self._sent_back() < _PATIENCE:
            self._send_back(turn, "the answer came in words", BY_PROGRAM)
            return None
        if not options.is_typed:
            return End("answered", answer=text, reason=why)
        found: FinalAnswer | None = None
        try:
            with anyio.move_on_after(log.seconds_left):
                found = await read_words(options.answer_type, text)
        except InvalidArguments as error:
            detail = error.message
            if is_last or self._sent_back() >= _PATIENCE:
                return ended(log, turn, "answer", "unfit", f"the answer does not fit: {detail}", answer=text)
            self._send_back(turn, detail, f"Your answer does not fit: {detail[:2_000]}. Give it again, whole.")
            return None
        if found is None:  # a check has taken the rest of the time
            return time_is_over(log)
        log.add(Answered(turn=turn, json=found.json, by="model"))
        return End("answered", answer=text, reason=why)

    def _needs_program(self) -> bool:
        """Whether an answer in words is sent back. A model that was asked to repeat a program's answer in words may."""
        asked = any(isinstance(event, CallEnded) and event.again for event in self._state.events)
        return self._offering.requires_program and not asked

    def _send_back(self, turn: int, detail: str, words: str) -> None:
        if not self._is_counted():
            self._log.fault(turn, "answer", detail, "asked again")
        self._log.say(turn, words)

    def _sent_back(self) -> int:
        """Answers since the last calls, or the last resumption, that did not end the task."""
        count = 0
        for event in reversed(self._state.events):
            if isinstance(event, CallEnded | Resumed):
                break
            count += isinstance(event, Faulted) and event.fault == "answer"
        return count

    def _is_counted(self) -> bool:
        """Whether the last reply was sent back before, and the task was interrupted then."""
        for event in reversed(self._state.events):
            if isinstance(event, ModelReplied):
                break
            if isinstance(event, Faulted) and event.fault == "answer":
                return True
        return False


def ended(log: EventLog, turn: int, fault: FaultKind, outcome: Outcome, reason: str, answer: str = "") -> End:
    """End a task for a fault."""
    log.fault(turn, fault, reason, "ended")
    return End(outcome, answer=answer, reason=reason)


def time_is_over(log: EventLog) -> End:
    """End a task whose time is spent."""
    return End("budget", reason=log.over or "the time for this task is over")
