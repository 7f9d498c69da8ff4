"""The calls of one turn: made at the same time, a bounded number at once, the others waiting; every one is answered.

1. Every call gets an answer in words for the model: a mistake in the call, an unknown tool, a failure, or why the call
   was not made because it repeats earlier calls or the time is over.
2. An event says that a call begins before it is made, and another that it has ended before its answer is used.
3. Only errors of the operator are raised: `ConfigurationError` and `SandboxError`. Then no call is left under way.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import Any

import anyio

from callgate.agent.events import (
    CallBegan,
    CallEnded,
    CallProgress,
    CallsQueued,
    FaultKind,
    ModelAsked,
    ToolsFound,
)
from callgate.agent.models.model import ToolCall, ToolReplies, ToolReply
from callgate.agent.routing.way_back import failure_of
from callgate.errors import ConfigurationError, SandboxError
from callgate.runtime import Answer, CodeResult, Conversation, Event, PlanResult
from callgate.runtime.answers import CallOptions
from callgate.runtime.gate.watching import Origin, origin
from callgate.runtime.model.meta import META_TOOLS
from callgate.runtime.result import cut

from .early_programs import EarlyPrograms
from .event_log import CallHere, EventLog, call_here
from .final_answers import given_answer, why_again
from .repairs import KEPT, Repairs
from .repetition import GO_ON

__all__ = ["MAX_MADE", "TurnCalls"]

MAX_MADE = 64
"""Calls of a turn that are made; each further one is answered with this limit."""
_AGAIN = "\nThat answer did not end the task: {why}. If it is right all the same, give it again in your own words."
_GRACE_SECONDS = 2.0
"""The time that a call has beyond its own limit before it is cancelled. A plan or a program reports its steps then."""
_SEARCHES = ("search_tools", "describe_tools")
"""Searches have no limit of their own but the loader's, and no partial result."""
_TURN_CHARACTERS = 1_000_000
"""Of all results of a turn, about."""


class TurnCalls:
    """Makes the calls of a turn.

    Args:
        log: of the run.
        conversation: answers the calls.
        asked: the request that the calls reply to. It names the tools that the model was offered; none where
            the tools were described in words.
        early: programs of the turn that began while the model wrote them.
        repairs: the failed programs of earlier turns.
    """

    def __init__(
        self,
        log: EventLog,
        conversation: Conversation,
        asked: ModelAsked,
        early: EarlyPrograms | None = None,
        repairs: Repairs | None = None,
    ) -> None:
        options = log.options
        planner = options.planner
        self._log = log
        self._state = log.state
        self._conversation = conversation
        self._early = early
        self._repairs = repairs or Repairs()
        self._after = self._repairs.after
        self._offered = asked.tools
        self._described = () if planner is None else planner.tool_names
        self._most = options.max_parallel_tool_calls if planner is None else planner.max_parallel_tool_calls
        self._limits = options.limits or options.runtime.limits
        self._barred = asked.tool_choice == "none" or (planner is None and options.tool_choice == "none")
        self._sandbox_may_fail = self._state.mode == "auto"
        share = _TURN_CHARACTERS // max(len(self._state.open_calls), 1)
        self._characters = min(options.max_result_characters, max(share, 200))
        self.tools_changed = False
        self.stopped = ""
        """Why the task is to end, where the guard said so."""

    async def make(self) -> ToolReplies:
        """Make the calls of the turn that have not ended, and return the answers to all of its calls.

        Raises:
            ConfigurationError: the operator's mistake.
            SandboxError: no guest can be had.
        """
        state = self._state
        waiting = deque(state.unanswered)
        if surplus := list(waiting)[MAX_MADE:]:
            names = ", ".join(dict.fromkeys(call.name[:60] for call in surplus))[:500]
            self._fault("surplus", f"{len(surplus)} calls beyond {MAX_MADE}, of {names}")
        for call in surplus:
            waiting.remove(call)
            self._refuse(call, f"this call was not made: a turn has at most {MAX_MADE} calls. Make it in the next.")
        if len(waiting) > self._most:
            queued = tuple(call.id for call in list(waiting)[self._most :])
            self._log.add(CallsQueued(turn=state.turns, running=self._most, queued=queued))
        raised: list[Exception] = []
        async with anyio.create_task_group() as group:

            async def work() -> None:
                try:
                    while waiting:
                        await self._one(waiting.popleft())
                except (ConfigurationError, SandboxError) as error:
                    raised.append(error)
                    group.cancel_scope.cancel()

            for _ in range(min(self._most, len(waiting))):
                group.start_soon(work)
        if raised:
            raise raised[0]
        return ToolReplies(replies=tuple(map(self._reply, state.open_calls)))

    def _reply(self, call: ToolCall) -> ToolReply:
        ended, warning = self._state.ended[call.id], self._state.warnings.get(call.id)
        text = f"{ended.text}\n{warning.words}" if warning else ended.text
        return ToolReply(id=call.id, name=call.name, text=text, ok=ended.ok, pictures=ended.pictures)

    async def _one(self, call: ToolCall) -> None:
        log, state = self._log, self._state
        over = "the time for this task is over" if log.seconds_left <= 0 else log.over
        if why := "the task ends here" if self.stopped else over:
            self._refuse(call, f"this call was not made: {why}.")
            return
        verdict = state.repetition.verdict(call)
        if verdict is not GO_ON:
            if verdict.action == "stop":
                self.stopped = verdict.words
            self._fault(verdict.fault, verdict.words, "ended" if self.stopped else "refused the call")
            self._refuse(call, verdict.words)
            return
        started = anyio.current_time()
        log.add(CallBegan(turn=state.turns, id=call.id, name=call.name, arguments=call.arguments))
        before, here = origin.get(), call_here.get()
        origin.set(replace(before or Origin(), turn=state.turns, call=call.id[:256]))
        call_here.set(CallHere(log, state.turns, call.id))
        try:
            answer = await self._answer(call)
        finally:
            origin.set(before)
            call_here.set(here)
        failure = failure_of(answer) or ""
        if isinstance(answer, SandboxError):
            answer = Answer(name=call.name[:256], text="Error: programs cannot be run here now.", ok=False)
        elif fault := self._fault_of(call, answer):
            self._fault(fault, f"{call.name[:60]}: {answer.text[:500]}")
        kept = isinstance(answer.result, CodeResult) and self._repairs.ended(answer.result, self._after)
        again = why_again(answer, self._characters, alone=len(state.open_calls) == 1)
        if answer.tools_changed:
            self.tools_changed = True
            found = self._conversation.found
            log.add(ToolsFound(turn=state.turns, tools=found, state=self._conversation.state()))
        log.add(
            CallEnded(
                turn=state.turns,
                id=call.id,
                name=call.name,
                ok=answer.ok,
                text=cut(answer.text, self._characters)
                + (KEPT if kept else "")
                + (_AGAIN.format(why=again) if again else ""),
                seconds=anyio.current_time() - started,
                mistake=answer.mistake,
                tool_calls=_tool_calls(answer),
                run=_run_of(call.id, answer),
                failure=failure,
                pictures=log.keep(answer.pictures),
                answer="" if again else given_answer(answer),
                again=again,
                reusable=bool(self._repairs.after),
            )
        )
        if warning := state.warnings.get(call.id):
            self._fault(warning.fault, warning.words)

    async def _answer(self, call: ToolCall) -> Answer | SandboxError:
        if self._barred:
            text = f"the call of {call.name[:60]!r} was not made: no tool can be called in this task. Answer in words."
            return _mistake(call, text)
        if call.fault:
            text = f"the arguments of {call.name[:60]!r} cannot be used: {call.fault[:500]}. The call was not made."
            return _mistake(call, text)
        if self._is_taken_away(call):
            return _mistake(call, f"{call.name} is not in your list of tools")
        limits, left = self._limits, self._log.seconds_left
        if left < limits.wall_seconds:
            limits = limits.replace(wall_seconds=max(round(left, 3), 0.001))  # the model reads it
        turn = self._state.turns

        def report(event: Event) -> None:
            self._log.add(CallProgress(turn=turn, id=call.id, event=event))

        pictures, after = self._log.options.pictures, self._after or None
        options: CallOptions = {"limits": limits, "pictures": pictures, "on_event": report, "after": after}
        early = None if self._early is None else self._early.of(self._state.open_calls.index(call))
        grace = 0.0 if call.name in _SEARCHES else _GRACE_SECONDS
        try:
            with anyio.move_on_after(limits.wall_seconds + grace):
                if early is None:
                    return await self._conversation.answer(call.name, call.arguments, **options)
                async with early.made(report) as written:
                    return await self._conversation._answer(call.name, call.arguments, options, written)
        except SandboxError as error:
            self._fault("sandbox", str(error)[:500], "told the model" if self._sandbox_may_fail else "raised")
            if not self._sandbox_may_fail:
                raise
            return error
        text = "Error: the time was over before the call had ended: its outcome is unknown, it may have happened."
        return Answer(name=call.name[:256], text=text, ok=False)

    def _fault_of(self, call: ToolCall, answer: Answer) -> FaultKind | None:
        """The model's fault in an answer; None where there is none."""
        if answer.ok:
            return None
        if self._barred or self._is_taken_away(call):
            return "unknown_tool"
        if answer.name == "execute_tool_plan" and not call.fault:  # a model may call it by another name
            return "plan_failed"
        if call.name == "execute_code" and not call.fault:
            return "program_failed"
        if not answer.mistake:
            return None
        known = call.name in self._offered or call.name in self._described
        return "arguments" if known or (not self._described and call.name in META_TOOLS) else "unknown_tool"

    def _is_taken_away(self, call: ToolCall) -> bool:
        return bool(self._offered) and call.name in META_TOOLS and call.name not in self._offered

    def _refuse(self, call: ToolCall, why: str) -> None:
        """Answer a call that is not made."""
        text = cut(f"Error: {why}", self._characters)
        self._log.add(
            CallEnded(
                turn=self._state.turns, id=call.id, name=call.name, ok=False, text=text, seconds=0.0, mistake=True,
                tool_calls=0,
            )
        )  # fmt: skip

    def _fault(self, fault: FaultKind, detail: str, action: str = "told the model") -> None:
        self._log.fault(self._state.turns, fault, detail, action)


def _run_of(id: str, answer: Answer) -> dict[str, Any] | None:
    """The record of a plan or a program for people, which the model does not receive; None for any other call."""
    match answer.result:
        case PlanResult() as run:
            return {"kind": "plan", "id": id, **run.to_dict()}
        case CodeResult() as run:
            return {"kind": "code", "id": id, **run.to_dict()}
        case _:
            return None


def _tool_calls(answer: Answer) -> int:
    match answer.result:
        case PlanResult() | CodeResult() as run:
            return sum(not call.reused for call in run.calls)
        case None:
            return 0 if answer.mistake else 1
        case _:
            return 0


def _mistake(call: ToolCall, why: str) -> Answer:
    return Answer(name=call.name[:256], text=f"Error: {why}", ok=False, mistake=True)
