"""One run of a task: ask the model, make its calls, tell it what came of them, until there is an end.

1. All that is known of the task is `TaskState`, and it changes by what is told only. So a run that was killed goes on
   from its transcript as this one would have.
2. What the model does wrongly has a way to go on or an end: see `FaultKind`. What leaves `run` is the operator's
   (`ConfigurationError`, `SandboxError` where the mode is ``code``), or a cancellation. Then the task is not finished,
   and can be resumed.
3. The budget is looked at before each request, and bounds the request and the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from callgate.agent.events import (
    Faulted,
    FaultKind,
    Finished,
    MessageAdded,
    ModelAsked,
    ModelReplied,
    Outcome,
    Routed,
    TextArrived,
)
from callgate.agent.models.model import Assistant, Delta, Reply, Usage, User
from callgate.agent.routing.way_back import BELOW, META_OF, form_of, reason_for, words_for, worn_out
from callgate.errors import ContextExceeded, ModelRejected, ModelUnavailable

from .budget import Spent
from .event_log import EventLog
from .offering import Offering, names_of
from .planned import answer_by_plan
from .replies import fit
from .result import AgentResult
from .resume import words_to_go_on
from .setup import Setup
from .task_state import SHORTENED, shortened
from .turn_calls import TurnCalls
from .turn_request import turn_request

__all__ = ["End", "TaskRun", "result_of"]

LAST_WORDS = (
    "This is your last turn, and no tool can be called in it. Answer the task now with what you have, and say what is "
    "missing."
)
_SAY_SOMETHING = "Your reply was empty. Call a tool, or answer the task in words."
_SAY_LESS = "Your reply was cut off at the limit of its length, and nothing in it was done. Say it again, much shorter."


@dataclass(frozen=True, slots=True)
class End:
    """How a task ended."""

    outcome: Outcome
    answer: str = ""
    reason: str = ""


class TaskRun:
    """A run of a task.

    Args:
        setup: of the agent.
        log: with the state of the task, which has begun.
        seconds_before: that it took before this run.
    """

    def __init__(self, setup: Setup, log: EventLog, seconds_before: float = 0.0) -> None:
        self._setup = setup
        self._log = log
        self._state = log.state
        self._before = seconds_before
        self._started = anyio.current_time()
        self._offering = Offering(setup)

    async def run(self) -> AgentResult:
        """Work until there is an end.

        Raises:
            ConfigurationError: an option of the agent, or of its tools, is wrong; the transcript cannot be written.
            SandboxError: no guest can be had, and the mode is ``code``.
        """
        state = self._state
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._offering.close)
            end = await self._open(state.conversation) or await self._until_over()
            state.found = self._offering.conversation.found
        self._log.add(
            Finished(
                outcome=end.outcome,
                answer=end.answer,
                reason=end.reason,
                turns=state.turns,
                usage=state.usage,
                cost=state.cost,
                seconds=self._seconds(),
                tool_calls=state.tool_calls,
            )
        )
        return result_of(self._log)

    async def _until_over(self) -> End:
        if end := await self._beginning():
            return end
        while True:
            spent = self._spent()
            if over := self._setup.budget.over(spent):
                return End("budget", reason=over)
            if end := await self._turn(is_last=self._is_last(spent)):
                return end

    async def _beginning(self) -> End | None:
        state, setup = self._state, self._setup
        if state.has_answered:  # and the run was over before it could say so
            said = state.messages[-1]
            assert isinstance(said, Assistant)
            return End("answered", answer=said.text.strip())
        if state.open_calls:
            asked = self._asked()
            return await self._make_calls(asked.tools, asked.tool_choice)
        if setup.answerer is not None and not state.turns and len(state.messages) == 1:
            with anyio.move_on_after(self._seconds_left()):
                answer = await answer_by_plan(setup, self._log, lambda: setup.budget.over(self._spent()))
                if answer is not None:
                    return End("answered", answer=answer)
        if words := words_to_go_on(state, LAST_WORDS, is_last=self._is_last(self._spent())):
            self._log.add(MessageAdded(turn=state.turns, text=words))
        return None

    # a turn

    async def _turn(self, *, is_last: bool) -> End | None:
        setup, state = self._setup, self._state
        is_said = state.messages[-1] == User(text=LAST_WORDS) or (not state.turns and setup.planner is None)
        if is_last and not is_said:  # in the first turn `tool_choice` says it, but not to a planner that has none
            self._log.add(MessageAdded(turn=state.turns, text=LAST_WORDS))
        request = turn_request(setup, state, self._offering, is_last=is_last)
        turn = state.turns + 1
        asked = anyio.current_time()
        offered = names_of(request.tools)
        self._log.add(
            ModelAsked(turn=turn, messages=len(request.messages), tools=offered, tool_choice=request.tool_choice)
        )
        reply: Reply | None = None
        try:
            with anyio.move_on_after(self._seconds_left()):
                reply = await setup.model.ask(request, on_delta=self._on_delta(turn))
        except ContextExceeded as error:
            if shortened(state.messages) != state.messages:
                self._fault(turn, "too_long", str(error), SHORTENED)
                return None
            return self._ends(turn, "too_long", "too_long", str(error))
        except ModelUnavailable as error:
            return self._ends(turn, "unavailable", "unavailable", str(error))
        except ModelRejected as error:
            return self._ends(turn, "rejected", "rejected", str(error))
        if reply is None:
            return End("budget", reason=setup.budget.over(self._spent()) or "the time for this task is over")
        if setup.planner is not None:
            reply = setup.planner.read(reply)
        reply = fit(reply, request)
        seconds = anyio.current_time() - asked
        return await self._replied(turn, reply, offered, request.tool_choice, seconds, is_last=is_last)

    async def _replied(
        self, turn: int, reply: Reply, offered: tuple[str, ...], choice: str, seconds: float, *, is_last: bool
    ) -> End | None:
        setup, state = self._setup, self._state
        unmade = reply.turn.calls if is_last else ()
        message = Assistant(text=reply.turn.text) if unmade else reply.turn
        self._log.add(
            ModelReplied(
                turn=turn,
                message=message,
                ended=reply.ended,
                usage=reply.usage,
                seconds=seconds,
                cost=setup.prices.cost(setup.model.provider, setup.model.name, reply.usage),
                refusal=reply.refusal,
                attempts=reply.attempts,
            )
        )
        text = message.text.strip()
        if unmade:
            reason = setup.budget.over(self._spent()) or "the budget is spent"
            return End("budget", answer=text, reason=f"{reason}; the model called tools in its last turn")
        match reply.ended:
            case "answered":
                return End("answered", answer=text, reason="it was the last turn of the budget" if is_last else "")
            case "refused":
                return self._ends(turn, "refused", "refused", reply.refusal or text or "the model refused", answer=text)
            case "empty":
                again = state.empty_in_row == 1 and not is_last
                return self._again(turn, "empty", "the reply was empty", _SAY_SOMETHING, again=again)
            case "cut":
                again = state.cut_in_row == 1 and not is_last
                detail = f"the reply was cut after {len(text)} characters"
                return self._again(turn, "cut", detail, _SAY_LESS, again=again, answer=text)
            case _:
                return await self._make_calls(offered, choice)

    def _again(
        self, turn: int, fault: Literal["empty", "cut"], detail: str, words: str, *, again: bool, answer: str = ""
    ) -> End | None:
        if not again:
            return self._ends(turn, fault, fault, f"{detail}, again", answer=answer)
        self._fault(turn, fault, detail, "asked again")
        self._log.add(MessageAdded(turn=turn, text=words))
        return None

    # calls

    async def _make_calls(self, offered: tuple[str, ...], choice: str) -> End | None:
        setup, state = self._setup, self._state
        planner = setup.planner
        calls = TurnCalls(
            self._log,
            self._offering.conversation,
            offered=offered,
            described=() if planner is None else planner.tool_names,
            most_at_once=setup.max_parallel_tool_calls if planner is None else planner.max_parallel_tool_calls,
            result_characters=setup.max_result_characters,
            limits=setup.limits or setup.runtime.limits,
            seconds_left=self._seconds_left,
            over=lambda: setup.budget.over(self._spent()),
            barred=choice == "none" or (planner is None and setup.tool_choice == "none"),
            sandbox_may_fail=state.mode == "auto",
        )
        replies = await calls.make()
        self._log.add(MessageAdded(turn=state.turns, replies=replies))
        verdict = state.turn_verdict
        stopped = calls.stopped or (verdict.words if verdict is not None and verdict.action == "stop" else "")
        if calls.stopped:  # which its call's line says already
            return End("stuck", reason=calls.stopped)
        if stopped:
            return self._ends(state.turns, "loop", "stuck", stopped)
        if verdict is not None and verdict.action == "warn":
            self._fault(state.turns, "loop", verdict.words, "told the model")
            self._log.add(MessageAdded(turn=state.turns, text=verdict.words))
        if planner is None and (end := await self._reroute()):
            return end
        if calls.tools_changed and setup.discovery == "interrupt":
            return End("interrupted", reason=f"tools were found: {', '.join(self._offering.conversation.found)}")
        return None

    async def _reroute(self) -> End | None:
        """Give up a form that failed too often; end where there is none below it."""
        state = self._state
        for form, failed in list(state.failures.items()):
            kind = worn_out(form, failed)
            if kind is None or state.turns not in failed[kind]:
                continue
            if form == "direct":
                return self._ends(state.turns, "loop", "stuck", "direct calls fail, and there is no other way")
            if META_OF[form] not in self._offering.meta:
                continue
            said = next(
                each.text for each in state.ended.values() if each.failure == kind and form_of(each.name) == form
            )
            reason = f"{reason_for(form, kind, len(failed[kind]))} ({said[:200]})"
            self._log.add(Routed(mode=BELOW[form], reason=reason))
            self._log.add(MessageAdded(turn=state.turns, text=words_for(form, kind)))
            if end := await self._open(None):
                return end
        return None

    async def _open(self, found: Mapping[str, Any] | None) -> End | None:
        """Offer what belongs to the mode; what came from elsewhere is loaded again for it, and that takes time."""
        with anyio.move_on_after(self._seconds_left()):
            await self._offering.open(self._state.mode, found)
            return None
        return End("budget", reason=self._setup.budget.over(self._spent()) or "the time for this task is over")

    def _asked(self) -> ModelAsked:
        """The request to which the calls that are open are the reply."""
        asked = [each for each in self._state.events if isinstance(each, ModelAsked)]
        return asked[-1] if asked else ModelAsked(turn=0, messages=0, tools=())

    # ends, time, pieces

    def _ends(self, turn: int, fault: FaultKind, outcome: Outcome, reason: str, answer: str = "") -> End:
        self._fault(turn, fault, reason, "ended")
        return End(outcome, answer=answer, reason=reason)

    def _fault(self, turn: int, fault: FaultKind, detail: str, action: str) -> None:
        self._log.add(Faulted(turn=turn, fault=fault, detail=detail[:2_000], action=action))

    def _seconds(self) -> float:
        return self._before + anyio.current_time() - self._started

    def _spent(self) -> Spent:
        return self._state.spent(self._seconds())

    def _is_last(self, spent: Spent) -> bool:
        setup, tokens = self._setup, self._state.next_tokens
        cost = None
        if setup.budget.cost is not None and tokens:  # at the least: all of it may come from a cache
            usage = Usage(input_tokens=tokens, cached_input_tokens=tokens)
            cost = setup.prices.cost(setup.model.provider, setup.model.name, usage)
        return setup.budget.is_last(spent, Spent(tokens=tokens, cost=cost))

    def _seconds_left(self) -> float:
        return self._setup.budget.seconds_left(self._spent())

    def _on_delta(self, turn: int) -> Callable[[Delta], None] | None:
        if not (self._setup.stream and self._log.is_heard):
            return None

        def tell(delta: Delta) -> None:
            if delta.restarted or delta.text:
                self._log.add(TextArrived(turn=turn, text=delta.text, restarted=delta.restarted))

        return tell


def result_of(log: EventLog) -> AgentResult:
    """What a finished task came to."""
    state = log.state
    end = state.finished
    assert end is not None
    return AgentResult(
        outcome=end.outcome,
        answer=end.answer,
        reason=end.reason,
        usage=state.usage,
        cost=state.cost,
        seconds=end.seconds,
        turns=state.turns,
        model_calls=state.turns + state.planner_calls,
        tool_calls=state.tool_calls,
        routes=tuple(state.routes),
        found=tuple(state.found),
        transcript=None if log.transcript is None else log.transcript.path,
        artifacts=tuple(state.artifacts),
        messages=tuple(state.messages),
        events=tuple(state.events),
    )
