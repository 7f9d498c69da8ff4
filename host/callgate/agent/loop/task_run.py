"""One run of a task: ask the model, make its calls, hand it the answers, until there is an end.

1. `TaskState` holds everything that is known of the task, and changes by events only. So a run that was killed goes on
   from its transcript as this one would have.
2. Every mistake of the model has a way to go on or an end: see `FaultKind`. `run` raises only errors of the operator
   (`ConfigurationError`, `SandboxError` where the mode is ``code``) and cancellations. Then the task is not finished,
   and can be resumed.
3. The budget is looked at before each request, and bounds the request and the calls.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import anyio

from callgate.agent.events import Finished, MessageAdded, ModelAsked, ModelReplied, Routed, ToolsFound
from callgate.agent.models.fitting import fit
from callgate.agent.models.messages_json import estimated
from callgate.agent.models.model import Assistant, Reply, Request, Usage, User
from callgate.agent.models.traced import chat
from callgate.agent.routing.way_back import BELOW, META_OF, form_of, reason_for, words_for, worn_out
from callgate.errors import ContextExceeded, ModelError, ModelRejected, ModelUnavailable
from callgate.runtime.gate.watching import Origin, origin

from .answering import Answering, End, ended, time_is_over
from .budget import Spent
from .early_programs import EarlyPrograms, early_programs
from .event_log import CallHere, EventLog, call_here
from .offering import Offering, names_of
from .planned import answer_by_plan
from .repairs import LOST, Repairs
from .result import AgentResult, result_of
from .resume import words_to_go_on
from .shortening import SHORTENED, shortened
from .traced import traced_task
from .turn_calls import TurnCalls
from .turn_request import turn_request

__all__ = ["LAST_WORDS", "TaskRun"]

LAST_WORDS = (
    "This is your last turn, and no tool can be called in it. Answer the task now with what you have, and say what is "
    "missing."
)
_SAY_SOMETHING = "Your reply was empty. Call a tool, or answer the task in words."
_SAY_LESS = "Your reply was cut off at the limit of its length, and nothing in it was done. Say it again, much shorter."


class TaskRun:
    """One run of a task that has begun.

    Args:
        log: of the run.
    """

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._options = log.options
        self._state = log.state
        self._offering = Offering(log.options, log.state.task.id)
        self._answering = Answering(log, self._offering)
        self._repairs = Repairs()

    async def run(self) -> AgentResult:
        """Work until there is an end.

        Raises:
            ConfigurationError: an option of the agent, or of its tools, is wrong; the transcript cannot be written.
            SandboxError: no guest can be had, and the mode is ``code``.
        """
        before, outer = origin.get(), call_here.get()
        around = before or Origin()
        origin.set(replace(around, task=self._state.task.id, outer_task=around.task))
        call_here.set(CallHere(self._log, 0, ""))
        try:
            with traced_task(self._log), self._log.running():
                return await self._run()
        finally:
            origin.set(before)
            call_here.set(outer)

    async def _run(self) -> AgentResult:
        log, state = self._log, self._state
        try:
            end = await self._open(state.conversation) or await self._until_over()
        finally:
            await self._offering.close()
        log.add(
            Finished(
                outcome=end.outcome,
                answer=end.answer,
                reason=end.reason,
                turns=state.all_turns,
                usage=state.usage,
                cost=state.cost,
                seconds=log.seconds,
                tool_calls=state.tool_calls,
            )
        )
        return result_of(state, log.transcript, log.options, log.redacted, self._offering.artifacts)

    async def _until_over(self) -> End:
        end = await self._beginning()
        while end is None:
            over = self._log.over
            end = End("budget", reason=over) if over else await self._turn(is_last=self._is_last())
        return end

    async def _beginning(self) -> End | None:
        state, options = self._state, self._options
        if end := await self._answering.found():
            return end
        if state.open_calls:
            asked = [each for each in state.events if isinstance(each, ModelAsked)]
            end = await self._make_calls(asked[-1] if asked else ModelAsked(turn=0, messages=0, tools=()))
            if end is None and state.lost:
                self._log.say(state.turns, LOST)
            return end
        if options.answerer is not None and not state.turns and len(state.messages) == 1:
            with anyio.move_on_after(self._log.seconds_left):
                answer = await answer_by_plan(self._log)
                if answer is not None:
                    end = await self._answering.words(state.turns, answer, is_last=bool(self._log.over))
                    if end is not None:
                        return end
        if words := words_to_go_on(state, LAST_WORDS, is_last=self._is_last()):
            self._log.say(state.turns, words)
        return None

    # a turn

    async def _turn(self, *, is_last: bool) -> End | None:
        log, state, options = self._log, self._state, self._options
        knows = state.messages[-1] == User(text=LAST_WORDS) or (not state.turns and options.planner is None)
        if is_last and not knows:  # in the first turn `tool_choice` says it, but not to a planner that has none
            log.say(state.turns, LAST_WORDS)
        request = turn_request(options, state, self._offering, is_last=is_last, pictures=log.pictures)
        if log.outer is not None and not state.turns and (why := self._too_large(request)):
            return End("budget", reason=why)
        asked = ModelAsked(
            turn=state.turns + 1,
            messages=len(request.messages),
            tools=names_of(request.tools),
            tool_choice=request.tool_choice,
        )
        log.add(asked)
        writes = asked.tool_choice != "none" and not is_last and options.stream and options.planner is None
        offered = asked.tools if writes else ()
        at_once = options.max_parallel_tool_calls
        after = self._repairs.after
        async with early_programs(self._offering.conversation, asked.turn, offered, at_once, after) as early:
            return await self._reply(asked, request, early, is_last=is_last)

    async def _reply(
        self, asked: ModelAsked, request: Request, early: EarlyPrograms | None, *, is_last: bool
    ) -> End | None:
        log, options = self._log, self._options
        began = log.seconds
        reply: Reply | None = None
        listener = log.listener(asked.turn)
        try:
            with anyio.move_on_after(log.seconds_left):
                on_delta = listener if early is None else early.beside(listener)
                reply = await chat(options.model, request, on_delta=on_delta)
        except (ContextExceeded, ModelUnavailable, ModelRejected) as error:
            return self._not_answered(asked.turn, error)
        if reply is None:
            return time_is_over(self._log)
        if options.planner is not None:
            reply = options.planner.read(reply)
        reply = fit(reply, request)
        if reply.ended in ("cut", "refused") and reply.turn.calls:  # they are not made, and would stay without a result
            reply = replace(reply, turn=Assistant(text=reply.turn.text))
        unmade = is_last and bool(reply.turn.calls)
        log.add(
            ModelReplied(
                turn=asked.turn,
                message=Assistant(text=reply.turn.text) if unmade else reply.turn,
                ended=reply.ended,
                usage=reply.usage,
                seconds=log.seconds - began,
                cost=options.cost(reply.usage),
                refusal=reply.refusal,
                attempts=reply.attempts,
            )
        )
        if unmade:
            reason = f"{log.over or 'the budget is spent'}; the model called tools in its last turn"
            return End("budget", answer=reply.turn.text.strip(), reason=reason)
        return await self._replied(asked, reply, early, is_last=is_last)

    def _too_large(self, request: Request) -> str:
        """Why the first request of a task inside another one would go beyond what is reserved for it; empty if it would
        not. Many small parts would together be exceeded by as many requests."""
        usage, budget = estimated(request, Assistant(text="")), self._log.budget
        tokens, cost = usage.input_tokens, self._options.cost(usage)
        if budget.tokens is not None and tokens > budget.tokens:
            return f"its first request has about {tokens} tokens, and {budget.tokens} are left for it"
        if budget.cost is not None and cost is not None and cost > budget.cost:
            return f"its first request costs about {cost:.2g} dollars, and {budget.cost:.2g} are left for it"
        return ""

    def _not_answered(self, turn: int, error: ModelError) -> End | None:
        if not isinstance(error, ContextExceeded):
            kind: Literal["unavailable", "rejected"] = "rejected"
            if isinstance(error, ModelUnavailable):
                kind = "unavailable"
            return ended(self._log, turn, kind, kind, str(error))
        if shortened(self._state.messages) == self._state.messages:
            return ended(self._log, turn, "too_long", "too_long", str(error))
        self._log.fault(turn, "too_long", str(error), SHORTENED)
        return None

    async def _replied(
        self, asked: ModelAsked, reply: Reply, early: EarlyPrograms | None, *, is_last: bool
    ) -> End | None:
        state, turn, text = self._state, asked.turn, reply.turn.text.strip()
        match reply.ended:
            case "answered":
                return await self._answering.words(turn, text, is_last=is_last)
            case "refused":
                why = reply.refusal or text or "the model refused"
                return ended(self._log, turn, "refused", "refused", why, answer=text)
            case "empty" | "cut" as fault:
                detail = f"the reply was {'empty' if fault == 'empty' else f'cut after {len(text)} characters'}"
                if is_last or state.in_row > 1:
                    return ended(self._log, turn, fault, fault, f"{detail}, again", answer=text)
                self._log.fault(turn, fault, detail, "asked again")
                self._log.say(turn, _SAY_SOMETHING if fault == "empty" else _SAY_LESS)
                return None
            case _:
                return await self._make_calls(asked, early)

    # calls

    async def _make_calls(self, asked: ModelAsked, early: EarlyPrograms | None = None) -> End | None:
        log, state = self._log, self._state
        calls = TurnCalls(log, self._offering.conversation, asked, early, self._repairs)
        log.add(MessageAdded(turn=state.turns, replies=await calls.make()))
        if state.given is not None and not calls.stopped:
            return self._answering.given(state.given)
        verdict = state.turn_verdict
        if calls.stopped:  # which its call's line says already
            return End("stuck", reason=calls.stopped)
        if verdict.action == "stop":
            return ended(self._log, state.turns, "loop", "stuck", verdict.words)
        if verdict.action == "warn":
            log.fault(state.turns, "loop", verdict.words, "told the model")
            log.say(state.turns, verdict.words)
        if self._options.planner is None and (end := await self._way_back()):
            return end
        if calls.tools_changed and self._options.discovery == "interrupt":
            return End("interrupted", reason=f"tools were found: {', '.join(state.found)}")
        return None

    async def _way_back(self) -> End | None:
        """Withdraw a form that failed too often; end the task where no simpler form is left."""
        state = self._state
        for form, failed in list(state.failures.items()):
            kind = worn_out(form, failed)
            if kind is None or state.turns not in failed[kind]:
                continue
            if form == "direct":
                return ended(self._log, state.turns, "loop", "stuck", "direct calls fail, and there is no other way")
            if META_OF[form] not in self._offering.meta:
                continue
            last = next(
                each.text for each in state.ended.values() if each.failure == kind and form_of(each.name) == form
            )  # fmt: skip
            reason = f"{reason_for(form, kind, len(failed[kind]))} ({last[:200]})"
            self._log.add(Routed(mode=BELOW[form], reason=reason))
            self._log.say(state.turns, words_for(form, kind))
            if end := await self._open(None):
                return end
        return None

    async def _open(self, found: Mapping[str, Any] | None) -> End | None:
        """Offer the tools of the mode. Tools from a loader are loaded again, which takes time."""
        state = self._state
        with anyio.move_on_after(self._log.seconds_left):
            await self._offering.open(state.mode, found)
            conversation = self._offering.conversation
            if conversation.found != state.found:  # a tool that was found is not there any more
                self._log.add(ToolsFound(turn=state.turns, tools=conversation.found, state=conversation.state()))
            return None
        return time_is_over(self._log)

    # time

    def _is_last(self) -> bool:
        options, budget, tokens = self._options, self._log.budget, self._state.next_tokens
        cost = None
        if budget.cost is not None and tokens:  # at the least: all of it may come from a cache
            cost = options.cost(Usage(input_tokens=tokens, cached_input_tokens=tokens))
        return budget.is_last(self._log.spent, Spent(tokens=tokens, cost=cost))
